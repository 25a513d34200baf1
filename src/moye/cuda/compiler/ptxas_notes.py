"""ptxas's notes of lost performance, with the lines of the kernel that they are about.

In: a Func, the log of its compilation.  Out: ``Note`` records.

    notes(func, log, again)[0].message
    # 'wgmma wait for each other: insufficient register resources for the wgmma pipeline (ptxas C7511)'

Notes that name a line mean one of the PTX: ``again`` compiles once more with line numbers, and its PTX knows the line
of the source, where comments name the kernel's.  Others name the function: they are about its wgmma.  Notes are told
apart by their words; codes vary by version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from moye.cuda.printing.writer import chain, described
from moye.errors import Loc
from moye.ir import ops
from moye.ir.nodes import Func

Again = Callable[[], tuple[str, str, str]]
"""Compiles with line numbers: the log, the PTX that its lines are of, the source."""

_NOTE = re.compile(r"\((?P<code>C\d{4})\)\s+(?P<text>.+)")
_SERIAL = re.compile(r"wgmma\S* instructions are serialized due to (?P<why>.+?)(?: (?:in|for) the function\b.*)?$")
_INJECTED = re.compile(r"warpgroup\.(?P<what>arrive|wait) is injected in around line (?P<line>\d+)")
_IGNORED = re.compile(r"'setmaxnreg' ignored;? ?(?P<why>.*?)\.?$")
_LOC = re.compile(r"\s*\.loc\s+\d+\s+(?P<line>\d+)\s+\d+(?:.*inlined_at\s+\d+\s+(?P<inlined>\d+))?")
_REFUSED = re.compile(r"compile instruction at line (?P<line>\d+)")

_HINTS = {
    "registers": "smaller accumulators, more warp groups, or more registers (warpgroup_reg_alloc, fewer min_blocks)",
    "touched": "touch registers of wgmma after a warpgroup_wait that covers them, and then warpgroup_arrive() again",
}


@dataclass(frozen=True, slots=True)
class Note:
    """One note: ptxas's code and words, what they mean, the program points.

    ``serial``: wgmma wait for each other, ``registers``: because there are too few of them; ``costs``: time is lost, in
    this way or another.
    """

    code: str
    text: str
    message: str
    locs: tuple[Loc, ...]
    hint: str | None
    serial: bool
    costs: bool
    registers: bool = False

    def __str__(self) -> str:
        parts = [self.message, *(loc.render() for loc in self.locs)]
        return "\n".join([*parts, f"hint: {self.hint}"] if self.hint else parts)


def notes(func: Func, log: str, again: Again) -> tuple[Note, ...]:
    """The notes of a compilation; ``again`` is called if one names a line."""
    if not any(_INJECTED.search(text) for _, text in told(log)):
        return tuple(dict.fromkeys(_named(func, code, text) for code, text in told(log)))
    log, ptx, source = again()
    lines = _Lines(func, source, ptx)
    found = []
    for code, text in told(log):
        match = _INJECTED.search(text)
        found.append(_injected(code, text, match, lines) if match else _named(func, code, text))
    return tuple(dict.fromkeys(found))


def refused(func: Func, message: str, again: Again) -> Loc | None:
    """The statement that ptxas has no registers for, of the message that rejects a kernel."""
    if not _REFUSED.search(message):
        return None
    text, ptx, source = again()
    match = _REFUSED.search(text)
    return None if match is None else _Lines(func, source, ptx).at(int(match["line"]))


def told(log: str) -> Iterator[tuple[str, str]]:
    """(code, words) of each note on performance."""
    for match in _NOTE.finditer(log):
        text = match["text"].strip()
        if _SERIAL.search(text) or _INJECTED.search(text) or _IGNORED.search(text):
            yield match["code"], text


def _named(func: Func, code: str, text: str) -> Note:
    """A note on the whole function."""
    if match := _SERIAL.search(text):
        few = "register resources" in match["why"]
        message = f"wgmma wait for each other: {' '.join(match['why'].split())} (ptxas {code})"
        hint = _HINTS["registers" if few else "touched"]
        return Note(code, text, message, _of(func, ops.Wgmma), hint, True, True, few)
    match = _IGNORED.search(text)
    why = f": {match['why']}" if match and match["why"] else ""
    message = f"register budgets are ignored{why} (ptxas {code})"
    return Note(code, text, message, _of(func, ops.SetMaxRegisters), None, False, True)


def _injected(code: str, text: str, match: re.Match[str], lines: _Lines) -> Note:
    loc, wait = lines.at(int(match["line"])), match["what"] == "wait"
    locs = _of(lines.func, ops.Wgmma) if loc is None else (loc,)
    message = ("every wgmma in flight is waited for here, where registers that they work on are used" if wait else
               "a warpgroup_arrive is added here, since registers of a wgmma were touched")
    message += f" (ptxas {code})"
    return Note(code, text, message, locs, _HINTS["touched"], wait, wait)


def _of(func: Func, kind: type[ops.Op]) -> tuple[Loc, ...]:
    """The program points of all ops of a kind, each line once."""
    found = {op.loc.frames: op.loc for op in func.body.walk() if isinstance(op, kind) and op.loc.frames}
    return tuple({str(loc): loc for loc in found.values()}.values())


class _Lines:
    """From lines of PTX to program points of the kernel."""

    def __init__(self, func: Func, source: str, ptx: str) -> None:
        self.func, self.source, self.ptx = func, source.splitlines(), ptx.splitlines()
        self.points = {tuple(described(frames[:i + 1]) for i in range(len(frames))): op.loc
                       for op in func.body.walk() if (frames := chain(op.loc.frames))}

    def at(self, number: int) -> Loc | None:
        """The statement that a line belongs to, by the last line of the source that is named before it."""
        for line in reversed(self.ptx[:number]):
            if match := _LOC.match(line):
                found = self._statement(int(match["inlined"] or match["line"]))
                if found is not None:
                    return found
        return None

    def _statement(self, number: int) -> Loc | None:
        """The statement whose comment is the last one above a line of the source, below those of the calls to it."""
        comments: tuple[str, ...] = ()
        for line in reversed(self.source[:number]):
            text = line.strip()
            if text.startswith("// ") and (not comments or _depth(text) < _depth(comments[0])):
                comments = (text, *comments)
                if _depth(text) == 0:
                    return self.points.get(comments)
        return None


def _depth(text: str) -> int:
    """How far a comment is indented."""
    return len(text) - len(text.removeprefix("// ").lstrip()) - len("// ")
