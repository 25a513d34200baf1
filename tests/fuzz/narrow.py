"""Random operations on narrow elements, for ``irs.py``: where the printer moves and computes whole words.

In: the generator that draws the program.  Out: ops at the end of its body.

Packed arithmetic of 16-bit floats, long expressions that are rounded to them two at a time, conversions to and from
8-bit elements, registers that are seen as elements of another width, copies with a predicate for each element.
"""

from __future__ import annotations

from typing import Any

from fuzz.tiles import HELD, SLOTS, Place, Tiles
from moye import dtypes as dt
from moye.atoms.universal import UniversalCopy
from moye.dtypes import DType, Space
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Operand, Ref, TileRef, Value
from moye.layout import make_layout

HALF = (dt.float16, dt.bfloat16)
FLOAT8 = (dt.float8_e4m3fn, dt.float8_e5m2)
PACKED = (dt.int8, dt.uint8, *FLOAT8)
SEEN = (dt.int8, dt.uint8, dt.int16, dt.uint16, dt.int32, dt.uint32)
NUMBERS = (0.5, 0.125, -1.0, 0.044715, 0.7978845608)
SHARE = 0.3         # how often the results of an expression are used again


class Narrow(Tiles):
    """Draws operations of narrow elements."""

    def narrow(self) -> None:
        kinds = ["packs", "seen", "grouped", "grouped"]
        if any(f.dtype in HALF for f in self.fragments):
            kinds += ["halves"] * 3 + ["pairs"] * 6
        getattr(self, self.rng.choice(kinds))()

    def registers(self, t: DType) -> Buffer:
        """Registers that are not filled yet."""
        buffer = Buffer(self.rng.choice(["n", ""]), Space.REGISTER, t, HELD, make_layout(HELD), align=16)
        self.func.buffers.append(buffer)
        self.body.append(ops.Alloc(buffer=buffer))
        return buffer

    def whole(self, buffer: Buffer) -> TileRef:
        return self.tile(buffer, (0, (1,)))

    def work(self, dst: TileRef, sources: list[TileRef], extents: tuple[int, ...], body: Any) -> None:
        """A Map whose value ``body`` makes of the inputs."""
        inputs = [Value(ref.dtype) for ref in sources]
        outer, known, block = self.body, len(self.values), Block()
        self.body, self.depth = block.ops, self.depth + 1
        value = body(inputs)
        self.body, self.depth = outer, self.depth - 1
        del self.values[known:]
        self.body.append(ops.Map(dst=dst, sources=tuple(sources), inputs=tuple(inputs), extents=extents, body=block,
                                 value=value))

    def in_words(self, fragment: Buffer) -> None:
        """Arithmetic for which all of a fragment is stored as words."""
        whole = self.whole(fragment)
        self.work(whole, [whole], (HELD,), lambda x: self.define(ops.Unary, fragment.dtype, kind="neg", a=x[0]))

    # --- 16-bit floats two at a time ---

    def neighbours(self, step: int = 2) -> tuple[tuple[int, ...], int, Place]:
        """(extents, a dimension, a place): neighbours along the dimension fill words of ``step``; most of the time."""
        while True:
            extents = list(self.extents())
            d = self.rng.randrange(len(extents))
            extents[d] = step * self.rng.choice([1, 1, 2, 3])
            strides = [step * self.rng.choice([1, 2, 3, 4, 0]) for _ in extents]
            strides[d] = 1
            for i in range(len(extents)):                       # what is written is written once
                if i != d:
                    strides[i] = strides[i] or step * extents[d]
            offset = step * self.rng.randrange(HELD // step) + (self.rng.random() < 0.1)
            reached = self.points(tuple(extents), (offset, tuple(strides)))
            if max(reached) < HELD and len(set(reached)) == len(reached):
                return tuple(extents), d, (offset, tuple(strides))

    def source(self, buffer: Buffer, extents: tuple[int, ...], to: Place) -> TileRef:
        """Where a source lies: like the result, or anywhere."""
        place = self.place(extents, HELD) if self.chance(0.4) else to
        return self.tile(buffer, place)

    def halves(self) -> None:
        """Sums, products and extrema in the dtype itself, of tiles and of values from around."""
        dst = self.rng.choice([f for f in self.fragments if f.dtype in HALF])
        t = dst.dtype
        extents, _, to = self.neighbours()
        like = [f for f in self.fragments if f.dtype is t]
        sources = [self.source(self.rng.choice(like), extents, to) for _ in range(self.rng.randint(1, 3))]
        kinds = ["add", "sub", "mul", *([] if self.zeros else ["min", "max"])]

        def body(inputs: list[Value]) -> Operand:
            around = [v for v in self.values[-8:] if v.dtype is t]
            parts: list[Operand] = [*inputs, *around[-1:], self.lit(self.rng.choice([1.5, -0.25, 3.0]), t)]
            value = parts[0]
            for _ in range(self.rng.randint(1, 6)):
                kind = self.rng.choice(["binary"] * 4 + ["neg", "abs", "fma", "fma"])
                if kind == "binary":
                    value = self.binary(self.rng.choice(kinds), value, self.rng.choice(parts))
                elif kind == "fma":
                    a, c = self.rng.choice(parts), self.rng.choice(parts)
                    value = self.define(ops.Fma, t, a=a, b=value, c=c)
                else:
                    value = self.define(ops.Unary, t, kind=kind, a=value)
                if self.chance(SHARE):
                    parts.append(value)
            return value
        self.work(self.tile(dst, to), sources, extents, body)

    def pairs(self) -> None:
        """Long work in float32, rounded to two neighbours at a time."""
        dst = self.rng.choice([f for f in self.fragments if f.dtype in HALF])
        extents, _, to = self.neighbours()
        others = [f for f in self.fragments if f is not dst or self.chance(0.05)]
        sources = [self.source(self.rng.choice(others), extents, to) for _ in range(self.rng.randint(1, 3))]
        self.work(self.tile(dst, to), sources, extents, lambda inputs: self.rounded(inputs, dst.dtype))

    def rounded(self, inputs: list[Value], t: DType) -> Operand:
        """Expressions about as long as a line holds, of which some are used twice.

        Two elements are printed side by side, and what has a name in one may be spelled out in the other.
        """
        around = [v for v in self.values[-8:] if v.dtype is dt.float32][-1:]
        parts: list[Operand] = [self.cast(x, dt.float32) for x in (*inputs, *around)]
        value = parts[0]
        share = self.rng.choice([0.03, 0.03, 0.03, SHARE])    # what is used twice has a name, and a line ends there
        for _ in range(self.rng.randint(4, 20)):
            other = self.rng.choice([*parts, self.lit(self.rng.choice(NUMBERS), dt.float32)])
            value = self.binary(self.rng.choice(("add", "mul", "sub")), value, other)
            if self.chance(share):
                parts.append(value)
            if self.chance(0.1):
                cond = self.binary("lt", self.rng.choice(parts), value)
                value = self.define(ops.Select, dt.float32, cond=cond, a=value, b=self.rng.choice(parts))
        return self.cast(value, t)

    # --- 8-bit elements by twos and fours ---

    def packs(self) -> None:
        """float32 to 8-bit elements, all and then some; these back to a fragment, 8-bit floats through float16."""
        t, wide = self.rng.choice(PACKED), self.registers(dt.float32)
        narrow, origin = self.registers(t), self.rng.choice(self.fragments)
        self.work(self.whole(wide), [self.whole(origin)], (HELD,), lambda x: self.cast(x[0], dt.float32))
        self._converted(self.whole(narrow), self.whole(wide), (HELD,))
        for _ in range(self.rng.randint(0, 2)):
            extents, _, to = self.neighbours(self.rng.choice([2, 4]))
            self._converted(self.tile(narrow, to), self.source(wide, extents, to), extents)
        if t in FLOAT8:
            half = self.registers(dt.float16)
            self._converted(self.whole(half), self.whole(narrow), (HELD,))
            extents, _, to = self.neighbours(self.rng.choice([2, 4]))
            self._converted(self.tile(half, self.place(extents, HELD, True)), self.tile(narrow, to), extents)
            narrow = half
        target = self.rng.choice(self.fragments)
        self._converted(self.whole(target), self.whole(narrow), (HELD,))

    def _converted(self, dst: TileRef, src: TileRef, extents: tuple[int, ...]) -> None:
        """A Map that converts, and does nothing else where no clamp is needed."""
        self.work(dst, [src], extents, lambda x: self.cast(x[0], dst.dtype))

    # --- elements of another width ---

    def seen(self) -> None:
        """Registers seen as elements of another width: integers are read and written, floats only written.

        The bits of a NaN are not the same everywhere.
        """
        fragment = self.rng.choice([f for f in self.fragments if f.dtype.bits <= 32])
        t = self.rng.choice([t for t in SEEN if t.bits != fragment.dtype.bits])
        count = HELD * fragment.dtype.bits // t.bits
        at = Ref(fragment, self.lit(self.rng.randrange(count)), t)
        if fragment.dtype.is_integer and self.chance(0.6):
            value = self.define(ops.Load, t, ref=at)
            self.values.append(value)
            self.out(value)
        elif self.chance(0.5):
            self.body.append(ops.Store(ref=at, value=self.expression(t, 1) if t in self.types else self.lit(77, t)))
        else:
            extents = self.extents(count)
            to = self.place(extents, count, True)
            self.work(self.tile(fragment, to, dtype=t), [], extents, lambda _: self.lit(self.rng.randrange(128), t))

    # --- copies whose elements have predicates of their own ---

    def grouped(self) -> None:
        """Groups of neighbours in memory: one access where all predicates hold and the address allows it."""
        i = self.rng.randrange(len(self.types))
        t, fragment = self.types[i], self.fragments[i]
        size = self.rng.choice([n for n in (2, 4, 8, 16) if n * t.bits <= 128])
        known = self.chance(0.5)        # whether addresses are known to be multiples of the group's bytes
        while True:
            extents = (size, *self.extents(max(1, HELD // size)))
            registers = self.place(extents, HELD, True)
            if self.chance(0.6):
                registers = (0, (1, *(size * s for s in self.compact(extents[1:]))))
            step = size if known else 1
            strides = (1, *(step * self.rng.choice([0, 1, 2, 3]) for _ in extents[1:]))
            reached = self.points(extents, (0, strides))
            if max(self.points(extents, registers)) < HELD and max(reached) < HELD:
                break
        start = step * self.rng.randrange((HELD - max(reached) - 1) // step + 1)
        direction = self.rng.choice(["arrives", "arrives", "leaves", "passes"])
        if direction != "arrives" and len(set(reached)) < len(reached):
            direction = "arrives"
        if direction == "arrives" and len(set(self.points(extents, registers))) < len(self.points(extents, registers)):
            return
        source = TileRef(self.inputs[i], self._from(start), t, strides)
        held, target = self.tile(fragment, registers), TileRef(self.outputs[i], self._to(start), t, strides)
        dst, src = {"arrives": (held, source), "leaves": (target, held), "passes": (target, source)}[direction]
        tested = "none" if known else {"arrives": "src", "leaves": "dst", "passes": "both"}[direction]
        pred = self.tile(self.bools(), self.place(extents, HELD))
        fill: dict[str, Any] = {"zero_fill": self.chance(0.5)}
        if fill["zero_fill"] and self.chance(0.6):
            fill["other"] = self.expression(t, 1)
        self.body.append(ops.Copy(dst=dst, src=src, extents=extents, width=1, atom=UniversalCopy(t), pred=pred,
                                  group=size, tested=tested, **fill))

    def _from(self, start: int) -> Operand:
        step = self.binary("mul", self.binary("and", self.tid, self.lit(3)), self.lit(16))
        return self.binary("add", step, self.lit(start))

    def _to(self, start: int) -> Operand:
        return self.binary("add", self.base, self.lit(SLOTS - HELD + start))

