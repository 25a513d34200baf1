"""The process that a source runs in.  ``serve`` forks one child for each source, so that moye is imported once.

In: over sockets, sources and cases (``judging.py``).  Out: reports and arrays.

A child limits what it may use, and lets a ``Submission`` answer.  Whenever code of the source has run, it looks whether
that has changed what judges it.
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import resource
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from moye.runtime import simulate
from moye.testing import tampering
from moye.testing.submission import Ended, Submission
from moye.testing.wire import receive, send

_LOADED = ("moye.sim.machine.machine", "moye.sim.costs.table", "moye.sim.costs.advice", "moye.sim.timeline.view",
           "moye.sim.generate.program", "moye.runtime.kernel", "moye.runtime.check.check", "moye.pipelines",
           "moye.schedulers", "moye.mma", "moye.kernels", "moye.runtime.tma_arguments", "moye.lang.collectives")


def serve(number: int) -> None:
    """Fork a child for each socket that comes; tell how it ended.  Until the other end is closed."""
    control = socket.socket(fileno=number)
    for name in _LOADED:
        importlib.import_module(name)
    _first_launch()
    sys.addaudithook = _no_hook
    tampering.adopt()
    untouched = tampering.Snapshot()
    gc.freeze()
    while True:
        told, numbers, _, _ = socket.recv_fds(control, 1, 2)
        if not told:
            return
        if (child := os.fork()) == 0:
            control.close()
            _child(socket.socket(fileno=numbers[0]), numbers[1], untouched)
        for one in numbers:
            os.close(one)
        _, status = os.waitpid(child, 0)
        tampering.end_children()
        try:
            control.sendall(f"{status}\n".encode())
        except OSError:                                 # nobody listens any longer
            return


def _first_launch() -> None:
    """Imports what a launch imports, so that children need not."""
    from moye.lang.builtins import thread_idx
    from moye.runtime.kernel import kernel

    @kernel
    def filled(out: Any) -> None:
        out[thread_idx().x] = 0

    filled[1, 32](np.zeros(32, np.float32))


def _no_hook(hook: object) -> None:
    raise Ended("tampering", "it asks for an audit hook, which would run beside the judge")


def _child(end: socket.socket, output: int, untouched: tampering.Snapshot) -> None:
    code = 0
    try:
        os.setsid()
        tampering.adopt()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number in (1, 2):
            os.dup2(output, number)
        send(end, {"pid": os.getpid()})
        _Child(end, untouched).run()
    except EOFError:
        pass
    except BaseException:
        traceback.print_exc()
        code = 70
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class _Child:
    """Judges one source, as the messages ask."""

    def __init__(self, end: socket.socket, untouched: tampering.Snapshot) -> None:
        self.end, self.untouched = end, untouched

    def run(self) -> None:
        """Answer until the other end is closed."""
        head, pieces = receive(self.end)
        self._limit(head["limits"])
        os.chdir(Path(head["path"]).parent)
        submission = Submission(self._own)
        while True:
            send(self.end, *submission.answer(head, pieces))
            head, pieces = receive(self.end)

    @staticmethod
    def _limit(limits: dict[str, int]) -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (limits["cpu"], limits["cpu"] + 1))
        resource.setrlimit(resource.RLIMIT_AS, (limits["memory"], limits["memory"]))

    def _own(self) -> None:
        """Ended if the source changed what judges it; what it may change is as it was."""
        if (said := self.untouched.changed()) is not None:
            raise Ended("tampering", said)
        self.untouched.restore()
        gc.collect()                                    # whatever it wants to do as it dies, it does now
        gc.disable()
        simulate.set_progress(None)
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), write_through=True)
        for name in [name for name in os.environ if name.startswith("MOYE_")]:
            del os.environ[name]
