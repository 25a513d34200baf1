"""What a launch costs the host, side by side: cuLaunchKernel from C, moye, torch, CuPy, Triton; on the GPU.

The kernel takes three tensors and does nothing.  Each way queues CALLS launches between synchronisations (fewer than
the driver's queue holds, so that nothing waits for the device); medians over ROUNDS rounds in turns, in microseconds.
The floor is a C loop (compiled here with gcc) around cuLaunchKernel with prebuilt parameters.

    python benchmarks/launch.py [rounds]
"""

import ctypes
import importlib.util
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from cuda.bindings import driver as drv

import moye as mo
from moye.cuda.compiler import nvrtc
from moye.cuda.device import driver

CALLS, REPEATS = 500, 20                                # 10000 launches a round
LIMITS = {"moye": 3.0, "moye prepared": 1.5}            # microseconds above the floor

LOOP = """
#include <time.h>
typedef int (*launch_t)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                        void**);
double loop(launch_t launch, void* function, void* stream, void** params, int calls) {
    struct timespec a, b;
    int failed = 0;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < calls; i++)
        failed |= launch(function, 1, 1, 1, 128, 1, 1, 0, stream, params, 0);
    clock_gettime(CLOCK_MONOTONIC, &b);
    return failed ? -1.0 : (b.tv_sec - a.tv_sec) * 1e6 + (b.tv_nsec - a.tv_nsec) * 1e-3;
}
"""

EMPTY = '''extern "C" __global__ void empty(float* a, float* b, float* c, int m, int n, int k, int l) {
    if (m < 0) *a = *b + *c; }'''


@mo.kernel
def touch(A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C):
    gA, gB = mo.tile(A, (128, 8), (0, 0)), mo.tile(B, (128, 8), (0, 0))      # (128, 8)
    gC = mo.tile(C, (128, 128), (0, 0))                                     # (128, 128)
    if mo.block_idx().x == 4096:                        # never
        gC[3, 5] = gA[3, 5] + gB[3, 5]


LAYOUT = mo.make_layout((128, 8, 2), (1, 130, 1040))
COPY = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32), mo.make_layout((16, 8)))
MMA = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((16, 8)))


def c_loop():
    """loop(launch, function, stream, params, calls) -> microseconds."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "loop.c", Path(folder) / "loop.so"
        source.write_text(LOOP)
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
        loop = ctypes.CDLL(str(library)).loop
    loop.restype = ctypes.c_double
    loop.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int]
    return loop


def python_loop(call):
    def run():
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        return (time.perf_counter() - start) * 1e6
    return run


def floor_and_bindings(tensors):
    """The C loop, and cuda.bindings with everything prebuilt."""
    cubin = nvrtc.compile_cubin(EMPTY, "empty", driver.device_arch(0)).cubin
    loaded = driver.load(cubin, "empty", 0, ("P", "P", "P", "i", "i", "i", "i"))
    params = driver.ParamBlock(("P", "P", "P", "i", "i", "i", "i"))
    address = params.pack((*(t.data_ptr() for t in tensors), 1, 2, 3, 4))
    loop, function = c_loop(), int(loaded._function)
    launch = ctypes.cast(ctypes.CDLL("libcuda.so.1").cuLaunchKernel, ctypes.c_void_p)
    config = loaded._configure((1, 1, 1), (128, 1, 1), None, 0, driver.current_stream(0))

    def floor():
        taken = loop(launch, function, driver.current_stream(0), address, CALLS)
        assert taken >= 0, "cuLaunchKernel failed"
        return taken
    keep = (params, loaded)
    return floor, python_loop(lambda: drv.cuLaunchKernelEx(config, loaded._function, address, 0)), keep


def triton_way(tensors):
    """A Triton kernel with three tensors; Triton wants its source in a file."""
    if importlib.util.find_spec("triton") is None:
        return None
    source = ("import triton\nimport triton.language as tl\n\n@triton.jit\ndef empty(a, b, c, m, n, k, l):\n"
              "    if m < 0:\n        tl.store(c, tl.load(a) + tl.load(b))\n")
    path = Path(tempfile.mkdtemp()) / "empty_triton.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("empty_triton", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    a, b, c = tensors
    return python_loop(lambda: module.empty[(1,)](a, b, c, 5, 6, 7, 9))


def cupy_way():
    try:
        import cupy
    except ImportError:
        return None
    kernel = cupy.RawKernel(EMPTY, "empty")
    a, b, c = (cupy.zeros((128, 128), cupy.float32) for _ in range(3))
    return python_loop(lambda: kernel((1,), (128,), (a, b, c, 1, 2, 3, 4)))


def ways():
    A, B = (torch.randn(8, 128, device="cuda").T for _ in range(2))
    C = torch.randn(128, 128, device="cuda").T
    floor, bindings, keep = floor_and_bindings((A, B, C))
    args = (A, LAYOUT, COPY, B, LAYOUT, COPY, C, MMA)
    prepared = touch.compile(*args, block=128).prepare(*args, grid=1)
    others = [torch.zeros(128, 128, device="cuda").T for _ in range(64)]
    turn = iter(range(1 << 60))
    one = torch.zeros(128, 128, device="cuda")
    found = {
        "floor: cuLaunchKernel from C": floor,
        "cuda.bindings, all prebuilt": bindings,
        "moye": python_loop(lambda: touch[1, 128](A, LAYOUT, COPY, B, LAYOUT, COPY, C, MMA)),
        "moye, another output each time": python_loop(
            lambda: touch[1, 128](A, LAYOUT, COPY, B, LAYOUT, COPY, others[next(turn) % 64], MMA)),
        "moye, fresh layouts each time": python_loop(
            lambda: touch[1, 128](A, mo.make_layout((128, 8, 2), (1, 130, 1040)), COPY, B, LAYOUT, COPY, C, MMA)),
        "moye, kernel.launch": python_loop(lambda: touch.launch(*args, grid=1, block=128)),
        "moye, dependent": python_loop(lambda: touch.launch(*args, grid=1, block=128, dependent=True))
        if torch.cuda.get_device_capability() >= (9, 0) else None,
        "moye prepared": python_loop(prepared),
        "torch add_": python_loop(lambda: one.add_(1.0)),
        "CuPy RawKernel": cupy_way(),
        "Triton": triton_way((A, B, C)),
    }
    return {name: way for name, way in found.items() if way is not None}, keep


def measure(runs, rounds):
    """Median microseconds per launch of each way, and the least."""
    times = {name: [] for name in runs}
    for run in runs.values():                           # compiles, loads, warms up
        run()
        torch.cuda.synchronize()
    for i in range(rounds):
        for name in list(runs)[:: 1 if i % 2 == 0 else -1]:
            batch = []
            for _ in range(REPEATS):
                batch.append(runs[name]() / CALLS)
                torch.cuda.synchronize()
            times[name].append(statistics.median(batch))
    return {name: (statistics.median(measured), min(measured)) for name, measured in times.items()}


def main(rounds=5):
    assert torch.cuda.is_available(), "this benchmark needs an NVIDIA GPU and torch"
    runs, keep = ways()
    found = measure(runs, rounds)
    floor = found["floor: cuLaunchKernel from C"][0]
    print(f"{torch.cuda.get_device_name()}, Python {sys.version.split()[0]}, torch {torch.__version__}: us per launch, "
          f"median of {rounds} rounds of {CALLS * REPEATS}")
    print(f"{'':32} {'median':>7} {'least':>7} {'over the floor':>15}")
    for name, (median, least) in found.items():
        limit = LIMITS.get(name)
        verdict = "" if limit is None else f"  (at most {limit}: {'ok' if median - floor <= limit else 'MISSED'})"
        print(f"{name:32} {median:7.2f} {least:7.2f} {median - floor:15.2f}{verdict}")
    del keep


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
