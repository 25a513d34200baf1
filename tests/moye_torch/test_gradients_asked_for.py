"""Each tensor that may ask for a gradient has one or is refused, nothing is kept that no gradient needs, and gradients
of all kinds arrive.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import moye.torch as mt  # noqa: E402
from moye.errors import ArgumentError, MoyeError  # noqa: E402
from operator_kernels import numbers  # noqa: E402
from shipped_operators import CASES, Place  # noqa: E402

LONG = ("attention", "linear", "linear_cross_entropy", "paged_attention")


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in CASES])
def test_a_gradient_or_a_refusal(name):
    op, arguments, _ = CASES[name](Place("cpu", torch.float32))
    for asking, x in enumerate(arguments):
        if not isinstance(x, torch.Tensor) or not x.is_floating_point():
            continue
        given = [x.detach().requires_grad_(i == asking and x.is_floating_point()) if isinstance(x, torch.Tensor) else x
                 for i, x in enumerate(arguments)]
        try:
            found = op(*given)
            ends = [y for y in (found if isinstance(found, tuple) else (found,)) if y.requires_grad]
            assert ends, f"no result of {name} depends on argument {asking}"
            first, = torch.autograd.grad(sum(y.double().sum() for y in ends), given[asking], allow_unused=True)
        except MoyeError:
            continue
        assert first is not None, f"argument {asking} of {name} has no gradient, in silence"


@pytest.mark.parametrize("which", ["cos", "sin"])
def test_tables_that_ask_for_a_gradient_are_refused(which):
    x = numbers(1, 3, 2, 8)
    tables = {name: numbers(3, 4, grad=name == which) for name in ("cos", "sin")}
    for way in (mt.rope, mt.rope.overload):
        with pytest.raises(ArgumentError, match=f"rope: {which} requires a gradient, and only that of x is computed"):
            way(x, *tables.values())
    with torch.no_grad():
        assert mt.rope(x, *tables.values()).shape == x.shape


def kept(op, *others):
    """Whether an operator keeps its first argument, which asks for a gradient."""
    x, seen = numbers(3, 8), []
    with torch.autograd.graph.saved_tensors_hooks(lambda y: seen.append(y.data_ptr()) or y, lambda y: y):
        return op(x, *others).requires_grad and x.data_ptr() in seen


@pytest.mark.parametrize(("op", "others", "needed"), [
    (mt.reduce, ("sum", -1), False), (mt.reduce, ("mean",), False), (mt.reduce, ("norm1", 0), True),
    (mt.reduce, ("max", -1), True), (mt.linear, (numbers(5, 8, grad=False),), False),
    (mt.linear, (numbers(5, 8),), True), (mt.cumsum, (), False), (mt.softmax, (), False), (mt.swiglu, (), True)])
def test_what_is_kept(op, others, needed):
    """As of torch's operators: the other operand of a frozen weight, and what was summed, may go."""
    assert kept(op, *others) == needed


@pytest.mark.parametrize("kind", ["sum", "mean"])
def test_sums_may_be_changed(kind):
    x = numbers(3, 8)
    middle = x * 1
    y = mt.reduce(middle, kind, 1)
    with torch.no_grad():
        middle.zero_()
    y.mul_(2)
    y.sum().backward()
    assert torch.allclose(x.grad, torch.full_like(x, 2 if kind == "sum" else 2 / 8))


def test_equals_beyond_float16():
    x = torch.zeros(70000, dtype=torch.float16, requires_grad=True)
    mt.reduce(x, "max").backward(torch.tensor(128.0, dtype=torch.float16))
    assert abs(float(x.grad.double().sum()) - 128) < 0.1


def test_a_small_scale_leaves_a_mask_its_gradient():
    """That of x is too small for float16."""
    x, mask = (numbers(4, 16).detach().half().requires_grad_() for _ in range(2))
    seed = numbers(4, 16).detach().half()
    mt.softmax(x, scale=1e-5, mask=mask).backward(seed)
    wide = mask.detach().double().requires_grad_()
    torch.softmax(x.detach().double() * 1e-5 + wide, -1).backward(seed.double())
    assert torch.allclose(mask.grad.double(), wide.grad, rtol=2e-3, atol=1e-4)


def test_gradients_of_conjugates():
    """They have their negation pending, which no kernel sees."""
    x, weights = numbers(3, 8), torch.complex(numbers(3, 8).detach(), numbers(8, 3).detach().t().contiguous())

    def ends(y):
        return (torch.complex(torch.zeros_like(y), y).conj() * weights).sum().real
    found, wanted = (torch.autograd.grad(ends(op(x)), x)[0] for op in (lambda x: mt.swiglu(x, x), lambda x: (
        torch.nn.functional.silu(x) * x)))
    assert torch.allclose(found, wanted)
