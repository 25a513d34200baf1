"""``gemm_simt`` on the GPU against float64, full and ragged sizes, transposes, dtypes, splits, scaling."""

import math
import random

import pytest
import torch

import moye as mo
from moye.kernels import gemm, gemm_simt, tuned_gemm_simt
from moye.kernels.gemm.parts.arguments import scalar
from moye.kernels.gemm.parts.epilogues import Epilogue
from moye.kernels.gemm.simt import few
from moye.kernels.gemm.simt.choice import choose
from moye.kernels.gemm.simt.config import FLOAT
from moye.kernels.gemm.simt.few_kernel import multiply
from moye.kernels.gemm.simt.kernel import problem_of

DTYPES = {"f4": (torch.float32, 1e-5), "f8": (torch.float64, 1e-13), "i4": (torch.int32, 0.0)}


def matrix(rows, columns, dtype, order):
    shape = (columns, rows) if order == "F" else (rows, columns)
    x = torch.randint(-50, 50, shape, device="cuda", dtype=dtype) if dtype == torch.int32 else \
        torch.randn(shape, device="cuda", dtype=dtype)
    return x.T if order == "F" else x


@pytest.mark.parametrize("M, N, K", [(2048, 2048, 256), (1000, 2050, 33), (97, 65, 250), (4097, 64, 4096), (1, 1, 1)])
@pytest.mark.parametrize("orders", ["FFF", "CFF", "FCC", "CCF"])
def test_shapes_and_transposes(M, N, K, orders):
    agree(M, N, K, "f4", orders)


@pytest.mark.parametrize("dtype", ["f8", "i4"])
@pytest.mark.parametrize("M, N, K", [(256, 128, 96), (131, 67, 45)])
def test_dtypes(M, N, K, dtype):
    agree(M, N, K, dtype, "FFF")
    agree(M, N, K, dtype, "CFC")


def test_splits_and_scaling():
    agree(96, 64, 4096, "f4", "FFF", alpha=0.5, beta=-2.0)
    agree(130, 70, 40, "f4", "FFC", alpha=2.0, beta=0.5)
    agree(130, 70, 40, "f8", "FFF", alpha=0.1, beta=0.3)
    agree(63, 95, 250, "f4", "FFF", splits=3)


@pytest.mark.parametrize("config", FLOAT[::2], ids=lambda c: f"{c.bM}x{c.bN}x{c.bK}")
def test_every_configuration(config):
    orders = ("FFF", "CFF", "FCF", "CCF")[FLOAT.index(config) % 4]
    agree(3 * config.bM - 1, 2 * config.bN - 3, 500, "f4", orders, config=config, splits=1 + FLOAT.index(config) % 3)


@pytest.mark.parametrize("M, N, K, splits", [(8, 1000, 8192, 132), (700, 300, 3000, 7), (60, 50, 40000, 100)])
def test_blocks_that_share_tiles_repeat_their_sums(M, N, K, splits):
    A, B = matrix(M, K, torch.float32, "C"), matrix(N, K, torch.float32, "C")
    found = [gemm_simt(A, B, torch.full((M, N), math.nan, device="cuda"), splits=splits) for _ in range(20)]
    exact = A.double() @ B.double().T
    assert float((found[0].double() - exact).norm()) <= 1e-5 * float(exact.norm())
    assert all(torch.equal(found[0], C) for C in found)


@pytest.mark.parametrize("seed", range(24))
def test_few_rows_beside_what_streams(seed):
    """By the rule, and by another plan: rows and K of any number, either operand the few, all orders of these and C."""
    rng = random.Random(seed)
    R, F, K = (round(math.exp(rng.uniform(0, math.log(n)))) for n in (20000, 8, 20000))
    K = K // 4 * 4 + 4 if seed % 4 < 2 else K
    X, S = (matrix(n, K + 4, torch.float32, order) for n, order in ((R, "C"), (F, "CF"[seed % 2])))
    X, S = X[:, (lead := rng.choice((0, 0, 3))):K + lead], S[:, :K]
    exact = X.double() @ S.double().T
    C = matrix(R, F, torch.float32, rng.choice("CF"))
    old, (alpha, beta) = C.clone(), rng.choice(((1, 0), (0.5, 0), (1, -2.0)))
    if not beta:
        C.fill_(math.nan)
    if seed % 3:
        gemm(*((X, S, C) if seed % 3 == 1 else (S, X, C.T)), alpha=alpha, beta=beta)
    else:
        width = rng.choice((1, 4)) if K % 4 == lead == 0 else 1
        plan = few.FewPlan(8, rng.choice((1, 2, 4)), rng.choice((1, 2, 4, 8)), width, Epilogue(alpha != 1, beta != 0))
        multiply(X, S, C, plan, few.Few(R, F, K, 4), alpha=scalar(alpha, mo.float32, "test"),
                 beta=scalar(beta, mo.float32, "test"))
    wanted = alpha * exact + beta * old.double()
    assert float((C.double() - wanted).norm()) <= 1e-5 * float(wanted.norm()) + 1e-6 * K ** 0.5


@pytest.mark.parametrize("M, N, K", [(1536, 1600, 1700), (1999, 2050, 1501)])
def test_operands_of_long_products_are_turned_round_first(M, N, K):
    """Into memory of the call: repeated calls, which decide nothing anew, see what the operands hold then."""
    C = torch.full((M, N), math.nan, device="cuda")
    known = (mo.describe(x) for x in (torch.empty(M, K), torch.empty(N, K), torch.empty(M, N)))
    assert choose(problem_of(*known), 132).copied == (True, True)
    for repetition in range(4):
        A, B = matrix(M, K, torch.float32, "C"), matrix(N, K, torch.float32, "C")
        for _ in range(2):
            A.mul_(1.5 + repetition)
            gemm(A, B, C.fill_(math.nan))
            exact = A.double() @ B.double().T
            assert float((C.double() - exact).norm()) <= 1e-5 * float(exact.norm())


@pytest.mark.parametrize("seed", range(40))
def test_batches_and_epilogues(seed):
    rng = random.Random(seed)
    dtype, tolerance = DTYPES[rng.choice(("f4", "f4", "i4", "f8"))]
    M, N, K = (round(math.exp(rng.uniform(0, math.log(n)))) for n in rng.choice(((8, 3000, 3000), (700, 700, 2000))))
    batches = rng.choice((1, 2, 7, 300 if M * N < 1 << 14 else 5))

    def whole(rows, columns):
        x = torch.stack([matrix(rows, columns, dtype, order) for order in [rng.choice("CF")] * batches], dim=-1)
        return x if rng.random() < 0.2 else x.permute(2, 0, 1).contiguous().permute(1, 2, 0)

    A, B, C, R = whole(M, K), whole(N, K), whole(M, N), whole(M, N)
    bias = matrix(N, 1, dtype, "C")[:, 0] if rng.random() < 0.6 else None
    alpha, beta, residual = rng.choice((1, 2)), rng.choice((0, -3)), rng.choice((None, R))
    activation = rng.choice(("none", "relu"))
    expected = alpha * torch.einsum("mkl,nkl->mnl", A.double(), B.double()) + beta * C.double()
    expected = expected + (0 if residual is None else R.double()) + (0 if bias is None else bias.double()[:, None])
    expected = expected.relu() if activation == "relu" else expected
    if not beta:
        C.fill_(77 if dtype == torch.int32 else math.nan)
    gemm_simt(A, B, C, alpha=alpha, beta=beta, bias=bias, residual=residual, activation=activation,
              splits=rng.choice((None, None, 3)))
    assert float((C.double() - expected).norm()) <= tolerance * float(expected.norm())


def test_operands_that_begin_anywhere():
    whole = torch.randn(300, 403, device="cuda")
    A, B = whole[1:130, 3:203], whole[130:299, 1:201]
    C = gemm_simt(A, B, torch.full((129, 170), math.nan, device="cuda")[:, 1:])
    exact = A.double() @ B.double().T
    assert float((C.double() - exact).norm()) <= 1e-5 * float(exact.norm())


def agree(M, N, K, dtype, orders, alpha=1, beta=0, **options):
    torch.manual_seed(M + N + K)
    kind, tolerance = DTYPES[dtype]
    A, B, C = matrix(M, K, kind, orders[0]), matrix(N, K, kind, orders[1]), matrix(M, N, kind, orders[2])
    expected = alpha * (A.double() @ B.double().T) + beta * C.double()
    if not beta:
        C.fill_(77 if kind == torch.int32 else math.nan)
    gemm_simt(A, B, C, alpha=alpha, beta=beta, **options)
    assert float((C.double() - expected).norm()) <= tolerance * float(expected.norm())


def test_tuned(tmp_path, monkeypatch):
    monkeypatch.setenv("MOYE_CACHE_DIR", str(tmp_path))
    A, B = torch.randn(512, 256, device="cuda").T, torch.randn(512, 256, device="cuda").T
    C = torch.full((256, 256), 1.0, device="cuda").T
    expected = A.double() @ B.double().T - 2.0
    tuned_gemm_simt(A, B, C, beta=-2.0)
    assert float((C.double() - expected).norm() / expected.norm()) < 1e-5
    table = tuned_gemm_simt.report()
    assert "1.00x" in table and "not for float32" in table
