"""Whole tiles that are changed atomically: ``red(dst, src)`` is dst[i] = dst[i] + src[i], element by element.

In: a tensor in memory and one in registers.  Out: one ``ops.Atomic`` for each access, of several elements where PTX has
it and layouts and alignment prove it.

    mo.red(mo.tile(out, (4,), (i,)), acc)           # red.global.add.v4.f32

Source: PTX ISA, red: .vec_32_bit, .vec_16_bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from moye.dtypes import Space
from moye.errors import DTypeError, TensorError
from moye.ir import ops
from moye.ir.nodes import Ref, Value
from moye.layout import Int
from moye.tensor import copying
from moye.tensor.accesses import judge
from moye.tensor.bounds import need_bytes
from moye.tensor.context import builder, locate
from moye.tensor.space import IndexSpace
from moye.tensor.tensor import Tensor, index_operand

KINDS = ("add", "min", "max", "and", "or", "xor")


def red(dst: Tensor, src: Tensor, kind: str = "add", *, order: str = "relaxed", scope: str = "gpu",
        width: int | None = None) -> None:
    """red: dst[i] = dst[i] kind src[i] of each element, atomically; ``kind`` is add, min, max, and, or, xor.

    ``dst`` lies in global or shared memory and ``src`` in registers, of one dtype and the same shape.  Each element is
    changed by itself, as by ``atomic_add``, and nothing is returned.  ``order`` is "relaxed" or "release".  Sums of 2
    or 4 float32 and of 2, 4 or 8 float16 or bfloat16 in global memory are one instruction where layouts and alignment
    prove that it may be; sm_90 and later have it.  ``width`` sets the number, and 1 runs on all architectures.
    """
    _check(dst, src, kind, order, scope)
    space = copying.space_of(dst, src)
    at, most = _together(dst, src, space, kind, width)
    for to, values in registers_to("red", dst, src, space, most if at is not None else 1, at):
        builder().emit(ops.Atomic(
            result=Value(dst.dtype), kind=kind, ref=Ref(dst.buffer, index_operand(to), dst.dtype, dst.swizzle),
            value=values[0], more=values[1:], order=order, scope=scope))  # type: ignore[arg-type]


def _together(dst: Tensor, src: Tensor, space: IndexSpace, kind: str, width: int | None) -> tuple[int | None, int]:
    """The dimension along which accesses have several elements (None: they have one), and how many."""
    known = ops.VECTORS.get(dst.dtype, ()) if kind == "add" and dst.space is Space.GLOBAL else ()
    if width is not None and width not in (1, *known):
        raise TensorError(f"red: {kind} of {dst.dtype} in {dst.space.value} takes {_either((*known, 1))} at a time, "
                          f"not {width!r}", locs=(locate(),))
    for count in known if width is None else (width,):
        at = copying.run_of(dst, src, space, count)
        if count > 1 and at is not None:
            return at, count
    if width not in (None, 1):
        raise TensorError(f"red: {width} elements side by side at multiples of {width * dst.dtype.bytes} bytes are not "
                          f"proven of {dst.label} with layout {dst.layout}", locs=(locate(),), code="B3")
    return None, 1


def _either(counts: tuple[int, ...]) -> str:
    return " or ".join(map(str, counts))


def registers_to(what: str, dst: Tensor, src: Tensor, space: IndexSpace, most: int,
                 at: int | None) -> Iterator[tuple[Int, tuple[Value, ...]]]:
    """Each access of registers to ``dst``: its offset there, and the ``most`` registers along dimension ``at``."""
    accesses = space if at is None else copying.accesses_of(space, most, at)
    extents = [extent for extent in accesses.extents if isinstance(extent, int)]
    if len(extents) < len(accesses.extents):
        raise TensorError(f"{what}: {src.label} lives in registers, and its extents {src.layout.shape} must be static",
                          locs=(locate(),))
    judge(dst, True)
    for point in itertools.product(*map(range, reversed(extents))):
        to, of = (moved(view.offset, point[::-1], strides)
                  for view, strides in zip((dst, src), accesses.strides, strict=True))
        lane = 0 if at is None else space.strides[1][at]
        assert isinstance(lane, int) and isinstance(of, int), "registers lie at static distances"
        yield to, tuple(register(src, of + i * lane) for i in range(most))


def moved(offset: Int, steps: tuple[int, ...], strides: tuple[Int, ...]) -> Int:
    """An offset so many steps further on in each dimension."""
    for step, stride in zip(steps, strides, strict=True):
        offset = offset + step * stride
    return offset


def register(src: Tensor, offset: int) -> Value:
    """The element of a register tensor at an offset of its buffer."""
    value = Value(src.dtype)
    builder().emit(ops.Load(result=value, ref=Ref(src.buffer, index_operand(offset), src.dtype, src.swizzle)))
    return value


def _check(dst: Tensor, src: Tensor, kind: str, order: str, scope: str) -> None:
    if not isinstance(dst, Tensor) or dst.space not in (Space.GLOBAL, Space.SHARED):
        raise TensorError(f"red: {dst!r} is no global tensor, nor one in this block's shared memory", locs=(locate(),))
    if not isinstance(src, Tensor) or src.space is not Space.REGISTER:
        raise TensorError(f"red: {src!r} is no register tensor", locs=(locate(),))
    need_bytes(dst, src)
    for name, value, known in (("kind", kind, KINDS), ("order", order, ("relaxed", "release")),
                               ("scope", scope, ("cta", "cluster", "gpu", "sys"))):
        if value not in known:
            raise TensorError(f"red: {name} is {' or '.join(known)}, not {value!r}", locs=(locate(),))
    if dst.dtype != src.dtype:
        raise DTypeError(f"red: {dst.label} holds {dst.dtype} but {src.label} holds {src.dtype}", locs=(locate(),))
    if dst.dtype not in ops.ATOMICS[kind]:
        raise DTypeError(f"red: there is no atomic {kind} of {dst.dtype}, but of "
                         f"{', '.join(map(str, ops.ATOMICS[kind]))}", locs=(locate(),))
