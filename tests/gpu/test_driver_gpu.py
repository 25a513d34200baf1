"""driver.py on a GPU: loading, launching, streams, contexts, threads, shared memory, clusters, graphs, errors."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
import torch

from moye.cuda.compiler import nvrtc
from moye.cuda.device import driver
from moye.errors import ArgumentError, DriverError, LaunchError

AXPY = '''
extern "C" __global__ void axpy(float* y, const float* x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
'''
AXPY_FORMATS = ("P", "P", "f", "i")


def build(source, name, formats, ordinal=0, arch=None, options=()):
    cubin = nvrtc.compile_cubin(source, name, arch or driver.device_arch(ordinal), options=options).cubin
    return driver.load(cubin, name, ordinal, formats)


@pytest.fixture(scope="module")
def axpy():
    return build(AXPY, "axpy", AXPY_FORMATS)


def run(kernel, x, y, a, stream=None):
    n = x.numel()
    stream = driver.current_stream(kernel.ordinal) if stream is None else stream
    kernel.launch(((n + 255) // 256, 1, 1), (256, 1, 1), None, 0, stream, (y.data_ptr(), x.data_ptr(), a, n))


def test_devices():
    assert driver.available()
    assert driver.device_count() == torch.cuda.device_count()
    major, minor = torch.cuda.get_device_capability(0)
    assert driver.device_arch(0) == f"sm_{major}{minor}" + ("a" if major >= 9 else "")
    limits, properties = driver.device_limits(0), torch.cuda.get_device_properties(0)
    assert (limits.name, limits.sm_count) == (properties.name, properties.multi_processor_count)
    assert limits.max_threads == 1024
    assert limits.max_smem >= 99 * 1024
    with pytest.raises(DriverError, match="there is no device 99"):
        driver.device_arch(99)


def test_launch(axpy):
    x, y = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")
    expected = y + 2.5 * x
    run(axpy, x, y, 2.5)
    torch.testing.assert_close(y, expected)
    assert axpy.registers > 0
    assert axpy.smem_static == 0


def test_scalars_of_every_format():
    source = '''extern "C" __global__ void k(double* out, signed char a, unsigned short b, int c, unsigned d,
        long long e, unsigned long long f, float g, double h, bool i) {
        out[0] = a; out[1] = b; out[2] = c; out[3] = d; out[4] = e; out[5] = f; out[6] = g; out[7] = h; out[8] = i; }'''
    kernel = build(source, "k", ["P", "b", "H", "i", "I", "q", "Q", "f", "d", "?"])
    out = torch.zeros(9, dtype=torch.float64, device="cuda")
    values = (-7, 65535, -(2**31), 2**32 - 1, -(2**40), 2**50, 1.5, 3.25, True)
    kernel.launch((1, 1, 1), (1, 1, 1), None, 0, driver.current_stream(0), (out.data_ptr(), *values))
    assert out.tolist() == [float(value) for value in values]


def test_struct_by_value():
    source = '''struct __align__(64) TMap { unsigned char opaque[128]; };
        extern "C" __global__ void k(int* out, const __grid_constant__ TMap t) {
            out[threadIdx.x] = t.opaque[threadIdx.x]; }'''
    kernel = build(source, "k", ["P", "128s"])
    out = torch.zeros(128, dtype=torch.int32, device="cuda")
    kernel.launch((1, 1, 1), (128, 1, 1), None, 0, driver.current_stream(0), (out.data_ptr(), bytes(range(128))))
    assert out.tolist() == list(range(128))


def test_torch_streams(axpy):
    stream = torch.cuda.Stream()
    assert driver.current_stream(0) == torch.cuda.current_stream().cuda_stream
    x, y = torch.ones(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        assert driver.current_stream(0) == stream.cuda_stream
        torch.cuda._sleep(20_000_000)
        run(axpy, x, y, 1.0)
        assert not stream.query()                       # queued behind the sleep, on that very stream
        y.mul_(3)
    driver.synchronize_stream(stream.cuda_stream, 0)
    assert y.eq(3).all()


def test_threads_launch_at_once(axpy):
    outs = [torch.zeros(4096, device="cuda") for _ in range(8)]
    x = torch.ones(4096, device="cuda")
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream().cuda_stream for _ in outs]

    def work(i):
        for _ in range(200):
            run(axpy, x, outs[i], float(i + 1), streams[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    driver.synchronize(0)
    for i, out in enumerate(outs):
        assert out.eq(200.0 * (i + 1)).all(), i


def test_a_thread_without_a_context(axpy):
    """A fresh thread has no current context: the launch brings the device's own and takes it away again."""
    x, y = torch.ones(256, device="cuda"), torch.zeros(256, device="cuda")
    torch.cuda.synchronize()
    seen = []

    def work():
        drv = driver._driver()
        seen.append(int(drv.cuCtxGetCurrent()[1]))
        run(axpy, x, y, 4.0, 0)
        seen.append(int(drv.cuCtxGetCurrent()[1]))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    driver.synchronize(0)
    assert seen == [0, 0]
    assert y.eq(4).all()


def test_another_context_is_restored(axpy):
    """With a foreign context current, as with another device's, the launch goes to the kernel's own device."""
    drv = driver._driver()
    x, y = torch.ones(256, device="cuda"), torch.zeros(256, device="cuda")
    torch.cuda.synchronize()
    context = driver._check(drv.cuCtxCreate(None, 0, drv.CUdevice(0)), "cuCtxCreate")
    try:
        run(axpy, x, y, 5.0, 0)
        assert int(drv.cuCtxGetCurrent()[1]) == int(context)
    finally:
        drv.cuCtxDestroy(context)
    driver.synchronize(0)
    assert y.eq(5).all()


@pytest.mark.parametrize("ordinal", range(torch.cuda.device_count()))
def test_every_device(ordinal):
    kernel = build(AXPY, "axpy", AXPY_FORMATS, ordinal)
    x, y = torch.ones(256, device=f"cuda:{ordinal}"), torch.zeros(256, device=f"cuda:{ordinal}")
    before = torch.cuda.current_device()
    run(kernel, x, y, 6.0)
    assert torch.cuda.current_device() == before
    driver.synchronize(ordinal)
    assert y.eq(6).all()
    assert driver.pointer_device(y.data_ptr()) == ordinal


SMEM = '''extern "C" __global__ void k(int* out, int n) {
    extern __shared__ int s[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = i;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = s[n - 1 - i];
}'''


def test_dynamic_shared_memory_to_the_limit():
    kernel = build(SMEM, "k", ["P", "i"])
    most = driver.device_limits(0).max_smem
    for size in (1024, 48 * 1024, 64 * 1024, most, 2048):
        out = torch.zeros(size // 4, dtype=torch.int32, device="cuda")
        kernel.launch((1, 1, 1), (256, 1, 1), None, size, driver.current_stream(0), (out.data_ptr(), size // 4))
        assert out.tolist() == list(range(size // 4))[::-1]
    with pytest.raises(LaunchError, match=f"needs {most + 4} bytes of shared memory per block"):
        kernel.launch((1, 1, 1), (256, 1, 1), None, most + 4, 0, (0, 0))


def test_static_and_dynamic_shared_memory_add_up():
    source = SMEM.replace("extern __shared__", "__shared__ int t[4096]; t[threadIdx.x] = n; extern __shared__").replace(
        "out[i] = ", "out[i] = t[0] - n + ")
    kernel = build(source, "k", ["P", "i"])
    assert kernel.smem_static == 16384
    size = 40 * 1024                                    # beyond the default 48 KiB only together
    out = torch.zeros(size // 4, dtype=torch.int32, device="cuda")
    kernel.launch((1, 1, 1), (256, 1, 1), None, size, driver.current_stream(0), (out.data_ptr(), size // 4))
    assert out.tolist() == list(range(size // 4))[::-1]


@pytest.mark.parametrize("size", [2, 8, 16])
def test_clusters(size):
    if driver.device_arch(0) < "sm_90":
        pytest.fail("these tests are for sm_90 and up")
    source = '''extern "C" __global__ void k(int* out) {
        unsigned rank, count; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
        asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
        if (!threadIdx.x) out[blockIdx.x] = count * 100 + rank; }'''
    kernel = build(source, "k", ["P"])
    out = torch.zeros(32, dtype=torch.int32, device="cuda")
    kernel.launch((32, 1, 1), (64, 1, 1), (size, 1, 1), 0, driver.current_stream(0), (out.data_ptr(),))
    assert out.tolist() == [size * 100 + i % size for i in range(32)]


def test_launch_bound_limits_the_block():
    kernel = build(AXPY.replace("void axpy", "void __launch_bounds__(128) axpy"), "axpy", AXPY_FORMATS)
    assert kernel.threads == 128
    with pytest.raises(LaunchError, match="allow 128"):
        kernel.launch((1, 1, 1), (256, 1, 1), None, 0, 0, (0, 0, 0.0, 0))


def test_graph_capture(axpy):
    x, y = torch.ones(256, device="cuda"), torch.zeros(256, device="cuda")
    fresh = build(AXPY, "axpy", AXPY_FORMATS)           # its first launch of all is a captured one
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(fresh, x, y, 1.0)
        run(axpy, x, y, 2.0)
    assert y.eq(0).all()
    for _ in range(3):
        graph.replay()
    assert y.eq(9).all()


def test_wrong_parameters(axpy):
    with pytest.raises(ArgumentError, match="takes 4 parameters and got 1"):
        axpy.launch((1, 1, 1), (1, 1, 1), None, 0, 0, (0,))
    with pytest.raises(DriverError, match="takes parameters of"):
        build(AXPY, "axpy", ("P", "P", "d", "i"))


def test_a_cubin_for_another_device():
    other = "sm_80" if driver.device_arch(0) != "sm_80" else "sm_90a"
    with pytest.raises(DriverError, match=f"axpy is compiled for {other.rstrip('a')}, and device 0 is"):
        build(AXPY, "axpy", AXPY_FORMATS, arch=other)


def test_bytes_that_are_no_cubin():
    with pytest.raises(Exception, match="not a cubin"):
        driver.load(b"nothing", "k", 0)


CRASH = """
import torch
from moye.cuda.compiler import nvrtc
from moye.cuda.device import driver
from moye.errors import DriverError
source = 'extern "C" __global__ void k(int* p) { *p = 1; }'
kernel = driver.load(nvrtc.compile_cubin(source, "k", driver.device_arch(0)).cubin, "k", 0, ["P"])
kernel.launch((1, 1, 1), (1, 1, 1), None, 0, driver.current_stream(0), (16,))
for act in (lambda: driver.synchronize(0),
            lambda: kernel.launch((1, 1, 1), (1, 1, 1), None, 0, driver.current_stream(0), (16,))):
    try:
        act()
    except DriverError as error:
        print(str(error).replace(chr(10), " | "))
"""


def test_a_crash_is_told_with_its_hint():
    done = subprocess.run([sys.executable, "-c", CRASH], capture_output=True, text=True, check=True, timeout=120)
    first, second = done.stdout.splitlines()
    assert "work on device 0: CUDA_ERROR_ILLEGAL_ADDRESS" in first
    assert "mo.check" in first
    assert "launching k with grid (1, 1, 1), block (1, 1, 1): CUDA_ERROR_ILLEGAL_ADDRESS" in second


def test_the_drivers_cache_leaves_the_numbers_alone():
    """The driver caches NVRTC's compilations, and then ptxas says nothing: the numbers must be known all the same."""
    body = "".join(f"float r{i} = a[{i} * n];\n" for i in range(64))
    body += "__syncthreads();\n" + "".join(f"a[{i} + n] = r{i} * r{63 - i};\n" for i in range(64))
    for source, options in ((AXPY, ()), (f'extern "C" __global__ void axpy(float* a, int n) {{ {body} }}',
                                         ("-maxrregcount=24",))):
        cold, warm, bare = (nvrtc.compile_cubin(source, "axpy", "sm_80", options=options, no_cache=flag)
                            for flag in (False, False, True))
        assert cold.resources == warm.resources == bare.resources
        assert cold.cubin == warm.cubin
        assert (bare.spill_stores > 0) == bool(options)
