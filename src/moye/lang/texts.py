"""Text with values of the kernel in it: what an f-string, ``str`` or ``format`` makes of a traced value.

In: literal text and formatted values.  Out: a plain string, or a ``Text``, which can be joined and printed.

    print(f"n={n} x0={x[0]:.2f}")        # each thread prints its values

Formats are those on which Python and the device's printf agree; the others are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NoReturn

from moye import dtypes as dt
from moye.dtypes import Kind
from moye.errors import TraceError
from moye.ir.nodes import Operand
from moye.layout import idx2crd, size
from moye.tensor.context import locate
from moye.tensor.expr import Expr
from moye.tensor.tensor import Tensor

Part = str | tuple[Operand, str]
"""Literal text, or a value with its printf format (empty for the usual one)."""

_SPEC = re.compile(r"(?P<align>[ ]?[<>])?(?P<sign>[-+ ])?(?P<alt>#)?(?P<zero>0)?(?P<width>\d+)?(?P<precision>\.\d+)?"
                   r"(?P<type>[dxXoeEfFgG])?")


class Text:
    """A text that is known only when the kernel runs.  ``shown``: the same with the source of each value in braces."""

    __slots__ = ("parts", "shown")

    def __init__(self, parts: tuple[Part, ...], shown: str) -> None:
        self.parts, self.shown = parts, shown

    def __add__(self, other: object) -> Text:
        return Text((*self.parts, *parts_of(other)), self.shown + shown(other)) if _joins(other) else NotImplemented

    def __radd__(self, other: object) -> Text:
        return Text((*parts_of(other), *self.parts), shown(other) + self.shown) if _joins(other) else NotImplemented

    def __repr__(self) -> str:
        return repr(self.shown)

    def _used(self, *_: object) -> NoReturn:
        raise TraceError(f"the text {self.shown!r} holds values that are known only when the kernel runs; it can be "
                         "printed, and nothing else", hint="print(...) takes it as it is", locs=(locate(),))

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        self._used()

    __str__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _used
    __len__ = __iter__ = __getitem__ = __contains__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _used
    __format__ = __bool__ = _used


def _joins(value: object) -> bool:
    return isinstance(value, (str, Text))


def shown(value: object) -> str:
    """A text for messages, in which nothing is known of the kernel's values."""
    return value.shown if isinstance(value, Text) else str(value)


def joined(parts: tuple[object, ...]) -> object:
    """An f-string: its parts are strings, and (value, conversion, format, source) for what stands in braces."""
    texts = [part if isinstance(part, str) else _formatted(part) for part in parts]  # type: ignore[arg-type]
    if all(isinstance(text, str) for text in texts):
        return "".join(map(str, texts))
    return Text(tuple(piece for text in texts for piece in parts_of(text)), "".join(map(shown, texts)))


def _formatted(part: tuple[Any, int, Any, str]) -> object:
    value, conversion, spec, source = part
    if isinstance(spec, Text):
        raise TraceError(f"the format {spec.shown!r} is known only when the kernel runs", locs=(locate(),))
    spec = spec or ""
    if isinstance(value, Expr):
        if conversion >= 0 and spec:
            raise _unknown(spec, "a converted value (!r, !s)")
        return Text(formatted_value(value, spec), f"{{{source}}}")
    if isinstance(value, Text) and not spec:
        return value
    if conversion < 0 and not spec and has_traced(value):
        return Text(tuple(parts_of(value)), f"{{{source}}}")
    if conversion >= 0:
        converted: Any = {115: str, 114: repr, 97: ascii}[conversion]
        value = converted(value)
    return format(value, spec)


def formatted_value(value: Expr, spec: str = "") -> tuple[Part, ...]:
    """A value with the printf format of a Python one."""
    if not spec:
        return ((value.operand, ""),)
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise _unknown(spec, repr(value))
    kind, dtype = match["type"] or "", value.dtype
    if dtype.kind is Kind.BOOL:
        value, dtype = value.to(dt.int32), dt.int32
    if dtype.is_integer and kind in tuple("eEfFgG"):
        value = value.to(dt.float64)
        dtype = dt.float64
    negative = dtype.is_integer and (value.lower is None or value.lower < 0)
    unsigned = dtype.is_integer and dtype.name.startswith("u")
    bits, prefix = kind in tuple("xXo"), match["alt"] and dtype.is_integer
    if any((dtype.is_float and (bits or kind == "d"), dtype.is_integer and match["precision"],
            bits and negative and not unsigned, (unsigned or bits) and match["sign"] not in (None, "-"),
            match["align"] and match["zero"],
            prefix and bits and (kind == "o" or match["align"] or bool(match["width"]) != bool(match["zero"])))):
        raise _unknown(spec, f"{value!r} of {dtype}")
    if dtype.is_integer and kind in ("", "d"):
        kind = "u" if unsigned else "d"
    left = "-" if (match["align"] or "").endswith("<") else ""
    sign = match["sign"] if match["sign"] in ("+", " ") else ""
    if prefix and bits:                                 # printf has none where the value is 0
        digits = max(0, int(match["width"] or 0) - 2)
        return f"0{kind}", (value.operand, f"%0{digits}{kind}" if digits else f"%{kind}")
    return ((value.operand, f"%{left}{sign}{'' if prefix else match['alt'] or ''}{match['zero'] or ''}"
                            f"{match['width'] or ''}{match['precision'] or ''}{kind or 'g'}"),)


def _unknown(spec: str, what: str) -> TraceError:
    return TraceError(f"the device's printf has no format for {what} that is Python's {spec!r}", locs=(locate(),),
                      hint="it knows width, '<', sign, 0, and d of integers, x X o #x #010x of unsigned ones, e f g of "
                           "floats")


def has_traced(value: object) -> bool:
    """Whether a value, or one in its tuples, lists and dicts, is known only when the kernel runs."""
    if isinstance(value, (Expr, Tensor, Text)):
        return True
    if isinstance(value, dict):
        return any(has_traced(item) for pair in value.items() for item in pair)
    return isinstance(value, (tuple, list, set, frozenset)) and any(map(has_traced, value))


def parts_of(value: object) -> Iterator[Part]:
    """The text that printing a value shows."""
    if isinstance(value, Text):
        yield from value.parts
    elif isinstance(value, Expr):
        yield value.operand, ""
    elif isinstance(value, Tensor):
        yield from _elements(value)
    elif isinstance(value, dict) and has_traced(value):
        yield "{"
        for i, (key, item) in enumerate(value.items()):
            yield f"{', ' if i else ''}{key!r}: "
            yield from _inside(item)
        yield "}"
    elif isinstance(value, (tuple, list)) and has_traced(value):
        yield "[" if isinstance(value, list) else "("
        for i, item in enumerate(value):
            yield ", " if i else ""
            yield from _inside(item)
        yield "]" if isinstance(value, list) else ",)" if len(value) == 1 else ")"
    else:
        yield str(value)


def _inside(value: object) -> Iterator[Part]:
    """A part of a container: text in quotes."""
    if has_traced(value):
        yield from parts_of(value)
    else:
        yield repr(value)


def _elements(tensor: Tensor) -> Iterator[Part]:
    count = size(tensor.layout)
    if not isinstance(count, int) or count > 64:
        many = "too many elements to print" if isinstance(count, int) else \
            "a number of elements that is known only when the kernel runs"
        raise TraceError(f"print: {tensor!r} has {many} (64 at most)",
                         hint="print a slice, or use mo.inspect", locs=(locate(),))
    yield f"{tensor.label} ["
    for i in range(count):
        if i:
            yield ", "
        element = tensor[idx2crd(tensor.layout.shape, i)]
        yield (element.operand, "") if isinstance(element, Expr) else str(element)
    yield "]"


def text_of(*args: Any, **options: Any) -> object:
    """``str(x)`` in a kernel."""
    if len(args) == 1 and not options and has_traced(args[0]) and not isinstance(args[0], Tensor):
        return args[0] if isinstance(args[0], Text) else Text(tuple(parts_of(args[0])), "{...}")
    return str(*args, **options)


def repr_of(value: object) -> object:
    """``repr(x)`` in a kernel."""
    return text_of(value) if isinstance(value, Expr) else repr(value)


def format_of(value: Any, spec: Any = "") -> object:
    """``format(x, spec)`` in a kernel."""
    return joined(((value, -1, spec, "..."),))

