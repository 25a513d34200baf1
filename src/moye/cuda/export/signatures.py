"""C declarations of exported functions, which header and source share.

In: ``Function``s.  Out: C types, parameter lists, numbers of error codes.

    parameters(function)        # ['float *y', 'const int64_t *y_shape', 'const int64_t *y_strides', 'float a', ...]
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence

from moye.cuda.export.model import Argument, Function, Number, TensorArgument
from moye.dtypes import DType

FIRST_CODE = 32
"""The codes below are the same in all functions."""
RESERVED = frozenset({"grid", "bad", "stream", "grid_x", "grid_y", "grid_z", "loaded", "parameters", "failed", "found",
                      "arrays", "code", "met", "index", "it", "told"})
"""C names of the generated functions, which arguments must not take."""
_WORDS = frozenset({"restrict", "typeof", "typeof_unqual", "i386", "i686", "environ", "offsetof", "alloca", "complex",
                    "imaginary", "noreturn"})
"""What C, its headers or a compiler's macros have, and C++ and CUDA lack."""
_MACRO = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+|U?INT[A-Z]*[0-9]*_C|NULL|EOF|BUFSIZ|I")
_TYPE = re.compile(r"\w+_t")
_LOCAL = re.compile(r"p\d+")

_TYPES = {"bool": "int", "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "uint16": "uint16_t",
          "int32": "int32_t", "uint32": "uint32_t", "int64": "int64_t", "uint64": "uint64_t", "float32": "float",
          "tfloat32": "float", "float64": "double"}
_BITS = {8: "uint8_t", 16: "uint16_t"}


def is_taken(name: str) -> bool:
    """Whether C, the headers of the source, or the source itself has a name that an argument would hide."""
    return name in _WORDS or name.startswith("moye_") or any(p.fullmatch(name) for p in (_MACRO, _TYPE, _LOCAL))


def is_of_the_library(name: str) -> bool:
    """Whether the C library of this system or CUDA has a function of a name: one of ours would take its place."""
    if re.fullmatch(r"cu(da)?[A-Z]\w*", name):
        return True
    try:
        return hasattr(ctypes.CDLL(None), name)
    except (OSError, TypeError, ValueError):            # no such library here, or no such names
        return False


def clash(names: Sequence[str]) -> tuple[str, str] | None:
    """(function, function): the second has a name that the source makes of the first's; None if there is none."""
    for name in names:
        made = re.compile(re.escape(name) + r"_(load|error_string|cases|\d+_(codes|fits|run|map_\d+|sm_\w+))")
        for other in names:
            if made.fullmatch(other):
                return name, other
    return None


def number_type(dtype: DType) -> str:
    """The C type of a scalar; narrow floats are passed as their bits."""
    return _TYPES.get(dtype.name) or _BITS[dtype.bits]


def element_type(dtype: DType) -> str:
    """The C type that a pointer to elements points to; void where C has none."""
    return "void" if dtype.name == "bool" else _TYPES.get(dtype.name, "void")


def declared(argument: Argument) -> list[str]:
    """The C parameters of one argument."""
    name = argument.name
    if isinstance(argument, TensorArgument):
        const = "" if argument.written else "const "
        shapes = [f"const int64_t *{name}_shape", f"const int64_t *{name}_strides"] if argument.rank else []
        return [f"{const}{element_type(argument.dtype)} *{name}", *shapes]
    return [f"{number_type(argument.dtype) if isinstance(argument, Number) else 'int64_t'} {name}"]


def parameters(function: Function) -> list[str]:
    """The parameters of the C function, the grid first where the caller chooses it."""
    grid = [] if function.grid else ["int64_t grid_x", "int64_t grid_y", "int64_t grid_z"]
    return [*grid, *(text for argument in function.arguments for text in declared(argument)), "void *stream"]


def messages(function: Function) -> Iterator[tuple[str, list[str]]]:
    """What each code from ``FIRST_CODE`` on means: those of the arguments, and then of each specialisation."""
    tensors = [a for a in function.arguments if isinstance(a, TensorArgument)]
    yield "", [text for a in tensors for text in (
        f"{function.name}: {a.name} is a null pointer, or its shape or strides are",
        f"{function.name}: {a.name} has an extent or a stride below 0")]
    for index, case in enumerate(function.cases):
        name = function.name + (f" [specialisation {index}]" if len(function.cases) > 1 else "")
        yield f"{index}", [f"{name}: {condition.message}" for condition in case.conditions]


def wrapped(start: str, parts: list[str], end: str, width: int = 120) -> str:
    """A call or declaration, in as many lines as it needs, indented to its parenthesis."""
    lines, indent = [start], " " * len(start)
    for i, part in enumerate(parts):
        text = part + (", " if i + 1 < len(parts) else end)
        if len(lines[-1]) + len(text.rstrip()) > width and lines[-1].strip():
            lines.append(indent)
        lines[-1] += text
    return "\n".join(line.rstrip() for line in lines) if parts else start + end
