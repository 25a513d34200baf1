"""Looking inside a kernel: ``mo.inspect``, ``breakpoint()`` and ``print``.

In: tensors and scalars of the kernel being traced.  Out: ``ops.Inspect`` and ``ops.Print``.

    mo.inspect("after load", tCrA=tCrA)

Only the simulator keeps snapshots; printing works on both back ends.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from moye.dtypes import Space
from moye.errors import TraceError
from moye.ir import ops
from moye.lang.texts import Part, parts_of
from moye.layout import size
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr, is_scalar, operand_of
from moye.tensor.space import common_space, merged
from moye.tensor.tensor import Tensor


def inspect(label: str = "", /, **named: object) -> None:
    """Keep a snapshot of tensors and scalars here when the kernel runs in the simulator (the GPU ignores it).

    Write ``mo.inspect("after load", tCrA=tCrA)``, and read it with ``mo.inspections()``.  Without names, and as
    ``breakpoint()``, it keeps every scalar and register tensor of the function, and the views of memory of up to 256
    elements.
    """
    if not named:
        named = _visible(sys._getframe(1).f_locals)
    tensors = []
    scalars = []
    for name, value in named.items():
        if isinstance(value, Tensor):
            space = merged(common_space([value.layout]))
            extents = tuple(e if isinstance(e, int) else operand_of(e, builder().index)  # type: ignore[arg-type]
                            for e in space.extents)
            tensors.append((name, value.tile_ref(space.strides[0]), extents))
        elif is_scalar(value):
            scalars.append((name, operand_of(value)))  # type: ignore[arg-type]
        else:
            raise TraceError(f"inspect: {name}={value!r} is no tensor or scalar", locs=(locate(),))
    builder().emit(ops.Inspect(label=label, tensors=tuple(tensors), scalars=tuple(scalars)))  # type: ignore[arg-type]


_LARGEST_VIEW = 256


def _visible(variables: Mapping[str, object]) -> dict[str, object]:
    """The variables of a kernel that a snapshot without names keeps."""
    kept: dict[str, object] = {}
    for name, value in variables.items():
        if isinstance(value, Tensor):
            count = size(value.layout)
            if value.space is Space.REGISTER or (isinstance(count, int) and count <= _LARGEST_VIEW):
                kept[name] = value
        elif isinstance(value, Expr):
            kept[name] = value
    return kept


def breakpoint_() -> None:
    """``breakpoint()`` in a kernel: a snapshot of everything visible here."""
    inspect("breakpoint", **_visible(sys._getframe(1).f_locals))


def print_(*values: object, sep: str | None = " ", end: str | None = "\n", **options: object) -> None:
    """``print`` in a kernel: one line per thread, with its block and thread index in front."""
    if set(options) - {"flush"}:
        raise TraceError(f"print in a kernel takes sep and end, not {', '.join(sorted(options))}", locs=(locate(),))
    parts: list[Part] = []
    for i, value in enumerate(values):
        if i:
            parts.extend(parts_of(" " if sep is None else sep))
        parts.extend(parts_of(value))
    parts.extend(parts_of("\n" if end is None else end))
    formats = [form for part in parts if not isinstance(part, str) for form in (part[1],)]
    builder().emit(ops.Print(parts=tuple(part if isinstance(part, str) else part[0] for part in parts if part != ""),
                             formats=tuple(formats) if any(formats) else ()))
