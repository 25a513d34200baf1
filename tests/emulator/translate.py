"""PTX to C++: one function for each kernel, which a thread of ``machine.hpp`` runs.

In: the PTX of NVRTC.  Out: the source of a shared library, and what a launch has to know of each kernel.

    translated = translate(ptx); translated.source; translated.kernels["axpy"].static_size

What is not known is refused here, before anything runs: ``PtxError`` with the line.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from emulator import accesses, meetings, scalar, tensors
from emulator.ptx import WIDTHS, Instruction, Kernel, Label, Module, PtxError, Variable, parse
from emulator.writer import SHARED_START, TABLE, WORDS, Place, Writer

ROOMS = (accesses, meetings, scalar, tensors)
"""What knows the instructions; each fills the table when it is imported."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a launch has to know: bytes of shared memory without the dynamic part, where that begins, parameters."""

    name: str
    static_size: int
    params: tuple[Variable, ...]
    offsets: tuple[int, ...]
    param_size: int


@dataclass(frozen=True, slots=True)
class Translated:
    """The source of a library, the facts of its kernels, and variables of the module with their sizes."""

    source: str
    kernels: dict[str, Facts]
    variables: dict[str, int]


def translate(text: str) -> Translated:
    """All kernels of a text."""
    module = parse(text)
    storage, places = module_variables(module)
    facts, functions = {}, []
    for one in module.functions.values():
        functions.append(device_function(one, {**places, **called(one, module)}, tuple(module.functions)))
    functions = [f"{text.splitlines()[0].removesuffix(' {')};" for text in functions] + functions
    for kernel in module.kernels.values():
        own, facts[kernel.name] = arranged(kernel, module)
        functions.append(function(kernel, {**places, **own}, tuple(module.functions)))
    variables = {v.name: v.size for v in module.variables if v.space in ("global", "const") and not v.extern}
    exports = [f'extern "C" void* at_{cpp(name)}() {{ return {cpp(name)}; }}' for name in variables]
    source = "\n".join(['#include "tensor_ops.hpp"', "using namespace emu;", *storage, *functions, *exports, ""])
    return Translated(source, facts, variables)


def cpp(name: str) -> str:
    return "v_" + name.lstrip("%").replace("$", "S")


def module_variables(module: Module) -> tuple[list[str], dict[str, Place]]:
    """Storage for what the module declares outside of kernels."""
    storage, places = [], {}
    for v in module.variables:
        if v.space in ("global", "const") and not v.extern:
            word, each = WORDS[WIDTHS[v.dtype]], WIDTHS[v.dtype] // 8
            initial = f" = {{{', '.join(v.initial)}}}" if v.initial else ""
            extent = max(1, v.size // each)
            storage.append(f"alignas({max(16, v.align)}) static {word} {cpp(v.name)}[{extent}]{initial};")
            places[v.name] = Place(v, storage=cpp(v.name))
    return storage, places


def aligned(at: int, to: int) -> int:
    return -(-at // to) * to


def arranged(kernel: Kernel, module: Module) -> tuple[dict[str, Place], Facts]:
    """Where the variables and parameters of a kernel lie."""
    places: dict[str, Place] = {}
    at = {"shared": SHARED_START, "local": 16}
    for v in [*(v for v in module.variables if v.space == "shared" and not v.extern), *kernel.variables]:
        if v.space == "param":
            places[v.name] = Place(v, storage=cpp(v.name))
        elif not v.extern:
            start = aligned(at[v.space], v.align)
            places[v.name], at[v.space] = Place(v, start), start + v.size
    dynamic = [v for v in [*module.variables, *kernel.variables] if v.space == "shared" and v.extern]
    start = aligned(at["shared"], max([16, *(v.align for v in dynamic)])) if dynamic else at["shared"]
    places |= {v.name: Place(v, start) for v in dynamic}
    offsets, end = [], 0
    for v in kernel.params:
        offsets.append(aligned(end, v.align))
        places[v.name] = Place(v, storage=f"(t.block->shape->params + {offsets[-1]})")
        end = offsets[-1] + v.size
    facts = Facts(kernel.name, start - SHARED_START, tuple(kernel.params), tuple(offsets), end)
    return places, facts


def called(kernel: Kernel, module: Module) -> dict[str, Place]:
    """Where the variables of a function lie: its parameters are those of the C++ function."""
    own, _ = arranged(Kernel(kernel.name, variables=kernel.variables), module)
    return own | {v.name: Place(v, storage=cpp(v.name)) for v in [*kernel.returns, *kernel.params]}


def device_function(kernel: Kernel, places: dict[str, Place], functions: tuple[str, ...]) -> str:
    """The C++ of a function that kernels call."""
    given = ", ".join(f"u8* {cpp(v.name)}" for v in [*kernel.returns, *kernel.params])
    text = function(kernel, places, functions, {v.name for v in [*kernel.returns, *kernel.params]})
    return f"static void {cpp(kernel.name)}(Thread& t, {given}) {{\n" + text.split("\n", 1)[1]


def function(kernel: Kernel, places: dict[str, Place], functions: tuple[str, ...],
             given: Collection[str] = ()) -> str:
    """The C++ of one kernel; ``given`` are the parameters that a caller holds."""
    w = Writer(kernel, places, functions, labels={x.name: x.line for x in kernel.body if isinstance(x, Label)})
    local = max((p.offset + p.variable.size for p in places.values() if p.variable.space == "local"), default=0)
    body = blocks(w, kernel.body)
    used = set(re.findall(r"\w+", body))
    registers = [f"    {WORDS[width]} {w.register(name)} = 0;" for name, width in kernel.registers.items()
                 if w.register(name) in used]
    depot = [f"    alignas(16) u8 depot[{local}]; Depot held(t, depot, {local});"] if local else []
    params = [f"    alignas(16) u8 {p.storage}[{max(16, p.variable.size)}];" for p in places.values()
              if p.variable.space == "param" and p.storage.startswith("v_") and p.variable.name not in given]
    sites = [f"    {site}" for site in w.sites]
    return "\n".join([f'extern "C" void run_{kernel.name}(Thread& t) {{', "    bool carry = false; (void)carry;",
                      *registers, *depot, *params, *sites, body, "}"])


def blocks(w: Writer, body: list[Instruction | Label]) -> str:
    """The statements, with a count of instructions before each stretch without jumps."""
    lines: list[str] = []
    stretch: list[str] = []

    def flush() -> None:
        if stretch:
            lines.append(f"    t.executed += {len(stretch)};")
            lines.extend(stretch)
            stretch.clear()

    for item in body:
        if isinstance(item, Label):
            flush()
            lines.append(f"{w.label(item.name)}:;")
            continue
        stretch.append(f"    {statement(w, item)}")
        if item.parts[0] in ("bra", "ret", "exit"):
            flush()
    flush()
    return "\n".join(lines)


def statement(w: Writer, i: Instruction) -> str:
    """One instruction, under its guard."""
    w.line = i.line
    parts = i.parts
    known = next((TABLE[".".join(parts[:n])] for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in TABLE), None)
    if known is None:
        raise w.refuse(i)
    try:
        text = known(w, i)
    except (KeyError, IndexError, ValueError, StopIteration) as error:
        raise PtxError(i.line, f"the emulator does not know this form: {i.opcode} {', '.join(i.operands)} "
                               f"({type(error).__name__} {error})") from error
    return f"if ({w.get(i.guard, 'pred')}) {{ {text} }}" if i.guard else text
