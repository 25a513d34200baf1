"""Softmax and the cross-entropies on the GPU: against float64, long rows in clusters, captured, compiled, asserts."""

from __future__ import annotations

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import moye.torch  # noqa: E402
from moye.kernels import cross_entropy, linear_cross_entropy, log_softmax, softmax, softmax_backward  # noqa: E402
from moye.torch.operators import softmax as operators  # noqa: E402
from operators import check_captured, check_compiled  # noqa: E402

BOUNDS = {torch.float32: 4e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def near(found, wanted, bound):
    scale = max(wanted.abs().max().item(), 1e-3)
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=bound * scale)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("rows, columns", [(1000, 8), (300, 301), (200, 1024), (300, 4096), (300, 4097), (64, 8192),
                                           (5, 65536), (9, 131072), (3, 262144), (3, 131077), (500, 65536),
                                           (300, 128256), (801, 24576)])
def test_softmax(rows, columns, dtype):
    x, dy = (torch.randn(rows, columns, device="cuda").to(dtype) for _ in range(2))
    out, dx = torch.full_like(x, torch.nan), torch.full_like(x, torch.nan)
    softmax(out, x, scale=0.5)
    near(out, torch.softmax(x.double() * 0.5, 1), BOUNDS[dtype])
    softmax_backward(dx, dy, out, scale=0.5)
    y = out.double()
    near(dx, y * (dy.double() - (y * dy.double()).sum(1, keepdim=True)) * 0.5, BOUNDS[dtype])
    log_softmax(out, x)
    near(out, torch.log_softmax(x.double(), 1), BOUNDS[dtype])


def test_softmax_of_attention_scores():
    """Four modes, a mask that is repeated, a causal edge, and a row of which nothing counts."""
    x = torch.randn(2, 3, 65, 130, device="cuda", dtype=torch.bfloat16)
    keep = torch.rand(2, 1, 1, 130, device="cuda") < 0.7
    keep[0] = False
    out = torch.full_like(x, torch.nan)
    softmax(out, x, mask=keep, causal=64)
    masked = x.double().masked_fill(~(keep & torch.ones(65, 130, dtype=torch.bool, device="cuda").tril(64)), -torch.inf)
    near(out, torch.softmax(masked, -1).nan_to_num(0.0), BOUNDS[torch.bfloat16])
    assert (out[0] == 0).all()


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("rows, columns", [(1000, 9), (200, 1000), (300, 4097), (128, 8192), (40, 128256), (3, 262144)])
def test_cross_entropy(rows, columns, dtype):
    x = torch.randn(rows, columns, device="cuda").to(dtype)
    labels = torch.randint(0, columns, (rows,), device="cuda")
    labels[0] = -100
    exact = x.double().requires_grad_()
    wanted = torch.nn.functional.cross_entropy(exact, labels, label_smoothing=0.1)
    gradient, = torch.autograd.grad(wanted, exact)
    loss, again, dx = (torch.full(shape, torch.nan, device="cuda") for shape in ((), (), x.shape))
    dx = dx.to(dtype)
    cross_entropy(loss, x, labels, dlogits=dx, label_smoothing=0.1)
    near(loss, wanted.detach(), 4e-6)
    near(dx * 1e3, gradient * 1e3, BOUNDS[dtype])
    cross_entropy(again, x, labels, dlogits=x, label_smoothing=0.1)     # over the logits, the same bits
    assert torch.equal(again, loss) and torch.equal(x, dx)


@pytest.mark.parametrize("rows, columns, dtype", [(401, 65536, torch.bfloat16), (233, 128256, torch.float16),
                                                  (233, 131072, torch.float32), (803, 24576, torch.bfloat16)])
def test_cross_entropy_of_many_long_rows(rows, columns, dtype):
    """Rows that come by bulk copies; the gradient over the logits has the same bits."""
    x, labels = torch.randn(rows, columns, device="cuda").to(dtype), torch.randint(0, columns, (rows,), device="cuda")
    labels[3] = -100
    exact = x.double().requires_grad_()
    wanted = torch.nn.functional.cross_entropy(exact, labels, reduction="none")
    gradient, = torch.autograd.grad(wanted.sum(), exact)
    loss, dx = torch.full((rows,), torch.nan, device="cuda"), torch.full_like(x, torch.nan)
    cross_entropy(loss, x, labels, dlogits=dx, reduction="none")
    near(loss, wanted.detach(), 4e-6)
    near(dx, gradient, BOUNDS[dtype])
    cross_entropy(loss, x, labels, dlogits=x, reduction="none")
    assert torch.equal(x, dx)


@pytest.mark.parametrize("tokens, hidden, columns, chunk", [(300, 256, 5000, 128), (1000, 512, 32003, None)])
def test_linear_cross_entropy(tokens, hidden, columns, chunk):
    x, W = (torch.randn(shape, device="cuda").bfloat16() for shape in ((tokens, hidden), (columns, hidden)))
    W = W / hidden ** 0.5
    labels = torch.randint(0, columns, (tokens,), device="cuda")
    labels[::7] = -100
    exact = [t.double().requires_grad_() for t in (x, W)]
    wanted = torch.nn.functional.cross_entropy(exact[0] @ exact[1].T, labels)
    gradients = torch.autograd.grad(wanted, exact)
    loss, alone = (torch.zeros((), device="cuda") for _ in range(2))
    dx, dW = torch.full_like(x, torch.nan), torch.full_like(W, torch.nan)
    linear_cross_entropy(loss, x, W, labels, dx=dx, dW=dW, chunk=chunk)
    linear_cross_entropy(alone, x, W, labels)                           # without logits in memory
    near(loss, wanted.detach(), 1e-3)
    near(alone, wanted.detach(), 1e-5)
    for found, exactly in zip((dx, dW), gradients, strict=True):
        assert torch.linalg.norm(found.double() - exactly) < 1e-2 * torch.linalg.norm(exactly)


def test_memory_of_linear_cross_entropy():
    """The forward pass has 8 bytes for each 256 logits; gradients one chunk of logits, and where products meet."""
    x, W = (torch.randn(shape, device="cuda").bfloat16() for shape in ((4096, 512), (32768, 512)))
    labels, loss = torch.randint(0, 32768, (4096,), device="cuda"), torch.zeros((), device="cuda")
    dx, dW = torch.empty_like(x), torch.empty_like(W)
    for gradients, most in (({}, 8 << 20), ({"dx": dx, "dW": dW}, (1024 * 32768 * 2) + (64 << 20))):
        linear_cross_entropy(loss, x, W, labels, **gradients)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        linear_cross_entropy(loss, x, W, labels, **gradients)
        torch.cuda.synchronize()
        assert torch.cuda.max_memory_allocated() - before <= most


def cuda(*shape, dtype=torch.float32):
    return torch.randn(shape, device="cuda").to(dtype).requires_grad_()


def test_operators_are_captured_and_compiled():
    labels = torch.randint(0, 500, (64,), device="cuda")
    for op, arguments in ((operators._softmax, (cuda(64, 500), None, -1, 1.0, None, False)),
                          (operators._cross_entropy, (cuda(64, 500), labels, None, "mean", -100, 0.0, 0.0))):
        check_captured(op, arguments)
        check_compiled(op, arguments, backend="inductor")
    x, weight = cuda(64, 128, dtype=torch.bfloat16), cuda(500, 128, dtype=torch.bfloat16)
    check_captured(lambda *args: moye.torch.linear_cross_entropy(*args, labels), (x, weight))


WRONG = """
import torch
from moye.kernels import cross_entropy
loss, x = torch.zeros(4, device="cuda"), torch.randn(4, 7, device="cuda")
cross_entropy(loss, x, torch.tensor([1, 2, 7, 3], device="cuda"), reduction="none")
torch.cuda.synchronize()
print(loss.isnan().tolist())
"""


@pytest.mark.parametrize("asserts", ["0", "1"])
def test_labels_that_are_no_columns(asserts, monkeypatch):
    """NaN in their rows; with asserts the device stops, so it is in a process of its own."""
    monkeypatch.setenv("MOYE_ASSERT", asserts)
    done = subprocess.run([sys.executable, "-c", WRONG], capture_output=True, text=True, timeout=120)
    if asserts == "0":
        assert done.stdout.strip() == "[False, False, True, False]", done.stderr
    else:
        assert done.returncode != 0 and "[False" not in done.stdout     # what is printed may be lost with the context
