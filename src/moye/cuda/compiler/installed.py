"""Where installed programs and packages lie: never the current directory, where anybody's files may be.

In: nothing.  Out: folders of ``sys.path`` and ``PATH`` other than the one that a program was started in.

    program("nvdisasm", "nvidia/cu*/bin")      # PosixPath('/usr/lib/python3/site-packages/nvidia/cu13/bin/nvdisasm')
"""

from __future__ import annotations

import os
import shutil
import site
import sys
from pathlib import Path


def folders(*, moye: bool = False) -> list[str]:
    """The folders that packages are installed in, as ``sys.path`` has them; with ``moye`` that of moye too."""
    own = str(Path(os.path.abspath(__file__)).parents[3])
    installed = {os.path.realpath(path) for path in (*site.getsitepackages(), site.getusersitepackages())}
    here = _here()
    found = [path for path in sys.path if os.path.isabs(path)
             and (os.path.realpath(path) != here or os.path.realpath(path) in installed)]
    return [*found, own] if moye and own not in found else found


def on_path(program: str) -> Path | None:
    """A program of PATH, of its absolute folders."""
    here = _here()
    places = [place for place in os.environ.get("PATH", os.defpath).split(os.pathsep)
              if os.path.isabs(place) and os.path.realpath(place) != here]
    found = shutil.which(program, path=os.pathsep.join(places)) if places else None
    return Path(found) if found and os.path.isabs(found) else None


def program(name: str, wheel: str) -> Path | None:
    """A program: of NVIDIA's wheel first, then of PATH, the CUDA toolkit, triton's wheel."""
    wheels = [path for root in folders() for path in sorted(Path(root).glob(f"{wheel}/{name}"), reverse=True)]
    toolkit = Path(os.environ.get("CUDA_HOME", "")) / "bin" / name
    others = [toolkit, Path("/usr/local/cuda/bin") / name,
              *(Path(root) / "triton/backends/nvidia/bin" / name for root in folders())]
    known = on_path(name)
    for path in [*wheels, *([known] if known is not None else []), *others]:
        if path.is_absolute() and path.is_file() and os.access(path, os.X_OK):
            return path
    return None


def _here() -> str:
    try:
        return os.path.realpath(os.getcwd())
    except OSError:                                     # it was removed
        return ""
