"""One table of every environment variable that moye reads: name, type, default, help; and a typed getter for each.

In: the process environment, read anew by each call.  Out: ``bool``, ``frozenset``, ``Path`` or ``str``.

    check(), show()          # MOYE_CHECK=bounds,races MOYE_SHOW=cuda
    # (frozenset({'bounds', 'races'}), frozenset({'cuda'}))

A bad value raises MoyeError with one sentence.  It does not know which checkers exist: the simulator judges the names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from moye.errors import MoyeError

STATIONS = ("ast", "ir", "cuda")
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Variable:
    """One row of the table; ``default`` is spelled as a user would spell the value."""

    name: str
    type: str
    default: str
    help: str

    def raw(self) -> str:
        """The text in force: the environment's, or the default where it is unset or empty."""
        return os.environ.get(self.name, "").strip() or self.default

    def bad(self, expected: str) -> MoyeError:
        return MoyeError(f"{self.name}={self.raw()} is not {expected}")


CHECK = Variable("MOYE_CHECK", "0, 1 or names", "1",
                 "checks of a simulated run: 1 all, 0 none, or a comma list (races, align, ..., all, D3), with which "
                 "launches on CUDA arrays run in the simulator too")
SHOW = Variable("MOYE_SHOW", "names", "", f"print each kernel at these stations: a comma list of {', '.join(STATIONS)}")
CACHE_DIR = Variable("MOYE_CACHE_DIR", "path", "", "where compiled kernels are kept; else $XDG_CACHE_HOME/moye")
CACHE_LIMIT = Variable("MOYE_CACHE_LIMIT", "size", "2G", "how much is kept on disk, in bytes or as 500M: what was used "
                       "longest ago goes first; 0 for no limit")
DISK_CACHE = Variable("MOYE_DISK_CACHE", "bool", "1", "keep compiled kernels on disk")
ARCH = Variable("MOYE_ARCH", "arch", "", "compile for this architecture, such as sm_90a, whatever the device is")
ASSERT = Variable("MOYE_ASSERT", "bool", "0", "print assumptions about dynamic values as device asserts")
LINEINFO = Variable("MOYE_LINEINFO", "bool", "0", "print #line directives and compile with -lineinfo, for profilers")
FMA = Variable("MOYE_FMA", "fast or exact", "fast",
               "how the simulator's gemm rounds a * b + c: exact once, as a GPU does; fast the product too")
STEPS = Variable("MOYE_STEPS", "number", "100000",
                 "passes after which the simulator takes a loop for endless; 0 for no limit")
TRACEBACK = Variable("MOYE_TRACEBACK", "bool", "0", "show moye's own frames in tracebacks, for work on moye itself")
NVRTC_NO_CACHE = Variable("MOYE_NVRTC_NO_CACHE", "bool", "0", "tell NVRTC not to use the driver's compile cache")

TABLE: tuple[Variable, ...] = (CHECK, SHOW, CACHE_DIR, CACHE_LIMIT, DISK_CACHE, FMA, STEPS, ARCH, ASSERT, LINEINFO,
                               TRACEBACK, NVRTC_NO_CACHE)


_ENVIRONMENT: Callable[[bytes], object] = getattr(os.environ, "_data", {}).get if os.name == "posix" else (
    lambda name: os.environ.get(name.decode()))
_OF_LAUNCHES = tuple(variable.name.encode() for variable in (CHECK, ARCH, ASSERT, LINEINFO))


def settings() -> tuple[object, ...]:
    """What decides which program a launch runs, unread: to see within 0.3 us whether any of it has changed."""
    a, b, c, d = _OF_LAUNCHES
    return _ENVIRONMENT(a), _ENVIRONMENT(b), _ENVIRONMENT(c), _ENVIRONMENT(d)


def _flag(variable: Variable) -> bool:
    text = variable.raw().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise variable.bad("a truth value: use 1 or 0")


def _names(variable: Variable) -> frozenset[str]:
    names = [name.strip() for name in variable.raw().split(",") if name.strip()]
    if not all(re.fullmatch(r"[A-Za-z][\w-]*", name) for name in names):
        raise variable.bad("a comma list of names")
    return frozenset(names)


def check() -> bool | frozenset[str]:
    """MOYE_CHECK: True for the basic checks, False for none, else the checkers named."""
    text = CHECK.raw().lower()
    return _flag(CHECK) if text in _TRUE | _FALSE else _names(CHECK)


def show() -> frozenset[str]:
    """MOYE_SHOW: the stations at which every kernel is printed."""
    names = _names(SHOW)
    if not names <= set(STATIONS):
        raise SHOW.bad(f"a comma list of {', '.join(STATIONS)}")
    return names


def exact_fma() -> bool:
    """MOYE_FMA: whether a multiply-add of the simulator's gemm rounds once."""
    text = FMA.raw().lower()
    if text not in ("fast", "exact"):
        raise FMA.bad("fast or exact")
    return text == "exact"


def steps() -> float:
    """MOYE_STEPS: passes after which a loop without a given number of them counts as endless; infinity for 0."""
    text = STEPS.raw().replace("_", "")
    if not text.isdecimal():
        raise STEPS.bad("a number of passes, or 0 for no limit")
    return int(text) or float("inf")


def cache_dir() -> Path:
    """MOYE_CACHE_DIR: the root of the disk cache; it need not exist."""
    text, shared = CACHE_DIR.raw(), os.environ.get("XDG_CACHE_HOME", "")
    if not text and os.path.isabs(shared):              # a relative one is to be ignored, says its specification
        return Path(shared) / "moye"
    try:
        return Path(text).expanduser() if text else Path("~/.cache").expanduser() / "moye"
    except RuntimeError:                                # no HOME, and a user whom the system does not know
        raise MoyeError("the home folder of this user is not known, and so neither is the folder of the disk cache",
                        hint="set MOYE_CACHE_DIR to an absolute path") from None


def cache_limit() -> int:
    """MOYE_CACHE_LIMIT: the most bytes that the disk cache holds; 0 for no limit."""
    match = re.fullmatch(r"(\d{1,15})\s*([KMGT]?)(?:i?B)?", CACHE_LIMIT.raw(), re.IGNORECASE)
    if match is None:
        raise CACHE_LIMIT.bad("a size such as 500M or 2G")
    return int(match[1]) << 10 * " KMGT".index(match[2].upper() or " ")


def disk_cache() -> bool:
    """MOYE_DISK_CACHE: keep compiled kernels on disk."""
    return _flag(DISK_CACHE)


def arch() -> str | None:
    """MOYE_ARCH: the architecture to compile for, or None to ask the device."""
    text = ARCH.raw().lower()
    if text and not re.fullmatch(r"sm_\d{2,3}[af]?", text):
        raise ARCH.bad("an architecture such as sm_80 or sm_90a")
    return text or None


def device_assert() -> bool:
    """MOYE_ASSERT: print assumptions as device asserts."""
    return _flag(ASSERT)


def lineinfo() -> bool:
    """MOYE_LINEINFO: print #line directives and compile with -lineinfo."""
    return _flag(LINEINFO)


def nvrtc_no_cache() -> bool:
    """MOYE_NVRTC_NO_CACHE: pass --no-cache to NVRTC."""
    return _flag(NVRTC_NO_CACHE)


def traceback() -> bool:
    """MOYE_TRACEBACK: whether tracebacks keep moye's own frames."""
    return _flag(TRACEBACK)
