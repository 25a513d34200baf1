"""Loops where the source has loops: the trips of an unrolled loop that differ in constants alone, as one loop.

In: the lines of a kernel, each with the trips of the unrolled loops around it.  Out: lines.

    rolled(lines)       # f(p); f(p + 8); f(p + 16);  ->  #pragma unroll  for (int k = 0; k < 3; ++k) f(p + 8 * k);

It works on text, which is what makes it safe: the loop is written only if each trip's lines come out of it, token by
token, with ``k`` as a number in them.  Three things may differ between trips: decimal integers, in arithmetic
progression; names that a trip declares itself; and in the first trip what an offset of 0 leaves out, and the
condition of what accumulates from the second trip on.  Anything else leaves the lines as they are.  The compiler
unrolls the loop again, so that arrays of registers are indexed by constants as before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from moye.cuda.printing.names import identifier, is_free
from moye.cuda.printing.writer import Frames, Line, Trips, described

_TOKEN = re.compile(r"0[xX]\w+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?\w*|[A-Za-z_]\w*|\s+|.")
_NAME = re.compile(r"[A-Za-z_]\w*$")
_DECLARED = re.compile(r"(?P<const>const )?(?:unsigned long long|unsigned short|unsigned char|long long|\w+)\*? "
                       r"(?:const )?(?P<name>\w+)(?P<array>\[\d+\])?(?: = (?P<value>.*))?;$")
_NO_TYPES = frozenset(("return", "goto", "else", "delete"))
_APART = re.compile(r"\b(?:if|while|goto|break|continue|return|asm)\b|\w:;|\"|(?:sync|wait)\w*\(")
"""What keeps trips apart: of branches and barriers in a loop ptxas makes worse code than of the same beside each other.
Labels and jumps out of a trip would mean something else in a loop."""
_PLUS = [" ", "+", " "]
_LARGEST = 1 << 31
_FEWEST = 3
"""Trips that are a loop beside others that are none."""


class _Differ(Exception):
    """Two trips are not the same but for constants."""


@dataclass(frozen=True, slots=True)
class _Steps:
    """An integer that is ``first`` in the first trip and ``second`` in the next."""

    first: int
    second: int


@dataclass(frozen=True, slots=True)
class _Since:
    """True in all trips but the first, which has ``text``."""

    text: str


Token = str | _Steps | _Since


@dataclass(slots=True)
class _Trip:
    """One trip: its lines of code as tokens, the names that they declare, and where it ends in the kernel."""

    value: int
    lines: list[Line]
    end: int
    real: list[Line] = field(init=False)
    """The lines that are no comments; none where no loop can be made of them."""
    code: list[tuple[int, list[str]]] = field(init=False)
    own: dict[str, int] = field(init=False)
    """Names that it declares, and at which level."""

    def __post_init__(self) -> None:
        real = [line for line in self.lines if not _is_note(line)]
        self.real = real if _is_closed(real) else []
        self.code = [(line.level, _words(line.text)) for line in self.real]
        self.own = {match["name"]: line.level for line in self.real if (match := _declaration(line.text))}


def rolled(lines: Sequence[Line]) -> list[Line]:
    """The lines of a kernel, unrolled loops as loops where that is the same."""
    try:
        return _rolled(lines, 0, len(lines), 0)
    finally:
        _words.cache_clear()                            # no other kernel has these lines
        _declaration.cache_clear()


@lru_cache(maxsize=4096)
def _words(text: str) -> list[str]:
    """The tokens of a line; nobody changes the list, because many ask for it."""
    return _TOKEN.findall(text)


def _rolled(lines: Sequence[Line], at: int, stop: int, depth: int) -> list[Line]:
    """Some of the lines; ``depth`` unrolled loops are around all of these."""
    found: list[Line] = []
    while at < stop:
        if len(lines[at].trips) <= depth:
            found.append(lines[at])
            at += 1
            continue
        bounds = list(_trips(lines, at, stop, depth))
        trips = [_Trip(lines[first].trips[depth][1], _rolled(lines, first, end, depth + 1), end)
                 for first, end in bounds]
        found += _loops(trips, lines[at].trips[:depth + 1], lines)
        at = bounds[-1][1]
    return found


def _trips(lines: Sequence[Line], at: int, stop: int, depth: int) -> Iterator[tuple[int, int]]:
    """Where the trips of the loop that begins at a line begin and end."""
    name, last = lines[at].trips[depth][0], None
    while at < stop and len(trips := lines[at].trips) > depth and trips[depth][0] == name:
        value = trips[depth][1]
        if last is not None and value <= last:
            return
        first, last = at, value
        while at < stop and lines[at].trips[:depth + 1] == trips[:depth + 1]:
            at += 1
        yield first, at


def _is_note(line: Line) -> bool:
    return line.text.startswith(("//", "#line"))


@lru_cache(maxsize=4096)
def _declaration(text: str) -> re.Match[str] | None:
    match = _DECLARED.match(text)
    return None if match is None or text.partition(" ")[0] in _NO_TYPES else match


# --- one loop --------------------------------------------------------------------------------------------------------


def _loops(trips: list[_Trip], around: Trips, kernel: Sequence[Line]) -> list[Line]:
    """Trips that follow each other as a loop; what differs, such as the first and the last one, beside it.

    Where two loops would come of one, the lines stay: that is no loop of the source.
    """
    at, loops = 0, 0
    found: list[Line] = []
    while at < len(trips):
        match, count = _longest(trips[at:])
        loop = _loop(match, trips[at:at + count], around, kernel) \
            if match is not None and count >= min(len(trips), _FEWEST) else []
        loops += bool(loop)
        found += loop or trips[at].lines
        at += count if loop else 1
    return found if loops == 1 else [line for trip in trips for line in trip.lines]


def _longest(trips: list[_Trip]) -> tuple[_Match | None, int]:
    """The match of as many trips as are the same from the first on, and how many these are."""
    if len(trips) < 2 or not (trips[0].real and trips[1].real):
        return None, 1
    try:
        match = _Match(trips[0], trips[1], trips[0].code[0][0])
    except _Differ:
        return None, 1
    step, count = trips[1].value - trips[0].value, 2
    while count < len(trips) and trips[count].value == trips[0].value + step * count \
            and match.verify(trips[count], count):
        count += 1
    return match, count


def _loop(match: _Match, trips: list[_Trip], around: Trips, kernel: Sequence[Line]) -> list[Line]:
    """The loop of some trips, nothing where it is no shorter or where names are used behind it."""
    start, step = trips[0].value, trips[1].value - trips[0].value
    name = _index(around[-1][0], trips)
    lines = match.loop(name, start, step, len(trips))
    if not lines or _used(trips, match.hoisted, match.level, kernel[trips[-1].end:]) \
            or not _shorter(lines, match.hoisted, trips):
        return []
    step_ = f"++{name}" if step == 1 else f"{name} += {step}"
    head = f"for (int {name} = {start}; {name} < {trips[-1].value + step}; {step_}) {{"
    notes, body = _heading(lines, around[-1][0])
    found = [*notes, *match.hoisted, Line(match.level, "#pragma unroll"), Line(match.level, head),
             *(line._replace(level=line.level + 1) for line in body), Line(match.level, "}")]
    return [line._replace(trips=around[:-1]) for line in found]


def _is_closed(code: list[Line]) -> bool:
    """Whether lines are whole statements that nothing jumps into or out of."""
    if not code:
        return False
    level, whole = code[0].level, "\n".join([line.text for line in code])
    return min([line.level for line in code]) == code[-1].level == level \
        and whole.count("{") == whole.count("}") \
        and not whole.startswith("}") and not code[-1].text.startswith("#pragma") \
        and not _APART.search(whole)


def _used(trips: list[_Trip], hoisted: list[Line], level: int, after: Sequence[Line]) -> bool:
    """Whether what follows in the same block uses a name that a trip declares."""
    kept = {match["name"] for line in hoisted if (match := _declaration(line.text))}
    own = {name for trip in trips for name, depth in trip.own.items() if depth == level} - kept
    if not own:
        return False
    for line in after:
        if line.level < level and not _is_note(line):
            return False
        if not _is_note(line) and not own.isdisjoint(_words(line.text)):
            return True
    return False


def _shorter(body: list[Line], hoisted: list[Line], trips: list[_Trip]) -> bool:
    code = sum(1 for line in body if not _is_note(line))
    return len(hoisted) + code + 3 < sum(len(trip.code) for trip in trips)


def _index(name: str, trips: list[_Trip]) -> str:
    """A name for the variable that means nothing in the loop."""
    taken = {token for trip in trips for _, tokens in trip.code for token in tokens}
    name = stem = identifier(name)
    while name in taken or not is_free(name):
        name += stem[0]
    return name


def _heading(body: list[Line], name: str) -> tuple[list[Line], list[Line]]:
    """The comments of the calls around the loop and of its head, and the rest of the body."""
    first = next((line for line in body if line.frames), None)
    if first is None:
        return [], body
    frames = next((line.frames for line in body[::-1] if line.frames), ())
    head = _head(frames, name)
    if not head:
        return [], body
    calls = []
    while body[0].frames and _points(body[0].frames) == _points(head[:-1][:len(body[0].frames)]):
        calls.append(body.pop(0))
    level = next(line.level for line in body if not _is_note(line))
    return [*calls, Line(level, described(head), (), head)], body


def _head(frames: Frames, name: str) -> Frames:
    """The program point of the ``for`` over a name around a statement, as it is written in the user's file."""
    import linecache

    for depth in range(len(frames), 0, -1):
        frame = frames[depth - 1]
        indent = _indent(frame.text())
        for number in range(frame.line - 1, max(0, frame.line - 200), -1):
            text = linecache.getline(frame.file, number)
            if text.strip() and _indent(text) < indent:
                indent = _indent(text)
                if re.match(rf"\s*for\b.*\b{name}\b.*\bin\b", text):
                    return (*frames[:depth - 1], type(frame)(frame.file, number, function=frame.function))
    return ()


def _points(frames: Frames) -> list[tuple[str, int]]:
    return [(frame.file, frame.line) for frame in frames]


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


# --- two trips -------------------------------------------------------------------------------------------------------


class _Match:
    """The first two trips beside each other: the body that both are, and what of the first is done before it."""

    def __init__(self, first: _Trip, second: _Trip, level: int) -> None:
        self.first, self.second, self.level = first, second, level
        self.hoisted: list[Line] = []
        self.body: list[tuple[Line, list[Token]]] = []
        self._names: dict[str, str] = {}    # of the second trip -> of the first
        self._aliases: set[str] = set()     # names of the second trip that the loop has too
        self._settled: list[str] = []       # the lines of the first trip that are not hoisted
        self._kept: set[str] = set()
        self._walk()

    def verify(self, trip: _Trip, number: int) -> bool:
        """Whether trip ``number`` is what the first two make of it."""
        names: dict[str, str] = {}
        body = [tokens for line, tokens in self.body if not _is_note(line)]
        if [(depth, len(tokens)) for depth, tokens in self.second.code] != \
                [(depth, len(tokens)) for depth, tokens in trip.code]:
            return False
        return all(self._follows(trip, number, names, *tokens)
                   for (_, theirs), (_, ours), both in zip(self.second.code, trip.code, body, strict=True)
                   for tokens in zip(theirs, ours, both, strict=True))

    def _follows(self, trip: _Trip, number: int, names: dict[str, str], theirs: str, mine: str, both: Token) -> bool:
        """Whether a token of trip ``number`` is what it should be."""
        if isinstance(both, _Steps):
            return mine.isdigit() and int(mine) == both.first + (both.second - both.first) * number
        if theirs in self.second.own or mine in trip.own:
            return theirs in self.second.own and mine in trip.own and names.setdefault(theirs, mine) == mine
        return theirs == mine

    def loop(self, name: str, start: int, step: int, count: int) -> list[Line]:
        """The body as lines with a variable, nothing where a number is none that it can make."""
        steps = [token for _, tokens in self.body for token in tokens if isinstance(token, _Steps)]
        if any(token.first + (token.second - token.first) * (count - 1) >= _LARGEST for token in steps):
            return []
        try:
            return [line if _is_note(line) else line._replace(text=_text(tokens, name, start, step))
                    for line, tokens in self.body]
        except _Differ:
            return []

    def _walk(self) -> None:
        """Line by line; comments are those of the first trip."""
        theirs, at = self.second.real, 0
        for line in self.first.lines:
            if _is_note(line):
                self.body.append((line, []))
                continue
            while at < len(theirs) and not self._same(line, theirs[at]):
                if self._is_read(line) and self._hoist(line):
                    break
                if self._alias(theirs[at]):
                    at += 1
                elif self._hoist(line):
                    break
                else:
                    raise _Differ
            else:
                if at == len(theirs):
                    raise _Differ
                at += 1
        if at < len(theirs):
            raise _Differ

    def _same(self, mine: Line, other: Line) -> bool:
        """Add the line of both, if it is one."""
        if mine.level != other.level:
            return False
        before = dict(self._names)
        ours, theirs = _declaration(mine.text), _declaration(other.text)
        try:
            if ours and theirs:
                self._pair(theirs["name"], ours["name"])
            tokens = self._tokens(_words(other.text), _words(mine.text))
            if mine.text.startswith(("for ", "#")) or (ours and ours["array"]):
                _constant(tokens)
            if ours and theirs and not all(isinstance(token, str) for token in tokens):
                tokens = self._after_the_loop(tokens, ours["name"], theirs["name"])
        except _Differ:
            self._names = before
            return False
        self._settled.append(mine.text)
        self.body.append((other, tokens))
        return True

    def _after_the_loop(self, tokens: list[Token], ours: str, theirs: str) -> list[Token]:
        """What changes has its name in the second trip, which is after the loop's variable; but ``x``, not ``x_1``."""
        if re.fullmatch(rf"{ours}_\d+", theirs):
            return tokens
        self._aliases.add(theirs)
        return [theirs if token == ours else token for token in tokens]

    def _pair(self, theirs: str, ours: str) -> None:
        if self._names.setdefault(theirs, ours) != ours:
            raise _Differ

    def _is_read(self, line: Line) -> bool:
        """Whether the second trip uses what a line of the first declares."""
        match = _declaration(line.text)
        return match is not None and any(match["name"] in tokens for _, tokens in self.second.code)

    def _hoist(self, line: Line) -> bool:
        """Whether a const of the first trip can be made before the loop; it is then."""
        match = _declaration(line.text)
        if match is None or not match["const"] or line.level != self.level or match["value"] is None:
            return False
        if self._settled and not self._is_free_of(match["value"]):
            return False
        self.hoisted.append(line)
        self._kept.add(match["name"])
        return True

    def _is_free_of(self, value: str) -> bool:
        """Whether an expression is arithmetic on names that the lines before it neither declare nor touch."""
        if "[" in value or re.search(r"\w\(|[&*]\(|&\w", value):
            return False
        names = {token for token in _words(value) if _NAME.match(token)}
        return names.isdisjoint(token for text in self._settled for token in _words(text)
                                if (match := _declaration(text)) is None or not match["const"]
                                or token == match["name"])

    def _alias(self, line: Line) -> bool:
        """Add a const ``x + 16`` of the second trip, which is ``x`` in the first and has no name there."""
        match = re.match(r"const (?:int|unsigned|long long|unsigned long long) (\w+) = (\w+) \+ (\d+);$", line.text)
        if match is None or line.level != self.level:
            return False
        name, base, step = match.groups()
        if base in self.second.own or (base in self.first.own and base not in self._kept):
            return False
        self._pair(name, base)
        self._aliases.add(name)
        tokens: list[Token] = list(_words(line.text))
        tokens[tokens.index(step, tokens.index("+"))] = _Steps(0, int(step))
        self.body.append((line, tokens))
        return True

    def _tokens(self, theirs: list[str], ours: list[str]) -> list[Token]:
        """The tokens of both: those of the second trip, with what differs."""
        second, first, kept = self.second.own, self.first.own, self._kept
        if theirs is ours and second.keys().isdisjoint(ours) and first.keys().isdisjoint(ours):
            return [*ours]                              # as most lines without a name of the trips are
        found: list[Token] = []
        i, j, most = 0, 0, len(ours)
        while i < len(theirs):
            token, mine = theirs[i], ours[j] if j < most else ""
            # Most tokens are the same and no names of the trips, whose pairs _agree would look up.
            if token == mine and token not in second and (token not in first or token in kept):
                found.append(token)
                i, j = i + 1, j + 1
            elif self._agree(token, mine):
                found.append(self._named(token))
                i, j = i + 1, j + 1
            else:
                more, further, behind = self._varies(theirs, ours, i, j, mine)
                found += more
                i, j = i + further, j + behind
        if j != most:
            raise _Differ
        return found

    def _varies(self, theirs: list[str], ours: list[str], i: int, j: int, mine: str) -> tuple[list[Token], int, int]:
        """The tokens of both where they are not the same, and how many these are in the second and the first trip."""
        token = theirs[i]
        if token.isdigit() and mine.isdigit():
            return [_varying(theirs, i, int(mine))], 1, 1
        if theirs[i:i + 3] == _PLUS and _ends(theirs, i + 3):
            return [*_PLUS, _varying(theirs, i + 3, 0)], 4, 0
        if token.isdigit() and theirs[i - 3:i] == _PLUS and theirs[i + 1:i + 4] == _PLUS:
            return [_varying(theirs, i, 0), *_PLUS], 4, 0
        if token == "(" and theirs[i + 2:i + 5] == _PLUS and theirs[i + 6:i + 7] == [")"] \
                and self._agree(theirs[i + 1], mine):
            return ["(", self._named(theirs[i + 1]), *_PLUS, _varying(theirs, i + 5, 0), ")"], 7, 1
        if token == "true" and theirs[i + 1:i + 2] in ([","], [")"]):
            stop = _argument(ours, j)
            if (self.first.own.keys() - self._kept).isdisjoint(ours[j:stop]):
                return [_Since("".join(ours[j:stop]))], 1, stop - j
        raise _Differ

    def _agree(self, theirs: str, mine: str) -> bool:
        """Whether two tokens are the same, or names of the same thing."""
        if theirs in self._names:
            return self._names[theirs] == mine
        outside = theirs not in self.second.own and (theirs not in self.first.own or theirs in self._kept)
        return theirs == mine and outside

    def _named(self, token: str) -> str:
        """A name of the second trip as it is called in the loop."""
        return token if token in self._aliases else self._names.get(token, token)


def _constant(tokens: list[Token]) -> None:
    if not all(isinstance(token, str) for token in tokens):
        raise _Differ


def _varying(tokens: list[str], i: int, first: int) -> _Steps:
    """An integer at a place where a variable may stand."""
    if not tokens[i].isdigit() or tokens[i - 1] == "<" or tokens[i - 1] == "{" or tokens[i + 1:i + 2] == ["."]:
        raise _Differ
    return _Steps(first, int(tokens[i]))


def _ends(tokens: list[str], i: int) -> bool:
    """Whether a summand is the last one, or another one follows."""
    return tokens[i:i + 1] != [] and tokens[i].isdigit() and \
        (tokens[i + 1:i + 2] in ([")"], ["]"], [","], [";"]) or tokens[i + 1:i + 3] in ([" ", "+"], [" ", "-"]))


def _argument(tokens: list[str], i: int) -> int:
    """Where the argument that begins at a token ends."""
    depth = 0
    while i < len(tokens) and (depth or tokens[i] not in (",", ")")):
        depth += (tokens[i] in "([{") - (tokens[i] in ")]}")
        i += 1
    return i


# --- text ------------------------------------------------------------------------------------------------------------


def _text(tokens: list[Token], name: str, start: int, step: int) -> str:
    """A line of the body."""
    text = ""
    for i, token in enumerate(tokens):
        if isinstance(token, _Since):
            began = f"{name} > {start}"
            first = f"({token.text})" if "?" in token.text else token.text
            text += began if first == "false" else f"{began} || {first}"
        elif isinstance(token, _Steps):
            text += _progression(token, name, start, step, text, tokens[i + 1:i + 3])
        else:
            text += token
    return text


def _progression(token: _Steps, name: str, start: int, step: int, before: str, behind: list[Token]) -> str:
    """An integer as a multiple of the loop's variable and a constant."""
    if token.first == token.second:
        return str(token.first)
    slope, rest = divmod(token.second - token.first, step)
    constant = token.first - slope * start
    if rest or slope < 0 or constant < 0:
        raise _Differ
    factor = name if slope == 1 else f"{slope} * {name}"
    whole = f"{factor} + {constant}" if constant else factor
    summand = before.endswith(("(", "[", ", ", "= ", "+ ")) and \
        (not behind or behind[0] in (")", "]", ",", ";") or (len(behind) > 1 and behind[1] in ("+", "?")))
    return whole if summand or whole == name else f"({whole})"
