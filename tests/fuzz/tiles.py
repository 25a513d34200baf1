"""Random tile operations for ``irs.py``: copies, elementwise work, reductions, products, and where their elements lie.

In: the generator that draws the program.  Out: ops at the end of its body.

Strides are nested, transposed, zero or negative, with gaps; only what is written twice in one operation is left out.
"""

from __future__ import annotations

import math
import random
from itertools import product
from typing import TYPE_CHECKING, Any

from moye import dtypes as dt
from moye.atoms.universal import UniversalCopy, UniversalFMA
from moye.dtypes import DType, Kind, Space
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Extent, Func, Operand, TileRef, Value
from moye.layout import Swizzle, make_layout

I32 = dt.int32
LENGTH, HELD, SLOTS, LANES = 96, 16, 64, 32      # elements of an input, of a fragment, of a thread's results; threads
Place = tuple[int, tuple[int, ...]]     # an offset and strides


def points(extents: tuple[int, ...], place: Place) -> list[int]:
    return [place[0] + sum(i * s for i, s in zip(point, place[1], strict=True))
            for point in product(*(range(e) for e in extents))]


class Tiles:
    """Draws tile operations; what it needs of a program is declared here."""

    rng: random.Random
    func: Func
    body: list[ops.Op]
    base: Value
    tid: Value
    zeros: bool
    calm: bool
    types: list[DType]
    values: list[Value]
    fragments: list[Buffer]
    inputs: list[Buffer]
    outputs: list[Buffer]
    scalars: dict[str, Value]
    depth: int

    if TYPE_CHECKING:
        def chance(self, p: float) -> bool: ...
        def lit(self, x: Any, t: DType = I32) -> Operand: ...
        def define(self, op_class: Any, dtype: DType, **fields: Any) -> Value: ...
        def binary(self, kind: str, a: Operand, b: Operand) -> Value: ...
        def cast(self, a: Operand, t: DType) -> Operand: ...
        def expression(self, t: DType, depth: int) -> Operand: ...
        def truth(self, depth: int) -> Operand: ...
        def kind(self, t: DType) -> str: ...
        def out(self, value: Operand) -> None: ...

    # --- where elements lie ---

    def points(self, extents: tuple[int, ...], place: Place) -> list[int]:
        return points(extents, place)

    def extents(self, most: int = HELD) -> tuple[int, ...]:
        while True:
            found = tuple(self.rng.choice([1, 2, 2, 3, 4]) for _ in range(self.rng.randint(1, 3)))
            if len(points(found, (0, (0,) * len(found)))) <= most:
                return found

    def compact(self, extents: tuple[int, ...]) -> tuple[int, ...]:
        """Strides of neighbours in some order of the modes."""
        order, strides, step = self.rng.sample(range(len(extents)), len(extents)), [0] * len(extents), 1
        for mode in order if self.chance(0.6) else range(len(extents)):
            strides[mode], step = step, step * extents[mode]
        return tuple(strides)

    def place(self, extents: tuple[int, ...], size: int, written: bool = False) -> Place:
        """An offset and strides within ``size`` elements; of what is written no element comes twice."""
        while True:
            free = tuple(self.rng.choice([0, 1, 1, 2, 3, 4, 5, -1]) for _ in extents)
            strides = self.compact(extents) if self.chance(0.5) else free
            reached = points(extents, (0, strides))
            low, high = min(reached), max(reached)
            if high - low < size and (not written or len(set(reached)) == len(reached)):
                return self.rng.randint(0, size - 1 - (high - low)) - low, strides

    def tile(self, buffer: Buffer, place: Place, offset: Operand | None = None, *, dtype: DType | None = None,
             swizzle: Swizzle | None = None, lane: int = 1) -> TileRef:
        strides: tuple[Extent, ...] = place[1]
        at = self.lit(place[0]) if offset is None else offset
        return TileRef(buffer, at, dtype or buffer.dtype, strides, swizzle, lane=lane)

    # --- fragments ---

    def fragment(self, t: DType) -> Buffer:
        """Registers, filled from an input or with one value."""
        buffer = Buffer(self.rng.choice(["r", "acc", ""]), Space.REGISTER, t, HELD, make_layout(HELD), align=16)
        self.func.buffers.append(buffer)
        self.body.append(ops.Alloc(buffer=buffer))
        whole = self.tile(buffer, (0, (1,)))
        if t in self.types:
            source = self.tile(self.inputs[self.types.index(t)], (0, (1,)), self.tid)
            self.body.append(ops.Copy(dst=whole, src=source, extents=(HELD,), width=1, atom=UniversalCopy(t)))
        else:
            self.body.append(ops.Map(dst=whole, sources=(), inputs=(), extents=(HELD,), body=Block(),
                                     value=self.expression(t, 1)))
        return buffer

    def keep(self, fragment: Buffer) -> None:
        """A fragment goes to the thread's results, behind those of single values."""
        t = fragment.dtype
        before = [f.dtype for f in self.fragments[:self.fragments.index(fragment)]].count(t)
        where = self.binary("add", self.base, self.lit(HELD * (1 + before)))
        to = self.tile(self.outputs[self.types.index(t)], (0, (1,)), where)
        self.body.append(ops.Copy(dst=to, src=self.tile(fragment, (0, (1,))), extents=(HELD,), width=1,
                                  atom=UniversalCopy(t)))

    def tiled(self) -> None:
        getattr(self, self.rng.choice(["map_", "map_", "map_", "reduce", "reduce", "arrives", "arrives", "leaves",
                                       "between", "dynamic"]))()

    def map_(self) -> None:
        """Elementwise work; often on elements of the tensor that is written, shifted or transposed."""
        extents, dst = self.extents(), self.rng.choice(self.fragments)
        found = [dst if self.chance(0.4) else self.rng.choice(self.fragments) for _ in range(self.rng.randint(0, 3))]
        to = self.place(extents, HELD, True)
        sources = [self.tile(b, to if b is dst and self.chance(0.4) else self.place(extents, HELD)) for b in found]
        inputs = [Value(b.dtype) for b in found]
        outer, known = self.body, len(self.values)
        block = Block()
        self.body, self.depth = block.ops, self.depth + 1
        value = self.mapped(inputs, dst.dtype)
        self.body, self.depth = outer, self.depth - 1
        del self.values[known:]
        self.body.append(ops.Map(dst=self.tile(dst, to), sources=tuple(sources), inputs=tuple(inputs), extents=extents,
                                 body=block, value=value))

    def mapped(self, inputs: list[Value], t: DType) -> Operand:
        """A Map's value: its body is pure and of the inputs."""
        parts: list[Operand] = [self.cast(x, t) for x in inputs]
        value = parts[0] if parts else self.lit(1 if t.is_integer else 1.5, t)
        for other in parts[1:]:
            value = self.binary(self.kind(t), value, other)
        if self.chance(0.4):
            value = self.binary(self.kind(t), value, self.lit(3 if t.is_integer else 0.5, t))
        if parts and self.chance(0.3):
            cond = self.binary("lt", parts[0], value)
            value = self.define(ops.Select, t, cond=cond, a=value, b=self.rng.choice(parts))
        return value

    def reduce(self) -> None:
        fragment, extents = self.rng.choice(self.fragments), self.extents()
        t = fragment.dtype
        signed = t.kind is Kind.INT and t.bits >= 32
        kinds = [*([] if self.calm and signed else ["add", "mul"]),
                 *([] if t.is_float and self.zeros else ["min", "max"]),
                 *([] if t.is_float else ["and", "or", "xor"])]
        kind, src, points = self.rng.choice(kinds), self.tile(fragment, self.place(extents, HELD)), math.prod(extents)
        chains = self.rng.choice([c for c in (1, 2, 4, 8) if c <= points])
        made = self.define(ops.Reduce, t, kind=kind, extents=extents, src=src, chains=chains)
        self.values.append(made)
        if self.depth == 0:
            self.out(made)
        if kind in ("min", "max"):
            at = self.define(ops.Find, dt.int32, value=made, extents=extents, src=src)
            self.values.append(at)
            if self.depth == 0:
                self.out(at)

    # --- copies ---

    def vectors(self, t: DType) -> tuple[int, int, tuple[int, ...], Place, Place]:
        """(width, lane, extents, the registers' place, the memory's place) of accesses that are aligned."""
        while True:
            width = self.rng.choice([w for w in (1, 2, 4, 8, 16) if w * t.bits <= 256])
            lane, extents = self.rng.choice([1, 1, 2, 3]), self.extents(max(1, HELD // width))
            offset, strides = self.place((*extents, width), HELD, True)
            strides = (*strides[:-1], lane) if lane > 1 or self.chance(0.5) else (*(s * width for s in strides[:-1]), 1)
            memory = self.place(extents, max(2, LENGTH // 4 // width), True)
            reached = points((*extents, width), (offset, strides))
            if min(reached) >= 0 and max(reached) < HELD and len(set(reached)) == len(reached):
                wide = (memory[0] * width, tuple(s * width for s in memory[1]))
                return width, lane, extents, (offset, strides[:-1]), wide

    def guard(self, extents: tuple[int, ...], t: DType | None = None) -> dict[str, Any]:
        """A predicate for the whole, or one for each access from bools; or none.  With ``t`` it fills."""
        if self.chance(0.5):
            return {}
        pred: Any = self.truth(1)
        if self.chance(0.5):
            pred = self.tile(self.bools(), self.place(extents, HELD))
        fill: dict[str, Any] = {"zero_fill": self.chance(0.5)}
        if fill["zero_fill"] and t is not None and self.chance(0.5):
            fill["other"] = self.expression(t, 1)
        return {"pred": pred, **fill}

    def bools(self) -> Buffer:
        """A fragment of bools: what is small in another fragment."""
        buffer = Buffer("p", Space.REGISTER, dt.bool_, HELD, make_layout(HELD), align=16)
        self.func.buffers.append(buffer)
        self.body.append(ops.Alloc(buffer=buffer))
        fragment = self.rng.choice(self.fragments)
        x = Value(fragment.dtype)
        outer, block = self.body, Block()
        self.body = block.ops
        test = self.binary("lt", x, self.lit(3 if x.dtype.is_integer else 0.5, x.dtype))
        self.body = outer
        self.body.append(ops.Map(dst=self.tile(buffer, (0, (1,))), sources=(self.tile(fragment, (0, (1,))),),
                                 inputs=(x,), extents=(HELD,), body=block, value=test))
        return buffer

    def arrives(self) -> None:
        """Global memory to registers, several elements an access."""
        i = self.rng.randrange(len(self.types))
        t, fragment = self.types[i], self.fragments[i]
        width, lane, extents, registers, memory = self.vectors(t)
        step = self.binary("mul", self.binary("and", self.tid, self.lit(3)), self.lit(16))
        offset = self.binary("add", step, self.lit(memory[0]))
        guard = self.guard(extents, t)
        self.body.append(ops.Copy(dst=self.tile(fragment, registers, lane=lane), extents=extents, width=width,
                                  src=self.tile(self.inputs[i], memory, offset), atom=UniversalCopy(t), **guard))

    def leaves(self) -> None:
        """Registers to the last elements of the thread's results."""
        i = self.rng.randrange(len(self.types))
        t, fragment = self.types[i], self.fragments[i]
        width, lane, extents, registers, memory = self.vectors(t)
        if not all(0 <= x <= HELD - width for x in points(extents, memory)):
            return
        offset = self.binary("add", self.base, self.lit(SLOTS - HELD + memory[0]))
        guard = self.guard(extents, t)
        self.body.append(ops.Copy(src=self.tile(fragment, registers, lane=lane), extents=extents, width=width,
                                  dst=self.tile(self.outputs[i], memory, offset), atom=UniversalCopy(t), **guard))

    def between(self) -> None:
        """Registers to registers, several elements at a time."""
        i = self.rng.randrange(2)       # two fragments have this dtype
        t, one, other = self.types[i], self.fragments[i], self.fragments[i + len(self.types)]
        width, lane, extents, there, _ = self.vectors(t)
        while (here := self.vectors(t))[0] != width or len(here[2]) != len(extents):
            pass
        if here[2] != extents:
            return
        guard = self.guard(extents, t)
        self.body.append(ops.Copy(dst=self.tile(one, there, lane=lane), src=self.tile(other, here[3], lane=here[1]),
                                  extents=extents, width=width, atom=UniversalCopy(t), **guard))

    def dynamic(self) -> None:
        """Extents and strides that the launch knows, from memory to memory."""
        i = self.rng.randrange(len(self.types))
        t, n, s = self.types[i], self.scalars["n"], self.scalars["s"]
        src = TileRef(self.inputs[i], self.tid, t, (s, self.rng.choice([0, 1, 4])))
        at = self.binary("add", self.base, self.lit(SLOTS - HELD))
        dst = TileRef(self.outputs[i], at, t, self.rng.choice([(1, 3), (4, 1)]))
        guard = {} if self.chance(0.6) else {"pred": self.truth(1), "zero_fill": self.chance(0.5)}
        self.body.append(ops.Copy(dst=dst, src=src, extents=(n, 3), width=1, atom=UniversalCopy(t), **guard))

    def from_shared(self, buffer: Buffer, swizzle: Swizzle | None) -> None:
        """A tile of a swizzled tensor into registers, its steps of a whole period or within one."""
        t = buffer.dtype
        extents = self.extents(8)
        strides = tuple(self.rng.choice([0, 1, 2, 4, 8, 16, 32]) if e == 2 else self.rng.choice([0, 1, 3])
                        for e in extents)
        reach = sum((e - 1) * s for e, s in zip(extents, strides, strict=True))
        if reach >= 2 * LANES:
            return
        fragment = self.fragments[self.types.index(t)]
        bits = (2 * LANES - reach).bit_length() - 1
        offset = self.binary("and", self.expression(I32, 1), self.lit((1 << bits) - 1))
        dst = self.tile(fragment, self.place(extents, HELD, True))
        self.body.append(ops.Copy(dst=dst, src=TileRef(buffer, offset, t, strides, swizzle), extents=extents, width=1,
                                  atom=UniversalCopy(t)))

    # --- products ---

    def product(self) -> None:
        """d = a * b + c of one-element atoms, whose values lie anywhere in their fragments."""
        wide = [x for x in self.types if x.bits >= 32 and not (self.calm and x.kind is Kind.INT)]
        if not wide:
            return
        t = self.rng.choice(wide)
        like = [f for f in self.fragments if f.dtype == t]
        extents = self.extents(12)
        roles = "".join(self.rng.choice("mnk") for _ in extents)
        values = {x: (self.rng.choice([0, 0, 1, 2, 3]),) for x in "abcd"}
        places: dict[str, Place] = {}
        for letter, mine in (("a", "mk"), ("b", "nk"), ("d", "mn")):
            places[letter] = self._operand(extents, roles, mine, letter == "d")
        places["c"], values["c"] = places["d"], values["d"]
        d = self.fragment(t)
        refs = {x: self.tile(self.rng.choice(like), places[x]) for x in "ab"}
        refs["d"] = refs["c"] = self.tile(d, places["d"])
        self.body.append(ops.Gemm(mma=UniversalFMA(t), extents=extents, roles=roles, **refs,
                                  **{f"{x}_values": values[x] for x in "abcd"},
                                  order=self.rng.choice(["rows", "serpentine"])))
        extent = (HELD,)
        self.values.append(self.define(ops.Reduce, t, kind="add", extents=extent, src=self.tile(d, (0, (1,)))))

    def _operand(self, extents: tuple[int, ...], roles: str, mine: str, written: bool) -> Place:
        """A place in the modes that an operand has; the others do not move it."""
        own = [e if role in mine else 1 for e, role in zip(extents, roles, strict=True)]
        offset, strides = self.place(tuple(own), HELD - 3, written)
        return offset, tuple(s if role in mine else 0 for s, role in zip(strides, roles, strict=True))
