"""Why a kernel was specialised again: the difference from the nearest earlier specialisation, in words.

In: two ``Shape``s (specs, index width, block, cluster) or two lists of captured names.  Out: sentences.

    differences(old, new)      # ["argument 'A': stride 1 of mode 0 became dynamic"]
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from moye.lang.behaviour import MISSING
from moye.lang.contents import Contents
from moye.lang.likeness import same_value
from moye.lang.signature import ScalarSpec, Spec, StaticSpec, TensorSpec, TmaSpec, TreeSpec
from moye.lang.trace import Capture, holds

_LONGEST = 60


class Shape(NamedTuple):
    """What one specialisation is for."""

    specs: dict[str, Spec]
    index_bits: int
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]


def nearest(new: Shape, earlier: Iterable[Shape]) -> list[str]:
    """The fewest differences from an earlier specialisation; among equals, those from the latest one."""
    best: list[str] = []
    for old in earlier:
        found = differences(old, new)
        if not best or len(found) < len(best):
            best = found
    return best


def differences(old: Shape, new: Shape) -> list[str]:
    """One sentence for each part that differs."""
    found: list[str] = []
    for name, spec in new.specs.items():
        if spec != old.specs[name]:
            found += _spec(f"argument {name!r}", old.specs[name], spec)
    if old.index_bits != new.index_bits:
        found.append(f"indices of {old.index_bits} bits -> {new.index_bits} bits")
    found += [f"{what} {a} -> {b}" for what, a, b in (("block", old.block, new.block),
                                                      ("cluster", old.cluster, new.cluster)) if a != b]
    return found


def changes(captures: Sequence[Capture]) -> list[str]:
    """One sentence for each name that no longer holds what it held while tracing."""
    found = []
    for capture in captures:
        space = capture.namespace
        if isinstance(space, types.FunctionType):
            if not holds(capture, getattr(space, capture.name)):
                found.append(f"the function {space.__name__} has another {capture.name.strip('_')}")
            continue
        where = "closure variable" if isinstance(space, types.CellType) else \
            f"{space.__name__}'s attribute" if isinstance(space, type) else "global"
        now = space.cell_contents if isinstance(space, types.CellType) else \
            (vars(space) if isinstance(space, type) else space).get(capture.name, MISSING)
        if capture.value is MISSING:
            found += [] if now is MISSING else [f"{where} {capture.name} is there now, and was not"]
        elif now is MISSING:
            found.append(f"{where} {capture.name} is no longer there")
        elif isinstance(capture.value, Contents):
            found += [] if holds(capture, now) else [f"what is in {where} {capture.name} changed"]
        elif not same_value(now, capture.value):
            found.append(f"{where} {capture.name} changed from {_short(capture.value)} to {_short(now)}")
    return found


def _spec(what: str, old: Spec, new: Spec) -> list[str]:
    if isinstance(old, TensorSpec) and isinstance(new, TensorSpec):
        return [f"{what}: {change}" for change in _tensor(old, new)]
    if isinstance(old, TmaSpec) and isinstance(new, TmaSpec):
        tiles = [] if old.tiling == new.tiling else [f"{what} changed from {old.tiling} to {new.tiling}"]
        return [*(f"{what}: {change}" for change in _tensor(old.tensor, new.tensor)), *tiles]
    if isinstance(old, ScalarSpec) and isinstance(new, ScalarSpec):
        return [f"{what}: dtype {old.dtype} -> {new.dtype}"]
    if isinstance(old, StaticSpec) and isinstance(new, StaticSpec):
        a, b = _short(old.value), _short(new.value)
        return [f"{what} changed from {a} to {b}" if a != b else f"{what}: another {type(new.value).__name__} {b}"]
    if isinstance(old, TreeSpec) and isinstance(new, TreeSpec) and (old.kind, old.names) == (new.kind, new.names):
        parts = zip(new.names, old.items, new.items, strict=True)
        return [line for name, a, b in parts if a != b for line in _spec(f"{what}, part {name!r}", a, b)]
    return [f"{what}: {_noun(old)} became {_noun(new)}"]


def _tensor(old: TensorSpec, new: TensorSpec) -> list[str]:
    if len(old.shape) != len(new.shape):
        return [f"rank {len(old.shape)} -> {len(new.shape)}"]
    found = [f"dtype {old.dtype} -> {new.dtype}"] if old.dtype != new.dtype else []
    for mode, (a, b) in enumerate(zip(old.shape, new.shape, strict=True)):
        if a != b:
            found.append(f"static extent of mode {mode} {a} -> {b}")
    for mode, (a, b) in enumerate(zip(old.strides, new.strides, strict=True)):
        before, after = old.divisors[mode], new.divisors[mode]
        if a is not None and b is None:
            found.append(f"stride {a} of mode {mode} became dynamic")
        elif a is None and b is not None:
            found.append(f"the stride of mode {mode} was dynamic and became {b}")
        elif a != b:
            found.append(f"stride of mode {mode} {a} -> {b}")
        elif before != after and a is None:
            found.append(f"the stride of mode {mode} was a multiple of {before} elements and now of {after}")
    if old.align != new.align:
        found.append(f"alignment {old.align} -> {new.align} bytes")
    return found


def _noun(spec: Spec) -> str:
    if isinstance(spec, TensorSpec):
        return "a tensor"
    if isinstance(spec, TmaSpec):
        return "a TMA copy"
    if isinstance(spec, ScalarSpec):
        return f"a {spec.dtype} scalar"
    return f"the static value {_short(spec.value)}" if isinstance(spec, StaticSpec) else "a container"


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, (str, bytes)) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
