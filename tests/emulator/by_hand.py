"""PTX written by hand, run on an array: for what the emulator finds that moye's kernels do not do.

In: a text, a kernel's name, an array whose address is the one parameter.  Out: nothing, or ``EmulatorError``.

    run(ptx, "k", np.zeros(32, np.uint32), threads=64)
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from emulator import build
from emulator.device import Arrays, Config, Device, Function
from moye.cuda.compiler import cubin as cubins


def run(ptx: str, name: str, array: Any, *, threads: int = 32, blocks: int = 1, shared: int = 0, seed: int = 0) -> None:
    """One launch of blocks along x."""
    seen = Arrays()
    seen.note(array, array.ctypes.data, array.ctypes.data + array.nbytes, True)
    device = Device(seed=seed, multiprocessors=4, arrays=seen)
    kept = Path(build.folder()) / "by_hand.ptx"
    kept.write_text(ptx)
    function = Function(name, build.build(ptx), cubins.KernelInfo(name, registers=32), kept)
    config = Config()
    config.gridDimX, config.gridDimY, config.gridDimZ = blocks, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
    config.sharedMemBytes = shared
    pointer = ctypes.c_uint64(array.ctypes.data)
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
    device.cuLaunchKernelEx(config, function, ctypes.addressof(pointers), 0)
