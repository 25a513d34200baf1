"""``moye.torch.rms_norm`` and ``layer_norm``: all that an operator has to be, against torch in float64."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import moye.torch  # noqa: E402
from moye.errors import ArgumentError, UnsupportedError  # noqa: E402
from moye.torch.operators.norms import _norm, _norm_backward, _norm_fp8  # noqa: E402
from operators import check_compiled, check_fake, check_one_graph, check_operator, check_reference  # noqa: E402

SHAPE = (3, 2, 20)


def operands(shape=SHAPE, dtype=torch.float64, grad=True):
    """x, weight, bias, residual."""
    generator = torch.Generator().manual_seed(sum(shape))
    return [torch.randn(each, generator=generator, dtype=torch.float64).to(dtype).requires_grad_(grad)
            for each in (shape, shape[-1:], shape[-1:], shape)]


def called(x, weight, bias, residual, centred=False, offset=0.0):
    function = moye.torch.layer_norm if centred else moye.torch.rms_norm
    return function(x, weight, bias, 0.01, residual=residual, offset=offset)


def reference(x, weight, bias, residual, centred=False, offset=0.0):
    h = x if residual is None else x + residual
    inner = h - h.mean(-1, keepdim=True) if centred else h
    out = inner * torch.rsqrt(inner.square().mean(-1, keepdim=True) + 0.01)
    out = out if weight is None else out * (weight + offset)
    out = out if bias is None else out + bias
    return out if residual is None else (out, h)


@pytest.mark.parametrize("centred", [False, True])
def test_all_of_it(centred):
    x, weight, bias, residual = operands()
    check_operator(called, (x, weight, bias, residual, centred, 1.0), reference)
    torch.library.opcheck(_norm.overload, (x, weight, bias, residual, 0.01, 0.0, centred))
    given = [t.detach() for t in operands()]
    rstd = torch.rand(SHAPE[:-1], dtype=torch.float64)
    mean = torch.rand(SHAPE[:-1], dtype=torch.float64) if centred else rstd.new_empty(0)
    torch.library.opcheck(_norm_backward.overload, (given[0], given[3], given[1], rstd, mean, given[3], 0.0, centred,
                                                    True, torch.float64))


@pytest.mark.parametrize("left_out", [(1,), (2,), (3,), (1, 2, 3)])
@pytest.mark.parametrize("centred", [False, True])
def test_options(left_out, centred):
    arguments = [None if i in left_out else t for i, t in enumerate(operands((4, 33)))]
    check_reference(called, (*arguments, centred), reference)
    check_fake(called, (*arguments, centred))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dtypes(dtype):
    check_reference(called, (*operands((5, 64), dtype)[:2], None, None), reference)


def test_weights_of_another_dtype():
    x, weight, bias, residual = operands((4, 32), torch.bfloat16)
    weight = weight.detach().float().requires_grad_()
    out, summed = called(x, weight, bias, residual)
    (out.sum() + summed.sum()).backward()
    assert [t.grad.dtype for t in (x, weight, bias, residual)] == [torch.bfloat16, torch.float32] + 2 * [torch.bfloat16]


def test_gradients_of_some():
    """Only the weight, or only the residual through the sum."""
    for wanted in range(4):
        arguments = [t.detach().requires_grad_(i == wanted) for i, t in enumerate(operands((4, 12)))]
        check_reference(called, (*arguments, True), reference)


def test_torchs_own():
    x, weight, bias, _ = operands((6, 40), torch.float32)
    own = torch.nn.functional
    torch.testing.assert_close(moye.torch.layer_norm(x, weight, bias), own.layer_norm(x, (40,), weight, bias))
    torch.testing.assert_close(moye.torch.rms_norm(x, weight), own.rms_norm(x, (40,), weight, 1e-6))


@pytest.mark.parametrize("shape", [(0, 8), (3, 0), (5,)])
def test_edges(shape):
    check_reference(called, (*operands(shape)[:3], None), reference)


def test_strides_and_graphs():
    x, weight, bias, _ = operands((12, 10))
    check_compiled(called, (x.detach().t().requires_grad_(), weight.detach().new_ones(12), None, None))
    calls = [(x.detach()[:rows].clone().requires_grad_(), weight, bias, None) for rows in (5, 7, 12)]
    check_one_graph(called, calls, backward=True)


def test_refused():
    x, weight, _, _ = operands((4, 8))
    with pytest.raises(ArgumentError, match=r"rms_norm: weight has shape \(4,\), and must have \(8,\)"):
        moye.torch.rms_norm(x, weight[:4])
    with pytest.raises(ArgumentError, match="layer_norm: x holds int64"):
        moye.torch.layer_norm(x.detach().long())
    out = moye.torch.rms_norm(x, weight)
    first, = torch.autograd.grad(out.sum(), x, create_graph=True)
    with pytest.raises(Exception, match="is not differentiable"):
        first.sum().backward()


@pytest.mark.parametrize("by_block", [False, True])
@pytest.mark.parametrize("centred", [False, True])
def test_eight_bits(centred, by_block):
    """The factors are the largest magnitudes / 448; the results times them are near, and the sum is the same."""
    x, weight, bias, residual = operands((5, 300), torch.bfloat16, grad=False)
    function = moye.torch.layer_norm_fp8 if centred else moye.torch.rms_norm_fp8
    out, scale, summed = function(x, weight, bias, 0.01, residual=residual, by_block=by_block)
    wanted, h = reference(x.double(), weight.double(), bias.double(), (x + residual).double() - x.double(), centred)
    assert torch.equal(summed.double(), h) and out.dtype == torch.float8_e4m3fn
    parts = [wanted] if not by_block else wanted.split(128, 1)
    largest = torch.stack([part.abs().amax(1) for part in parts], 1)
    largest = largest if by_block else largest[:, 0]
    torch.testing.assert_close(scale.double(), largest / 448, rtol=1e-4, atol=0)
    factors = scale.repeat_interleave(128, 1)[:, :300] if by_block else scale[:, None]
    assert ((out.double() * factors - wanted).abs() <= wanted.abs() / 16 + factors * 2.0 ** -9).all()
    torch.library.opcheck(_norm_fp8.overload, (x, weight, bias, residual, 0.01, 0.0, centred, by_block))


def test_eight_bits_at_the_edges():
    assert moye.torch.rms_norm_fp8(torch.zeros(3, 0))[1].tolist() == [0, 0, 0]
    out, scale = moye.torch.rms_norm_fp8(torch.zeros(2, 8), by_block=True)
    assert scale.tolist() == [[0], [0]] and (out.float() == 0).all()
    x = torch.ones(2, 8, requires_grad=True)
    with pytest.raises(UnsupportedError, match="norm_fp8"):
        moye.torch.rms_norm_fp8(x)[1].sum().backward()
