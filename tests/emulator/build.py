"""Shared libraries from C++, kept by what they are made of.

In: PTX.  Out: ``Library``: its kernels as functions of the machine, ready to run.  BuildError if g++ refuses.

    library = build(ptx); library.function("axpy"), library.facts("axpy")

Libraries are kept in ``$MOYE_EMULATOR_CACHE``, by default in the folder for temporary files.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from emulator.translate import Facts, Translated, translate

HERE = Path(__file__).parent
_FLAGS = ("-std=c++20", "-O1", "-fPIC", "-shared", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing",
          "-frounding-math", "-w", f"-I{HERE}")
_WIDE = ("-mfma", "-mf16c", "-mavx2")
_SOURCES = ("scheduler.cpp", "meetings.cpp", "memory.cpp", "products.cpp", "bulk.cpp")


class BuildError(Exception):
    """What g++ says of a translated kernel."""


def compiler() -> str | None:
    """g++ on a machine whose fibers are known: x86-64."""
    return shutil.which("g++") if platform.machine() == "x86_64" else None


@functools.cache
def _flags() -> tuple[str, ...]:
    known = Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""
    return _FLAGS + (_WIDE if " fma " in known and " f16c " in known and " avx2 " in known else ())


@functools.cache
def _runtime_digest() -> str:
    digest = hashlib.sha256(" ".join(_flags()).encode())
    for path in sorted([*HERE.glob("*.hpp"), *HERE.glob("*.cpp")]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def folder() -> Path:
    root = os.environ.get("MOYE_EMULATOR_CACHE") or os.path.join(tempfile.gettempdir(), f"moye-emulator-{os.getuid()}")
    folder = Path(root) / _runtime_digest()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _compile(target: Path, sources: list[str], more: tuple[str, ...] = ()) -> None:
    """Compile, and put the library there in one step, because others may want it at the same time."""
    made = target.with_suffix(f".{os.getpid()}.tmp")
    done = subprocess.run(["g++", *_flags(), *more, *sources, "-o", str(made)], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise BuildError(f"g++ refuses {sources[0]}:\n{done.stderr[:4000]}")
    made.replace(target)


@functools.cache
def machine() -> ctypes.CDLL:
    """The machine that runs kernels; kernels find its functions by name."""
    target = folder() / "machine.so"
    if not target.exists():
        _compile(target, [str(HERE / name) for name in _SOURCES], ("-O2",))
    return ctypes.CDLL(str(target), mode=ctypes.RTLD_GLOBAL)


@dataclass(slots=True)
class Library:
    """The kernels of one text of PTX."""

    loaded: ctypes.CDLL
    translated: Translated

    def function(self, name: str) -> int:
        address = ctypes.cast(getattr(self.loaded, f"run_{name}"), ctypes.c_void_p).value
        assert address is not None, "a function has an address"
        return address

    def facts(self, name: str) -> Facts:
        return self.translated.kernels[name]

    def variables(self) -> list[tuple[int, int]]:
        """Address and size of each variable of the module."""
        found = []
        for name, size in self.translated.variables.items():
            at = getattr(self.loaded, "at_v_" + name.replace("$", "S"))
            at.restype = ctypes.c_void_p
            found.append((int(at()), size))
        return found


@functools.lru_cache(4096)
def build(ptx: str) -> Library:
    """Translate, compile (once for each text) and load."""
    machine()
    translated = translate(ptx)
    digest = hashlib.sha256(translated.source.encode()).hexdigest()[:24]
    target = folder() / f"{digest}.so"
    if not target.exists():
        source = target.with_suffix(f".{os.getpid()}.cpp")
        source.write_text(translated.source)
        _compile(target, [str(source)])
        source.replace(target.with_suffix(".cpp"))
    return Library(ctypes.CDLL(str(target)), translated)
