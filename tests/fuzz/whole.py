"""Random whole kernels: phases between barriers, views of shared tiles, folds, helpers, in control flow of two times.

    python tests/fuzz/whole.py 1000 300                 # first seed, kernels

In: a seed.  Out: ``Program``; plain Python runs the same source thread by thread (``whole_model.py``).

Loops and conditions that all threads share hold barriers, copies of tiles, folds of warps and blocks; some the kernel
decides, some tracing.  Between barriers each thread runs what ``pythonic.py`` draws, and reads through drawn views.
In each phase an array is either written, each thread its own cells, or read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "cases"),
                    str(Path(__file__).parents[2] / "src")]

import numpy as np

from fuzz import command, extremes, on_emulator, pythonic, whole_model
from fuzz.pythonic import LIMIT, RESULTS, THREADS, Program

HEAD = pythonic.HEAD + """
class Sum:
    start = 0

    def __init__(self, first=0):
        self.total, self.count = first + self.start, 0

    @property
    def doubled(self):
        return self.total * 2

    def add(self, value):
        self.total = (self.total + value) % 1009
        self.count += 1


class Largest(Sum):
    start = -5

    @mo.jit
    def add(self, value):
        super().add(1)
        self.total = max(self.total, value % 100)


class Window:
    # some elements of a row, from a start on that moves
    def __init__(self, row, count, start):
        self.row, self.count, self.start = row, count, start

    @mo.jit
    def __getitem__(self, i):
        at = (self.start + i) % self.count
        return int(self.row[at]) if at != 1 else -int(self.row[0])

    @mo.jit
    def move(self, by):
        if by > 2:
            self.start = by
            return self
        self.start += 1
        return self


@mo.jit
def first_above(row, count, limit, *, skip=0):
    for i in range(count):
        if i < skip:
            continue
        if row[i] > limit:
            return i
    return -1


@mo.jit
def largest(row, count):
    best, at = int(row[0]), 0
    for i in range(1, count):
        x = int(row[i])
        if x > best:
            best, at = x, i
    return best, at


"""
SHAPES = ((8, 8), (16, 4), (4, 16), (8, 16), (16, 8), (32, 4), (64, 2), (64,), (128,))
GRIDS = {8: ((8, 8),), 16: ((16, 4), (8, 8)), 4: ((4, 16),), 32: ((32, 2), (16, 4)), 64: ((64, 1), (32, 2))}


@dataclass
class Shown:
    """A tensor that may be read: its name, its extents, the shared array that it is of ("" for an argument's)."""

    name: str
    shape: tuple[int, ...]
    of: str
    static: bool = True


@dataclass
class Array:
    """A shared array, and how threads are spread over it."""

    name: str
    shape: tuple[int, ...]
    threads: tuple[int, ...]
    plain: bool
    dtype: str


class Generator(pythonic.Generator):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.rng.seed(f"whole {seed}")
        self.budget = self.rng.randint(8, 18)
        self.ints = ["tid", "n", "m"]
        self.fixed = set(self.ints)
        self.shared_ints = ["n", "m"]       # the same for all threads
        self.shown: list[Shown] = []
        self.arrays: list[Array] = []
        self.rows: list[tuple[str, Shown]] = []
        self.phases = self.rng.randint(3, 8)
        self.quiet = 0                      # in a function, which sees no views

    # --- what pythonic draws, with views ---

    def loaded(self) -> str:
        if not self.shown or self.quiet:
            return self.atom()
        return self.element(self.rng.choice(self.shown))

    def element(self, one: Shown) -> str:
        if len(one.shape) == 2 and self.chance(0.1):
            return f"int({one.name}[({self.index()}) % {one.shape[0] * one.shape[1]}])"
        inner = ", ".join(f"({self.index()}) % {n}" for n in one.shape)
        return f"int({one.name}[{inner}])"

    def index(self) -> str:
        x, y = self.atom(), self.atom()
        return self.rng.choice([x, x, f"{x} + {y}", f"{x} * 3", f"{x} // 2", f"{x} - tid", f"tid // 8 + {y}"])

    def truth(self, depth: int = 1) -> str:
        return super().truth(depth).replace("data[", "(3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3)[0 * ")

    def function(self, name: str, count: int, decorator: str) -> None:
        self.quiet += 1
        super().function(name, count, decorator)
        self.quiet -= 1

    def inside(self, most: int) -> None:
        held = list(self.shown), list(self.rows)
        super().inside(most)
        self.shown, self.rows = held

    def statements(self, most: int) -> None:
        for _ in range(self.rng.randint(1, most)):
            if self.chance(0.5) and self.budget > 0 and not self.quiet:
                self.budget -= 1
                self.rng.choice([self.view, self.view, self.row, self.registers, self.counter, self.another,
                                 self.searched, self.exchanged])()
            else:
                super().statements(1)

    def view(self) -> None:
        """A view of what may be read, under coordinates that the kernel knows, or of parts."""
        if not self.shown:
            return
        one, name = self.rng.choice(self.shown), self.fresh("w")
        made = self.viewed(one)
        if made and (one.static or ":" not in made[0].replace("[:,", "").replace(" :]", "").replace(":, ", "")):
            self.line(f"{name} = {made[0]}")
            self.shown.append(Shown(name, made[1], one.of, one.static))

    def viewed(self, one: Shown) -> tuple[str, tuple[int, ...]] | None:
        shape, at = one.shape, self.index
        if len(shape) == 1:
            n = shape[0]
            if n < 4 or n % 2:
                return None
            return self.rng.choice([(f"mo.tile({one.name}, (2,), (({at()}) % {n // 2},))", (2,)),
                                    (f"{one.name}[1:{n - 1}]", (n - 2,)), (f"{one.name}[::2]", (n // 2,)),
                                    (f"mo.zipped_divide({one.name}, (2,))", (2, n // 2))])
        if len(shape) != 2:
            return None
        r, c = shape
        kinds: list[tuple[str, tuple[int, ...]]] = [
            (f"{one.name}[({at()}) % {r}, :]", (c,)), (f"{one.name}[:, ({at()}) % {c}]", (r,)),
            (f"{one.name}[{min(1, r - 1)}:, :]", (r - min(1, r - 1), c))]
        if r % 2 == 0 and c % 2 == 0:
            kinds += [(f"mo.tile({one.name}, (2, 2), (({at()}) % {r // 2}, ({at()}) % {c // 2}))", (2, 2)),
                      (f"mo.tile({one.name}, ({r // 2}, 2), (({at()}) % 2, None))[:, 1, :]", (r // 2, c // 2)),
                      (f"mo.flat_divide({one.name}, (2, {c // 2}))[({at()}) % 2, :, ({at()}) % {r // 2}, :]",
                       (c // 2, 2)),
                      (f"mo.parallelize({one.name}, mo.make_layout((2, 2)), tid % 4)", (r // 2, c // 2)),
                      (f"mo.zipped_divide({one.name}, (2, 2))[({at()}) % 4, :]", (r * c // 4,)),
                      (f"{one.name}[::2, 1::2]", (r // 2, c // 2))]
        return self.rng.choice(kinds)

    def row(self) -> None:
        """A view in a variable that conditions and loops change."""
        two = [one for one in self.shown if len(one.shape) == 2]
        if not two:
            return
        one, name = self.rng.choice(two), self.fresh("row")
        r, c = one.shape
        self.line(f"{name} = {one.name}[({self.index()}) % {r}, :]")
        new = f"{name} = {one.name}[({self.index()}) % {r}, :]"
        if self.chance(0.5):
            self.line(f"if {self.truth(1)}:")
            self.line(f"    {new}")
        else:
            i, total = self.fresh("i"), self.fresh()
            self.line(f"{total} = 0")
            self.line(f"for {i} in range(({self.atom()}) % 4):")
            self.line(f"    {total} += int({name}[({self.index()}) % {c}])")
            self.line(f"    {new.replace('tid', i)}")
            self.ints.append(total)
        self.shown.append(Shown(name, (c,), one.of, one.static))

    def searched(self) -> None:
        """What helpers and objects find in a row."""
        rows = [one for one in self.shown if len(one.shape) == 1]
        if not rows:
            return
        one, name = self.rng.choice(rows), self.fresh()
        n = one.shape[0]
        way = self.rng.randrange(3)
        if way == 0:
            self.line(f"{name} = first_above({one.name}, {n}, {self.small()}, skip=({self.atom()}) % 3)")
        elif way == 1:
            best = self.fresh()
            self.line(f"{best}, {name} = largest({one.name}, ({self.atom()}) % {n} + 1)")
            self.ints.append(best)
        else:
            window = self.fresh("win")
            self.line(f"{window} = Window({one.name}, {n}, ({self.atom()}) % {n})")
            if self.chance(0.5):
                self.line(f"for {self.fresh('i')} in range(({self.atom()}) % 3):")
                self.line(f"    {window}.move(({self.atom()}) % 5)")
            self.line(f"{name} = {window}.move(({self.atom()}) % {n})[({self.atom()}) % 3]")
        self.ints.append(name)

    def exchanged(self) -> None:
        """Two rows of one array change places in turns, or where a thread says so."""
        two = [one for one in self.shown if len(one.shape) == 2]
        if not two:
            return
        one, x, y = self.rng.choice(two), self.fresh("row"), self.fresh("row")
        r, c = one.shape
        self.line(f"{x}, {y} = {one.name}[({self.index()}) % {r}, :], {one.name}[({self.index()}) % {r}, :]")
        found, i = self.fresh(), self.fresh("i")
        self.line(f"{found} = 0")
        self.line(f"for {i} in {self.rng.choice(['range', 'range', 'mo.static_range'])}({self.rng.choice('0123')}):")
        self.line(f"    {found} += int({x}[({self.atom()}) % {c}]) * ({i} + 1) % {LIMIT}")
        self.line(self.rng.choice([f"    {x}, {y} = {y}, {x}", f"    if {self.truth(1)}:\n" + "    " * self.depth +
                                   f"        {x}, {y} = {y}, {x}"]))
        self.ints.append(found)
        self.shown += [Shown(x, (c,), one.of, one.static), Shown(y, (c,), one.of, one.static)]

    def registers(self) -> None:
        """Registers of a view, computed with and folded."""
        small = [one for one in self.shown if np.prod(one.shape) <= 32 and one.static]
        if not small:
            return
        one, name, out = self.rng.choice(small), self.fresh("f"), self.fresh()
        self.line(f"{name} = mo.make_fragment_like({one.name})")
        self.line(f"mo.copyto({name}, {one.name})")
        for _ in range(self.rng.randint(0, 2)):
            self.line(self.rng.choice([
                f"{name} += ({self.atom()}) % 5", f"{name}[...] = {name} * 2 - ({self.atom()}) % 7",
                f"{name} %= 50", f"{name}[...] = mo.where({name} > ({self.atom()}) % 9, {name}, 3)",
                f"{name}[...] = {name} + {name} % 3"]))
            if self.chance(0.3):
                self.line(f"if {self.truth(1)}:")
                self.line(f"    {name}[{', '.join('0' for _ in one.shape)}] = ({self.atom()}) % 90")
        kinds = [f"int({name}.reduce('add')) % {LIMIT}", f"int({name}.reduce('max'))", f"int({name}.reduce('min'))",
                 f"int({name}.argmax()[1])", f"int({name}.reduce('xor'))"]
        if len(one.shape) == 2:
            kinds.append(f"int({name}.reduce('add', {self.rng.choice('01')})[0])")
        self.line(f"{out} = {self.rng.choice(kinds)}")
        self.ints.append(out)

    def counter(self) -> None:
        """An object of a class with a subclass, whose methods change it."""
        name = self.fresh("c")
        self.line(f"{name} = {self.rng.choice(['Sum', 'Largest'])}({self.small()})")
        self.line(f"{name}.add({self.small()})")
        if self.chance(0.6):
            self.line(f"for {self.fresh('i')} in range(({self.atom()}) % 4):")
            self.line(f"    {name}.add({self.small()})")
        if self.chance(0.6):
            self.line(f"if {self.truth(1)}:")
            self.line(f"    {name}.add({self.small()})")
        self.ints += [f"{name}.total", f"{name}.count", f"{name}.doubled"]
        self.fixed |= {f"{name}.total", f"{name}.count", f"{name}.doubled"}

    def another(self) -> None:
        """One of two views of one shape, by a condition that is an expression."""
        for one in self.rng.sample(self.shown, len(self.shown)):
            alike = [o for o in self.shown if o.shape == one.shape and o.of == one.of and o is not one and
                     o.name[:3] == one.name[:3] == "row"]
            if alike:
                name = self.fresh("row")
                self.line(f"{name} = {one.name} if {self.truth(1)} else {self.rng.choice(alike).name}")
                self.shown.append(Shown(name, one.shape, one.of, one.static))
                return

    # --- what all threads do together ---

    def shared(self) -> str:
        """A number that is the same for all threads."""
        x = self.rng.choice([*self.shared_ints, *self.shared_ints, str(self.rng.randint(0, 5))])
        return self.rng.choice([x, f"({x} + {self.rng.choice(self.shared_ints)})", f"({x} * 3)"])

    def array(self) -> None:
        shape = self.rng.choice(SHAPES)
        name, plain = self.fresh("s"), True
        layout = f"mo.make_layout({shape})"
        way = self.rng.randrange(5)
        if len(shape) == 2 and way == 1:
            layout = f"mo.make_layout({shape}, ({shape[1]}, 1))"
        elif len(shape) == 2 and way == 2:
            layout = f"mo.make_layout({shape}, (1, {shape[0] + self.rng.choice([1, 2, 4])}))"
        elif len(shape) == 2 and way == 3 and shape[0] % 8 == 0:
            layout, plain = f"swizzled(mo.Swizzle(2, 0, 3), mo.make_layout({shape}))", False
        threads = (64,) if len(shape) == 1 else self.rng.choice(GRIDS[shape[0]])
        threads = tuple(min(t, n) for t, n in zip(threads, shape, strict=True))
        dtype = self.rng.choice(["int32", "int32", "int32", "int16", "uint8", "uint16"])
        self.line(f"{name} = mo.shared_array(mo.{dtype}, {layout})")
        self.arrays.append(Array(name, shape, threads, plain, dtype))
        self.fill(self.arrays[-1])

    def guarded(self, array: Array, lines: Sequence[str]) -> None:
        """Statements of the threads that have a part of an array."""
        count = int(np.prod(array.threads))
        if count < THREADS:
            self.line(f"if tid < {count}:")
        for text in lines:
            self.line("    " * (count < THREADS) + text)

    def fill(self, array: Array) -> None:
        """Each thread writes its own cells, from what may be read, and then all meet."""
        mine, one = self.fresh("p"), self.fresh("q")
        self.shown = [o for o in self.shown if o.of != array.name]
        steps = [n // t for n, t in zip(array.shape, array.threads, strict=True)]
        part = f"{mine} = mo.parallelize({array.name}, mo.make_layout({array.threads}), tid)"
        way = self.rng.randrange(4)
        args = [o for o in self.shown if o.shape == array.shape and o.static and o.name.startswith("g")]
        if way == 0 and args and array.dtype == "int32":
            copy, thr = self.fresh("copy"), self.fresh("thr")
            atom = self.rng.choice(["UniversalCopy", "UniversalCopy", "CpAsync"])
            values = [n // t for n, t in zip(array.shape, array.threads, strict=True)]
            values = self.rng.choice([values, [1] * len(values)])
            if np.prod(array.threads) == THREADS:
                source = self.rng.choice(args).name
                shapes = [x if len(x) > 1 else (*x, 1) for x in (tuple(array.threads), tuple(values))] \
                    if len(array.shape) > 1 else [array.threads, tuple(values)]
                self.line(f"{copy} = mo.make_tiled_copy(mo.CopyAtom(mo.{atom}(mo.int32), mo.int32), "
                          f"mo.make_layout({shapes[0]}), mo.make_layout({shapes[1]}))")
                self.line(f"{thr} = {copy}.get_slice(tid)")
                self.line(f"mo.copyto({copy}, {thr}.partition_D({array.name}), {thr}.partition_S({source}))")
                if atom == "CpAsync":
                    self.line("mo.cp_async_wait()")
                self.meet(array)
                return
        value = f"({self.number(1)}) % {self.rng.choice([97, 31, 200])}"
        if way == 1 and args:
            self.guarded(array, [part, f"mo.copyto({mine}, mo.parallelize({self.rng.choice(args).name}, "
                                       f"mo.make_layout({array.threads}), tid))"])
        elif way == 2:
            self.guarded(array, [part, f"{mine}.fill({value})"])
        else:
            loops = [(self.fresh("k"), n) for n in steps]
            lines = [part]
            kinds = self.rng.choice(["range", "mo.static_range"])
            for depth, (k, n) in enumerate(loops):
                lines.append("    " * depth + f"for {k} in {kinds}({n}):")
            inner = "    " * len(loops)
            lines.append(inner + f"{mine}[{', '.join(k for k, _ in loops)}] = ({value} + {loops[0][0]} * 5) % 211")
            self.guarded(array, lines)
        del one
        self.meet(array)

    def meet(self, array: Array) -> None:
        self.line("mo.sync_threads()")
        self.shown.append(Shown(array.name, array.shape, array.name))
        if array.plain and array.dtype == "int32" and len(array.shape) == 1 and self.chance(0.6):
            self.more_views(array)

    def more_views(self, array: Array) -> None:
        """Views of all of a contiguous array: another layout, a composition, halves of its numbers."""
        name, n = self.fresh("w"), array.shape[0]
        kinds = [(f"{array.name}.with_layout(mo.make_layout(({n // 4}, 4)))", (n // 4, 4)),
                 (f"{array.name}.with_layout(mo.make_layout((4, {n // 4}), ({n // 4}, 1)))", (4, n // 4)),
                 (f"mo.composition({array.name}, mo.make_layout((8, {n // 8}), (1, 8)))", (8, n // 8)),
                 (f"mo.composition({array.name}, mo.make_layout(((2, 4), {n // 16}), (({n // 8}, 1), 4)))",
                  (8, n // 16)),
                 (f"mo.recast({array.name}, mo.int16)", (2 * n,)),
                 (f"mo.recast({array.name}, mo.uint8)", (4 * n,))]
        text, shape = self.rng.choice(kinds)
        self.line(f"{name} = {text}")
        self.shown.append(Shown(name, shape, array.name))

    def again(self) -> None:
        """An array is written anew."""
        here = [a for a in self.arrays if any(o.of == a.name for o in self.shown)]
        if here:
            self.line("mo.sync_threads()")
            self.fill(self.rng.choice(here))

    def together(self) -> None:
        """A fold, a scan, a shuffle or a vote."""
        name = self.fresh()
        x, kind = f"({self.number(1)}) % 60", self.rng.choice(["add", "max", "min", "xor"])
        lanes = self.rng.choice([1, 2, 4, 8, 16])
        way = self.rng.randrange(8)
        if way == 0:
            scratch = self.fresh("z")
            self.line(f"{scratch} = mo.shared_array(mo.int32, 32)")
            self.line(f"{name} = mo.block_reduce({x}, {scratch}, '{kind}')")
            self.shared_ints.append(name)
        elif way == 1:
            self.line(f"{name} = mo.warp_reduce({x}, '{kind}', width={2 * lanes})")
        elif way == 2:
            self.line(f"{name} = mo.warp_reduce({x}, '{kind}')")
        elif way == 3:
            self.line(f"{name} = mo.warp_scan({x}, 'add', inclusive={self.chance(0.5)})")
        elif way == 4:
            self.line(f"{name} = mo.popcount(mo.ballot({self.truth(1)}))")
        elif way == 5:
            self.line(f"{name} = int(mo.{self.rng.choice(['vote_any', 'vote_all'])}({self.truth(1)}))")
        elif way == 6:
            self.line(f"{name} = mo.popcount(mo.match_any({x} % 7))")
        else:
            verb = self.rng.choice(["shuffle_xor", "shuffle_up", "shuffle_down", "shuffle_idx"])
            self.line(f"{name} = mo.{verb}({x}, {lanes})")
        self.ints.append(name)
        self.line(f"{name} %= {LIMIT}")

    def uniform(self, most: int) -> None:
        """Statements of all threads together, with barriers among them."""
        for _ in range(self.rng.randint(1, most)):
            if self.phases <= 0:
                break
            self.phases -= 1
            kinds: list[Callable[[], None]] = [self.again] * 3 + [self.together] * 3 + [self.apart] * 3
            if self.depth < 3:
                kinds += [self.uniform_loop] * 3 + [self.uniform_branch] * 2 + [self.array]
            self.rng.choice(kinds)()

    def apart(self) -> None:
        left, self.budget = self.budget, self.rng.randint(3, 7)
        self.statements(5)
        self.budget = left

    def block(self, most: int) -> None:
        """A block of all threads; it leaves each array either written in both ways, or not known."""
        ints, bools, shown, helpers = list(self.ints), list(self.bools), list(self.shown), list(self.helpers)
        shared, arrays, lines = list(self.shared_ints), list(self.arrays), len(self.lines)
        self.depth += 1
        self.uniform(most)
        if len(self.lines) == lines:
            self.line("pass")
        self.line("mo.sync_threads()")
        self.depth -= 1
        self.ints, self.bools, self.helpers, self.shared_ints, self.arrays = ints, bools, helpers, shared, arrays
        self.shown = shown

    def uniform_loop(self) -> None:
        i = self.fresh("i")
        bound = self.shared()
        text = self.rng.choice([f"range(({bound}) % 4)", f"range(({bound}) % 3, 4)", "mo.static_range(3)", "(0, 3, 1)",
                                f"mo.range(({bound}) % 4, unroll=2)", "range(2)", f"range(3, ({bound}) % 3, -1)"])
        if self.chance(0.2):
            self.line(f"{i} = ({bound}) % 3")
            self.line(f"while {i} < {self.rng.choice(['4', f'({bound}) % 5'])}:")
            self.line(f"    {i} += 1")
        else:
            self.line(f"for {i} in {text}:")
        self.ints.append(i)
        self.shared_ints.append(i)
        self.fixed.add(i)
        self.block(3)
        self.ints = [v for v in self.ints if v != i]
        self.shared_ints = [v for v in self.shared_ints if v != i]

    def uniform_branch(self) -> None:
        x = self.shared()
        self.line(f"if {self.rng.choice([f'({x}) % 2 == 0', f'{x} > 2', f'{x} in (1, 3, 6)', f'1 <= {x} < 4'])}:")
        self.block(2)
        if self.chance(0.6):
            self.line("else:")
            self.block(2)

    # --- the whole ---

    def program(self) -> Program:
        for k in range(self.rng.randint(0, 2)):
            self.depth, before, self.lines = 0, self.lines, []
            count = self.rng.randint(1, 3)
            self.function(f"h{k}", count, "@mo.jit")
            self.lines = [*before, *self.lines, "", ""]
            self.helpers.append((f"h{k}", count))
        self.depth, name = 0, f"extremes_{self.seed}"
        self.line("@mo.kernel")
        self.line(f"def {name}(out, g0, g1, gs, n, m: mo.Constexpr):")
        self.depth = 1
        self.line("tid = mo.thread_idx().x")
        self.returns = ""
        static = self.chance(0.5)
        if static:
            self.lines[-2] = self.lines[-2].replace("g0, g1, gs", "g0: mo.Static, g1: mo.Static, gs: mo.Static")
        for key, shape in (("0", (16, 8)), ("1", (64,)), ("a", (8, 8)), ("b", (8, 16))):
            if key.isalpha():
                self.line(f"g{key} = gs['{key}']")
            if not static:
                for mode, n in enumerate(shape):
                    self.line(f"mo.assume(mo.size(g{key}, {mode}) % {n} == 0)")
            self.shown.append(Shown(f"g{key}", shape, "", static))
        for _ in range(2):
            self.declare()
        self.array()
        if self.chance(0.6):
            self.array()
        while self.phases > 0:
            self.uniform(4)
        self.budget = 3
        self.statements(2)
        for k in range(RESULTS):
            found = self.rng.choice([*self.targets(), *self.bools, *self.ints, self.loaded(), self.loaded()])
            self.line(f"out[{k}, tid] = int({found})")
        rng = np.random.default_rng(self.seed)
        a, b, c, d = (rng.integers(-30, 90, shape).astype(np.int32) for shape in ((16, 8), 64, (8, 8), (8, 16)))
        arrays = [np.zeros((RESULTS, THREADS), np.int32), np.asfortranarray(a), b, {"a": c, "b": np.asfortranarray(d)},
                  int(rng.integers(0, 9)), int(rng.integers(0, 9))]
        text = HEAD.replace("import moye as mo\n", "import moye as mo\n\n\ndef swizzled(swizzle, layout):\n"
                            "    return mo.ComposedLayout(swizzle, 0, layout)\n")
        return Program(self.seed, text + "\n".join(self.lines) + "\n", arrays, ("out", "g0", "g1", "gs", "n", "m"))


def draw(seed: int) -> Program:
    return Generator(seed).program()


def by_python(one: Program) -> Any:
    """The results of plain Python."""
    arrays = [np.array(x, copy=True, order="K") if isinstance(x, np.ndarray) else x for x in one.arrays]
    text = one.source.replace("mo.ComposedLayout(swizzle, 0, layout)", "layout")
    whole_model.run(text, one.name, arrays, THREADS)
    return arrays[0]


def judged(programs: Sequence[Program], arch: str = on_emulator.ARCH) -> list[str]:
    """What is wrong with some programs, a text each."""
    return extremes.answers(programs, arch, lambda one, *found: pythonic.differ(one, *found, by_python(one)))


if __name__ == "__main__":
    sys.exit(command.in_batches(__doc__, draw, judged, 20))
