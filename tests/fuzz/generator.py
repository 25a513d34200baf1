"""Random kernels as Python source, well-defined by construction.

In: a seed.  Out: ``Program``.

>>> print(draw(7).source)

A variable's name begins with its dtype.  ``fault="bounds"`` puts in one access beside its tensor, ``risk`` is how
often an integer may overflow.
"""

from __future__ import annotations

import random

from fuzz.expressions import Expressions, Scope, Text, Variable
from fuzz.joins import Joins
from fuzz.programs import COLUMNS, ROWS, SLOTS, Program
from fuzz.scalars import BITS, NAMES, family, limits

HEAD = """import moye as mo

inf, nan = float("inf"), float("nan")


class Box:
    pass


"""


def draw(seed: int, fault: str = "", risk: float = 0.01) -> Program:
    return Generator(seed, fault, risk).program()


class Generator(Joins):
    """Writes one program; ``budget`` is how many statements it may still have."""

    def __init__(self, seed: int, fault: str, risk: float) -> None:
        self.rng = random.Random(f"{seed} {fault}")
        self.seed, self.fault = seed, fault
        self.types = ["i32", *self.rng.sample([t for t in BITS if t not in ("i32", "bool")], self.rng.randint(1, 4))]
        self.block = self.rng.choice([32] * 6 + [64] * 2 + [96])
        self.grid = self.rng.choice([1, 1, 1, 2, 3])
        self.scope = Scope(self.types)
        self.e = Expressions(self.rng, self.scope, risk)
        self.lines: list[str] = []
        self.depth = 1
        self.budget = self.rng.randint(8, 24)
        self.count = 0
        self.meeting = True         # whether all threads of the block come here
        self.gone = False           # whether some threads may have returned: the others still meet
        self.loops: list[str] = []  # "free", "kept" (no divergent exits), "static"
        self.slots: dict[str, int] = {}
        self.features: set[str] = set()
        self.shared: list[tuple[str, str, str]] = []
        self.faulty = False

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, t: str) -> str:
        self.count += 1
        return f"{t}_{self.count}"

    # --- the whole -------------------------------------------------------------------------------------------------

    def program(self) -> Program:
        helpers = self.helpers() if self.chance(0.6) else []
        data = [f"a_{t}" for t in self.types if self.chance(0.8)]
        data += [f"m_{t}" for t in self.types if self.chance(0.35)]
        self.scope.arrays = data
        self.line("tid = mo.thread_idx().x")
        self.line(f"gid = mo.block_idx().x * {self.block} + tid")
        self.line("bid = mo.block_idx().x")
        last = self.grid * self.block - 1
        self.scope.variables += [Variable("tid", "i32", 0, self.block - 1, constant=True),
                                 Variable("gid", "i32", 0, last, constant=True),
                                 Variable("bid", "i32", 0, self.grid - 1, True, True),
                                 Variable("n", "i32", 0, 20, True, True), Variable("w", "i64", 0, 1 << 41, True, True),
                                 Variable("x", "f32", uniform=True, constant=True)]
        self.declare_shared()
        for _ in range(self.rng.randint(2, 5)):
            self.declare()
        self.statements(self.budget)
        for _ in range(3):
            self.s_probe()
        self.finish()
        body = "\n".join(self.lines)
        written = {name for name in (p + t for t in BITS for p in ("q_", "z_")) if name in body}
        names = [*data, *[f"o_{t}" for t in self.slots], *sorted(written)]
        names = [f"{p}: mo.Static" if p[0] in "mq" else p for p in names]
        parameters = [*names, "n", "w", "x", "c: mo.Constexpr"]
        source = HEAD + "".join(h + "\n\n\n" for h in helpers)
        source += f"@mo.kernel\ndef fuzz_{self.seed}({', '.join(parameters)}):\n{body}\n"
        return Program(source, self.seed, self.grid, self.block, self.features)

    def finish(self) -> None:
        for v in self.scope.variables:
            if not v.constant:
                self.out(v.t, Text(v.name, v.low, v.high))

    def out(self, t: str, e: Text) -> None:
        slot = self.slots.get(t, 0)
        if slot < SLOTS:
            self.slots[t] = slot + 1
            self.line(f"o_{t}[gid, {slot}] = {e.text}")

    # --- variables ---------------------------------------------------------------------------------------------------

    def range_of(self, t: str) -> tuple[int, int]:
        if family(t) not in "iu":
            return 0, 0
        low, high = limits(t)
        if t in ("i32", "i64"):
            return self.rng.choice([(-100, 100), (0, 4095), (-30000, 30000), (low, high)])
        return low, high

    def fitted(self, e: Text, v: Variable) -> str:
        """The expression brought into the variable's bounds, of its dtype."""
        if family(v.t) not in "iu" or (v.low <= e.low and e.high <= v.high):
            return e.text
        if (v.low, v.high) == limits(v.t):
            return e.text
        width = v.high - v.low + 1
        if self.chance(0.5):
            return f"mo.min(mo.max({e.text}, {v.low}), {v.high})"
        return f"({e.text}) % {width}" + (f" - {-v.low}" if v.low < 0 else f" + {v.low}" if v.low else "")

    def declare(self) -> None:
        t = self.rng.choice([*self.types, "bool"])
        uniform = self.chance(0.2) and self.meeting
        v = Variable(self.fresh(t), t, *self.range_of(t), uniform)
        if t == "i32" and self.chance(0.4):
            self.line(f"{v.name} = {self.rng.choice([0, 1, 3, 7])}")
            v.low, v.high = min(v.low, 0), max(v.high, 7)
        elif t == "f32" and self.chance(0.4):
            self.line(f"{v.name} = {self.rng.choice(['0.0', '1.5', '-2.0'])}")
        else:
            self.e.uniform = uniform
            self.line(f"{v.name} = {self.value(v)}")
            self.e.uniform = False
        self.scope.variables.append(v)

    def value(self, v: Variable, depth: int = 3) -> str:
        return self.fitted(self.e.of(v.t, depth), v)

    def targets(self) -> list[Variable]:
        """Variables that may be assigned here: uniform ones only where all threads come."""
        return [v for v in self.scope.variables if not v.constant and (self.meeting or not v.uniform)]

    # --- statements --------------------------------------------------------------------------------------------------

    def statements(self, most: int) -> None:
        if self.loops and self.chance(0.4):
            self.s_probe()
        for _ in range(self.rng.randint(1, max(1, most))):
            if self.budget <= 0:
                break
            self.budget -= 1
            self.statement()

    def statement(self) -> None:
        kinds = ["assign"] * 6 + ["augment"] * 2 + ["swap", "pair", "declare", "store", "store", "state", "fragment",
                                                    "fragment", "view", "view", "closure", "atomic", "object",
                                                    "probe", "probe", "probe", "join", "join", "join", "rotate",
                                                    "restore"]
        if self.depth < 4:
            kinds += ["branch"] * (4 + 3 * (self.depth in (2, 3))) + ["count"] * 3 + ["loop", "unrolled"]
        if self.loops:
            kinds += ["leave"] * 4
        if self.meeting and not self.gone:
            kinds += ["exchange"] * 2 + ["shuffle"] * 2 + ["vote", "reduce", "reduce"]
        elif self.meeting:
            kinds += ["vote"] * 4
        if self.fault and self.depth == 1 and self.meeting and not self.gone:      # what is surely reached
            kinds += ["beside"] * 6
        if self.depth == 1 and self.budget < 4 and not self.gone:
            kinds += ["finish_early"] * 6
        kind = self.rng.choice(kinds)
        self.features.add(kind)
        getattr(self, f"s_{kind}")()

    def s_declare(self) -> None:
        self.declare()

    def s_assign(self) -> None:
        found = self.targets()
        if found:
            v = self.rng.choice(found)
            self.e.uniform = v.uniform
            self.line(f"{v.name} = {self.value(v, 4)}")
            self.e.uniform = False

    def s_augment(self) -> None:
        found = [v for v in self.targets() if v.t != "bool" and not v.uniform]
        if not found:
            return
        v = self.rng.choice(found)
        e = self.e.right(v.t, 2).text if family(v.t) in "iu" else self.e.float_right(v.t, 2)
        if self.chance(0.3) and (family(v.t) == "f" or v.t not in ("i32", "i64")):      # no ``v -= a - b``
            other = self.e.of(v.t, 1).text
            self.line(f"{v.name} = ({v.name} {self.rng.choice('+-')} {other}) {self.rng.choice('+-')} {e}")
        elif family(v.t) == "f":
            self.line(f"{v.name} {self.rng.choice(['+=', '-=', '*='])} {e}")
        elif v.t in ("i32", "i64"):
            if v.low <= 0:
                self.line(f"{v.name} //= {self.rng.choice([2, 3, 4])}")
        else:
            self.line(f"{v.name} {self.rng.choice(['+=', '-=', '*=', '^=', '|='])} {e}")

    def s_swap(self) -> None:
        found = self.targets()
        pairs = [(a, b) for a in found for b in found if a is not b and (a.t, a.low, a.high, a.uniform) ==
                 (b.t, b.low, b.high, b.uniform)]
        if pairs:
            a, b = self.rng.choice(pairs)
            self.line(f"{a.name}, {b.name} = {b.name}, {a.name}")

    def s_pair(self) -> None:
        found = [v for v in self.targets() if not v.uniform]
        if len(found) > 1:
            a, b = self.rng.sample(found, 2)
            self.line(f"{a.name}, {b.name} = {self.value(a)}, {self.value(b)}")

    def s_store(self) -> None:
        t = self.rng.choice(self.types)
        self.out(t, self.e.of(t, 3))

    def s_state(self) -> None:
        """A list as state: changed by unrolled loops only."""
        t = self.rng.choice(self.types)
        name = f"list_{self.fresh(t)}"
        self.line(f"{name} = [{self.e.of(t, 2).text}, {self.e.of(t, 2).text}]")
        i = f"k{self.count}"
        self.line(f"for {i} in mo.static_range(3):")
        sign = self.rng.choice("+*") if t not in ("i32", "i64") else "^" if family(t) == "i" else "+"
        self.line(f"    {name}[{i} % 2] = {name}[{i} % 2] {sign} {name}[({i} + 1) % 2]")
        self.out(t, Text(f"{name}[0]"))

    def s_object(self) -> None:
        """Variables that are items of a list or dict, or attributes: assigned from now on as names are."""
        t = self.rng.choice([*self.types, "bool"])
        name, ends = f"box{self.fresh(t)}", self.range_of(t)
        a, b = (self.value(Variable("", t, *ends), 2) for _ in range(2))
        way = self.rng.randint(0, 2)
        parts = [(f"{name}[0]", f"{name}[1]"), (f"{name}['a']", f"{name}['b']"), (f"{name}.a", f"{name}.b")][way]
        if way == 2:
            self.line(f"{name} = Box()")
            self.line(f"{name}.a, {name}.b = {a}, {b}")
        else:
            self.line(f"{name} = [{a}, {b}]" if way == 0 else f"{name} = {{'a': {a}, 'b': {b}}}")
        self.scope.variables += [Variable(part, t, *ends) for part in parts]

    def s_probe(self) -> None:
        """Comparisons and quotients close to bounds, stored: what folding takes for decided is seen at once."""
        t = self.rng.choice([s for s in self.types if family(s) in "iu"])
        bits = []
        for bit in range(self.rng.randint(3, 7)):
            e = self.e.walk(t)
            sign = self.rng.choice(["<", "<=", ">", ">=", "==", "!="])
            test = f"{e.text} {sign} {self.e.near(e, t)}" if self.chance(0.7) else self.e.sums(t, sign)
            test = f"not (not {test})" if self.chance(0.1) else test
            floats = [s for s in self.types if family(s) == "f"]
            if floats and self.chance(0.2):     # of NaNs, not below is not above
                s = self.rng.choice(floats)
                than = self.rng.choice([self.e.leaf(s).text, "(-inf)", "inf"])
                test = f"not ({(self.e.load(s) or self.e.leaf(s)).text} {sign} {than})"
            elif self.chance(0.15):
                test = f"{(self.e.load(t) or self.e.leaf(t)).text} {sign} ({self.rng.choice(limits(t))})"
            bits.append(f"mo.int32({test}) * {1 << bit}")
        self.out("i32", Text(" + ".join(bits)))
        for kind in self.rng.sample(["%", "//", "min", "max"], 2):
            e = self.e.walk(t)
            n = self.e.near(e, t)
            if kind[0] == "m":
                self.out(t, Text(self.e.sums(t, kind) if self.chance(0.5) else f"mo.{kind}({e.text}, {n})"))
            else:
                self.out(t, Text(f"({e.text}) {kind} {max(n, 1)}"))

    def s_atomic(self) -> None:
        """What comes out does not depend on who comes first; one kind for each array, since kinds do not commute."""
        t = self.rng.choice([s for s in self.types if s in ("i32", "u32", "u64", "i64")])
        kind = {"i32": "add", "u32": "xor", "u64": "max", "i64": "min"}[t]
        e = self.e.of(t, 2)
        e = self.e.tamed(e, t, 1000) if kind == "add" else e
        self.line(f"mo.atomic_{kind}(z_{t}, {self.e.index(16)}, {e.text})")

    def s_closure(self) -> None:
        t = self.rng.choice(self.types)
        name = f"local{self.fresh(t)}"
        found = self.e.known(lambda v: v.t == t)
        if not found:
            return
        self.line(f"def {name}(y):")
        body = f"mo.max(y, {self.rng.choice(found).name})" if family(t) == "f" else f"y ^ {self.rng.choice(found).name}"
        self.line(f"    return {body}")
        self.out(t, Text(f"{name}({self.e.of(t, 2).text})"))

    def block_of(self, most: int) -> None:
        """An indented block; what it declares ends with it."""
        self.depth += 1
        known, lines = len(self.scope.variables), len(self.lines)
        self.statements(most)
        if len(self.lines) == lines:
            self.line("pass")
        del self.scope.variables[known:]
        self.depth -= 1

    def lanes(self) -> str:
        """A part of the threads: of nested ones some have nobody, or all that are left."""
        n = self.rng.choice([2, 4, 8, 31, self.block])
        return self.rng.choice([f"tid < {self.rng.randint(0, n)}", f"tid >= {self.rng.randint(1, n)}",
                                f"tid % {n} == {self.rng.randrange(n)}", f"tid % {n} > n", "tid // 8 != n % 4",
                                f"tid % 2 == {self.rng.randrange(2)}"])

    def s_branch(self) -> None:
        before = self.meeting
        self.e.uniform = self.meeting and self.chance(0.4)
        uniform = self.e.uniform
        cond = f"c {self.rng.choice(['<', '==', '>'])} {self.rng.randint(0, 4)}" if self.chance(0.12) else \
            self.lanes() if not uniform and self.chance(0.4) else self.e.truth(2)
        self.e.uniform = False
        self.meeting = before and uniform
        self.line(f"if {cond}:")
        self.block_of(4)
        for _ in range(self.rng.choice([0, 0, 1, 2])):
            self.meeting = False
            self.line(f"elif {self.lanes() if self.chance(0.4) else self.e.truth(2)}:")
            self.block_of(3)
        if self.chance(0.6):
            self.meeting = self.meeting and uniform
            self.line("else:")
            self.block_of(3)
        self.meeting = before

    def s_count(self) -> None:
        i, before = f"i{self.fresh('')}", self.meeting
        uniform = self.chance(0.5)
        self.e.uniform = uniform
        start, step = self.rng.randint(-2, 3), self.rng.choice([1, 1, 2, 2, 3, -1, -2])
        start, step = (0, 1) if self.chance(0.3) else (start, step)
        most = start + step * self.rng.randint(1, 4)
        if self.chance(0.5):
            stop, last = str(most), most
        else:
            e = self.e.integer("i32", 2)
            near, far = min(start, most), max(start, most)
            stop, last = f"mo.min(mo.max({e.text}, {near}), {far})", most
        self.e.uniform = False
        name = self.rng.choice(["range", "range", "mo.range"])
        text = f"{name}({stop})" if start == 0 and step == 1 else \
            f"{name}({start}, {stop}{'' if step == 1 else f', {step}'})"
        if self.chance(0.1):
            text = f"mo.range({start}, {stop}, {step}, unroll={self.rng.choice(['True', 'False', '2'])})"
        self.line(f"for {i} in {text}:")
        self.meeting = before and uniform and self.chance(0.7)
        self.loops.append("kept" if self.meeting else "free")
        known = len(self.scope.variables)
        self.scope.variables.append(Variable(i, "i32", min(start, last) - 3, max(start, last) + 3,
                                             uniform and self.meeting, True))
        self.block_of(5)
        del self.scope.variables[known:]
        self.loops.pop()
        self.meeting = before

    def s_loop(self) -> None:
        fuel, before = self.fresh("i32"), self.meeting
        forever = self.chance(0.4)
        static = not forever and self.chance(0.3)       # then its turns are unrolled, and nothing may leave it
        self.line(f"{fuel} = {'0' if static or forever else 'n // 32'}")
        most = self.rng.randint(1, 4)
        self.meeting = False
        cond = "True" if forever else f"{fuel} < {most}" + (f" and {self.e.truth(1)}" if self.chance(0.5) and
                                                            not static else "")
        self.line(f"while {cond}:")
        self.depth += 1
        self.line(f"{fuel} += 1")
        if forever:
            self.line(f"if {fuel} > {most}:")
            self.line("    break")
        self.depth -= 1
        self.loops.append("static" if static else "free")
        known = len(self.scope.variables)
        self.scope.variables.append(Variable(fuel, "i32", 0, most + 1, False, True))
        self.block_of(4)
        del self.scope.variables[known:]
        self.loops.pop()
        self.meeting = before
        self.out("i32", Text(fuel))

    def s_unrolled(self) -> None:
        i = f"k{self.fresh('')}"
        self.line(f"for {i} in mo.static_range({self.rng.choice(['3', '1, 4', '0, 5, 2', '3, 0, -1'])}):")
        around = self.meeting
        self.meeting = around and self.chance(0.5)
        self.loops.append("static" if self.meeting else "free")         # some threads leave it, or all go on together
        before, slots = self.budget, dict(self.slots)
        known = len(self.scope.variables)
        self.scope.variables.append(Variable(f"mo.int32({i})", "i32", 0, 4, True, True))
        self.budget = min(self.budget, 4)
        self.block_of(3)
        del self.scope.variables[known:]
        self.budget = before - 2
        self.slots = {t: max(n, slots.get(t, 0)) for t, n in self.slots.items()}
        self.loops.pop()
        self.meeting = around

    def s_leave(self) -> None:
        if self.loops[-1] == "static":
            return
        self.e.uniform = self.loops[-1] == "kept"
        if self.e.uniform and not self.meeting:
            self.e.uniform = False
            return
        self.line(f"if {self.lanes() if not self.e.uniform and self.chance(0.3) else self.e.truth(2)}:")
        self.e.uniform = False
        free = set(self.loops) == {"free"} and not self.meeting     # nothing in these loops is for all threads
        kind = self.rng.choice(["break", "continue", "continue", *["return"] * free])
        self.gone |= kind == "return"
        self.line(f"    {kind}")

    def s_finish_early(self) -> None:
        """Some threads return; those that are left vote among themselves."""
        if self.chance(0.5):
            self.finish()
        cond = self.lanes() if self.chance(0.6) else self.e.truth(2)
        self.line(f"if {cond}:")
        self.line("    return")
        self.gone = True
        for _ in range(2 * self.meeting):
            self.s_vote(f"not ({cond})" if self.chance(0.5) else "")    # all that are left say yes
            v = self.scope.variables[-1]
            self.out("i32", Text(f"mo.int32({v.name})") if v.t == "bool" else Text(f"({v.name}).to(mo.int32)"))

    # --- threads together --------------------------------------------------------------------------------------------

    def declare_shared(self) -> None:
        """Shared tensors of 8 columns and one element for each thread."""
        for _ in range(self.rng.choice([0, 1, 1, 2])):
            t = self.rng.choice(self.types)
            rows = self.block // 8
            name = f"s{self.fresh(t)}"
            layout = self.rng.choice([f"mo.make_layout((8, {rows}))", f"mo.make_layout((8, {rows}), ({rows}, 1))",
                                      f"mo.make_layout((8, {rows}), (1, 9))",
                                      f"mo.ComposedLayout(mo.Swizzle(2, {self.rng.choice([0, 1])}, 3), 0, "
                                      f"mo.make_layout((8, {rows})))"])
            self.line(f"l{name} = {layout}")
            self.line(f"{name} = mo.shared_array(mo.{NAMES[t]}, l{name})")
            self.shared.append((name, t, str(rows)))
        if self.chance(0.4):
            t = self.rng.choice(self.types)
            self.line(f"scratch = mo.shared_array(mo.{NAMES[t]}, {self.block // 32})")
            self.shared.append(("scratch", t, ""))

    def s_exchange(self) -> None:
        found = [s for s in self.shared if s[2]]
        if not found:
            return
        name, t, rows = self.rng.choice(found)
        v = Variable(self.fresh(t), t, *(limits(t) if family(t) in "iu" else (0, 0)))
        self.line(f"{name}[tid % 8, tid // 8] = {self.e.of(t, 3).text}")
        self.line("mo.sync_threads()")
        way = self.rng.randint(0, 6)
        if way > 4:     # a tile in registers, element by element through the swizzle
            self.line(f"t{v.name} = mo.tile({name}, (4, 2), ({self.e.index(2)}, {self.e.index(int(rows) // 2)}))")
            self.line(f"r{v.name} = mo.make_fragment_like(t{v.name})")
            self.line(f"mo.copyto(r{v.name}, t{v.name})")
            self.line(f"{v.name} = r{v.name}[{self.rng.randint(0, 3)}, {self.rng.randint(0, 1)}]")
        elif way == 0:
            self.line(f"{v.name} = {name}[{self.e.index(8)}, {self.e.index(int(rows))}]")
        elif way == 1:
            self.line(f"{v.name} = {name}.with_layout(mo.select(l{name}, 1, 0))[{self.e.index(int(rows))}, tid % 8]")
        elif way == 2:
            self.line(f"{v.name} = {name}[:, {self.e.index(int(rows))}][{self.e.index(8)}]")
        elif way == 3:
            self.line(f"{v.name} = mo.tile({name}, (4, {rows}), ({self.e.index(2)}, 0))[tid % 4, tid % {rows}]")
        else:
            row = self.e.index(int(rows) // 2)
            self.line(f"{v.name} = mo.parallelize({name}, mo.make_layout((4, 2)), tid % 8)[1, {row}]")
        self.line("mo.sync_threads()")
        self.scope.variables.append(v)

    def s_shuffle(self) -> None:
        t = self.rng.choice([*self.types, "bool"])
        v = Variable(self.fresh(t), t, *(limits(t) if family(t) in "iu" else (0, 0)))
        kind = self.rng.choice(["idx", "up", "down", "xor"])
        width = self.rng.choice([32, 32, 16, 8, 4])
        by = str(self.rng.randint(0, width - 1)) if kind == "xor" or self.chance(0.6) else self.e.index(width)
        self.line(f"{v.name} = mo.shuffle_{kind}({self.e.of(t, 2).text}, {by}{'' if width == 32 else f', {width}'})")
        self.scope.variables.append(v)

    def s_vote(self, pred: str = "") -> None:
        kind = self.rng.choice(["ballot", "ballot", "vote_any", "vote_all"])
        if self.gone and self.chance(0.4):
            self.line("mo.sync_threads()")
        t = "u32" if kind == "ballot" else "bool"
        v = Variable(self.fresh(t), t, *(limits(t) if t == "u32" else (0, 0)))
        self.line(f"{v.name} = mo.{kind}({pred or self.e.truth(2)})")
        self.scope.variables.append(v)

    def s_reduce(self) -> None:
        scratch = [s for s in self.shared if not s[2]]
        if scratch and self.chance(0.5):
            t, call = scratch[0][1], "block_reduce({}, scratch, {})"
        else:
            t, call = self.rng.choice(self.types), "warp_reduce({}, {})"
        some = self.chance(0.4)                                     # only some blocks fold, what all threads share
        narrow = t not in ("i32", "u32", "i64", "u64")
        sums = ["add"] if call[0] == "w" or not narrow else []      # the scratch of a sum is an int32
        kind = self.rng.choice(["min", "max"] if family(t) == "f" else ["min", "max", *sums, "and", "or", "xor"])
        uniform, self.e.uniform = self.e.uniform, self.e.uniform or some
        e, back = self.e.of(t, 2), f".to(mo.{NAMES[t]})" if kind == "add" and narrow else ""
        if kind == "add":
            e = self.e.tamed(e, t, 100)
        self.e.uniform = uniform
        v = Variable(self.fresh(t), t, *(limits(t) if family(t) in "iu" else (0, 0)))
        if some:
            self.line(f"{v.name} = mo.{NAMES[t]}(1)")
            self.line(f"if bid {self.rng.choice(['==', '!=', '>'])} 0:")
        self.line(f"{'    ' * some}{v.name} = mo.{call.format(e.text, repr(kind))}{back}")
        self.scope.variables.append(v)

    # --- tensors -----------------------------------------------------------------------------------------------------

    def s_fragment(self) -> None:
        t = self.rng.choice(self.types)
        name = f"r{self.fresh(t)}"
        matrices = [a for a in self.scope.arrays if a.startswith("m_") and a[2:] == t]
        if matrices and self.chance(0.6):
            rows, at = (4, self.e.index(2)) if self.chance(0.5) else (8, "0")
            self.line(f"p{name} = mo.tile({matrices[0]}, ({rows}, 1), ({at}, {self.e.index(COLUMNS)}))[:, 0]")
            self.line(f"{name} = mo.make_fragment_like(p{name})")
            self.line(f"mo.copyto({name}, p{name})")
        else:
            rows = 4
            self.line(f"{name} = mo.fragment((4,), mo.{NAMES[t]})")
            self.line(f"{name}.fill({self.e.of(t, 2).text})")
            self.line(f"{name}[{self.rng.randint(0, 3)}] = {self.e.of(t, 2).text}")
        for _ in range(self.rng.randint(1, 3)):
            self.line(self.elementwise(name, t))
        if self.chance(0.4):        # one is made of the other, which changes before its use
            self.line(f"{name}b = mo.fragment(({rows},), mo.{NAMES[t]})")
            self.line(f"{name}b[...] = {f'-{name}' if family(t) == 'f' else f'{name} ^ {self.e.of(t, 1).text}'}")
            self.line(self.elementwise(name, t))
            self.line(f"{name}[...] = {f'abs({name}b)' if family(t) == 'f' else f'{name}b & 5'}")
        if self.chance(0.5) and rows == 4:
            self.features.add("store_tile")
            to = self.rng.choice([s for s in self.types if family(s) == "f"]) if family(t) == "f" else t
            self.line(f"mo.copyto(mo.tile(q_{to}, (4, 1), (0, gid))[:, 0], {name})")
        else:
            self.out(t, Text(f"{name}[{self.rng.randint(0, rows - 1)}]"))
        if self.chance(0.3):
            wraps = family(t) != "f" and t not in ("i32", "i64")
            kind = self.rng.choice(["add", "xor", "min"]) if wraps else "max" if family(t) == "f" else "xor"
            self.out(t, Text(f"{name}.reduce('{kind}')"))

    def elementwise(self, name: str, t: str) -> str:
        e = self.e.of(t, 1)
        if family(t) == "f":
            sign = self.rng.choice("+-*")
            return self.rng.choice([f"{name} {sign}= {e.text}", f"{name}[...] = {name} {sign} {e.text}",
                                    f"{name}[...] = mo.max({name}, {e.text})", f"{name}[...] = -{name}",
                                    f"{name}[...] = mo.where({name} < {e.text}, {name}, {name} * 0.5)",
                                    f"{name}[...] = {name} + {name}", f"{name}[...] = abs({name})"])
        wraps = t not in ("i32", "i64")
        return self.rng.choice([f"{name}[...] = {name} ^ {e.text}", f"{name}[...] = mo.min({name}, {e.text})",
                                f"{name}[...] = mo.where({name} < {e.text}, {name}, {name} // 3)",
                                f"{name}[...] = {name} % 7", f"{name}[...] = {name} // 4 + 1",
                                f"{name} *= {self.rng.choice([3, 5])}" if wraps else f"{name}[...] = {name} & 5"])

    def s_view(self) -> None:
        matrices = [a for a in self.scope.arrays if a.startswith("m_")]
        if not matrices:
            return
        name = self.rng.choice(matrices)
        t = name[2:]
        v = Variable(self.fresh(t), t, *(limits(t) if family(t) in "iu" else (0, 0)))
        i, j = self.e.index(ROWS), self.e.index(COLUMNS)
        way = self.rng.randint(0, 5)
        text = [f"{name}[{i}, {j}]", f"{name}[:, {j}][{i}]", f"{name}[{i}, :][{j}]",
                f"mo.tile({name}, (4, 4), ({self.e.index(2)}, {self.e.index(4)}))[{self.e.index(4)}, "
                f"{self.e.index(4)}]",
                f"mo.tile({name}, (2, 8), ({self.e.index(4)}, None))[{self.e.index(2)}, {self.e.index(8)}, "
                f"{self.e.index(2)}]",
                f"mo.parallelize(mo.tile({name}, (8, 4), (0, {self.e.index(4)})), mo.make_layout((4, 2)), "
                f"tid % 8)[{self.e.index(2)}, {self.e.index(2)}]"][way]
        self.line(f"{v.name} = {text}")
        self.scope.variables.append(v)

    def s_beside(self) -> None:
        """One access whose coordinate leaves its mode, though not always its tensor's memory."""
        if self.faulty:
            return
        places = [(f"{a}[{{}}, {{}}]", ROWS, COLUMNS, a[2:]) for a in self.scope.arrays if a.startswith("m_")]
        places += [(f"{s}[{{}}, {{}}]", 8, int(rows), t) for s, t, rows in self.shared if rows]
        if not places:
            return
        form, rows, columns, t = self.rng.choice(places)
        self.faulty = True
        row, column = self.rng.choice([
            (f"({self.e.index(rows)}) + {rows}", self.e.index(columns)), (f"{rows} + n // 32", self.e.index(columns)),
            (f"({self.e.index(rows)}) + {rows}", self.e.index(columns - 1)),        # memory of the next column
            (f"{rows} + n // 32", self.e.index(columns - 1)), ("n // 32 - 1", f"1 + {self.e.index(columns - 1)}"),
            (f"({self.e.index(rows)}) - {rows}", f"1 + {self.e.index(columns - 1)}"),
            (self.e.index(rows), f"{columns} + n // 32")])
        if form.startswith("s"):
            self.line(f"{form.format('tid % 8', 'tid // 8')} = {self.e.of(t, 1).text}")
            self.line("mo.sync_threads()")
        self.out(t, Text(form.format(row, column)))

    # --- helpers -----------------------------------------------------------------------------------------------------

    def helpers(self) -> list[str]:
        """Functions with early returns, inlined while tracing."""
        made = []
        for number_ in range(self.rng.randint(1, 2)):
            t = self.rng.choice([s for s in self.types if s not in ("i8", "u8", "i16", "u16")])
            types = [self.rng.choice(self.types) for _ in range(2)]
            scope = Scope(self.types, [Variable(f"{s}_p{i}", s, *(limits(s) if family(s) in "iu" else (0, 0)))
                                       for i, s in enumerate(types)])
            inner = Expressions(self.rng, scope)
            result = Variable("", t, -1000 if family(t) == "i" else 0, 1000)
            lines = ["@mo.jit", f"def {t}_f{number_}({', '.join(v.name for v in scope.variables)}):"]

            def give(result: Variable = result, inner: Expressions = inner, t: str = t) -> str:
                e = inner.of(t, 2)
                return e.text if family(t) == "f" else f"mo.min(mo.max({e.text}, {result.low}), 1000)"

            for _ in range(self.rng.randint(0, 2)):
                lines += [f"    if {inner.truth(2)}:", f"        return {give()}"]
            if self.chance(0.4):
                lines += [f"    for i in range({self.rng.randint(1, 4)}):", f"        if {inner.truth(1)}:",
                          f"            return {give()}"]
            lines.append(f"    return {give()}")
            made.append("\n".join(lines))
            self.scope.functions.append((f"{t}_f{number_}", types))
        return made
