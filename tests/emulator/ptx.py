"""PTX as data: kernels, variables and instructions, with the line of each.

In: the text that NVRTC makes.  Out: ``Module``; ``PtxError`` with the line where the text is not understood.

    module = parse(text); module.kernels["axpy"].body[3].opcode          # "ld.param.u64"

Names that are local to a brace are made unique.  It knows no instruction: ``translate.py`` does.
Source: PTX ISA, Syntax; State Spaces, Types, and Variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

WIDTHS = {"pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16, "b32": 32,
          "u32": 32, "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "tf32": 32, "b64": 64, "u64": 64, "s64": 64,
          "f64": 64, "f32x2": 64, "b128": 128}


class PtxError(Exception):
    """What is not understood, and on which line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"PTX line {line}: {message}")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; ``guard`` is the predicate's register, with ``!`` before it if it is negated."""

    line: int
    guard: str
    opcode: str
    operands: tuple[str, ...]

    @property
    def parts(self) -> list[str]:
        return self.opcode.replace("::", "__").split(".")


@dataclass(frozen=True, slots=True)
class Label:
    """A place to jump to."""

    line: int
    name: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in memory: ``space`` is shared, global, const, local or param; ``size`` is in bytes."""

    name: str
    space: str
    align: int
    size: int
    dtype: str
    extern: bool = False
    initial: tuple[str, ...] = ()


@dataclass(slots=True)
class Kernel:
    """One entry or function: parameters in order, registers with their widths in bits, variables, and what it does."""

    name: str
    returns: list[Variable] = field(default_factory=list)
    params: list[Variable] = field(default_factory=list)
    registers: dict[str, int] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    body: list[Instruction | Label] = field(default_factory=list)


@dataclass(slots=True)
class Module:
    """What a text declares."""

    kernels: dict[str, Kernel] = field(default_factory=dict)
    functions: dict[str, Kernel] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)


_LABEL = re.compile(r"([$%\w]+)\s*:(?!:)")
_BLANK = re.compile(r"\s+")
_NAME = re.compile(r"[%$A-Za-z_][$\w]*")
_POINTED = re.compile(r"\.ptr\b(\s*\.(global|const|local|shared)\b)?(\s*\.align\s+\d+)?")
_VARIABLE = re.compile(r"\.(?P<type>[bsuf]\d+|pred)\s+(?P<name>[%$\w]+)\s*(?P<extents>(?:\[\d*\])*)\s*"
                       r"(?:=\s*(?P<init>.*))?$", re.S)


def parse(text: str) -> Module:
    """Read a whole text."""
    return _Reader(text).module()


class _Reader:
    """The text without comments, and how far it is read."""

    def __init__(self, text: str) -> None:
        text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)
        self.text = re.sub(r"//[^\n]*", "", text)
        self.at = 0
        self._counted, self._line = 0, 1

    @property
    def line(self) -> int:
        if self.at < self._counted:
            self._counted, self._line = 0, 1
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line

    def skip(self) -> bool:
        """Skip blanks; whether something is left."""
        if found := _BLANK.match(self.text, self.at):
            self.at = found.end()
        return self.at < len(self.text)

    def until(self, end: str) -> str:
        """The text before one of these characters outside of quotes, which is skipped."""
        found = re.compile(rf'(?:"[^"]*"|[^"{re.escape(end)}])*').match(self.text, self.at)
        assert found is not None, "it matches nothing at least"
        self.at = found.end() + 1
        return found[0]

    def module(self) -> Module:
        module = Module()
        while self.skip():
            line = self.line
            if found := re.compile(r"\.(version|target|address_size|file|loc)\b[^\n]*").match(self.text, self.at):
                self.at = found.end()
            elif found := re.compile(r"(?:\.visible\s+|\.weak\s+)?\.entry\s+([$\w]+)").match(self.text, self.at):
                self.at = found.end()
                module.kernels[found[1]] = self.kernel(found[1])
            elif found := re.compile(r"(?:\.visible\s+|\.weak\s+)?\.func\b").match(self.text, self.at):
                self.at = found.end()
                if (function := self.function()) is not None:
                    module.functions[function.name] = function
            elif re.compile(r"\.extern\s+\.func").match(self.text, self.at) \
                    or self.text.startswith((".section", ".pragma"), self.at):
                self.until(";}" if self.text.startswith(".section", self.at) else ";")
            else:
                module.variables.append(variable(self.until(";"), line))
        return module

    def parameters(self) -> list[Variable]:
        """What follows in parentheses."""
        if not self.skip() or self.text[self.at] != "(":
            return []
        self.at += 1
        line = self.line
        return [variable(part, line) for part in self.until(")").split(",") if part.strip()]

    def function(self) -> Kernel | None:
        """A function that kernels call; None if it is only declared here."""
        returns = self.parameters()
        self.skip()
        found = re.compile(r"[$\w]+").match(self.text, self.at)
        if found is None:
            raise PtxError(self.line, "a function without a name")
        self.at = found.end()
        kernel = Kernel(found[0], returns, self.parameters())
        head = self.until("{;")
        if self.text[self.at - 1] == ";":
            return None
        assert not head.strip() or head.strip().startswith("."), f"directives of a function: {head}"
        _Body(self, kernel).read()
        return kernel

    def kernel(self, name: str) -> Kernel:
        kernel = Kernel(name)
        kernel.params = self.parameters()
        self.until("{")                                 # .maxntid and its kind
        _Body(self, kernel).read()
        return kernel


class _Body:
    """The body of a kernel while it is read: each brace is a scope with names of its own."""

    def __init__(self, reader: _Reader, kernel: Kernel) -> None:
        self.reader, self.kernel = reader, kernel
        self.scopes: list[dict[str, str]] = [{}]
        self.made = 0

    def read(self) -> None:
        reader = self.reader
        while self.scopes:
            if not reader.skip():
                raise PtxError(reader.line, "the body of a kernel does not end")
            first = reader.text[reader.at]
            if first == "{":
                reader.at += 1
                self.scopes.append(self.names_ahead())
            elif first == "}":
                reader.at += 1
                self.scopes.pop()
            elif first == ";":
                reader.at += 1
            else:
                self.statement(reader.line)

    def names_ahead(self) -> dict[str, str]:
        """Labels that this brace defines, which may be jumped to before they come."""
        reader, depth, end = self.reader, 1, self.reader.at
        while depth and end < len(reader.text):
            depth += {"{": 1, "}": -1}.get(reader.text[end], 0)
            end += 1
        labels = re.findall(r"(?:^|[;{}\n])\s*([$\w]+)\s*:(?!:)", reader.text[reader.at:end])
        self.made += 1
        return {name: f"{name}__{self.made}" for name in labels if not name.startswith("$L__BB")}

    def statement(self, line: int) -> None:
        reader = self.reader
        if reader.text.startswith((".loc ", ".loc\t", ".file"), reader.at):
            reader.until("\n")
        elif reader.text[reader.at] == ".":
            self.directive(reader.until(";"), line)
        elif found := _LABEL.match(reader.text, reader.at):
            reader.at = found.end()
            self.kernel.body.append(Label(line, self.named(found[1])))
        else:
            self.kernel.body.append(self.instruction(reader.until(";"), line))

    def directive(self, text: str, line: int) -> None:
        if text.startswith(".reg"):
            self.registers(text, line)
        elif not text.startswith((".pragma", ".branchtargets")):
            made = variable(text, line)
            self.kernel.variables.append(Variable(self.fresh(made.name), made.space, made.align, made.size, made.dtype,
                                                  made.extern, made.initial))

    def registers(self, text: str, line: int) -> None:
        found = re.match(r"\.reg\s+\.(\w+)\s+(.*)$", text, re.S)
        if found is None or found[1] not in WIDTHS:
            raise PtxError(line, f"no registers: {text!r}")
        for name in re.split(r"[,\s]+", found[2].strip()):
            many = re.match(r"(%?[\w$]+)<(\d+)>", name)
            for one in ([f"{many[1]}{i}" for i in range(int(many[2]))] if many else [name]):
                self.kernel.registers[self.fresh(one)] = WIDTHS[found[1]]

    def fresh(self, name: str) -> str:
        """The name of something declared here: its own, or one that no other scope has."""
        if len(self.scopes) == 1:
            return name
        unique = f"{name}__{self.made}"
        self.scopes[-1][name] = unique
        return unique

    def named(self, name: str) -> str:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), name)

    def instruction(self, text: str, line: int) -> Instruction:
        text = text.strip()
        guard = ""
        if text.startswith("@"):
            sign, text = text[1:].split(None, 1)
            guard = "!" * sign.startswith("!") + self.named(sign.lstrip("!"))
        opcode, rest = _partition(text)
        if len(self.scopes) > 1:
            rest = _NAME.sub(lambda m: self.named(m[0]), rest)
        return Instruction(line, guard, opcode.strip(), tuple(split(rest)))


def _partition(text: str) -> tuple[str, str]:
    """The opcode and its operands, behind spaces or tabs."""
    found = re.match(r"(\S+)\s*(.*)$", text, re.S)
    return (found[1], found[2]) if found else (text, "")


def split(text: str) -> Iterator[str]:
    """Operands: what commas part outside of brackets."""
    depth, start = 0, 0
    text = " ".join(text.split())
    for i, c in enumerate(text):
        depth += {"{": 1, "[": 1, "(": 1, "}": -1, "]": -1, ")": -1}.get(c, 0)
        if c == "," and not depth:
            yield text[start:i].strip()
            start = i + 1
    if text[start:].strip():
        yield text[start:].strip()


def variable(text: str, line: int) -> Variable:
    """A declaration such as ``.shared .align 8 .b8 full[24]``."""
    head = _POINTED.sub("", text.strip())       # what a parameter says of the memory that it points to
    found = _VARIABLE.search(head)
    space = re.search(r"\.(shared|global|const|local|param)\b", head)
    if found is None or space is None:
        raise PtxError(line, f"no declaration: {' '.join(text.split())!r}")
    align = re.search(r"\.align\s+(\d+)", head)
    width = WIDTHS[found["type"]] // 8
    count = 1
    for extent in re.findall(r"\[(\d*)\]", found["extents"]):
        count *= int(extent or 0)
    initial = tuple(split(found["init"].strip().strip("{}"))) if found["init"] else ()
    return Variable(found["name"], space[1], int(align[1]) if align else width, count * width, found["type"],
                    ".extern" in head, initial)
