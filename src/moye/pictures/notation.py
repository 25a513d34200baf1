"""Reader of what the command line and ``draw`` are given as text: a layout, a swizzle, or a swizzled layout.

In: ``((2,2),4):((1,8),2)``, ``Sw<3,3,3>`` or ``Sw<3,3,3> o 0 o (8,64):(64,1)``.  Out: the object.

>>> read("Sw<2,0,2>"), read("Sw<2,0,2> o (4,4)")
(Sw<2,0,2>, Sw<2,0,2> o 0 o (4,4):(1,4))

A caret shows the offending character.
"""

from __future__ import annotations

import re

from moye.errors import LayoutError, caret
from moye.layout import ComposedLayout, Layout, Swizzle

_TOKEN = re.compile(r"\s*(-?\d+|Sw|\S)")


class _Words:
    """A cursor over the words of a text."""

    def __init__(self, source: str) -> None:
        self.source, self.at = source, 0

    def peek(self) -> str:
        found = _TOKEN.match(self.source, self.at)
        return found[1] if found else ""

    def take(self) -> str:
        found = _TOKEN.match(self.source, self.at)
        self.at = found.end() if found else self.at
        return found[1] if found else ""

    def fail(self, wanted: str) -> LayoutError:
        rest = self.source[self.at:]
        column = len(self.source.rstrip()) if not rest.strip() else self.at + len(rest) - len(rest.lstrip())
        found = repr(self.peek()) if self.peek() else "the end"
        return LayoutError(f"{self.source!r} is no swizzle: {wanted} expected, {found} found\n"
                           f"{caret(self.source, column)}",
                           hint="notation is Sw<bits,base,shift>, before a layout Sw<bits,base,shift> o shape:stride")

    def expect(self, word: str) -> None:
        if self.peek() != word:
            raise self.fail(repr(word))
        self.take()

    def number(self) -> int:
        if not re.fullmatch(r"-?\d+", self.peek()):
            raise self.fail("an integer")
        return int(self.take())

    def three(self) -> tuple[int, int, int]:
        bits = self.number()
        self.expect(",")
        base = self.number()
        self.expect(",")
        return bits, base, self.number()


def read(source: str) -> Layout | Swizzle | ComposedLayout:
    """The layout, swizzle or swizzled layout that a text denotes; LayoutError with a caret where it denotes none."""
    words = _Words(source)
    if words.peek() != "Sw":
        return Layout.parse(source)
    swizzle = _swizzle(words)
    if not words.peek():
        return swizzle
    words.expect("o")
    return ComposedLayout.parse(source)


def read_swizzle(source: str) -> Swizzle:
    """The swizzle that a text denotes: ``Sw<3,3,3>`` or ``3,3,3``."""
    words = _Words(source)
    swizzle = _swizzle(words) if words.peek() == "Sw" else Swizzle(*words.three())
    if words.peek():
        raise words.fail("the end")
    return swizzle


def _swizzle(words: _Words) -> Swizzle:
    words.expect("Sw")
    words.expect("<")
    three = words.three()
    words.expect(">")
    return Swizzle(*three)
