"""Copies by TMA as calls of inline functions, and the type of the tensor maps that they go by.

In: ``ops.TmaCopy``.  Out: lines such as ``tma_load_2d(sA_s + 16384 * stage, &A, k, row, full_s + 8 * stage);``.

    copy(kernel, op)

A function has the coordinates' number in its name, and what it passes beside them: a mask of blocks, an L2 policy.
With offsets it is one of im2col mode.
Source: PTX ISA, cp.async.bulk.tensor, cp.reduce.async.bulk.tensor, prefetch.tensormap.
"""

from __future__ import annotations

from moye.cuda.printing.cache_hints import POLICIES
from moye.cuda.printing.context import Kernel
from moye.cuda.printing.dispatch import prints
from moye.cuda.printing.expressions import UNARY
from moye.cuda.printing.intrinsics import Intrinsics
from moye.errors import IRError
from moye.ir import ops

_WHAT = "tensor copies (TMA)"
_GATHERED = "copies of rows at any indices"
_PTX = {"load": "cp.async.bulk.tensor.{n}d.shared::{to}.global.{mode}.mbarrier::complete_tx::bytes",
        "store": "cp.async.bulk.tensor.{n}d.global.shared::cta.{mode}.bulk_group",
        "reduce": "cp.reduce.async.bulk.tensor.{n}d.global.shared::cta.{by}.tile.bulk_group",
        "prefetch_box": "cp.async.bulk.prefetch.tensor.{n}d.L2.global.{mode}"}


_ROWS = {"load": "gather4", "store": "scatter4", "prefetch_box": "prefetch_gather4"}


def map_type(helpers: Intrinsics) -> str:
    """The C type of a tensor map: 128 bytes, opaque, aligned to 64."""
    helpers.need(90, _WHAT)
    return helpers.declare("TensorMap", "struct __align__(64) TensorMap { unsigned long long words[16]; };")


@prints(ops.TmaCopy)
def copy(kernel: Kernel, op: ops.TmaCopy) -> None:
    """One box, or the prefetch of a map."""
    kernel.values.before(op)
    tensor = _map(kernel, op)
    if op.kind == "prefetch":
        kernel.writer.line(f"{_prefetch(kernel.helpers)}({tensor});")
        return
    if (op.smem is None) != (op.kind == "prefetch_box") or (op.kind == "load") != (op.barrier is not None):
        raise IRError(f"a TMA {op.kind} without its shared memory or its barrier", locs=(op.loc,))
    memory, values = kernel.memory, kernel.values
    arguments = [] if op.smem is None else [memory.shared_address(op.smem, memory.offset(op.smem)).text]
    arguments += [tensor, *(values.operand(x).text for x in op.coordinates)]
    if op.barrier is not None:
        arguments.append(memory.shared_address(op.barrier, memory.offset(op.barrier)).text)
    arguments += [values.operand(x).text for x in op.offsets]
    if op.multicast is not None:
        arguments.append(values.operand(op.multicast).text)
    if op.hint is not None:
        arguments.append(POLICIES[op.hint])
    name = _function(kernel.helpers, op)
    kernel.writer.line(f"{name}({', '.join(arguments)});")


def _map(kernel: Kernel, op: ops.TmaCopy) -> str:
    """The address of the tensor map: of a parameter, or where the kernel keeps it."""
    if op.map is None:
        return f"&{kernel.memory.name(op.tensor)}"
    address = kernel.memory.address(op.map, kernel.memory.offset(op.map))
    return f"(const {map_type(kernel.helpers)}*){address.at(UNARY)}"


def _prefetch(helpers: Intrinsics) -> str:
    return helpers.function("prefetch_tensormap", f"void (const {map_type(helpers)}* map)",
                            'asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");', arch=90, what=_WHAT)


def _mode(helpers: Intrinsics, op: ops.TmaCopy) -> str:
    """The mode of a copy by coordinates; only loads of rows are on every architecture from sm_100 on."""
    if not op.gathered:
        return "tile"
    helpers.need(100, f"{_GATHERED} ({_ROWS[op.kind]})")
    if op.kind != "load":
        helpers.need_accelerated(f"{_GATHERED} ({_ROWS[op.kind]})")
        helpers.need_before(120, f"{_GATHERED} ({_ROWS[op.kind]})")
    return "tile::scatter4" if op.kind == "store" else "tile::gather4"


def _word(op: ops.TmaCopy) -> str:
    if op.gathered:
        return _ROWS[op.kind]
    return f"reduce_{op.by}" if op.kind == "reduce" else op.kind.removesuffix("_box")


def _function(helpers: Intrinsics, op: ops.TmaCopy) -> str:
    """The inline function of a kind, a number of coordinates and options."""
    n, load = len(op.coordinates), op.kind == "load"
    axes = ["c", *(f"row{i}" for i in range(n - 1))] if op.gathered else [f"c{i}" for i in range(n)]
    parameters = ["unsigned smem", f"const {map_type(helpers)}* map", *(f"int {axis}" for axis in axes)]
    inputs = ['"r"(smem)', '"l"(map)', *(f'"r"({axis})' for axis in axes)]
    mode = "im2col" if op.offsets else _mode(helpers, op)
    name = f"tma_{_word(op)}" if op.gathered else f"tma_{_word(op)}_{n}d{'_im2col' if op.offsets else ''}"
    ptx = _PTX[op.kind].format(n=2 if op.gathered else n, by=op.by, mode=mode, to="cta" if op.gathered else "cluster")
    first = 1
    if op.smem is None:
        parameters, inputs, first = parameters[1:], inputs[1:], 0
    box = f"[%{first}, {{{', '.join(f'%{first + 1 + i}' for i in range(n))}}}]"
    places = box if op.smem is None else f"[%0], {box}" if load else f"{box}, [%0]"
    for wanted, parameter, letter, form, suffix, dotted in (
            (load, ["unsigned bar"], "r", "[{}]", "", ""),
            (op.offsets, [f"unsigned short o{i}" for i in range(len(op.offsets))], "h", "{{{}}}", "", ""),
            (op.multicast is not None, ["unsigned short mask"], "h", "{}", "_multicast", ".multicast::cluster"),
            (op.hint is not None, ["unsigned long long policy"], "l", "{}", "_hint", ".L2::cache_hint")):
        if wanted:
            places += ", " + form.format(", ".join(f"%{len(inputs) + i}" for i in range(len(parameter))))
            inputs += [f'"{letter}"({one.rpartition(" ")[2]})' for one in parameter]
            parameters += parameter
            name, ptx = name + suffix, ptx + dotted
    return helpers.function(name, f"void ({', '.join(parameters)})", f'asm volatile("{ptx} {places};"',
                            f'             :: {", ".join(inputs)} : "memory");', arch=90, what=_WHAT)
