"""What a launch requires of its arguments, as conditions of C.

In: the specs, guards and grid of one specialisation.  Out: ``Condition``s, in the order in which a launch checks them.

    conditions(spec, leaves, arguments, {}, call, printed.slots, True)[0].holds        # 'y->strides[0] == 1'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from moye.cuda.export.formulas import c_expression, slot_names, told
from moye.cuda.export.model import Argument, Condition
from moye.cuda.printing.printer import Slot
from moye.errors import UnsupportedError
from moye.ir.nodes import Func, TensorParam
from moye.lang.signature import Spec, TensorSpec, TmaSpec
from moye.runtime.arguments import Call
from moye.runtime.arrays import ArrayInfo
from moye.runtime.compile import Dim3, Specialised
from moye.runtime.guards import block_arithmetic, leaves_32_bits

_MOST_GRID: Dim3 = (2**31 - 1, 65535, 65535)


def conditions(spec: Specialised, leaves: Sequence[tuple[str, Spec]], arguments: Mapping[str, Argument],
               selected: Mapping[str, int], call: Call, slots: Sequence[Slot], restrict: bool) -> list[Condition]:
    """All conditions of one specialisation; ``leaves`` are the runtime ones, in the order of the Func's parameters."""
    func = spec.func
    names = {leaf: arguments[leaf].name for leaf, _ in leaves}
    found = [Condition(f"{name} == {value}", f"{name} is not {value}") for name, value in selected.items()]
    for (leaf, each), info in zip(leaves, call.leaves, strict=True):
        if isinstance(each, TmaSpec):
            assert isinstance(info, ArrayInfo), "a TMA copy is of an array"
            found += _mapped(names[leaf], each, info)
        elif isinstance(each, TensorSpec):
            found += _tensor(names[leaf], each, func.index_bits)
    found += _packed(func, names, slots)
    found += _launch(func)
    if restrict:
        found += _apart(func, names)
    return [*found, *_guards(func, names)]


# --- arrays ----------------------------------------------------------------------------------------------------------


def _tensor(name: str, spec: TensorSpec, index_bits: int) -> Iterator[Condition]:
    for mode, extent in enumerate(spec.shape):
        if extent is not None:
            yield Condition(f"{name}->shape[{mode}] == {extent}",
                            f"{name}.shape[{mode}] is not {extent}, the static extent that it is compiled for")
    for mode, (stride, divisor) in enumerate(zip(spec.strides, spec.divisors, strict=True)):
        own, text = f"{name}->strides[{mode}]", f"{name}.strides[{mode}]"
        if stride is not None:
            yield Condition(f"{own} == {stride}", f"{text} is not {stride}")
        else:
            whole = f"{own} >= 1" + (f" && {own} % {divisor} == 0" if divisor > 1 else "")
            yield Condition(whole, f"{text} is not above 0" if divisor == 1 else
                            f"{text} is no multiple of {divisor} above 0")
    yield _aligned(name, spec.align)
    if index_bits == 32:
        yield Condition(f"moye_indices_fit({name})", f"{name} has more elements than indices of 32 bits count")


def _aligned(name: str, align: int) -> Condition:
    return Condition(f"{name}->at % {align} == 0", f"{name} does not begin at a multiple of {align} bytes")


def _mapped(name: str, spec: TmaSpec, info: ArrayInfo) -> Iterator[Condition]:
    """What TMA requires, and where modes were merged the very array that they were merged for."""
    merged = any(not isinstance(modes, int) for modes in spec.tiling.map.modes)
    strides = info.strides if merged else spec.tensor.strides
    for mode, extent in enumerate(info.shape if merged else spec.tensor.shape):
        if extent is not None:
            yield Condition(f"{name}->shape[{mode}] == {extent}", f"{name}.shape[{mode}] is not {extent}, the extent "
                            "that its boxes are made for")
    for mode, stride in enumerate(strides):
        own = f"{name}->strides[{mode}]"
        if stride is not None:
            yield Condition(f"{own} == {stride}", f"{name}.strides[{mode}] is not {stride}")
        else:
            yield Condition(f"{own} >= 1", f"{name}.strides[{mode}] is not above 0")


def _packed(func: Func, names: Mapping[str, str], slots: Sequence[Slot]) -> Iterator[Condition]:
    """Strides that a kernel takes in 32 bits fit these; maps fit what TMA takes."""
    for index, slot in enumerate(slots):
        param = func.params[slot.param]
        name = names[param.name]
        if slot.kind == "map":
            assert isinstance(param, TensorParam), "a map is of a tensor"
            yield Condition(f"moye_map_fits(&MAP_{index}, {name}, {int(param.buffer.written)})",
                            f"TMA cannot copy {name}: it takes arrays at multiples of 16 bytes with 1 to 2147483647 "
                            "elements along a mode, and strides of multiples of 16 bytes below 2^40"
                            + (" in rows of a multiple of 16 bytes" if param.buffer.written else ""))
        elif slot.kind == "stride" and slot.format in "iI":
            yield Condition(f"{name}->strides[{slot.mode}] <= INT32_MAX",
                            f"{name}.strides[{slot.mode}] does not fit 32 bits")


def _apart(func: Func, names: Mapping[str, str]) -> Iterator[Condition]:
    """Written arrays share no memory with others: the code is compiled with __restrict__."""
    tensors = [(names[param.name], param.buffer.written) for param in func.params if isinstance(param, TensorParam)]
    for i, (a, written_a) in enumerate(tensors):
        for b, written_b in tensors[i + 1:]:
            if written_a or written_b:
                yield Condition(f"!moye_overlap({a}, {b})", f"{a} and {b} share memory, and {a if written_a else b} is "
                                "written")


# --- the launch ------------------------------------------------------------------------------------------------------


def _launch(func: Func) -> Iterator[Condition]:
    for axis, extent in enumerate(func.cluster_dim):
        if extent > 1:
            yield Condition(f"grid[{axis}] % {extent} == 0", f"the cluster's {extent} blocks along "
                            f"{'xyz'[axis]} do not divide the grid")
    if func.index_bits == 64:
        return
    x, y, z = func.block_dim
    blocks = "moye_mul(moye_mul(grid[0], grid[1], &bad), grid[2], &bad)"
    yield Condition(f"{blocks} <= {(1 << 31) // (x * y * z)}", "the grid has more threads than 32 bits count; "
                    "index_bits=64 makes a specialisation for it", fallible=True)
    if leaves_32_bits(arithmetic := block_arithmetic(func), _MOST_GRID):
        most = largest_grid(lambda grid: leaves_32_bits(arithmetic, grid))
        if most is None:
            raise UnsupportedError(f"export: indices of {func.name} leave 32 bits in every grid",
                                   hint="mo.Specialisation(..., index_bits=64)")
        inside = " && ".join(f"grid[{axis}] <= {extent}" for axis, extent in enumerate(most))
        yield Condition(inside, f"the grid is larger than {most}, and indices leave 32 bits there; index_bits=64 makes "
                        "a specialisation for it")


def largest_grid(leaves: Callable[[Dim3], bool]) -> Dim3 | None:
    """A grid such that neither it nor any within it is one that ``leaves``; None if even that of one block is.

    The bounds of what a kernel computes from block indices grow with each extent of the grid.
    """
    if leaves((1, 1, 1)):
        return None
    most = [_bisected(lambda n: leaves((n, min(n, _MOST_GRID[1]), min(n, _MOST_GRID[2]))), 1, _MOST_GRID[0])]
    extents = [min(most[0], limit) for limit in _MOST_GRID]
    for axis, limit in enumerate(_MOST_GRID):
        def with_extent(n: int, axis: int = axis) -> bool:
            x, y, z = (n if i == axis else extent for i, extent in enumerate(extents))
            return leaves((x, y, z))
        extents[axis] = _bisected(with_extent, extents[axis], limit)
    return extents[0], extents[1], extents[2]


def _bisected(leaves: Callable[[int], bool], low: int, high: int) -> int:
    """The largest number of ``low`` to ``high`` that does not leave; ``low`` does not."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (low, middle - 1) if leaves(middle) else (middle, high)
    return low


def _guards(func: Func, names: Mapping[str, str]) -> Iterator[Condition]:
    """What the trace assumed; equal ones once."""
    slots, seen = slot_names(func, names), set()
    for guard in func.guards:
        holds = c_expression(guard.cond, slots, func.name)
        if holds in seen:
            continue
        seen.add(holds)
        fields = {name: told(operand, slots) for name, operand in guard.fields.items()}
        message = guard.message.format(**fields) if fields else guard.message
        where = guard.loc.frames[-1] if guard.loc.frames else None
        at = f" (line {where.line} of the kernel's file)" if where else ""
        yield Condition(holds, f"{message}{at}", fallible="&bad" in holds)
