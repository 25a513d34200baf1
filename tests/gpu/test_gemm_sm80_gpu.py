"""``gemm_sm80`` on the GPU against float64: dtypes, transposes, edges, batches, splits, epilogues.

A kind is a line of ``KINDS``.  The error may be 5% above that of rounding the exact result once, and what the
accumulation on tensor cores costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch

import moye as mo
from moye.kernels.gemm.sm80.kernel import gemm_sm80


@dataclass(frozen=True)
class Kind:
    """torch dtypes of the operands and of C; ``tf32``: the MMA sees a float32 rounded to 19 bits, ties away."""

    operand: torch.dtype
    out: torch.dtype
    tf32: bool = False
    arch: int = 80

    @property
    def exact(self):
        """Whether sums are: of integers."""
        return not self.out.is_floating_point

    def accumulation(self, K):
        """Relative error of a sum over K: the tensor cores cut off what float32 rounds, so it grows with K."""
        return 1e-15 * math.sqrt(K + 16) if self.operand == torch.float64 else 1e-6 + 1e-8 * K


KINDS = {
    "f16": Kind(torch.float16, torch.float16),
    "bf16": Kind(torch.bfloat16, torch.bfloat16),
    "f16_f32": Kind(torch.float16, torch.float32),
    "bf16_f32": Kind(torch.bfloat16, torch.float32),
    "tf32": Kind(torch.float32, torch.float32, tf32=True),
    "tf32_bf16": Kind(torch.float32, torch.bfloat16, tf32=True),
    "f64": Kind(torch.float64, torch.float64),
    "s8": Kind(torch.int8, torch.int32),
    "u8": Kind(torch.uint8, torch.int32),
    "e4m3": Kind(torch.float8_e4m3fn, torch.float16, arch=89),
    "e5m2": Kind(torch.float8_e5m2, torch.float32, arch=89),
}
HALVES = ("f16", "bf16")
ORDERS = [a + b + c for a in "CF" for b in "CF" for c in "CF"]
SIZES = [(1, 1, 1), (33, 17, 19), (100, 72, 40), (65, 66, 67), (129, 130, 136), (1000, 2050, 333), (512, 256, 4096)]
ACTIVATIONS = {"none": lambda x: x, "relu": torch.relu, "gelu": torch.nn.functional.gelu,
               "silu": torch.nn.functional.silu}


def array(shape, dtype, order):
    """(rows, columns) or (rows, columns, L), the batches farthest apart; "C": columns are contiguous, "F": rows."""
    stored = (*shape[2:], *(shape[:2] if order == "C" else shape[1::-1]))
    if dtype.is_floating_point:
        x = torch.randn(stored, device="cuda", dtype=torch.float64).to(dtype)
    else:
        info = torch.iinfo(torch.int8 if dtype == torch.int32 else dtype)
        x = torch.randint(info.min, info.max + 1, stored, device="cuda", dtype=dtype)
    x = x if len(shape) == 2 else x.movedim(0, -1)
    return x if order == "C" else x.transpose(0, 1)


def seen(x, kind):
    """An operand in float64 as the MMA sees it."""
    return (((x.view(torch.int32) + 0x1000) & -0x2000).view(torch.float32) if kind.tf32 else x).double()


def poison(C):
    C.fill_(math.nan if C.dtype.is_floating_point else -77)


def check_error(C, exact, kind, K):
    """No further from the exact result than its rounding, but for 5% and the accumulation."""
    assert bool(C.double().isfinite().all())
    norm = float(exact.norm())
    rounding = float((exact.to(kind.out).double() - exact).norm()) / norm
    error = float((C.double() - exact).norm()) / norm
    bound = 0 if kind.exact else 1.05 * rounding + kind.accumulation(K)
    assert error <= bound, f"relative error {error:.2e}, allowed {bound:.2e}, of rounding alone {rounding:.2e}"


def agree(name, M, N, K, orders="CCC", batches=(), *, alpha=1, beta=0, bias=None, residual=False, activation="none",
          reference=None, **options):
    """One launch on random-normal data against float64; ``bias`` is its dtype, ``reference`` of another activation."""
    kind = KINDS[name]
    if torch.cuda.get_device_capability() < divmod(kind.arch, 10):
        pytest.skip(f"{name} needs sm_{kind.arch}")
    torch.manual_seed(M + N + K)
    A, B = array((M, K, *batches), kind.operand, orders[0]), array((N, K, *batches), kind.operand, orders[1])
    C = array((M, N, *batches), kind.out, orders[2])
    exact = alpha * torch.einsum("mk...,nk...->mn...", seen(A, kind), seen(B, kind))
    if beta:
        exact = exact + beta * C.double()
    else:
        poison(C)
    if residual:
        options["residual"] = array((M, N, *batches), kind.out, orders[2])
        exact = exact + options["residual"].double()
    if bias is not None:
        options["bias"] = array((N, 1), bias, "F")[:, 0]
        exact = exact + options["bias"].double().reshape(1, N, *(1 for _ in batches))
    exact = (reference or ACTIVATIONS[activation])(exact)
    options["activation"] = activation
    assert gemm_sm80(A, B, C, alpha=alpha, beta=beta, **options) is C
    check_error(C, exact, kind, K)


@pytest.mark.parametrize(("size", "orders"), [(SIZES[i % len(SIZES)], ORDERS[i % len(ORDERS)]) for i in range(16)],
                         ids=str)
@pytest.mark.parametrize("name", HALVES)
def test_halves(name, orders, size):
    agree(name, *size, orders)


@pytest.mark.parametrize(("size", "orders"), [(size, ORDERS[3 * i % len(ORDERS)]) for i, size in enumerate(SIZES)],
                         ids=str)
@pytest.mark.parametrize("name", [name for name in KINDS if name not in HALVES])
def test_other_dtypes(name, orders, size):
    agree(name, *size, orders)


@pytest.mark.parametrize("name", KINDS)
def test_large(name):
    agree(name, 2048, 2048, 1024)
    agree(name, 2049, 2047, 1023, "FCF")


@pytest.mark.parametrize("orders", ["CCC", "FFF"])
@pytest.mark.parametrize("name", ["f16", "bf16", "tf32", "f64", "s8"])
def test_batches(name, orders):
    agree(name, 256, 128, 192, orders, (3,))
    agree(name, 65, 34, 50, orders, (2,))
    agree(name, 17, 9, 33, orders, (1,))


@pytest.mark.parametrize("splits", [1, 3, 8])
@pytest.mark.parametrize("name", ["f16", "bf16", "tf32", "f64", "s8"])
def test_splits(name, splits):
    agree(name, 64, 64, 512, splits=splits)
    agree(name, 33, 65, 391, "FCF", splits=splits)


@pytest.mark.parametrize(("scale", "orders"), [((2.0, 0), "CCC"), ((0.5, -2.0), "FCF"), ((0, 1.5), "CCC")], ids=str)
@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if not kind.exact])
def test_alpha_and_beta(name, orders, scale):
    alpha, beta = scale
    agree(name, 65, 66, 40, orders, alpha=alpha, beta=beta)


@pytest.mark.parametrize("scale", [(2, 0), (1, 1), (-3, 2)], ids=str)
@pytest.mark.parametrize("name", ["s8", "u8"])
def test_integers_are_scaled_exactly(name, scale):
    alpha, beta = scale
    agree(name, 65, 66, 40, alpha=alpha, beta=beta)


@pytest.mark.parametrize("activation", ["none", "relu", "gelu", "silu"])
@pytest.mark.parametrize("orders", ["CCC", "CCF"])
@pytest.mark.parametrize("name", [*HALVES, "tf32"])
def test_bias_and_activations(name, orders, activation):
    agree(name, 65, 66, 67, orders, activation=activation)
    agree(name, 512, 256, 64, orders, activation=activation, bias=KINDS[name].out)
    agree(name, 65, 66, 67, orders, activation=activation, bias=torch.float32)


@pytest.mark.parametrize("name", HALVES)
def test_everything_at_once(name):
    agree(name, 100, 72, 40, alpha=0.5, beta=0.25, bias=KINDS[name].out, residual=True, activation="gelu")
    agree(name, 65, 34, 50, "FCC", (2,), alpha=0.5, beta=0.25, bias=torch.float32, residual=True, activation="relu")
    agree(name, 48, 40, 300, "CCC", (2,), splits=3, alpha=0.5, beta=-2.0, residual=True, activation="silu")


def test_an_activation_of_ones_own():
    agree("f16", 65, 66, 40, activation=lambda x: mo.maximum(x, -1.0) * 2.0,
          reference=lambda x: x.clamp(min=-1) * 2)


def test_a_view_inside_a_larger_array_leaves_the_rest_alone():
    around = torch.randn(300, 400, device="cuda").half()
    before, C = around.clone(), around[3:132, 1:261:2]
    A, B = torch.randn(129, 71, device="cuda").half(), torch.randn(130, 71, device="cuda").half()
    poison(C)
    gemm_sm80(A, B, C)
    check_error(C, A.double() @ B.double().T, KINDS["f16"], 71)
    around[3:132, 1:261:2] = before[3:132, 1:261:2]
    assert torch.equal(around, before)


def test_a_refused_launch_writes_nothing():
    A, B = (torch.randn(16, 8, device="cuda").half() for _ in range(2))
    C = torch.full((16, 15), 7, device="cuda", dtype=torch.float16)
    with pytest.raises(mo.ArgumentError, match=r"are not .M, K., .N, K. and .M, N."):
        gemm_sm80(A, B, C)
    torch.cuda.synchronize()
    assert bool((C == 7).all())
