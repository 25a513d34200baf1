"""What an error at ``x[i]`` means where ``x`` is no array: the Python object that was given for one.

In: an error that came out of a trace.  Out: a TraceError that names the object, or None if it is about another thing.

    subscripted(error)
    # TraceError("x is a list of 3 elements, which has no element at tx, a number known only when the kernel runs")

It reads the source text and the frame's variables, so it costs nothing where there is no error.
"""

from __future__ import annotations

import ast
import re
from types import FrameType

from moye.dtypes import DType
from moye.errors import Frame, Loc, MoyeError, TraceError
from moye.ir.nodes import Value
from moye.tensor.context import frame_of
from moye.tensor.expr import Expr
from moye.tensor.tensor import Tensor
from moye.tensor.tma_copy import TmaTensor

_ROW = "an index for each mode is an element; x[i, :] is a row"
_INDEXED = (list, tuple, str, bytes, range)
_OTHER_INDEX = re.compile(r"indices must be integers(?: or slices)?, not '?(\w+)")
_SCALAR_INDEXED = "'Expr' object is not subscriptable", "'Expr' object does not support item assignment"


def subscripted(error: BaseException) -> TraceError | None:
    """The error as one about the object that was indexed, if it is that."""
    steps = _users(error)
    if not steps:
        return None
    variables, frame = steps[-1]
    line = frame.text()
    where = Loc(tuple(frame for _, frame in steps))
    text = line[frame.column:frame.end if frame.end > 0 else len(line)]
    found = _indexed(text, variables)
    if found is None and str(error) in _SCALAR_INDEXED:
        return TraceError(f"{text.strip()}: a scalar of the kernel has no elements", hint=_ROW, locs=[where])
    if found is None:
        return None
    name, value, index = found
    container = (isinstance(value, (*_INDEXED, dict)) or _is_array(value)) and index
    if isinstance(error, (MoyeError, KeyError)) and not (container or isinstance(value, Expr)):
        return None                                     # it says what is wrong already
    locs = error.locs if isinstance(error, MoyeError) and error.locs else [where]
    kind = _OTHER_INDEX.search(str(error))
    if isinstance(value, _INDEXED) and kind is not None and kind[1] != "Expr":
        return TraceError(f"{name} is {_named(value)}, which takes one integer or slice, not {_article(kind[1])}",
                          hint=f"one index behind the other: {name}[i][k]" if kind[1] == "tuple" else None, locs=locs)
    return TraceError(f"{name} is {_named(value)}, {_without(value, index)}", hint=_hint(name, value), locs=locs)


def _users(error: BaseException) -> list[tuple[FrameType, Frame]]:
    """The user's frames of a traceback, outermost first."""
    found, step = [], error.__traceback__
    while step is not None:
        if (frame := frame_of(step.tb_frame.f_code, step.tb_lasti)) is not None:
            found.append((step.tb_frame, frame))
        step = step.tb_next
    return found


def _indexed(text: str, variables: FrameType) -> tuple[str, object, str] | None:
    """(name, value, index or "" where it is constant) of ``name[index]``, where the value is no tensor of a kernel."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(node, ast.Subscript):
        return None
    name = ast.unparse(node.value)
    try:
        value = _value(node.value, variables)
    except (AttributeError, KeyError, LookupError, TypeError):
        return None
    if not isinstance(value, Expr) and type(value).__module__.startswith("moye.") and hasattr(value, "__getitem__"):
        return None
    return name, value, _dynamic(node.slice)


def _value(node: ast.expr, variables: FrameType) -> object:
    """The object that a name, a chain of attributes and constant indices, or what Python calls a display stands for."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return ast.literal_eval(node)
    if isinstance(node, (ast.Tuple, ast.List)):
        parts = [_value(part, variables) for part in node.elts]
        return parts if isinstance(node, ast.List) else tuple(parts)
    if isinstance(node, ast.Name):
        return variables.f_locals[node.id] if node.id in variables.f_locals else variables.f_globals[node.id]
    if isinstance(node, ast.Attribute):
        return getattr(_value(node.value, variables), node.attr)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        found: object = _value(node.value, variables)[node.slice.value]  # type: ignore[index]
        return found
    raise LookupError(ast.unparse(node))


def _dynamic(node: ast.expr) -> str:
    """The index as text, empty where it is a constant."""
    return "" if all(isinstance(part, (ast.Constant, ast.UnaryOp, ast.USub, ast.Slice)) for part in ast.walk(node)) \
        else ast.unparse(node)


def _named(value: object) -> str:
    if value is None or isinstance(value, type):
        return str(value)
    if isinstance(value, Expr):
        return f"{'an' if value.dtype.name[0] == 'i' else 'a'} {value.dtype} scalar of the kernel"
    if isinstance(value, (DType, TmaTensor)):
        return "a dtype" if isinstance(value, DType) else "a TMA copy"
    kind = _article("array" if _is_array(value) else type(value).__name__)
    if not isinstance(value, (*_INDEXED, dict)) and not _is_array(value):
        return kind
    count = len(value)  # type: ignore[arg-type]
    return f"{kind} of {count} element{'' if count == 1 else 's'}"


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _is_array(value: object) -> bool:
    return getattr(value, "__array_interface__", None) is not None and bool(getattr(value, "shape", ()))


def _without(value: object, index: str) -> str:
    if isinstance(value, (*_INDEXED, dict)) or _is_array(value):
        return f"and {index}, at which it is indexed, is known only when the kernel runs"
    return "which has no elements"


def _hint(name: str, value: object) -> str | None:
    if isinstance(value, TmaTensor):
        return f"it brings tiles of {name}.tensor to shared memory, which has elements; so has an array as an argument"
    if isinstance(value, DType):
        return "an array of it is mo.shared_array, mo.fragment or an argument: mo.TensorLike(dtype, shape) for compile"
    if _is_array(value):
        return "pass it as an argument"
    if isinstance(value, (list, tuple)) and any(isinstance(x, Tensor) for x in value):
        return f"keep one tensor with a mode for {name}, as mo.shared_array(dtype, (n, {len(value)}))"
    if isinstance(value, (list, tuple)) and any(_computed(x) for x in value):
        return "registers have no addresses: loop with mo.static_range, or keep the values in shared memory"
    if isinstance(value, (list, tuple)):
        more = "b if condition else a is one of two" if len(value) == 2 else \
            f"mo.static_range unrolls a loop over a {type(value).__name__}"
        written = ", or keep what the kernel writes in mo.shared_array" if isinstance(value, list) else ""
        return f"pass an array, np.asarray({name}){written}; {more}"
    if _computed(value):
        return _ROW
    return "pass an array" if value is None or isinstance(value, (*_INDEXED, dict)) else None


def _computed(x: object) -> bool:
    """Whether a kernel computes it, or a part of it: no number that was passed."""
    if isinstance(x, (list, tuple)):
        return any(_computed(part) for part in x)
    return isinstance(x, Expr) and isinstance(x.operand, Value) and x.operand.op is not None


__all__ = ["subscripted"]
