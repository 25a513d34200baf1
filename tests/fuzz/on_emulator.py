"""The answer of the emulator: printed CUDA, compiled by NVRTC to PTX and run on this machine, many kernels at a time.

In: printed kernels and their arguments.  Out: the arrays as the kernels leave them, or why one did not run.

    answers([Launch("k7", printed, [x, y], 32)])        # {"k7": ""}, and y is written

Nothing of moye's launches takes part: parameters are packed here, by the slots.  Products and sums stay apart
(``--fmad=false``), so that floats are those of the IR bit by bit.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from emulator import build
from emulator.device import Arrays, Config, Device, EmulatorError, Function
from emulator.ptx import PtxError
from fuzz.host import CTYPES
from moye.cuda.compiler import cubin as cubins
from moye.cuda.compiler.nvrtc import compile_ptx
from moye.cuda.printing.printer import Printed, Slot
from moye.errors import CompileError

ARCH = "sm_90a"
_CTYPES = {**CTYPES, "b": ctypes.c_byte, "B": ctypes.c_ubyte, "h": ctypes.c_short, "H": ctypes.c_ushort,
           "e": ctypes.c_ushort}


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel; no two of one call have the same name."""

    printed: Printed
    arguments: list[Any]
    block: int = 32
    grid: int = 1

    @property
    def name(self) -> str:
        return self.printed.name


def answers(launches: Sequence[Launch], arch: str = ARCH, seed: int = 0) -> list[str]:
    """Run them all; what is wrong with each, empty if it ran."""
    if not launches:
        return []
    try:
        library = _library(launches, arch)
    except (CompileError, PtxError, build.BuildError) as error:
        if len(launches) == 1:
            return [f"{type(error).__name__}: {error}"]
        half = len(launches) // 2       # the others run
        return [*answers(launches[:half], arch, seed), *answers(launches[half:], arch, seed)]
    return [_ran(library, one, seed) for one in launches]


def _library(launches: Sequence[Launch], arch: str) -> tuple[build.Library, Any]:
    """All kernels as one text, each in a namespace of its own: g++ reads its headers once."""
    text = "\n".join(f"namespace n{i} {{\n{one.printed.source}\n}}" for i, one in enumerate(launches))
    ptx = compile_ptx(text, launches[0].name, arch, options=("--fmad=false",))
    kept = build.folder() / f"{hashlib.sha256(ptx.encode()).hexdigest()[:24]}.ptx"
    kept.write_text(ptx)
    return build.build(ptx), kept


def _ran(library: tuple[build.Library, Any], one: Launch, seed: int) -> str:
    seen = Arrays()
    for x in one.arguments:
        if isinstance(x, np.ndarray):
            low, high = np.lib.array_utils.byte_bounds(x)
            seen.note(x, low, high, True)
    device = Device(seed=seed, multiprocessors=4, arrays=seen)
    function = Function(one.name, library[0], cubins.KernelInfo(one.name, registers=32), library[1])
    config = Config()
    config.gridDimX, config.gridDimY, config.gridDimZ = one.grid, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = one.block, 1, 1
    config.sharedMemBytes = one.printed.dynamic_smem
    values = [_parameter(slot, one.arguments[slot.param]) for slot in one.printed.slots]
    pointers = (ctypes.c_void_p * max(1, len(values)))(*(ctypes.addressof(x) for x in values))
    try:
        device.cuLaunchKernelEx(config, function, ctypes.addressof(pointers), 0)
    except EmulatorError as error:
        return str(error)
    return ""


def _parameter(slot: Slot, argument: Any) -> Any:
    """One parameter as C has it."""
    if slot.kind == "ptr":
        return ctypes.c_void_p(argument.ctypes.data)
    if slot.kind in ("shape", "stride"):
        found = argument.shape[slot.mode] if slot.kind == "shape" else argument.strides[slot.mode] // argument.itemsize
        return _CTYPES[slot.format](found)
    if slot.format == "e":
        argument = np.float16(argument).view(np.uint16)
    if slot.format == "H" and isinstance(argument, float):      # bfloat16
        argument = np.array(argument, ml_dtypes.bfloat16).view(np.uint16)
    return _CTYPES[slot.format](argument)
