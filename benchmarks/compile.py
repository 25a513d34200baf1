"""Cold compile of the double-buffered matmul: trace + print + NVRTC, each time in a fresh process with empty caches.

A literal of the kernel differs in each process, as NVRTC and the driver cache by content; the disk cache is off and
NVRTC gets --no-cache.  Imports are excluded, loading the NVRTC library is not.

    python benchmarks/compile.py [runs] [arch]
"""

import importlib
import json
import linecache
import os
import secrets
import statistics
import subprocess
import sys
import time
import types
from pathlib import Path

import moye as mo

EXAMPLE = Path(__file__).parents[1] / "examples" / "09_matmul_double_buffered.py"
PHASES = ("trace", "print", "nvrtc", "total")


def varied(literal):
    """The example's module, its accumulators filled with ``literal``."""
    text = EXAMPLE.read_text().replace("tCrC.fill(0)", f"tCrC.fill({literal})")
    name = f"<matmul filled with {literal}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    module = types.ModuleType("varied")
    module.__file__ = str(EXAMPLE)
    exec(compile(text, name, "exec"), module.__dict__)
    return module


def measure(arch):
    """Seconds of each phase in this process, and the compiled kernel's registers and spills."""
    example = varied(f"{secrets.randbelow(10**9)}e-12")
    for name in ("moye.cuda.nvrtc", "moye.cuda.printer", "moye.lang.builtins", "moye.runtime.cache",
                 "cuda.bindings.nvrtc"):
        importlib.import_module(name)

    matrix = mo.TensorLike(mo.float32, (2048, 256))
    args = (matrix, example.S_LAYOUT, example.COPY, matrix, example.S_LAYOUT, example.COPY,
            mo.TensorLike(mo.float32, (2048, 2048)), example.MMA)
    start = time.perf_counter()
    example.matmul_kernel.trace(*args, block=mo.size(example.MMA))
    traced = time.perf_counter()
    program = example.matmul_kernel.compile(*args, block=mo.size(example.MMA), arch=arch)
    done = time.perf_counter()
    nvrtc_seconds = program.compiled.seconds
    return {"trace": traced - start, "print": done - traced - nvrtc_seconds, "nvrtc": nvrtc_seconds,
            "total": done - start, "registers": program.registers, "spills": program.spills}


def main(runs=5, arch="sm_90a"):
    environment = {**os.environ, "MOYE_DISK_CACHE": "0", "MOYE_NVRTC_NO_CACHE": "1"}
    results = []
    for _ in range(runs):
        command = [sys.executable, __file__, "--child", arch]
        results.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout))
    print(f"cold compile of the double-buffered matmul for {arch}, {os.cpu_count()} cores, median of {runs} processes")
    for phase in PHASES:
        times = [result[phase] * 1000 for result in results]
        print(f"  {phase:6} {statistics.median(times):7.1f} ms ({min(times):.1f} .. {max(times):.1f})")
    print(f"  {results[0]['registers']} registers, {results[0]['spills']} bytes spilled")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(measure(sys.argv[2])))
    else:
        main(*map(int, sys.argv[1:2]), *sys.argv[2:3])
