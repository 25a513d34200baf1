"""What every operator of PyTorch has to pass, in one call: ``check_operator(op, arguments, reference)``.

In: an operator of ``moye.torch`` (or a function around one), arguments, a reference.  Out: nothing, or AssertionError.

    check_operator(scaled_add, (x, y, 2.0), lambda x, y, alpha: x + alpha * y)
    check_one_graph(scaled_add, [(x, y, 2.0), (x[:3], y[:3], 2.0)])

Arguments are CPU tensors, or CUDA tensors in tests/gpu.  Those that require grad are differentiated; in float64 against
finite differences, too.  Import it after ``torch = pytest.importorskip("torch")``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from moye.torch.operator import Operator

TOLERANCES = {torch.float64: 1e-9, torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def check_operator(op: Callable[..., Any], arguments: Sequence[Any], reference: Callable[..., Any] | None = None, *,
                   tolerance: float | None = None, backend: str = "aot_eager", twice: bool = False,
                   operators: Sequence[Operator] = ()) -> None:
    """Assert all that an operator has to be.

    Its result is the ``reference``'s, computed on the arguments in float64 where they are of floating point, up to
    ``tolerance`` relative to the largest element (by default that of the dtype); it passes all of torch's opcheck; both
    ways of a call agree; its gradients are those of the reference (of float64 also finite differences, and with
    ``twice`` the second ones); compiled by ``backend`` it gives the same, with gradients; and on tensors without memory
    it has the same shapes, strides and dtypes.  An ``op`` that is a function around operators names them in
    ``operators`` if opcheck shall see them with these arguments.
    """
    arguments = tuple(arguments)
    for operator in (op, *operators):
        if isinstance(operator, Operator):
            torch.library.opcheck(operator.overload, fresh(arguments), raise_exception=True, **_order(arguments))
            check_ways(operator, arguments)
    if reference is not None:
        check_reference(op, arguments, reference, tolerance)
    check_fake(op, arguments)
    check_compiled(op, arguments, backend)
    if any(x.requires_grad for x in tensors(arguments)) and all(
            x.dtype == torch.float64 for x in tensors(arguments) if x.requires_grad):
        leaves, spec = tree_flatten(fresh(arguments))   # it sees no tensors in lists

        def flat(*leaves: Any) -> Any:
            return op(*tree_unflatten(list(leaves), spec))
        torch.autograd.gradcheck(flat, tuple(leaves), fast_mode=True)
        if twice:
            torch.autograd.gradgradcheck(flat, tuple(leaves), fast_mode=True)


def check_ways(operator: Operator, arguments: Sequence[Any]) -> None:
    """The short way of a call and torch's dispatcher give the same, with the same gradients."""
    same(outcome(operator, arguments), outcome(operator.overload, arguments), "the dispatcher's way")


def check_reference(op: Callable[..., Any], arguments: Sequence[Any], reference: Callable[..., Any],
                    tolerance: float | None = None) -> None:
    """Results and gradients are near those of the reference in float64, and the results are of the right shape."""
    found = outcome(op, arguments)
    exact = outcome(reference, tree_map(_exact, tuple(arguments)), like=found)
    assert len(found) == len(exact), f"{len(found)} results and gradients, and the reference has {len(exact)}"
    for i, (x, wanted) in enumerate(zip(found, exact, strict=True)):
        assert (x is None) == (wanted is None), f"result {i} is {x}, and the reference's {wanted}"
        if x is None:
            continue
        assert x.shape == wanted.shape, f"result {i} has shape {x.shape}, and the reference's {wanted.shape}"
        if not x.is_floating_point():
            assert torch.equal(x, wanted.to(x.dtype)), f"result {i} differs from the reference's"
            continue
        most = tolerance or TOLERANCES[x.dtype]
        scale = wanted.abs().amax().item() if wanted.numel() else 0.0
        torch.testing.assert_close(x.double(), wanted.double(), rtol=most, atol=most * max(scale, 1e-30),
                                   msg=lambda told, i=i: f"result or gradient {i}: {told}")


def check_fake(op: Callable[..., Any], arguments: Sequence[Any]) -> None:
    """On tensors without memory the results have the shapes, strides, dtypes and devices of the real ones."""
    given = fresh(arguments)
    real = tree_leaves(op(*given))
    with FakeTensorMode() as mode:
        without = tree_map(lambda x: mode.from_tensor(x) if isinstance(x, torch.Tensor) else x, given)
        fake = tree_leaves(op(*without))
    assert [described(x) for x in fake] == [described(x) for x in real], "fake results are not as the real ones"


def check_compiled(op: Callable[..., Any], arguments: Sequence[Any], backend: str = "aot_eager",
                   dynamic: bool | None = None, near: bool = False) -> None:
    """Compiled as one graph it gives what it gives otherwise, with the same gradients.

    Inductor adds up in an order of its own, and some operators add by atomics: what they make is only ``near``.
    """
    torch._dynamo.reset()

    def wrapped(*args: Any) -> Any:                     # operations around it, so that the graph is more than a call
        return tree_map(_more, op(*args))
    compiled = torch.compile(wrapped, fullgraph=True, backend=backend, dynamic=dynamic)
    same(outcome(compiled, arguments), outcome(wrapped, arguments), "compiled", near=near or backend == "inductor")


def check_one_graph(op: Callable[..., Any], calls: Sequence[Sequence[Any]], *, backward: bool = False) -> None:
    """``torch.compile(dynamic=True)`` makes one graph for all these calls, and it gives what the operator gives."""
    torch._dynamo.reset()
    compiled = torch.compile(op, fullgraph=True, backend="aot_eager", dynamic=True)
    with torch._dynamo.config.patch(error_on_recompile=True), torch.set_grad_enabled(backward):
        for arguments in calls:
            same(outcome(compiled, arguments), outcome(op, arguments), "compiled")


def check_captured(op: Callable[..., Any], arguments: Sequence[Any], *, near: bool = False) -> None:
    """Captured into a CUDA graph, forward and backward, it gives what it gives otherwise, on other elements, too."""
    static = fresh(arguments)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):                       # compiles, and warms torch's allocator
        for _ in range(3):
            outcome(op, static, keep=True)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = outcome(op, static, keep=True)
    for _ in range(2):
        with torch.no_grad():
            for x in tensors(static):
                if x.is_floating_point():
                    x.copy_(torch.randn_like(x, dtype=torch.float32))
        wanted = outcome(op, static)
        graph.replay()
        torch.cuda.synchronize()
        same(found, wanted, "captured", near=near)


# --- parts -----------------------------------------------------------------------------------------------------------


def tensors(arguments: Any) -> list[torch.Tensor]:
    return [x for x in tree_leaves(arguments) if isinstance(x, torch.Tensor)]


def fresh(arguments: Any) -> tuple[Any, ...]:
    """The same arguments as leaves of their own, of the same strides."""
    return tuple(tree_map(_fresh, tuple(arguments)))


def outcome(op: Callable[..., Any], arguments: Sequence[Any], *, like: Sequence[Any] = (),
            keep: bool = False) -> list[Any]:
    """The results, and the gradients of those arguments that require grad for a weighted sum of the results.

    Of an operator that returns nothing the arguments are the results, as they are afterwards.  The weights depend on
    the element alone; they are rounded to the dtype of ``like``'s results.  With ``keep`` the arguments are used as
    they are.
    """
    given = tuple(arguments) if keep else fresh(arguments)
    results = tensors(op(*given)) or tensors(given)
    leaves = [x for x in tensors(given) if x.requires_grad]
    ends = [(x, _weights(x, like[i].dtype if like else x.dtype)) for i, x in enumerate(results) if x.requires_grad]
    if not leaves or not ends:
        return [x.detach() for x in results]
    found = torch.autograd.grad([x for x, _ in ends], leaves, [w for _, w in ends], allow_unused=True)
    return [*(x.detach() for x in results), *found]


def same(found: Sequence[Any], wanted: Sequence[Any], way: str, *, near: bool = False) -> None:
    """Equal bit by bit, NaNs as well, or both None; or ``near`` each other as the dtype allows."""
    assert len(found) == len(wanted), f"{way}: {len(found)} results and gradients, not {len(wanted)}"
    for i, (x, y) in enumerate(zip(found, wanted, strict=True)):
        assert (x is None) == (y is None), f"{way}: result {i} is {x}, not {y}"
        if x is not None:
            most = TOLERANCES.get(x.dtype, 0.0) if near else 0.0
            scale = y.abs().amax().item() if most and y.numel() else 0.0
            torch.testing.assert_close(x, y, rtol=most, atol=most * scale, equal_nan=True,
                                       msg=lambda told, i=i: f"{way}: result or gradient {i}: {told}")


def described(x: Any) -> Any:
    return (tuple(x.shape), x.stride(), x.dtype, x.device) if isinstance(x, torch.Tensor) else x


def _order(arguments: Sequence[Any]) -> dict[str, float]:
    """What opcheck shall allow: in a graph gradients have other strides, and sums of float32 another order."""
    narrowest = min((x.dtype.itemsize for x in tensors(arguments) if x.is_floating_point()), default=8)
    return {"rtol": TOLERANCES[torch.float32], "atol": 1e-4} if narrowest == 4 else {}


def _fresh(x: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        return x
    made = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
    if 0 in x.stride():                                 # elements that share memory
        made = x.detach()
    else:
        made.copy_(x.detach())
    return made.requires_grad_(x.requires_grad)


def _exact(x: Any) -> Any:
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        return x
    return x.detach().double().requires_grad_(x.requires_grad)


def _weights(x: torch.Tensor, dtype: Any) -> torch.Tensor:
    made = torch.cos(torch.arange(x.numel(), device=x.device, dtype=torch.float64)).to(dtype)
    return made.to(x.dtype).reshape(x.shape)


def _more(x: Any) -> Any:
    return x * 2 if isinstance(x, torch.Tensor) and x.is_floating_point() else x


__all__ = ["check_captured", "check_compiled", "check_fake", "check_one_graph", "check_operator", "check_reference",
           "check_ways", "described", "fresh", "outcome", "same", "tensors"]
