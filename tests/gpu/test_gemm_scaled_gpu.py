"""Products of 8-bit floats whose blocks have factors on the GPU, and grouped products of separate matrices.

Against float64: the error may be 5% above that of rounding the exact result once, and what sums of 128 products in 14
bits cost.
"""

from __future__ import annotations

import itertools
import random

import pytest
import torch

from moye.kernels import WarpgroupConfig, gemm, gemm_sm90, grouped_gemm_sm90

BLOCK, SUMS = 128, 4e-4
GROUPS = {64: 1, 128: 2, 192: 3, 256: 2}                 # warpgroups, by rows of a tile
TILES = [WarpgroupConfig(bM, bN, 128, 3, groups=GROUPS[bM], promotion=promotion)
         for promotion, sizes in {
             "between": ((64, 32), (64, 96), (128, 128), (128, 160), (128, 176), (128, 192), (256, 96), (256, 128),
                         (192, 128)),
             "turns": ((128, 128), (128, 192), (256, 96), (256, 128)),
             "behind": ((128, 128), (128, 160), (128, 192), (256, 96)),
             "ahead": ((64, 96), (128, 112), (128, 128), (192, 64))}.items() for bM, bN in sizes]


def blocks(extent):
    return -(-extent // BLOCK)


def e4m3(*shape):
    return torch.randn(*shape, device="cuda").to(torch.float8_e4m3fn)


def factors(*shape):
    return torch.exp(4.6 * torch.rand(*shape, device="cuda") - 2.3)


def exact(A, B, scale_a, scale_b):
    """The product in float64."""
    N, K = B.shape
    a = A.double() * scale_a.double().repeat_interleave(BLOCK, 1)[:, :K]
    b = B.double() * scale_b.double().repeat_interleave(BLOCK, 0)[:N].repeat_interleave(BLOCK, 1)[:, :K]
    return a @ b.T


def check(C, wanted, sums=SUMS):
    assert bool(C.isfinite().all()), "something of C was not written"
    rounding = float((wanted.to(C.dtype).double() - wanted).norm())
    assert float((C.double() - wanted).norm()) <= 1.05 * rounding + sums * float(wanted.norm())


@pytest.mark.parametrize(("M", "N", "K"), [(1, 1, 16), (130, 200, 272), (1000, 2112, 7168), (7, 300, 33),
                                           (2049, 4104, 1040)])
@pytest.mark.parametrize("by_rows", [False, True])
def test_dense(M, N, K, by_rows):
    """The choice; factors of A contiguous along M, or along K."""
    torch.manual_seed(0)
    A, B, scale_b = e4m3(M, K), e4m3(N, K), factors(blocks(N), blocks(K))
    scale_a = factors(M, blocks(K)) if by_rows else factors(blocks(K), M).T
    C = torch.full((M, N), torch.nan, device="cuda", dtype=torch.bfloat16)
    assert gemm(A, B, C, scale_a=scale_a, scale_b=scale_b) is C
    check(C, exact(A, B, scale_a, scale_b))


@pytest.mark.parametrize("config", TILES, ids=lambda c: f"{c.bM}x{c.bN} {c.promotion}")
def test_tiles(config):
    """More tiles than blocks of the grid, of which the last ones reach beyond C; the same sums without factors."""
    torch.manual_seed(1)
    M, N, K = 3001, 2904, 1552
    A, B, scale_a, scale_b = e4m3(M, K), e4m3(N, K), factors(blocks(K), M).T, factors(blocks(N), blocks(K))
    C = torch.full((M, N), torch.nan, device="cuda", dtype=torch.bfloat16)
    gemm_sm90(A, B, C, scale_a=scale_a, scale_b=scale_b, config=config)
    check(C, exact(A, B, scale_a, scale_b))
    C.fill_(torch.nan)
    gemm_sm90(A, B, C, config=config)
    check(C, A.double() @ B.double().T)


@pytest.mark.parametrize("shape", [(1720, 8595, 384), (2312, 9141, 384)])
def test_factors_are_read_before_the_next_come(shape):
    """Few k tiles, and C stored element by element: loads from shared memory wait behind other warps' stores.

    An arrival overtook them, and then the factors of the next k tile did: 8 rows of a tile were wrong in every run.
    """
    torch.manual_seed(7)
    M, N, K = shape
    A, B, scale_a, scale_b = e4m3(M, K), e4m3(N, K), factors(blocks(K), M).T, factors(blocks(N), blocks(K))
    expected = exact(A, B, scale_a, scale_b)
    for _ in range(12):
        C = torch.full((M, N), torch.nan, device="cuda", dtype=torch.bfloat16)
        gemm_sm90(A, B, C, scale_a=scale_a, scale_b=scale_b, config=WarpgroupConfig(192, 64, 128, 6, groups=3))
        check(C, expected)


@pytest.mark.parametrize("config", [None, TILES[5], TILES[7]], ids=["chosen", "192", "256"])
def test_groups(config):
    torch.manual_seed(2)
    heights, N, K = (300, 0, 1, 1024, 129), 1160, 1040
    ends = [0, *itertools.accumulate(heights)]
    A, B = e4m3(ends[-1], K), e4m3(len(heights), N, K)
    scale_a, scale_b = factors(blocks(K), ends[-1]).T, factors(len(heights), blocks(N), blocks(K))
    C = torch.full((ends[-1], N), torch.nan, device="cuda", dtype=torch.bfloat16)
    offsets = torch.tensor(ends, dtype=torch.int32, device="cuda")
    grouped_gemm_sm90(A, B.permute(1, 2, 0), C, offsets, scale_a=scale_a, scale_b=scale_b.permute(1, 2, 0),
                      config=config)
    for g, (first, last) in enumerate(itertools.pairwise(ends)):
        rows = slice(first, last)
        check(C[rows], exact(A[rows], B[g], scale_a[rows], scale_b[g]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn])
def test_separate_matrices(dtype):
    """Extents of their own, more of them than one launch takes, two launches one behind the other."""
    torch.manual_seed(3)
    shapes = [(300 * i + 1, 264 + 128 * i, 512 + 16 * i) for i in range(18)]
    As = [torch.randn(M, K, device="cuda").to(dtype) for M, _, K in shapes]
    Bs = [torch.randn(N, K, device="cuda").to(dtype) for _, N, K in shapes]
    Cs = [torch.full((M, N), torch.nan, device="cuda", dtype=torch.bfloat16) for M, N, _ in shapes]
    for _ in range(2):
        assert grouped_gemm_sm90(As, Bs, Cs) is Cs
    for A, B, C in zip(As, Bs, Cs, strict=True):
        check(C, A.double() @ B.double().T)


def test_many_separate_matrices():
    """150 uneven ones, some without rows, in any order of strides; other rows each time, on two streams."""
    rng, N, K = random.Random(5), 136, 192
    Bs = [torch.randn(N, K, device="cuda", dtype=torch.bfloat16) if i % 3 else
          torch.randn(K, N, device="cuda", dtype=torch.bfloat16).T for i in range(150)]
    other = torch.cuda.Stream()
    for turn in range(4):
        heights = [rng.choice((0, 1, 2, 7, 130, rng.randint(1, 400))) for _ in Bs]
        A = torch.randn(sum(heights), K, device="cuda", dtype=torch.bfloat16)
        C = torch.full((sum(heights), N), torch.nan, device="cuda", dtype=torch.bfloat16)
        As, Cs = list(A.split(heights)), list(C.split(heights))
        torch.cuda.synchronize()
        with torch.cuda.stream(other if turn % 2 else torch.cuda.current_stream()):
            grouped_gemm_sm90(As, Bs, Cs)
        torch.cuda.synchronize()
        for X, Y, Z in zip(As, Bs, Cs, strict=True):
            if len(X):
                check(Z, X.double() @ Y.double().T)


def test_separate_matrices_in_a_graph():
    """The table is written by launches there: nothing is left to copy when a graph runs again."""
    torch.manual_seed(4)
    As, Bs = ([torch.randn(rows, 256, device="cuda", dtype=torch.float16) for _ in range(4)] for rows in (200, 136))
    Cs = [torch.zeros(200, 136, device="cuda", dtype=torch.float16) for _ in range(4)]
    grouped_gemm_sm90(As, Bs, Cs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        grouped_gemm_sm90(As, Bs, Cs)
    for C in Cs:
        C.fill_(torch.nan)
    graph.replay()
    for A, B, C in zip(As, Bs, Cs, strict=True):
        check(C, A.double() @ B.double().T, sums=1e-5)
