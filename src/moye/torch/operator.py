"""One operator: its registrations with PyTorch, and the short way of a call that nobody watches.

In: a function of tensors that launches kernels.  Out: ``Operator``, called as the function was.

    scaled_add(x, y, alpha=2.0)                         # the function itself, when only the result is wanted
    torch.compile(scaled_add, fullgraph=True)           # one node, torch.ops.mine.scaled_add

A call goes the short way, past torch's dispatcher, if no mode, transform, tracer or profiler is on, nor autocast that
casts.  ``benchmarks/torch_ops.py`` measures what it costs.  What the two ways do is the same.
"""

from __future__ import annotations

import functools
import pickle
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from moye.errors import ArgumentError, UnsupportedError
from moye.runtime.autograd import mark
from moye.runtime.prepare import launch_nothing
from moye.torch.calls import TENSORS, eager
from moye.torch.promises import counters, require_apart, require_unwritten
from moye.torch.schemas import defaults, of_annotations, require_free, written

F = TypeVar("F", bound=Callable[..., Any])
DEVICES = ("CPU", "CUDA")
# A graph passes tensors of the strides that it was traced with: views of them, and fake results, depend on them.
_TAGS = (torch.Tag.pt2_compliant_tag, getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order))
_RESULTS: dict[str, Any] = {"Tensor": torch.Tensor, "List[Tensor]": (list, tuple)}
_defined: dict[str, Operator] = {}


class Operator:
    """A function that is an operator of PyTorch; ``moye.torch.op`` makes it."""

    def __init__(self, function: Callable[..., Any], name: str, mutates: tuple[str, ...], schema: str | None,
                 fake: Callable[..., Any] | None, autocast: Any) -> None:
        if not isinstance(function, types.FunctionType):
            raise ArgumentError(f"torch_op decorates Python functions, not {function!r}")
        if not hasattr(torch.library, "infer_schema"):
            raise UnsupportedError(f"torch_op needs torch 2.6 or newer, and this is {torch.__version__}")
        self.function, self.name = function, name
        self.schema = schema or of_annotations(function, name, mutates)
        self.mutates = written(self.schema, name, function)
        self._fake = fake
        self._gradient: Callable[..., Any] | None = None
        self._setup: Callable[..., Any] | None = None
        self._twice = False
        floating = isinstance(autocast, torch.dtype) and autocast.is_floating_point
        if autocast not in (None, "region") and not floating:
            raise ArgumentError(f"{name}: autocast is a torch.dtype of floating point or 'region', not {autocast!r}")
        self.autocast = autocast
        self.executed = _advancing(function, self.schema, name) if self.mutates else function
        self.untried = [True]                               # until a call outside of graphs has kept its promises
        self.overload = self._define()
        self.defaults = defaults(function, self.overload._schema.arguments)
        node = None if mutates else _node(self)
        call = eager(self, node.apply if node else None)
        self.__class__ = type("Operator", (Operator,), {"__call__": call})      # to pass arguments on costs 0.3 us
        functools.update_wrapper(self, function)

    if TYPE_CHECKING:                                       # each operator has one of its own, in a class of its own
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def __repr__(self) -> str:
        return f"<moye.torch.op {self.name}{self.schema}>"

    def __reduce__(self) -> tuple[Any, ...]:
        place = self.function.__module__, self.function.__qualname__
        try:
            found = _of_name(*place)
        except (ImportError, AttributeError):
            found = None
        if found is not self:
            raise pickle.PicklingError(f"{self.name} cannot be pickled: it is not {'.'.join(place)}")
        return _of_name, place

    def __copy__(self) -> Operator:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Operator:
        return self

    # --- what the author adds ---

    def fake(self, function: F) -> F:
        """A decorator: ``function(*args)`` returns empty tensors of the shapes, strides and dtypes of the result."""
        _forget(self._fake)
        self._fake = function
        return function

    @overload
    def backward(self, function: F) -> F: ...
    @overload
    def backward(self, *, setup: Callable[..., Any] | None = None,
                 differentiable: bool = False) -> Callable[[F], F]: ...

    def backward(self, function: Callable[..., Any] | None = None, *, setup: Callable[..., Any] | None = None,
                 differentiable: bool = False) -> Any:
        """A decorator: ``function(ctx, *gradients)`` returns the gradient of each argument, None where there is none.

        ``setup(ctx, inputs, output)`` runs after the operator and keeps what the gradient needs, by
        ``ctx.save_for_backward`` and as attributes of ``ctx``, as in ``torch.library.register_autograd``.  The gradient
        is refused a gradient of its own unless it is ``differentiable``: made of torch's operations and of operators
        that have a backward.
        """
        if function is None:
            return functools.partial(self.backward, setup=setup, differentiable=differentiable)
        if self.mutates:
            raise ArgumentError(f"{self.name} writes {', '.join(self.mutates)}, and an operator that writes its "
                                "arguments has no backward", hint="make one that returns its result")
        _forget(self._gradient)
        self._gradient, self._setup, self._twice = function, setup, differentiable
        return function

    # --- what torch asks ---

    def _define(self) -> Any:
        """Register everything; a second operator of the name takes the first one's place, as in a notebook."""
        space, _, word = self.name.partition("::")
        require_free(self.name)
        if (old := _defined.get(self.name)) is not None:
            _require_same_author(self, old)
            old._library._destroy()
        library = torch.library.Library(space, "FRAGMENT")
        self._library: Any = library
        try:
            library.define(f"{word}{self.schema}", tags=_TAGS)
        except RuntimeError as error:
            library._destroy()
            raise ArgumentError(f"{self.name}: torch does not define it: {str(error).partition('. ')[0].strip()}",
                                hint="another library may have it: give it another name") from None
        _defined[self.name] = self
        defined: Any = getattr(getattr(torch.ops, space), word).default
        tensors = any("Tensor" in str(a.type) for a in defined._schema.arguments)
        for device in DEVICES if tensors else ("BackendSelect",):       # torch knows a device by the tensors
            library.impl(word, self.carry_out, device)
        torch.library.register_fake(self.name, self._shapes, lib=library)
        if not self.mutates:
            torch.library.register_autograd(self.name, self.gradient, setup_context=self.keep, lib=library)
        library.impl(word, self.untransformed, "FuncTorchBatched")
        for device in DEVICES if self.autocast is not None else ():
            library.impl(word, _casting(defined, self.autocast, device), f"Autocast{device}")
        return defined

    def carry_out(self, *args: Any, **kwargs: Any) -> Any:
        """What the dispatcher calls: the function, whose promises a graph relies on."""
        arguments = self.overload._schema.arguments
        given = [(a.name, kwargs.get(a.name) if i >= len(args) else args[i]) for i, a in enumerate(arguments)]
        before = counters((name, x) for name, x in given if name not in self.mutates)
        result = self.require_results(self.executed(*args, **kwargs))
        require_unwritten(self.name, before, [x for name, x in given if name in self.mutates])
        if result is not None:
            require_apart(self.name, given, result)
        self.untried.clear()
        return result

    def require_results(self, result: Any) -> Any:
        """What the function returned, as the schema has it: a tuple of several; ArgumentError for what it is not."""
        returns = self.overload._schema.returns
        several = isinstance(result, (list, tuple)) and len(returns) != 1
        parts = tuple(result) if several else () if result is None and not returns else (result,)
        if len(parts) != len(returns) or not all(isinstance(x, _RESULTS.get(str(a.type), object))
                                                 for a, x in zip(returns, parts, strict=True)):
            told = f"{len(result)} results" if several else type(result).__name__ if result is not None else "None"
            raise ArgumentError(f"{self.name} returned {told}, and its schema is {self.schema}")
        return parts if len(returns) > 1 else result

    def _shapes(self, *args: Any, **kwargs: Any) -> Any:
        """The result on tensors without memory; what returns nothing does nothing there."""
        _require_one_place(self.name, (args, kwargs))
        if not self.overload._schema.returns:
            return None
        if self._fake is not None:                      # torch leaves out arguments that have their default
            places = [a for a in self.overload._schema.arguments if not a.kwarg_only and a.name not in kwargs]
            return self._fake(*args, *(self.defaults[a.name] for a in places[len(args):]), **kwargs)
        try:
            with launch_nothing():
                return self.function(*args, **kwargs)
        except ArgumentError as error:
            raise UnsupportedError(f"{self.name} needs a fake function, which says the shapes of its result, because "
                                   f"its own cannot run without memory: {str(error).partition(chr(10))[0]}",
                                   hint=f"@{self.function.__name__}.fake") from error

    def keep(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep in ``ctx`` what the gradient needs."""
        if self._setup is not None:
            self._setup(ctx, inputs, output)

    def gradient(self, ctx: Any, *gradients: Any) -> Any:
        """The gradients of the arguments."""
        if self._gradient is None:
            more = "" if _is_ours(self.name) else f"give it one by @{self.function.__name__}.backward, or "
            raise UnsupportedError(f"{self.name} has no backward, and a gradient goes through it",
                                   hint=f"{more}detach its arguments")
        if any(isinstance(g, torch.Tensor) and g.is_neg() for g in gradients):      # of the conjugate of complex ones
            gradients = tuple(g.resolve_neg() if isinstance(g, torch.Tensor) else g for g in gradients)
        if self._twice or not torch.is_grad_enabled():
            return self._gradient(ctx, *gradients)
        with torch.no_grad():
            found = self._gradient(ctx, *gradients)
        return _once(self.name, found, (*gradients, *ctx.saved_tensors))

    def untransformed(self, *args: Any, **kwargs: Any) -> Any:
        """What a transform of ``torch.func`` gets."""
        raise UnsupportedError(f"{self.name} has no rule for torch.vmap and the transforms of torch.func",
                               hint="call it on the whole batch, and differentiate it by torch.autograd")


def _advancing(function: Callable[..., Any], schema: str, name: str) -> Callable[..., Any]:
    """The function of an operator that writes: counters advance also where no launch and no operation of torch wrote.

    Such as by NumPy or another library's kernels: autograd would take what it has saved for unchanged.
    """
    arguments = torch._C.parse_schema(f"{name}{schema}").arguments
    places = [(i, a.name) for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write]

    def call(*args: Any, **kwargs: Any) -> Any:
        before = []                                         # of those that have one: not in inference mode
        for i, word in places:
            x = args[i] if i < len(args) else kwargs.get(word)
            if isinstance(x, torch.Tensor):
                before.append((x, -1 if x.is_inference() else x._version))
            elif x is not None:
                before += [(y, -1 if y.is_inference() else y._version) for y in x]
        result = function(*args, **kwargs)
        for x, version in before:
            if version >= 0 and x._version == version:
                mark(((name, x),))
        return result
    return call


def _forget(old: Any) -> None:
    """Let graphs be compiled anew where a function takes the place of ``old``, as in a notebook: they have that one."""
    if old is not None:
        torch.compiler.reset()


def _is_ours(name: str) -> bool:
    """Whether an operator comes with moye, so that a user cannot change it."""
    return name.startswith("moye::")


def _require_one_place(name: str, arguments: Any) -> None:
    """ArgumentError for tensors on meta beside others: torch asks for shapes then, and the result has what lay there.

    Tensors that torch itself has made without memory say where they would lie.
    """
    places = {x.device.type for x in tree_leaves(arguments)
              if isinstance(x, torch.Tensor) and not isinstance(x, FakeTensor)}
    if "meta" in places and len(places) > 1:
        other = next(iter(places - {"meta"}))
        raise ArgumentError(f"{name}: one tensor is on meta, without memory, and another on {other}",
                            hint="give it memory: module.to_empty(device=...), and load its parameters")


def _require_same_author(new: Operator, old: Operator) -> None:
    """ArgumentError if an operator would take the place of one of another module: that one's graphs would call it."""
    ours, theirs = new.function, old.function
    if ours.__module__ != theirs.__module__ and ours.__code__.co_filename != theirs.__code__.co_filename:
        raise ArgumentError(f"{new.name}: {theirs.__module__} has an operator of this name already",
                            hint="give it another name")


def _node(operator: Operator) -> Any:
    """The operator as a node of autograd's graph."""
    def forward(ctx: Any, *args: Any) -> Any:
        output = operator.carry_out(*args) if operator.untried else operator.function(*args)
        if output.__class__ is not tuple and output.__class__ not in TENSORS:
            output = operator.require_results(output)
        operator.keep(ctx, args, output)
        return output
    members = {"forward": staticmethod(forward), "backward": staticmethod(operator.gradient)}
    return type(f"{operator.name.partition('::')[2]}_backward", (torch.autograd.Function,), members)


class _Once(torch.autograd.Function):                 # type: ignore[misc]
    """The gradients as they are; theirs are refused, on the way to what they were made of."""

    @staticmethod
    def forward(ctx: Any, name: str, count: int, *tensors: Any) -> Any:
        ctx.name = name
        return tuple(x.view_as(x) for x in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise UnsupportedError(f"the backward of {ctx.name} is not differentiable, and a second gradient goes through "
                               "it", hint="second gradients need torch's own operations" if _is_ours(ctx.name) else
                               "@operator.backward(differentiable=True), if it is made of operations that are")


def _once(name: str, found: Any, made_of: tuple[Any, ...]) -> Any:
    """Gradients through which no gradient goes: without this torch would take them for constants, in silence."""
    leaves, spec = tree_flatten(found if isinstance(found, tuple) else (found,))
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor) and x.is_floating_point()]
    sources = [x for x in made_of if isinstance(x, torch.Tensor) and x.requires_grad]
    made = _Once.apply(name, len(places), *(leaves[i].detach().requires_grad_() for i in places), *sources)
    for i, x in zip(places, made, strict=True):
        leaves[i] = x
    return tree_unflatten(leaves, spec)


def _casting(overload: Any, dtype: Any, device: str) -> Callable[..., Any]:
    """The operator inside of ``torch.autocast``: tensors of floating point are cast, and autocast is off."""
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"Autocast{device}"))
    place = device.lower()

    def cast(x: Any, wanted: Any) -> Any:
        if isinstance(x, torch.Tensor):
            floats = x.is_floating_point() and x.dtype != torch.float64 and x.device.type == place
            return x.to(wanted) if floats else x
        return [cast(y, wanted) for y in x] if isinstance(x, (list, tuple)) else x

    def call(*args: Any, **kwargs: Any) -> Any:
        wanted = torch.get_autocast_dtype(place) if dtype == "region" else dtype
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return overload(*(cast(x, wanted) for x in args), **{name: cast(x, wanted) for name, x in kwargs.items()})
    return call


def _of_name(module: str, qualname: str) -> Any:
    """The operator of that name, for pickles."""
    found: Any = __import__(module, fromlist=["_"])
    for part in qualname.split("."):
        found = getattr(found, part)
    return found
