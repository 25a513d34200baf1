"""The leaves of a launch's arguments: what kind each is, and how generated code takes nested arguments apart.

In: the specs of a call and its arguments.  Out: ``Opened``: a name, a kind and a value for each leaf, and the
statements that give generated code these names.

    opened(specs, (out, (x, y)), writer).names          # ['a0', 'a1_0', 'a1_1']

Tuples, lists, dicts with keys of text and dataclasses are taken apart; ``taken`` does the same to arguments of which
only the classes are known.
"""

from __future__ import annotations

import enum
import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any

import numpy as np

from moye.dtypes import DType
from moye.lang import remade
from moye.lang.likeness import told_apart
from moye.lang.signature import ScalarSpec, Spec, StaticSpec, TensorSpec, TmaSpec, TreeSpec
from moye.runtime.arguments import LARGEST, STATIC_TYPES, unstable
from moye.runtime.arrays import never_an_array
from moye.runtime.tma_arguments import TmaCopy

BY_VALUE = (int, bool, str, bytes)
ARRAYS = {                                              # kind -> (pointer, what else must not change)
    "torch": ("{a}.data_ptr()", ("{a}.dtype", "{a}.shape", "{a}.stride()", "{a}.get_device()", "{a}.is_neg()",
                                 "{a}.requires_grad")),
    "cupy": ("{a}.data.ptr", ("{a}.dtype", "{a}.shape", "{a}.strides", "{a}.device.id")),
    "memory": ("{a}.ptr", ("{a}.dtype", "{a}.shape", "{a}.strides", "{a}.device", "{a}.writable",
                        "{a}.life.ended")),
}
ARRAYS |= {f"tma-{kind}": (pointer.format(a="{a}.array"),
                           ("{a}.key", "{a}.array.__class__", *(text.format(a="{a}.array") for text in fixed)))
           for kind, (pointer, fixed) in ARRAYS.items()}
_ARRAY_CLASSES = {("torch", "Tensor"): "torch", ("torch.nn.parameter", "Parameter"): "torch",
                  ("cupy", "ndarray"): "cupy", ("moye.runtime.arrays", "Memory"): "memory"}
_NUMBERS: dict[type, str] = {int: "int", float: "float", bool: "bool", np.float64: "float"}
_OWN = {"int": ("int32", "int64"), "float": ("float32",), "bool": ("bool",)}
NUMBERS = ("int", "float", "bool", "item", "converted")
"""Kinds of runtime scalars: ``item`` is a scalar of NumPy, ``converted`` what becomes the dtype of an annotation."""


def kind_of(spec: Spec, x: Any, *, annotated: bool = False) -> str:
    """The kind of a leaf; "" for one that only the long way takes."""
    if isinstance(spec, TensorSpec):
        return array_kind(x)
    if isinstance(spec, TmaSpec):
        kind = array_kind(x.array)
        return f"tma-{kind}" if kind else ""
    if isinstance(spec, ScalarSpec):
        return _number(spec.dtype, type(x), annotated)
    if isinstance(spec, StaticSpec):
        # 0.0 == -0.0 but they print differently, and nan equals nothing: floats are told apart by their text.
        return "unstable" if unstable(x) else "repr" if isinstance(x, float) else \
            "record" if type(x) not in BY_VALUE and told_apart(x) else "static"
    return ""


def _number(dtype: DType, cls: type, annotated: bool) -> str:
    """The kind of a scalar of a class."""
    kind = _NUMBERS.get(cls, "")
    if annotated:
        return "converted" if _converts(dtype, cls) else ""
    if kind:
        return kind if dtype.name in _OWN[kind] else ""
    return "item" if issubclass(cls, np.generic) and cls.__module__ == "numpy" else ""


def _converts(dtype: DType, cls: type) -> bool:
    """Whether numbers of a class become a dtype by what ``conversion`` writes."""
    whole = cls is int or issubclass(cls, np.integer)
    if dtype.name == "bool":
        return cls in (bool, np.bool_)
    if dtype.is_float:
        return dtype.bits > 8 and (whole or cls is float or issubclass(cls, np.floating))
    return whole


def conversion(dtype: DType, name: str, x: Any) -> list[str]:
    """Statements that make ``n_name`` the number that an annotation asks for, OTHERWISE if it may not hold it."""
    read = f"{name}.item()" if isinstance(x, np.generic) else name
    if dtype.name == "bool":
        return [f"n_{name} = {read}"]
    if dtype.is_float:                                  # infinities and NaN, which some dtypes lack, are rare
        most = LARGEST.get(dtype, sys.float_info.max)
        return [f"n_{name} = {read}", f"if not {-most!r} <= n_{name} <= {most!r}: OTHERWISE",
                f"n_{name} = float(n_{name})"]
    low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
    return [f"n_{name} = {read}", f"if not {low} <= n_{name} < {low + (1 << dtype.bits)}: OTHERWISE"]


def array_kind(x: Any) -> str:
    return _ARRAY_CLASSES.get((type(x).__module__.partition("._")[0], type(x).__name__), "")


# --- nested arguments ------------------------------------------------------------------------------------------------


@functools.lru_cache(4096)
def container(cls: type) -> tuple[str, ...] | None:
    """How instances of a class are taken apart: None for leaves.

    ("items",), ("values",) or ("fields", name, ...), or ("state",) where instances may hold more than their fields.
    """
    if issubclass(cls, (*STATIC_TYPES, bool, int, float, TmaCopy, enum.Enum)) or not never_an_array(cls):
        return None
    if issubclass(cls, dict):
        return ("values",)
    if issubclass(cls, (tuple, list)):
        return ("items",)
    if not is_dataclass(cls):
        return None
    return ("fields", *names) if (names := remade.names_of(cls)) else ("state",)


def _way(x: Any) -> tuple[str, ...] | None:
    cls: Any = type(x)
    return container(cls)


def _parts(way: tuple[str, ...], x: Any) -> tuple[Any, ...]:
    if way[0] == "fields":
        return tuple([getattr(x, name) for name in way[1:]])
    if way[0] == "state":
        return tuple(remade.state_of(x).values())
    return tuple(x.values() if way[0] == "values" else x)


def taken(args: Sequence[Any], places: Sequence[int]) -> tuple[tuple[object, ...], tuple[Any, ...]]:
    """The structure of arguments of which those at these places are nested, and their leaves."""
    leaves: list[Any] = []
    structure = [_taken(x, leaves) if i in places else _leaf(x, leaves) for i, x in enumerate(args)]
    return tuple(structure), tuple(leaves)


def _leaf(x: Any, leaves: list[Any]) -> object:
    leaves.append(x)
    return type(x)


def _taken(x: Any, leaves: list[Any]) -> object:
    way = _way(x)
    if way is None:
        return _leaf(x, leaves)
    names = (*x, *map(type, x)) if way[0] == "values" else tuple(remade.state_of(x)) if way[0] == "state" else None
    return (type(x), names, *[_taken(part, leaves) for part in _parts(way, x)])


class Closed(Exception):
    """An argument that generated code does not take apart."""


@dataclass(slots=True)
class Opened:
    """Arguments taken apart; ``lines`` are statements, OTHERWISE where arguments have another structure."""

    writer: Any
    names: list[str] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    """The arguments that are nested."""

    def take(self, name: str, spec: Spec, x: Any, annotated: bool) -> None:
        """Take apart one argument, and what is in it."""
        if not isinstance(spec, TreeSpec):
            kind = kind_of(spec, x, annotated=annotated)
            if not kind:
                raise Closed
            self.names.append(name)
            self.values.append(x)
            self.kinds.append(kind)
            return
        way = _way(x)
        if way is None:
            raise Closed
        parts = _parts(way, x)
        names = [f"{name}_{i}" for i in range(len(parts))]
        self._open(name, way, x, "".join(f"{part}, " for part in names))
        for part, item_spec, item in zip(names, spec.items, parts, strict=True):
            self.take(part, item_spec, item, annotated)

    def _open(self, name: str, way: tuple[str, ...], x: Any, names: str) -> None:
        """The statements that give the parts of an argument their names."""
        self.lines.append(f"if {name}.__class__ is not {self.writer.name(type(x))}: OTHERWISE")
        read = name
        if way[0] == "values":
            if not all(type(key) is str for key in x):  # others may be equal and mean something else
                raise Closed
            known = self.writer.name((*x, *map(type, x)))   # a member of an enum may be equal to a text
            self.lines.append(f"if (*{name}, *map({self.writer.name(type)}, {name})) != {known}: OTHERWISE")
            read = f"{name}.values()"
        elif way[0] == "fields":
            read = f"({''.join(f'{name}.{part}, ' for part in way[1:])})"
        elif way[0] == "state":
            held = remade.state_of(x)
            if not hasattr(x, "__dict__") or list(x.__dict__) != list(held):        # slots, properties computed once
                raise Closed
            self.lines.append(f"if (*{name}.__dict__,) != {self.writer.name(tuple(held))}: OTHERWISE")
            read = f"{name}.__dict__.values()"
        self.lines += [f"try: ({names}) = {read}", "except (ValueError, AttributeError): OTHERWISE"]


def opened(specs: Sequence[Spec], args: Sequence[Any], annotated: Sequence[bool], writer: Any) -> Opened | None:
    """The arguments of a call taken apart; None if one is of a kind that only the long way takes."""
    found = Opened(writer)
    try:
        for i, (spec, x, dtype) in enumerate(zip(specs, args, annotated, strict=True)):
            if isinstance(spec, TreeSpec):
                found.places.append(i)
            found.take(f"a{i}", spec, x, dtype)
    except Closed:
        return None
    return found if any(kind in ARRAYS for kind in found.kinds) else None
