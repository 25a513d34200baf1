"""The short way to launch again: one generated function per kind of call, made from what a first launch found out.

In: the arguments of a call like an earlier one.  Out: one driver call, or False if the long way must be taken.

    plan = plans.add(spec, program, call, device, args, long); plan.launch(*args)

A plan holds for arrays of the same class, dtype, shape, strides, device and 16-byte alignment that do not overlap, for
equal static arguments (identical ones are recognised sooner), and for unchanged captured names.  Any other call goes
the long way through ``kernel.py``.  ``kernel[grid, block]`` has one ``Plans``.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import types
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from moye.cuda.device import driver, events
from moye.dtypes import bits_of
from moye.errors import DriverError
from moye.ir import ops
from moye.ir.nodes import Func, Literal, ScalarParam, TensorParam, Value
from moye.lang.contents import Contents
from moye.lang.signature import ScalarSpec, StaticSpec, TensorSpec, TmaSpec, told_apart
from moye.lang.trace import Capture, holds_now
from moye.runtime import autograd
from moye.runtime.arguments import Call, static_key, unstable
from moye.runtime.arrays import ArrayInfo, span_bytes
from moye.runtime.compile import Dim3, Program, Specialised
from moye.runtime.launch import array_kind, as_bits, encoded_map, slot_value
from moye.runtime.tma_arguments import TmaCopy
from moye.runtime.watched import Watch, edits

held: list[object] = []
"""Not empty while some thread only compiles (``prepare.compile_only``): then all go the long way."""

LongWay = Callable[[tuple[Any, ...], tuple[Any, ...], dict[str, Any]], None]
"""A function of (arguments, with ``missing`` for those not given; further ones; named ones)."""

missing = object()
_LIMIT = 1024
_RECENT = 16                                            # parameters kept packed per plan; whole launches, if no numbers
_MOST_STREAMS = 64
_BY_VALUE = (int, bool, str, bytes)
_OWN = {"int": ("int32", "int64"), "float": ("float32",), "bool": ("bool",)}
_ARRAYS = {                                             # kind -> (pointer, what else must not change)
    "torch": ("{a}.data_ptr()", ("{a}.dtype", "{a}.shape", "{a}.stride()", "{a}.get_device()", "{a}.is_neg()",
                                 "{a}.requires_grad")),
    "cupy": ("{a}.data.ptr", ("{a}.dtype", "{a}.shape", "{a}.strides", "{a}.device.id")),
    "memory": ("{a}.ptr", ("{a}.dtype", "{a}.shape", "{a}.strides", "{a}.device", "{a}.writable",
                        "{a}.life.ended")),
}
_ARRAYS |= {f"tma-{kind}": (pointer.format(a="{a}.array"),
                            ("{a}.key", "{a}.array.__class__", *(text.format(a="{a}.array") for text in fixed)))
            for kind, (pointer, fixed) in _ARRAYS.items()}
_ARRAY_CLASSES = {("torch", "Tensor"): "torch", ("torch.nn.parameter", "Parameter"): "torch",
                  ("cupy", "ndarray"): "cupy", ("moye.runtime.arrays", "Memory"): "memory"}
_NUMBERS = {int: "int", float: "float", bool: "bool"}


class Plan(NamedTuple):
    """One ready launch.

    ``launch(*args, **kwargs)`` checks everything, and goes the long way if the plan does not hold. ``again(*args)`` is
    for arguments that are known to have the plan's key; it returns False if the plan does not hold.
    """

    launch: Callable[..., None]
    again: Callable[..., bool]


class Plans:
    """The plans of one kernel for one grid and block."""

    __slots__ = ("_keys", "_plans", "dependent", "grid", "smem")

    def __init__(self, grid: Dim3, smem: int = 0, dependent: bool = False) -> None:
        self.grid, self.smem, self.dependent = grid, smem, dependent
        self._plans: dict[Any, Plan] = {}
        self._keys: dict[tuple[type, ...], Callable[[tuple[Any, ...]], Any]] = {}

    def find(self, args: tuple[Any, ...]) -> Plan | None:
        """The plan for arguments that equal those of an earlier launch."""
        classes = tuple(map(type, args))
        key = self._keys.get(classes)
        if key is None:
            return None
        try:
            return self._plans.get((classes, key(args)))
        except (TypeError, RuntimeError, AttributeError):
            return None                                 # no hash, no memory; a TMA copy of another library's array

    def add(self, spec: Specialised, program: Program, call: Call, device: int, args: tuple[Any, ...],
            long: LongWay) -> Plan | None:
        """Remember a launch that succeeded, if the short way can tell when it may be used again."""
        kinds = _kinds(call, args)
        if kinds is None:
            return None
        classes = tuple(map(type, args))
        key = self._keys.setdefault(classes, _key_function(kinds))
        # Plans are cheap to make again; keeping track of which are old would cost every launch.
        if len(self._plans) >= _LIMIT:
            self._plans.clear()
        try:
            found = classes, key(args)
        except AttributeError:                          # the first TMA copies were of another library's arrays
            return None
        ready = Ready(program, call, device, self.grid, spec.func, self.smem, self.dependent)
        plan = self._plans[found] = _plan(spec, ready, call, args, kinds, long)
        return plan


# --- what kind of argument -------------------------------------------------------------------------------------------


def _kinds(call: Call, args: tuple[Any, ...]) -> tuple[str, ...] | None:
    """The kind of each argument; None if one has a kind that only the long way takes."""
    if len(args) != len(call.specs) or not call.arrays:
        return None
    kinds = tuple(_kind(spec, x) for spec, x in zip(call.specs.values(), args, strict=True))
    return None if "" in kinds else kinds


def _kind(spec: Any, x: Any) -> str:
    if isinstance(spec, TensorSpec):
        return _array_kind(x)
    if isinstance(spec, TmaSpec):
        kind = _array_kind(x.array)
        return f"tma-{kind}" if kind else ""
    if isinstance(spec, ScalarSpec):
        kind = _NUMBERS.get(type(x), "")
        return kind if spec.dtype.name in _OWN.get(kind, ()) else ""    # an annotation's dtype: values are checked
    if isinstance(spec, StaticSpec):
        # 0.0 == -0.0 but they print differently, and nan equals nothing: floats are told apart by their text.
        return "unstable" if unstable(x) else "repr" if isinstance(x, float) else \
            "record" if type(x) not in _BY_VALUE and told_apart(x) else "static"
    return ""


def _array_kind(x: Any) -> str:
    return _ARRAY_CLASSES.get((type(x).__module__.partition("._")[0], type(x).__name__), "")


def _key_function(kinds: tuple[str, ...]) -> Callable[[tuple[Any, ...]], Any]:
    """Make ``key(args)``: all that a plan depends on, by value."""
    parts: list[str] = []
    for i, kind in enumerate(kinds):
        a = f"a{i}"
        if kind in _ARRAYS:
            pointer, fixed = _ARRAYS[kind]
            parts += [text.format(a=a) for text in (*fixed, f"{pointer} & 15")]
        else:
            parts += {"int": [f"-2147483648 <= {a} <= 2147483647"], "float": [], "bool": [], "static": [a],
                      "record": [a, f"told_apart({a})"], "repr": [f"repr({a})"],
                      "unstable": [f"static_key('{a}', {a})"]}[kind]
    lines = ["def key(args):", f"    ({_names(kinds)}) = args", f"    return ({''.join(p + ', ' for p in parts)})"]
    namespace: dict[str, Any] = {"static_key": static_key, "told_apart": told_apart}
    exec(code("\n".join(lines)), namespace)
    key: Callable[[tuple[Any, ...]], Any] = namespace["key"]
    return key


def _names(kinds: Sequence[str]) -> str:
    return "".join(f"a{i}, " for i in range(len(kinds)))


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


def _plan(spec: Specialised, ready: Ready, call: Call, args: tuple[Any, ...], kinds: tuple[str, ...],
          long: LongWay) -> Plan:
    """Write, compile (once per text) and bind the two functions of a plan.

    Everything that they refer to is a closure variable, because these cost least.
    """
    writer, names = Writer(), _names(kinds)
    same = " and ".join(_same(writer, args, kinds)) or "True"
    body = _body(writer, spec, ready, call, args, kinds)
    last = f"a{len(kinds) - 1}"
    parameters = "".join(f"a{i}=missing, " for i in range(len(kinds)))
    otherwise = f"return long(({names}), rest, named)"
    lines = [f"    def again({names}):", *_indented(body, "return False"), "        return True",
             f"    def launch({parameters}*rest, **named):",
             f"        if named or rest or {last} is missing or not ({same}): {otherwise}",
             *_indented(body, otherwise),
             "    return launch, again"]
    values = {"missing": missing, "long": long, "held": held, "check": spec.check, "grid": ready.grid, "pool": [],
              "recent": {}, "error": struct.error, "ordinal": ready.device, "refill": ready.buffer,
              "configs": ready.configs,
              "stream": stream_reader(array_kind(call)), "configure": ready.configure, "call": ready.call,
              "function": ready.function, "retry": ready.retry, **writer.values}
    namespace: dict[str, Any] = {}
    exec(code("\n".join([f"def make({', '.join(values)}):", *lines])), namespace)
    return Plan(*namespace["make"](**values))


def _indented(lines: Sequence[str], otherwise: str) -> list[str]:
    return [f"        {line.replace('OTHERWISE', otherwise)}" for line in lines]


def _body(writer: Writer, spec: Specialised, ready: Ready, call: Call, args: tuple[Any, ...],
          kinds: tuple[str, ...]) -> list[str]:
    """What both functions do: check what the key does not hold, fill the parameters, launch."""
    leaf_args = [i for i, kind in enumerate(kinds) if kind in _ARRAYS or kind in _NUMBERS.values()]
    before, after = _autograd(writer, spec, leaf_args, args, kinds)
    lines = []
    if spec.captures:
        lines += ["try:", f"    if held or not ({' and '.join(captured(writer, *spec.watched()))}): OTHERWISE",
                  "except (KeyError, ValueError): OTHERWISE"]
    else:
        lines += ["if held: OTHERWISE"]
    lines += before
    lines += [f"p{i} = {_ARRAYS[kinds[i]][0].format(a=f'a{i}')}" for i in leaf_args if kinds[i] in _ARRAYS]
    numbers = [kinds[i] for i in leaf_args if kinds[i] not in _ARRAYS]
    values = "".join(f"{'p' if kinds[i] in _ARRAYS else 'a'}{i}, " for i in (leaf_args[n] for n in ready.sources))
    packed = _packed(writer, ready, call, leaf_args, kinds)
    lines.append("s = stream(ordinal)")
    # Numbers would make most launches new ones, so only pointers are looked up.
    if not numbers:
        lines += [f"found = recent.get(({values}s))", "if found is not None:", "    config, params = found",
                  "    failed = call(config, function, params, None)",
                  "    if failed: failed = retry(config, params)", "else:"]
    else:
        lines.append("if True:")
    return [*lines, *(f"    {line}" for line in _unseen(writer, spec, call, args, kinds, leaf_args, values, packed)),
            "if failed: OTHERWISE", *after]


def _autograd(writer: Writer, spec: Specialised, leaf_args: Sequence[int], args: tuple[Any, ...],
              kinds: Sequence[str]) -> tuple[list[str], list[str]]:
    """What to do before and after the launch for the torch tensors that it writes."""
    dirty = [(args[i], f"a{i}") if kinds[i] == "torch" else (args[i].array, f"a{i}.array")
             for i, param in zip(leaf_args, spec.func.params, strict=True)
             if kinds[i] in ("torch", "tma-torch") and isinstance(param, TensorParam) and param.buffer.written]
    bump = autograd.bumper()
    if not dirty or bump is None:
        return [], []
    tracked = any(x.requires_grad for x, _ in dirty)
    return ([f"if {writer.name(autograd.grad_enabled)}(): OTHERWISE"] if tracked else [],
            [f"{writer.name(bump)}(({''.join(f'{text}, ' for _, text in dirty)}))"])


def _packed(writer: Writer, ready: Ready, call: Call, leaf_args: Sequence[int], kinds: Sequence[str]) -> str:
    """What a launch packs: pointers, numbers, and the tensor maps of pointers."""
    parts = []
    for n, slot in zip(ready.sources, ready.slots, strict=True):
        i, leaf = leaf_args[n], call.leaves[n]
        if slot.kind == "map" and isinstance(leaf, ArrayInfo):
            parts.append(f"{writer.name(encoded_map(slot, leaf))}(p{i}), ")
        elif (narrow := as_bits(slot)) is not None:
            parts.append(f"{writer.name(bits_of)}(float(a{i}), {writer.name(narrow)}), ")
        else:
            parts.append(f"{'p' if kinds[i] in _ARRAYS else 'a'}{i}, ")
    return "".join(parts)


def _unseen(writer: Writer, spec: Specialised, call: Call, args: tuple[Any, ...], kinds: tuple[str, ...],
            leaf_args: Sequence[int], values: str, packed: str) -> list[str]:
    """The launch of pointers and numbers that are not among the recent ones, which fit and are packed."""
    numbers = [kinds[i] for i in leaf_args if kinds[i] not in _ARRAYS]
    moved = _moved(writer, spec, call, leaf_args, kinds, args)
    lines = [f"if {' or '.join(moved)}: OTHERWISE"] if moved else []
    if _guards_on_scalars(spec.func):
        lines.append(f"check({_slot_list(call, leaf_args)}, grid)")
    # A buffer each, so that threads need no lock: pop and append of a list are atomic.
    lines += ["try: buffer = pool.pop()", "except IndexError: buffer = refill()", "pack, memory, params = buffer"]
    if "int" in numbers or "float" in numbers:
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


def _same(writer: Writer, args: tuple[Any, ...], kinds: tuple[str, ...]) -> list[str]:
    """Conditions that these are the arguments of the plan; they are cheap, and stricter than the key."""
    found: list[str] = []
    tensors: list[int] = []
    for i, (x, kind) in enumerate(zip(args, kinds, strict=True)):
        if kind in _ARRAYS:
            tensors.append(i)
        elif kind in ("static", "repr", "record"):
            by_value = f" or (a{i}.__class__ is {writer.name(type(x))} and a{i} == {writer.name(x)})"
            found.append(f"(a{i} is {writer.name(x)}{by_value if type(x) in _BY_VALUE else ''})")
        elif kind == "unstable":
            return ["False"]
        else:
            found.append(f"a{i}.__class__ is {writer.name(type(x))}")
    inner = {i: (args[i].array, f"a{i}.array") if kinds[i].startswith("tma") else (args[i], f"a{i}") for i in tensors}
    torchs = all(kinds[i] in ("torch", "tma-torch") for i in tensors)
    check = tensor_check([x for x, _ in inner.values()]) if torchs else None
    if check is not None:
        found += [f"a{i}.__class__ is {writer.name(TmaCopy)} and a{i}.key == {writer.name(args[i].key)}"
                  for i in tensors if kinds[i] == "tma-torch"]
        return [*found, f"{writer.name(check)}({', '.join(text for _, text in inner.values())})"]
    for i in tensors:
        found.append(f"a{i}.__class__ is {writer.name(type(args[i]))}")
        for text in _ARRAYS[kinds[i]][1]:
            value = eval(text.format(a="x"), {"x": args[i]})
            found.append(f"{text.format(a=f'a{i}')} == {writer.name(value)}")
    return found


def captured(writer: Writer, captures: Sequence[Capture], watch: Watch | None) -> list[str]:
    """Conditions that the names that the kernel reads still hold what they hold now."""
    found = []
    if watch is not None:
        found.append(f"({writer.name(edits)}[0] == {writer.name(watch.seen)}[0] or {writer.name(watch.holds)}())")
    for capture in captures:
        space = writer.name(capture.namespace)
        if isinstance(capture.value, Contents):
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


def _moved(writer: Writer, spec: Specialised, call: Call, leaf_args: Sequence[int], kinds: Sequence[str],
           args: Sequence[Any]) -> list[str]:
    """Conditions that pointers or numbers leave the plan: alignment, overlap, the class of an integer."""
    found: list[str] = []
    arrays = [(i, leaf.ptr & 15) for i, leaf in zip(leaf_args, call.leaves, strict=True) if isinstance(leaf, ArrayInfo)]
    aligned = [f"p{i}" for i, low in arrays if not low]
    if aligned:
        # One test for all pointers: a low bit of any of them is a low bit of the OR.
        found.append(f"({' | '.join(aligned)}) & 15")
    found += [f"p{i} & 15 != {low}" for i, low in arrays if low]
    for (i, bytes_i), (j, bytes_j) in _pairs(spec, call, leaf_args):
        # Two ranges of bytes overlap exactly then.
        found.append(f"{writer.name(-bytes_j)} < p{j} - p{i} < {writer.name(bytes_i)}")
    for i in leaf_args:
        if kinds[i] == "int":
            small = -(1 << 31) <= args[i] < 1 << 31
            found.append(f"{'not ' if small else ''}-2147483648 <= a{i} <= 2147483647")
        elif kinds[i] == "float":
            found.append(f"3.4028235677973366e+38 <= abs(a{i}) <= 1.7976931348623157e+308")     # no float32
    return found


def _pairs(spec: Specialised, call: Call, leaf_args: Sequence[int]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Pairs of (argument, bytes) that must not overlap: every written array against every other."""
    tensors = [(i, span_bytes(leaf), param.buffer.written)
               for i, param, leaf in zip(leaf_args, spec.func.params, call.leaves, strict=True)
               if isinstance(param, TensorParam) and isinstance(leaf, ArrayInfo)]
    return [((i, end_a - first_a), (j, end_b - first_b))
            for n, (i, (first_a, end_a), written_a) in enumerate(tensors)
            for j, (first_b, end_b), written_b in tensors[n + 1:] if written_a or written_b]


def _slot_list(call: Call, leaf_args: Sequence[int]) -> str:
    """The expression ``slots(call)``: the plan's extents and strides, and this call's scalars."""
    parts: list[str] = []
    for i, leaf in zip(leaf_args, call.leaves, strict=True):
        parts += [str(int(n)) for n in (*leaf.shape, *leaf.strides)] if isinstance(leaf, ArrayInfo) else [f"a{i}"]
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
    """torch.compile's guard: class, dtype, device, shape, strides and negation of all tensors in one C++ call."""
    guards = _tensor_guards()
    if guards is None or not tensors:
        return None
    check: Callable[..., bool] = guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
    return check if check(*tensors) else None


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
