"""Random numbers on the GPU: the words of the simulator, of Triton and of cuRAND."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from random_kernels import draw, dropout, dropped, philox, split, uniform

torch = pytest.importorskip("torch")
try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None
N = 4096

if triton is not None:
    @triton.jit
    def triton_draw(words, floats, normals, seed, n: tl.constexpr):
        i = tl.program_id(0) * n + tl.arange(0, n)
        a, b, c, d = tl.randint4x(seed, i)
        tl.store(words + i * 4, a.to(tl.int32, bitcast=True))
        tl.store(words + i * 4 + 1, b.to(tl.int32, bitcast=True))
        tl.store(words + i * 4 + 2, c.to(tl.int32, bitcast=True))
        tl.store(words + i * 4 + 3, d.to(tl.int32, bitcast=True))
        tl.store(floats + i, tl.rand(seed, i))
        tl.store(normals + i, tl.randn(seed, i))


def drawn(seed, first=0):
    words = torch.zeros(N, 4, dtype=torch.int32, device="cuda")
    floats, normals = (torch.zeros(N, device="cuda") for _ in range(2))
    draw[N // 64, 64](words.view(torch.uint32), floats, normals, seed, first)
    return words.cpu().numpy().view(np.uint32), floats.cpu().numpy(), normals.cpu().numpy()


@pytest.mark.parametrize(("seed", "first"), [(0, 0), (-5, -3), (123456789, 1000000)])
def test_words(seed, first):
    words, floats, normals = drawn(seed, first)
    wanted = np.array([philox((first + i & 0xFFFFFFFF, 0, 0, 0), split(seed)) for i in range(N)], np.uint32)
    np.testing.assert_array_equal(words, wanted)
    np.testing.assert_array_equal(floats, uniform(wanted[:, 0]))
    simulated = np.zeros((N, 4), np.uint32), np.zeros(N, np.float32), np.zeros(N, np.float32)
    draw[N // 64, 64](*simulated, seed, first)
    np.testing.assert_allclose(normals, simulated[2], rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(triton is None, reason="needs Triton")
@pytest.mark.parametrize("seed", [0, 42, -7])
def test_triton_draws_the_same(seed):
    words = torch.zeros(N, 4, dtype=torch.int32, device="cuda")
    floats, normals = (torch.zeros(N, device="cuda") for _ in range(2))
    triton_draw[N // 256,](words, floats, normals, seed, 256)
    mine = drawn(seed)
    np.testing.assert_array_equal(mine[0], words.cpu().numpy().view(np.uint32))
    np.testing.assert_array_equal(mine[1], floats.cpu().numpy())
    np.testing.assert_allclose(mine[2], normals.cpu().numpy(), rtol=1e-3, atol=1e-4)


def test_curand_draws_the_same():
    cupy = pytest.importorskip("cupy")
    source = r"""
    #include <curand_kernel.h>
    extern "C" __global__ void words(uint4* out, unsigned long long seed, unsigned long long sub) {
        const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        curandStatePhilox4_32_10_t state;
        curand_init(seed, sub, 4ull * i, &state);
        out[i] = curand4(&state);
    }
    """
    kernel = cupy.RawKernel(source, "words")

    @mo.kernel
    def mine(words, seed, sub):
        i = mo.block_idx().x * 64 + mo.thread_idx().x
        four = mo.philox(seed, i, sub)
        for j in mo.static_range(4):
            words[i, j] = four[j]

    for seed, sub in ((0, 0), (1234567890123, 5), (7, 1 << 40)):
        theirs = cupy.zeros((N, 4), cupy.uint32)
        try:
            kernel((N // 64,), (64,), (theirs, np.uint64(seed), np.uint64(sub)))
        except cupy.cuda.compiler.CompileException as error:
            pytest.skip(f"CuPy does not compile cuRAND's header: {str(error).splitlines()[0]}")
        words = torch.zeros(N, 4, dtype=torch.int32, device="cuda")
        mine[N // 64, 64](words.view(torch.uint32), seed, sub)
        np.testing.assert_array_equal(words.cpu().numpy().view(np.uint32), cupy.asnumpy(theirs))


def test_dropout():
    x = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    out, device = torch.full((4096,), 77.0, device="cuda"), torch.from_numpy(x).cuda()
    dropout[8, 128](out, device, 0.3, 42)
    np.testing.assert_allclose(out.cpu().numpy(), dropped(x, 0.3, 42), rtol=2e-7)
