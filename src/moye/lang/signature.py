"""What a kernel is specialised on: one spec per leaf of its arguments.

In: (from the runtime) classified arguments.  Out: the specs that ``trace.py`` turns into parameters and static values.

>>> TensorSpec(float32, (None, None), (1, None), (0, 4), 16)     # column-major, leading stride a multiple of 4
TensorSpec(dtype=float32, shape=(None, None), strides=(1, None), divisors=(0, 4), align=16)

Specs are hashable: the tuple of them, with block and cluster, is the specialisation key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from moye.dtypes import DType
from moye.lang import remade
from moye.lang.likeness import told_apart
from moye.tensor.tma_boxes import TmaTiling


class Constexpr:
    """Annotation of a kernel parameter: its value is static and part of the specialisation.

    ``Constexpr[int]`` is the same: it says of which class, to people.
    """

    def __class_getitem__(cls, of: object) -> type[Constexpr]:
        return cls


class Static:
    """Annotation of a tensor parameter: its extents are static and part of the specialisation."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor argument.

    ``shape`` holds None for dynamic extents.  ``strides`` holds 0, 1, or None for any other; ``divisors`` then the
    largest power of two (in elements, up to 16 bytes) that divides it.  ``align`` is the base pointer's, in bytes.
    """

    dtype: DType
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    divisors: tuple[int, ...]
    align: int


@dataclass(frozen=True, slots=True)
class TmaSpec:
    """A TMA copy: its array, which a kernel reads and writes by that copy alone, and its static part."""

    tensor: TensorSpec
    tiling: TmaTiling


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A runtime scalar."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class StaticSpec:
    """A static value; ``key`` stands for it in comparisons (functions by code, defaults and closure)."""

    key: object
    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticSpec) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True, slots=True)
class Keys:
    """What a dict has beside its items: its class and its keys, which ``told`` tells from others equal to them."""

    cls: type
    keys: tuple[object, ...]
    told: object


@dataclass(frozen=True, slots=True)
class TreeSpec:
    """A tuple, list, dict or dataclass of specs.  ``kind`` is its class, of a dict its ``Keys``."""

    kind: object
    names: tuple[str, ...]
    items: tuple[Spec, ...]


Spec = TensorSpec | TmaSpec | ScalarSpec | StaticSpec | TreeSpec


def map_leaves(spec: Spec, leaf: Callable[[Spec, str], Any], name: str) -> Any:
    """The argument that a spec stands for, its leaves made by ``leaf(spec, name)``."""
    if not isinstance(spec, TreeSpec):
        return leaf(spec, name)
    items = [map_leaves(item, leaf, f"{name}_{part}") for part, item in zip(spec.names, spec.items, strict=True)]
    if isinstance(spec.kind, Keys):
        return remade.of_class(spec.kind.cls, dict(zip(spec.kind.keys, items, strict=True)))
    return remade.of_class(spec.kind, dict(zip(spec.names, items, strict=True)))


def is_tree(value: object) -> bool:
    """Whether an argument is a container of arguments."""
    if isinstance(value, (tuple, list, dict)) and not isinstance(value, Enum):
        return True
    return remade.is_record(value)


def parts_of(value: object) -> tuple[object, tuple[str, ...], tuple[object, ...]]:
    """Kind, part names and parts of a container."""
    if isinstance(value, dict):
        # Of a class that gives defaults a kernel sees what there is: what the defaults are made by is no argument.
        made = dict if isinstance(value, defaultdict) else type(value)
        kind = Keys(made, tuple(value), tuple(map(told_apart, value)))
        return kind, tuple(str(k) for k in value), tuple(value.values())
    if isinstance(value, (tuple, list)):
        names = getattr(value, "_fields", None) or tuple(str(i) for i in range(len(value)))
        # What torch.Size holds are Python's integers: in a kernel it is the tuple that it was made of.
        return tuple if type(value).__module__ == "torch" else type(value), tuple(names), tuple(value)
    assert remade.is_record(value), "a dataclass instance"
    cls: Any = type(value)
    found = remade.state_of(value)
    names = remade.names_of(cls) or tuple(found)
    return cls, names, tuple(found[n] for n in names)
