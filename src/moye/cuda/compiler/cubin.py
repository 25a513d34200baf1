"""What a cubin says about its kernels: registers, stack frame, static shared memory, parameter layout.

In: the bytes of a cubin.  Out: one ``KernelInfo`` per kernel, read with ``struct`` alone; no driver, no disassembler.

    parse(cubin)["gemm"].registers      # 154

It does not know spill bytes, which are only in the compiler's log: a frame of 0 bytes means that there are none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from moye.errors import CompileError

# Attributes of a .nv.info section (EIATTR_*).
_MAX_THREADS, _FRAME_SIZE, _KPARAM_INFO, _REGCOUNT = 0x05, 0x11, 0x17, 0x2F
_KPARAM_INFO_LARGE = 0x45                               # the same of kernels whose parameters are more than 4 kB
_SIZED = 4                                              # the one format whose value follows, its size in the header
_RESERVED_FROM, _RESERVED = 90, 1024                    # .nv.shared of sm_90 and up counts the system's own 1024 bytes


class Param(NamedTuple):
    """One kernel parameter: its place among them, its byte offset and its size in bytes."""

    ordinal: int
    offset: int
    size: int


@dataclass(slots=True)
class KernelInfo:
    """The resources of one kernel."""

    name: str
    registers: int = 0
    frame: int = 0
    smem: int = 0
    max_threads: int | None = None
    params: tuple[Param, ...] = field(default=())


class _Section(NamedTuple):
    name: str
    start: int
    size: int


def parse(cubin: bytes) -> dict[str, KernelInfo]:
    """The kernels of a cubin by name; CompileError if the bytes are no cubin."""
    try:
        sections = {section.name: section for section in _sections(cubin)}
        kernels = {name[len(".text."):]: KernelInfo(name[len(".text."):]) for name in sections
                   if f".nv.info.{name[len('.text.'):]}" in sections}
        _read_common(cubin, sections, kernels)
        reserved = _RESERVED if arch(cubin) >= _RESERVED_FROM else 0
        for name, kernel in kernels.items():
            _read_own(cubin, sections[f".nv.info.{name}"], kernel)
            if shared := sections.get(f".nv.shared.{name}"):
                kernel.smem = max(0, shared.size - reserved)
    except (struct.error, LookupError, ValueError) as error:
        raise CompileError(f"these {len(cubin)} bytes are not a whole cubin ({error})") from error
    return kernels


def arch(cubin: bytes) -> int:
    """The compute capability that a cubin is for, as in 90; CompileError if the bytes are no cubin."""
    _check_magic(cubin)
    flags: int = struct.unpack_from("<I", cubin, 48)[0]
    return flags >> 8 & 0xFF


def _check_magic(cubin: bytes) -> None:
    if cubin[:5] != b"\x7fELF\x02" or len(cubin) < 64 or struct.unpack_from("<H", cubin, 18)[0] != 190:
        raise CompileError(f"these {len(cubin)} bytes are not a cubin: no 64-bit ELF file for an NVIDIA GPU")


def _sections(cubin: bytes) -> Iterator[_Section]:
    _check_magic(cubin)
    table: int = struct.unpack_from("<Q", cubin, 40)[0]
    entry, count, names_at = struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + i * entry) for i in range(count)]
    names = headers[names_at][4]
    for name, _, _, _, start, size in headers:
        yield _Section(_text(cubin, names + name), start, size)


def _text(cubin: bytes, start: int) -> str:
    return cubin[start:cubin.index(b"\0", start)].decode()


def _attributes(cubin: bytes, section: _Section) -> Iterator[tuple[int, bytes]]:
    """(attribute, value) of a .nv.info section; the value is empty where the header holds it all."""
    at, end = section.start, section.start + section.size
    while at < end:
        form, attribute, size = struct.unpack_from("<BBH", cubin, at)
        at += 4
        if form == _SIZED:
            yield attribute, cubin[at:at + size]
            at += size
        else:
            yield attribute, size.to_bytes(2, "little")


def _read_common(cubin: bytes, sections: dict[str, _Section], kernels: dict[str, KernelInfo]) -> None:
    """.nv.info: (symbol index, value) pairs about every function of the file."""
    if ".nv.info" not in sections or ".symtab" not in sections:
        return
    symbols, strings = sections[".symtab"].start, sections[".strtab"].start
    for attribute, value in _attributes(cubin, sections[".nv.info"]):
        if attribute not in (_REGCOUNT, _FRAME_SIZE):
            continue
        symbol, number = struct.unpack("<II", value)
        kernel = kernels.get(_text(cubin, strings + struct.unpack_from("<I", cubin, symbols + symbol * 24)[0]))
        if kernel is not None and attribute == _REGCOUNT:
            kernel.registers = number
        elif kernel is not None:
            kernel.frame = number


def _read_own(cubin: bytes, section: _Section, kernel: KernelInfo) -> None:
    """.nv.info.<kernel>: its parameters and its launch bound."""
    params = []
    for attribute, value in _attributes(cubin, section):
        if attribute == _KPARAM_INFO:
            _, ordinal, offset, flags = struct.unpack("<IHHI", value)
            params.append(Param(ordinal, offset, flags >> 18))
        elif attribute == _KPARAM_INFO_LARGE:
            params.append(Param(*struct.unpack("<HHI", value[4:])))
        elif attribute == _MAX_THREADS:
            x, y, z = struct.unpack("<III", value)
            kernel.max_threads = x * y * z
    kernel.params = tuple(sorted(params))
