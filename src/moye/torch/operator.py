"""One operator: its registrations with PyTorch, and the short way of a call that nobody watches.

In: a function of tensors that launches kernels.  Out: ``Operator``, called as the function was.

    scaled_add(x, y, alpha=2.0)                         # the function itself, when only the result is wanted
    torch.compile(scaled_add, fullgraph=True)           # one node, torch.ops.mine.scaled_add

A call goes the short way, past torch's dispatcher, if no mode, transform, tracer or profiler is on, nor autocast that
casts.  ``benchmarks/torch_ops.py`` measures what it costs.  What the two ways do is the same.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from moye.errors import ArgumentError, UnsupportedError
from moye.runtime.prepare import launch_nothing
from moye.torch.calls import eager

F = TypeVar("F", bound=Callable[..., Any])
DEVICES = ("CPU", "CUDA")
# A graph passes tensors of the strides that it was traced with: views of them, and fake results, depend on them.
_TAGS = (torch.Tag.pt2_compliant_tag, getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order))
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
        self.schema = schema or _schema(function, name, mutates)
        self.mutates = _written(self.schema, name)
        self._fake = fake
        self._gradient: Callable[..., Any] | None = None
        self._setup: Callable[..., Any] | None = None
        self._twice = False
        floating = isinstance(autocast, torch.dtype) and autocast.is_floating_point
        if autocast not in (None, "region") and not floating:
            raise ArgumentError(f"{name}: autocast is a torch.dtype of floating point or 'region', not {autocast!r}")
        self.autocast = autocast
        self.overload = self._define()
        self.defaults = _defaults(function, self.overload._schema.arguments)
        node = None if mutates else _node(self)
        call = eager(self, node.apply if node else None)
        self.__class__ = type("Operator", (Operator,), {"__call__": call})      # to pass arguments on costs 0.3 us
        functools.update_wrapper(self, function)

    if TYPE_CHECKING:                                       # each operator has one of its own, in a class of its own
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def __repr__(self) -> str:
        return f"<moye.torch.op {self.name}{self.schema}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_name, (self.function.__module__, self.function.__qualname__)

    def __copy__(self) -> Operator:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Operator:
        return self

    # --- what the author adds ---

    def fake(self, function: F) -> F:
        """A decorator: ``function(*args)`` returns empty tensors of the shapes, strides and dtypes of the result."""
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
        self._gradient, self._setup, self._twice = function, setup, differentiable
        return function

    # --- what torch asks ---

    def _define(self) -> Any:
        """Register everything; a second operator of the name takes the first one's place, as in a notebook."""
        space, _, word = self.name.partition("::")
        if (old := _defined.get(self.name)) is not None:
            old._library._destroy()
        library = torch.library.Library(space, "FRAGMENT")
        self._library: Any = library
        library.define(f"{word}{self.schema}", tags=_TAGS)
        _defined[self.name] = self
        defined: Any = getattr(getattr(torch.ops, space), word).default
        for device in DEVICES:
            library.impl(word, self._carry_out if defined._schema.returns else self.function, device)
        torch.library.register_fake(self.name, self._shapes, lib=library)
        if not self.mutates:
            torch.library.register_autograd(self.name, self.gradient, setup_context=self.keep, lib=library)
        library.impl(word, self.untransformed, "FuncTorchBatched")
        for device in DEVICES if self.autocast is not None else ():
            library.impl(word, _casting(defined, self.autocast, device), f"Autocast{device}")
        return defined

    def _carry_out(self, *args: Any, **kwargs: Any) -> Any:
        """What the dispatcher calls: the function.  A graph may use the memory of an argument again for its result."""
        result = self.function(*args, **kwargs)
        given = set(map(_memory, tree_leaves((args, kwargs)))) - {None}
        if any(_memory(x) in given for x in (result if isinstance(result, (tuple, list)) else (result,))):
            raise ArgumentError(f"{self.name} returns one of its arguments or a view of one, and torch expects new "
                                "tensors", hint="return a copy: x.clone()")
        return result

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
            raise UnsupportedError(f"{self.name} has no backward, and a gradient goes through it",
                                   hint=f"give it one by @{self.function.__name__}.backward, or detach its arguments")
        if self._twice or not torch.is_grad_enabled():
            return self._gradient(ctx, *gradients)
        with torch.no_grad():
            found = self._gradient(ctx, *gradients)
        return _once(self.name, found, (*gradients, *ctx.saved_tensors))

    def untransformed(self, *args: Any, **kwargs: Any) -> Any:
        """What a transform of ``torch.func`` gets."""
        raise UnsupportedError(f"{self.name} has no rule for torch.vmap and the transforms of torch.func",
                               hint="call it on the whole batch, and differentiate it by torch.autograd")


def _memory(x: Any) -> Any:
    """What tells the memory of a tensor from others; None for what has none."""
    try:
        return x.untyped_storage()._cdata if isinstance(x, torch.Tensor) and x.numel() else None
    except (NotImplementedError, RuntimeError):         # of sparse tensors, say
        return None


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


def _schema(function: Callable[..., Any], name: str, mutates: Sequence[str]) -> str:
    """torch's text of the annotations; ArgumentError in one sentence where torch has several."""
    parameters = inspect.signature(function).parameters
    unknown = [word for word in mutates if word not in parameters]
    if unknown:
        raise ArgumentError(f"{name}: mutates names {', '.join(unknown)}, and the parameters are "
                            f"{', '.join(parameters)}")
    try:
        found: str = torch.library.infer_schema(function, mutates_args=tuple(mutates))
    except (ValueError, TypeError, NameError) as error:
        told = str(error).replace("infer_schema(func): ", "").partition(". ")[0].partition("Got func")[0].strip(" .")
        raise ArgumentError(f"{name}: {told}") from None
    return found


def _defaults(function: Callable[..., Any], arguments: Any) -> dict[str, Any]:
    """The defaults of arguments; the schema has numbers where the function has dtypes."""
    own = {word: x.default for word, x in inspect.signature(function).parameters.items()}
    return {a.name: own[a.name] if isinstance(own.get(a.name), torch.dtype) else a.default_value
            for a in arguments if a.has_default_value()}


def _written(schema: str, name: str) -> tuple[str, ...]:
    """The arguments that a schema says are written; ArgumentError for what is no schema."""
    try:
        parsed = torch._C.parse_schema(f"{name}{schema}")
    except RuntimeError as error:
        raise ArgumentError(f"{name}: torch does not read the schema {schema!r}: "
                            f"{str(error).strip().partition(chr(10))[0]}") from None
    private = [a.name for a in parsed.arguments if a.name.startswith("_")]
    if private:
        raise ArgumentError(f"{name}: the parameter {private[0]} begins with an underscore")
    only = [a.name for a in parsed.arguments if a.kwarg_only]
    written = tuple(a.name for a in parsed.arguments if a.alias_info is not None and a.alias_info.is_write)
    if only and not written:
        raise ArgumentError(f"{name}: {', '.join(only)} can be passed by name alone, which torch's autograd does not "
                            "take", hint="leave out the * of the signature")
    return written


def _node(operator: Operator) -> Any:
    """The operator as a node of autograd's graph."""
    def forward(ctx: Any, *args: Any) -> Any:
        output = operator.function(*args)
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
                               "it", hint="@operator.backward(differentiable=True), if it is made of operations that "
                               "are")


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
