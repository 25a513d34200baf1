"""From two tensors to one Copy op: index space, access width, alignment proof.

In: a CopyOp and two tensors of one shape and dtype.  Out: an ``ops.Copy``, or a sentence that says why not.

    emit_copy(CpAsync(float64), tAsA, tAgA[:, :, :, 0])

A fixed width must be proven on both sides; the automatic width is the widest that both sides prove.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any
from typing import Literal as OneOf

from moye.atoms.atom import CopyOp
from moye.atoms.universal import AUTO_COPY
from moye.dtypes import Space, bool_
from moye.errors import AlignmentError, DTypeError, LayoutError, TensorError
from moye.ir import ops
from moye.ir.nodes import Extent, Operand, TileRef, Value
from moye.layout import ComposedLayout, Int, IntTuple, Layout, make_layout, rank, size
from moye.layout.ints import is_const, same
from moye.layout.tuples import unflatten_tuple, zip_leaves
from moye.tensor.accesses import judge
from moye.tensor.bounds import need_bytes
from moye.tensor.context import builder, locate, tracing
from moye.tensor.expr import Expr, can_guard, compare, extent_name, operand_of, truth
from moye.tensor.known import Known
from moye.tensor.space import IndexSpace, common_space, merged
from moye.tensor.view import View

_WIDEST = 128


def emit_copy(op: CopyOp, dst: View, src: View, pred: object = None, *, zero_fill: bool = False,
              other: Operand | None = None) -> None:
    """Record dst[i] = src[i] with this operation of single threads: one op for the whole tile.

    Where ``pred`` is false dst becomes zero with ``zero_fill``, or ``other`` if that is given too.
    """
    need_bytes(dst, src)
    check_pair(op, dst, src)
    space = _space(dst, src, pred)
    width = _automatic_width(dst, src, space) if op.bits is None else op.bits // dst.dtype.bits
    if op.bits is not None:
        _prove_width(op, dst, src, space, width)
    at = _unit_dimension(dst, src, space, width) if width > 1 else None
    grouped = group_of(dst, src, space) if op.bits is None and width == 1 and len(space.strides) > 2 else None
    accesses = _split(space, grouped.size, grouped.at) if grouped else space if at is None else \
        accesses_of(space, width, at)
    for view, strides in zip((dst, src), accesses.strides, strict=False):
        _require_static_registers(view, accesses.extents, strides)
    to, of = dst.tile_ref(accesses.strides[0]), src.tile_ref(accesses.strides[1])
    if at is not None:
        # The elements of one access may lie apart in registers; memory has distance 1 there.
        to, of = (replace(ref, lane=_static(s[at])) for ref, s in zip((to, of), space.strides, strict=False))
    given = _predicate(pred, accesses)
    _judge(dst, src, _predicate(pred, space) if grouped else given, pred, space, width if at is not None else 1,
           at or 0, zero_fill=zero_fill)
    builder().emit(ops.Copy(
        dst=to, src=of, extents=tuple(extent_of(e) for e in accesses.extents), width=width, atom=op, pred=given,
        zero_fill=zero_fill, other=other, group=grouped.size if grouped else 1,
        tested=grouped.tested if grouped else "none"))


def _judge(dst: View, src: View, given: TileRef | Operand | None, pred: object, space: IndexSpace, width: int, at: int,
           *, zero_fill: bool) -> None:
    """Judge the bounds of both sides; what a predicate masks is not accessed, except where it writes zeros."""
    mask = getattr(pred, "layout", None)
    for view, write in ((src, False), (dst, True)):
        if view.origin is None or not view.origin.loose:
            continue
        if given is None or (write and zero_fill):
            judge(view, write)
        # One condition for the whole copy: what it masks is not accessed at all.
        elif mask is None:
            judge(view, write, given)
        else:
            elements = tuple(e for e in space.extents if isinstance(e, int))
            judge(view, write, given, (dst.layout, src.layout, mask), elements, width, at)


def _require_static_registers(view: View, extents: tuple[Int, ...], strides: tuple[Int, ...]) -> None:
    """Registers are named one by one, so only a repeated register may be read a dynamic number of times."""
    # A register has no address, so an index that is known only while the kernel runs cannot name it.
    if view.space is Space.REGISTER and not all(isinstance(x, int) for x in extents) and \
            not all(_is(step, 0) for step in strides):
        raise TensorError(f"{view.label} lives in registers, which have no addresses: a copy with its layout "
                          f"{view.layout} needs static extents", hint="mo.tile cuts static tiles", locs=(locate(),))


def extent_of(extent: Int) -> Extent:
    if isinstance(extent, int):
        return extent
    operand = operand_of(extent, builder().index)  # type: ignore[arg-type]
    return operand if isinstance(operand, Value) else int(operand.value)


def _static(stride: Int) -> int:
    assert isinstance(stride, int), "the values of one access lie at static distances"
    return stride


def check_pair(op: CopyOp, dst: View, src: View) -> None:
    if (dst.dtype.bits, dst.dtype.numpy) != (src.dtype.bits, src.dtype.numpy):         # float32 as tfloat32 will do
        raise DTypeError(f"{op}: {dst.label} holds {dst.dtype} but {src.label} holds {src.dtype}", locs=(locate(),))
    if op.bits is not None and op.bits % dst.dtype.bits:
        raise DTypeError(f"{op} moves {op.bits} bits at a time, no multiple of a {dst.dtype}", locs=(locate(),))
    check_hints(op, dst, src)
    if op.asynchronous and (dst.space is not Space.SHARED or src.space is not Space.GLOBAL):
        raise TensorError(f"{op} copies from gmem to smem; {src.label} lives in {src.space.value} and {dst.label} in "
                          f"{dst.space.value}", locs=(locate(),))


def check_hints(op: CopyOp, dst: View, src: View) -> None:
    """Hints for caches need an end in global memory."""
    if (op.hint or op.prefetch) and Space.GLOBAL not in (dst.space, src.space):
        raise TensorError(f"{op} tells caches what to keep of global memory; {src.label} lives in {src.space.value} "
                          f"and {dst.label} in {dst.space.value}", locs=(locate(),))
    if op.prefetch and src.space is not Space.GLOBAL:
        raise TensorError(f"{op} prefetches what a load brings; {src.label} lives in {src.space.value}",
                          locs=(locate(),))


def hinted_ends(op: CopyOp, dst: View, src: View) -> tuple[CopyOp, CopyOp]:
    """The load and the store of a copy by way of registers: hints are for the end in global memory."""
    check_hints(op, dst, src)
    stores = replace(op, prefetch=0) if op.hint and dst.space is Space.GLOBAL else AUTO_COPY
    return op if src.space is Space.GLOBAL else AUTO_COPY, stores


def space_of(dst: View, src: View) -> IndexSpace:
    """The index space of two tensors of one shape."""
    return _space(dst, src, None)


def run_of(dst: View, src: View, space: IndexSpace, width: int) -> int | None:
    """The dimension along which accesses of ``width`` elements are proven contiguous and aligned; None if none is."""
    at = _unit_dimension(dst, src, space, width)
    needed = width * dst.dtype.bits // 8
    fits = at is not None and all(proven(view, strides, at) % needed == 0
                                  for view, strides in zip((dst, src), space.strides, strict=False))
    return at if fits else None


def _space(dst: View, src: View, pred: object) -> IndexSpace:
    _check_sizes(dst, src)
    layouts = list(agreed(dst, src))
    _check_modes(dst, src, *layouts)
    mask = getattr(pred, "layout", None)
    if mask is not None:
        _check_predicate(pred, dst)  # type: ignore[arg-type]
        layouts.append(mask)
    try:
        return merged(common_space(layouts))
    except LayoutError as error:
        raise TensorError(f"{dst.label} {dst.layout} cannot be copied from {src.label} {src.layout}: {error.message}",
                          locs=(locate(),)) from None


def _check_sizes(dst: View, src: View) -> None:
    a, b = size(dst.layout), size(src.layout)
    if isinstance(a, int) and isinstance(b, int) and a != b:
        raise TensorError(f"{dst.label} has {a} elements ({dst.layout}) but {src.label} has {b} ({src.layout})",
                          locs=(locate(),))


def _check_modes(dst: View, src: View, to: Layout, of: Layout) -> None:
    """Arithmetic repeats a mode of one element; a copy would leave out elements, or write one again and again."""
    if rank(to) != rank(of) or not (isinstance(to.shape, tuple) and isinstance(of.shape, tuple)):
        return
    for i in range(rank(to)):
        a, b = size(to.mode(i)), size(of.mode(i))
        if same(a, b) or not (is_const(a, 1) or is_const(b, 1)):
            continue
        one, other, more = (dst, src, b) if is_const(a, 1) else (src, dst, a)
        if isinstance(more, int) or not _assumed(more, 1, other, one, f" of mode {i}"):
            raise TensorError(f"{dst.label} {dst.layout} cannot be copied from {src.label} {src.layout}: mode {i} has "
                              f"{more} elements in {other.label} and 1 in {one.label}", locs=(locate(),),
                              hint="t.with_layout(layout) gives both the same shape")


def _check_predicate(pred: View, dst: View) -> None:
    if pred.space is not Space.REGISTER or pred.dtype != bool_:
        raise TensorError(f"the predicate {pred.label} is a {pred.dtype} tensor in {pred.space.value}; a copy takes a "
                          f"bool tensor in registers", locs=(locate(),))
    if rank(pred.layout) != rank(dst.layout):
        raise TensorError(f"the predicate {pred.label} {pred.layout} and {dst.label} {dst.layout} have different ranks",
                          hint="a mode of size 1 in the predicate is repeated", locs=(locate(),))
    modes = range(rank(dst.layout) if isinstance(dst.layout.shape, tuple) else 0)
    if any(is_const(size(dst.layout.mode(i)), 1) and size(pred.layout.mode(i)) != 1 for i in modes):
        raise TensorError(f"the predicate {pred.label} {pred.layout} has more elements than {dst.label} {dst.layout} "
                          f"in a mode of one", hint="one element has one predicate", locs=(locate(),))


def _unit_dimension(dst: View, src: View, space: IndexSpace, width: int) -> int | None:
    """The dimension along which memory is contiguous for ``width`` elements (and a predicate does not change).

    Registers are gathered and scattered, so any distance between them will do.
    """
    for d, extent in enumerate(space.extents):
        # An access must not reach into the next step of another dimension, so the width divides the extent.
        if isinstance(extent, int) and extent % width == 0 \
                and _runs(dst, src, space.strides[0][d]) and _runs(src, dst, space.strides[1][d]) \
                and all(_is(s[d], 0) for s in space.strides[2:]):
            return d
    return None


def _runs(view: View, other: View, stride: Int) -> bool:
    """Whether values of ``view`` at this distance can be one access of a copy from or to ``other``."""
    gathers = view.space is Space.REGISTER and other.space is not Space.REGISTER and view.swizzle is None
    return _is(stride, 1) or (gathers and isinstance(stride, int) and stride != 0)


def _is(x: Int, number: int) -> bool:
    return isinstance(x, int) and x == number


def _divisor(x: Int) -> int:
    # 0 is a multiple of every width: a power of two above all of them stands for it.
    return (abs(x) or 1 << 40) if isinstance(x, int) else x.divisor


def proven(view: View, strides: tuple[Int, ...], skip: int) -> int:
    """A number of bytes that every access address is known to be a multiple of."""
    if view.space is Space.REGISTER:
        return 1 << 20
    # Every address is the first one plus multiples of the strides: the divisor of all of these divides it.  Along
    # ``skip`` accesses move on by whole widths.
    known = view.alignment
    for d, stride in enumerate(strides):
        if d != skip:
            known = math.gcd(known, _divisor(stride) * view.dtype.bits // 8)
    # A swizzle moves runs of 2^base elements as a whole, and proves nothing about longer ones.
    if view.swizzle is not None:
        known = math.gcd(known, (1 << view.swizzle.base) * view.dtype.bits // 8)
    return known


def _automatic_width(dst: View, src: View, space: IndexSpace) -> int:
    width = max(1, _WIDEST // dst.dtype.bits)
    while width > 1:
        # Asked anew for each width: a dimension may hold vectors of 2 and none of 4.
        at = _unit_dimension(dst, src, space, width)
        needed = width * dst.dtype.bits // 8
        if at is not None and all(proven(view, space.strides[i], at) % needed == 0
                                  for i, view in enumerate((dst, src))):
            return width
        width //= 2
    return 1


@dataclass(frozen=True, slots=True)
class Group:
    """Elements under predicates of their own that may be one access: how many, along which dimension."""

    size: int
    at: int
    tested: OneOf["none", "dst", "src", "both"]
    """The sides whose addresses are known only when the kernel runs."""


def group_of(dst: View, src: View, space: IndexSpace) -> Group | None:
    """The widest access that elements with predicates of their own may make together; None if there is none."""
    if dst.space is Space.REGISTER and src.space is Space.REGISTER:
        return None
    if not all(isinstance(extent, int) for extent in space.extents) or dst.dtype.bits >= _WIDEST:
        return None
    unmasked = replace(space, strides=space.strides[:2])
    size_ = _WIDEST // dst.dtype.bits
    while size_ > 1:
        at = _unit_dimension(dst, src, unmasked, size_)
        if at is not None:
            needed = size_ * dst.dtype.bits // 8
            sides = [proven(view, space.strides[i], at) % needed == 0 for i, view in enumerate((dst, src))]
            if all(ok or view.swizzle is None for ok, view in zip(sides, (dst, src), strict=True)):
                return Group(size_, at, _TESTED[sides[0], sides[1]])
        size_ //= 2
    return None


_TESTED: dict[tuple[bool, bool], OneOf["none", "dst", "src", "both"]] = {
    (True, True): "none", (False, True): "dst", (True, False): "src", (False, False): "both"}


def _split(space: IndexSpace, size_: int, at: int) -> IndexSpace:
    """The space with ``size_`` elements along a dimension as dimension 0, and the rest of it in its old place."""
    strides = [list(s) for s in space.strides]
    extents = list(space.extents)
    extents[at] = extents[at] // size_
    first = [s[at] for s in strides]
    for s in strides:
        s[at] = s[at] * size_
    keep = [d for d, extent in enumerate(extents) if not _is(extent, 1)]
    return IndexSpace((size_, *(extents[d] for d in keep)),
                      tuple((one, *(s[d] for d in keep)) for one, s in zip(first, strides, strict=True)),
                      (space.modes[at], *(space.modes[d] for d in keep)))


def _prove_width(op: CopyOp, dst: View, src: View, space: IndexSpace, width: int) -> None:
    needed = width * dst.dtype.bits // 8
    at = _unit_dimension(dst, src, space, width) if width > 1 else -1
    if at is None:
        raise _not_contiguous(op, dst, src, space, width)
    for view, strides in ((dst, space.strides[0]), (src, space.strides[1])):
        if proven(view, strides, at) % needed:
            raise misaligned(op, view, strides, at, needed)


def _not_contiguous(op: CopyOp, dst: View, src: View, space: IndexSpace, width: int) -> TensorError:
    for view, other, strides in ((src, dst, space.strides[1]), (dst, src, space.strides[0])):
        contiguous = any(_runs(view, other, s) and isinstance(e, int) and e % width == 0
                         for s, e in zip(strides, space.extents, strict=True))
        if not contiguous:
            return TensorError(
                f"{op} moves {width} contiguous {view.dtype} at a time, but a thread's values of {view.label} are not "
                f"contiguous: its layout is {view.layout}, in {_home(view)} of layout {view.buffer.layout}",
                hint=_contiguity_hint(view), locs=(locate(),), code="A9")
    if len(space.strides) > 2:
        return TensorError(f"{op} moves {width} {dst.dtype} at a time, so its predicate must be the same for all of "
                           "them", hint="give it a mode of size 1 where the copy is contiguous", locs=(locate(),))
    return TensorError(f"{op} moves {width} contiguous {dst.dtype} at a time, but {dst.label} {dst.layout} and "
                       f"{src.label} {src.layout} are contiguous along different modes", locs=(locate(),), code="A9")


def _home(view: View) -> str:
    """The tensor that a view was made from, by name unless only moye gave it one."""
    return "an array" if view.buffer.name.startswith("_") else view.buffer.name


def _contiguity_hint(view: View) -> str:
    """What to do if the values run along a mode that is not the contiguous one."""
    name, layout = _home(view), view.buffer.layout
    inner = layout.layout if isinstance(layout, ComposedLayout) else layout
    modes = rank(inner)
    along = [m for m in range(modes) if any(_is(step, 1) for _, step in zip_leaves(*_mode(inner, m)))]
    if not along:
        return f"{name} is contiguous along no mode: pass one that is, or use a copy of one element at a time"
    mode = along[0]
    if view.space is Space.GLOBAL and modes == 2 and mode == 1:
        return f"{name} is row-major: pass it column-major (the .T of a row-major array of the transposed shape), " \
               "or let the value layout run along mode 1"
    return f"{name} is contiguous along mode {mode}: let the value layout run along it"


def _mode(layout: Layout, mode: int) -> tuple[IntTuple, IntTuple]:
    part = layout.mode(mode)
    return part.shape, part.stride


def _padding(view: View, bad: Int, unit: int) -> str:
    """The stride to take instead of one that is not a multiple of ``unit``, named as a padding if it is one."""
    if not isinstance(bad, int):
        return f"make {bad} a multiple of {unit} elements"
    # The next multiple, not the nearest: a smaller stride might let columns overlap.
    good = bad + unit - bad % unit
    layout = view.buffer.layout
    inner = layout.layout if isinstance(layout, ComposedLayout) else layout
    extent = next((e for e, step in zip_leaves(inner.shape, inner.stride) if _is(step, 1)), None)
    pad = f"pad by {good - extent}: " if isinstance(extent, int) and extent < bad < 2 * extent else ""
    return f"{pad}a stride of {good} instead of {bad}"


def misaligned(op: CopyOp, view: View, strides: tuple[Int, ...], at: int, needed: int) -> AlignmentError:
    itemsize, name = view.dtype.bits // 8, _home(view)
    unit = needed // itemsize
    if (found := misalignment(view, needed)) is not None:
        where, hint = found
    elif view.swizzle is not None and (itemsize << view.swizzle.base) % needed:
        where = f"its swizzle {view.swizzle} keeps only {itemsize << view.swizzle.base} bytes together"
        hint = f"use a swizzle whose base is at least {(unit - 1).bit_length()}"
    else:
        step = next(s for d, s in enumerate(strides) if d != at and _divisor(s) * itemsize % needed)
        where = f"its accesses lie {step} elements apart"
        hint = f"let them lie multiples of {unit} elements apart"
    return AlignmentError(
        f"{op} needs addresses that are multiples of {needed} bytes, but {view.label} with layout {view.layout} in "
        f"{name} of layout {view.buffer.layout} is misaligned: {where}", hint=hint, locs=(locate(),),
        code="B4" if op.asynchronous else "B3")


def misalignment(view: View, needed: int) -> tuple[str, str] | None:
    """Why the first element of a view may not be at a multiple of ``needed`` bytes, and what to do; None if it is.

    Strides of its buffer that lead to other addresses count too.
    """
    itemsize, name = view.dtype.bits // 8, _home(view)
    unit = needed // itemsize
    bad = _bad_stride(view, needed)
    if view.buffer.align % needed:
        where = f"its data pointer is known to be a multiple of {view.buffer.align} bytes only"
        return where, f"pass {_an(name)} whose data pointer is a multiple of {needed}" \
            if view.space is Space.GLOBAL else f"mo.shared_array(..., align={needed})"
    if bad is not None and view.space is Space.GLOBAL:
        return f"its stride {bad} is not known to be a multiple of {unit} elements", \
            f"pass {_an(name)} whose strides are multiples of {unit} elements"
    if bad is not None:
        return f"the stride {bad} of {name} is {_bytes(bad, itemsize)} bytes", _padding(view, bad, unit)
    if view.alignment % needed:
        return f"its first element is known to be aligned to {view.alignment} bytes only", \
            f"slice at multiples of {unit} elements"
    return None


def _bad_stride(view: View, needed: int) -> Int | None:
    """A stride of the view's buffer that leads to misaligned addresses."""
    layout = view.buffer.layout
    inner = layout.layout if isinstance(layout, ComposedLayout) else layout
    itemsize = view.buffer.dtype.bits // 8
    for extent, step in zip_leaves(inner.shape, inner.stride):
        if not _is(extent, 1) and not _is(step, 0) and not _is(step, 1) and _divisor(step) * itemsize % needed:
            return step
    return None


def _an(name: str) -> str:
    return f"an {name}" if name[:1] in "AEIOaeio" else f"a {name}"


def _bytes(stride: Int, itemsize: int) -> str:
    return str(stride * itemsize) if isinstance(stride, int) else f"{itemsize} * {stride}"


def accesses_of(space: IndexSpace, width: int, at: int) -> IndexSpace:
    """The space of accesses: the contiguous dimension is divided by the width, and its stride multiplied."""
    extents = list(space.extents)
    strides = [list(s) for s in space.strides]
    extents[at] = extents[at] // width
    for s in strides:
        s[at] = s[at] * width
    keep = [d for d, extent in enumerate(extents) if not _is(extent, 1)]
    return IndexSpace(tuple(extents[d] for d in keep), tuple(tuple(s[d] for d in keep) for s in strides),
                      tuple(space.modes[d] for d in keep))


def _predicate(pred: object, space: IndexSpace) -> TileRef | Operand | None:
    if pred is None:
        return None
    if isinstance(pred, Expr):
        return truth(pred).operand
    if isinstance(pred, (bool, Known)):
        return operand_of(bool(pred))
    return pred.tile_ref(space.strides[2])  # type: ignore[attr-defined, no-any-return]


# --- whether the extents of both sides agree -------------------------------------------------------------------------


def agreed(dst: View, src: View) -> tuple[Layout, Layout]:
    """The layouts of both sides of a copy, static if either says so: proven now, checked at launch, or refused.

    Registers have no addresses, so a copy from or to them needs static extents.

        agreed(out, r)          # out: (out_0,out_1), r: (2,3): launch checks out_0 == 2 and out_1 == 3
    """
    if isinstance(size(dst.layout), int) == isinstance(size(src.layout), int):
        return dst.layout, src.layout
    if isinstance(size(dst.layout), int):
        return dst.layout, _as_static(src, dst)
    return _as_static(dst, src), src.layout


def _as_static(view: View, other: View) -> Layout:
    """The layout of a view, with the extents of the other, static view."""
    whole, wanted = view.layout, other.layout
    modal = isinstance(whole.shape, tuple) and isinstance(wanted.shape, tuple) and rank(whole) == rank(wanted)
    if not modal:
        return _static_mode(view, other, whole, wanted, None)
    return make_layout(*(_static_mode(view, other, whole.mode(i), wanted.mode(i), i) for i in range(rank(whole))))


def _static_mode(view: View, other: View, mode: Layout, wanted: Layout, number: int | None) -> Layout:
    leaves = zip_leaves(mode.shape, mode.stride)
    dynamic = [i for i, (extent, _) in enumerate(leaves) if not isinstance(extent, int)]
    if not dynamic or _stretched(view, other, mode):
        return mode
    rest, have = math.prod(extent for extent, _ in leaves if isinstance(extent, int)), size(wanted)
    where = "" if number is None else f" of mode {number}"
    if len(dynamic) > 1 or not isinstance(have, int) or not rest or have % rest or \
            not _assumed(leaves[dynamic[0]][0], have // rest, view, other, where):
        if Space.REGISTER not in (view.space, other.space):
            return mode                                 # between memories it may stay dynamic
        name = extent_name(leaves[dynamic[0]][0]) if len(dynamic) == 1 and rest == 1 else None
        said = "say so with mo.assume" if name is None else f"say mo.assume({name} == {have}) before the condition"
        here = "under a traced condition" if tracing() and builder().conditions else "here"
        raise TensorError(f"{view.label} {view.layout} and {other.label} {other.layout} are copied whole, but whether "
                          f"the extent {leaves[dynamic[0]][0]}{where} fits the {have} elements of {other.label} is "
                          f"not known, and launch cannot check it {here}", locs=(locate(),),
                          hint=f"{said}, take a static tile with mo.tile, or annotate the parameter with mo.Static")
    extents = [have // rest if i == dynamic[0] else extent for i, (extent, _) in enumerate(leaves)]
    return Layout(unflatten_tuple(extents, mode.shape), mode.stride)


def _stretched(view: View, other: View, mode: Layout) -> bool:
    """Whether it is one element again and again, as in a fill: it takes any extent."""
    return view.space is Space.REGISTER and all(isinstance(step, int) and step == 0
                                                for _, step in zip_leaves(mode.shape, mode.stride))


def _assumed(extent: Int, wanted: int, view: View, other: View, where: str) -> bool:
    """Whether an extent is this one, as far as the launch can check it; the launch will."""
    given: Any = extent
    equal = compare("eq", given, wanted)
    if equal is True or given.same(wanted):
        return True
    if not tracing() or not isinstance(equal, Expr):
        return False
    if any(guard.cond is equal.operand for guard in builder().func.guards):
        return True                                     # launch checks it for an earlier copy
    if not can_guard(equal.operand):
        return False
    builder().guard(equal.operand, f"copyto: extent {{have}}{where} of {view.label} is not {wanted}, which "
                                   f"{other.label} {other.layout} has", {"have": operand_of(given)})
    return True
