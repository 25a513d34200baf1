"""The disk cache under many processes that compile one kernel at once, and under kills in the middle of a put."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from moye.runtime.cache import DiskCache, cache_key

COMPILE = """
import sys
import moye as mo

@mo.kernel
def scale(x, y):
    i = mo.block_idx().x * 64 + mo.thread_idx().x
    y[i] = x[i] * 2.0

like = mo.TensorLike(mo.float32, (1024,))
sys.stdin.readline()
print(len(scale.compile(like, like, block=64, arch="sm_90a").cubin))
"""


def spawn(code, *args, env=None):
    return subprocess.Popen([sys.executable, "-c", code, *map(str, args)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})


@pytest.mark.slow
def test_six_processes_compile_one_kernel_at_once(tmp_path):
    script, root = tmp_path / "script.py", tmp_path / "cache"
    script.write_text(COMPILE)                          # a kernel needs its source, and -c has none
    run = f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    processes = [spawn(run, env={"MOYE_CACHE_DIR": str(root)}) for _ in range(6)]
    for process in processes:                           # all are waiting, or will find the line in their pipe
        process.stdin.write("go\n")
        process.stdin.flush()
    sizes = {process.communicate(timeout=240)[0].strip() for process in processes}
    assert len(sizes) == 1 and all(process.returncode == 0 for process in processes)
    cache = DiskCache(root)
    entry, = cache.entries()
    assert len(cache.get(entry.key)) == int(sizes.pop())
    note, = DiskCache(root / "compilers").entries()     # which NVRTC it was
    assert {path for path in root.rglob("*") if path.is_file()} == {
        cache._path(entry.key), DiskCache(root / "compilers")._path(note.key)}


PUT_FOREVER = """
import itertools, sys
from moye.runtime.cache import DiskCache
cache, key = DiskCache(sys.argv[1]), sys.argv[2]
print("started", flush=True)
for i in itertools.count():
    cache.put(key, bytes([i % 256]) * 4_000_000, {"letter": i % 256})
"""


@pytest.mark.slow
def test_a_kill_in_the_middle_of_a_put_leaves_no_bad_entry(tmp_path):
    cache, key = DiskCache(tmp_path), cache_key("killed", [], "")
    aside = 0
    for attempt in range(8):
        process = spawn(PUT_FOREVER, tmp_path, key)
        process.stdout.readline()
        time.sleep(0.013 * (attempt + 1))
        process.send_signal(signal.SIGKILL)
        process.wait()
        aside = len(list(tmp_path.rglob("*.tmp")))
        found = cache.get_entry(key)
        assert found is None or found[0] == bytes([found[1]["letter"]]) * 4_000_000
    assert cache.put(key, b"whole", {"letter": 0})
    assert cache.get(key) == b"whole"
    assert {entry.key for entry in cache.entries()} == {key}
    cache.clear()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()], f"{aside} files aside are not cleared"


KILL_AT = """
import os, signal, sys
from moye.runtime import cache
real = getattr(os, sys.argv[3])
def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(os, sys.argv[3], die)
cache.DiskCache(sys.argv[1]).put(sys.argv[2], b"new" * 100000)
"""


def test_a_kill_just_before_the_rename_keeps_the_old_entry(tmp_path):
    cache, key = DiskCache(tmp_path), cache_key("killed", [], "")
    cache.put(key, b"old")
    for moment in ("replace", "fdopen"):
        process = spawn(KILL_AT, tmp_path, key, moment)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        assert cache.get(key) == b"old"
    assert len(cache.entries()) == 1
