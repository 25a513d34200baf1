"""The third answer: the printed CUDA, compiled by g++ and run with a fiber for each thread.

In: programs with their printed CUDA and what the interpreter found.  Out: what differs, by program.

>>> with_host([(program, verdict), ...], folder)

``shim.h`` is the machine.  Conversions and atomics whose body is one PTX instruction are spelled in C++; a program
with any other asm is left out and counted.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from fuzz.answers import Verdict, differences, for_moye
from fuzz.programs import Program, arguments

SHIM = Path(__file__).with_name("shim.h")
_SPELLED = {
    'float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y;': "return half_value(x.bits);",
    'int y; asm("bfe.s32 %0, %1, 0, 16;" : "=r"(y) : "r"(x)); return (short)y;': "return (short)x;",
    'f16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y;': "return f16{half_bits(x)};",
    'bf16 y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y;': "return bf16{brain_bits(x)};",
    'unsigned y; asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(y) : "f"(x0), "f"(x1)); return y;':
        "return half_bits(x0) | (unsigned)half_bits(x1) << 16;",
    'unsigned y; asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(y) : "f"(x0), "f"(x1)); return y;':
        "return brain_bits(x0) | (unsigned)brain_bits(x1) << 16;",
}
# A sum, difference or product of two 16-bit floats: float has more than twice their bits, so that rounding again is no
# other rounding.
_HALF = re.compile(r'f16 y;\s+asm\("(add|sub|mul)\.rn\.f16 %0, %1, %2;" :[^;]*;\s+return y;')
_BRAIN = re.compile(r'bf16 y;\s+asm\("fma\.rn\.bf16 %0, (%1, %3, %2|%2, %3, %1|%1, %2, %3);" :[^;]*;\s+return y;')
_BRAIN_VALUE = "__uint_as_float((unsigned)%.bits << 16)"
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "%1, %3, %2": "+", "%2, %3, %1": "-", "%1, %2, %3": "*"}
_REDUCTION = re.compile(r'asm volatile\("red\.relaxed\.gpu\.global\.(add|min|max|xor)\.\w+ \[%0\], %1;" :: [^;]*;')
_REDUCED = {"add": "*p += x;", "min": "*p = x < *p ? x : *p;", "max": "*p = x > *p ? x : *p;", "xor": "*p ^= x;"}
CTYPES = {"i": ctypes.c_int, "I": ctypes.c_uint, "q": ctypes.c_longlong, "Q": ctypes.c_ulonglong,
           "f": ctypes.c_float, "d": ctypes.c_double, "P": ctypes.c_void_p, "?": ctypes.c_bool}


def compiler() -> str | None:
    return shutil.which("g++")


def _halves(value: str, kind: str) -> str:
    """The sum, difference or product of a and b in float."""
    return f"{value.replace('%', 'a')} {_SIGNS[kind]} {value.replace('%', 'b')}"


def spelled(source: str) -> str | None:
    """The CUDA with C++ for PTX, or None where other PTX is left."""
    for asm, text in _SPELLED.items():
        source = source.replace(asm, text)
    source = _HALF.sub(lambda found: f"return f16{{half_bits({_halves('half_value(%.bits)', found[1])})}};", source)
    source = _BRAIN.sub(lambda found: f"return bf16{{brain_bits({_halves(_BRAIN_VALUE, found[1])})}};", source)
    source = _REDUCTION.sub(lambda found: _REDUCED[found[1]], source)
    return None if "asm" in source else source


def _entry(program: Program, source: str) -> str:
    """The kernel in a namespace, and a function that takes its arguments as an array of addresses."""
    head = re.search(rf"{program.name}\((.*?)\)\s*{{", source, re.S)
    assert head, source
    types = [p.replace("__restrict__", "").replace("__grid_constant__", "").strip().rpartition(" ")[0]
             for p in head[1].split(",") if p.strip()]
    passed = ", ".join(f"*({t}*)a[{i}]" for i, t in enumerate(types))
    body = source.replace('extern "C" ', "")
    return f'namespace n{program.seed} {{\n{body}\nextern "C" void entry_{program.seed}(void** a) ' \
           f"{{ {program.name}({passed}); }}\n}}\n"


def with_host(judged: list[tuple[Program, Verdict]], folder: Path) -> tuple[list[Verdict], int]:
    """The verdicts with the host's answer taken in, and how many programs had one."""
    chosen = [(i, p, text) for i, (p, v) in enumerate(judged) if v.kind == "clean" and hasattr(v.printed, "source")
              and (text := spelled(v.printed.source)) is not None]
    verdicts = [_printed(v) for _, v in judged]
    if not chosen or compiler() is None:
        return verdicts, 0
    library, errors = compiled([(p, text) for _, p, text in chosen], folder)
    for i, program, _ in chosen:
        if program.seed in errors:
            verdicts[i] = Verdict("compiler", errors[program.seed])
        elif told := run(library, program, judged[i][1]):
            verdicts[i] = Verdict("cuda", f"{len(told)} elements: {'; '.join(told[:3])}")
    return verdicts, len(chosen)


def _printed(verdict: Verdict) -> Verdict:
    """A clean program that cannot be printed is none."""
    if verdict.kind == "clean" and isinstance(verdict.printed, Exception):
        return Verdict("crash", f"print {type(verdict.printed).__name__}: {verdict.printed}"[:300])
    return verdict


def compiled(programs: list[tuple[Program, str]], folder: Path) -> tuple[Any, dict[int, str]]:
    """One library of all; those that do not compile are found one by one."""
    errors: dict[int, str] = {}
    kept = list(programs)
    for _ in range(2):
        text = SHIM.read_text() + "".join(_entry(p, t) for p, t in kept)
        said = _compile(text, folder / f"fuzz_{len(kept)}_{kept[0][0].seed if kept else 0}")
        if not said:
            break
        for p, t in kept:
            if one := _compile(SHIM.read_text() + _entry(p, t), folder / f"one_{p.seed}", check=True):
                errors[p.seed] = next((x for x in one.splitlines() if "error" in x), one)[:300]
        kept = [(p, t) for p, t in kept if p.seed not in errors]
    name = folder / f"fuzz_{len(kept)}_{kept[0][0].seed if kept else 0}"
    return (ctypes.CDLL(str(name.with_suffix(".so"))) if kept else None), errors


def _compile(text: str, path: Path, check: bool = False) -> str:
    path.with_suffix(".cpp").write_text(text)
    flags = ["-fsyntax-only"] if check else ["-O1", "-shared", "-fPIC", "-o", str(path.with_suffix(".so"))]
    # Without -frounding-math g++ 12 makes -float(n) of 0.0f - float(n), which is -0.0 where n is 0.
    made = subprocess.run([str(compiler()), "-std=c++17", "-w", "-fwrapv", "-ffp-contract=off", "-frounding-math",
                           "-fno-strict-aliasing", "-Wno-narrowing", *flags, str(path.with_suffix(".cpp"))],
                          capture_output=True, text=True)
    return made.stderr if made.returncode else ""


def run(library: Any, program: Program, verdict: Verdict) -> list[str]:
    """What differs from the interpreter's memories."""
    items = arguments(program)
    arrays = for_moye(items)
    keep: list[Any] = []
    for slot in verdict.printed.slots:
        value = arrays[slot.param]
        if slot.kind == "ptr":
            value = value.ctypes.data
        elif slot.kind == "stride":
            value = value.strides[slot.mode] // value.itemsize
        elif slot.kind in ("extent", "shape"):
            value = value.shape[slot.mode]
        keep.append(CTYPES[slot.format](value))
    pointers = (ctypes.c_void_p * len(keep))(*(ctypes.addressof(x) for x in keep))
    entry = getattr(library, f"entry_{program.seed}")
    if library.launch(entry, pointers, program.grid, program.block):
        return ["the threads wait for ever"]
    return differences(items, verdict.memories, arrays, program.parameters)


__all__ = ["compiler", "spelled", "with_host"]
