"""``moye.torch.op``: what it registers, which way calls go, and what is refused."""

from __future__ import annotations

import copy
import pickle
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import moye as mo  # noqa: E402
from moye.errors import ArgumentError, UnsupportedError  # noqa: E402
from moye.torch import calls, op  # noqa: E402
from operator_kernels import (  # noqa: E402
    add_kernel,
    keep_alpha,
    multiply_into,
    numbers,
    parts,
    scaled_add,
    square,
)
from operators import (  # noqa: E402
    check_compiled,
    check_one_graph,
    check_operator,
    check_reference,
    outcome,
    same,
)


def test_all_of_it():
    check_operator(scaled_add, (numbers(3, 50), numbers(3, 50), 0.5), lambda x, y, alpha: x + alpha * y, twice=True)


def test_float32_of_other_strides():
    x, y = numbers(5, 7, dtype=torch.float32).t().detach().requires_grad_(), numbers(7, 5, dtype=torch.float32)
    check_reference(scaled_add, (x, y, 2.0), lambda x, y, alpha: x + alpha * y)


@pytest.mark.parametrize("grad", [False, True])
def test_one_graph_for_all_shapes(grad):
    calls = [(numbers(rows, 50, grad=grad), numbers(rows, 50, grad=grad), 2.0) for rows in (3, 4, 7, 40)]
    check_one_graph(scaled_add, calls, backward=grad)
    with pytest.raises(Exception, match=r"[Rr]ecompil"):
        check_one_graph(lambda x: x * x.shape[0] if x.shape[0] > 3 else x, [(numbers(n),) for n in (3, 4)])


def test_many_kinds_of_arguments():
    xs = [numbers(6, dtype=torch.float32, grad=False) for _ in range(3)]
    check_operator(parts, (xs, 4, True, "a", torch.float64),
                   lambda xs, of, negate, name, dtype: (-sum(xs), torch.zeros(of, dtype=torch.float64)))
    for way in (parts, parts.overload, torch.compile(parts, fullgraph=True, backend="eager")):
        assert [x.dtype for x in way(xs, 4)] == [torch.float32, torch.float32]
    assert str(parts.schema) == ("(Tensor[] xs, SymInt of, bool negate=False, str name=\"\", ScalarType dtype=float32) "
                                 "-> (Tensor, Tensor)")


def test_the_in_place_variant():
    x = numbers(20, grad=False)
    check_operator(multiply_into, (torch.ones_like(x), x, x))
    assert square(x).equal(x * x)
    out = torch.ones(20, dtype=torch.float64)
    before = out._version
    multiply_into(out, x, x, times=2)
    assert out.allclose(1 + 2 * x * x) and out._version == before + 2

    def into_a_view(x):
        whole = torch.zeros(40, dtype=x.dtype)
        multiply_into(whole[20:], x, x)
        return whole * 1
    check_compiled(into_a_view, (x,))
    assert into_a_view(x)[20:].equal(x * x)


def test_counters_advance_whoever_writes():
    """Once, if a launch or torch has not done so: autograd must see that what it saved has changed."""
    @op("testing::by_numpy", mutates=("outs", "x"))
    def by_numpy(outs: list[Tensor], x: Tensor | None) -> None:
        outs[0].numpy()[...] = 3
        outs[1].fill_(3)
    for way in (by_numpy, by_numpy.overload):
        outs, scale = [torch.ones(4), torch.ones(4)], torch.ones(4, requires_grad=True)
        products = [scale * out for out in outs]
        way(outs, None)
        assert [out._version for out in outs] == [1, 1] and outs[0].tolist() == [3.0] * 4
        for product in products:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                product.sum().backward()
        with torch.inference_mode():
            way([torch.ones(4), torch.ones(4)], torch.ones(4))

    @op("testing::one_by_numpy", mutates=("out",))
    def one_by_numpy(out: Tensor) -> None:
        out.numpy()[...] = 3
    for way in (one_by_numpy, one_by_numpy.overload):
        out = torch.ones(4)
        way(out)
        assert out._version == 1
        with torch.inference_mode():
            way(torch.ones(4))


def test_what_is_written_does_not_require_grad():
    x, out = numbers(20), torch.zeros(20, dtype=torch.float64, requires_grad=True)
    for call in (multiply_into, multiply_into.overload):
        with pytest.raises(ArgumentError, match=r"writes argument 'out', .*requires grad"):
            call(out, x, x)
    with pytest.raises(Exception, match="testing::multiply_into writes its arguments, so that autograd does not"):
        torch.compile(multiply_into, fullgraph=True, backend="eager")(out, x, x)
    with torch.no_grad():
        multiply_into(out, x, x)
    assert out.detach().equal((x * x).detach())

    @op("testing::counted", mutates=("out",))
    def counted(out: Tensor, x: Tensor | None) -> Tensor:
        out += x
        return out.sum()
    with pytest.raises(ArgumentError, match="counted writes its arguments, so that it has no backward, and "):
        counted(torch.zeros(20), x)
    with torch.no_grad():
        assert counted(torch.zeros(20), x).allclose(x.sum().float())
    with pytest.raises(ArgumentError, match="writes out, and an operator that writes its arguments has no backward"):
        multiply_into.backward(lambda ctx, gradient: None)


def test_a_second_gradient_is_refused_where_the_first_has_none():
    x = numbers(20)
    check_operator(square, (x,), lambda x: x * x)
    for way in (square, square.overload):
        first, = torch.autograd.grad(way(x).sum(), x, create_graph=True)
        assert first.equal(2 * x)
        with pytest.raises(UnsupportedError, match="the backward of testing::square is not differentiable, and a "):
            (first.sum() + x.sum()).backward()
        for outer in (lambda y: y.sum(), lambda y: (y * y).sum()):      # by x alone, and by the incoming gradient, too
            y = way(x)
            first, = torch.autograd.grad(outer(y), x, create_graph=True)
            with pytest.raises(UnsupportedError, match="the backward of testing::square is not differentiable"):
                torch.autograd.grad(y.sum() + (first * first).sum(), x)


def test_lists_have_gradients():
    @op("testing::sum_of", fake=lambda xs: torch.empty_like(xs[0]))
    def sum_of(xs: list[Tensor]) -> Tensor:
        return sum(xs)
    sum_of.backward(lambda ctx, gradient: [gradient.clone() for _ in range(2)])
    xs = [numbers(5), numbers(5)]
    check_operator(sum_of, (xs,), sum)
    first = torch.autograd.grad(sum_of(xs).sum(), xs, create_graph=True)
    with pytest.raises(UnsupportedError, match="the backward of testing::sum_of is not differentiable"):
        (first[1] * xs[1]).sum().backward()

    @op("testing::doubled_and_copied")
    def doubled_and_copied(x: Tensor) -> list[Tensor]:
        return [2 * x, x.clone()]
    doubled_and_copied.backward(lambda ctx, gradients: 2 * gradients[0] + gradients[1])
    check_operator(doubled_and_copied, (numbers(5),), lambda x: [2 * x, x.clone()])


def test_exported():
    class Model(torch.nn.Module):
        def forward(self, x, y):
            return scaled_add(x, y, 2.0) * 2
    x, y = numbers(4, 6, grad=False), numbers(4, 6, grad=False)
    rows = torch.export.Dim("rows")
    program = torch.export.export(Model(), (x, y), dynamic_shapes=({0: rows}, {0: rows}))
    assert any("testing.scaled_add" in str(node.target) for node in program.graph.nodes)
    x, y = numbers(7, 6, grad=False), numbers(7, 6, grad=False)
    assert program.module()(x, y).equal(scaled_add(x, y, 2.0) * 2)


def test_without_a_backward():
    x = numbers(20)
    no_gradient = op("testing::no_gradient")(square.function)
    for way in (no_gradient, no_gradient.overload):
        with pytest.raises(UnsupportedError, match="no_gradient has no backward, and a gradient goes through it"):
            way(x).sum().backward()
    assert no_gradient(x.detach()).equal((x * x).detach())


def test_each_way_is_taken_where_it_should(monkeypatch):
    """The short way is past the dispatcher: what the dispatcher calls is told here."""
    told: list[str] = []
    carry_out = scaled_add.carry_out
    monkeypatch.setattr(scaled_add, "carry_out", lambda *args: told.append("long") or carry_out(*args))
    again = op("testing::scaled_add_told", autocast=torch.float16)(scaled_add.function)
    again.untried.clear()                                           # a first call is looked at as one of a graph is
    again._library._destroy()
    library = torch.library.Library("testing", "FRAGMENT")
    library.define(f"told{scaled_add.schema}")
    library.impl("told", scaled_add.carry_out, "CPU")
    again.overload = torch.ops.testing.told.default
    call = partial(calls.eager(again, None), again)
    x = numbers(8, grad=False)

    def ways(expected, function):
        told.clear()
        function()
        assert told == expected
    ways([], lambda: call(x, x, 1.0))
    ways([], lambda: call(x, x))
    ways([], lambda: call(y=x, x=torch.nn.Parameter(x, requires_grad=False)))
    with torch.inference_mode():
        ways([], lambda: call(x, x))
    with torch.no_grad():
        ways([], lambda: call(x, x))
    ways(["long"], lambda: call(x, x, 1))                           # an integer becomes a float there
    with torch.autocast("cpu", torch.bfloat16):
        ways(["long"], lambda: call(x, x))
        again.autocast = None
        uncast = partial(calls.eager(again, None), again)
        ways([], lambda: uncast(x, x))                              # nothing is cast on the long one either
    ways([], lambda: uncast(x, x))
    with torch.profiler.profile():
        ways(["long"], lambda: uncast(x, x))
        ways(["long"], lambda: call(x, x))
    for mode in (torch.device("cpu"), FlopCounterMode(display=False)):
        with mode:
            ways(["long"], lambda: call(x, x))


def test_an_old_torch(monkeypatch):
    monkeypatch.delattr(torch.library, "infer_schema")
    with pytest.raises(UnsupportedError, match=r"torch_op needs torch 2.6 or newer, and this is 2\."):
        op("testing::old")(square.function)


def test_without_the_private_functions_of_torch(monkeypatch):
    """Calls go through the dispatcher then, and mean the same."""
    monkeypatch.delattr(torch._C, "_len_torch_function_stack")
    plain = op("testing::plain_add")(scaled_add.function)
    plain.backward(scaled_add._gradient, setup=keep_alpha, differentiable=True)
    assert "_function" not in type(plain).__call__.__code__.co_freevars
    arguments = (numbers(9), numbers(9), 2.0)
    same(outcome(plain, arguments), outcome(scaled_add, arguments), "through the dispatcher")


def test_autocast():
    x, y = (numbers(12, dtype=torch.float32) for _ in range(2))
    with torch.autocast("cpu", torch.bfloat16):
        found = scaled_add(x, y, 2.0)
        assert found.dtype == torch.float16
        found.sum().backward()
        assert multiply_into(torch.zeros(12), x.detach(), y.detach()) is None
    assert x.grad.dtype == torch.float32 and scaled_add(x, y, 2.0).dtype == torch.float32

    def region(x, y):
        with torch.autocast("cpu", torch.bfloat16):
            return scaled_add(x, y, 2.0)
    check_compiled(region, (x.detach().requires_grad_(), y.detach().requires_grad_()))


def test_transforms_are_refused():
    x = numbers(3, 4, grad=False)
    for transform in (torch.vmap(scaled_add), torch.vmap(scaled_add.overload),
                      torch.func.grad(lambda x, y: scaled_add(x, y).sum())):
        with pytest.raises(UnsupportedError, match=r"scaled_add has no rule for torch.vmap and the transforms"):
            transform(x, x)
    with forward_ad.dual_level():
        assert scaled_add(x, x).equal(2 * x)
        with pytest.raises(UnsupportedError, match="scaled_add has no rule for forward-mode differentiation"):
            scaled_add(x, forward_ad.make_dual(x, x))


def test_meta_tensors():
    found = scaled_add(torch.empty(3, 4, device="meta"), torch.empty(3, 4, device="meta"))
    assert found.is_meta and found.shape == (3, 4)


@pytest.mark.parametrize("which", [0, 1])
def test_a_tensor_that_lacks_memory_beside_one_that_has_it_is_refused(which):
    """A parameter that was never materialised: torch asks for shapes alone, and the result would be what lay there."""
    given = [torch.ones(3), torch.ones(3)]
    given[which] = given[which].to("meta")
    with pytest.raises(ArgumentError, match="one tensor is on meta, without memory, and another on cpu"):
        scaled_add(*given)


def test_launches_do_nothing_while_shapes_are_asked_for():
    """Not even with a grid of symbols, and a product inside is asked for its shape, too."""
    @op("testing::product")
    def product(A: Tensor, B: Tensor) -> Tensor:
        C = A.new_empty(A.shape[0], B.shape[0])
        mo.kernels.gemm(A, B, C)
        if C.is_meta:                                   # never on memory: these launches would be wrong
            add_kernel[C.shape[0], 0](C)
            add_kernel.launch(C, grid=(C.shape[0], 1), block=0)
            add_kernel.launch(C, grid=C.shape[0], block=0, stream=7)
        return C
    for way in (product, product.overload, torch.compile(product, dynamic=True, fullgraph=True, backend="eager")):
        assert way(torch.empty(3, 4, device="meta"), torch.empty(5, 4, device="meta")).shape == (3, 5)
    A, B = numbers(3, 4, grad=False), numbers(5, 4, grad=False)
    assert product(A, B).allclose(A @ B.T)


def test_a_function_that_asks_for_memory_needs_a_fake():
    @op("testing::described")
    def described(x: Tensor, n: int = 2) -> Tensor:
        return torch.empty(mo.describe(x).shape)
    x = torch.empty(3)
    with pytest.raises(Exception, match=r"described needs a fake function, .*FakeTensor has no memory"):
        torch.compile(described, fullgraph=True, backend="eager")(x)

    @described.fake
    def _(x, n):
        return x.new_empty(3 * n // 2)
    assert torch.compile(described, fullgraph=True, backend="eager")(x).shape == (3,)       # n is left out by torch


def test_a_result_is_a_new_tensor():
    @op("testing::same")
    def itself(x: Tensor) -> Tensor:
        return x
    with pytest.raises(ArgumentError, match="testing::same returns one of its arguments"):
        itself.overload(torch.ones(3))

    @op("testing::part")
    def part(x: list[Tensor]) -> Tensor:
        return x[1][1:]
    with pytest.raises(ArgumentError, match="testing::part returns one of its arguments or a view of one"):
        part.overload([torch.ones(3), torch.ones(3)])


@pytest.mark.parametrize("library", ["aten", "prims"])
def test_libraries_of_torch_are_left_alone(library):
    with pytest.raises(ArgumentError, match=f"the library {library} is torch's own"):
        op(f"{library}::add")(scaled_add.function)


def test_an_operator_is_made_anew():
    """As a notebook does when a cell runs again."""
    for factor in (2.0, 3.0):
        @op("testing::again")
        def again(x: Tensor, factor: float = factor) -> Tensor:
            return x * factor
        assert again(torch.ones(2)).tolist() == torch.ops.testing.again(torch.ones(2)).tolist() == [factor] * 2


def test_an_operator_as_an_object():
    assert scaled_add.__name__ == "scaled_add" and scaled_add.__doc__ == "x + alpha * y, shapes alike."
    assert repr(scaled_add) == ("<moye.torch.op testing::scaled_add(Tensor x, Tensor y, float alpha=1.0) -> Tensor>")
    assert copy.copy(scaled_add) is copy.deepcopy(scaled_add) is scaled_add
    assert pickle.loads(pickle.dumps(mo.torch.linear)) is mo.torch.linear
    assert mo.torch_op is op


def odd(x) -> Tensor:
    """A function without an annotation."""


def starred(x: Tensor, *, n: int) -> Tensor:
    """A functional one with a parameter that has no place."""


@pytest.mark.parametrize(("make", "told"), [
    (lambda: op("scaled_add"), "as 'library::name', not 'scaled_add'"),
    (lambda: op("testing::odd")(3), "decorates Python functions, not 3"),
    (lambda: op("testing::odd")(odd), "testing::odd: Parameter x must have a type annotation"),
    (lambda: op("testing::odd")(starred), "n can be passed by name alone"),
    (lambda: op("testing::odd", mutates=("z",))(starred), "mutates names z, and the parameters are x, n"),
    (lambda: op("testing::odd", autocast="half")(square.function), "a torch.dtype of floating point or 'region', not"),
    (lambda: op("testing::odd", schema="(Tensor x")(starred), r"torch does not read the schema '\(Tensor x'"),
    (lambda: op("testing::odd", schema="(Tensor _x) -> Tensor")(starred), "parameter _x begins with an underscore"),
])
def test_declarations_that_are_refused(make, told):
    with pytest.raises(ArgumentError, match=told):
        make()
