"""Calls of kernels as operations of JAX, and the handler that XLA calls when it gets to one.

In: a kernel or a host function, and its outputs.  Out: ``Call``, a function of JAX arrays.

    product = call(product_kernel, jax.ShapeDtypeStruct((M, N), A.dtype), grid=grid, block=256); C = product(A, B)

The handler is Python behind a C function of ctypes.  It launches on XLA's stream, or runs the simulator for arrays on
the host, as any launch does: the same plans, preconditions and errors.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import itertools
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moye import dtypes
from moye.cuda.device import driver
from moye.errors import ArgumentError, DTypeError, MoyeError
from moye.jax import frames
from moye.origin import pip_install
from moye.runtime.arguments import static_key
from moye.runtime.arrays import Memory, TensorLike
from moye.runtime.boundary import boundary
from moye.runtime.kernel import Kernel
from moye.runtime.prepare import compile_only

_TARGET = "moye_launch"
_session, _numbers = secrets.token_hex(16), itertools.count()
_calls: dict[str, Call] = {}
_equal: dict[Any, Call] = {}                            # a call that is made in a loop is one, and compiled once
_host_lock = threading.RLock()                          # the simulator runs one launch at a time, as if from one thread
Grid = Callable[..., Any] | Sequence[int] | int


class _Position(int):
    """The position of an array among outputs and inputs."""


@boundary
def call(function: Callable[..., Any], out_shapes: Any, *, grid: Grid | None = None,
         block: int | Sequence[int] | None = None, cluster: int | Sequence[int] = (1, 1, 1), smem: int | None = None,
         dependent: bool = False, input_output_aliases: Mapping[int, int] | None = None,
         vmap_method: str | None = None, has_side_effect: bool = False, **static: Any) -> Call:
    """A kernel as a function of JAX arrays, for ``jax.jit``.

    ``out_shapes`` has a ``jax.ShapeDtypeStruct`` (or an array) for each output: one, a sequence, or a dict by the
    kernel's parameters; the result has the same form.  The kernel takes the outputs and then the inputs, in the order
    of its parameters without those in ``static``: numbers, layouts and other values that stay the same.  All arrays are
    dense, the last mode contiguous.  ``grid`` may be a function of the kernel's parameters, by their names.

    ``input_output_aliases`` {input: output}: the kernel finds the input in the output and does not take it by itself;
    it is a copy unless the input is donated.  ``function`` may also be a host function, which launches kernels itself;
    it may run no other work on the arrays.  ``vmap_method`` and ``has_side_effect`` are those of ``jax.ffi.ffi_call``.
    """
    if isinstance(function, Kernel):
        if block is None or grid is None:
            raise ArgumentError(f"moye.jax.call of the kernel {function.__name__} needs grid= and block=")
    elif not callable(function) or grid is not None or block is not None:
        raise ArgumentError(f"moye.jax.call takes a kernel with grid= and block=, or a host function without them, not "
                            f"{function!r}")
    options = {"block": block, "cluster": cluster, "smem": smem, "dependent": dependent}
    made = Call(function, out_shapes, grid, options, dict(input_output_aliases or {}), static,
                {"vmap_method": vmap_method, "has_side_effect": has_side_effect})
    return _equal.setdefault(made.identity, made) if made.identity else made


class Call:
    """A kernel as a function of JAX arrays; ``moye.jax.call`` makes it."""

    def __init__(self, function: Callable[..., Any], outputs: Any, grid: Grid | None, options: dict[str, Any],
                 aliases: dict[int, int], static: dict[str, Any], ffi: dict[str, Any]) -> None:
        self.function, self.grid, self.options, self.aliases, self.static = function, grid, options, aliases, static
        self.__name__ = getattr(function, "__name__", "function")
        self._outputs, self._ffi = outputs, ffi
        self._signature = function.signature.signature if isinstance(function, Kernel) else inspect.signature(function)
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        if any(p.kind not in kinds for p in self._signature.parameters.values()):
            raise ArgumentError(f"moye.jax.call of {self.__name__}{self._signature}: name each parameter")
        unknown = [name for name in static if name not in self._signature.parameters]
        if unknown:
            raise ArgumentError(f"{self.__name__}{self._signature} has no parameter {unknown[0]!r}")
        self._outs = list(outputs.values()) if isinstance(outputs, Mapping) else \
            list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
        if not self._outs or not all(hasattr(out, "shape") and hasattr(out, "dtype") for out in self._outs):
            raise ArgumentError(f"moye.jax.call of {self.__name__}: out_shapes has a jax.ShapeDtypeStruct for each "
                                f"output, not {outputs!r}")
        self._orders: dict[tuple[int, int], dict[str, Any]] = {}
        self._key = f"{_session}-{next(_numbers)}"
        self.identity = self._identity()

    def _identity(self) -> tuple[object, ...]:
        """What makes two calls the same; empty if they cannot be compared."""
        outs = tuple((tuple(out.shape), str(out.dtype)) for out in self._outs)
        names = tuple(self._outputs) if isinstance(self._outputs, Mapping) else type(self._outputs) in (tuple, list)
        try:
            given = static_key("moye.jax.call", (self.grid, self.options, self.static, self.aliases, self._ffi))
            hash(given)
        except (ArgumentError, TypeError):
            return ()
        return self.function, outs, names, given

    def __repr__(self) -> str:
        return f"<moye.jax.call of {self.__name__}>"

    @boundary
    def __call__(self, *inputs: Any) -> Any:
        """The outputs of one launch."""
        jax = _jax()
        given = [jax.numpy.asarray(x) for x in inputs]
        self._check(jax, given)
        _registered()
        _calls[self._key] = self                        # for good: compiled programs hold the key alone
        made = jax.ffi.ffi_call(_TARGET, self._outs, input_output_aliases=self.aliases, **self._ffi)(
            *given, key=self._key)
        if isinstance(self._outputs, Mapping):
            return dict(zip(self._outputs, made, strict=True))
        return tuple(made) if isinstance(self._outputs, (tuple, list)) else made[0]

    def _check(self, jax: Any, given: Sequence[Any]) -> None:
        """Trace the kernel, so that what is wrong with it is told where it is called; compile it where it is to run."""
        for i, o in self.aliases.items():
            if not (isinstance(i, int) and isinstance(o, int) and 0 <= i < len(given) and 0 <= o < len(self._outs)):
                raise ArgumentError(f"moye.jax.call of {self.__name__}: input_output_aliases {self.aliases} of "
                                    f"{len(given)} inputs and {len(self._outs)} outputs")
        arrays = [_like(x) for x in (*self._outs, *given)]
        bound = self._bound(arrays[: len(self._outs)], arrays[len(self._outs):])
        if isinstance(self.function, Kernel):
            on_device = jax.default_backend() == "gpu" and driver.available()
            with compile_only(driver.device_arch(0) if on_device else None, trace_only=not on_device):
                self._launch(bound)

    def _bound(self, outs: Sequence[Any], ins: Sequence[Any]) -> dict[str, Any]:
        """The arguments of the function by name."""
        counts = len(outs), len(ins)
        order = self._orders.get(counts)
        if order is None:
            order = self._orders[counts] = self._order(*counts)
        arrays = (*outs, *ins)
        return {name: arrays[value] if type(value) is _Position else value for name, value in order.items()}

    def _order(self, outs: int, ins: int) -> dict[str, Any]:
        """The arguments by name: positions of arrays, and values that stay the same."""
        results = [_Position(i) for i in range(outs)]
        passed = [_Position(outs + i) for i in range(ins) if i not in self.aliases]
        named = dict(zip(self._outputs, results, strict=True)) if isinstance(self._outputs, Mapping) else {}
        arrays = passed if named else [*results, *passed]
        free = [p for name, p in self._signature.parameters.items() if name not in self.static and name not in named]
        needed = sum(p.default is p.empty for p in free)
        if not needed <= len(arrays) <= len(free) or any(name not in self._signature.parameters for name in named):
            raise ArgumentError(
                f"{self.__name__}{self._signature} does not take {', '.join(named) or outs} as outputs and "
                f"{len(passed)} inputs" + (f", beside {', '.join(self.static)}" if self.static else ""),
                hint="other arguments are given to moye.jax.call by their names")
        by_name = {p.name: x for p, x in zip(free, arrays, strict=False)} | named | self.static
        bound = self._signature.bind(**by_name)
        bound.apply_defaults()
        return dict(bound.arguments)

    def _launch(self, bound: dict[str, Any]) -> None:
        if not isinstance(self.function, Kernel):
            self.function(**bound)
            return
        grid = self.grid
        if callable(grid):
            wanted = inspect.signature(grid).parameters
            if missing := [name for name in wanted if name not in bound]:
                raise ArgumentError(f"grid= asks for {missing[0]!r}, and {self.__name__} has {', '.join(bound)}")
            grid = grid(**{name: bound[name] for name in wanted})
        self.function.launch(*bound.values(), grid=grid, **self.options)

    def run(self, outs: Sequence[Memory], ins: Sequence[Memory]) -> None:
        """Launch on memory of XLA."""
        for i, o in self.aliases.items():
            if ins[i].ptr != outs[o].ptr:
                raise ArgumentError(f"moye.jax: input {i} and output {o} of {self.__name__} lie in different places")
        self._launch(self._bound(outs, ins))


def _jax() -> Any:
    try:
        import jax
        import jax.ffi
    except ImportError as error:
        raise ArgumentError(f"moye.jax needs JAX, with jax.ffi ({error})", hint=pip_install("jax")) from error
    return jax


def _like(x: Any) -> TensorLike:
    shape = tuple(int(n) for n in x.shape)
    try:
        dtype = dtypes.from_name(str(x.dtype))
    except DTypeError as error:
        raise ArgumentError(f"a JAX array: {error.message}") from None
    strides = [1] * len(shape)
    for mode in range(len(shape) - 2, -1, -1):
        strides[mode] = strides[mode + 1] * shape[mode + 1]
    return TensorLike(dtype, shape, tuple(strides))


# --- what XLA calls --------------------------------------------------------------------------------------------------


@functools.cache
def _registered() -> list[Any]:
    """Register the handlers once; they live as long as the process."""
    jax, kept = _jax(), []
    for platform, on_device in (("cpu", False), ("CUDA", True)):
        handler = frames.Handler(functools.partial(_handle, on_device))
        address = ctypes.cast(handler, ctypes.c_void_p).value
        jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(address), platform=platform, api_version=1)
        kept.append(handler)
    return kept


def _handle(on_device: bool, address: int) -> int | None:
    """One call of XLA: nothing if it went well, or the address of an error."""
    frame = frames.Frame(address)
    try:
        if not frame.is_metadata():
            _run(frame, on_device)
        return None
    except MoyeError as error:
        return frame.error(f"moye: {error}", frames.INVALID_ARGUMENT)
    except BaseException as error:                      # nothing may leave a function that C calls
        return frame.error(f"moye: {type(error).__name__}: {error}", frames.INTERNAL)


def _run(frame: frames.Frame, on_device: bool) -> None:
    device = frame.device() if on_device else None
    found = _calls.get(key := frame.attribute("key"))
    if found is None:
        raise MoyeError(f"this program of XLA was compiled in another process (call {key}): kernels of moye cannot be "
                        "in a persistent compilation cache")
    with driver.on_stream(frame.stream()) if on_device else _host_lock:
        results, arguments = frame.results(device), frame.arguments(device)
        try:
            found.run(results, arguments)
        finally:
            for each in (*results, *arguments):         # XLA gives their memory to others
                each.life.ended = True


__all__ = ["Call", "call"]
