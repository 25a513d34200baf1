"""The short way to launch again: one generated function per kind of call, made from what a first launch found out.

In: the arguments of a call like an earlier one.  Out: one driver call, or False if the long way must be taken.

    plan = plans.add(spec, program, call, device, args, grid); plan.at(grid, long).launch(*args)

A plan holds for arrays of the same class, dtype, shape, strides, device and 16-byte alignment that overlap as its own
do, also in nested arguments, for equal static arguments (identical ones are recognised sooner), and for unchanged
captured names.  Any other call goes the long way through ``kernel.py``.  ``Plans`` are of one kernel and block.
"""

from __future__ import annotations

import copy
import ctypes
import functools
import math
import struct
import sys
import types
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from moye.cuda.device import driver, events
from moye.dtypes import bits_of
from moye.errors import DriverError, MoyeError
from moye.ir import ops
from moye.ir.nodes import Func, Literal, ScalarParam, TensorParam, Value
from moye.lang.behaviour import MISSING
from moye.lang.contents import Contents
from moye.lang.likeness import told_apart
from moye.lang.trace import Capture, holds_now
from moye.runtime import autograd
from moye.runtime.arguments import Call, static_key
from moye.runtime.arrays import ArrayInfo, span_bytes
from moye.runtime.compile import Dim3, Program, Specialised
from moye.runtime.launch import array_kind, as_bits, encoded_map, slot_value
from moye.runtime.leaves import ARRAYS, BY_VALUE, NUMBERS, Opened, conversion, opened, taken
from moye.runtime.tma_arguments import TmaCopy
from moye.runtime.watched import Watch, edits

held: list[object] = []
"""Not empty while some thread only compiles (``prepare.compile_only``): then all go the long way."""

LongWay = Callable[[tuple[Any, ...], tuple[Any, ...], dict[str, Any]], None]
"""A function of (arguments, with ``missing`` for those not given; further ones; named ones)."""

missing = object()
_LIMIT = 1024
_ALIKE = 4                                              # plans for arguments that differ in how arrays overlap
_RECENT = 16                                            # parameters kept packed per plan; whole launches, if no numbers
_MOST_STREAMS = 64
_MOST_ARRAYS = 8                                        # that are compared one by one; more, by a sort


class Bound(NamedTuple):
    """A plan for one grid.

    ``launch(*args, **kwargs)`` checks everything, and goes the long way if the plan does not hold. ``again(*leaves)``
    is for leaves of arguments that are known to have the plan's key; it returns False if the plan does not hold.
    """

    launch: Callable[..., None]
    again: Callable[..., bool]


class Plan:
    """One kind of launch; ``at`` makes it ready for a grid."""

    def __init__(self, spec: Specialised, ready: Ready, slots: Sequence[Any] | None, only: Dim3 | None,
                 bind: Callable[..., tuple[Callable[..., None], Callable[..., bool]]]) -> None:
        self._spec, self._ready, self._slots, self._only, self._bind = spec, ready, slots, only, bind

    def at(self, grid: Dim3, long: LongWay, stream: Callable[[int], int] | None) -> Bound:
        """The functions for a grid; ``stream`` says which to launch on, else the current one is meant."""
        ready = self._ready.of(grid)
        return Bound(*self._bind(grid, {}, ready.configs, ready.configure, ready.retry, long,
                                 stream or self._ready.stream))

    def fits(self, grid: Dim3) -> bool:
        """Whether the long way would launch this kernel with a grid, and have nothing to say of it."""
        func = self._spec.func
        try:
            driver.check_grid(func.name, grid)
            driver.check_cluster(func.name, grid, func.cluster_dim)
            if self._slots is not None:
                self._spec.check(self._slots, grid)
        except MoyeError:
            return False
        return 0 not in grid and self._only in (None, grid) and math.prod(grid) * math.prod(func.block_dim) <= 1 << 31 \
            and not self._spec.wraps(grid)


class Plans:
    """The plans of one kernel for one block, cluster and other options, and any grid."""

    __slots__ = ("_keys", "_met", "_plans", "_trees", "annotated", "dependent", "smem")

    def __init__(self, smem: int = 0, dependent: bool = False, annotated: Sequence[bool] = ()) -> None:
        self.smem, self.dependent, self.annotated = smem, dependent, annotated
        self._plans: dict[Any, tuple[Plan, ...]] = {}
        self._met: set[Any] = set()
        self._keys: dict[tuple[object, ...], Callable[[tuple[Any, ...]], Any]] = {}
        self._trees: dict[tuple[object, ...], Sequence[int]] = {}

    def find(self, args: tuple[Any, ...]) -> tuple[tuple[Plan, ...], tuple[Any, ...]]:
        """The plans for arguments that equal those of an earlier launch, and the leaves of the arguments."""
        key, leaves = self._key(args)
        return self._plans.get(key, ()), leaves

    def seen(self, args: tuple[Any, ...]) -> bool:
        """Whether this is asked for the second time of arguments like these, or the first of any of these classes."""
        key, _ = self._key(args)
        if key is None or key in self._met:
            self._met.discard(key)
            return True
        if len(self._met) >= _LIMIT:
            self._met.clear()
        self._met.add(key)
        return False

    def _key(self, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """What a plan for arguments is found by, None where none can be; and the leaves."""
        structure: tuple[object, ...] = tuple(map(type, args))
        places = self._trees.get(structure)
        if places is None:
            return None, args
        if places:
            structure, args = taken(args, places)
        make = self._keys.get(structure)
        try:
            key = None if make is None else (structure, make(args))
            hash(key)
        except (TypeError, RuntimeError, AttributeError):
            return None, args                           # no hash, no memory; a TMA copy of another library's array
        return key, args

    def add(self, spec: Specialised, program: Program, call: Call, device: int, args: tuple[Any, ...], grid: Dim3,
            only: Dim3 | None = None) -> Plan | None:
        """Remember a launch that succeeded, if the short way can tell when it may be used again; with ``only`` one
        grid.
        """
        writer = Writer()
        found = opened(tuple(call.specs.values()), args, self.annotated, writer)
        if found is None:
            return None
        structure: tuple[object, ...] = tuple(map(type, args))
        self._trees[structure] = found.places
        if found.places:
            structure, _ = taken(args, found.places)
        leaves = tuple(found.values)
        make_key = self._keys.setdefault(structure, _key_function(found.names, found.kinds))
        try:
            key = structure, make_key(leaves)
        except AttributeError:                          # the first TMA copies were of another library's arrays
            return None
        ready = Ready(program, call, device, grid, spec.func, self.smem, self.dependent)
        plan = _plan(spec, ready, call, found, only)
        # Plans are cheap to make again; keeping track of which are old would cost every launch.
        if len(self._plans) >= _LIMIT:
            self._plans.clear()
        self._plans[key] = (plan, *self._plans.get(key, ()))[:_ALIKE]
        return plan


def _key_function(names: Sequence[str], kinds: Sequence[str]) -> Callable[[tuple[Any, ...]], Any]:
    """Make ``key(leaves)``: all that a plan depends on, by value."""
    parts: list[str] = []
    for a, kind in zip(names, kinds, strict=True):
        if kind in ARRAYS:
            pointer, fixed = ARRAYS[kind]
            parts += [text.format(a=a) for text in (*fixed, f"{pointer} & 15")]
        elif kind not in NUMBERS:
            parts += {"static": [a], "record": [a, f"told_apart({a})"], "repr": [f"repr({a})"],
                      "unstable": [f"static_key('{a}', {a})"]}[kind]
        elif kind == "int":
            parts.append(f"-2147483648 <= {a} <= 2147483647")
    lines = ["def key(leaves):", f"    ({''.join(f'{a}, ' for a in names)}) = leaves",
             f"    return ({''.join(p + ', ' for p in parts)})"]
    namespace: dict[str, Any] = {"static_key": static_key, "told_apart": told_apart}
    exec(code("\n".join(lines)), namespace)
    key: Callable[[tuple[Any, ...]], Any] = namespace["key"]
    return key


@functools.lru_cache(1024)
def code(source: str) -> types.CodeType:
    return compile(source, "<moye launch>", "exec")


# --- the launch function ---------------------------------------------------------------------------------------------


class Writer:
    """The source of a launch function and the values that it refers to."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def name(self, value: Any) -> str:
        """A variable that holds the value."""
        name = f"v{len(self.values)}"
        self.values[name] = value
        return name


class Leaf(NamedTuple):
    """A runtime argument: its name, its kind, what it is, and its parameter of the kernel."""

    name: str
    kind: str
    value: Any
    info: ArrayInfo | int | float | bool
    param: Any

    @property
    def moving(self) -> str:
        """The variable of what a launch packs: a pointer, or a number."""
        if self.kind in ARRAYS:
            return f"p_{self.name}"
        return f"n_{self.name}" if self.kind in ("item", "converted") else self.name


def _plan(spec: Specialised, ready: Ready, call: Call, found: Opened, only: Dim3 | None) -> Plan:
    """Write, compile (once per text) and bind the two functions of a plan.

    Everything that they refer to is a closure variable, because these cost least.
    """
    writer: Writer = found.writer
    runtime = [(name, kind, value) for name, kind, value in zip(found.names, found.kinds, found.values, strict=True)
               if kind in ARRAYS or kind in NUMBERS]
    leaves = [Leaf(*each, info, param) for each, info, param in zip(runtime, call.leaves, spec.func.params,
                                                                    strict=True)]
    same = " and ".join(_same(writer, found)) or "True"
    body = _body(writer, spec, ready, call, leaves)
    arguments = [f"a{i}" for i in range(len(call.specs))]
    parameters = "".join(f"{a}=missing, " for a in arguments)
    otherwise = f"return long(({''.join(f'{a}, ' for a in arguments)}), rest, named)"
    first = f"named or rest or {arguments[-1]} is missing"
    check = [f"if {first} or not ({same}): OTHERWISE"] if not found.places else [
        f"if {first}: OTHERWISE", *found.lines, f"if not ({same}): OTHERWISE"]
    late = ("grid", "recent", "configs", "configure", "retry", "long", "stream")
    lines = [f"    def bind({', '.join(late)}):",
             f"        def again({''.join(f'{a}, ' for a in found.names)}):", *_indented(body, "return False"),
             "            return True",
             f"        def launch({parameters}*rest, **named):", *_indented([*check, *body], otherwise),
             "        return launch, again",
             "    return bind"]
    values = {"missing": missing, "held": held, "check": spec.check, "pool": [], "error": struct.error,
              "ordinal": ready.device, "refill": ready.buffer, "call": ready.call, "function": ready.function,
              **writer.values}
    namespace: dict[str, Any] = {}
    exec(code("\n".join([f"def make({', '.join(values)}):", *lines])), namespace)
    fixed = None if _guards_on_scalars(spec.func) else _slot_values(call)
    return Plan(spec, ready, fixed, only, namespace["make"](**values))


def _slot_values(call: Call) -> list[Any]:
    return [n for leaf in call.leaves for n in ((*leaf.shape, *leaf.strides) if isinstance(leaf, ArrayInfo)
                                                else (leaf,))]


def _indented(lines: Sequence[str], otherwise: str) -> list[str]:
    return [f"            {line.replace('OTHERWISE', otherwise)}" for line in lines]


def _body(writer: Writer, spec: Specialised, ready: Ready, call: Call, leaves: Sequence[Leaf]) -> list[str]:
    """What both functions do: check what the key does not hold, fill the parameters, launch."""
    before, after = _autograd(writer, leaves)
    lines = []
    if spec.captures:
        lines += ["try:", f"    if held or not ({' and '.join(captured(writer, *spec.watched()))}): OTHERWISE",
                  "except (KeyError, ValueError): OTHERWISE"]
    else:
        lines += ["if held: OTHERWISE"]
    lines += before
    for leaf in leaves:
        if leaf.kind in ARRAYS:
            lines.append(f"{leaf.moving} = {ARRAYS[leaf.kind][0].format(a=leaf.name)}")
        elif leaf.kind == "item":
            lines.append(f"{leaf.moving} = {leaf.name}.item()")
        elif leaf.kind == "converted":
            lines += conversion(leaf.param.value.dtype, leaf.name, leaf.value)
    numbers = [leaf.kind for leaf in leaves if leaf.kind not in ARRAYS]
    values = "".join(f"{leaves[n].moving}, " for n in ready.sources)
    packed = _packed(writer, ready, call, leaves)
    lines.append("s = stream(ordinal)")
    # Numbers would make most launches new ones, so only pointers are looked up.
    if not numbers:
        lines += [f"found = recent.get(({values}s))", "if found is not None:", "    config, params = found",
                  "    failed = call(config, function, params, None)",
                  "    if failed: failed = retry(config, params)", "else:"]
    else:
        lines.append("if True:")
    return [*lines, *(f"    {line}" for line in _unseen(writer, spec, leaves, values, packed)),
            "if failed: OTHERWISE", *after]


def _autograd(writer: Writer, leaves: Sequence[Leaf]) -> tuple[list[str], list[str]]:
    """What to do before and after the launch for the torch tensors that it writes."""
    dirty = [(leaf.value, leaf.name) if leaf.kind == "torch" else (leaf.value.array, f"{leaf.name}.array")
             for leaf in leaves if leaf.kind in ("torch", "tma-torch")
             and isinstance(leaf.param, TensorParam) and leaf.param.buffer.written]
    bump = autograd.bumper()
    if not dirty or bump is None:
        return [], []
    tracked = any(x.requires_grad for x, _ in dirty)
    return ([f"if {writer.name(autograd.grad_enabled)}(): OTHERWISE"] if tracked else [],
            [f"{writer.name(bump)}(({''.join(f'{text}, ' for _, text in dirty)}))"])


def _packed(writer: Writer, ready: Ready, call: Call, leaves: Sequence[Leaf]) -> str:
    """What a launch packs: pointers, numbers, and the tensor maps of pointers."""
    parts = []
    for n, slot in zip(ready.sources, ready.slots, strict=True):
        leaf, info = leaves[n], call.leaves[n]
        if slot.kind == "map" and isinstance(info, ArrayInfo):
            parts.append(f"{writer.name(encoded_map(slot, info))}({leaf.moving}), ")
        elif (narrow := as_bits(slot)) is not None:
            parts.append(f"{writer.name(bits_of)}(float({leaf.moving}), {writer.name(narrow)}), ")
        else:
            parts.append(f"{leaf.moving}, ")
    return "".join(parts)


def _unseen(writer: Writer, spec: Specialised, leaves: Sequence[Leaf], values: str, packed: str) -> list[str]:
    """The launch of pointers and numbers that are not among the recent ones, which fit and are packed."""
    numbers = [leaf.kind for leaf in leaves if leaf.kind not in ARRAYS]
    moved = _moved(writer, leaves)
    lines = [f"if {' or '.join(moved)}: OTHERWISE"] if moved else []
    if _guards_on_scalars(spec.func):
        lines.append(f"check({_slot_list(leaves)}, grid)")
    # A buffer each, so that threads need no lock: pop and append of a list are atomic.
    lines += ["try: buffer = pool.pop()", "except IndexError: buffer = refill()", "pack, memory, params = buffer"]
    if set(numbers) - {"bool"}:
        lines += [f"try: pack(memory, 0, {packed})",
                  "except (error, OverflowError): OTHERWISE"]
    else:
        lines.append(f"pack(memory, 0, {packed})")
    lines += ["try: config = configs[s]", "except KeyError: config = configure(s)",
              "failed = call(config, function, params, None)", "if failed: failed = retry(config, params)",
              "pool.append(buffer)"]
    if not numbers:
        # Without numbers a launch is fixed by its pointers and stream, so its packed parameters are kept as they are.
        lines.append(f"if len(recent) < {_RECENT}: recent[{values}s] = (config, refill(({packed}))[2])")
    return lines


def _same(writer: Writer, leaves: Opened) -> list[str]:
    """Conditions that these are the arguments of the plan; they are cheap, and stricter than the key."""
    found: list[str] = []
    tensors: list[tuple[str, str, Any]] = []
    for name, kind, x in zip(leaves.names, leaves.kinds, leaves.values, strict=True):
        if kind in ARRAYS:
            tensors.append((name, kind, x))
        elif kind in ("static", "repr", "record"):
            by_value = f" or ({name}.__class__ is {writer.name(type(x))} and {name} == {writer.name(x)})"
            found.append(f"({name} is {writer.name(x)}{by_value if type(x) in BY_VALUE else ''})")
        elif kind == "unstable":
            return ["False"]
        else:
            found.append(f"{name}.__class__ is {writer.name(type(x))}")
    inner = {name: (x.array, f"{name}.array") if kind.startswith("tma") else (x, name) for name, kind, x in tensors}
    torchs = all(kind in ("torch", "tma-torch") for _, kind, _ in tensors)
    check = tensor_check([x for x, _ in inner.values()]) if torchs else None
    if check is not None:
        found += [f"{name}.__class__ is {writer.name(TmaCopy)} and {name}.key == {writer.name(x.key)}"
                  for name, kind, x in tensors if kind == "tma-torch"]
        return [*found, f"{writer.name(check)}({', '.join(text for _, text in inner.values())})"]
    for name, kind, x in tensors:
        found.append(f"{name}.__class__ is {writer.name(type(x))}")
        for text in ARRAYS[kind][1]:
            value = eval(text.format(a="x"), {"x": x})
            found.append(f"{text.format(a=name)} == {writer.name(value)}")
    return found


def captured(writer: Writer, captures: Sequence[Capture], watch: Watch | None) -> list[str]:
    """Conditions that the names that the kernel reads still hold what they hold now."""
    found = []
    if watch is not None:
        found.append(f"({writer.name(edits)}[0] == {writer.name(watch.seen)}[0] or {writer.name(watch.holds)}())")
    for capture in captures:
        space = writer.name(capture.namespace)
        if capture.value is MISSING:
            held = f"{space}.__dict__" if isinstance(capture.namespace, type) else space
            found.append(f"{capture.name!r} not in {held}")
        elif isinstance(capture.value, Contents):
            found.append(f"{writer.name(holds_now)}({writer.name(capture)})")
        elif isinstance(capture.namespace, types.CellType):
            found.append(f"{space}.cell_contents is {writer.name(capture.namespace.cell_contents)}")
        elif isinstance(capture.namespace, types.FunctionType):
            found.append(f"{space}.{capture.name} is {writer.name(getattr(capture.namespace, capture.name))}")
        elif isinstance(capture.namespace, type):
            now = vars(capture.namespace).get(capture.name)
            found.append(f"{space}.__dict__[{capture.name!r}] is {writer.name(now)}")
        else:
            found.append(f"{space}[{capture.name!r}] is {writer.name(capture.namespace.get(capture.name))}")
    return found


def _moved(writer: Writer, leaves: Sequence[Leaf]) -> list[str]:
    """Conditions that pointers or numbers leave the plan: alignment, overlap, the class of an integer."""
    found: list[str] = []
    arrays = [(leaf.moving, leaf.info.ptr & 15) for leaf in leaves if isinstance(leaf.info, ArrayInfo)]
    aligned = [p for p, low in arrays if not low]
    if aligned:
        # One test for all pointers: a low bit of any of them is a low bit of the OR.
        found.append(f"({' | '.join(aligned)}) & 15")
    found += [f"{p} & 15 != {low}" for p, low in arrays if low]
    found += _overlapping(writer, leaves)
    for leaf in leaves:
        if leaf.kind == "int":
            small = -(1 << 31) <= leaf.value < 1 << 31
            found.append(f"{'not ' if small else ''}-2147483648 <= {leaf.name} <= 2147483647")
        elif leaf.kind == "float":
            found.append(f"3.4028235677973366e+38 <= abs({leaf.name}) <= 1.7976931348623157e+308")  # no float32
    return found


class _Span(NamedTuple):
    """The bytes of an array around its pointer."""

    name: str
    ptr: int
    low: int
    high: int
    written: bool

    def meets(self, other: _Span) -> bool:
        return self.ptr + self.low < other.ptr + other.high and other.ptr + other.low < self.ptr + self.high


def _spans(leaves: Sequence[Leaf]) -> list[_Span]:
    """Those of all arrays that have elements."""
    found = []
    for leaf in leaves:
        if isinstance(leaf.info, ArrayInfo) and isinstance(leaf.param, TensorParam):
            ptr, (first, end) = leaf.info.ptr, span_bytes(leaf.info)
            found += [_Span(leaf.moving, ptr, first - ptr, end - ptr, leaf.param.buffer.written)] * (first < end)
    return found


def _overlapping(writer: Writer, leaves: Sequence[Leaf]) -> list[str]:
    """Conditions that arrays overlap otherwise than those of the plan, where one of two is written."""
    spans = _spans(leaves)
    apart = partial(_apart, [x.low for x in spans], [x.high for x in spans], [x.written for x in spans])
    if len(spans) > _MOST_ARRAYS and apart([x.ptr for x in spans]):
        return [f"not {writer.name(apart)}(({''.join(f'{x.name}, ' for x in spans)}))"]
    pairs = [(a, b) for n, a in enumerate(spans) for b in spans[n + 1:] if a.written or b.written]
    # Of two that meet, the kernel was compiled for that; two others meet exactly at these distances.
    return [f"{b.name} - {a.name} != {writer.name(b.ptr - a.ptr)}" if a.meets(b) else
            f"{writer.name(a.low - b.high)} < {b.name} - {a.name} < {writer.name(a.high - b.low)}" for a, b in pairs]


def _apart(lows: Sequence[int], highs: Sequence[int], written: Sequence[bool], pointers: Sequence[int]) -> bool:
    """Whether no written one of many spans of bytes has any in common with another: by address, one after the other."""
    reached = wet = 0
    for first, end, dirty in sorted([(p + low, p + high, dirty) for p, low, high, dirty in
                                     zip(pointers, lows, highs, written, strict=True)]):
        if first < (reached if dirty else wet):
            return False
        reached = max(reached, end)
        if dirty:
            wet = max(wet, end)
    return True


def _slot_list(leaves: Sequence[Leaf]) -> str:
    """The expression ``slots(call)``: the plan's extents and strides, and this call's scalars."""
    parts: list[str] = []
    for leaf in leaves:
        info = leaf.info
        parts += [str(int(n)) for n in (*info.shape, *info.strides)] if isinstance(info, ArrayInfo) else [leaf.moving]
    return f"[{', '.join(parts)}]"


def _guards_on_scalars(func: Func) -> bool:
    """Whether a guard reads a runtime scalar and must be evaluated at every launch."""
    scalars = {p.value.id for p in func.params if isinstance(p, ScalarParam)}
    return bool(scalars) and any(_reads(guard.cond, scalars) for guard in func.guards)


def _reads(operand: Any, ids: set[int]) -> bool:
    if isinstance(operand, Literal) or not isinstance(operand, Value):
        return False
    if operand.id in ids:
        return True
    op = operand.op
    if isinstance(op, ops.Binary):
        return _reads(op.a, ids) or _reads(op.b, ids)
    if isinstance(op, ops.Select):
        return any(_reads(x, ids) for x in (op.cond, op.a, op.b))
    return isinstance(op, (ops.Cast, ops.Unary)) and _reads(op.a, ids)


# --- torch -----------------------------------------------------------------------------------------------------------


def tensor_check(tensors: Sequence[Any]) -> Callable[..., bool] | None:
    """torch.compile's guard: class, dtype, device, shape, strides and negation of all tensors in one C++ call.

    It takes no tensor twice: of one that comes again it is asked whether it is the same.
    """
    guards = _tensor_guards()
    if guards is None or not tensors:
        return None
    first = [next(j for j, other in enumerate(tensors) if other is x) for x in tensors]
    check: Callable[..., bool] = guards(*(x for i, x in enumerate(tensors) if first[i] == i),
                                        dynamic_dims_sizes=None, dynamic_dims_strides=None).check
    if first != list(range(len(tensors))):
        check = _of_different(check, first)
    return check if check(*tensors) else None


def _of_different(check: Callable[..., bool], first: Sequence[int]) -> Callable[..., bool]:
    """A check of all arguments by one of those that differ; argument i is the same as ``first[i]``."""
    names = [f"a{i}" for i in range(len(first))]
    same = [f"a{i} is a{j}" for i, j in enumerate(first) if i != j]
    others = ", ".join(name for i, name in enumerate(names) if first[i] == i)
    made: Callable[..., bool] = eval(f"lambda {', '.join(names)}: {' and '.join(same)} and check({others})",
                                     {"check": check})
    return made


@functools.cache
def _tensor_guards() -> Any:
    """The guard class, if this torch has it and it can tell apart what it must; it is not public in torch."""
    torch: Any = sys.modules.get("torch")
    try:
        guards = torch._C._dynamo.guards.TensorGuards
        x = torch.empty(4, 6)
        others = [x[:3], x[:, :5], x.T, x.reshape(24), x.double(), x.to("meta"), torch.empty(8, 6)[::2], None,
                  torch.nn.Parameter(x), torch.empty(4, 6).requires_grad_(), torch._neg_view(x)]
        check = guards(x, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
        return guards if check(torch.zeros(4, 6)) and not any(check(other) for other in others) else None
    except Exception:                                   # any change of a private interface: attributes tell as well
        return None


def stream_reader(kind: str) -> Callable[[int], int]:
    """A function that returns the stream of a device to launch on, for arrays of this kind."""
    torch: Any = sys.modules.get("torch")
    raw = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)
    if kind == "torch" and raw is not None:
        return raw  # type: ignore[no-any-return]
    return partial(driver.current_stream, kind=kind)


# --- parameters and configurations -----------------------------------------------------------------------------------


class _Address(ctypes.c_char):
    """An object at an address; ``keep`` is what must live as long."""

    keep: Any


def _pointer(address: int, keep: Any) -> Any:
    """A prepared ctypes argument: the cheapest way to pass a pointer."""
    at = _Address.from_address(address)
    at.keep = keep
    return ctypes.byref(at)


class Ready:
    """A loaded kernel with a grid and the fixed parameters of one call: buffers, configurations, the driver call."""

    def __init__(self, program: Program, call: Call, device: int, grid: Dim3, func: Func, smem: int = 0,
                 dependent: bool = False) -> None:
        self.loaded = program.loaded[device]
        self.call = events.launch_function()
        self.function = _pointer(int(self.loaded._function), self.loaded)
        self.configs: dict[int, Any] = {}
        self.device, self.grid, self._block = device, grid, func.block_dim
        self._cluster = None if func.cluster_dim == (1, 1, 1) else func.cluster_dim
        self._smem, self._dependent = program.printed.dynamic_smem + smem, dependent
        slots = program.printed.slots
        moving = [slot.kind in ("ptr", "map", "scalar") for slot in slots]
        # What moves comes first, so that one ``pack_into`` fills it and leaves the rest alone.
        self._order = [i for i, m in enumerate(moving) if m] + [i for i, m in enumerate(moving) if not m]
        self.slots = [slots[i] for i in self._order if moving[i]]
        self.sources = [slot.param for slot in self.slots]
        """The leaf that each value of ``pack`` comes from."""
        self._formats = [slots[i].format for i in self._order]
        self._values = [slot_value(slots[i], call) for i in self._order]
        self.stream = stream_reader(array_kind(call))

    def of(self, grid: Dim3) -> Ready:
        """The same kernel and parameters with another grid."""
        other = copy.copy(self)
        other.grid, other.configs = grid, {}
        return other

    def moving(self, call: Call) -> list[Any]:
        """The values of ``pack`` for a call like the first."""
        return [slot_value(slot, call) for slot in self.slots]

    def buffer(self, values: Sequence[Any] | None = None) -> tuple[Callable[..., None], Any, Any]:
        """The (pack, memory, parameters) for one launch at a time: ``pack(memory, 0, *what moves)`` fills them."""
        whole = struct.Struct("@" + "".join(self._formats))
        moving = struct.Struct("@" + "".join(self._formats[: len(self.sources)]))
        memory = ctypes.create_string_buffer(max(1, whole.size))
        whole.pack_into(memory, 0, *self._values)
        if values is not None:
            moving.pack_into(memory, 0, *values)
        pointers = (ctypes.c_void_p * max(1, len(self._order)))()
        for n, i in enumerate(self._order):
            start = struct.calcsize("@" + "".join(self._formats[: n + 1])) - struct.calcsize(f"@{self._formats[n]}")
            pointers[i] = ctypes.addressof(memory) + start
        pointers.keep = memory  # type: ignore[attr-defined]
        return moving.pack_into, memory, ctypes.byref(pointers)

    def configure(self, stream: int) -> Any:
        """The launch configuration for a stream, checked once and then kept."""
        config = self.loaded._configure(self.grid, self._block, self._cluster, self._smem, stream, self._dependent)
        if len(self.configs) >= _MOST_STREAMS:
            self.configs.clear()
        found = self.configs[stream] = _pointer(config.getPtr(), config)
        return found

    def retry(self, config: Any, params: Any) -> int:
        """Try a launch that failed again, with the kernel's own context current: it may be missing."""
        with driver.current_device(self.loaded.ordinal):
            return int(self.call(config, self.function, params, None))

    def failure(self, error: int) -> DriverError:
        """Turn CUDA's error number of a launch into an error."""
        return driver._failure(driver._driver().CUresult(error),
                               f"launching {self.loaded.name} with grid {self.grid}, block {self._block}")
