"""Reader of CuTe's notation for integer tuples and layouts.

In: text such as ``((2,2),4):((1,8),2)``.  Out: the nested tuples of its shape and its stride.

>>> parse_layout("(4):(1)"), parse_layout("8")
(((4,), (1,)), (8, None))

``(4)`` and ``(4,)`` are both one-tuples, ``4`` is an integer; spaces and C++'s ``_`` before static integers are
skipped.  Dynamic integers have no notation.
"""

from __future__ import annotations

import re

from moye.errors import LayoutError, caret
from moye.layout.tuples import IntTuple

_TOKEN = re.compile(r"-?\d+|[(),:]|\S")


class _Reader:
    """A recursive-descent reader over the tokens of one text."""

    def __init__(self, source: str) -> None:
        self.source = source
        columns = [i for i, c in enumerate(source) if c != "_"]
        found = list(_TOKEN.finditer("".join(source[i] for i in columns)))
        self.tokens = [token[0] for token in found]
        self.columns = [columns[token.start()] for token in found]
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def fail(self, wanted: str) -> LayoutError:
        found = repr(self.peek()) if self.peek() else "the end"
        where = caret(self.source, self.columns[self.at] if self.peek() else len(self.source.rstrip()))
        return LayoutError(f"{self.source!r} is not in layout notation: {wanted} expected, {found} found\n{where}",
                           hint="notation is shape:stride, such as ((2,2),4):((1,8),2)")

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def int_tuple(self) -> IntTuple:
        if not self.accept("("):
            token = self.peek()
            if not token.lstrip("-").isdigit():
                raise self.fail("an integer or '('")
            self.at += 1
            return int(token)
        items: list[IntTuple] = []
        while not self.accept(")"):
            items.append(self.int_tuple())
            if not self.accept(",") and self.peek() != ")":
                raise self.fail("',' or ')'")
        return tuple(items)

    def end(self) -> None:
        if self.peek():
            raise self.fail("the end")


def parse_int_tuple(source: str) -> IntTuple:
    """The integer tuple that a text denotes."""
    reader = _Reader(source)
    result = reader.int_tuple()
    reader.end()
    return result


def parse_layout(source: str) -> tuple[IntTuple, IntTuple | None]:
    """Shape and stride that a text denotes; no stride where it names only a shape."""
    reader = _Reader(source)
    shape = reader.int_tuple()
    stride = reader.int_tuple() if reader.accept(":") else None
    reader.end()
    return shape, stride
