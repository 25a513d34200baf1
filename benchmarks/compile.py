"""What a first launch pays: cold compile, and a kernel that is on disk; every figure from fresh processes.

For the double-buffered matmul, the fastest ``gemm_simt``, ``gemm_sm80`` on each dtype, ``gemm_sm90``, and attention
forward and backward on sm_90a (all three launches of the gradients together). Cold: trace, print and NVRTC with
--no-cache and no disk cache; a literal of the kernel differs in each process, as NVRTC and the driver cache by
content. Disk hit: another fresh process whose kernel the first one left on disk: trace and print, then what comes
beyond them, the look-up (key, reading, checking the digest) and, where there is a GPU, the driver's module load.
Imports are excluded, loading the NVRTC library is not.

    python benchmarks/compile.py [processes] [arch] [--only NAME]

``--only`` takes part of a name, as "gemm_sm80" or "int8", and may be repeated.
"""

import argparse
import importlib.util
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
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from moye.runtime.prepare import compile_only

ROOT = Path(__file__).parents[1]
KERNELS = Path(importlib.import_module("moye.kernels").__file__).parent


@dataclass(frozen=True)
class Case:
    """A kernel: its file, the call written once in it whose 0 becomes a literal, the host function, its operands.

    ``out``: the dtype of C where it is not that of A and B.  ``integer``: the literal is one.  ``kernel``: its name,
    where the host function is in a module of its own, ``host``, which has the same name.  ``keywords``: for the call.
    """

    path: Path
    marker: str
    function: str
    sizes: tuple[int, int, int]
    order: str
    dtype: str = "float32"
    out: str | None = None
    integer: bool = False
    kernel: str = ""
    host: str = "moye.kernels.gemm.sm90.host"
    keywords: tuple[tuple[str, bool], ...] = ()

    def literal(self):
        """Another one each time, of the type that it stands for."""
        return str(secrets.randbelow(2**20)) if self.integer else f"{secrets.randbelow(10**9)}e-12"

    def arrays(self):
        """A (M, K), B (N, K) and C (M, N); within ``compile_only`` nothing runs: their memory is never touched."""
        M, N, K = self.sizes
        dtype, out = numpy_dtype(self.dtype), numpy_dtype(self.out or self.dtype)
        return tuple(np.empty(shape, of, self.order) for shape, of in (((M, K), dtype), ((N, K), dtype), ((M, N), out)))


class AttentionCase(Case):
    """``sizes``: queries and keys, heads, dim.  The gradients' host function takes nine arrays."""

    def arrays(self):
        seqlen, heads, dim = self.sizes
        of = numpy_dtype(self.dtype)
        out, q, k, v = (np.empty((4, seqlen, heads, dim), of) for _ in range(4))
        if self.function == "attention":
            return out, q, k, v
        gradients = [np.empty_like(x) for x in (q, k, v, out)]
        return *gradients, q, k, v, out, np.empty((4, heads, seqlen), np.float32)


def numpy_dtype(name):
    special = importlib.import_module("ml_dtypes") if name in ("bfloat16", "float8_e4m3fn") else None
    return np.dtype(name if special is None else getattr(special, name))


def sm80(dtype, out=None):
    return Case(KERNELS / "gemm/sm80/kernel.py", "acc.fill(0)", "gemm_sm80", (2048, 2048, 2048), "C", dtype, out,
                out == "int32")


def sm90(dtype, out=None, sizes=(4096, 4096, 4096)):
    return Case(KERNELS / "gemm/sm90/kernel.py", "return 0, k_tiles", "gemm_sm90", sizes, "C", dtype, out, True,
                "gemm_sm90_kernel")                     # the first k tile


def attention(dim, causal):
    return AttentionCase(KERNELS / "attention/sm90/forward.py", "(m, 0, head, own)", "attention", (4096, 16, dim),
                         "C", "bfloat16", None, True, "attention_sm90_kernel", "moye.kernels.attention.sm90.host",
                         (("causal", causal),))


def gradients(dim, causal):
    return AttentionCase(KERNELS / "attention/sm90/backward.py",
                         "stages.Q[:, :, at.stage], mo.tile(X, (plan.config.bM, plan.width, 1, 1), (m, 0",
                         "attention_backward", (4096, 16, dim), "C", "bfloat16", None, True,
                         "attention_backward_sm90_kernel", "moye.kernels.attention.sm90.host", (("causal", causal),))


CASES = {
    "double-buffered": Case(ROOT / "examples" / "09_matmul_double_buffered.py", "tCrC.fill(0)", "matmul",
                            (2048, 2048, 256), "F"),
    "gemm_simt": Case(KERNELS / "gemm/simt/kernel.py", "acc.fill(0)", "gemm_simt", (4096, 4096, 4096), "F"),
    "gemm_sm80 bfloat16": sm80("bfloat16"),
    "gemm_sm80 float16": sm80("float16"),
    "gemm_sm80 tf32": sm80("float32"),
    "gemm_sm80 float64": sm80("float64"),
    "gemm_sm80 int8": sm80("int8", "int32"),
    "gemm_sm90 bfloat16": sm90("bfloat16"),
    "gemm_sm90 e4m3": sm90("float8_e4m3fn", "bfloat16"),
    "gemm_sm90 bfloat16 decode": sm90("bfloat16", sizes=(16, 8192, 8192)),
    **{f"attention {dim} {'causal' if causal else 'full'}": attention(dim, causal)
       for dim in (64, 128, 256) for causal in (False, True)},
    **{f"attention backward {dim} {'causal' if causal else 'full'}": gradients(dim, causal)
       for dim in (64, 128, 256) for causal in (False, True)},
}
IMPORTED = ("moye.cuda.compiler.nvrtc", "moye.cuda.printing.printer", "moye.lang.builtins", "moye.runtime.cache",
            "moye.runtime.toolchain", "cuda.bindings.nvrtc", "cuda.bindings.driver", "moye.cuda.device.driver")
ROWS = (("cold", "trace", "trace"), ("cold", "print", "print"), ("cold", "nvrtc", "NVRTC"), ("cold", "rest", "rest"),
        ("cold", "total", "cold compile"), ("hit", "trace", "trace"), ("hit", "print", "print"),
        ("hit", "rest", "look-up"), ("hit", "load", "module load (driver)"))


# --- in a child process ----------------------------------------------------------------------------------------------


def varied(case, literal):
    """The kernel's module with ``literal`` in it."""
    text = case.path.read_text()
    if text.count(case.marker) != 1:
        sys.exit(f"{case.path} has {case.marker} {text.count(case.marker)} times, not once")
    text = text.replace(case.marker, case.marker.replace("0", literal))
    name = f"<{case.path.stem} with {literal}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    module = types.ModuleType("varied")
    module.__file__ = str(case.path)
    sys.modules["varied"] = module                      # dataclasses look their module up
    exec(compile(text, name, "exec"), module.__dict__)
    return module


def host_function(case, module):
    """The function that launches the module's kernel."""
    if not case.kernel:
        return getattr(module, case.function)
    host = importlib.import_module(case.host)
    setattr(host, case.kernel, getattr(module, case.kernel))
    return partial(getattr(importlib.import_module("moye.kernels"), case.function), **dict(case.keywords))


def measure(name, literal, arch):
    """Seconds of each phase in this process, and what came out."""
    case = CASES[name]
    function, arrays = host_function(case, varied(case, literal)), case.arrays()
    for needed in IMPORTED:
        importlib.import_module(needed)
    printer, printing = importlib.import_module("moye.cuda.printing.printer"), []
    inner = printer.print_kernel

    def timed(*args, **kwargs):
        start = time.perf_counter()
        printed = inner(*args, **kwargs)
        printing.append(time.perf_counter() - start)
        return printed
    printer.print_kernel = timed

    start = time.perf_counter()
    with compile_only(arch, trace_only=True) as gathered:
        function(*arrays)
    traced = time.perf_counter()
    programs = [job.compile() for job in gathered.jobs]
    done = time.perf_counter()
    nvrtc = sum(program.compiled.seconds for program in programs)
    phases = {"trace": traced - start, "print": sum(printing), "nvrtc": nvrtc,
              "rest": done - traced - sum(printing) - nvrtc, "total": done - start}
    if (seconds := load_seconds(programs)) is not None:
        phases["load"] = seconds
    return {**phases, "registers": max(program.registers for program in programs),
            "spills": sum(program.spills for program in programs),
            "bytes": sum(len(program.cubin) for program in programs)}


def load_seconds(programs):
    """Loading the modules on GPU 0, whose context exists by then; None where there is no GPU of the architecture."""
    from moye.cuda.device import driver
    from moye.runtime.launch import load
    if not driver.available() or driver.device_arch(0) != programs[0].arch:
        return None
    with driver.current_device(0):
        driver.synchronize(0)
        start = time.perf_counter()
        for program in programs:
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
        literal = CASES[name].literal()
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


def main(names, processes, arch):
    print(f"{arch}, {os.cpu_count()} cores; medians of {processes} processes each (least .. largest)")
    for name in names:
        if CASES[name].dtype == "bfloat16" and importlib.util.find_spec("ml_dtypes") is None:
            print(f"{name}: not run, ml_dtypes is not installed")
            continue
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


def chosen():
    """What the command line asks for: names, processes, architecture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("processes", nargs="?", type=int, default=5)
    parser.add_argument("arch", nargs="?", default="sm_90a")
    parser.add_argument("--only", action="append", metavar="NAME", help="kernels whose names have this in them")
    asked = parser.parse_args()
    names = [name for name in CASES if asked.only is None or any(part in name for part in asked.only)]
    if not names:
        parser.error(f"no kernel has {' or '.join(asked.only)} in its name; there are {', '.join(CASES)}")
    return names, asked.processes, asked.arch


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(measure(*sys.argv[2:5])))
    else:
        main(*chosen())
