"""Compile many kernels at once, in processes where possible.

In: Jobs that ``compile_only(trace_only=True)`` collected.  Out: every program compiled, and the errors of those that
failed.

    errors = precompile(jobs, lambda done: ...)

Processes compile printed sources into the disk cache, and this process loads them from there.  Without a disk cache,
threads of this process compile (NVRTC releases the GIL).  ``Progress`` shows how far it is.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any

from moye import env
from moye.errors import MoyeError
from moye.runtime.cache import cache_key, opened
from moye.runtime.prepare import Job
from moye.runtime.tuning.worker import Worker

_MOST_WORKERS = 16
_Key = tuple[int, str, bool]                            # of a kernel: specialisation, architecture, restrict


def precompile(jobs: Sequence[Job], done: Callable[[int], None], workers: int | None = None) -> dict[int, MoyeError]:
    """Compile all jobs; the error of each that failed, by ``id(job)``."""
    with Compiling(workers) as compiling:
        compiling.add(*jobs)
        return compiling.finish(done)


class Compiling:
    """Jobs that are compiled while more jobs are traced and added; a context manager, and leaving it ends the rest."""

    def __init__(self, workers: int | None = None) -> None:
        self._pool = ThreadPoolExecutor(min(workers or _cores(), _MOST_WORKERS))
        self._stack = ExitStack()
        self._crew = _Crew(self._stack)
        self._futures: dict[_Key, Future[None]] = {}
        self._jobs: list[Job] = []

    def __enter__(self) -> Compiling:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._pool.shutdown(cancel_futures=True)        # before the workers, which its threads talk to
        self._stack.__exit__(kind, error, trace)

    def add(self, *jobs: Job) -> None:
        """Begin to compile these jobs, each kernel once."""
        self._jobs += jobs
        for job in jobs:
            if (key := _key(job)) not in self._futures:
                self._futures[key] = self._pool.submit(self._crew.compile, job)

    def finish(self, done: Callable[[int], None]) -> dict[int, MoyeError]:
        """Wait for all jobs, and tell ``done`` how many are done; the error of each that failed, by ``id(job)``."""
        errors: dict[_Key, MoyeError] = {}
        keys = {future: key for key, future in self._futures.items()}
        for finished, future in enumerate(as_completed(keys), 1):
            error = future.exception()
            if isinstance(error, MoyeError):
                errors[keys[future]] = error
            elif error is not None:
                raise error
            done(finished)
        return {id(job): errors[key] for job in self._jobs if (key := _key(job)) in errors}


def _key(job: Job) -> _Key:
    return id(job.spec), job.arch, job.restrict


def _cores() -> int:
    """The number of cores that this process may use: a container's share, if there is one."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Crew:
    """One worker process for each thread that asks for one, as long as the stack is open."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack, self._own, self._lock = stack, threading.local(), threading.Lock()
        self._processes = opened() is not None and bool(sys.executable)

    def compile(self, job: Job) -> None:
        """Compile one job; if the worker cannot do it, this process does, and raises its errors."""
        if self._processes and not env.lineinfo() and (request := _request(job)) is not None:
            self._worker().compile(request)
        job.compile()

    def _worker(self) -> Worker:
        worker: Worker | None = getattr(self._own, "worker", None)
        if worker is None:
            with self._lock:
                worker = self._own.worker = self._stack.enter_context(Worker())
        return worker


def _request(job: Job) -> dict[str, Any] | None:
    """What a worker needs; None if the disk cache already has the kernel."""
    from moye.cuda.compiler import nvrtc
    from moye.cuda.printing.printer import print_kernel

    func = replace(job.spec.func, restrict=job.restrict)
    arch = nvrtc.normalize_arch(job.arch)
    printed = print_kernel(func, asserts=env.device_assert(), arch=arch)
    key, cache = cache_key(printed.source, (arch,), nvrtc.compiler_version()), opened()
    if cache is None or cache.get(key) is not None:
        return None
    return {"source": printed.source, "name": printed.name, "arch": arch, "flags": [], "key": key,
            "root": str(cache.root), "no_cache": env.nvrtc_no_cache()}


class Progress:
    """How far tuning is: a rich bar on a terminal that has rich, else one line on stderr."""

    def __init__(self, name: str, total: int, shown: bool = True) -> None:
        self._name, self._total, self._shown = name, total, shown
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        if self._shown and sys.stderr.isatty():
            try:
                rich = importlib.import_module("rich.progress")
                console = importlib.import_module("rich.console").Console(stderr=True)
            except ImportError:
                return self
            self._bar = rich.Progress(console=console, transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self._name, total=self._total)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self._shown:
            end = "\r\033[K" if sys.stderr.isatty() else ""
            print(f"{end}moye: tuned {self._name} over {self._total} configurations" if error is None else end,
                  file=sys.stderr)

    def show(self, stage: str, done: int) -> None:
        """Show that ``done`` of all configurations (or of their kernels) have passed this stage."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=f"{self._name}: {stage}")
        elif self._shown and sys.stderr.isatty():
            print(f"\r\033[Kmoye: {self._name}: {stage} {done}/{self._total}", end="", file=sys.stderr, flush=True)
