"""Failures put in at every call of the operating system, of memory and of the compiler that cache and runtime make.

In: a scenario (a function that compiles, tunes or lists with a disk cache) and a plan of which calls fail, how.
Out: ``Fault``s: a wrong answer, an internal error, a hang, or a cache that is damaged afterwards.

By hand, longer: ``python tests/fuzz/failures.py SEED RUNS``.
"""

from __future__ import annotations

import builtins
import errno
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import moye as mo
from moye import cli
from moye.cuda.compiler import nvrtc
from moye.errors import MoyeError
from moye.runtime import cache as caches
from moye.runtime import compile as compiling
from moye.runtime import disk, toolchain
from moye.runtime.cache import DiskCache
from moye.runtime.tuning.trials import Config, Trial, TrialStore

SECONDS = 5.0
ERRORS = (errno.ENOSPC, errno.EACCES, errno.EIO, errno.EROFS, errno.ENOENT, errno.EMFILE, errno.ESTALE, errno.EINTR,
          errno.ENOTDIR, errno.EDQUOT)
_OURS = (compiling.__file__, nvrtc.__file__, disk.__file__, toolchain.__file__, caches.__file__, cli.__file__)
_OS = ("open", "fstat", "utime", "close", "lstat", "stat", "chmod", "mkdir", "listdir", "replace", "unlink", "fdopen")


class KilledError(BaseException):
    """The process ends here: nothing behind it runs, but for what ``finally`` would not undo anyway."""


@dataclass(slots=True)
class Fault:
    scenario: str
    plan: str
    what: str

    def __str__(self) -> str:
        return f"{self.scenario}, {self.plan}: {self.what}"


@dataclass(slots=True)
class Injector:
    """Counts the calls that moye makes, and lets those of the plan fail."""

    plan: Callable[[int, str], BaseException | str | None]
    calls: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            site = _site()
            if site is None:
                return function(*args, **kwargs)
            failure = self.plan(len(self.calls), name)
            self.calls.append(f"{name} at {site}")
            if failure is None:
                return function(*args, **kwargs)
            self.failed.append(f"{failure!r} from {name} at {site}")
            if isinstance(failure, BaseException):
                if name in ("close", "fdopen"):         # the handle is gone all the same
                    with suppress(OSError):
                        os_close(args[0])
                raise failure
            return _spoilt(name, failure, function, args, kwargs)
        return called


os_close = os.close


def _site() -> str | None:
    """Where moye called, None where it was somebody else."""
    frame, depth = sys._getframe(2), 0
    while frame is not None and depth < 8:
        if frame.f_code.co_filename in _OURS:
            return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        frame, depth = frame.f_back, depth + 1          # type: ignore[assignment]
    return None


def _spoilt(name: str, how: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A result that is not what it should be."""
    found = function(*args, **kwargs)
    if name == "fdopen":                                # half of it reaches the disk
        return _HalfFile(found)
    if name == "listdir":
        return [*found, "00", "zz", "\udcff"]
    if name.startswith("nvrtcGet") and not name.endswith("Size") and len(args) > 1:
        data = args[1]
        if how == "short":
            data[len(data) // 2:] = bytes(len(data) - len(data) // 2)
        else:
            data[:] = bytes(byte ^ 0xFF for byte in data)
    return found


class _HalfFile:
    """A file on a disk that is full half way."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def __enter__(self) -> _HalfFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def write(self, data: bytes) -> int:
        self.file.write(data[:len(data) // 2])
        self.file.flush()
        raise OSError(errno.ENOSPC, "No space left on device")


# --- the compiler ----------------------------------------------------------------------------------------------------


class Compiler:
    """NVRTC as far as moye calls it, with an answer that the real one gave for each source."""

    def __init__(self) -> None:
        self.images: dict[bytes, tuple[bytes, bytes]] = {}

    def learn(self, source: str, image: bytes, log: str) -> None:
        self.images[source.encode()] = image, log.encode()

    def module(self) -> SimpleNamespace:
        ok = SimpleNamespace(nvrtcVersion=lambda: (0, 13, 0), nvrtcCreateProgram=lambda source, *_: (0, source),
                             nvrtcCompileProgram=lambda program, *_: (0,), nvrtcDestroyProgram=lambda program: (0,))
        for what, index in (("CUBIN", 0), ("ProgramLog", 1)):
            setattr(ok, f"nvrtcGet{what}Size", lambda program, index=index: (0, len(self.images[program][index])))
            setattr(ok, f"nvrtcGet{what}", lambda program, buffer, index=index: self._give(program, buffer, index))
        return ok

    def _give(self, program: bytes, buffer: bytearray, index: int) -> tuple[int]:
        buffer[:] = self.images[program][index]
        return 0,


COMPILER = Compiler()
LIKE = mo.TensorLike(mo.float32, (64,))


def doubled(x):
    x[mo.thread_idx().x] = x[mo.thread_idx().x] * 2.0


def shifted(x):
    x[mo.thread_idx().x] = x[mo.thread_idx().x] + 1.0


EXPECTED: list[tuple[Any, bytes, int]] = []


def prepare() -> None:
    """What the real compiler answers, once."""
    if EXPECTED:
        return
    with mock.patch.dict(os.environ, {"MOYE_DISK_CACHE": "0"}):
        for function in (doubled, shifted):
            program = mo.kernel(function).compile(LIKE, block=64, arch="sm_80")
            COMPILER.learn(program.source, program.cubin, program.compiled.log)
            EXPECTED.append((program.printed, program.cubin, program.registers))


# --- scenarios -------------------------------------------------------------------------------------------------------


def compiled() -> None:
    """Printed kernels through the cache or the compiler: the station that the failures are about."""
    for printed, cubin, registers in EXPECTED:
        program = compiling._compiled(printed, "sm_80", ())
        assert (program.cubin, program.registers) == (cubin, registers), "another program"


def tuned() -> None:
    store, config = TrialStore(doubled, "key", "device"), Config(n=1)
    store.save([Trial(config, 2.0)])
    assert store.load([config]) in ({}, {config: Trial(config, 2.0)}), "other trials"


def listed() -> None:
    cli.cache_ls()
    cli.cache_clear()


def bounded() -> None:
    with mock.patch.dict(os.environ, {"MOYE_CACHE_LIMIT": "3K"}):
        caches._room.clear()
        compiled()
        compiled()


def cold_and_warm() -> None:
    compiled()
    compiled()


SCENARIOS: dict[str, tuple[bool, Callable[[], None]]] = {
    "cold": (False, compiled), "warm": (True, compiled), "twice": (False, cold_and_warm), "trials": (True, tuned),
    "listed": (True, listed), "bounded": (True, bounded)}
"""By name: whether the cache is filled before, and what is done."""


@contextmanager
def world(root: Path) -> Iterator[None]:
    """A cache of its own and the compiler that answers from memory."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, {"MOYE_CACHE_DIR": str(root)}))
        stack.enter_context(mock.patch.object(nvrtc, "_nvrtc", COMPILER.module))
        stack.enter_context(mock.patch.object(nvrtc, "library_path", lambda: __file__))
        stack.enter_context(mock.patch.object(disk, "_said", set()))
        stack.enter_context(redirect_stderr(StringIO()))
        stack.enter_context(redirect_stdout(StringIO()))
        nvrtc.compiler_version.cache_clear()
        caches._room.clear()
        try:
            yield
        finally:
            nvrtc.compiler_version.cache_clear()


@contextmanager
def injected(injector: Injector) -> Iterator[None]:
    with ExitStack() as stack:
        for name in _OS:
            stack.enter_context(mock.patch.object(os, name, injector.around(name, getattr(os, name))))
        for owner, name in ((tempfile, "mkstemp"), (builtins, "open"), (disk.fcntl, "flock"), (os.path, "getsize")):
            stack.enter_context(mock.patch.object(owner, name, injector.around(name, getattr(owner, name))))
        module = COMPILER.module()
        for name, function in vars(module).items():
            setattr(module, name, injector.around(name, function))
        stack.enter_context(mock.patch.object(nvrtc, "_nvrtc", lambda: module))
        yield


def run(name: str, plan: Callable[[int, str], BaseException | str | None],
        root: Path) -> tuple[Injector, list[Fault]]:
    """One scenario with the failures of a plan, and then without: what was wrong."""
    filled, scenario = SCENARIOS[name]
    shutil.rmtree(root, ignore_errors=True)
    injector, faults = Injector(plan), []

    def fault(what: str) -> None:
        faults.append(Fault(name, "; ".join(injector.failed) or "no failure", what))

    with world(root):
        if filled:
            compiled()
            tuned()
        start = time.monotonic()
        try:
            with injected(injector):
                scenario()
        except (MoyeError, KilledError):
            pass
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            fault(f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})")
        if time.monotonic() - start > SECONDS:
            fault(f"it took {time.monotonic() - start:.1f} s")
        try:
            compiled()
            compiled()
            tuned()
            listed()
        except BaseException as error:
            fault(f"afterwards: {type(error).__name__}: {error}")
        if any(entry for entry in DiskCache(root).entries() if not DiskCache(root).record(entry.key)):
            fault("an entry that is no entry is left")
    return injector, faults


def failures(name: str) -> list[BaseException | str]:
    """How a call can fail."""
    if name.startswith("nvrtc"):
        ways: list[BaseException | str] = [RuntimeError("the library went away"), MemoryError(),
                                           OSError(errno.EIO, "I/O error")]
        return [*ways, "short", "garbage"] if name in ("nvrtcGetCUBIN", "nvrtcGetProgramLog") else ways
    ways = [OSError(number, os.strerror(number)) for number in ERRORS]
    if name in ("open", "fdopen", "mkstemp", "listdir"):
        ways.append(MemoryError())
    return [*ways, KilledError()] + (["half"] if name in ("fdopen", "listdir") else [])


def one_by_one(name: str, root: Path, rng: random.Random, most: int | None = None) -> Iterator[Fault]:
    """Each call of a scenario fails once, in every way; at most so many of them."""
    first, faults = run(name, lambda at, call: None, root)
    yield from faults
    assert len(first.calls) > 5, "it makes calls"
    every = [(at, told, failure) for at, told in enumerate(first.calls) for failure in failures(told.split(" at ")[0])]
    chosen = every if most is None or most >= len(every) else rng.sample(every, most)
    for at, told, failure in chosen:
        injector, faults = run(name, lambda n, call, at=at, failure=failure: failure if n == at else None, root)
        yield from faults
        if not injector.failed:
            yield Fault(name, told, "the call was not made again: the scenario is not the same twice")


def drawn(name: str, root: Path, rng: random.Random, runs: int) -> Iterator[Fault]:
    """Each call fails with a chance: several in one run, and for good from some call on."""
    for _ in range(runs):
        chance, for_good = rng.choice([0.05, 0.2, 0.5, 1.0]), rng.random() < 0.3
        begin = rng.randrange(60)

        def plan(at: int, call: str, chance: float = chance, for_good: bool = for_good,
                 begin: int = begin) -> BaseException | str | None:
            if for_good:
                return None if at < begin or call.startswith("nvrtc") else OSError(errno.ENOSPC, "disk full")
            return rng.choice(failures(call)) if rng.random() < chance else None

        yield from run(name, plan, root)[1]


def main(seed: int, runs: int) -> None:
    prepare()
    rng, root = random.Random(seed), Path(tempfile.mkdtemp()) / "cache"
    for name in SCENARIOS:
        for fault in (*one_by_one(name, root, rng), *drawn(name, root, rng, runs)):
            print(fault)
        print(f"{name}: done")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))


__all__ = ["EXPECTED", "SCENARIOS", "Fault", "drawn", "one_by_one", "prepare"]
