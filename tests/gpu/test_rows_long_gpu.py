"""Long rows on the GPU against float64: drawn extents, strides and dtypes of what comes by bulk copies, and beyond."""

from __future__ import annotations

import math
import random

import pytest

torch = pytest.importorskip("torch")

from moye.kernels import (  # noqa: E402
    cross_entropy,
    layer_norm,
    layer_norm_backward,
    log_softmax_backward,
    rms_norm,
    rms_norm_backward,
    softmax,
    softmax_backward,
)
from moye.kernels.rows.arrays import Rows  # noqa: E402

BOUND = {torch.float32: 2e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}
SEEDS = range(16)


class Long:
    """Arrays of one drawn shape: rows of 16384 to 262144 columns, at every alignment, some in wider arrays."""

    def __init__(self, seed):
        rng = random.Random(seed)
        step = rng.choice((128, 8, 1))
        self.columns = max(1, round(math.exp(rng.uniform(math.log(1 << 14), math.log(1 << 18))) / step)) * step
        self.rows = rng.choice((7, (1 << 25) // self.columns, (1 << 25) // self.columns))
        self.pad, self.dtype = rng.choice((0, 0, 1, 8)), rng.choice(list(BOUND))
        torch.manual_seed(seed)

    def array(self):
        """Random-normal numbers of this shape."""
        whole = torch.randn(self.rows, self.columns + self.pad, device="cuda").to(self.dtype)
        return whole[:, :self.columns]

    def empty(self):
        """The same, poisoned."""
        return self.array().fill_(torch.nan)

    def close(self, found, want):
        bound = BOUND[found.dtype]
        torch.testing.assert_close(found.double(), want, rtol=bound, atol=bound * want.abs().max().item())


def test_they_come_by_bulk_copies():
    """Most of the drawn ones."""
    drawn = [Long(seed) for seed in SEEDS]
    plans = [Rows("", one.array()).plan(held=2, sums=1, ahead=1) for one in drawn]
    assert sum(plan.stages > 0 for plan in plans) >= len(drawn) // 2


@pytest.mark.parametrize("seed", SEEDS)
def test_norms(seed):
    """A sum that is normed, all gradients, dx over dout; twice the same bits."""
    one, centred = Long(seed), bool(seed % 2)
    x, residual, dout, dsummed = (one.array() for _ in range(4))
    weight = torch.randn(one.columns, device="cuda").to(one.dtype)
    out, summed, dx = (one.empty() for _ in range(3))
    rstd, mean = (torch.full((one.rows,), torch.nan, device="cuda") for _ in range(2))
    (layer_norm if centred else rms_norm)(out, x, weight, eps=1e-3, residual=residual, summed=summed, rstd=rstd,
                                          **({"mean": mean} if centred else {}))
    h = (x.float() + residual.float()).to(x.dtype).double()
    middle = h.mean(-1, keepdim=True) if centred else 0
    scale = torch.rsqrt((h - middle).square().mean(-1, keepdim=True) + 1e-3)
    hat, g = (h - middle) * scale, dout.double()
    assert torch.equal(summed.double(), h)
    one.close(out, hat * weight.double())
    one.close(rstd, scale[:, 0])
    inner = g * weight.double()
    want = scale * (inner - (inner.mean(-1, keepdim=True) if centred else 0)
                    - hat * (inner * hat).mean(-1, keepdim=True)) + dsummed.double()
    backward = layer_norm_backward if centred else rms_norm_backward
    found = []
    for target in (dx, dout):
        dweight, dbias = (torch.full((one.columns,), torch.nan, device="cuda") for _ in range(2))
        sums = {"dweight": dweight, **({"dbias": dbias} if centred else {})}
        backward(target, dout, summed, weight, rstd, *([mean] if centred else []), dsummed=dsummed, **sums)
        found.append([target, *sums.values()])
    one.close(dx, want)
    for got, total in zip(found[0][1:], ((g * hat).sum(0), g.sum(0)), strict=False):
        one.close(got, total)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_softmax_and_cross_entropy(seed):
    """Gradients of both, that of cross-entropy over its logits; labels at the ends of rows, and one that is ignored."""
    one = Long(100 + seed)
    x, dy, y, dx = one.array(), one.array(), one.empty(), one.empty()
    want = torch.softmax(x.double(), -1)
    softmax(y, x)
    one.close(y, want)
    wide, upper = y.double(), dy.double()
    softmax_backward(dx, dy, y)
    one.close(dx, wide * (upper - (wide * upper).sum(-1, keepdim=True)))
    logs = torch.log_softmax(x.double(), -1).to(x.dtype)
    log_softmax_backward(dx, dy, logs)
    one.close(dx, upper - logs.double().exp() * upper.sum(-1, keepdim=True))
    labels = torch.randint(one.columns, (one.rows,), device="cuda")
    labels[:5] = torch.tensor([0, 1, one.columns - 1, one.columns - 2, -100], device="cuda")
    loss, lse = (torch.full((one.rows,), torch.nan, device="cuda") for _ in range(2))
    wide = torch.logsumexp(x.double(), -1)
    told = wide - x.double().gather(1, labels.clamp(min=0)[:, None])[:, 0]
    gradient = want.scatter_add(1, labels.clamp(min=0)[:, None], -torch.ones_like(want[:, :1]))
    told[4], gradient[4] = 0, 0
    cross_entropy(loss, x, labels, lse=lse, dlogits=x, reduction="none")
    torch.testing.assert_close(loss.double(), told, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(lse.double(), wide, rtol=1e-5, atol=1e-5)
    one.close(x, gradient)
    for each in (x, gradient):                          # what is not the label's is far smaller
        each.scatter_(1, labels.clamp(min=0)[:, None], 0)
    one.close(x, gradient)
