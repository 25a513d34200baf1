"""Read CuTe's notation for integer tuples, layouts and swizzles.

In: text such as ``((2,2),4):((1,8),2)``, ``(4,8):(1@0,1@1)`` or ``Sw<3,4,3> o 0 o (8,8):(8,1)``.  Out: its parts as
nested tuples; LayoutError with a caret under the first character that does not belong.

>>> read_layout("(4):(1)"), read_layout("8")
(((4,), (1,)), (8, None))

``(4)`` and ``(4,)`` are both one-tuples, and ``4`` is an integer.  Spaces and C++'s ``_`` before static integers are
skipped.  Dynamic integers have no notation.  The meaning of the parts is in layout.py and swizzle.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from moye.errors import LayoutError
from moye.layout.basis import ScaledBasis
from moye.layout.ints import Int
from moye.layout.tuples import IntTuple

_TOKEN = re.compile(r"_?-?\d+|[A-Za-z]+|\S")
_PLAIN = "notation is shape:stride, such as ((2,2),4):((1,8),2)"
_SWIZZLED = "it is Sw<bits,base,shift> o offset o shape:stride"

Columns = int | tuple[int, "tuple[Columns, ...]"]
"""Where an integer tuple stands: the column of a leaf, or that of a parenthesis and the columns of its items."""


@dataclass(frozen=True, slots=True)
class SwizzledParts:
    """What the notation of a swizzled layout says, and the column of its swizzle."""

    bits_base_shift: tuple[int, int, int]
    offset: int
    shape: IntTuple
    stride: IntTuple | None


class Reader:
    """A recursive-descent reader over the tokens of one text."""

    def __init__(self, source: str, notation: str = "layout notation", hint: str = _PLAIN) -> None:
        self.source, self.notation, self.hint = source, notation, hint
        self.tokens = [(found.group(), found.start()) for found in _TOKEN.finditer(source)]
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def column(self) -> int:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else len(self.source.rstrip())

    def wants(self, wanted: str) -> LayoutError:
        found = repr(self.peek()) if self.peek() else "the end"
        return self.wrong(f"{wanted} expected, {found} found", self.column())

    def wrong(self, reason: str, column: int) -> LayoutError:
        line = re.sub(r"\s", " ", self.source)
        return LayoutError(f"{self.source!r} is not in {self.notation}: {reason}\n    {line}\n    {' ' * column}^",
                           hint=self.hint)

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def expect(self, *tokens: str) -> None:
        for token in tokens:
            if not self.accept(token):
                raise self.wants(repr(token))

    def integer(self, wanted: str = "an integer") -> int:
        token = self.peek().lstrip("_")
        if not token.lstrip("-").isdigit():
            raise self.wants(wanted)
        self.at += 1
        return int(token)

    def leaf(self) -> Int:
        value = self.integer("an integer or '('")
        path: list[int] = []
        while self.accept("@"):
            if self.peek().startswith("-"):
                raise self.wants("the position of a coordinate")
            path.insert(0, self.integer("the position of a coordinate"))
        return ScaledBasis(value, tuple(path)) if path else value

    def int_tuple(self) -> tuple[IntTuple, Columns]:
        column = self.column()
        if not self.accept("("):
            return self.leaf(), column
        items: list[IntTuple] = []
        columns: list[Columns] = []
        while not self.accept(")"):
            item, where = self.int_tuple()
            items.append(item)
            columns.append(where)
            if not self.accept(",") and self.peek() != ")":
                raise self.wants("',' or ')'")
        return tuple(items), (column, tuple(columns))

    def layout(self) -> tuple[IntTuple, IntTuple | None]:
        """Read ``shape`` or ``shape:stride`` up to the end; both have one structure, and extents are >= 0."""
        shape, where = self.int_tuple()
        stride, places = self.int_tuple() if self.accept(":") else (None, 0)
        self.end()
        self._check_extents(shape, where)
        if stride is not None:
            self._check_structure(shape, stride, places)
        return shape, stride

    def swizzle(self) -> tuple[int, int, int]:
        column = self.column()
        self.expect("Sw", "<")
        numbers: list[int] = []
        for closing in (",", ",", ">"):
            numbers.append(self.integer())
            self.expect(closing)
        bits, base, shift = numbers
        if bits < 0 or base < 0:
            raise self.wrong("bits and base of a swizzle are not negative", column)
        if abs(shift) < bits:
            raise self.wrong(f"the swizzle moves {bits} bits by {shift}, so source and target overlap", column)
        return bits, base, shift

    def end(self) -> None:
        if self.peek():
            raise self.wants("the end")

    def _check_extents(self, shape: IntTuple, where: Columns) -> None:
        if isinstance(shape, tuple) and isinstance(where, tuple):
            for item, column in zip(shape, where[1], strict=True):
                self._check_extents(item, column)
        elif isinstance(shape, ScaledBasis):
            raise self.wrong(f"the extent {shape} is a coordinate, not a number", _first(where))
        elif isinstance(shape, int) and shape < 0:
            raise self.wrong(f"the extent {shape} is negative", _first(where))

    def _check_structure(self, shape: IntTuple, stride: IntTuple, where: Columns) -> None:
        if isinstance(shape, tuple) != isinstance(stride, tuple):
            modes = "one integer" if not isinstance(shape, tuple) else f"{len(shape)} modes in parentheses"
            raise self.wrong(f"the stride differs in structure from the shape, which has {modes} here", _first(where))
        if not isinstance(shape, tuple) or not isinstance(stride, tuple) or not isinstance(where, tuple):
            return
        for s, d, column in zip(shape, stride, where[1], strict=False):
            self._check_structure(s, d, column)
        if len(shape) != len(stride):
            extra = where[1][len(shape)] if len(stride) > len(shape) else where
            raise self.wrong(f"the stride has {len(stride)} modes where the shape has {len(shape)}", _first(extra))


def _first(where: Columns) -> int:
    return where if isinstance(where, int) else where[0]


def read_layout(source: str) -> tuple[IntTuple, IntTuple | None]:
    """The shape and stride that a text denotes; no stride if it names only a shape."""
    return Reader(source).layout()


def read_swizzle(source: str) -> tuple[int, int, int]:
    """Bits, base and shift of ``Sw<bits,base,shift>``."""
    reader = Reader(source, "the notation of swizzles", "it is Sw<bits,base,shift>, such as Sw<3,4,3>")
    numbers = reader.swizzle()
    reader.end()
    return numbers


def read_swizzled(source: str) -> SwizzledParts:
    """The parts of ``Sw<bits,base,shift> o offset o shape:stride``; without an offset it is 0."""
    reader = Reader(source, "the notation of swizzled layouts", _SWIZZLED)
    numbers = reader.swizzle()
    reader.expect("o")
    following = [token for token, _ in reader.tokens[reader.at + 1:reader.at + 2]]
    offset = 0
    if following == ["o"]:
        offset = reader.integer("an integer or a layout")
        reader.expect("o")
    return SwizzledParts(numbers, offset, *reader.layout())


def is_swizzled(source: str) -> bool:
    """Whether a text begins like the notation of a swizzled layout."""
    return Reader(source).peek() == "Sw"
