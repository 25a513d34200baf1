"""Random kernels of threads that work together, on extreme numbers: the simulator, the emulator and plain Python agree.

    python tests/fuzz/lanes.py 1000 300                 # first seed, kernels

In: a seed.  Out: ``Kernel``: calls with the results of all threads.

Folds of registers, warps and blocks with every kind and dtype, argmax and argmin, scans, matches, shuffles, votes, and
atomics with what they return.  Python folds the numbers of all threads in the order of the documentation, with the
arithmetic of ``functions.py``.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "cases"),
                    str(Path(__file__).parents[2] / "src")]

import numpy as np

from fuzz import command, extremes, functions, on_emulator
from fuzz.extremes import NUMPY, array, number
from fuzz.functions import BITS, FLOAT8, NAMES, Value, binary, is_float
from fuzz.scalars import Unclear, family, limits

THREADS, WARP, LINES = 64, 32, 8
LANES = range(WARP)
KINDS = ("add", "mul", "min", "max", "and", "or", "xor")
ATOMIC = ("i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64")
SHAPES = ((1,), (3,), (4,), (7,), (8,), (12,), (2, 3), (4, 2), (2, 2, 3))

Values = list[Value]


@dataclass
class Line:
    """Statements of a kernel, the arrays that they read, and what they leave in ``outputs``."""

    statements: list[str]
    inputs: dict[str, tuple[Values, str]]
    outputs: dict[str, tuple[Values, str]]
    begin: dict[str, Values] = field(default_factory=dict)      # of outputs that are not zero before


@dataclass
class Kernel:
    seed: int
    source: str
    names: list[str]
    arrays: list[Any] = field(repr=False)
    results: dict[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        return f"extremes_{self.seed}"


# --- folds -----------------------------------------------------------------------------------------------------------


def wide(kind: str, t: str) -> str:
    """Sums and products of bools and narrow integers have 32 bits."""
    narrow = t == "bool" or (not is_float(t) and BITS[t] < 32)
    return t if kind not in ("add", "mul") or not narrow else "u32" if t[0] == "u" else "i32"


def together(kind: str, a: Value, b: Value) -> Value:
    return binary(kind, a, b)


def neutral(kind: str, t: str) -> Value:
    if kind in ("min", "max"):
        sign = 1 if kind == "min" else -1
        if is_float(t):
            return Value(t, functions.rounded(sign * float("inf"), t))
        return Value(t, (kind == "min") if t == "bool" else limits(t)[kind == "min"])
    if kind == "and":
        return Value(t, True if t == "bool" else -1 if family(t) == "i" else limits(t)[1])
    return Value(t, functions.convert(int(kind == "mul"), "i32", t))


def of_warp(kind: str, values: Values, width: int) -> Values:
    delta = width // 2
    while delta:
        values = [together(kind, v, values[i ^ delta]) for i, v in enumerate(values)]
        delta //= 2
    return values


def scanned(kind: str, values: Values, width: int) -> Values:
    step = 1
    while step < width:
        values = [together(kind, values[i - step], v) if i % width >= step else v for i, v in enumerate(values)]
        step *= 2
    return values


def exclusive(kind: str, values: Values, width: int) -> Values:
    return [values[i - 1] if i % width else neutral(kind, values[i].t) for i in range(len(values))]


def of_registers(kind: str, values: Values) -> Value:
    """Chains side by side, then they with each other."""
    count = 1 if len(values) < 4 else 2 if len(values) < 8 else 4
    chains = []
    for c in range(count):
        made = values[c]
        for v in values[c + count::count]:
            made = together(kind, made, v)
        chains.append(made)
    while len(chains) > 1:
        chains = [together(kind, chains[i], chains[i + 1]) for i in range(0, len(chains), 2)]
    return chains[0]


def better(kind: str, mine: tuple[Value, int], other: tuple[Value, int]) -> tuple[Value, int]:
    """A number before a NaN, the larger (or less) one, the least index."""
    nan = [is_float(v.t) and v.v != v.v for v, _ in (mine, other)]
    if any(nan):
        return min(mine, other, key=lambda p: p[1]) if all(nan) else other if nan[0] else mine
    if mine[0].v == other[0].v:
        return min(mine, other, key=lambda p: p[1])
    return max(mine, other, key=lambda p: p[0].v) if kind == "argmax" else min(mine, other, key=lambda p: p[0].v)


# --- lines -----------------------------------------------------------------------------------------------------------


class _Lines:
    def __init__(self, rng: random.Random, n: int) -> None:
        self.rng, self.n = rng, n

    def draw(self) -> Line:
        makers: list[Callable[[], Line]] = [
            self.warp_reduce, self.warp_reduce, self.warp_scan, self.block, self.pairs, self.match, self.shuffle,
            self.vote, self.registers, self.registers, self.places, self.atomic, self.atomic, self.reduced_rows]
        while True:
            try:
                return self.rng.choice(makers)()
            except Unclear:
                pass

    def kind(self, t: str) -> str:
        return self.rng.choice(KINDS[:4] if is_float(t) else KINDS)

    def dtype(self, *, of: Sequence[str] = tuple(BITS)) -> str:
        return self.rng.choice(of)

    def numbers(self, t: str, count: int, kind: str = "") -> Values:
        """Ends of the dtype, few numbers many times, or small ones, of which sums and products fit."""
        tame = kind in ("add", "mul") and not is_float(t)
        if tame and kind == "mul":
            found = [self.rng.choice([1, 1, 1, 1, 1, 2, 3]) for _ in range(count)]
        elif tame:
            low = max(limits(t)[0], -1000) if t != "bool" else 0
            found = [self.rng.randint(low, min(limits(t)[1], 1000) if t != "bool" else 1) for _ in range(count)]
        else:
            few = [number(self.rng, t) for _ in range(self.rng.choice([1, 2, 3, 40]))]
            found = [self.rng.choice(few) for _ in range(count)]
        return [Value(t, bool(x) if t == "bool" else x) for x in found]

    def line(self, statements: list[str], values: Values, results: Values, more: Values | None = None) -> Line:
        n = self.n
        outputs = {f"o{n}": (results, results[0].t)}
        if more is not None:
            outputs[f"p{n}"] = (more, more[0].t)
        return Line(statements, {f"a{n}": (values, values[0].t)}, outputs)

    def warp_reduce(self) -> Line:
        t = self.dtype()
        kind, width = self.kind(t), self.rng.choice([32, 32, 16, 4, 2, 1])
        values = self.numbers(t, THREADS, kind)
        found = of_warp(kind, [v.to(functions.DType(wide(kind, t))) for v in values], width)
        return self.line([f"o{self.n}[i] = mo.warp_reduce(a{self.n}[i], '{kind}', {width})"], values, found)

    def warp_scan(self) -> Line:
        t = self.dtype()
        kind, width, inclusive = self.kind(t), self.rng.choice([32, 16, 8, 2]), self.rng.random() < 0.5
        values = self.numbers(t, THREADS, kind)
        found = scanned(kind, [v.to(functions.DType(wide(kind, t))) for v in values], width)
        if t == "bool" and kind in ("min", "max"):
            found = [Value("i32", int(v.v)) for v in found]
        if not inclusive:
            found = exclusive(kind, found, width)
        call = f"mo.warp_scan(a{self.n}[i], '{kind}', inclusive={inclusive}, width={width})"
        return self.line([f"o{self.n}[i] = {call}"], values, found)

    def block(self) -> Line:
        t, scan = self.dtype(), self.rng.random() < 0.5
        kind, values = self.kind(t), []
        if t == "bool" and kind in ("min", "max"):
            raise Unclear("the dtype of the scratch")
        values = self.numbers(t, THREADS, kind)
        own = wide(kind, t)
        held = [v.to(functions.DType(own)) for v in values]
        shared = f"h{self.n} = mo.shared_array(mo.{NAMES[own]}, {THREADS // WARP})"
        if not scan:
            first, second = (of_warp(kind, held[at:at + WARP], WARP)[0] for at in (0, WARP))
            found = [together(kind, first, second)] * THREADS
            return self.line([shared, f"o{self.n}[i] = mo.block_reduce(a{self.n}[i], h{self.n}, '{kind}')"], values,
                             found)
        inclusive = self.rng.random() < 0.5
        warps = [scanned(kind, held[at:at + WARP], WARP) for at in (0, WARP)]
        last = warps[0][-1]
        mine = [*warps[0], *warps[1]] if inclusive else [*exclusive(kind, warps[0], WARP),
                                                         *exclusive(kind, warps[1], WARP)]
        found = mine[:WARP] + [together(kind, last, v) for v in mine[WARP:]]
        call = f"mo.block_scan(a{self.n}[i], h{self.n}, '{kind}', inclusive={inclusive})"
        return self.line([shared, f"o{self.n}[i] = {call}"], values, found)

    def pairs(self) -> Line:
        t, kind, n = self.dtype(), self.rng.choice(["argmax", "argmin"]), self.n
        values, whole = self.numbers(t, THREADS), self.rng.random() < 0.4
        width = THREADS if whole else self.rng.choice([32, 8, 2])
        values_of, places = [], []
        for i in range(THREADS):
            group = range(i // width * width, i // width * width + width)
            best = (values[group[0]], group[0])
            for j in group[1:]:
                best = better(kind, best, (values[j], j))
            values_of.append(best[0])
            places.append(Value("i32", best[1]))
        if is_float(t) and any(v.v == 0 for v in values_of):
            raise Unclear("which zero")
        statements = [f"v{n}, w{n} = mo.warp_reduce((a{n}[i], i), '{kind}', {width})"]
        if whole:
            statements = [f"h{n}, g{n} = mo.shared_array(mo.{NAMES[t]}, 2), mo.shared_array(mo.int32, 2)",
                          f"v{n}, w{n} = mo.block_reduce((a{n}[i], i), (h{n}, g{n}), '{kind}')"]
        return self.line([*statements, f"o{n}[i], p{n}[i] = v{n}, w{n}"], values, values_of, places)

    def match(self) -> Line:
        t = self.dtype(of=[t for t in BITS if t not in FLOAT8])
        values, mode = self.numbers(t, THREADS), self.rng.choice(["any", "all"])
        bits = array(values, t).view(f"u{max(1, BITS[t] // 8)}").tolist()
        found = []
        for i in range(THREADS):
            first = i // WARP * WARP
            same = sum(1 << j for j in LANES if bits[first + j] == bits[i])
            found.append(Value("u32", same if mode == "any" else same if same == 0xFFFFFFFF else 0))
        return self.line([f"o{self.n}[i] = mo.match_{mode}(a{self.n}[i])"], values, found)

    def shuffle(self) -> Line:
        t, kind = self.dtype(), self.rng.choice(["idx", "up", "down", "xor"])
        values, width = self.numbers(t, THREADS), self.rng.choice([32, 32, 16, 4])
        by = self.rng.randrange(width)
        found = []
        for i in range(THREADS):
            lane, first = i % width, i // width * width
            to = {"idx": by, "up": lane - by, "down": lane + by, "xor": lane ^ by}[kind]
            found.append(values[first + to] if 0 <= to < width else values[i])
        return self.line([f"o{self.n}[i] = mo.shuffle_{kind}(a{self.n}[i], {by}, {width})"], values, found)

    def vote(self) -> Line:
        t, kind = self.dtype(), self.rng.choice(["ballot", "vote_any", "vote_all"])
        values = self.numbers(t, THREADS)
        found = []
        for i in range(THREADS):
            bits = sum(1 << j for j in LANES if values[i // WARP * WARP + j].v != 0)
            found.append(Value("u32", bits) if kind == "ballot" else
                         Value("bool", bits != 0 if kind == "vote_any" else bits == 0xFFFFFFFF))
        return self.line([f"o{self.n}[i] = mo.{kind}(a{self.n}[i])"], values, found)

    # --- registers ---

    def fragment(self, t: str, shape: tuple[int, ...], kind: str) -> tuple[list[str], Values]:
        """Statements that bring a fragment of each thread from memory, and the numbers of all."""
        count = int(np.prod(shape))
        values = self.numbers(t, count * THREADS, kind)
        strides = ""
        if len(shape) == 2 and self.rng.random() < 0.5:
            strides = f"mo.make_layout({shape}, ({shape[1]}, 1))"
        statements = [f"r{self.n} = mo.fragment({strides or shape}, mo.{NAMES[t]})"]
        for c in np.ndindex(shape[::-1]):
            at = c[::-1]
            place = int(np.ravel_multi_index(at, shape, order="F"))
            statements.append(f"r{self.n}[{', '.join(map(str, at))}] = a{self.n}[i * {count} + {place}]")
        return statements, values

    def registers(self) -> Line:
        t, shape = self.dtype(), self.rng.choice(SHAPES)
        kind, count = self.kind(t), int(np.prod(shape))
        statements, values = self.fragment(t, shape, kind)
        held = [v.to(functions.DType(wide(kind, t))) for v in values]
        found = [of_registers(kind, held[i * count:(i + 1) * count]) for i in range(THREADS)]
        return self.line([*statements, f"o{self.n}[i] = r{self.n}.reduce('{kind}')"], values, found)

    def reduced_rows(self) -> Line:
        """One mode is folded, and the others stay; then one element is looked at."""
        t, shape = self.dtype(), self.rng.choice([s for s in SHAPES if len(s) > 1])
        kind, mode = self.kind(t), self.rng.randrange(len(shape))
        statements, values = self.fragment(t, shape, kind)
        held = np.array([v.to(functions.DType(wide(kind, t))) for v in values], object)
        count = int(np.prod(shape))
        rest = tuple(e for m, e in enumerate(shape) if m != mode)
        at = tuple(self.rng.randrange(e) for e in rest)
        found = []
        for i in range(THREADS):
            mine = held[i * count:(i + 1) * count].reshape(shape, order="F")
            found.append(of_registers(kind, list(np.moveaxis(mine, mode, 0)[(slice(None), *at)])))
        text = f"r{self.n}.reduce('{kind}', {mode})[{', '.join(map(str, at))}]"
        return self.line([*statements, f"o{self.n}[i] = {text}"], values, found)

    def places(self) -> Line:
        t, shape, kind = self.dtype(), self.rng.choice(SHAPES), self.rng.choice(["argmax", "argmin"])
        statements, values = self.fragment(t, shape, "")
        count = int(np.prod(shape))
        tops, at = [], []
        for i in range(THREADS):
            mine = values[i * count:(i + 1) * count]
            best = (mine[0], 0)
            for j, v in enumerate(mine):
                best = better(kind, best, (v, j))
            tops.append(of_registers("max" if kind == "argmax" else "min", mine))
            at.append(Value("i32", best[1] if best[0].v == best[0].v else 0))
        return self.line([*statements, f"o{self.n}[i], p{self.n}[i] = r{self.n}.{kind}()"], values, tops, at)

    # --- atomics ---

    def atomic(self) -> Line:
        """Each thread has a cell of its own, and looks at what was in it before."""
        t, n, shared = self.dtype(of=ATOMIC), self.n, self.rng.random() < 0.4
        kinds = ["add", "min", "max", "exch", "cas", *([] if is_float(t) else ["and", "or", "xor"])]
        kind = self.rng.choice(kinds)
        before, values = self.numbers(t, THREADS), self.numbers(t, THREADS)
        hit = [self.rng.random() < 0.5 for _ in range(THREADS)]
        compare_with = [b if h else v for b, v, h in zip(before, self.numbers(t, THREADS), hit, strict=True)]
        after = [self.changed(kind, b, v, c) for b, v, c in zip(before, values, compare_with, strict=True)]
        cell, statements = f"z{n}", []
        if shared:
            cell = f"h{n}"
            statements = [f"h{n} = mo.shared_array(mo.{NAMES[t]}, {THREADS})", f"h{n}[i] = z{n}[i]"]
        given = f"b{n}[i], a{n}[i]" if kind == "cas" else f"a{n}[i]"
        statements.append(f"o{n}[i] = mo.atomic_{kind}({cell}, i, {given})")
        if shared:
            statements.append(f"z{n}[i] = h{n}[i]")
        inputs = {f"a{n}": (values, t), **({f"b{n}": (compare_with, t)} if kind == "cas" else {})}
        return Line(statements, inputs, {f"o{n}": (before, t), f"z{n}": (after, t)}, {f"z{n}": before})

    @staticmethod
    def changed(kind: str, before: Value, value: Value, other: Value) -> Value:
        t = before.t
        if kind == "exch":
            return value
        if kind == "cas":
            same = array([before, other], t).view(f"u{BITS[t] // 8}")
            return value if same[0] == same[1] else before
        if kind == "add" and not is_float(t):       # atomics wrap
            return Value(t, functions.scalars.wrap(before.v + value.v, t))
        return together(kind, before, value)


# --- kernels ---------------------------------------------------------------------------------------------------------


def draw(seed: int) -> Kernel:
    rng = random.Random(f"lanes {seed}")
    lines = [_Lines(rng, n).draw() for n in range(LINES)]
    names: list[str] = []
    arrays: list[Any] = []
    results: dict[str, Any] = {}
    for line in lines:
        for name, (values, t) in line.inputs.items():
            names.append(name)
            arrays.append(array(values, t))
        for name, (values, t) in line.outputs.items():
            names.append(name)
            begin = line.begin.get(name)
            arrays.append(np.zeros(len(values), NUMPY[t]) if begin is None else array(begin, t))
            results[name] = array(values, t)
    body = ["i = mo.thread_idx().x", *(text for line in lines for text in line.statements)]
    head = f"import moye as mo\n\n\n@mo.kernel\ndef extremes_{seed}({', '.join(names)}):\n"
    return Kernel(seed, head + "".join(f"    {text}\n" for text in body), names, arrays, results)


def judged(kernels: Sequence[Kernel], arch: str = on_emulator.ARCH) -> list[str]:
    """What is wrong with some kernels, a text each."""
    return extremes.answers(kernels, arch, _differ)


def _differ(one: Kernel, simulated: list[Any], emulated: list[Any]) -> list[str]:
    told = []
    for name, x, y in zip(one.names, simulated, emulated, strict=True):
        if name not in one.results:
            continue
        for who, other in (("the emulator", y), ("Python", one.results[name])):
            if (at := extremes.unlike(x, other)) is not None:
                lines = " ".join(text.strip() for text in one.source.splitlines() if f"{name[0]}{name[1:]}" in text)
                told.append(f"{name}[{at}] is {x[at]} in the simulator, {other[at]} in {who}: {lines[-200:]}")
                break
    return told


if __name__ == "__main__":
    sys.exit(command.in_batches(__doc__, draw, judged, 10, on_emulator.ARCH))
