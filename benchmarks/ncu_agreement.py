"""The counters of a checked run beside those of Nsight Compute, for kernels of the examples on the same arrays.

The simulator counts requests, wavefronts and sectors with the model of docs/analysis.md; ncu reads the hardware's.
"ratio" is ncu / moye.  A metric that this ncu or this GPU lacks for every kernel is left out.  ncu counts what cp.async
reads under global loads.  Expect differences where the compiler joins, splits or drops accesses, and where two phases
of a wide load merge (docs/analysis.md).

    python benchmarks/ncu_agreement.py [NAME ...]        # needs a GPU, torch and ncu; without them moye's column alone
"""

import csv
import importlib.util
import io
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import moye as mo

EXAMPLES = Path(__file__).parents[1] / "examples"
SECONDS = 150                                           # for one run of ncu

# label, counters of moye (summed), metrics of ncu (summed where it has them)
ROWS = [
    ("shared wavefronts", ["shared_wavefronts"], ["l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"]),
    ("  of loads", ["shared_load_wavefronts", "ldmatrix_wavefronts"],
     ["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"]),
    ("  of stores", ["shared_store_wavefronts", "stmatrix_wavefronts"],
     ["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"]),
    ("shared bank conflicts", ["shared_conflicts"], ["l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"]),
    ("  of loads", ["shared_load_conflicts"], ["smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"]),
    ("  of stores", ["shared_store_conflicts"],
     ["smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"]),
    ("  of ldmatrix", ["ldmatrix_conflicts"],
     ["smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum"]),
    ("  of cp.async", ["cp_async_shared_conflicts"],
     ["smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum"]),
    ("shared load requests", ["shared_load_requests"], ["smsp__inst_executed_op_shared_ld.sum"]),
    ("shared store requests", ["shared_store_requests"], ["smsp__inst_executed_op_shared_st.sum"]),
    ("ldmatrix requests", ["ldmatrix_requests"], ["smsp__inst_executed_op_ldsm.sum"]),
    ("cp.async requests", ["cp_async_global_requests"], ["smsp__inst_executed_op_ldgsts.sum"]),
    ("global load requests", ["global_load_requests", "cp_async_global_requests"],
     ["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]),
    ("global load sectors", ["global_load_sectors", "cp_async_global_sectors"],
     ["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]),
    ("global store requests", ["global_store_requests"], ["l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"]),
    ("global store sectors", ["global_store_sectors"], ["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"]),
]
METRICS = list(dict.fromkeys(metric for _, _, metrics in ROWS for metric in metrics))


# --- the kernels -----------------------------------------------------------------------------------------------------


def example(stem):
    spec = importlib.util.spec_from_file_location(f"example_{stem}", EXAMPLES / f"{stem}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def matrices(dtype, order, M, N, K, out="F"):
    rng = np.random.default_rng(0)
    A, B = (np.asarray(rng.standard_normal((n, K)).astype(dtype), order=order) for n in (M, N))
    return A, B, np.zeros((M, N), np.float32, order=out)


def transposed(pad, place, wrap):
    module = example("02_transpose")
    src = np.asfortranarray(np.random.default_rng(0).standard_normal((256, 256), np.float32))
    layout, threads = mo.make_layout((32, 32), (1, 32 + pad)), mo.make_layout((32, 8))
    kernel = wrap(module.transpose_kernel)
    return kernel[(8, 8), 256](place(np.zeros((256, 256), np.float32, order="F")), place(src), layout, threads)


def product(stem, dtype, order, shape, place, wrap, out="F", **options):
    module = example(stem)
    A, B, C = (place(x) for x in matrices(dtype, order, *shape, out))
    return module.matmul(A, B, C, kernel=wrap(module.matmul_kernel), **options)


KERNELS = {
    "transpose": lambda place, wrap: transposed(1, place, wrap),
    "transpose_unpadded": lambda place, wrap: transposed(0, place, wrap),
    "async": lambda place, wrap: product("04_matmul_async", np.float32, "F", (256, 256, 64), place, wrap,
                                         values=(4, 1)),
    "vectorized": lambda place, wrap: product("05_matmul_vectorized", np.float32, "F", (256, 256, 64), place, wrap),
    "double_buffered": lambda place, wrap: product("09_matmul_double_buffered", np.float32, "F", (256, 256, 128),
                                                   place, wrap),
    "ldmatrix": lambda place, wrap: product("11_matmul_ldmatrix", np.float32, "C", (128, 128, 64), place, wrap),
    "pipelined": lambda place, wrap: product("13_matmul_pipelined", np.float16, "C", (256, 256, 256), place, wrap,
                                             out="C"),
}


# --- the two sides ---------------------------------------------------------------------------------------------------


def simulated(name):
    """moye's counters, and how long the checked run took."""
    start = time.perf_counter()
    report = KERNELS[name](lambda x: x, mo.check)
    assert report.ok, str(report)
    return report.counters(), time.perf_counter() - start


def launch(name):
    """One launch on the GPU, in the process that ncu watches; no other kernel runs."""
    import torch

    def place(x):
        return torch.from_numpy(x.T).cuda().T if x.flags.f_contiguous and not x.flags.c_contiguous else \
            torch.from_numpy(x).cuda()

    KERNELS[name](place, lambda kernel: kernel)
    torch.cuda.synchronize()


def profiled(name, ncu):
    """Metric -> value of the launch, as far as ncu knows them; {} with the reason printed where it does not run."""
    wanted = list(METRICS)
    for _ in range(len(METRICS)):
        command = [ncu, "--metrics", ",".join(wanted), "--csv", "--clock-control", "none", "--launch-count", "1",
                   "--kernel-name", "regex:.*_kernel", sys.executable, __file__, "--launch", name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            print(f"  ncu took more than {SECONDS} s")
            return {}
        told = done.stdout + done.stderr
        values = parsed(done.stdout)
        unknown = [metric for metric in wanted if any(
            metric.removesuffix(".sum") in line and ("rror" in line or "ail" in line) for line in told.splitlines())]
        if values or not unknown:
            if not values:
                print("  ncu measured nothing: " + " ".join(told.split())[-400:])
            return values
        wanted = [metric for metric in wanted if metric not in unknown]
    return {}


def parsed(text):
    """The CSV of ncu: one row per metric."""
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if '"Metric Name"' in line), None)
    if first is None:
        return {}
    values = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[first:]))):
        try:
            values[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
        except (KeyError, ValueError, AttributeError, TypeError):
            continue                                    # n/a, or a line that the program printed
    return values


def compared(name, ncu):
    """How long the checked run took, moye's counters, ncu's values."""
    counters, seconds = simulated(name)
    return seconds, counters, profiled(name, ncu) if ncu else {}


def show(name, seconds, counters, values, rows):
    print(f"{name} (simulated in {seconds:.1f} s)")
    print(f"  {'':24}{'moye':>10}{'ncu':>10}{'ratio':>8}")
    for label, names, metrics in rows:
        mine = sum(counters.get(key, 0) for key in names)
        known = [values[metric] for metric in metrics if metric in values]
        if not mine and not any(known):
            continue
        theirs = sum(known) if known else None
        shown = "n/a" if theirs is None else f"{theirs:.0f}"
        ratio = "" if theirs is None or not mine else f"{theirs / mine:.3f}"
        print(f"  {label:24}{mine:10d}{shown:>10}{ratio:>8}", flush=True)


def main(names):
    from moye.cuda.device import driver

    ncu = shutil.which("ncu") if driver.available() else None
    if ncu is None:
        print("no GPU, or no ncu: moye's counters alone")
    found = {name: compared(name, ncu) for name in names or KERNELS}
    measured = {metric for _, _, values in found.values() for metric in values}
    rows = [row for row in ROWS if not measured or measured & set(row[2])]
    for name, (seconds, counters, values) in found.items():
        show(name, seconds, counters, values, rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--launch"]:
        launch(sys.argv[2])
    else:
        main(sys.argv[1:])
