"""Random kernels of register tensors as users write them: the simulator, the emulator and NumPy, bit by bit.

    python tests/fuzz/elementwise.py 1000 300           # first seed, programs

In: a seed.  Out: ``Program``: Python source and its arrays.  Fragments of every dtype, long expressions of them with
functions and conversions, folds, masked copies, odd widths and offsets, swizzled shared memory, numbers of 4 bits,
atomics, shuffles.  ``registers.py`` runs the same source on NumPy arrays.

Integers stay within bounds that the generator knows.  Products and sums of floats stay apart in all three answers, but
for those of 16 bits, which moye may fuse: NumPy has no say where such a sum is not exact.
"""

from __future__ import annotations

import linecache
import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "cases"),
                    str(Path(__file__).parents[2] / "src")]

import numpy as np

import moye as mo
from fuzz import command, on_emulator, registers
from fuzz.registers import NUMPY, THREADS
from moye.cuda.printing.printer import print_kernel

FLOATS = ("float16", "bfloat16", "float32")
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "int32", "uint32")
TYPES = (*FLOATS, *FLOATS, *FLOAT8, *INTEGERS)
SHAPES = ((72,), *2 * ((8,), (8,), (16,), (4,), (2,), (6,), (3,), (2, 4), (4, 2), (4, 4), (3, 2)))
LIMIT = {"int8": 127, "uint8": 255, "int16": 32767, "int32": 1 << 30, "uint32": 1 << 30}
_SIGNS = {"add": "+", "sub": "-", "mul": "*"}
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclass
class Program:
    """Source and arrays: ``a`` are read, ``o`` written, ``w`` words, ``z`` counters of atomics; ``n`` bounds masks."""

    seed: int
    source: str
    arrays: dict[str, Any]

    def arguments(self) -> list[Any]:
        """Fresh copies, where they lie in memory as before."""
        return [_placed(x, *_how(x)) if isinstance(x, np.ndarray) else x for x in self.arrays.values()]


def _how(x: Any) -> tuple[str, int]:
    order = "C" if x.flags.c_contiguous else "F"
    return order, x.ctypes.data % 32 // x.itemsize


def _placed(x: Any, order: str, lead: int) -> Any:
    """A copy of an array that begins some elements behind a multiple of 32 bytes."""
    room = np.zeros(x.nbytes + 64 + lead * x.itemsize, np.uint8)
    start = -room.ctypes.data % 32 + lead * x.itemsize
    held = room[start:start + x.nbytes].view(x.dtype).reshape(x.shape, order=order)
    held[...] = x
    return held


def draw(seed: int) -> Program:
    return _Generator(seed).program()


class _Generator:
    """Writes one kernel, statement by statement."""

    def __init__(self, seed: int) -> None:
        self.rng, self.seed = random.Random(f"elementwise {seed}"), seed
        self.shape = self.rng.choice(SHAPES)
        self.depth = 6 if math.prod(self.shape) <= 16 else 2    # of expressions: loops are unrolled
        self.types = list(dict.fromkeys(self.rng.choice(TYPES) for _ in range(3)))
        if not set(self.types) & set(FLOATS):
            self.types.append(self.rng.choice(FLOATS))
        self.whole = self.rng.random() < 0.5            # whether masks are bounds of arrays that end early
        self.n = self._extents()[-1] - self.rng.choice([0, 1, 2, 3, 5, 9]) * self.whole
        self.lines: list[str] = []
        self.held: list[tuple[str, str, int]] = []      # name, dtype, bound of integers
        self.numbers: list[tuple[str, str]] = [("s", "float32")]        # scalars: name, dtype
        self.arrays: dict[str, Any] = {}
        self.count = 0

    # --- arrays ---

    def _extents(self) -> tuple[int, ...]:
        return (*self.shape[:-1], self.shape[-1] * THREADS)

    def _array(self, name: str, t: str, fill: bool) -> str:
        """An array of the tiles of all threads, in some order, at some alignment."""
        extents = (*self.shape[:-1], self.n)
        dtype, rng = NUMPY[t], np.random.default_rng([self.seed, len(self.arrays)])
        x = np.zeros(extents, dtype)
        if fill:
            if t in INTEGERS:
                low = 0 if t.startswith("u") else -100
                x[...] = rng.integers(low, 100, extents)
            else:
                x[...] = (rng.integers(-24, 25, extents) / rng.choice([1, 2, 4, 8])).astype(dtype)
                x[rng.integers(0, 16, extents) == 0] = -0.0
        lead = self.rng.choice([0, 0, 0, 1, 2, 3, 4, 5])
        self.arrays[name] = _placed(x, self.rng.choice("CF"), lead)
        return name

    def tile(self, name: str, ragged: bool) -> str:
        tid = ", ".join(["0"] * (len(self.shape) - 1) + ["tid"])
        return f"mo.tile({name}, {self.shape}, ({tid},){', ragged=True' if ragged else ''})"

    def inside(self) -> str:
        """A predicate: the array ends there, or something else says so."""
        if not self.whole and self.rng.random() < 0.5:
            name, t, _ = self.rng.choice(self.held)
            return f"({name} {self.rng.choice(COMPARISONS)} {self.literal(t)})"
        return "inside"

    # --- values ---

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def fresh(self) -> str:
        self.count += 1
        stem = self.rng.choice(["r", "x", "part", "value_of_it"])
        return f"{stem}{self.count}"

    def literal(self, t: str) -> str:
        if t in INTEGERS:
            return str(self.rng.choice([0, 1, 2, 3, 5, 7, 20]))
        return self.rng.choice(["0.5", "1.0", "0.125", "2.0", "3.0", "0.0", *(["0.1", "-0.25"] if t != "x" else [])])

    def leaf(self, t: str) -> tuple[str, int]:
        """(text, bound): a fragment, converted if it is of another dtype, a number, or a constant."""
        if self.chance(0.75):
            own = [x for x in self.held if x[1] == t]
            name, of, bound = self.rng.choice(own if own and self.chance(0.7) else self.held)
            return (name, bound) if of == t else self.converted(name, of, bound, t)
        found = [x for x, of in self.numbers if of == t]
        if found and self.chance(0.5):
            return self.rng.choice(found), LIMIT.get(t, 0)
        text = self.literal(t)
        return f"mo.{t}({text})", int(float(text)) if t in INTEGERS else 0

    def converted(self, text: str, of: str, bound: int, t: str) -> tuple[str, int]:
        if t in INTEGERS and of not in INTEGERS:
            return f"{text}.to(mo.{t})", LIMIT[t] if t not in ("int32", "uint32") else 1 << 31
        if t in INTEGERS and of in INTEGERS:
            low = 0 if t.startswith("u") or of.startswith("u") else -100
            return f"mo.min(mo.max({text}, {low}), 100).to(mo.{t})", 100
        return f"{text}.to(mo.{t})", 0

    def expression(self, t: str, depth: int) -> tuple[str, int]:
        if depth <= 0 or self.chance(0.08):
            return self.leaf(t)
        if t in INTEGERS:
            return self.integer(t, depth)
        kind = self.rng.choice(["binary"] * 8 + ["call", "call", "where", "fma", "cast"])
        if t in FLOAT8:
            kind = "cast"
        if kind == "binary":
            op = self.rng.choice(["+", "-", "*", "+", "*"])
            return f"({self.of(t, depth)} {op} {self.of(t, depth)})", 0
        if kind == "call":
            return self.called(t, depth), 0
        if kind == "where":
            return f"mo.where({self.truth(depth - 1)}, {self.of(t, depth)}, {self.of(t, depth)})", 0
        if kind == "fma":
            return f"mo.fma({self.of(t, depth)}, {self.of(t, depth)}, {self.of(t, depth)})", 0
        other = self.rng.choice([x for x in self.types if x != t] or [t])
        text, bound = self.expression(other, depth - 1)
        return (text, 0) if other == t else self.converted(text, other, bound, t)

    def of(self, t: str, depth: int) -> str:
        return self.expression(t, depth - 1 - self.chance(0.3))[0]

    def called(self, t: str, depth: int) -> str:
        a = self.of(t, depth)
        return self.rng.choice([
            f"mo.abs({a})", f"(-{a})", f"mo.max({a}, {self.of(t, depth)})", f"mo.min({a}, {self.of(t, depth)})",
            f"mo.floor({a})", f"mo.ceil({a})", f"mo.sqrt(mo.abs({a}))", f"({a} / (mo.abs({self.of(t, depth)}) + 1.0))"])

    def integer(self, t: str, depth: int) -> tuple[str, int]:
        """Within the bounds of the dtype; what is unsigned is not subtracted."""
        (a, low), (b, high) = self.expression(t, depth - 1), self.expression(t, depth - 1 - self.chance(0.4))
        kind = self.rng.choice(["add", "add", "mul", "sub", "and", "or", "max", "min", "where", "shr", "mod", "div"])
        signed = not t.startswith("u")
        if kind == "where":
            return f"mo.where({self.truth(depth - 1)}, {a}, {b})", max(low, high)
        if kind in ("min", "max"):
            return f"mo.{kind}({a}, {b})", max(low, high)
        if kind in ("and", "or"):
            sign = {"and": "&", "or": "|"}[kind]
            return f"({a} {sign} {b})", 2 * max(low, high, 1)
        if kind == "shr":
            return f"({a} >> {self.rng.randint(1, 3)})", max(low, 1)
        if kind in ("mod", "div"):
            by = self.rng.choice([2, 3, 4, 7, 8])
            return (f"({a} % {by})", by) if kind == "mod" else (f"({a} // {by})", low + 1)
        wide = {"add": low + high, "sub": low + high, "mul": low * high}[kind]
        if wide <= LIMIT[t] and (kind != "sub" or signed):
            return f"({a} {_SIGNS[kind]} {b})", wide
        return f"(({a} % 7) * ({b} % 5) + {self.rng.randint(0, 3)})", 40

    def truth(self, depth: int) -> str:
        t = self.rng.choice(self.types)
        if t in FLOAT8:
            t = next(x for x in self.types if x in FLOATS)
        a, b = self.expression(t, min(depth, 2))[0], self.leaf(t)[0]
        text = f"({a} {self.rng.choice(COMPARISONS)} {b})"
        return f"({text} & {self.truth(depth - 1)})" if depth > 0 and self.chance(0.2) else text

    # --- statements ---

    def add(self, line: str) -> None:
        self.lines.append(line)

    def hold(self, name: str, t: str, bound: int) -> None:
        self.held = [x for x in self.held if x[0] != name] + [(name, t, bound)]

    def load(self, t: str) -> None:
        """A fragment from memory: whole, or masked, with zeros or a number elsewhere."""
        name, array = self.fresh(), self._array(f"a{len(self.arrays)}", t, True)
        self.add(f"{name} = mo.fragment({self.layout()}, mo.{t})")
        if not self.whole and (not self.held or self.chance(0.5)):
            self.add(f"mo.copyto({name}, {self.tile(array, False)})")
        else:
            fill = f"other={self.literal(t)}" if self.chance(0.6) and t not in FLOAT8 else "zero_fill=True"
            found = [x for x, of in self.numbers if of == t]
            if found and self.chance(0.5):
                fill = f"other={self.rng.choice(found)}"
            pred = self.inside() if self.held else "inside"
            self.add(f"mo.copyto({name}, {self.tile(array, True)}, pred={pred}, {fill})")
        self.hold(name, t, 100)

    def layout(self) -> str:
        """The shape, or a layout of it: transposed, or with gaps."""
        if len(self.shape) == 2 and self.chance(0.4):
            return f"mo.make_layout({self.shape}, ({self.shape[1]}, 1))"
        if self.chance(0.1):
            return f"mo.make_layout({self.shape}, {(2, 2 * self.shape[0])[:len(self.shape)]})"
        return str(self.shape)

    def compute(self) -> None:
        """A new tensor, or one that is written in place."""
        t = self.rng.choice([*self.types, *(x for x in self.types if x in FLOATS)])
        text, bound = self.expression(t, self.rng.randint(2, self.depth))
        if t in ("float16", "bfloat16") and self.chance(0.5):
            text = self.rounded(t)
        own = [x for x in self.held if x[1] == t]
        if own and self.chance(0.4):
            name = self.rng.choice(own)[0]
            self.add(f"{name}[...] = {text}")
        else:
            name = self.fresh()
            self.add(f"{name} = mo.fragment({self.layout()}, mo.{t})")
            self.add(f"{name}[...] = {text}")
        self.hold(name, t, bound)

    def rounded(self, t: str) -> str:
        """Sums and products of float32 about as long as a line holds, rounded once; some values are used twice."""
        name = self.fresh()
        self.add(f"{name} = {self.expression('float32', 1)[0]} * s")
        parts = [f"{x}.to(mo.float32)" for x, of, _ in self.held if of in FLOATS]
        text = self.rng.choice(parts)
        for _ in range(self.rng.randint(3, 2 * self.depth)):
            sign, other = self.rng.choice("+-*"), self.rng.choice([*parts, *parts, name, self.literal("float32")])
            text = f"({text} {sign} {other})" if self.chance(0.7) else f"({other} {sign} {text})"
        return f"{text}.to(mo.{t})"

    def sums(self) -> None:
        """Sums and products alone, which words and pairs of registers have instructions for."""
        own = [x for x in self.held if x[1] in FLOATS]
        if not own:
            return
        t = self.rng.choice(own)[1]
        if self.chance(0.3):
            self.fold()
        names = [*(x[0] for x in self.held if x[1] == t), *(x for x, of in self.numbers if of == t)]
        text, made = self.rng.choice(names), self.fresh()
        for _ in range(self.rng.randint(1, 6)):
            other = self.rng.choice([*names, *names, self.literal(t)])
            text = self.rng.choice([f"({text} + {other})", f"({other} * {text})", f"({text} - {other})", f"(-{text})",
                                    f"({other} - {text})", f"mo.fma({text}, {other}, {self.rng.choice(names)})"])
        self.add(f"{made} = mo.fragment({self.layout()}, mo.{t})")
        self.add(f"{made}[...] = {text}")
        self.hold(made, t, 0)

    def part(self) -> None:
        """Some elements of a tensor from others."""
        if len(self.shape) > 1 or self.shape[0] % 2:
            return
        name, t, bound = self.rng.choice(self.held)
        other, of, far = self.rng.choice(self.held)
        if t in FLOAT8 or of != t:
            return
        parts = ("[::2]", "[1::2]", f"[:{self.shape[0] // 2}]", f"[{self.shape[0] // 2}:]")
        a, b = self.rng.choice(parts), self.rng.choice(parts)
        text = f"mo.max({other}{b}, {name}{a})" if t in INTEGERS else f"{other}{b} * 0.5 + {name}{a}"
        self.add(f"{name}{a} = {text}")
        self.hold(name, t, max(bound, far))

    def fold(self) -> None:
        """A number of a tensor: a fold, an element, or what other lanes hold."""
        name, t, bound = self.rng.choice(self.held)
        if t in FLOAT8:
            return
        made, element = self.fresh(), f"{name}[{', '.join(str(self.rng.randrange(e)) for e in self.shape)}]"
        kinds = [f'{name}.reduce("{self.rng.choice(["min", "max"])}")', element]
        if bound * 16 * THREADS <= LIMIT.get(t, 1 << 60):
            kinds.append(f'{name}.reduce("add")')
            kinds += [f'mo.warp_reduce({element}, "add")'] if t in INTEGERS else []
        if self.chance(0.2):
            self.add(f"{made} = {name}.arg{self.rng.choice(['max', 'min'])}()[1]")
            self.numbers.append((made, "int32"))
            return
        if t in INTEGERS or t == "float32":
            kinds += [f"mo.shuffle_xor({element}, {self.rng.choice([1, 2, 16])})",
                      f"mo.shuffle_idx({element}, {self.rng.randrange(32)})", f'mo.warp_reduce({element}, "max")']
        self.add(f"{made} = {self.rng.choice(kinds)}")
        self.numbers.append((made, t))

    def lanes(self) -> None:
        """A tensor of other lanes."""
        name, t, bound = self.rng.choice(self.held)
        made = self.fresh()
        self.add(f"{made} = mo.shuffle_xor({name}, {self.rng.choice([1, 2, 4, 8, 16])})")
        self.hold(made, t, bound)

    def shared(self) -> None:
        """Through shared memory, swizzled or not, to the tile of another thread."""
        if len(self.shape) > 1 or self.shape[0] & (self.shape[0] - 1):
            return
        name, t, bound = self.rng.choice(self.held)
        sm, made, size = self.fresh(), self.fresh(), self.shape[0] * THREADS
        layout = f"mo.make_layout({size})"
        if self.chance(0.6):
            layout = f"mo.composition(mo.Swizzle(2, {self.rng.choice([0, 1, 2, 3])}, 3), {layout})"
        self.add(f"{sm} = mo.shared_array(mo.{t}, {layout})")
        self.add(f"mo.copyto(mo.tile({sm}, {self.shape}, (tid,)), {name})")
        self.add("mo.sync_threads()")
        self.add(f"{made} = mo.fragment({self.shape}, mo.{t})")
        self.add(f"mo.copyto({made}, mo.tile({sm}, {self.shape}, (tid ^ {self.rng.randrange(32)},)))")
        self.hold(made, t, bound)

    def words(self) -> None:
        """Numbers of four bits in words."""
        halves = [t for t in self.types if t in ("float16", "bfloat16")]
        if self.shape not in ((8,), (16,)) or not halves:
            return
        t, name, count = self.rng.choice(halves), f"w{len(self.arrays)}", self.shape[0] // 8
        rng = np.random.default_rng([self.seed, len(self.arrays)])
        self.arrays[name] = rng.integers(0, 1 << 32, count * THREADS, dtype=np.uint32)
        made, held = self.fresh(), self.fresh()
        self.add(f"{held} = mo.fragment(({count},), mo.uint32)")
        self.add(f"mo.copyto({held}, mo.tile({name}, ({count},), (tid,)))")
        how = f", interleaved={self.chance(0.5)}"
        self.add(f"{made} = mo.unpack({held}, mo.{self.rng.choice(['int4', 'uint4'])}, mo.{t}{how})")
        self.hold(made, t, 0)

    def atomic(self) -> None:
        """Counters that all threads change; of floats only whole numbers are added."""
        name, t, bound = self.rng.choice(self.held)
        if t not in ("int32", "uint32", "float32", "float16", "bfloat16"):
            return
        counters, at = f"z{len(self.arrays)}", ", ".join(str(self.rng.randrange(e)) for e in self.shape)
        kinds = ["min", "max"] if t in FLOATS or bound * THREADS > LIMIT[t] else ["add", "min", "max"]
        self.arrays[counters] = np.zeros(4, NUMPY[t])
        self.add(f"mo.atomic_{self.rng.choice(kinds)}({counters}, tid % {self.rng.choice([1, 3, 4])}, {name}[{at}])")

    def reds(self) -> None:
        """All elements of a tensor into memory, atomically; several at a time where there is an instruction."""
        name, t, _ = self.rng.choice(self.held)
        if t not in ("int32", "uint32", *FLOATS) or self.whole:
            return
        kind = "add" if t in FLOATS else self.rng.choice(["add", "min", "max"])
        target = self._array(f"z{len(self.arrays)}", t, False)
        self.add(f'mo.red({self.tile(target, False)}, {name}, "{kind}")')

    def store(self, name: str, t: str) -> None:
        array, masked = self._array(f"o{len(self.arrays)}", t, False), self.whole or self.chance(0.3)
        pred = f", pred={self.inside()}" if masked else ""
        self.add(f"mo.copyto({self.tile(array, masked)}, {name}{pred})")

    def program(self) -> Program:
        bounds = ", ".join([*(str(e) for e in self.shape[:-1]), "n"])
        self.add("tid = mo.thread_idx().x")
        self.add(f"inside = mo.elem_less({self.tile(f'mo.identity_tensor(({bounds},))', True)}, ({bounds},))")
        for t in self.types:
            self.load(t)
        for _ in range(self.rng.randint(3, 7)):
            kinds = [*[self.compute] * 6, self.sums, self.sums, self.part, self.fold, self.fold, self.lanes,
                     self.shared, self.words, self.atomic, self.reds, lambda: self.load(self.rng.choice(self.types))]
            self.rng.choice(kinds)()
        for name, t, _ in self.held[-5:]:
            self.store(name, t)
        for name, t in self.numbers[1:][-2:]:
            array = f"q{len(self.arrays)}"
            self.arrays[array] = np.zeros(THREADS, NUMPY[t])
            self.add(f"{array}[tid] = {name}")
        name = f"elementwise_{self.seed}"
        head = f"@mo.kernel\ndef {name}({', '.join([*self.arrays, 'n', 's'])}):\n"
        source = "import moye as mo\n\n\n" + head + "".join(f"    {line}\n" for line in self.lines)
        return Program(self.seed, source, {**self.arrays, "n": self.n, "s": self.rng.choice([0.5, -1.25, 3.0])})


# --- answers ---------------------------------------------------------------------------------------------------------


def judged(programs: Sequence[Program], arch: str = on_emulator.ARCH) -> list[str]:
    """What is wrong with some programs, a text each."""
    told, launches, simulated = [], [], []
    for one in programs:
        try:
            kernel, arguments = _kernel(one), one.arguments()
            report = mo.check(kernel)[1, THREADS](*arguments)
            if not report.ok:
                told.append(f"{one.seed}: {report}")
                continue
            printed = print_kernel(kernel.trace(*one.arguments(), block=THREADS), arch=arch)
        except Exception as error:
            told.append(f"{one.seed}: {type(error).__name__}: {error}")
            continue
        launches.append(on_emulator.Launch(printed, one.arguments(), THREADS))
        simulated.append((one, arguments))
    ran = on_emulator.answers(launches, arch)
    for (one, arguments), launch, failed in zip(simulated, launches, ran, strict=True):
        if why := failed or _differ(one, arguments, launch.arguments, arch):
            told.append(f"{one.seed}: {why}")
    return told


def _kernel(program: Program) -> Any:
    file = f"<elementwise_{program.seed}>"
    linecache.cache[file] = (len(program.source), None, program.source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": f"elementwise_{program.seed}"}
    exec(compile(program.source, file, "exec"), names)
    return names[f"elementwise_{program.seed}"]


def _differ(one: Program, simulated: list[Any], emulated: list[Any], arch: str) -> str:
    """The simulator against the emulator and NumPy, each element of which that can tell.

    From sm_100 on sums and products of float32 are fused, in pairs: there both are asked what is exact.
    """
    pairs = arch.startswith("sm_10")
    fused = registers.HALF | {"float32"} if pairs else registers.HALF
    found = registers.run(one.source, f"elementwise_{one.seed}", dict(zip(one.arrays, one.arguments(), strict=True)),
                          frozenset(fused))
    for name, x, y in zip(one.arrays, simulated, emulated, strict=True):
        if not isinstance(x, np.ndarray):
            continue
        wanted, sure = found[name]
        if (at := registers.unlike(x, y, sure if pairs else None, signs=True)) is not None:
            return f"{name}[{at}] is {x.flat[at]} in the simulator and {y.flat[at]} in the emulator"
        if (at := registers.unlike(x, wanted, sure)) is not None:
            return f"{name}[{at}] is {x.flat[at]} in the simulator and {wanted.flat[at]} in NumPy"
    return ""


if __name__ == "__main__":
    sys.exit(command.in_batches(__doc__, draw, judged, 20, on_emulator.ARCH))
