"""The pipeline as one visible list: specs -> trace -> passes -> verify -> print -> NVRTC.

In: a kernel function and classified arguments.  Out: ``Specialised`` (the Func, its guards) and ``Program`` (CUDA).

    compile_program(specialise(fn, call, (256, 1, 1)), "sm_90a").registers

``MOYE_SHOW=ast,ir,cuda`` prints the result of each step.
"""

from __future__ import annotations

import gc
import re
import sys
import threading
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from operator import index
from typing import TYPE_CHECKING, Any

from moye import env, hardware
from moye.atoms.atom import CopyOp, MmaOp
from moye.cuda.device import driver
from moye.depth import deeply
from moye.errors import (
    UNKNOWN,
    ArgumentError,
    CompileError,
    LaunchError,
    MoyeError,
    PerformanceWarning,
    TraceError,
    UnsupportedError,
)
from moye.hardware import MOST_SHARED
from moye.ir.nodes import Func, Op
from moye.ir.text import to_text
from moye.ir.verify import verify
from moye.lang.rewrite import rewritten_source
from moye.lang.subscripts import subscripted
from moye.lang.trace import Capture, changed, trace
from moye.passes.advance import advance
from moye.passes.arms import structure
from moye.passes.barriers import spare
from moye.passes.contract import contract
from moye.passes.convert import isolate
from moye.passes.dce import eliminate
from moye.passes.fuse import fuse
from moye.passes.landings import land
from moye.passes.ranges import unite
from moye.passes.register_budgets import budgets, require_budgets
from moye.passes.shared_memory import plan, require_spans
from moye.passes.wgmma_registers import settle
from moye.passes.wraps import wrap
from moye.runtime.arguments import Call
from moye.runtime.arrays import ArrayInfo, describe
from moye.runtime.guards import Check, block_arithmetic, compile_guards, counts_elements, leaves_32_bits
from moye.runtime.shown import program_html
from moye.runtime.watched import Watch, apart

if TYPE_CHECKING:
    from moye.cuda.compiler.nvrtc import Compiled
    from moye.cuda.compiler.overlap import CompiledOverlap
    from moye.cuda.compiler.ptxas_notes import Note
    from moye.cuda.printing.printer import Printed

Dim3 = tuple[int, int, int]


@dataclass(slots=True)
class Specialised:
    """One specialisation of a kernel: what both back ends read."""

    func: Func
    captures: list[Capture]
    check: Check
    shared_bytes: int
    programs: dict[tuple[Any, ...], Program] = field(default_factory=dict)
    simulation: Any = None
    _of_blocks: list[Op] | None = None
    _watched: tuple[list[Capture], Watch | None] | None = None
    _counts: bool | None = None

    def wraps(self, grid: Dim3) -> bool:
        """Whether its indices may leave 32 bits in a launch of this grid, which then needs those of 64."""
        if self.func.index_bits == 64:
            return False
        if self._of_blocks is None:                     # to look for them in the whole kernel takes a millisecond
            self._of_blocks = block_arithmetic(self.func)
        return leaves_32_bits(self._of_blocks, grid)

    def counts_elements(self) -> bool:
        """Whether it may compute with 32 bits how many elements an argument has."""
        if self.func.index_bits == 64:
            return False
        if self._counts is None:
            self._counts = counts_elements(self.func)
        return self._counts

    def watched(self) -> tuple[list[Capture], Watch | None]:
        """The names that it read: those to be looked at in each launch, and the watch of the others."""
        if self._watched is None:
            self._watched = apart(self.captures)
        return self._watched

    def stale(self) -> bool:
        """Whether a name that it read holds something else now."""
        if not self.captures:
            return False
        others, watch = self.watched()
        return changed(others) or (watch is not None and not watch.sure() and changed(self.captures))


@dataclass(slots=True, repr=False)
class Program:
    """A compiled kernel: the printed CUDA and what NVRTC made of it."""

    printed: Printed
    arch: str
    compiled: Compiled
    loaded: dict[int, Any] = field(default_factory=dict)
    func: Func | None = field(default=None, repr=False)
    _notes: tuple[Note, ...] | None = field(default=None, repr=False)
    _moved: tuple[Note, ...] | None = field(default=None, repr=False)
    _warned: bool = field(default=False, repr=False)

    def __repr__(self) -> str:
        told = [f"<{self.printed.name} for {self.arch}: {len(self.cubin)} bytes of code"]
        with suppress(MoyeError):                       # where ptxas would have to be asked again, and cannot be
            told += [f"{self.registers} registers", f"{self.spills} bytes spilled" if self.spills else ""]
        return f"{', '.join(filter(None, [*told, f'{self.smem} bytes of shared memory']))}>"

    def _repr_html_(self) -> str:
        return program_html(self.printed.name, self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Everything except the trace and what is loaded on devices, because these belong to their process."""
        left: dict[str, Any] = {"loaded": {}, "func": None, "_notes": self._told(), "_moved": self._moved or ()}
        return _program, (type(self), {f.name: left.get(f.name, getattr(self, f.name)) for f in fields(self)})

    def __copy__(self) -> Program:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Program:
        return self

    @property
    def source(self) -> str:
        """The printed CUDA C++."""
        return self.printed.source

    @property
    def cubin(self) -> bytes:
        return self.compiled.cubin

    @property
    def ptx(self) -> str:
        return self.compiled.ptx

    @property
    def sass(self) -> str:
        """The disassembly; it needs nvdisasm or cuobjdump."""
        return self.compiled.sass

    def overlap(self) -> CompiledOverlap:
        """How many MMAs lie between a copy and its wait, per loop, in PTX and in SASS; it needs a disassembler."""
        from moye.cuda.compiler.overlap import CompiledOverlap, ptx_overlap, sass_overlap

        name = self.printed.name
        return CompiledOverlap(name, self.arch, ptx_overlap(self.ptx, name), sass_overlap(self.sass, name))

    @property
    def registers(self) -> int:
        """Registers per thread."""
        return self.compiled.registers

    @property
    def spills(self) -> int:
        """Bytes that a thread spills to local memory and loads back."""
        return self.compiled.spill_stores + self.compiled.spill_loads

    @property
    def stack(self) -> int:
        """Bytes of local memory per thread: spills, and arrays that did not fit registers."""
        return self.compiled.stack_frame

    @property
    def notes(self) -> tuple[Note, ...]:
        """What ptxas says about lost performance (wgmma that wait for each other), with the kernel's lines.

        If a note names a line of PTX, the kernel is compiled once more, with line numbers.  Waits for products that
        ptxas has moved before arithmetic are found in the SASS, if there is a disassembler.
        """
        from moye.cuda.compiler.moved_waits import moved, stretches

        if self._moved is None:
            self._moved = ()
            if self.func is not None and stretches(self.func):
                with suppress(UnsupportedError):        # without a disassembler
                    self._moved = moved(self.func, self.sass)
        return (*self._told(), *self._moved) if self._moved else self._told()

    def _told(self) -> tuple[Note, ...]:
        """What ptxas says."""
        from moye.cuda.compiler.ptxas_notes import notes

        if self._notes is None:
            func = self.func
            self._notes = () if func is None else notes(func, self.compiled.log, lambda: _with_lines(func, self.arch))
        return self._notes

    def warn(self) -> None:
        """Warn with a ``PerformanceWarning`` for each note that costs time, at the kernel's line; once per program."""
        if not self._warned:
            self._warned = True
            for note in self._told():
                if note.costs:
                    frame = note.locs[0].innermost if note.locs else None
                    name = self.printed.name if self.func is None else self.func.name
                    warnings.warn_explicit(f"{name}: {note.message}", PerformanceWarning, frame.file if frame else name,
                                           frame.line if frame else 1)

    @property
    def smem(self) -> int:
        """Shared memory per block in bytes."""
        return self.printed.static_smem + self.printed.dynamic_smem


def _program(cls: type[Program], values: dict[str, Any]) -> Program:
    """Restore a program that was pickled."""
    return cls(**values)


_pauses = threading.Lock()
_paused = 0
_collecting = False


@contextmanager
def _uncollected() -> Iterator[None]:
    """Nobody looks for garbage, because a trace makes many objects and nearly all of them stay.

    Looking at them again and again is a tenth of a first launch.  The last of several threads lets the collector go on.
    """
    global _paused, _collecting
    with _pauses:
        if not _paused:
            _collecting = gc.isenabled()
            gc.disable()
        _paused += 1
    try:
        yield
    finally:
        with _pauses:
            _paused -= 1
            if not _paused and _collecting:
                gc.enable()


@deeply
def specialise(function: types.FunctionType, call: Call, block: Dim3, cluster: Dim3 = (1, 1, 1)) -> Specialised:
    """Trace, clean and verify a kernel for these specs."""
    with _uncollected():
        return _specialise(function, call, block, cluster)


def _specialise(function: types.FunctionType, call: Call, block: Dim3, cluster: Dim3) -> Specialised:
    show = env.show()
    if "ast" in show:
        print(rewritten_source(function), file=sys.stderr)
    try:
        traced = trace(function, call.specs, block=block, cluster=cluster, index_bits=call.index_bits)
    except (TraceError, TypeError, KeyError) as error:
        raise subscripted(error) or error from None
    func = finished(traced.func)
    if "ir" in show:
        print(to_text(func), file=sys.stderr)
    shared = plan(func).total
    _require_shared(func, shared, MOST_SHARED, "; no device has more than")
    require_spans(func)
    require_budgets(func)
    return Specialised(func, traced.captures, compile_guards(func), shared)


def finished(func: Func) -> Func:
    """What was traced, cleaned and verified: what both back ends read."""
    func = land(settle(eliminate(spare(unite(wrap(isolate(contract(advance(fuse(structure(func)))))))))))
    verify(func)
    return func


def _capability(arch: str) -> int:
    return int(arch.strip("sm_af"))


def require_shared(spec: Specialised, arch: str, extra: int = 0) -> None:
    """B10: LaunchError if a block needs more shared memory than an architecture allows."""
    _require_shared(spec.func, spec.shared_bytes, hardware.of(arch).block_shared, f", and {arch} has", extra)


def require_room(spec: Specialised, extra: int) -> None:
    """B10: LaunchError if a block needs more shared memory than any device has, with so many more bytes added."""
    _require_shared(spec.func, spec.shared_bytes, MOST_SHARED, "; no device has more than", extra)


def _require_shared(func: Func, needed: int, limit: int, has: str, extra: int = 0) -> None:
    if needed + extra <= limit:
        return
    sizes = ", ".join([f"{b.name} {b.bytes}" for b in func.shared_buffers] + ([f"smem={extra}"] if extra else []))
    raise LaunchError(f"{func.name} needs {needed + extra} bytes of shared memory per block ({sizes}){has} {limit}",
                      hint="use smaller tiles or fewer stages", code="B10",
                      locs=tuple(b.loc for b in sorted(func.shared_buffers, key=lambda b: -b.bytes)[:1]))


def default_arch(device: int | None = None) -> str:
    """MOYE_ARCH, or else the device's architecture, or else sm_90a."""
    return env.arch() or (driver.device_arch(device or 0) if driver.available() else hardware.DEFAULT_ARCH)


def arch_of(array: Any) -> str | None:
    """The architecture that kernels on this array are compiled for (``sm_90a``); of host memory that of MOYE_ARCH, or
    None.
    """
    info = describe(array)
    return None if info is None else env.arch() if info.device is None else default_arch(info.device)


def multiprocessors(array: Any) -> int:
    """The multiprocessors of an array's device; of host memory those of MOYE_ARCH, or else of an H100 or H200.

    ``array`` may also be what ``describe`` says of one, which is faster.
    """
    info = array if isinstance(array, ArrayInfo) else describe(array)
    if info is None or info.device is None:
        return hardware.of(env.arch() or hardware.DEFAULT_ARCH).multiprocessors
    return driver.device_limits(info.device).sm_count


_MOST_BLOCKS = 16
_LEFT_OVER = 12
"""Multiprocessors of an H200 that clusters of 4 and of 8 blocks do not reach."""


def resident_clusters(array: Any, size: int) -> int:
    """Clusters of ``size`` blocks that the array's device holds at once, if each block fills a multiprocessor.

    A persistent grid of clusters has so many of them.  The device is asked; of host memory, what an H200 answered.
    """
    try:
        count = index(size)
    except TypeError:
        count = 0
    if not 1 <= count <= _MOST_BLOCKS:
        raise ArgumentError(f"resident_clusters: a cluster has 1 to {_MOST_BLOCKS} blocks, not {size!r}")
    info = array if isinstance(array, ArrayInfo) else describe(array)
    if size <= 2 or info is None or info.device is None:
        return max(1, (multiprocessors(array) - (_LEFT_OVER if size > 2 else 0)) // size)
    return driver.resident_clusters(info.device, size)


@deeply
def compile_program(spec: Specialised, arch: str, *, restrict: bool = True) -> Program:
    """Print and compile for an architecture such as ``sm_90a``, or take the result from the disk cache."""
    from moye.cuda.compiler.nvrtc import normalize_arch
    from moye.cuda.compiler.ptxas_notes import refused
    from moye.cuda.printing.printer import print_kernel

    try:
        arch = normalize_arch(arch)
    except CompileError:                                # what the kernel needs says more than what moye needs
        check_atoms(spec.func, arch)
        raise
    asserts, lineinfo = env.device_assert(), env.lineinfo()
    key = (arch, restrict, asserts, lineinfo)
    program = spec.programs.get(key)
    if program is None:
        check_atoms(spec.func, arch)
        require_shared(spec, arch)
        func = replace(spec.func, restrict=restrict)    # other threads may print it otherwise
        printed = print_kernel(func, lineinfo=lineinfo, asserts=asserts, arch=arch)
        check_arch(func, printed, arch)
        if "cuda" in env.show():
            print(printed.source, file=sys.stderr)
        try:
            compiled = _compiled(printed, arch, ("-lineinfo",) if lineinfo else ())
        except CompileError as error:
            where = refused(func, error.message, lambda: _with_lines(func, arch))
            raise error.at(where or UNKNOWN) from None
        program = Program(printed, arch, compiled, func=func)
        if budgets(func) and "'setmaxnreg' ignored" not in compiled.log:
            require_budgets(func, program.registers)
        spec.programs[key] = program
    return program


_ACCELERATED = 90
"""The architecture that moye always compiles for with its ``a`` suffix."""


def check_atoms(func: Func, arch: str) -> None:
    """Raise UnsupportedError for the newest atom of a kernel if the architecture is too old for it."""
    match = re.fullmatch(r"(?:sm_|compute_)?(\d{2,3})[af]?", str(arch))
    if match is None:
        return                                          # the compiler has a sentence for what is no architecture
    have = int(match[1])
    uses = [(atom, op.loc) for op in func.body.walk()
            if (atom := getattr(op, "mma", None) or getattr(op, "atom", None)) is not None and atom.ptx]
    atom, loc = max(uses, key=lambda use: use[0].arch, default=(None, None))
    for mma, where in uses:
        if isinstance(mma, MmaOp) and mma.shared and have != 90:
            raise UnsupportedError(f"{func.name} uses {mma}, which sm_90a alone has, and is compiled for {arch}",
                                   hint=_alternatives(mma, have), locs=(where,))
    if atom is not None and loc is not None and atom.arch > have:
        raise UnsupportedError(f"{func.name} uses {atom}, which sm_{atom.arch} and later have, and is compiled for "
                               f"{arch}", hint=_alternatives(atom, have), locs=(loc,))


def check_arch(func: Func, printed: Printed, arch: str) -> None:
    """Raise UnsupportedError if a kernel has an instruction that the architecture is too old for."""
    what, loc = printed.newest
    if printed.arch > _capability(arch):
        needed = f"sm_{printed.arch}{'a' if printed.arch == _ACCELERATED else ''}"
        raise UnsupportedError(f"{func.name} uses {what}, which need {needed} or later, but is compiled for {arch}",
                               locs=(loc,) if loc.frames else ())
    what, only, loc = printed.only
    if what and _capability(arch) != only:
        raise UnsupportedError(f"{func.name} uses {what}, which sm_{only}a alone has, but is compiled for {arch}",
                               locs=(loc,) if loc.frames else ())
    what, since, loc = printed.gone
    if what and _capability(arch) >= since:
        raise UnsupportedError(f"{func.name} uses {what}, which sm_{since} and later lack, but is compiled for {arch}",
                               locs=(loc,) if loc.frames else ())
    what, loc = printed.accelerated
    if what and arch[-1].isdigit():
        raise UnsupportedError(f"{func.name} uses {what}, which need an architecture with an a, such as sm_90a, but is "
                               f"compiled for {arch}", hint=f'compile for "{arch}a"', locs=(loc,))


def _alternatives(atom: CopyOp | MmaOp, have: int) -> str | None:
    """What an architecture has instead: MMA operations on the same dtypes, or on any dtypes."""
    from moye import mma
    from moye.cuda.compiler.nvrtc import OLDEST

    if have < OLDEST:
        return f"moye compiles for sm_{OLDEST} and later"
    if isinstance(atom, CopyOp):
        return "mo.UniversalCopy(dtype) copies on every architecture"
    dtypes = (atom.a_dtype, atom.b_dtype, atom.c_dtype)
    same = [str(op) for op in mma.ALL.values() if (op.a_dtype, op.b_dtype, op.c_dtype) == dtypes and op.arch <= have]
    if same:
        return f"sm_{have} has {', '.join(same)}"
    kinds = dict.fromkeys(f"{op.a_dtype} x {op.b_dtype} + {op.c_dtype}" for op in mma.ALL.values() if op.arch <= have)
    return f"sm_{have} has operations on {', '.join(kinds)}"


def _compiled(printed: Printed, arch: str, flags: tuple[str, ...]) -> Compiled:
    from moye.cuda.compiler import nvrtc
    from moye.runtime.cache import cache_key, opened
    from moye.runtime.toolchain import versions

    cache, key = opened(), ""
    for version in versions(cache.root) if cache is not None else ():
        key = cache_key(printed.source, (arch, *flags), version)
        entry = cache.get_entry(key) if cache is not None else None
        if entry is not None and misfit(printed, arch, entry[0]) is None:
            return nvrtc.Compiled(printed.source, printed.name, arch, flags, entry[0], str(entry[1].get("log", "")))
    compiled = nvrtc.compile_cubin(printed.source, printed.name, arch, options=flags, no_cache=env.nvrtc_no_cache())
    if (problem := misfit(printed, arch, compiled.cubin)) is not None:
        raise CompileError(f"NVRTC compiled {printed.name} for {arch}, and handed out something else: {problem}")
    if cache is not None:
        cache.put(key, compiled.cubin, {"log": compiled.log, "kernel": printed.name, "arch": arch})
    return compiled


def misfit(printed: Printed, arch: str, cubin: bytes) -> str | None:
    """Why these bytes are not this kernel compiled for this architecture; None if they are."""
    from moye.cuda.compiler import cubin as cubins
    try:
        driver.check_params(cubin, printed.name, [slot.format for slot in printed.slots])
        found = cubins.arch(cubin)
    except MoyeError as error:
        return error.message
    return None if found == _capability(arch) else f"it is compiled for sm_{found}"


def _with_lines(func: Func, arch: str) -> tuple[str, str, str]:
    """A kernel compiled with line numbers (what the compiler says, PTX, source), from the disk cache if it is there."""
    from moye.cuda.compiler import nvrtc
    from moye.cuda.printing.printer import print_kernel
    from moye.runtime.cache import cache_key, opened

    printed, flags = print_kernel(func, asserts=env.device_assert(), arch=arch), ("-lineinfo",)
    cache = opened()
    key = cache_key(printed.source, (arch, *flags, "notes"), nvrtc.compiler_version())
    if cache is not None and (entry := cache.get_entry(key)) is not None and b".version" in entry[0]:
        return str(entry[1].get("log", "")), entry[0].decode(errors="replace"), printed.source
    try:
        said = nvrtc.compile_cubin(printed.source, printed.name, arch, options=flags, no_cache=True).log
    except CompileError as error:
        said = error.message
    ptx = nvrtc.compile_ptx(printed.source, printed.name, arch, options=flags)
    if cache is not None:
        cache.put(key, ptx.encode(), {"log": said, "kernel": printed.name, "arch": arch})
    return said, ptx, printed.source
