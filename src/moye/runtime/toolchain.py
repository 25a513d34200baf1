"""Which NVRTC compiles here, for cache keys; its 100 MB are not loaded if an earlier process noted the version.

In: the root of the disk cache.  Out: versions to look a kernel up under.

>>> next(versions(env.cache_dir()))
'nvrtc-13.0+109338064'

The note is for one environment and one library file.  If it does not fit, or has no such kernel, NVRTC is asked.  So
what is compiled is always kept under the version of the library that compiled it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from moye.cuda.compiler import nvrtc
from moye.runtime.cache import DiskCache, cache_key

_FOLDER = "compilers"
_VARIABLES = ("LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX")


def versions(root: Path) -> Iterator[str]:
    """The noted version, if there is one; then, if it differs, that of the library itself, which is loaded for this."""
    noted = remembered(root)
    if noted is not None:
        yield noted
    actual = nvrtc.compiler_version()
    if actual != noted:
        remember(root, actual)
        yield actual


def remembered(root: Path) -> str | None:
    """The version noted for this environment, if its library is as it was and no other is loaded already."""
    found = DiskCache(root, _FOLDER).get_entry(_environment())
    if found is None:
        return None
    version, record = found[0].decode(errors="replace"), found[1]
    library = str(record.get("library", ""))
    return version if _state(library) == record.get("state") and not _loaded(library) else None


def remember(root: Path, version: str) -> None:
    """Note the version of the library in use; do nothing if its file is not known."""
    library = nvrtc.library_path()
    if (state := _state(library)) is not None:
        DiskCache(root, _FOLDER).put(_environment(), version.encode(), {"library": library, "state": state})


def _environment() -> str:
    """A digest of what decides which library is found."""
    parts = [sys.prefix, *(f"{name}={os.environ.get(name)}" for name in _VARIABLES)]
    for path in (os.path.join(folder, package) for folder in sys.path for package in ("nvidia", "cuda/bindings")):
        if (state := _state(path)) is not None:
            parts.append(f"{path} {state}")
    return cache_key("NVRTC", parts, "")


def _state(path: str) -> list[int] | None:
    """Size and time of change of a file or folder; None if there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError, MemoryError):
        return None
    return [status.st_size, status.st_mtime_ns]


def _loaded(library: str) -> bool:
    """Whether a library of this name is already in the process: it is the one that would be used."""
    try:
        ctypes.CDLL(os.path.basename(library), mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except (OSError, ValueError, MemoryError):
        return False
    return True
