"""A process that compiles printed sources into the disk cache; it runs no user code, so any script can use it.

In (stdin, a line each): JSON with source, name, arch, flags, key, root.  Out: ``ok`` or ``failed`` for each.

    with Worker() as worker: worker.compile({"source": ..., "key": ...})      # True

It does not report why a source failed: the caller compiles it again and gets the error itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import TracebackType
from typing import Any

from moye.cuda.compiler import cubin, nvrtc
from moye.cuda.compiler.installed import folders
from moye.errors import MoyeError
from moye.runtime.cache import DiskCache


class Worker:
    """The parent's side of one such process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-P", "-m", __name__], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                         env={**os.environ, "PYTHONPATH": os.pathsep.join(folders(moye=True))})

    def compile(self, request: dict[str, Any]) -> bool:
        """Whether the compiled kernel is in the disk cache now."""
        assert self._process.stdin is not None and self._process.stdout is not None, "both are pipes"
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            return self._process.stdout.readline() == "ok\n"
        except OSError:
            return False

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if error is not None:
            self._process.kill()
        self._process.communicate()


def compile_request(request: dict[str, Any]) -> bool:
    """Compile one source and keep it."""
    try:
        compiled = nvrtc.compile_cubin(request["source"], request["name"], request["arch"],
                                       options=request["flags"], no_cache=request["no_cache"])
        cubin.parse(compiled.cubin)
    except MoyeError:
        return False
    record = {"log": compiled.log, "kernel": request["name"], "arch": request["arch"]}
    return DiskCache(request["root"]).put(request["key"], compiled.cubin, record)


if __name__ == "__main__":
    for line in sys.stdin:
        print("ok" if compile_request(json.loads(line)) else "failed", flush=True)
