"""What a first launch pays: cold compile, and a kernel that is on disk; every figure from fresh processes.

For the double-buffered matmul and the fastest configuration of ``gemm_simt``.  Cold: trace, print and NVRTC with
--no-cache and no disk cache; a literal of the kernel differs in each process, as NVRTC and the driver cache by content.
Disk hit: another fresh process whose kernel the first one left on disk: trace and print, then what comes beyond them,
the look-up (key, reading, checking the digest) and, where there is a GPU, the driver's module load.  Imports are
excluded, loading the NVRTC library is not.

    python benchmarks/compile.py [processes] [arch]
"""

import importlib
import json
import linecache
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

import numpy as np

from moye.runtime.prepare import compile_only

ROOT = Path(__file__).parents[1]
SOURCES = {
    "double-buffered": (ROOT / "examples" / "09_matmul_double_buffered.py", "tCrC.fill(0)"),
    "gemm_simt": (Path(importlib.import_module("moye.kernels").__file__).with_name("gemm_simt.py"), "acc.fill(0)"),
}
SIZES = {"double-buffered": (2048, 2048, 256), "gemm_simt": (4096, 4096, 4096)}
IMPORTED = ("moye.cuda.nvrtc", "moye.cuda.printer", "moye.lang.builtins", "moye.runtime.cache",
            "moye.runtime.toolchain", "cuda.bindings.nvrtc", "cuda.bindings.driver", "moye.cuda.driver")
ROWS = (("cold", "trace", "trace"), ("cold", "print", "print"), ("cold", "nvrtc", "NVRTC"), ("cold", "rest", "rest"),
        ("cold", "total", "cold compile"), ("hit", "trace", "trace"), ("hit", "print", "print"),
        ("hit", "rest", "look-up"), ("hit", "load", "module load (driver)"))


# --- in a child process ----------------------------------------------------------------------------------------------


def varied(path, marker, literal):
    """The kernel's module, its accumulators filled with ``literal``."""
    text = path.read_text()
    if text.count(marker) != 1:
        sys.exit(f"{path} has {marker} {text.count(marker)} times, not once")
    text = text.replace(marker, marker.replace("0", literal))
    name = f"<{path.stem} filled with {literal}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    module = types.ModuleType("varied")
    module.__file__ = str(path)
    sys.modules["varied"] = module                      # dataclasses look their module up
    exec(compile(text, name, "exec"), module.__dict__)
    return module


def launch(name, module):
    """A launch on column-major arrays; within ``compile_only`` nothing runs, and their memory is never touched."""
    M, N, K = SIZES[name]
    A, B, C = (np.empty(shape, np.float32, order="F") for shape in ((M, K), (N, K), (M, N)))
    if name == "gemm_simt":
        module.gemm_simt(A, B, C)
    else:
        module.matmul(A, B, C)


def measure(name, literal, arch):
    """Seconds of each phase in this process, and what came out."""
    module = varied(*SOURCES[name], literal)
    for needed in IMPORTED:
        importlib.import_module(needed)
    printer, printing = importlib.import_module("moye.cuda.printer"), []
    inner = printer.print_kernel

    def timed(*args, **kwargs):
        start = time.perf_counter()
        printed = inner(*args, **kwargs)
        printing.append(time.perf_counter() - start)
        return printed
    printer.print_kernel = timed

    start = time.perf_counter()
    with compile_only(arch, trace_only=True) as gathered:
        launch(name, module)
    traced = time.perf_counter()
    job, = gathered.jobs
    program = job.compile()
    done = time.perf_counter()
    nvrtc = program.compiled.seconds
    phases = {"trace": traced - start, "print": sum(printing), "nvrtc": nvrtc,
              "rest": done - traced - sum(printing) - nvrtc, "total": done - start}
    if (seconds := load_seconds(program)) is not None:
        phases["load"] = seconds
    return {**phases, "registers": program.registers, "spills": program.spills, "bytes": len(program.cubin)}


def load_seconds(program):
    """Loading the module on GPU 0, whose context exists by then; None where there is no GPU of the architecture."""
    from moye.cuda import driver
    from moye.runtime.launch import load
    if not driver.available() or driver.device_arch(0) != program.arch:
        return None
    with driver.current_device(0):
        driver.synchronize(0)
        start = time.perf_counter()
        load(program, 0)
        return time.perf_counter() - start


# --- in the parent ---------------------------------------------------------------------------------------------------


def child(name, literal, arch, **environment):
    command = [sys.executable, __file__, "--child", name, literal, arch]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, **environment})
    return json.loads(done.stdout)


def samples(name, arch, processes):
    """(cold results, disk-hit results), one process each."""
    cold, hits = [], []
    for _ in range(processes):
        literal = f"{secrets.randbelow(10**9)}e-12"
        cold.append(child(name, literal, arch, MOYE_DISK_CACHE="0", MOYE_NVRTC_NO_CACHE="1"))
        with tempfile.TemporaryDirectory(prefix="moye-compile-") as folder:
            kept = {"MOYE_DISK_CACHE": "1", "MOYE_CACHE_DIR": folder}
            child(name, literal, arch, **kept)
            hits.append(child(name, literal, arch, **kept))
    if any(hit["nvrtc"] for hit in hits):
        sys.exit("a kernel that was left on disk was compiled again")
    return {"cold": cold, "hit": hits}


def line(label, seconds):
    ms = [1000 * s for s in seconds]
    print(f"  {label:22} {statistics.median(ms):7.1f} ms ({min(ms):.1f} .. {max(ms):.1f})")


def main(processes=5, arch="sm_90a"):
    print(f"{arch}, {os.cpu_count()} cores; medians of {processes} processes each (least .. largest)")
    for name in SOURCES:
        results = samples(name, arch, processes)
        first = results["cold"][0]
        print(f"{name}: {first['registers']} registers, {first['spills']} bytes spilled, cubin {first['bytes']} bytes")
        for kind in ("cold", "hit"):
            print(f" {'cold compile' if kind == 'cold' else 'kernel on disk'}")
            for of, phase, label in ROWS:
                if of == kind and all(phase in result for result in results[kind]):
                    line(label, [result[phase] for result in results[kind]])
            if kind == "cold":
                line("trace + print", [result["trace"] + result["print"] for result in results[kind]])
            else:
                line("beyond trace + print", [result["rest"] + result.get("load", 0) for result in results[kind]])
        if "load" not in results["hit"][0]:
            print(f"  (no GPU of {arch} here: the driver's module load is not in it)")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(measure(*sys.argv[2:5])))
    else:
        main(*map(int, sys.argv[1:2]), *sys.argv[2:3])
