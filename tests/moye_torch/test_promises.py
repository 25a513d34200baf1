"""What a graph believes of an operator is looked at: what it writes, and that its results have memory of their own."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

import moye as mo  # noqa: E402
from moye.errors import ArgumentError  # noqa: E402
from moye.torch import op  # noqa: E402


@mo.kernel
def copy_kernel(out, x):
    i = mo.thread_idx().x
    if i < mo.size(out):
        out[i] = x[i]


def copy(out, x):
    copy_kernel[1, 32](out, x)
    return out


x = torch.arange(8.0)
WAYS = {"alone": lambda f, *args: f(*args), "with a gradient": lambda f, *args: f(*args),
        "by the dispatcher": lambda f, *args: f.overload(*args),
        "in a graph": lambda f, *args: torch.compile(f, fullgraph=True, backend="aot_eager")(*args)}


@pytest.mark.parametrize("way", WAYS)
def test_a_write_that_is_not_named_is_refused(way):
    """A graph leaves the call out where nobody uses its result, and the argument would stay as it was."""
    @op("testing::writes_in_secret")
    def secret(x: Tensor, others: list[Tensor]) -> Tensor:
        copy(others[1], x)
        return x.clone()
    tracked = x.clone().requires_grad_(way == "with a gradient")
    with pytest.raises(ArgumentError, match="secret writes argument 'others', which mutates does not name"):
        WAYS[way](secret, tracked, [x.clone(), torch.zeros(8)])


def test_an_argument_may_share_memory_with_a_named_one():
    @op("testing::writes_beside", mutates=("out",))
    def beside(out: Tensor, x: Tensor) -> None:
        copy(out, x)
    for way in (beside, beside.overload):
        whole = torch.arange(16.0)
        way(whole[:8], whole[8:])
        assert whole[:8].equal(whole[8:])


RESULTS = {"the same twice": lambda z: (z, z), "a view": lambda z: (z, z.view(-1)),
           "rows of it": lambda z: (z[:5], z[4:]), "rows that are apart": lambda z: (z[:4], z[4:])}


@pytest.mark.parametrize("kind", RESULTS)
@pytest.mark.parametrize("way", ["alone", "by the dispatcher"])
def test_results_that_share_memory_are_refused(way, kind):
    @op("testing::two_of_one")
    def two(x: Tensor) -> tuple[Tensor, Tensor]:
        return RESULTS[kind](copy(torch.empty_like(x), x))
    for _ in range(2):
        with pytest.raises(ArgumentError, match="two_of_one returns results that share memory"):
            WAYS[way](two, x)


def test_what_neither_returns_nor_writes_is_refused():
    with pytest.raises(ArgumentError, match="testing::silent returns nothing and writes nothing"):
        @op("testing::silent")
        def silent(x: Tensor) -> None:
            copy(x, x)


def test_graphs_have_the_last_backward_and_fake():
    @op("testing::changed")
    def changed(x: Tensor) -> Tensor:
        return copy(torch.empty_like(x), x)
    compiled = torch.compile(changed, fullgraph=True, backend="aot_eager")
    for times in (2.0, 3.0):
        changed.backward(lambda ctx, gradient, times=times: gradient * times)
        tracked = x.clone().requires_grad_()
        compiled(tracked).sum().backward()
        assert tracked.grad.equal(torch.full((8,), times))
    for shape in ((8,), (9,)):
        changed.fake(lambda x, shape=shape: x.new_empty(shape))
        compiled = torch.compile(lambda x: changed(x).shape, fullgraph=True, backend="eager")
        assert tuple(compiled(x)) == shape


def test_lists_with_gaps_that_require_grad():
    @op("testing::written_of_some", schema="(Tensor(a!) out, Tensor?[] xs) -> Tensor")
    def some(out, xs):
        return copy(out, xs[0]).clone()
    for way in (some, some.overload):
        assert way(torch.zeros(8), [x, None]).equal(x)
    with pytest.raises(ArgumentError, match="argument 'xs' requires grad"):
        some(torch.zeros(8), [x.clone().requires_grad_(), None])


def test_errors_of_python_name_the_operator():
    @op("testing::named")
    def named(x: Tensor, times: float = 1.0) -> Tensor:
        return x * times
    with pytest.raises(TypeError, match=r"testing::named\(\) got an unexpected keyword argument 'time'"):
        named(x, time=2.0)
