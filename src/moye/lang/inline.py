"""PTX and CUDA C++ in a kernel, for what moye has no operation for.

In: the text, scalars or register tensors as operands, the dtypes of results, and a NumPy function that says what it
means.  Out: the results.

    y = mo.inline_ptx("brev.b32 %0, %1;", x, results=mo.uint32, simulate=reversed_bits)

The text is read before it is printed: what would end its string or its function is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from typing import Literal as OneOf

from moye import dtypes as dt
from moye.dtypes import DType, Kind
from moye.errors import DTypeError, TensorError, TraceError
from moye.ir.inline import Snippet
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr, operand_of, require_scalar
from moye.tensor.tensor import Tensor, elementwise

Results = DType | tuple[DType, ...] | None
Meaning = Callable[..., Any]

_PLACE = re.compile(r"%(%|\d+)?")
_CLOSES = {")": "(", "]": "[", "}": "{"}
# Strings and characters, comments, and what opens or closes something.
_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/|/\*|["\'()\[\]{}]', re.DOTALL)


def inline_ptx(text: str, *operands: Any, results: Results = None, simulate: Meaning | None = None,
               volatile: bool = False, memory: bool = False, arch: int = 80) -> Any:
    """PTX instructions on scalars or register tensors.

    In the text ``%0``, ``%1``... are the results and then the operands, ``%laneid`` and its like special registers, and
    ``{`` ``}`` a scope of registers.  ``results`` is a dtype, a tuple of dtypes (a tuple is returned) or None.
    Integers and floats of 16, 32 and 64 bits are passed in registers of their kind.

    ``simulate`` takes a NumPy array for each operand, for all threads at once, and returns one for each result; it may
    be called for threads that do not run the instruction.  Without it, the simulator refuses the kernel.

    A snippet that gives nothing, is ``volatile`` or touches ``memory`` happens where it stands; any other may be moved,
    merged and left out.  What it does to memory is not judged by the checker, and the report says so.  ``arch`` is the
    least compute capability that has it, as 90.  Errors: DTypeError for what fits no register, TraceError for text with
    places that do not exist, or that does not close what it opens.  Source: PTX ISA; inline PTX assembly in CUDA.
    """
    return _inline("ptx", text, operands, results, simulate, volatile, memory, arch)


def inline_cuda(text: str, *operands: Any, results: Results = None, simulate: Meaning | None = None,
                volatile: bool = False, memory: bool = False, arch: int = 80) -> Any:
    """CUDA C++ statements on scalars or register tensors: the body of a device function.

    The operands are ``x0``, ``x1``..., and the text assigns the results ``y0``, ``y1``...  16-bit floats are structs
    whose member ``bits`` is an unsigned short.  All else is as for ``inline_ptx``.

        mo.inline_cuda("y0 = __byte_perm(x0, x1, 0x5410);", a, b, results=mo.uint32, simulate=...)
    """
    return _inline("cuda", text, operands, results, simulate, volatile, memory, arch)


def _inline(language: OneOf["ptx", "cuda"], text: str, operands: tuple[Any, ...], results: Results,
            simulate: Meaning | None, volatile: bool, memory: bool, arch: int) -> Any:
    if not isinstance(text, str) or not text.strip():
        raise TraceError(f"inline_{language} takes text, not {text!r}", locs=(locate(),))
    gives = () if results is None else results if isinstance(results, tuple) else (results,)
    for dtype in gives:
        dt.require_dtype(f"inline_{language}(results=...)", dtype)
    if simulate is not None and not callable(simulate):
        raise TraceError(f"inline_{language}: simulate is a function of NumPy arrays, not {simulate!r}",
                         locs=(locate(),))
    effect = bool(volatile or memory or not gives)
    checked = _ptx(text, len(gives) + len(operands)) if language == "ptx" else _cuda(text)
    made = Snippet(language, _name(text), checked, (), gives, simulate, bool(memory), arch)
    if not any(isinstance(x, Tensor) for x in operands):
        found: tuple[Any, ...] = emit(made, operands, effect=effect)
    elif effect:
        raise TensorError(f"{made} happens where it stands: it takes scalars, not tensors", locs=(locate(),))
    else:
        found = tuple(elementwise(lambda *xs, i=i: emit(made, xs)[i], *operands) for i in range(len(gives)))
    if memory:
        _not_judged(made)
    return found if isinstance(results, tuple) else found[0] if found else None


def emit(made: Snippet, operands: tuple[Any, ...], *, effect: bool = False) -> tuple[Expr, ...]:
    """The results of a snippet for scalars; its ``takes`` are their dtypes."""
    require_scalar(f"inline_{made.language}", *operands)
    arguments = tuple(operand_of(x) for x in operands)
    for dtype in (*(x.dtype for x in arguments), *made.gives):
        _fits(made.language, dtype)
    takes = tuple(x.dtype for x in arguments)
    whole = Snippet(made.language, made.name, made.text, takes, made.gives, made.meaning, made.memory, made.arch)
    return tuple(Expr(value) for value in builder().inline(whole, arguments, effect=effect))


def _fits(language: str, dtype: DType) -> None:
    """Refuse what no register of PTX holds, and what C++ has no type for."""
    if dtype.bits > 64 or dtype.bits < 8 or dtype == dt.tfloat32:
        raise DTypeError(f"inline_{language} takes no {dtype}", hint="bitcast it to an integer of its width",
                         locs=(locate(),))
    if language == "ptx" and (dtype.bits < 16 or dtype.kind is Kind.BOOL):
        raise DTypeError(f"inline_ptx takes no {dtype}: registers of PTX have 16, 32 or 64 bits",
                         hint="convert it, with .to(mo.int32)", locs=(locate(),))


def _not_judged(made: Snippet) -> None:
    said = f"what {made} does to memory"
    notes = builder().func.not_judged
    if said not in notes:
        notes.append(said)


def _name(text: str) -> str:
    """What a snippet is called in printed code: its first word."""
    found = re.search(r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*", re.sub(r"%\w+|y\d+|\.reg\b[^;]*;", " ", text))
    return found.group(0)[:24].rstrip("_") if found else "text"


# --- the text --------------------------------------------------------------------------------------------------------


def _ptx(text: str, places: int) -> str:
    """The text as asm takes it: every place exists, and the signs of special registers are doubled."""
    if not text.isascii() or any(not c.isprintable() and c not in "\n\t" for c in text):
        raise TraceError("inline_ptx: the text has characters that PTX has not", locs=(locate(),))
    _closed("inline_ptx", text)

    def place(found: re.Match[str]) -> str:
        inner = found.group(1)
        if inner is None:
            return "%%"
        if inner != "%" and int(inner) >= places:
            raise TraceError(f"inline_ptx: the text has %{inner}, but there are {places} results and operands",
                             hint="%0 is the first result; operands follow the results", locs=(locate(),))
        return found.group(0)
    return _PLACE.sub(place, text)


def _cuda(text: str) -> str:
    """The text as the body of a function: it closes what it opens, and holds no line for the preprocessor."""
    if any(not c.isprintable() and c not in "\n\t" for c in text):
        raise TraceError("inline_cuda: the text has characters that are not printable", locs=(locate(),))
    if re.search(r"^\s*(#|%:)", text, re.MULTILINE) or re.search(r"\\\s*$|\?\?", text, re.MULTILINE) or \
            re.search(r'\b\w*R"', text):
        raise TraceError("inline_cuda: the text has a line for the preprocessor, a line that goes on in the next "
                         "one or a raw string", locs=(locate(),))
    _closed("inline_cuda", text)
    return text.strip("\n")


def _closed(what: str, text: str) -> None:
    """TraceError unless the text closes all brackets, strings and comments that it opens, and no others."""
    open_: list[str] = []
    for token in _TOKEN.findall(text):
        if token in _CLOSES:
            if not open_ or open_.pop() != _CLOSES[token]:
                raise TraceError(f"{what}: the text closes a {token!r} that it has not opened", locs=(locate(),))
        elif token in ("(", "[", "{", '"', "'", "/*"):
            open_.append(token)
            if token in ('"', "'", "/*"):
                break
    if open_:
        raise TraceError(f"{what}: the text opens a {open_[-1]!r} that it does not close", locs=(locate(),))
