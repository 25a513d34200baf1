"""``moye.torch.softmax``, ``log_softmax`` and the cross-entropies: all that operators have to be."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import moye.torch  # noqa: E402
from moye.errors import ArgumentError, UnsupportedError  # noqa: E402
from moye.torch.operators import softmax as operators  # noqa: E402
from operators import check_one_graph, check_operator, check_reference  # noqa: E402


def drawn(*shape, dtype=torch.float64, grad=True):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_(grad)


def exact(x, mask, dim, scale, causal, log):
    x = x * scale
    if mask is not None:
        x = torch.where(mask, x, -torch.inf) if mask.dtype == torch.bool else x + mask
    if causal is not None:
        x = torch.where(torch.ones(x.shape[-2:], dtype=torch.bool).tril(causal), x, -torch.inf)
    return torch.log_softmax(x, dim) if log else torch.softmax(x, dim)


@pytest.mark.parametrize("arguments", [
    (drawn(2, 3, 6), drawn(3, 1), 1, 0.5, None, True),
    (drawn(2, 4, 4).transpose(0, 1).detach().requires_grad_(), None, -1, 2.0, 1, False)], ids=["log", "causal"])
def test_softmax(arguments):
    check_operator(operators._softmax, arguments, exact)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_softmax_of_dtypes(dtype):
    keep = torch.rand(5, 40, generator=torch.Generator().manual_seed(0)) < 0.7
    check_reference(operators._softmax, (drawn(5, 40, dtype=dtype), keep, -1, 1.5, None, False), exact)


def test_softmax_of_one_number():
    x = drawn().requires_grad_()
    assert moye.torch.softmax(x) == 1 and moye.torch.log_softmax(x) == 0
    moye.torch.softmax(x).backward()
    assert x.grad == 0
    assert moye.torch.softmax(torch.tensor(torch.nan)).isnan()
    assert moye.torch.log_softmax(torch.tensor(torch.inf)).isnan()
    assert moye.torch.softmax(x, mask=torch.tensor(False)) == 0
    assert moye.torch.softmax(x, 0, mask=torch.tensor(2.0)) == 1
    with pytest.raises(ArgumentError, match="axis=5 is none of the 1 modes"):
        moye.torch.softmax(x, 5)
    with pytest.raises(ArgumentError, match=r"mask has shape \(3,\), which is not repeated to \(\)"):
        moye.torch.softmax(x, mask=torch.ones(3))


def losses(logits, labels, weight, reduction, ignored, smoothing, z):
    lse = torch.logsumexp(logits, -1)
    found = torch.nn.functional.cross_entropy(logits, labels, weight, ignore_index=ignored, label_smoothing=smoothing,
                                              reduction=reduction)
    counts = labels != ignored
    squares = z * lse ** 2 * counts
    total = squares if reduction == "none" else squares.sum() / (counts.sum() if reduction == "mean" else 1)
    return found + total, lse.detach()


LABELS = torch.tensor([1, -100, 0, 6])


@pytest.mark.parametrize("options", [("mean", -100, 0.1, 1e-2), ("none", 0, 0.0, 1e-2)])
def test_cross_entropy(options):
    labels = torch.where(LABELS == -100, options[1], LABELS)
    check_operator(operators._cross_entropy, (drawn(4, 7), labels, None, *options), losses)


def test_cross_entropy_of_weights_and_dtypes():
    weight = drawn(7, grad=False).abs()
    check_reference(operators._cross_entropy, (drawn(4, 7), LABELS, weight, "mean", -100, 0.0, 0.0), losses)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        arguments = (drawn(4, 7, dtype=dtype), LABELS, None, "mean", -100, 0.1, 0.0)
        check_reference(operators._cross_entropy, arguments, losses, tolerance=2e-2)
        assert moye.torch.cross_entropy(arguments[0], LABELS).dtype == torch.float32


def product(x, weight, labels, reduction="mean", ignored=-100, smoothing=0.0, z=0.0, chunk=None):
    return losses(x @ weight.T, labels, None, reduction, ignored, smoothing, z)[0]


def by_name(x, weight, labels, reduction="mean", ignored=-100, smoothing=0.0, z=0.0, chunk=None):
    return moye.torch.linear_cross_entropy(x, weight, labels, reduction=reduction, ignore_index=ignored,
                                           label_smoothing=smoothing, z_loss=z, chunk=chunk)


def test_linear_cross_entropy():
    check_operator(by_name, (drawn(4, 6), drawn(7, 6), LABELS, "mean", -100, 0.1, 1e-2, 2), product)


def test_linear_cross_entropy_of_each_token():
    check_reference(by_name, (drawn(4, 6), drawn(7, 6), LABELS, "none", -100, 0.1, 1e-2, 2), product)


def test_linear_cross_entropy_passes_opcheck():
    arguments = (drawn(4, 6), drawn(7, 6), LABELS, "sum", -100, 0.0, 0.0, None, True, True)
    torch.library.opcheck(operators._linear_cross_entropy.overload, arguments, raise_exception=True)


def test_gradients_of_what_asks_for_them():
    x, weight = drawn(4, 6), drawn(7, 6, grad=False)
    (2 * moye.torch.linear_cross_entropy(x, weight, LABELS)).backward()
    wanted = torch.autograd.grad(2 * product(x, weight, LABELS), x)[0]
    assert weight.grad is None and torch.allclose(x.grad, wanted)


@pytest.mark.parametrize("dtype, scale", [(torch.float16, 65536.0), (torch.bfloat16, 3.00585)])
def test_scaled_losses(dtype, scale):
    """The factor of a loss keeps its own dtype: it may be beyond float16, and has more digits than bfloat16."""
    operands = drawn(4, 6, dtype=dtype), drawn(7, 6, dtype=dtype)
    loss = moye.torch.linear_cross_entropy(*operands, LABELS, reduction="mean")
    plain = torch.autograd.grad(loss, operands, retain_graph=True)
    for found, one in zip(torch.autograd.grad(scale * loss, operands), plain, strict=True):
        assert found.equal((one.float() * scale).to(dtype))


def test_autocast():
    x, weight = drawn(16, 32, dtype=torch.float32), drawn(24, 32, dtype=torch.float32)
    labels = torch.arange(16)
    with torch.autocast("cpu", torch.bfloat16):
        loss = moye.torch.linear_cross_entropy(x, weight, labels)
    loss.backward()
    assert loss.dtype == x.grad.dtype == weight.grad.dtype == torch.float32
    wanted = torch.autograd.grad(product(x, weight, labels), x)[0]
    assert (x.grad - wanted).abs().max() < 2e-2 * wanted.abs().max()


def test_one_graph_for_all_shapes():
    check_one_graph(operators._softmax, [(drawn(rows, 8), None, -1, 1.0, None, False) for rows in (6, 9, 12)],
                    backward=True)
    calls = [(drawn(rows, 8), torch.arange(rows) % 8, None, "mean", -100, 0.0, 0.0) for rows in (6, 9, 12)]
    check_one_graph(operators._cross_entropy, calls, backward=True)


def test_refused():
    with pytest.raises(ArgumentError, match=r"scale=0\.0, and must be a number above 0"):
        moye.torch.softmax(drawn(2, 3), scale=0.0)
    with pytest.raises(ArgumentError, match="labels has shape"):
        moye.torch.cross_entropy(drawn(4, 7), LABELS[:3])
    x = drawn(2, 3)
    first, = torch.autograd.grad(moye.torch.softmax(x).square().sum(), x, create_graph=True)
    with pytest.raises(UnsupportedError, match="the backward of moye::softmax is not differentiable"):
        first.sum().backward()


def test_a_loss_scale_reaches_gradients_in_float16():
    """Their parts, 1e-5 of the loss and less, would be lost if they were rounded before it."""
    rows, columns, hidden, scale = 128, 3000, 8, 2.0**16
    x, weight = torch.randn(rows, hidden).half(), (torch.randn(columns, hidden) * 0.05).half()
    labels = torch.randint(0, 50, (rows,))
    labels[::7] = -100

    def gradients(loss, dtype, reduction):
        given = [t.to(dtype, copy=True).requires_grad_() for t in (x, weight)]
        (loss(*given, labels, reduction=reduction) * scale).backward()
        return [t.grad.double() for t in given]

    def plain(x, weight, labels, reduction):
        return torch.nn.functional.cross_entropy(x @ weight.T, labels, reduction=reduction)

    for reduction in ("mean", "sum"):
        wanted = gradients(plain, torch.float64, reduction)
        found = gradients(moye.torch.linear_cross_entropy, torch.float16, reduction)
        pairs = (found[1][50:], wanted[1][50:]), *(zip(found, wanted, strict=True) if reduction == "mean" else ())
        assert all((a - b).norm() < 1e-3 * b.norm() for a, b in pairs)
