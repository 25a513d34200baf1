"""Tensor maps that a kernel changes: one inline function per instruction.

In: ``ops.TensorMapUpdate`` and its like.  Out: lines such as ``tensormap_extents_2d(maps_s, K, M);``.

    PRINTERS[ops.TensorMapRelease](kernel, op)       # release_tensormap(&workspace[16 * bx], maps_s);

A map in shared memory is an address of the shared window, one in global memory a pointer to its words.  Source: PTX
ISA, tensormap.replace, tensormap.cp_fenceproxy, fence.proxy.tensormap.
"""

from __future__ import annotations

from moye.cuda.printing.context import Kernel
from moye.cuda.printing.dispatch import prints
from moye.cuda.printing.tensor_copies import map_type
from moye.ir import ops
from moye.ir.nodes import Operand, Ref

_WHAT = "tensor maps that a kernel changes (tensormap.replace)"
_REPLACE = "tensormap.replace.tile.{field}.shared::cta.b1024.{type} [%0], {place}%1;"


@prints(ops.TensorMapCopy)
def _copy(kernel: Kernel, op: ops.TensorMapCopy) -> None:
    name = kernel.helpers.function(
        "copy_tensormap", f"void (unsigned to, const {map_type(kernel.helpers)}* map)", "#pragma unroll",
        "for (int i = 0; i < 16; i += 2)",
        '    asm volatile("st.shared.v2.u64 [%0], {%1, %2};"',
        '                 :: "r"(to + 8 * i), "l"(map->words[i]), "l"(map->words[i + 1]) : "memory");', arch=90,
        what=_WHAT)
    kernel.values.before(op)
    kernel.writer.line(f"{name}({_shared(kernel, op.map)}, &{kernel.memory.name(op.tensor)});")


@prints(ops.TensorMapUpdate)
def _update(kernel: Kernel, op: ops.TensorMapUpdate) -> None:
    """A call for the address, for all extents and for all strides."""
    kernel.values.before(op)
    kernel.helpers.need_accelerated(_WHAT)
    place, n = _shared(kernel, op.map), len(op.extents)
    if op.source is not None:
        address = f"(unsigned long long){_pointer(kernel, op.source)}"
        _call(kernel, "tensormap_address", place, ("global_address", "b64", ""), [address])
    if op.address is not None:
        _call(kernel, "tensormap_address", place, ("global_address", "b64", ""), _texts(kernel, (op.address,)))
    if op.extents:
        _call(kernel, f"tensormap_extents_{n}d", place, ("global_dim", "b32", "{i}, "), _texts(kernel, op.extents))
    if op.strides:
        _call(kernel, f"tensormap_strides_{len(op.strides) + 1}d", place, ("global_stride", "b64", "{i}, "),
              _texts(kernel, op.strides))


def _call(kernel: Kernel, name: str, place: str, form: tuple[str, str, str], values: list[str]) -> None:
    """The call of a function that replaces a field for each of the values."""
    field, kind, ordinal = form
    ctype, letter = ("int", "r") if kind == "b32" else ("unsigned long long", "l")
    names = [field] if not ordinal else [f"x{i}" for i in range(len(values))]
    body = [f'asm volatile("{_REPLACE.format(field=field, type=kind, place=ordinal.format(i=i))}"'
            f' :: "r"(map), "{letter}"({each}) : "memory");' for i, each in enumerate(names)]
    signature = f"void (unsigned map, {', '.join(f'{ctype} {each}' for each in names)})"
    name = kernel.helpers.function(name, signature, *body, arch=90, what=_WHAT)
    kernel.writer.line(f"{name}({', '.join([place, *values])});")


@prints(ops.TensorMapRelease)
def _release(kernel: Kernel, op: ops.TensorMapRelease) -> None:
    name = kernel.helpers.function(
        "release_tensormap", "void (void* to, unsigned from)",
        'asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "',
        '             "[%0], [%1], 128;" :: "l"(__cvta_generic_to_global(to)), "r"(from) : "memory");', arch=90,
        what=_WHAT)
    kernel.values.before(op)
    kernel.writer.line(f"{name}({_pointer(kernel, op.dst)}, {_shared(kernel, op.src)});")


@prints(ops.TensorMapAcquire)
def _acquire(kernel: Kernel, op: ops.TensorMapAcquire) -> None:
    name = kernel.helpers.function(
        "acquire_tensormap", "void (const void* map)",
        'asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory");', arch=90,
        what=_WHAT)
    kernel.values.before(op)
    kernel.writer.line(f"{name}({_pointer(kernel, op.map)});")


def _shared(kernel: Kernel, ref: Ref) -> str:
    return kernel.memory.shared_address(ref, kernel.memory.offset(ref)).text


def _pointer(kernel: Kernel, ref: Ref) -> str:
    return kernel.memory.address(ref, kernel.memory.offset(ref)).text


def _texts(kernel: Kernel, operands: tuple[Operand, ...]) -> list[str]:
    return [kernel.values.operand(x).text for x in operands]
