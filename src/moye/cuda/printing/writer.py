"""Indented lines of C++, with the user's source lines as comments between them.

In: lines, and the program point of what is being printed.  Out: text.

    writer.at(loc); writer.line("__syncthreads();")     # // gemm.py:41  mo.sync_threads()

A source line is printed when the first line of C++ that stems from it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from moye.cuda.printing.escapes import comment, string
from moye.errors import Frame, Loc

_MOST = 110


def _where(frame: Frame) -> str:
    return f"{os.path.basename(frame.file)}:{frame.line}"


def describe(loc: Loc) -> str:
    """The statement, and for one in a helper the line of the kernel that calls it."""
    if not loc.frames:
        return ""
    frame, caller = loc.frames[-1], ""
    if len(loc.frames) > 1:
        caller = f"  < {_where(loc.frames[0])}"
    source = re.sub(r" {3,}", "  ", frame.text().strip())
    text = comment(f"{_where(frame)}  {source}")
    caller = comment(caller)
    room = _MOST - len(caller)
    return (text if len(text) <= room else text[: room - 3].rstrip() + "...") + caller


class Writer:
    """Collects lines; ``lineinfo`` asks for #line directives."""

    def __init__(self, lineinfo: bool = False) -> None:
        self.lines: list[tuple[int, str]] = []
        self.level = 0
        self._lineinfo = lineinfo
        self._loc: tuple[Frame, ...] = ()
        self._printed: tuple[tuple[str, int], ...] = ()
        self._described: dict[tuple[Frame, ...], str] = {}

    def at(self, loc: Loc) -> None:
        """What follows stems from this program point."""
        if loc.frames:
            self._loc = loc.frames

    def line(self, text: str) -> None:
        """One line, after the comment of its source line if that is a new one."""
        if self._loc:
            self._comment()
        self.lines.append((self.level, text))

    def open(self, text: str) -> None:
        """A line that ends in ``{``; what follows is indented."""
        self.line(text)
        self.level += 1

    def close(self, text: str = "}") -> None:
        self.level -= 1
        self.lines.append((self.level, text))

    def between(self, text: str) -> None:
        """A line such as ``} else {``, at the level of the one that opened the block."""
        self.lines.append((self.level - 1, text))

    def _comment(self) -> None:
        key = tuple((frame.file, frame.line) for frame in (self._loc[0], self._loc[-1]))
        if key == self._printed:
            return
        self._printed = key
        text = self._described.get(self._loc)
        if text is None:
            text = self._described[self._loc] = describe(Loc(self._loc))
        self.lines.append((self.level, f"// {text}"))
        if self._lineinfo and not self._loc[0].file.startswith("<"):
            self.lines.append((0, f'#line {self._loc[0].line} "{string(self._loc[0].file)}"'))

    @contextmanager
    def aside(self) -> Iterator[list[tuple[int, str]]]:
        """Collects the lines of the with statement apart, instead of adding them."""
        kept, self.lines = self.lines, []
        try:
            yield self.lines
        finally:
            self.lines = kept

    def text(self) -> str:
        return "\n".join(f"{'    ' * level}{line}" if line else "" for level, line in self.lines)
