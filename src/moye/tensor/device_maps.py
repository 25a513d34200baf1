"""Tensor maps that a kernel changes: edited in shared memory, released to global memory, acquired, and used.

In: a ``TmaTensor``, places of 128 bytes.  Out: one operation for each function.

    mo.copy_tensormap(maps[:, 0], tma)                              # one thread: begin with the launch's map
    mo.update_tensormap(tma, maps[:, 0], address=a, shape=(M, K), strides=(K, 1))
    mo.sync_warp()
    mo.release_tensormap(workspace[i, :], maps[:, 0])               # the whole warp
    mo.acquire_tensormap(workspace[i, :])
    mo.copyto(tma.at(workspace[i, :], (M, K)), sA, gA, barrier=(full, 0))

Source: PTX ISA, tensormap.replace; CUDA C++ Programming Guide, Encoding a tensor map on device.
"""

from __future__ import annotations

from typing import Any

from moye.dtypes import Space, int32, uint64
from moye.errors import DTypeError, LayoutError, TensorError
from moye.ir import ops
from moye.ir.nodes import Operand, Ref
from moye.layout import Layout, make_layout
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr, Scalar, operand_of
from moye.tensor.tensor import Tensor, index_operand, shared_array
from moye.tensor.tma_copy import TmaTensor, require_plain, slot_of

_WORDS, _MAP = 16, 128


def tensormap_array(count: int = 1) -> Tensor:
    """Shared memory for tensor maps: (16, count) of uint64, a column for each map, aligned to 128 bytes."""
    return shared_array(uint64, make_layout((_WORDS, count)), align=_MAP)


def copy_tensormap(slot: Tensor, tma: TmaTensor) -> None:
    """Store the tensor map that a TMA copy has at launch to ``slot`` in shared memory; one thread calls it.

    A map must come from here before ``update_tensormap`` changes it: dtype, box and swizzle stay.
    """
    _require_tma("copy_tensormap", tma)
    builder().emit(ops.TensorMapCopy(tensor=tma.buffer, map=slot_of("copy_tensormap", slot, Space.SHARED)))


def update_tensormap(tma: TmaTensor, slot: Tensor, tensor: Tensor | None = None, *, address: Scalar | None = None,
                     shape: tuple[Scalar, ...] | None = None, strides: tuple[Scalar, ...] | None = None) -> None:
    """tensormap.replace: the map at ``slot`` in shared memory describes another array; one thread calls it.

    That is ``tensor``, a tensor in global memory, whose layout the map then has; or ``address`` in bytes, an integer
    such as ``mo.addresses`` makes, ``shape`` and ``strides`` in elements, by the modes of the copy's array.  What is
    not given stays.  The contiguous mode is the same as before.  Address and strides are multiples of 16 bytes (B5).
    sm_90a, sm_100a and their like have it.
    """
    _require_tma("update_tensormap", tma)
    place, source = slot_of("update_tensormap", slot, Space.SHARED), None
    if tensor is not None:
        if address is not None or shape is not None or strides is not None:
            raise TensorError("update_tensormap: a tensor has an address, a shape and strides; none is given beside it",
                              locs=(locate(),))
        source, shape, strides = _array(tma, tensor)
    if address is None and source is None and shape is None and strides is None:
        raise TensorError("update_tensormap: neither a tensor nor an address, a shape or strides to change",
                          locs=(locate(),))
    if address is not None:
        text = f"races in global memory that {tma.name} reaches by addresses, where that is no argument"
        if text not in builder().func.not_judged:
            builder().func.not_judged.append(text)
    builder().emit(ops.TensorMapUpdate(
        tensor=tma.buffer, map=place, source=source,
        address=None if address is None else _integer("the address", address, uint64),
        extents=() if shape is None else _extents(tma, shape),
        strides=() if strides is None else _strides(tma, strides)))


def release_tensormap(slot: Tensor, edited: Tensor) -> None:
    """tensormap.cp_fenceproxy: copy a map from shared to global memory, for TMA to use; a whole warp calls it.

    ``edited`` is in shared memory, and what one lane has stored there is handed over by ``sync_warp`` before.  Nobody
    may still copy by what was at ``slot``: wait for mbarriers of loads, or ``tma_store_arrive()`` and
    ``tma_store_wait(0)`` in the thread that copied.
    """
    builder().emit(ops.TensorMapRelease(dst=slot_of("release_tensormap", slot, Space.GLOBAL),
                                        src=slot_of("release_tensormap", edited, Space.SHARED)))


def acquire_tensormap(slot: Tensor) -> None:
    """fence.proxy.tensormap::generic.acquire.gpu: this block's copies see the map that was released at ``slot``.

    It stands after the release, in the thread that copies or in another of its block, with a barrier between them.
    Each block has to acquire, and again after each release.
    """
    builder().emit(ops.TensorMapAcquire(map=slot_of("acquire_tensormap", slot, Space.GLOBAL)))


# --- what fits -------------------------------------------------------------------------------------------------------


def _require_tma(asked: str, tma: object) -> None:
    if not isinstance(tma, TmaTensor):
        raise TensorError(f"{asked} takes a TMA copy, not a {type(tma).__name__}", locs=(locate(),))
    require_plain(asked, tma)


def _array(tma: TmaTensor, tensor: object) -> tuple[Ref, tuple[Any, ...], tuple[Any, ...]]:
    """The first element of a tensor in global memory, its extents and strides."""
    if not isinstance(tensor, Tensor) or tensor.space is not Space.GLOBAL:
        shown = repr(tensor) if isinstance(tensor, Tensor) else f"a {type(tensor).__name__}"
        raise TensorError(f"update_tensormap: the map describes a tensor in global memory, not {shown}",
                          locs=(locate(),))
    if tensor.dtype.bits != tma.dtype.bits:
        raise DTypeError(f"update_tensormap: {tma.name} copies {tma.dtype}, and {tensor.label} holds {tensor.dtype}",
                         locs=(locate(),))
    layout, modes = tensor.layout, len(tma.shape)
    shape, strides = (x if isinstance(x, tuple) else (x,) for x in (layout.shape, layout.stride))
    if len(shape) != modes or any(isinstance(x, tuple) for x in shape) or tensor.swizzle is not None:
        raise LayoutError(f"update_tensormap: {tma.name} copies arrays of {modes} modes, and {tensor.label} has layout "
                          f"{layout}", locs=(locate(),))
    if tma.tiling.op.kind != "load":
        tensor.buffer.written = True
    return Ref(tensor.buffer, index_operand(tensor.offset), tensor.dtype), shape, strides


def _in_order(tma: TmaTensor, what: str, given: object) -> list[Any]:
    """What is given for each mode of the array, by the dimensions of the map."""
    if not isinstance(given, tuple) or len(given) != len(tma.shape):
        raise TensorError(f"update_tensormap: {tma.name} copies arrays of {len(tma.shape)} modes, and {what} are "
                          f"{given!r}", locs=(locate(),))
    return [given[mode] for mode in tma.tiling.map.modes if isinstance(mode, int)]


def _extents(tma: TmaTensor, shape: tuple[Any, ...]) -> tuple[Operand, ...]:
    return tuple(_integer("an extent", x, int32) for x in _in_order(tma, "the extents", shape))


def _strides(tma: TmaTensor, strides: tuple[Any, ...]) -> tuple[Operand, ...]:
    """Bytes, of the dimensions but the first, whose stride is 1."""
    first, *rest = _in_order(tma, "the strides", strides)
    if not isinstance(first, int) or first != 1:
        raise LayoutError(f"update_tensormap: {tma.name} is contiguous along mode {tma.tiling.map.modes[0]}, and the "
                          f"strides {Layout(tma.shape, strides).stride} are not 1 there", locs=(locate(),), code="B5")
    b, bytes_ = builder(), tma.dtype.bits // 8
    return tuple(operand_of(x * bytes_, uint64) if isinstance(x, int) else
                 b.binary("mul", _integer("a stride", x, uint64), operand_of(bytes_, uint64)) for x in rest)


def _integer(what: str, x: Any, dtype: Any) -> Operand:
    if (isinstance(x, Expr) and not x.dtype.is_integer) or (not isinstance(x, Expr) and not hasattr(x, "__index__")):
        raise DTypeError(f"update_tensormap: {what} is {x.dtype if isinstance(x, Expr) else repr(x)}, not an integer",
                         locs=(locate(),))
    return operand_of(x, dtype)
