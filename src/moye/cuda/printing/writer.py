"""Indented lines of C++, with the user's source lines as comments between them.

In: lines, and the program point of what is being printed.  Out: text.

    writer.at(loc); writer.line("__syncthreads();")     # // gemm.py:41  mo.sync_threads()

A source line is printed when the first line of C++ that stems from it is.  The lines of an inlined call are indented
below the line of the call, which is told once above them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from moye.cuda.printing.escapes import comment, string
from moye.errors import Frame, Loc

_MOST = 110
Frames = tuple[Frame, ...]
Trips = tuple[tuple[str, int], ...]


class Line(NamedTuple):
    """One line; ``trips`` are the unrolled loops around it, ``frames`` the program point that a comment tells."""

    level: int
    text: str
    trips: Trips = ()
    frames: Frames = ()


def chain(frames: Frames) -> Frames:
    """The call chain with each line once: what a comprehension or a condition calls is on the line that it is on."""
    return tuple(frame for before, frame in zip((None, *frames), frames, strict=False)
                 if before is None or (frame.file, frame.line) != (before.file, before.line))


def described(frames: Frames) -> str:
    """The comment of a statement, indented by the calls that it is inlined through."""
    frame = frames[-1]
    source = re.sub(r" {3,}", "  ", frame.text().strip())
    text = comment(f"{'  ' * (len(frames) - 1)}{os.path.basename(frame.file)}:{frame.line}  {source}".rstrip())
    return f"// {text if len(text) <= _MOST else text[: _MOST - 3].rstrip() + '...'}"


class Writer:
    """Collects lines; ``lineinfo`` asks for #line directives."""

    def __init__(self, lineinfo: bool = False) -> None:
        self.lines: list[Line] = []
        self.level = 0
        self._lineinfo = lineinfo
        self._frames: Frames = ()
        self._whole: Frames = ()                        # the frames that _frames was made of
        self._trips: Trips = ()
        self._opened: list[Trips] = []
        self._told: tuple[tuple[str, int], ...] = ()

    def at(self, loc: Loc, trips: Trips = ()) -> None:
        """What follows stems from this program point, in these trips of unrolled loops."""
        self._trips = trips
        if loc.frames and loc.frames is not self._whole:
            self._whole, self._frames = loc.frames, chain(loc.frames)

    def line(self, text: str) -> None:
        """One line, after the comment of its source line if that is a new one."""
        if self._frames:
            self._tell()
        self._add(text)

    def open(self, text: str) -> None:
        """A line that ends in ``{``; what follows is indented."""
        self.line(text)
        self._opened.append(self._trips)
        self.level += 1

    def close(self, text: str = "}") -> None:
        self.level -= 1
        self._trips = self._opened.pop()
        self._add(text)

    def between(self, text: str) -> None:
        """A line such as ``} else {``, at the level of the one that opened the block."""
        self.lines.append(Line(self.level - 1, text, self._opened[-1]))

    def _add(self, text: str) -> None:
        self.lines.append(Line(self.level, text, self._trips))

    def _tell(self) -> None:
        """The calls that have not been told, and the statement."""
        points = tuple((frame.file, frame.line) for frame in self._frames)
        if points == self._told:
            return
        shared = 0
        while shared < min(len(points) - 1, len(self._told)) and points[shared] == self._told[shared]:
            shared += 1
        for depth in range(shared, len(points)):
            frames = self._frames[:depth + 1]
            self.lines.append(Line(self.level, described(frames), self._trips, frames))
        self._told = points
        if self._lineinfo and not self._frames[0].file.startswith("<"):
            self.lines.append(Line(0, f'#line {self._frames[0].line} "{string(self._frames[0].file)}"', self._trips))

    @contextmanager
    def aside(self) -> Iterator[list[Line]]:
        """Collects the lines of the with statement apart, instead of adding them."""
        kept, self.lines = self.lines, []
        try:
            yield self.lines
        finally:
            if self.lines:
                self._told = ()     # they come below lines that are yet to be written
            self.lines = kept


def joined(lines: list[Line]) -> str:
    """The text of lines."""
    return "\n".join(f"{'    ' * line.level}{line.text}" if line.text else "" for line in lines)
