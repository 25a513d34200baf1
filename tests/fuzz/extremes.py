"""Random expressions of all scalar operations on extreme numbers: the simulator, the emulator and plain Python agree.

    python tests/fuzz/extremes.py 1000 300 [--arch sm_90a]      # first seed, kernels

In: a seed.  Out: ``Kernel``: lines of text, and for each line arrays of operands with the exact results.

Operands are the ends of every dtype, zeros of both signs, subnormal numbers, infinities, NaNs and random patterns;
some are loaded, some parameters (the same for all threads), some constants.  What the documentation leaves open, and
what is a finding (overflow), is drawn again for that element.  Each line is also taken for register tensors.
``functions.py`` evaluates the same text.
"""

from __future__ import annotations

import linecache
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "cases"),
                    str(Path(__file__).parents[2] / "src")]

import ml_dtypes
import numpy as np

import moye as mo
from fuzz import command, functions, on_emulator, registers
from fuzz.functions import BITS, FLOAT8, MO, NAMES, Value, is_float
from fuzz.scalars import Unclear, limits
from moye.cuda.printing.printer import print_kernel
from moye.errors import MoyeError

THREADS, LANES, LINES = 64, 4, 6
TYPES = tuple(BITS)
NUMPY = {t: np.dtype(ml_dtypes.bfloat16) if t == "bf16" else FLOAT8.get(t) or np.dtype(NAMES[t]) for t in BITS}
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, 7.0, -7.5, 0.1, 100.0, float("inf"), float("-inf"),
          float("nan"), 127.0, 128.0, 255.5, 256.0, -128.5, 448.0, 464.0, 57344.0, 65504.0, 65520.0, 2.0**31, -2.0**31,
          2.0**32, 2.0**63, 2.0**64, -2.0**63, 1e-7, 6e-8, 2.0**-126, 2.0**-133, 1e-45, 3e38, 16777217.0, 2.0**-9,
          2.0**-16, 1e300, 5e-324)


@dataclass
class Line:
    """One expression: its dtypes by name, the operands of each element, and what it must give."""

    text: str
    t: str
    leaves: dict[str, str]
    parameters: dict[str, Value]
    operands: list[dict[str, Value]]
    results: list[Value]
    tensor: bool
    fused: bool = False         # whether a register tensor may round less often


@dataclass
class Kernel:
    seed: int
    source: str
    lines: list[Line]
    names: list[str]
    arrays: list[Any] = field(repr=False)

    @property
    def name(self) -> str:
        return f"extremes_{self.seed}"


# --- numbers ---------------------------------------------------------------------------------------------------------


def number(rng: random.Random, t: str) -> Any:
    """A number of the dtype, most often an end of something."""
    if t == "bool":
        return rng.random() < 0.5
    if is_float(t):
        if rng.random() < 0.6:
            return functions.rounded(rng.choice(FLOATS), t)
        return functions.from_bits(rng.getrandbits(BITS[t]), t)
    low, high = limits(t)
    way = rng.random()
    if way < 0.35:
        return rng.choice([low, low + 1, high, high - 1, high // 2, high // 2 + 1])
    return max(low, min(high, rng.randint(-9, 9))) if way < 0.7 else rng.randint(low, high) >> rng.choice([0, 0, 8, 20])


# --- expressions -----------------------------------------------------------------------------------------------------


class _Expressions:
    """Draws the text of one line; ``tensor`` leaves out what register tensors do not have."""

    def __init__(self, rng: random.Random, tensor: bool) -> None:
        self.rng, self.tensor = rng, tensor
        self.leaves: dict[str, str] = {}
        self.parameters: dict[str, Value] = {}
        self.types = rng.sample([*TYPES, "u32"], rng.randint(1, 3))         # words have the most operations

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def any(self) -> str:
        return self.rng.choice(self.types)

    def of(self, t: str, depth: int) -> str:
        if depth <= 0:
            return self.leaf(t)
        if t == "bool":
            return self.truth(depth)
        kinds = [self.binary, self.binary, self.same, self.where, self.cast, self.cast]
        kinds += [self.floating] * 3 if is_float(t) else [self.integer] * 3
        return self.rng.choice(kinds)(t, depth - 1)

    def leaf(self, t: str) -> str:
        found = [name for name, of in self.leaves.items() if of == t]
        way = self.rng.random()
        if found and way < 0.4:
            return self.rng.choice(found)
        if way < 0.75 and len(self.leaves) < 4:
            name = f"x{len(self.leaves)}"
            self.leaves[name] = t
            return name
        if way < 0.85 and len(self.parameters) < 2 and t not in FLOAT8:
            name = f"s{len(self.parameters)}"
            self.parameters[name] = Value(t, number(self.rng, t))
            return name
        return self.constant(t)

    def constant(self, t: str) -> str:
        x = number(self.rng, t)
        text = f"float('{x}')" if is_float(t) and (x != x or x in (float("inf"), float("-inf"))) else repr(x)
        return f"mo.{NAMES[t]}({text})"

    def right(self, t: str, depth: int) -> str:
        """A right operand: of the same dtype, or a Python number."""
        if self.chance(0.3) and t != "bool":
            x = number(self.rng, t)
            if x == x and 0 < abs(x) < 1e30:                # a quotient by the constant 0 is refused
                return f"({x!r})"
        return self.of(t, depth if self.chance(0.6) else 0)

    def binary(self, t: str, depth: int) -> str:
        sign = self.rng.choice(["+", "-", "*", "//", "%"] + ["/"] * is_float(t))
        a, b = self.of(t, depth), self.right(t, depth)
        if self.chance(0.2) and not (b[0] == "(" and self.tensor):
            a, b = b, a
        if self.chance(0.15):                               # of two dtypes
            return f"({a} {sign} {self.of(self.any(), 0)}).to(mo.{NAMES[t]})"
        return f"({a} {sign} {b})"

    def same(self, t: str, depth: int) -> str:
        a, b = self.of(t, depth), self.right(t, depth)
        return self.rng.choice([f"(-{a})", f"mo.abs({a})", f"mo.min({a}, {b})", f"mo.max({a}, {b})", f"({a} ** 2)",
                                f"mo.relu({a})", f"abs({a})", f"mo.max({a}, {b})"])

    def where(self, t: str, depth: int) -> str:
        return f"mo.where({self.truth(depth)}, {self.of(t, depth)}, {self.right(t, 0)})"

    def cast(self, t: str, depth: int) -> str:
        s = self.any()
        like = [other for other in BITS if BITS[other] == BITS[t] and other not in (t, "bool")]
        if like and self.chance(0.3) and not self.tensor and t != "bool":
            return f"{self.of(self.rng.choice(like), depth)}.bitcast(mo.{NAMES[t]})"
        return f"{self.of(s, depth)}.to(mo.{NAMES[t]})"

    def floating(self, t: str, depth: int) -> str:
        a, b = self.of(t, depth), self.right(t, 0)
        kinds = [f"mo.{f}({a})" for f in ("floor", "ceil", "trunc", "round", "sqrt", "rcp")]
        kinds += [f"mo.{f}({a}, {b})" for f in ("copysign", "fmod", "remainder")]
        kinds += [f"mo.fma({a}, {b}, {self.of(t, 0)})"] * 3
        kinds += [f"mo.ldexp({a}, {self.rng.choice([-1100, -150, -20, -1, 0, 1, 10, 127, 130, 1030])})"]
        if t in ("f32", "f64"):
            kinds.append(f"mo.nextafter({a}, {b})")
        return self.rng.choice(kinds)

    def integer(self, t: str, depth: int) -> str:
        a, b = self.of(t, depth), self.right(t, 0)
        count = self.rng.choice([str(self.rng.choice([0, 1, 5, BITS[t] - 1, BITS[t], BITS[t] + 3, 70])),
                                 f"({self.of('i32', 0)} & 127)", f"({self.of('u8', 0)} & 63)"])
        kinds = [f"({a} & {b})", f"({a} | {b})", f"({a} ^ {b})", f"(~{a})", f"({a} << {count})", f"({a} >> {count})",
                 f"({a} >> {count})", f"mo.brev({a})"]
        kinds += [f"mo.{f}({a}).to(mo.{NAMES[t]})" for f in ("popcount", "clz", "ffs")]
        if BITS[t] >= 32:
            kinds += [f"mo.mul_hi({a}, {b})"] * 2
        if t == "u32":
            c = self.of(t, 0)
            table = self.rng.choice([str(self.rng.randrange(256)), "lambda a, b, c: (a & b) | ~c"])
            kinds += [f"mo.prmt({a}, {b}, {c})", f"mo.lop3({a}, {b}, {c}, {table})"]
            kinds += [f"mo.funnel_shift_{way}({a}, {b}, {c}, clamp={self.chance(0.5)})" for way in ("left", "right")]
        return self.rng.choice(kinds)

    def truth(self, depth: int) -> str:
        t = self.any()
        a, b = self.of(t, depth - 1), self.right(t, 0)
        if is_float(t) and self.chance(0.3):
            return f"mo.{self.rng.choice(['isnan', 'isinf'])}({a})"
        if self.chance(0.2):
            b = self.of(self.any(), 0)
        text = f"({a} {self.rng.choice(COMPARISONS)} {b})"
        way = self.rng.random()
        if way < 0.15 and depth > 0:
            return f"({text} {self.rng.choice('&|^')} {self.truth(depth - 1)})"
        return f"(~{text})" if way < 0.25 else text


# --- kernels ---------------------------------------------------------------------------------------------------------


def draw(seed: int) -> Kernel:
    rng, lines = random.Random(f"extremes {seed}"), []
    while len(lines) < LINES:
        if (line := _line(rng, len(lines) % 3 == 2)) is not None:
            lines.append(line)
    return _written(seed, lines)


def _line(rng: random.Random, tensor: bool) -> Line | None:
    """None where nothing of it is clear, or no number of a thread takes part."""
    e = _Expressions(rng, tensor)
    text = e.of(rng.choice([*e.types, "bool"]), rng.randint(1, 3))
    if not e.leaves or len(text) > 400:
        return None
    code = compile(text, "<line>", "eval")
    wanted, operands, results = THREADS * (LANES if tensor else 1), [], []
    for turn in range(3 * wanted):
        if turn == 24 and not results:
            return None
        names: dict[str, Any] = {name: Value(t, number(rng, t)) for name, t in e.leaves.items()}
        try:
            found = eval(code, {"mo": MO, "__builtins__": {"float": float, "abs": abs}}, {**names, **e.parameters})
        except Unclear:
            continue
        operands.append(names)
        results.append(found)
        if len(results) == wanted:
            break
    if not results or not isinstance(results[0], Value):
        return None
    many = [i % len(results) for i in range(wanted)]
    half = any(t in ("f16", "bf16") for t in (*e.leaves.values(), *(p.t for p in e.parameters.values()))) or \
        "mo.float16" in text or "mo.bfloat16" in text
    return Line(text, results[0].t, e.leaves, e.parameters, [operands[i] for i in many], [results[i] for i in many],
                tensor, tensor and half)


def array(values: Sequence[Value], t: str) -> Any:
    return np.array([v.v for v in values], np.float64 if is_float(t) else NUMPY[t]).astype(NUMPY[t])


def _written(seed: int, lines: list[Line]) -> Kernel:
    body, names, arrays, parameters = ["i = mo.thread_idx().x"], [], [], []
    for n, line in enumerate(lines):
        count = len(line.results)
        names.append(f"o{n}")
        arrays.append(np.zeros(count, NUMPY[line.t]))
        parameters.append(f"o{n}")
        for name, t in line.leaves.items():
            names.append(f"a{n}_{name}")
            parameters.append(f"a{n}_{name}")
            arrays.append(array([each[name] for each in line.operands], t))
            if line.tensor:
                body += [f"{name} = mo.fragment(({LANES},), mo.{NAMES[t]})",
                         f"mo.copyto({name}, mo.tile(a{n}_{name}, ({LANES},), (i,)))"]
            else:
                body.append(f"{name} = a{n}_{name}[i]")
        for name, value in line.parameters.items():
            names.append(f"p{n}_{name}")
            parameters.append(f"p{n}_{name}: mo.{NAMES[value.t]}")
            arrays.append(value.v)
            body.append(f"{name} = p{n}_{name}")
        if line.tensor:
            body += [f"r{n} = mo.fragment(({LANES},), mo.{NAMES[line.t]})", f"r{n}[...] = {line.text}",
                     f"mo.copyto(mo.tile(o{n}, ({LANES},), (i,)), r{n})"]
        else:
            body.append(f"o{n}[i] = {line.text}")
    source = f"import moye as mo\n\n\n@mo.kernel\ndef extremes_{seed}({', '.join(parameters)}):\n"
    return Kernel(seed, source + "".join(f"    {text}\n" for text in body), lines, names, arrays)


# --- answers ---------------------------------------------------------------------------------------------------------


def judged(kernels: Sequence[Kernel], arch: str = on_emulator.ARCH) -> list[str]:
    """What is wrong with some kernels, a text each."""
    return answers(kernels, arch, _differ)


def answers(kernels: Sequence[Any], arch: str, differ: Callable[[Any, list[Any], list[Any]], list[str]]) -> list[str]:
    """Run kernels in the simulator and in the emulator; what is refused, found, or differs."""
    told, launches, simulated = [], [], []
    for one in kernels:
        try:
            kernel, arguments = kernel_of(one), _fresh(one)
            report = mo.check(kernel, lints=False)[1, THREADS](*arguments)
            printed = print_kernel(kernel.trace(*_fresh(one), block=THREADS), arch=arch)
        except Exception as error:
            kind = "refused" if isinstance(error, MoyeError) else type(error).__name__
            told.append(f"{one.seed}: {kind}: {error}")
            continue
        # Bits of narrow integers that are lost are told where they would matter: here they wrap.
        if found := [f for f in report.findings if "does not fit" not in f.message]:
            told.append(f"{one.seed}: {found[0]}")
        launches.append(on_emulator.Launch(printed, leaves_of(kernel, _fresh(one)), THREADS))
        simulated.append((one, arguments))
    ran = on_emulator.answers(launches, arch)
    for (one, arguments), launch, failed in zip(simulated, launches, ran, strict=True):
        told += [f"{one.seed}: {why}" for why in ([failed] if failed else differ(one, arguments, launch.arguments))]
    return told


def _fresh(one: Any) -> list[Any]:
    return [_copied(x) for x in one.arrays]


def _copied(x: Any) -> Any:
    if isinstance(x, dict):
        return {key: _copied(item) for key, item in x.items()}
    return x.copy(order="K") if isinstance(x, np.ndarray) else x


def leaves_of(kernel: Any, arguments: Sequence[Any]) -> list[Any]:
    """What a launch passes: parts of dicts, and nothing that is static."""
    found: list[Any] = []
    for role, x in zip(kernel.signature.roles.values(), arguments, strict=True):
        if role != "constexpr":
            found += x.values() if isinstance(x, dict) else [x]
    return found


def kernel_of(one: Any) -> Any:
    file = f"<{one.name}>"
    linecache.cache[file] = (len(one.source), None, one.source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": __name__}          # dataclasses look their module up
    exec(compile(one.source, file, "exec"), names)
    return names[one.name]


def _differ(one: Kernel, simulated: list[Any], emulated: list[Any]) -> list[str]:
    told = []
    for n, line in enumerate(one.lines):
        at = one.names.index(f"o{n}")
        wanted, found = array(line.results, line.t), simulated[at]
        for who, x, y in (("the emulator", found, emulated[at]), ("Python", found, wanted)):
            if who == "Python" and line.fused:
                continue
            where = unlike(x, y)
            if where is not None:
                told.append(f"{line.text} of {line.operands[where]} {line.parameters} ({line.tensor=}) is {x[where]} "
                            f"in the simulator, {y[where]} in {who}")
                break
    return told


def unlike(x: Any, y: Any) -> int | None:
    if x.dtype.kind in "iub":
        return None if (x == y).all() else int(np.argmin(x == y))
    return registers.unlike(x, y, signs=True)


if __name__ == "__main__":
    sys.exit(command.in_batches(__doc__, draw, judged, 20, on_emulator.ARCH))
