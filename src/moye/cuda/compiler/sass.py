"""SASS and PTX as text -> instructions, with what the count of overlapped MMAs needs to know of each.

In: the output of nvdisasm or cuobjdump, or PTX.  Out: ``Instruction``s of one kernel, in static order.

    parse_sass(program.sass)[0].name      # 'LDC'

It knows copies, waits, multiply-adds, branches and register names, and nothing else of either instruction set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as OneOf

Role = OneOf["other", "mma", "copy", "commit", "wait", "load", "move", "branch"]
Unit = OneOf["tensor", "fp32", "fp64", "fp16", "int32"]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.  ``registers`` are all that it names; ``results`` those that a load or a move sets.

    ``unit`` of an MMA; ``pending`` of a wait: the groups that may stay in flight, None if none and uncommitted copies
    are covered too; ``target`` of a branch: the index where it goes.
    """

    where: str
    name: str
    role: Role = "other"
    registers: frozenset[str] = frozenset()
    results: frozenset[str] = frozenset()
    unit: Unit | None = None
    pending: int | None = None
    target: int | None = None



# --- SASS ------------------------------------------------------------------------------------------------------------

_SASS_LINE = re.compile(r"/\*(?P<at>[0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?(?P<name>[A-Z][A-Z0-9_.]*)\s*(?P<rest>[^;]*);")
_SASS_LABEL = re.compile(r"^(?P<label>\.L\w+):")
_SASS_KERNEL = re.compile(r"\.section\s+\.text\.(?P<nvdisasm>[^\s,\"]+)|Function : (?P<cuobjdump>\S+)")
_SASS_TARGET = re.compile(r"`\((?P<label>[^)]+)\)|(?P<at>0x[0-9a-f]+)")
_SASS_REGISTER = re.compile(r"(?<![A-Z0-9_])R(\d+)")
_TENSOR = re.compile(r"[A-Z]?(HMMA|IMMA|BMMA|DMMA|QMMA|OMMA|HGMMA|IGMMA|QGMMA|BGMMA)|UTC\w*MMA")
_SCALAR: dict[str, Unit] = {"FFMA": "fp32", "FFMA2": "fp32", "DFMA": "fp64", "HFMA2": "fp16"}


def parse_sass(text: str, kernel: str | None = None) -> list[Instruction]:
    """The instructions of ``kernel``, or of the first one there is; none where the text has no such kernel."""
    lines = list(_section(text, kernel, _SASS_KERNEL))
    labels: dict[str, int] = {}
    count = 0
    for line in lines:
        if match := _SASS_LABEL.match(line):
            labels[match["label"]] = count
        elif match := _SASS_LINE.search(line):
            labels[hex(int(match["at"], 16))] = count
            count += 1
    return [_sass(match, labels) for line in lines if (match := _SASS_LINE.search(line))]


def _section(text: str, kernel: str | None, heading: re.Pattern[str]) -> Iterator[str]:
    """The lines of one kernel; all of them where the text has no headings."""
    if not heading.search(text):
        yield from text.splitlines()
        return
    inside, chosen = False, kernel
    for line in text.splitlines():
        if match := heading.search(line):
            name = next(filter(None, match.groups()))
            chosen = name if chosen is None else chosen
            inside = name == chosen
        elif inside:
            yield line


def _sass(match: re.Match[str], labels: dict[str, int]) -> Instruction:
    where, name, rest = f"0x{match['at']}", match["name"], match["rest"]
    head = name.split(".")[0]
    registers = _sass_registers(name, rest)
    if head == "LDGSTS":
        return Instruction(where, name, "copy", registers)
    if head == "LDGDEPBAR":
        return Instruction(where, name, "commit")
    if head == "DEPBAR" and "SB0" in rest:              # the scoreboard of LDGSTS; the others belong to other loads
        return Instruction(where, name, "wait", pending=int(rest.rpartition(",")[2].strip(), 16))
    if head == "LDG":
        first = rest.partition(",")[0]
        return Instruction(where, name, "load", registers, _sass_registers(name, first))
    if head == "BRA" and (target := _SASS_TARGET.search(rest)):
        label = target["label"] or hex(int(target["at"], 16))
        return Instruction(where, name, "branch", target=labels.get(label))
    unit = _sass_unit(name, rest)
    return Instruction(where, name, "mma" if unit else "other", registers, unit=unit)


def _sass_unit(name: str, rest: str) -> Unit | None:
    head = name.split(".")[0]
    if _TENSOR.fullmatch(head):
        return "tensor"
    sources = [operand.strip().lstrip("-|").split(".")[0] for operand in rest.split(",")[1:3]]
    if sources == ["RZ", "RZ"]:
        return None                                     # how ptxas sets a register to a constant
    return "int32" if name == "IMAD" else _SCALAR.get(head)


def _sass_registers(name: str, operands: str) -> frozenset[str]:
    """Every register named, and those behind it that a wide access takes along."""
    tensor = _TENSOR.fullmatch(name.split(".")[0])
    width = 4 if ".128" in name or tensor else 2 if ".64" in name or name[0] == "D" else 1
    inside = re.findall(r"\[[^]]*\]", operands)
    addresses = {f"R{int(n) + i}" for part in inside for n in _SASS_REGISTER.findall(part) for i in range(2)}
    data = re.sub(r"\[[^]]*\]", "", operands)
    return frozenset(addresses | {f"R{int(n) + i}" for n in _SASS_REGISTER.findall(data) for i in range(width)})


# --- PTX -------------------------------------------------------------------------------------------------------------

_PTX_STATEMENT = re.compile(r"[\s{]*(?:@!?%?\w+\s+)?(?P<name>[a-z][\w.:]*)\s*(?P<rest>.*)", re.DOTALL)
_PTX_LABEL = re.compile(r"^\s*(?P<label>\$\w+):")
_PTX_KERNEL = re.compile(r"\.entry\s+(\w+)")
_PTX_REGISTER = re.compile(r"%[a-z]+\d+")
_FMA: dict[str, Unit] = {"f32": "fp32", "f32x2": "fp32", "f64": "fp64", "f16": "fp16", "f16x2": "fp16",
                         "bf16": "fp16", "bf16x2": "fp16"}


def parse_ptx(text: str, kernel: str | None = None) -> list[Instruction]:
    """The instructions of ``kernel``, or of the first entry there is; a place is a line of the text."""
    names = _PTX_KERNEL.findall(text)
    chosen = kernel if kernel is not None else names[0] if names else None
    found: list[tuple[int, re.Match[str]]] = []
    labels: dict[str, int] = {}
    inside = not names
    for number, line in enumerate(text.splitlines(), 1):
        if match := _PTX_KERNEL.search(line):
            inside = match[1] == chosen
        elif inside and (match := _PTX_LABEL.match(line)):
            labels[match["label"]] = len(found)
        elif inside:
            statements = line.partition("//")[0].split(";")[:-1]        # inline asm may have several on a line
            found += [(number, match) for text in statements if (match := _PTX_STATEMENT.match(text))]
    return [_ptx(number, match, labels) for number, match in found]


def _ptx(number: int, match: re.Match[str], labels: dict[str, int]) -> Instruction:
    where, name, rest = f"line {number}", match["name"], match["rest"]
    registers = frozenset(_PTX_REGISTER.findall(rest))
    if name.startswith(("cp.async.ca", "cp.async.cg")):
        return Instruction(where, name, "copy", registers)
    if name == "cp.async.commit_group":
        return Instruction(where, name, "commit")
    if name in ("cp.async.wait_all", "cp.async.wait_group"):
        return Instruction(where, name, "wait", pending=int(rest) if name.endswith("group") else None)
    if name.startswith("ld.global"):
        return Instruction(where, name, "load", registers, frozenset(_PTX_REGISTER.findall(rest.partition("[")[0])))
    if name.startswith("mov."):
        return Instruction(where, name, "move", registers, frozenset(_PTX_REGISTER.findall(rest.partition(",")[0])))
    if name.split(".")[0] == "bra":
        return Instruction(where, name, "branch", target=labels.get(rest.strip()))
    unit = _ptx_unit(name)
    return Instruction(where, name, "mma" if unit else "other", registers, unit=unit)


def _ptx_unit(name: str) -> Unit | None:
    parts = name.split(".")
    if parts[0] == "mma" or name.startswith(("wmma.mma", "wgmma.mma_async", "tcgen05.mma")):
        return "tensor"
    if parts[0] == "fma":
        return _FMA.get(parts[-1])
    return "int32" if name.startswith("mad.lo") else None
