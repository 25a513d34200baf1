"""The short way to launch again: what a first launch worked out, kept by what it depended on.

In: the arguments of a call like an earlier one.  Out: one driver call.

>>> plan, dynamic = plans.find(args, grid, block); plan.launch(dynamic)

A plan holds for arrays of the same dtype, shape, strides, device and 16-byte alignment, and for the same static
objects.  Whatever is not certain (keywords, overlapping arrays, unknown types) goes the long way through ``kernel.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from moye.cuda import driver
from moye.ir.nodes import ScalarParam, TensorParam
from moye.lang.trace import changed
from moye.runtime.arguments import Call
from moye.runtime.arrays import ArrayInfo, span_bytes
from moye.runtime.compile import Dim3, Program, Specialised

_LIMIT = 4096
_INT32 = range(-(1 << 31), 1 << 31)
Reader = Callable[[Any, list[Any]], Any]


def _read_torch(x: Any, dynamic: list[Any]) -> Any:
    pointer = x.data_ptr()
    dynamic.append(pointer)
    return (x.dtype, x.shape, x.stride(), pointer & 15, x.get_device())


def _read_int(x: int, dynamic: list[Any]) -> Any:
    dynamic.append(x)
    return "i" if x in _INT32 else "q"


def _read_float(x: float, dynamic: list[Any]) -> Any:
    dynamic.append(x)
    return "f"


def _read_bool(x: bool, dynamic: list[Any]) -> Any:
    dynamic.append(x)
    return "?"


_READERS: dict[type, Reader] = {int: _read_int, float: _read_float, bool: _read_bool}
_NO_FAST_PATH = (tuple, list, dict)


class Plan:
    """One ready launch: the loaded kernel and where each parameter comes from."""

    __slots__ = ("block", "captures", "cluster", "dynamic_smem", "grid", "keep", "kind", "loaded", "ordinal",
                 "positions", "spans", "template")

    def __init__(self, spec: Specialised, program: Program, call: Call, device: int, grid: Dim3,
                 keep: tuple[Any, ...]) -> None:
        self.loaded = program.loaded[device]
        self.captures = spec.captures
        self.grid, self.block = grid, spec.func.block_dim
        self.cluster = None if spec.func.cluster_dim == (1, 1, 1) else spec.func.cluster_dim
        self.dynamic_smem = program.printed.dynamic_smem
        self.ordinal, self.keep = device, keep
        self.kind = call.arrays[0][1].kind
        self.template: list[Any] = []
        self.positions: list[tuple[int, int]] = []
        for i, slot in enumerate(program.printed.slots):
            leaf = call.leaves[slot.param]
            if isinstance(leaf, ArrayInfo) and slot.kind != "ptr":
                self.template.append((leaf.shape if slot.kind == "shape" else leaf.strides)[slot.mode])
            else:
                self.template.append(0)
                self.positions.append((i, slot.param))
        self.spans = _spans(spec, call)

    def launch(self, dynamic: list[Any]) -> bool:
        """Queue the kernel; False (and nothing done) where arrays overlap or a captured name changed."""
        if self.captures and changed(self.captures):
            return False
        for (a, bytes_a), (b, bytes_b) in self.spans:
            if dynamic[a] < dynamic[b] + bytes_b and dynamic[b] < dynamic[a] + bytes_a:
                return False
        values = self.template.copy()
        for i, source in self.positions:
            values[i] = dynamic[source]
        self.loaded.launch(self.grid, self.block, self.cluster, self.dynamic_smem,
                           driver.current_stream(self.ordinal, self.kind), values)
        return True


def _spans(spec: Specialised, call: Call) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Pairs of (leaf, bytes) that must not overlap: every written array against every other."""
    tensors = [(i, span_bytes(leaf), param.buffer.written)
               for i, (param, leaf) in enumerate(zip(spec.func.params, call.leaves, strict=True))
               if isinstance(param, TensorParam) and isinstance(leaf, ArrayInfo)]
    return [((i, end_a - first_a), (j, end_b - first_b))
            for n, (i, (first_a, end_a), written_a) in enumerate(tensors)
            for j, (first_b, end_b), written_b in tensors[n + 1:] if written_a or written_b]


class Plans:
    """The plans of one kernel, by what identifies a call."""

    def __init__(self, roles: Sequence[str]) -> None:
        self.roles = tuple(roles)
        self.static = tuple(role == "constexpr" for role in roles)
        self.plans: dict[Any, Plan] = {}

    def find(self, args: tuple[Any, ...], grid: Dim3, block: Dim3) -> tuple[Plan | None, list[Any]]:
        """The plan for these arguments, and their pointers and numbers in the order of the leaves."""
        dynamic: list[Any] = []
        return (self.plans.get(self.key(args, grid, block, dynamic)) if self.plans else None), dynamic

    def key(self, args: tuple[Any, ...], grid: Dim3, block: Dim3, dynamic: list[Any]) -> Any:
        tokens: list[Any] = [grid, block]
        for x, static in zip(args, self.static, strict=False):
            kind = type(x)
            if static:
                tokens.append((kind, x) if kind in _READERS else id(x))
                continue
            reader = _READERS.get(kind)
            tokens.append(id(x) if reader is None else reader(x, dynamic))
        return tuple(tokens)

    def add(self, spec: Specialised, program: Program, call: Call, device: int, grid: Dim3,
            args: tuple[Any, ...]) -> None:
        """Remember a launch that succeeded, if the short way can tell when it applies again."""
        _learn(call)
        if len(args) != len(self.static) or any(isinstance(a, _NO_FAST_PATH) for a in args) or not call.arrays:
            return
        if any(type(obj) not in _READERS for _, _, obj in call.arrays):
            return
        if _guards_on_scalars(spec):
            return
        if len(self.plans) >= _LIMIT:
            self.plans.clear()
        key = self.key(args, grid, spec.func.block_dim, [])
        self.plans[key] = Plan(spec, program, call, device, grid, _statics(args))


def _statics(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments known by identity: kept alive, so that their identities stay theirs."""
    return tuple(a for a in args if type(a) not in _READERS)


def _learn(call: Call) -> None:
    """Torch's tensor class becomes known once a launch has seen one (torch is never imported here)."""
    for _, info, obj in call.arrays:
        if info.kind == "torch" and type(obj).__module__ == "torch":
            _READERS.setdefault(type(obj), _read_torch)


def _guards_on_scalars(spec: Specialised) -> bool:
    """Guards that may depend on runtime scalars must be checked at every launch: then there is no plan."""
    return bool(spec.func.guards) and any(isinstance(p, ScalarParam) for p in spec.func.params)
