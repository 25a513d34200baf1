"""A Func as CUDA C++: self-contained, without any header, and laid out to be read.

In: a Func.  Out: ``Printed``: source, the kernel's name, what its parameters stand for, shared memory, arch.

    print_kernel(func).source
    # '// matmul: ... extern "C" __global__ void __launch_bounds__(256) matmul(const float* __restrict__ A, ...) {...}'

It decides nothing about the program: what runs, and in which order, is in the IR.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as OneOf

from moye.atoms.tma import TensorMap
from moye.cuda.printing import statements, tensor_copies, wgmma
from moye.cuda.printing.context import Kernel
from moye.cuda.printing.escapes import comment
from moye.cuda.printing.names import DECLARED, identifier, is_free
from moye.cuda.printing.reroll import rolled
from moye.cuda.printing.writer import joined
from moye.dtypes import DType
from moye.errors import UNKNOWN, Loc
from moye.ir import ops
from moye.ir.nodes import Extent, Func, ScalarParam, TensorParam, Value
from moye.passes import shared_memory

_FORMATS = {"bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
            "int64": "q", "uint64": "Q", "float16": "e", "bfloat16": "H", "float32": "f", "tfloat32": "f",
            "float64": "d", "float8_e4m3fn": "B", "float8_e5m2": "B"}
_WIDTH = 116
_WIDE = 256
"""Threads beyond which ptxas may keep registers few enough for two blocks, and spill, unless it is told of one."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One kernel parameter: what of which argument it holds, and its ``struct`` format character.

    ``param`` is the position in ``func.params``; ``mode`` that in its shape or strides (-1 for what is neither).  A
    "map" is the tensor map ``map``, encoded for the argument.  ``dtype`` is that of a scalar.
    """

    kind: OneOf["ptr", "map", "shape", "stride", "scalar"]
    param: int
    mode: int
    format: str
    map: TensorMap | None = None
    dtype: DType | None = None


@dataclass(frozen=True, slots=True)
class Printed:
    """A printed kernel; ``newest`` says what of it needs ``arch``, and where.

    ``accelerated`` says the same of what only architectures with a letter have, such as sm_90a, ``only`` of what one
    architecture has and no later one, and ``gone`` of what those from one on lack.
    """

    source: str
    name: str
    slots: list[Slot]
    dynamic_smem: int
    static_smem: int
    arch: int
    newest: tuple[str, Loc] = ("", UNKNOWN)
    accelerated: tuple[str, Loc] = ("", UNKNOWN)
    only: tuple[str, int, Loc] = ("", 0, UNKNOWN)
    gone: tuple[str, int, Loc] = ("", 0, UNKNOWN)
    cooperative: bool = False
    """Whether all blocks of a launch must be resident together, because they meet."""


def print_kernel(func: Func, *, lineinfo: bool = False, asserts: bool = False, arch: str = "") -> Printed:
    """The CUDA C++ of one kernel.  ``lineinfo`` adds #line directives, ``asserts`` the device-side checks.

    With ``arch``, such as ``sm_100a``, it has the arithmetic of that architecture; without, that of all.
    """
    kernel = Kernel(func, lineinfo, asserts, int(arch.strip("sm_af") or 0))
    name = _kernel_name(func)
    slots, parameters = _parameters(kernel)
    plan = shared_memory.plan(func)
    kernel.writer.level = 1
    pool = kernel.names.fresh("smem_pool") if plan.dynamic else ""
    shared = list(_shared(kernel, plan, pool))
    statements.run(kernel, func.body)
    shared += _addresses(kernel)
    if func.cluster_dim != (1, 1, 1):
        kernel.helpers.at = func.loc
        kernel.helpers.need(90, "clusters")
    body = joined(rolled(kernel.writer.lines))
    lines = [*_header(func, plan, name), "", *_with_blank(kernel.helpers.text()), *_signature(func, name, parameters),
             *(f"    {line}" for line in shared), *([""] if shared else []), body, "}", ""]
    return Printed("\n".join(lines), name, slots, plan.total if plan.dynamic else 0,
                   0 if plan.dynamic else plan.total, kernel.helpers.arch, kernel.helpers.newest,
                   kernel.helpers.accelerated, kernel.helpers.only, kernel.helpers.gone, ops.is_cooperative(func))


def _with_blank(lines: list[str]) -> list[str]:
    return [*lines, ""] if lines else []


def _kernel_name(func: Func) -> str:
    """The extern "C" name: the user's, unless CUDA or the printed helpers have that one."""
    name = identifier(func.name)
    free = is_free(name) and name not in DECLARED and name != "lambda"
    return name if free else f"{name}_kernel"


# --- header ----------------------------------------------------------------------------------------------------------


def _header(func: Func, plan: shared_memory.SmemPlan, name: str) -> Iterator[str]:
    yield f"// {comment(func.name)}"
    for note in func.notes:
        yield from (f"//   {comment(line)}" for line in note.splitlines())
    x, y, z = func.block_dim
    yield f"//   block ({x}, {y}, {z})" + _cluster(func)
    if plan.total:
        yield f"//   {plan.total} bytes of {'dynamic' if plan.dynamic else 'static'} shared memory"


def _cluster(func: Func) -> str:
    return "" if func.cluster_dim == (1, 1, 1) else f", cluster {func.cluster_dim}"


# --- parameters ------------------------------------------------------------------------------------------------------


def _format(dtype: DType) -> str:
    return _FORMATS[dtype.name]


def _parameters(kernel: Kernel) -> tuple[list[Slot], list[list[str]]]:
    """The slots, and their declarations, one group per argument."""
    slots: list[Slot] = []
    groups: list[list[str]] = []
    scalars = False
    for position, param in enumerate(kernel.func.params):
        group: list[str] = []
        if isinstance(param, ScalarParam):
            _value(kernel, param.value, param.name, Slot("scalar", position, -1, ""), slots, group)
        else:
            _tensor(kernel, param, position, slots, group)
        if isinstance(param, ScalarParam) and scalars:
            groups[-1] += group
        elif group:
            groups.append(group)
        scalars = bool(groups) and isinstance(param, ScalarParam)
    return slots, groups


def _tensor(kernel: Kernel, param: TensorParam, position: int, slots: list[Slot], group: list[str]) -> None:
    buffer = param.buffer
    if param.tensor_map is not None and buffer.id in kernel.uses.maps:
        slots.append(Slot("map", position, -1, "128s", param.tensor_map))
        group.append(f"const __grid_constant__ {tensor_copies.map_type(kernel.helpers)} {kernel.memory.name(buffer)}")
    if buffer.id in kernel.uses.buffers:
        const = "const " if kernel.memory.is_const(buffer) else ""
        restrict = " __restrict__" if kernel.uses.restricts(buffer) else ""
        slots.append(Slot("ptr", position, -1, "P"))
        group.append(f"{const}{kernel.helpers.ctype(buffer.dtype)}*{restrict} {kernel.memory.name(buffer)}")
    for mode, extent in enumerate(param.shape):
        _extent(kernel, extent, f"{param.name}_{mode}", Slot("shape", position, mode, ""), slots, group)
    for mode, stride in enumerate(param.strides):
        _extent(kernel, stride, f"{param.name}_s{mode}", Slot("stride", position, mode, ""), slots, group)


def _extent(kernel: Kernel, extent: Extent, hint: str, slot: Slot, slots: list[Slot], group: list[str]) -> None:
    if isinstance(extent, Value):
        _value(kernel, extent, hint, slot, slots, group)


def _value(kernel: Kernel, value: Value, hint: str, slot: Slot, slots: list[Slot], group: list[str]) -> None:
    if not kernel.uses.count.get(value.id) or kernel.values.is_bound(value):
        return
    name = kernel.names.fresh(value.name or hint)
    kernel.values.bind(value, name)
    slots.append(Slot(slot.kind, slot.param, slot.mode, _format(value.dtype),
                      dtype=value.dtype if slot.kind == "scalar" else None))
    group.append(f"const {kernel.helpers.ctype(value.dtype)} {name}")


def _signature(func: Func, name: str, groups: list[list[str]]) -> list[str]:
    cluster = "" if func.cluster_dim == (1, 1, 1) else f" __cluster_dims__{func.cluster_dim}".replace(" (", "(")
    told = func.min_blocks > 1 or _sets_registers(func) or (func.tells_blocks and func.threads > _WIDE)
    bounds = f"{func.threads}, {func.min_blocks}" if told else func.threads
    head = f'extern "C" __global__ void{cluster} __launch_bounds__({bounds})'
    flat = f"{head} {name}({', '.join(', '.join(group) for group in groups)}) {{"
    rows = [row for group in groups for row in _rows(group, _WIDTH - len(name))]
    if len(rows) < 2 or len(flat) <= _WIDTH:
        return [flat]
    indent = " " * (len(name) + 1)
    first, *rest = rows
    return [head, f"{name}({first},", *(f"{indent}{row}," for row in rest[:-1]), f"{indent}{rest[-1]}) {{"]


def _sets_registers(func: Func) -> bool:
    """Whether register budgets change: ptxas wants to know the first one, and so the blocks of a multiprocessor."""
    return any(isinstance(op, ops.SetMaxRegisters) for op in func.body.walk())


def _rows(group: list[str], width: int) -> Iterator[str]:
    """The declarations of one argument, as few lines as the width allows."""
    row = ""
    for text in group:
        if row and len(row) + len(text) > width:
            yield row
            row = ""
        row = f"{row}, {text}" if row else text
    yield row


# --- shared memory ---------------------------------------------------------------------------------------------------


def _shared(kernel: Kernel, plan: shared_memory.SmemPlan, pool: str) -> Iterator[str]:
    """The declarations of the shared tensors, each with its layout."""
    if plan.dynamic:
        yield f"extern __shared__ __align__({plan.align}) unsigned char {pool}[];"
    for buffer in kernel.func.shared_buffers:
        ctype, name = kernel.helpers.ctype(buffer.dtype), kernel.memory.name(buffer)
        layout = comment(str(buffer.layout))
        if plan.dynamic:
            start = plan.offset(buffer)
            where = f"{pool} + {start}" if start else pool
            yield f"{ctype}* const {name} = reinterpret_cast<{ctype}*>({where});  // {layout}"
        else:
            yield f"__shared__ __align__({buffer.align}) {ctype} {name}[{buffer.elements}];  // {layout}"


def _addresses(kernel: Kernel) -> list[str]:
    found = [f"const unsigned {address} = (unsigned)__cvta_generic_to_shared({kernel.memory.name(buffer)});"
             for buffer in kernel.func.shared_buffers
             if (address := kernel.memory.addresses.get(buffer.id)) is not None]
    return [*found, *([wgmma.declaration(kernel)] if kernel.warpgroup else [])]
