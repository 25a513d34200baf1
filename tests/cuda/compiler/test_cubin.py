"""cubin.py: the ELF parser against ptxas's own words, and against bytes that are no cubin."""

from __future__ import annotations

import struct

import pytest

from moye.cuda.compiler import cubin, nvrtc
from moye.errors import CompileError

SOURCE = '''
struct __align__(64) TMap { unsigned long long opaque[16]; };
extern "C" __global__ void __launch_bounds__(256) plain(float* __restrict__ a, const float* b, int n, double d) {
    __shared__ float s[100];
    s[threadIdx.x] = b[threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = s[(threadIdx.x + 1) % 100] * n + d;
}
extern "C" __global__ void __launch_bounds__(1024) spilling(float* a, int n) {
    float r[160];
#pragma unroll
    for (int i = 0; i < 160; i++) r[i] = a[i * 1024 + threadIdx.x];
    for (int j = 0; j < n; j++) {
#pragma unroll
        for (int i = 0; i < 160; i++) r[i] = r[i] * r[(i + 7) % 160] + a[i];
    }
#pragma unroll
    for (int i = 0; i < 160; i++) a[i * 1024 + threadIdx.x] = r[i];
}
extern "C" __global__ void mapped(const __grid_constant__ TMap t, int* p, char c) {
    extern __shared__ int dynamic[];
    dynamic[threadIdx.x] = c;
    *p = (int)t.opaque[3] + dynamic[0];
}
'''


MANY = """
struct __align__(128) TMap { unsigned long long opaque[16]; };
extern "C" __global__ void many(float* out, PARAMETERS) { out[n3] = n39; }
""".replace("PARAMETERS", ", ".join(f"const __grid_constant__ TMap t{i}, int n{i}" for i in range(40)))


@pytest.fixture(scope="module", params=["sm_80", "sm_90a", "sm_100a"])
def compiled(request):
    return nvrtc.compile_cubin(SOURCE, "plain", request.param)


@pytest.mark.slow
def test_agrees_with_ptxas(compiled):
    kernels = cubin.parse(compiled.cubin)
    assert set(kernels) == set(compiled.resources) == {"plain", "spilling", "mapped"}
    for name, told in compiled.resources.items():
        read = kernels[name]
        assert (read.registers, read.frame, read.smem) == (told.registers, told.stack_frame, told.smem_static), name


def test_parameters_of_more_than_4_kilobytes():
    """They are told in an attribute of their own."""
    params = cubin.parse(nvrtc.compile_cubin(MANY, "many", "sm_90a").cubin)["many"].params
    assert [param.size for param in params] == [8, *(40 * [128, 4])]
    assert [param.offset for param in params[:4]] == [0, 112, 240, 368]     # from 528 on, where parameters begin


def test_parameters_and_launch_bounds(compiled):
    kernels = cubin.parse(compiled.cubin)
    assert [(param.ordinal, param.size) for param in kernels["plain"].params] == [(0, 8), (1, 8), (2, 4), (3, 8)]
    assert [param.offset for param in kernels["plain"].params] == [0, 8, 16, 24]
    assert [param.size for param in kernels["mapped"].params] == [128, 8, 1]
    assert kernels["plain"].max_threads == 256
    assert kernels["mapped"].max_threads is None


def test_static_shared_memory_leaves_out_the_reserved_bytes(compiled):
    assert cubin.parse(compiled.cubin)["plain"].smem == 400
    assert cubin.parse(compiled.cubin)["mapped"].smem == 0


def test_arch(compiled):
    assert f"sm_{cubin.arch(compiled.cubin)}" == compiled.arch.rstrip("a")


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"MZ" + bytes(100), b"\x7fELF\x02" + bytes(100)])
def test_what_is_no_cubin(data):
    with pytest.raises(CompileError, match="not a cubin"):
        cubin.parse(data)


def test_a_truncated_cubin(compiled):
    headers, = struct.unpack_from("<Q", compiled.cubin, 40)         # the section table; program headers follow it
    for size in range(64, headers, 997):
        with pytest.raises(CompileError, match="whole cubin"):
            cubin.parse(compiled.cubin[:size])
