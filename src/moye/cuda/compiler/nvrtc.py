"""CUDA C++ to a cubin, with what the compiler says about it; no GPU and no driver needed.

In: printed source, the kernel's name, an architecture.  Out: ``Compiled``: cubin, log, registers, spills, PTX and SASS
on request.

    compile_cubin(source, "gemm", "sm_90a").registers      # 154

NVRTC is imported on the first call.  It does not cache (``runtime/cache.py`` does) and adds no header path: printed
source includes nothing.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from moye import env
from moye.cuda.compiler import cubin as cubins
from moye.cuda.compiler import installed
from moye.errors import CompileError, MoyeError, UnsupportedError
from moye.origin import pip_install

OLDEST = 80
_LANGUAGE = ("-std=c++17", "-minimal")
"""Printed source has no textures and calls nothing of CUDA's runtime, and declaring them takes 4 ms a compile."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What ptxas said about one kernel; bytes, except ``registers`` per thread."""

    registers: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    stack_frame: int = 0
    smem_static: int = 0


@dataclass(slots=True)
class Compiled:
    """One compiled source; the numbers are those of kernel ``name``, ``resources`` has every kernel's."""

    source: str
    name: str
    arch: str
    options: tuple[str, ...]
    cubin: bytes
    log: str
    seconds: float = 0.0
    _ptx: str | None = field(default=None, repr=False)
    _sass: str | None = field(default=None, repr=False)
    _resources: Mapping[str, Resources] | None = field(default=None, repr=False)

    @property
    def resources(self) -> Mapping[str, Resources]:
        """What ptxas said about each kernel.

        If a driver's compile cache answered, ptxas said nothing.  Then the cubin tells, and if there is a stack frame,
        and so perhaps spills, ptxas is asked again.
        """
        if self._resources is None:
            kernels = cubins.parse(self.cubin)
            told = parse_log(self.log)
            if not told.keys() >= kernels.keys():
                told = {name: Resources(kernel.registers, stack_frame=kernel.frame, smem_static=kernel.smem)
                        for name, kernel in kernels.items()}
                if any(kernel.frame for kernel in kernels.values()):
                    again = compile_cubin(self.source, self.name, self.arch, options=self.options, no_cache=True)
                    told = parse_log(again.log)
            self._resources = told
        return self._resources

    @property
    def _own(self) -> Resources:
        if (found := self.resources.get(self.name)) is None:
            raise CompileError(f"the compiled source has no kernel {self.name!r}: is it extern \"C\" __global__?")
        return found

    @property
    def registers(self) -> int:
        return self._own.registers

    @property
    def spill_stores(self) -> int:
        return self._own.spill_stores

    @property
    def spill_loads(self) -> int:
        return self._own.spill_loads

    @property
    def stack_frame(self) -> int:
        return self._own.stack_frame

    @property
    def smem_static(self) -> int:
        return self._own.smem_static

    @property
    def ptx(self) -> str:
        """The PTX, compiled on the first request."""
        if self._ptx is None:
            self._ptx = compile_ptx(self.source, self.name, self.arch, options=self.options)
        return self._ptx

    @property
    def sass(self) -> str:
        """The disassembly, made on the first request; UnsupportedError where there is no disassembler."""
        if self._sass is None:
            self._sass = sass(self.cubin)
        return self._sass


def compile_cubin(source: str, name: str, arch: str, *, options: Sequence[str] = (),
                  no_cache: bool = False) -> Compiled:
    """Compile one source for one architecture; CompileError with NVRTC's log and the lines it is about."""
    arch = normalize_arch(arch)
    flags = [f"-arch={arch}", *_LANGUAGE, "--ptxas-options=-v", *options]
    if (no_cache or env.nvrtc_no_cache()) and "--no-cache" not in flags:
        flags.append("--no-cache")
    start = time.perf_counter()
    image, log = _compile(source, name, arch, flags, "CUBIN")
    return Compiled(source, name, arch, tuple(options), image, log, time.perf_counter() - start)


def compile_ptx(source: str, name: str, arch: str, *, options: Sequence[str] = ()) -> str:
    """The PTX of one source, for the virtual architecture of ``arch``."""
    arch = normalize_arch(arch)
    flags = [f"-arch={arch.replace('sm_', 'compute_')}", *_LANGUAGE, *options]
    return _compile(source, name, arch, flags, "PTX")[0].rstrip(b"\0").decode(errors="replace")


def normalize_arch(arch: str) -> str:
    """``"sm_90"``, ``"90"`` and ``"compute_90a"`` are ``"sm_90a"``; CompileError below sm_80.

    9.0 always gets its ``a``: the cubin runs on that architecture alone in either case, and wgmma needs it.
    """
    match = re.fullmatch(r"(?:sm_|compute_)?(\d{2,3})([af]?)", str(arch))
    if match is None:
        raise CompileError(f"{arch!r} is not an architecture such as 'sm_80' or 'sm_90a'")
    if int(match[1]) < OLDEST:
        raise CompileError(f"{arch} is older than sm_{OLDEST}, the oldest architecture that moye compiles for")
    return f"sm_{match[1]}{match[2] or ('a' if match[1] == '90' else '')}"


@functools.cache
def compiler_version() -> str:
    """NVRTC's version and the size of its library, which tells patch releases apart; part of a cache key."""
    nvrtc = _nvrtc()
    _, major, minor = _call(nvrtc.nvrtcVersion)
    try:
        size = os.path.getsize(library_path() or os.devnull)
    except OSError:                                     # it was removed since it was loaded
        size = 0
    return f"nvrtc-{major}.{minor}+{size}"


def supported_archs() -> tuple[int, ...]:
    """The compute capabilities that the installed NVRTC compiles for, from sm_80 up."""
    return tuple(arch for arch in _call(_nvrtc().nvrtcGetSupportedArchs)[1] if arch >= OLDEST)


# --- NVRTC -----------------------------------------------------------------------------------------------------------


def _nvrtc() -> ModuleType:
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise CompileError(f"compiling needs NVRTC, and cuda-bindings is not installed ({error})",
                           hint=pip_install("cuda")) from error
    return nvrtc  # type: ignore[no-any-return]


def _call(function: Callable[..., Any], *args: Any) -> Any:
    """Call into NVRTC; its library is loaded by the first call, so that is where it may turn out to be missing."""
    try:
        return function(*args)
    except (OSError, RuntimeError, MemoryError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CompileError(f"compiling needs NVRTC, and its library cannot be loaded ({reason})",
                           hint=pip_install("cuda")) from error


def library_path() -> str:
    """The file of the libnvrtc in use, empty where it cannot be found."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib
        path: str | None = load_nvidia_dynamic_lib("nvrtc").abs_path
    except (ImportError, OSError, RuntimeError, MemoryError):
        return ""
    return path if path and os.path.isfile(path) else ""


def _compile(source: str, name: str, arch: str, flags: Sequence[str], target: str) -> tuple[bytes, str]:
    try:
        return _compiled(_nvrtc(), source, name, arch, flags, target)
    except MoyeError:
        raise
    except MemoryError as error:
        raise CompileError(f"there was not enough memory to compile {name!r}") from error
    except (OSError, RuntimeError) as error:
        raise CompileError(f"NVRTC failed on kernel {name!r}: {error}") from error


def _compiled(nvrtc: ModuleType, source: str, name: str, arch: str, flags: Sequence[str],
              target: str) -> tuple[bytes, str]:
    error, program = _call(nvrtc.nvrtcCreateProgram, source.encode(), f"{name}.cu".encode(), 0, None, None)
    if error:
        raise CompileError(f"NVRTC could not start on kernel {name!r}: {error.name}")
    try:
        error, = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        said = _fetch(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).rstrip(b"\0")
        log = said.decode(errors="replace").strip()
        if error:
            raise _rejection(source, name, arch, flags, log, error.name)
        return _fetch(getattr(nvrtc, f"nvrtcGet{target}Size"), getattr(nvrtc, f"nvrtcGet{target}"), program), log
    finally:
        with suppress(OSError, RuntimeError, MemoryError):      # what was compiled is here, or why not
            nvrtc.nvrtcDestroyProgram(program)


def _fetch(size_of: Callable[..., Any], copy: Callable[..., Any], program: Any) -> bytes:
    error, size = size_of(program)
    buffer = bytearray(size)
    if not error:
        error, = copy(program, buffer)
    if error:
        raise CompileError(f"NVRTC did not hand out its result: {error.name}")
    return bytes(buffer)


# --- the log ---------------------------------------------------------------------------------------------------------

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_FUNCTION = re.compile(r"Function properties for (\S+)")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SMEM = re.compile(r"(\d+) bytes smem")
_COMPLAINT = re.compile(r"^(?P<file>[^\s()]+)\((?P<line>\d+)\): (?:catastrophic )?error", re.MULTILINE)


def parse_log(log: str) -> dict[str, Resources]:
    """The resources of each kernel in the output of ``ptxas -v``."""
    found: dict[str, Resources] = {}
    entry, about, frame = "", "", (0, 0, 0)
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry, frame = match[1], (0, 0, 0)
        elif match := _FUNCTION.search(line):
            about = match[1]
        elif (match := _FRAME.search(line)) and about == entry:
            frame = (int(match[1]), int(match[2]), int(match[3]))
        elif entry and (match := _USED.search(line)):
            smem = _SMEM.search(line)
            found[entry] = Resources(int(match[1]), frame[1], frame[2], frame[0], int(smem[1]) if smem else 0)
            entry = ""
    return found


def _rejection(source: str, name: str, arch: str, flags: Sequence[str], log: str, code: str) -> CompileError:
    if code == "NVRTC_ERROR_INVALID_OPTION":
        return CompileError(f"NVRTC rejected the options {' '.join(flags)} of kernel {name!r}: {log or code}")
    first = next((line for line in log.splitlines() if "error" in line), code).strip()
    text = f"NVRTC rejected kernel {name!r} for {arch}: {first}"
    if excerpt := _excerpt(source, f"{name}.cu", log):
        text += f"\n{excerpt}"
    return CompileError(f"{text}\n{log}")


def _excerpt(source: str, file: str, log: str, most: int = 3) -> str:
    """The first few lines that the log complains about, each with its neighbours."""
    lines = source.splitlines()
    numbers = list(dict.fromkeys(int(m["line"]) for m in _COMPLAINT.finditer(log) if m["file"] == file))
    return "\n  ...\n".join("\n".join(_neighbours(lines, number)) for number in numbers[:most])


def _neighbours(lines: Sequence[str], number: int) -> Iterator[str]:
    for n in range(max(1, number - 1), min(len(lines), number + 1) + 1):
        yield f"{'>' if n == number else ' '} {n:4} | {lines[n - 1]}"


# --- SASS ------------------------------------------------------------------------------------------------------------


def sass(cubin: bytes) -> str:
    """The disassembly of a cubin; UnsupportedError where neither nvdisasm nor cuobjdump is found."""
    tool = _disassembler()
    if tool is None:
        raise UnsupportedError("disassembling needs nvdisasm or cuobjdump, and neither was found",
                               hint=pip_install("sass"))
    try:
        with tempfile.TemporaryDirectory(prefix="moye-") as folder:
            path = Path(folder) / "kernel.cubin"
            path.write_bytes(cubin)
            # Without nvdisasm's analysis of data flow, which infers targets of indirect jumps, it takes a quarter less.
            flags = ["-c", "-ndf"] if tool.name == "nvdisasm" else ["-sass"]
            done = subprocess.run([tool, *flags, path], capture_output=True, text=True, timeout=120, check=False)
    except (OSError, MemoryError, subprocess.SubprocessError, UnicodeDecodeError) as error:
        raise CompileError(f"{tool.name} did not disassemble this cubin: "
                           f"{type(error).__name__} {error}".rstrip()) from error
    if done.returncode:
        raise CompileError(f"{tool.name} failed on this cubin: {done.stderr.strip() or done.returncode}")
    return done.stdout


@functools.cache
def _disassembler() -> Path | None:
    """nvdisasm or cuobjdump, as installed."""
    return installed.program("nvdisasm", "nvidia/cu*/bin") or installed.program("cuobjdump", "nvidia/cu*/bin")
