"""What a user is told of an exception that is not moye's own: Python's, of code in a kernel or of what it calls.

In: an exception that leaves a trace, and the user's frames.  Out: a TraceError with these frames, or the exception.

    told(NameError("name 'sync_threads' is not defined"), where)     # hint: did you mean mo.sync_threads?

What the user's own code raises stays what it is.
"""

from __future__ import annotations

import difflib
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterable

from moye.errors import Loc, MissingError, TraceError
from moye.lang.control import under_a_condition
from moye.tensor.context import is_internal
from moye.tensor.expr import Expr
from moye.tensor.tensor import Tensor

_WORDS = {"Expr": "a scalar of the kernel", "Tensor": "a tensor of the kernel", "CoordTensor": "an identity tensor"}
_INSTEAD = {
    "T": "x.with_layout(mo.select(x.layout, 1, 0)) is x transposed",
    "transpose": "x.with_layout(mo.select(x.layout, 1, 0)) is x transposed",
    "astype": "x.to(mo.float32)", "type": "x.to(mo.float32)", "float": "x.to(mo.float32)", "int": "x.to(mo.int32)",
    "sum": "x.reduce(\"sum\") of registers; mo.warp_reduce and mo.block_reduce add over threads",
    "mean": "x.reduce(\"sum\") / mo.size(x) of registers; mo.warp_reduce and mo.block_reduce add over threads",
    "max": "x.reduce(\"max\") of registers; mo.warp_reduce and mo.block_reduce over threads",
    "min": "x.reduce(\"min\") of registers; mo.warp_reduce and mo.block_reduce over threads",
    "size": "mo.size(x), or mo.size(x, mode)", "numel": "mo.size(x)", "ndim": "mo.rank(x)", "dim": "mo.rank(x)",
    "strides": "x.layout.stride", "stride": "x.layout.stride", "reshape": "x.with_layout(mo.make_layout(...))",
    "flatten": "x[i] counts elements in column-major order", "ravel": "x[i] counts elements in column-major order",
    "view": "x[:, k] is a view; x.with_layout(...) one with another layout", "item": "x[0]",
    "copy": "mo.make_fragment_like(x) and mo.copyto", "clone": "mo.make_fragment_like(x) and mo.copyto",
    "zero_": "x.fill(0)", "fill_": "x.fill(value)", "exp": "mo.exp(x)", "sqrt": "mo.sqrt(x)", "abs": "mo.abs(x)",
    "bit_count": "mo.popcount(x)", "bit_length": "32 - mo.clz(x), of an integer of 32 bits",
    "is_integer": "mo.floor(x) == x"}
_OF_CUTE = {                                            # methods that CuTe has, of objects that moye has
    "partition_fragment_C": "tiled_mma.partition_fragment_C(shape), or thr_mma.make_fragment_C(thr_mma.partition_C(t))",
    "partition_shape_C": "tiled_mma.partition_fragment_C(shape) makes the registers",
    "make_fragment": "thr_mma.make_fragment_A(t), make_fragment_B or make_fragment_C",
    "get_thread_slice": "x.get_slice(tid)", "retile": "thr_copy.retile_S(t) of registers that are read, or retile_D"}
_ELSEWHERE = {                                          # what Triton and CUDA C++ call it: what moye has
    "program_id": "mo.block_idx().x", "num_programs": "mo.grid_dim().x", "blockIdx": "mo.block_idx().x",
    "threadIdx": "mo.thread_idx().x", "blockDim": "mo.block_dim().x", "gridDim": "mo.grid_dim().x",
    "arange": "mo.thread_idx().x is one thread's index; mo.tile(x, (256,), (block,)) is a block of elements",
    "zeros": "mo.fragment((4,), mo.float32) has one thread's elements; fill(0) clears it",
    "full": "mo.fragment((4,), mo.float32) has one thread's elements; fill(value) sets them",
    "cdiv": "mo.ceil_div(a, b)", "constexpr": "mo.Constexpr", "dot": "mo.gemm(tiled_mma, a, b, acc)",
    "sum": "mo.warp_reduce and mo.block_reduce add over threads, x.reduce(\"add\") over one thread's elements",
    "cumsum": "mo.warp_scan and mo.block_scan", "make_block_ptr": "mo.tile(x, (256,), (block,))",
    "device_print": "print", "debug_barrier": "mo.sync_threads()", "shared": "mo.shared_array(mo.float32, 256)",
    "transpose": _INSTEAD["T"], "trans": _INSTEAD["T"],
    "atomic_sub": "mo.atomic_add(t, i, -x)",
    "atomic_inc": "mo.atomic_add(t, i, 1) gives the old value; it does not wrap",
    "atomic_dec": "mo.atomic_add(t, i, -1) gives the old value; it does not wrap",
    "atomic_xchg": "mo.atomic_exch(t, i, x)", "syncthreads": "mo.sync_threads()", "syncwarp": "mo.sync_warp()",
    "threadfence": "mo.fence()", "threadfence_block": "mo.fence(scope=\"cta\")", "shfl": "mo.shuffle_idx(x, lane)",
    "nanosleep": "mo.nanosleep(ns)", "shfl_up": "mo.shuffle_up(x, n)", "shfl_down": "mo.shuffle_down(x, n)",
    "shfl_xor": "mo.shuffle_xor(x, n)", "any": "mo.vote_any(cond)", "all": "mo.vote_all(cond)",
    "popc": "mo.popcount(x)", "byte_perm": "mo.prmt(a, b, selector)", "ldg": "x[i]", "printf": "print",
    "warpSize": "32", "warp_size": "32",
    "warp_id": "mo.warp_idx()", "lane_id": "mo.lane_idx()", "clock64": "mo.clock()",
    "int_as_float": "x.bitcast(mo.float32)", "float_as_int": "x.bitcast(mo.int32)", "bitcast": "x.bitcast(mo.int32)",
    "cast": "x.to(mo.float32)", "reinterpret": "x.bitcast(mo.int32)", "clamp": "mo.min(mo.max(x, low), high)",
    "clip": "mo.min(mo.max(x, low), high)", "sign": "mo.where(x > 0, 1, mo.where(x < 0, -1, 0))", "square": "x * x",
    "half": "mo.float16", "double": "mo.float64", "float": "mo.float32", "int": "mo.int32",
    "flip": "mo.shuffle_idx(x, 31 - mo.lane_idx()) within a warp; through shared memory in a block",
    "sort": "no sort of a block is built in; a bitonic one is in tests/cases/ported_sorts.py",
    "associative_scan": "steps of mo.shuffle_up with a function of your own; mo.warp_scan and mo.block_scan for sums",
    "histogram": "mo.atomic_add(bins, x, 1) in shared memory", "gather": "x[i], of an index that each thread has",
    "constant": "pass an array; what Python knows while tracing needs none",
    "local_tile": "mo.tile(x, tiler, coordinate)", "local_partition": "mo.parallelize(x, thr_layout, i)",
    "make_tensor": "x.with_layout(layout), mo.shared_array(dtype, layout) or mo.fragment(layout, dtype)",
    "make_rmem_tensor": "mo.fragment(layout, dtype)", "make_identity_tensor": "mo.identity_tensor(shape)",
    "recast_tensor": "mo.recast(x, dtype)", "copy": "mo.copyto(dst, src)", "autovec_copy": "mo.copyto(dst, src)",
    "make_swizzle": "mo.Swizzle(3, 3, 3)", "make_copy_atom": "mo.CopyAtom(op, dtype)",
    "alloc_shared": "mo.shared_array(mo.float32, (64, 64))", "alloc_fragment": "mo.fragment((4,), mo.float32)",
    "alloc_local": "mo.fragment((4,), mo.float32)", "Parallel": "a loop over mo.range(tid, n, threads)",
    "Pipelined": "mo.Pipeline(stages), and a loop", "ceildiv": "mo.ceil_div(a, b)", "clear": "x.fill(0)",
    "fill": "x.fill(value)", "reduce_max": "x.reduce(\"max\", mode) of registers, mo.warp_reduce over threads",
    "reduce_sum": "x.reduce(\"sum\", mode) of registers, mo.warp_reduce over threads",
    "if_then_else": "mo.where(cond, a, b)", "static_assert": "assert, decided while tracing",
    "device_assert": "assert", "assert": "assert",
    "float4": "mo.fragment((4,), mo.float32), and mo.copyto, which is as wide as it can be",
    "half2": "mo.fragment((2,), mo.float16)", "float2half": "x.to(mo.float16)", "half2float": "x.to(mo.float32)",
    "astype": "x.to(mo.float32)", "mod": "x % y",
    "reduce": "x.reduce(\"sum\", mode) of registers; mo.warp_reduce and mo.block_reduce over threads",
    "argmax": "x.argmax() of registers; mo.warp_reduce((x, i), \"argmax\") over threads",
    "argmin": "x.argmin() of registers; mo.warp_reduce((x, i), \"argmin\") over threads",
    "isfinite": "mo.abs(x) < float(\"inf\"), false for NaN", "erfcinv": "mo.erfinv(1 - x)",
    "normcdf": "0.5 * mo.erfc(x * -0.7071067811865476)", "bfe": "(x >> start) & mask", "dp4a": "mo.inline_ptx",
    "elect_one": "mo.elect()", "cp_async_bulk": "mo.copyto(mo.BulkCopy(), dst, src)",
    "PipelineTmaAsync": "mo.PipelineTma(stages, bytes)", "grid_barrier": "mo.grid_sync()", "syncgrid": "mo.grid_sync()",
    "multiple_of": "mo.assume(x % 16 == 0)",
    "cooperative_groups": "mo.sync_threads(), mo.sync_warp(), mo.grid_sync(), mo.cluster_sync()",
    "this_thread_block": "mo.sync_threads()", "this_grid": "mo.grid_sync()",
    "inf": "float(\"inf\")", "nan": "float(\"nan\")", "pi": "math.pi", "e": "math.e"}
_CALLED = re.compile(r"(missing \d+ required|unexpected keyword argument|takes .* positional argument|"
                     r"multiple values for argument)")


def told(error: Exception, where: Loc) -> Exception:
    """The exception as a user should see it."""
    text = str(error).replace("dynamic_range(", "range(")
    if isinstance(error, TypeError) and "__array_ufunc__" in text:
        return TraceError("NumPy's functions do not take scalars and tensors of a kernel", locs=(where,),
                          hint="use moye's function: mo.exp for np.exp")
    if isinstance(error, UnboundLocalError) and (found := re.search(r"'(\w+)'", text)) is not None:
        return TraceError(f"the variable {found[0]} has no value here", locs=(where,),
                          hint=f"give {found[1]} a value before")
    if isinstance(error, NameError) and error.name is not None:
        return TraceError(text, locs=(where,), hint=_meant(error.name, error.__traceback__))
    if isinstance(error, AttributeError) and isinstance(error.obj, (Expr, Tensor)):
        return _missing(error.obj, str(error.name), where)
    if isinstance(error, AttributeError) and isinstance(error.obj, types.FunctionType) and _moyes(error.obj):
        called = f"mo.{error.obj.__name__}()"
        return MissingError(f"{called[:-2]} is a function, which has no attribute {error.name!r}", locs=(where,),
                            hint=f"call it: {called}.{error.name}")
    if isinstance(error, AttributeError) and not isinstance(error.obj, types.ModuleType) \
            and type(error.obj).__module__.partition(".")[0] == "moye":
        name = str(error.name)
        near = _near(name, (n for n in dir(error.obj) if not n.startswith("_")), lambda n: f".{n}")
        return MissingError(text, locs=(where,), hint=_OF_CUTE.get(name, near))
    internal = is_internal(_innermost(error))
    if isinstance(error, AttributeError) and isinstance(error.obj, types.ModuleType) and error.obj.__name__ == "moye":
        hint = _elsewhere(str(error.name)) or _near(str(error.name), dir(error.obj), lambda n: f"mo.{n}")
        return MissingError(text, locs=(where,), hint=hint)
    if isinstance(error, TypeError) and "subscriptable" not in text and "item assignment" not in text \
            and (internal or _CALLED.search(text) or re.search(rf"\b({'|'.join(_WORDS)})\b", text)):
        said = re.sub(rf"'?\b({'|'.join(_WORDS)})\b(?!\.)'?( object)?", lambda found: _WORDS[found[1]], text)
        hint = "mo.elem_less(coordinates, mo.shape(x)) compares them" if "CoordTensor" in text else \
            "a coordinate is a tuple: mo.elem_less(coordinate, shape)" if "'tuple' and 'Expr'" in text else \
            "mo.gemm(A, B, C) is C += A * B.T, of tiles and register tensors" if " for @" in text else _taken(text)
        return TraceError(said, locs=(where,), hint=hint)
    if internal and isinstance(error, (AttributeError, IndexError, ValueError, OverflowError, AssertionError)):
        return TraceError(f"this cannot be done with these values: {text or type(error).__name__}", locs=(where,))
    if under_a_condition():
        error.add_note("moye: both sides of a traced condition are traced, so that this is raised whether the kernel "
                       "gets there or not")
    return error


def _moyes(function: types.FunctionType) -> bool:
    return str(function.__module__).partition(".")[0] == "moye"


def _elsewhere(name: str) -> str | None:
    """What moye has for a name of CUDA C++, Triton, CuTe or TileLang."""
    plain = name.strip("_").removesuffix("_sync").removesuffix("_")
    camel = re.sub(r"(?<=[a-z])([A-Z]+)", lambda found: "_" + found[1].lower(), plain)          # atomicAdd
    moye = sys.modules.get("moye")
    known = moye.__all__ if moye is not None else ()
    own = next((n for n in (plain, camel, plain.removesuffix("f")) if n in known and n != name), None)
    return _ELSEWHERE.get(plain) or _ELSEWHERE.get(camel) or (f"did you mean mo.{own}?" if own else None)


def _taken(text: str) -> str | None:
    """What a function of moye takes, if Python's message says that it was called wrongly."""
    moye, name = sys.modules.get("moye"), text.partition("(")[0]
    owner, _, method = name.partition(".")
    if moye is None or owner not in moye.__all__ or not _CALLED.search(text):
        return None
    found = getattr(moye, owner)
    function = getattr(found, method, None) if method else found
    if not isinstance(function, types.FunctionType):
        return None
    taken = list(inspect.signature(function).parameters.values())[1 if method else 0:]
    names = [p.replace(annotation=p.empty) for p in taken]
    return f"{name if method else f'mo.{name}'}{inspect.Signature(names)}"


def _innermost(error: Exception) -> str:
    step, file = error.__traceback__, ""
    while step is not None:
        file, step = step.tb_frame.f_code.co_filename, step.tb_next
    return file


def _meant(name: str, step: types.TracebackType | None) -> str | None:
    """A name that the user may have meant: moye's, or one of the function's own."""
    moye = sys.modules.get("moye")
    if moye is not None and name in moye.__all__:
        return f"did you mean mo.{name}?"
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    known = () if step is None else (*step.tb_frame.f_locals, *step.tb_frame.f_globals)
    return _near(name, (n for n in known if not n.startswith("__")), str) or _elsewhere(name)


def _missing(value: Expr | Tensor, name: str, where: Loc) -> MissingError:
    what = f"{value!r} is a scalar of the kernel" if isinstance(value, Expr) \
        else f"{value.label} is a tensor of the kernel"
    public = [n for n in dir(value) if not n.startswith("_")]
    near = _near(name, public, lambda n: f".{n}")
    if near is None or name in _INSTEAD:
        near = _INSTEAD.get(name, near)
    return MissingError(f"{what}, which has no attribute {name!r}", hint=near, locs=(where,))


def _near(name: str, known: Iterable[str], shown: Callable[[str], str]) -> str | None:
    names = list(dict.fromkeys(known))
    found = [n for n in names if sorted(n.lower()) == sorted(name.lower())] \
        or difflib.get_close_matches(name, names, 1, 0.6)
    return f"did you mean {shown(found[0])}?" if found else None
