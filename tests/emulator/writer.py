"""What all translations of instructions share: operands as C++, and the table of instructions.

In: an ``Instruction`` and the kernel that it is in.  Out: C++ statements that use ``machine.hpp``.

    @translates("popc")
    def popc(w, i): return w.put(i.operands[0], f"popc({w.get(i.operands[1], i.parts[-1])})", "u32")

Registers are unsigned words of their width; floats are read with ``F`` and ``D`` and written with ``R``.
Source: PTX ISA, Operands; Instruction Operands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from emulator.ptx import WIDTHS, Instruction, Kernel, PtxError, Variable

TYPES = {"pred": "bool", "b8": "u8", "u8": "u8", "s8": "s8", "b16": "u16", "u16": "u16", "s16": "s16", "f16": "u16",
         "bf16": "u16", "b32": "u32", "u32": "u32", "s32": "s32", "f32": "f32", "f16x2": "u32", "bf16x2": "u32",
         "tf32": "u32", "b64": "u64", "u64": "u64", "s64": "s64", "f64": "f64", "b128": "u128"}
WORDS = {1: "bool", 8: "u8", 16: "u16", 32: "u32", 64: "u64", 128: "u128"}
SHARED_START = 1024
_OWN = {"tid": "t.tid[{i}]", "ntid": "t.block->shape->block[{i}]", "ctaid": "t.block->ctaid[{i}]",
        "nctaid": "t.block->shape->grid[{i}]"}

Translation = Callable[["Writer", Instruction], str]
TABLE: dict[str, Translation] = {}
"""By the first word of the opcode, or by its first words joined by a dot: the longest that fits is taken."""


def translates(*roots: str) -> Callable[[Translation], Translation]:
    """Say that a function translates the instructions whose opcodes begin so."""
    def keep(function: Translation) -> Translation:
        for root in roots:
            assert root not in TABLE, f"two translations of {root}"
            TABLE[root] = function
        return function
    return keep


@dataclass(slots=True)
class Place:
    """Where a variable lies: its offset in its space, or the name of its storage."""

    variable: Variable
    offset: int = 0
    storage: str = ""


@dataclass(slots=True)
class Writer:
    """One kernel while it is translated."""

    kernel: Kernel
    places: dict[str, Place]
    functions: tuple[str, ...] = ()
    labels: dict[str, int] = field(default_factory=dict)
    sites: list[str] = field(default_factory=list)
    line: int = 0

    def refuse(self, i: Instruction, why: str = "") -> PtxError:
        return PtxError(i.line, f"the emulator does not know {i.opcode} {', '.join(i.operands)}{why and ': ' + why}")

    # --- operands ----------------------------------------------------------------------------------------------------

    def register(self, name: str) -> str:
        return "r_" + name.lstrip("%").replace("$", "S")

    def label(self, name: str) -> str:
        return "L_" + name.replace("$", "S")

    def get(self, operand: str, dtype: str) -> str:
        """The value of an operand, as this type."""
        kind = TYPES[dtype]
        if operand.startswith("!"):
            return f"!{self.get(operand[1:], dtype)}"
        if operand in self.kernel.registers:
            raw = self.register(operand)
            if kind == WORDS[self.kernel.registers[operand]]:
                return raw                              # a cast less for g++, which has many to look at
            return f"F({raw})" if kind == "f32" else f"D({raw})" if kind == "f64" else f"{kind}({raw})"
        if operand.startswith("%"):
            return f"{kind}({self.special(operand)})"
        if operand in self.places:
            return f"{kind}({self.address_of(operand)})"
        return self.literal(operand, kind)

    def literal(self, text: str, kind: str) -> str:
        if found := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", text):
            return f"F(0x{found[1]}u)" if kind == "f32" else f"{kind}(0x{found[1]}u)"
        if found := re.fullmatch(r"0[dD]([0-9a-fA-F]{16})", text):
            return f"D(0x{found[1]}ull)" if kind == "f64" else f"{kind}(0x{found[1]}ull)"
        if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", text):
            number = int(text.rstrip("U"), 0) & (1 << 64) - 1
            return f"{kind}({number}ull)"
        raise PtxError(self.line, f"no operand: {text!r}")

    def special(self, name: str) -> str:
        root, _, axis = name[1:].partition(".")
        if root in _OWN and axis in ("x", "y", "z"):
            return _OWN[root].format(i="xyz".index(axis))
        return f'special(t, "{name[1:]}")'

    def address_of(self, name: str) -> str:
        place = self.places[name]
        return f"u64({place.storage})" if place.storage else f"{place.offset}ull"

    def space_of(self, operand: str) -> str:
        """The space of the variable that an address names, empty for a register."""
        base = re.split(r"[+\s]", operand.strip("[] "))[0]
        return self.places[base].variable.space if base in self.places else ""

    def address(self, operand: str) -> str:
        """The value of ``[a+offset]``, 64 bits."""
        base, _, offset = (part.strip() for part in operand.strip().strip("[]").partition("+"))
        if base in self.kernel.registers:
            narrow = self.kernel.registers[base] == 32
            text = self.register(base)
            more = f" + {int(offset, 0)}" if offset else ""
            return f"u64(u32({text}{more}))" if narrow else f"u64({text}{more})"
        if base in self.places:
            return f"({self.address_of(base)} + {int(offset or '0', 0)})"
        return self.literal(base, "u64") + (f" + {int(offset, 0)}" if offset else "")

    # --- results -----------------------------------------------------------------------------------------------------

    def put(self, operand: str, value: str, dtype: str) -> str:
        """Write a value of this type to a register."""
        if operand == "_":
            return f"(void)({value});"
        if operand not in self.kernel.registers:
            raise PtxError(self.line, f"no register: {operand!r}")
        if TYPES[dtype] in ("f32", "f64"):
            value = f"R({value})"
        return f"{self.register(operand)} = {value};"

    def list(self, operand: str) -> list[str]:
        """The parts of ``{a, b}``, or the operand alone."""
        text = operand.strip()
        return [part.strip() for part in text[1:-1].split(",")] if text.startswith("{") else [text]

    def pair(self, operand: str) -> tuple[str, str]:
        """``d|p``: a result and the predicate beside it, which may be ``_``."""
        first, _, second = operand.partition("|")
        return first.strip(), second.strip()

    def site(self, line: int) -> str:
        """A memory instruction's own record."""
        name = f"site_{len(self.sites)}"
        self.sites.append(f"static Site {name}{{{line}}};")
        return name

    def array(self, name: str, operand: str, dtype: str) -> str:
        """An array of C++ of the parts of a vector operand, as words."""
        parts = self.list(operand)
        word = WORDS[WIDTHS[dtype]]
        return f"{word} {name}[] = {{{', '.join(self.word(part, dtype) for part in parts)}}};"

    def word(self, operand: str, dtype: str) -> str:
        """The bits of an operand of this type."""
        raw = {"f32": "b32", "f64": "b64"}.get(dtype, dtype)
        return self.get(operand, raw)
