"""What Python's own code asks of a scalar of a kernel, which has neither a truth nor a class of Python's to tell it.

In: the frame that asks.  Out: what to do instead of a test; whether it asks for one of Python's numbers, as
``isinstance(x, int)``, ``case int():`` and ``x.__class__`` do; and the error that says so, since False would be the
answer to another question.

moye's own code asks such things to tell what is static from what is not, and gets Python's answer.
"""

from __future__ import annotations

import dis
import functools
import numbers
import sys
import types
from types import CodeType, FrameType
from typing import Any

from moye.errors import TraceError
from moye.tensor.context import LOOKING, is_internal, locate, tracing

KEEP_ITEMS = "keep every item, as in sum(x[i] if c else 0 for ...) or any(c and x[i] > 0 for ...), or write a for " \
             "with an if"
"""What to do in a comprehension instead of choosing items by what only the kernel knows."""
_REWRITTEN = "__moye__"
"""The variable that a function has which is rewritten: what control object it calls."""
_NUMBERS = (int, float, complex, bool)
_NAMES = frozenset({*(cls.__name__ for cls in _NUMBERS), "__class__"})
_BETWEEN = frozenset({"CACHE", "PRECALL", "BUILD_TUPLE", "BINARY_OP", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_CONST", "COPY",
                      "PUSH_NULL"})
"""What may stand between naming a class and asking for it."""


def instead_of_a_test(frame: FrameType | None) -> str:
    """The hint of a value whose truth Python asks for."""
    frame = _users(frame)
    if frame is None or not _is_statement(frame):
        more = "; max, min, any and all take it in a function with @mo.jit" if in_plain_code(frame) else ""
        return "Python itself tests it here, as sorted, filter, list.index and comparisons of tuples do: compare " \
               f"numbers, one by one, and pass mo.max in place of max{more}"
    code = frame.f_code
    if code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"):
        return KEEP_ITEMS
    if _REWRITTEN in code.co_freevars:                      # all that is not a match statement has been rewritten
        return "use if and elif"
    if code.co_name == "<lambda>":
        return "write the lambda as a def with @mo.jit, or use mo.where"
    return "decorate the function that tests it with @mo.jit, or use mo.where / mo.Constexpr"


def _users(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that is not moye's."""
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def in_plain_code(frame: FrameType | None) -> bool:
    """Whether the innermost code that is not moye's is that of a function that is not rewritten."""
    frame = _users(frame)
    return frame is not None and _REWRITTEN not in (*frame.f_code.co_freevars, *frame.f_code.co_cellvars)


def _is_statement(frame: FrameType) -> bool:
    """Whether an ``if``, ``while``, ``and``, ``or``, ``not``... asks for a truth, and no function of Python's."""
    return any(word in dis.opname[frame.f_code.co_code[frame.f_lasti]] for word in ("JUMP", "UNARY_NOT", "TO_BOOL"))


def is_number_class(asked: Any) -> bool:
    """Whether the second argument of ``isinstance`` names a class of numbers."""
    if isinstance(asked, (tuple, types.UnionType)):
        return any(map(is_number_class, asked if isinstance(asked, tuple) else asked.__args__))
    return isinstance(asked, type) and (asked in _NUMBERS or asked.__module__ in ("numpy", "numbers"))


def asks_for_a_number(frame: FrameType | None) -> bool:
    """Whether a user's instruction asks if an object is one of Python's numbers."""
    if frame is None or is_internal(frame.f_code.co_filename) or not tracing():
        return False
    abstract = frame.f_code.co_name == "__instancecheck__"
    if abstract and frame.f_locals.get("cls") not in vars(numbers).values():
        return False
    asking = frame.f_back if abstract else frame
    module = "" if asking is None else str(asking.f_globals.get("__name__", "")).partition(".")[0]
    if asking is None or is_internal(asking.f_code.co_filename) or module in LOOKING:
        return False
    if module in sys.stdlib_module_names - {"__main__", "functools"}:       # functools.singledispatch asks for a user
        return False
    return abstract or _names_a_number(asking.f_code, asking.f_lasti)


@functools.lru_cache(maxsize=1024)
def _names_a_number(code: CodeType, at: int) -> bool:
    """Whether the instruction takes a class of numbers that the ones before it named."""
    before = [instruction for instruction in dis.get_instructions(code) if instruction.offset <= at]
    asking = before.pop()
    if asking.opname == "LOAD_ATTR":
        return bool(asking.argval == "__class__") and not code.co_name.startswith("__")     # __eq__ of dataclasses asks
    for instruction in reversed(before):
        if instruction.opname not in _BETWEEN:
            return False
        if instruction.argval in _NAMES:
            return True
    return False


def no_class(value: object, question: str) -> TraceError:
    """The error of a value that is asked for its class."""
    return TraceError(f"{question} has no answer: {value!r} is known only when the kernel runs, and has a dtype "
                      "instead of a class of Python's", locs=(locate(),),
                      hint="ask x.dtype, as in x.dtype == mo.int32 and x.dtype.is_integer; mo.is_static(x) tells "
                      "Python's numbers from those of the kernel")
