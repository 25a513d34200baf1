"""``moye.torch.linear``: forward and backward by ``gemm``."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import moye.torch  # noqa: E402
from moye.errors import ArgumentError  # noqa: E402
from moye.torch.operators.linear import _linear  # noqa: E402
from operators import check_compiled, check_fake, check_one_graph, check_operator, check_reference  # noqa: E402


def operands(x, N, dtype=torch.float64, bias=True, grad=True):
    generator = torch.Generator().manual_seed(sum(x) + N)
    shapes = [x, (N, x[-1]), *([(N,)] if bias else [])]
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_(grad)
            for shape in shapes]


def reference(x, weight, bias=None, activation="none", tf32=False):
    found = torch.nn.functional.linear(x, weight, bias)
    return found if activation == "none" else getattr(torch.nn.functional, activation)(found)


def plain(x, weight, bias=None, activation="none", tf32=False):
    return reference(x, weight, bias)


def test_all_of_it():
    check_operator(_linear, (*operands((3, 5, 7), 9), "none", False), plain, twice=True)


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
@pytest.mark.parametrize("grad", [False, True])
def test_activations(activation, grad):
    check_reference(moye.torch.linear, (*operands((13, 8), 10, grad=grad), activation), reference)


def test_an_activation_in_a_graph():
    check_compiled(moye.torch.linear, (*operands((13, 8), 10), "gelu"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dtypes(dtype):
    arguments = operands((24, 16), 40, dtype)
    check_reference(moye.torch.linear, arguments, reference)
    check_fake(moye.torch.linear, arguments)
    check_reference(moye.torch.linear, arguments[:2], reference)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (4,), (2, 0, 4)])
def test_edges(shape):
    check_reference(moye.torch.linear, operands(shape, 6), reference)


def test_one_graph_for_all_shapes():
    calls = [(*operands((rows, 8), 10), "none", False) for rows in (6, 9, 12)]
    check_one_graph(_linear, calls, backward=True)


def test_autocast():
    x, weight, bias = operands((4, 16), 8, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = moye.torch.linear(x, weight, bias)
    assert found.dtype == torch.bfloat16
    found.sum().backward()
    assert x.grad.dtype == torch.float32
    wanted = reference(*(y.to(torch.bfloat16).double() for y in (x, weight, bias)))
    assert torch.allclose(found.double(), wanted, rtol=1e-2, atol=1e-1)


@pytest.mark.parametrize(("change", "told"), [
    (lambda x, w, b: (x, w[:, :3], b), r"\(4, 8\) and \(6, 3\)"),
    (lambda x, w, b: (x, w, b[:2]), r"bias has shape \(2,\), and weight has 6 rows"),
    (lambda x, w, b: (x.float(), w, b), "of one dtype of floating point, not torch.float32, torch.float64"),
    (lambda x, w, b: (x, w, b, "swish"), "no activation 'swish'; there are none, relu"),
])
def test_refused(change, told):
    with pytest.raises(ArgumentError, match=told):
        moye.torch.linear(*change(*operands((4, 8), 6)))
