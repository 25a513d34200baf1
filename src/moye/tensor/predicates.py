"""Predicates from coordinates, and what ragged rows need to begin at whole vectors.

In: coordinates, or a coordinate tensor as the tensor of an access is partitioned.  Out: a bool, or a bool register
tensor of the same shape for ``copyto(..., pred=)``.

    inside = mo.elem_less(mo.tile(cA, (4,), (i,), ragged=True), mo.shape(A))
    lead = mo.misalignment(row); begun = mo.with_lead(row, lead)

Source: CuTe cute/int_tuple.hpp, elem_less; the predicates of cute/tutorial/tiled_copy_if.cu.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from moye import dtypes as dt
from moye.dtypes import Space
from moye.errors import LayoutError, TensorError
from moye.layout import Int, IntTuple, Layout, idx2crd, make_layout, rank, size
from moye.layout import elem_less as tuples_less
from moye.tensor.context import locate
from moye.tensor.coords import CoordTensor
from moye.tensor.expr import Expr, Scalar, bitwise, compare, operand_of
from moye.tensor.known import weak
from moye.tensor.partitions import kind
from moye.tensor.slices import wide
from moye.tensor.tensor import Tensor, make_fragment
from moye.tensor.view import Origin

_VECTOR = 16
T = TypeVar("T", Tensor, CoordTensor)


def elem_less(a: Any, b: IntTuple) -> Any:
    """Whether every leaf of ``a`` is less than that of ``b``: whether coordinate a lies inside shape b.

    Law: ``elem_less(a, b)`` means ``x < y`` for all pairs of leaves; an integer a is an index of shape b.  In a
    kernel the answer is a traced bool if facts do not tell.  Of a coordinate tensor it is a bool register tensor of its
    shape, which must be static: one answer for each element.  Source: CuTe cute/int_tuple.hpp.
    """
    return _each(lambda at: tuples_less(at, b), a) if isinstance(a, CoordTensor) else tuples_less(a, b)


def inside(a: Any, shape: IntTuple) -> Any:
    """Whether coordinate ``a`` lies inside ``shape``: no entry is negative, and each is less than its extent.

    Law: ``inside(a, s) == (elem_leq(0, a) and elem_less(a, s))``.  Of a coordinate tensor of static shape it is a bool
    register tensor.  One comparison of unsigned numbers decides both sides.
    """
    return _each(lambda at: _inside(at, shape), a) if isinstance(a, CoordTensor) else _inside(a, shape)


def _inside(at: Any, shape: Any) -> Any:
    if not (_is_coordinate(at) and _is_coordinate(shape)):
        raise LayoutError(f"inside({kind(at)}, {kind(shape)}): it takes integers, or tuples of them", locs=(locate(),))
    entries = at if isinstance(at, tuple) else (at,)
    extents = shape if isinstance(shape, tuple) else (shape,)
    if len(entries) != len(extents):
        raise LayoutError(f"inside: a coordinate of {len(entries)} entries for the shape {shape}", locs=(locate(),))
    found: Any = True
    for entry, extent in zip(entries, extents, strict=True):
        within = _inside(entry, extent) if isinstance(entry, tuple) else _between(weak(entry), weak(extent))
        if within is False:
            return False
        found = within if found is True else found if within is True else bitwise("and", found, within)
    return found


def _is_coordinate(x: Any) -> bool:
    """Whether this is an integer of the kernel or of Python, or a tuple of such."""
    if isinstance(x, tuple):
        return all(_is_coordinate(each) for each in x)
    return isinstance(x, int) or (isinstance(x, Expr) and x.dtype.is_integer)


def _between(entry: Any, extent: Any) -> Any:
    """0 <= entry < extent."""
    if isinstance(entry, int) and isinstance(extent, int):
        return 0 <= entry < extent
    lower = entry if isinstance(entry, int) else entry.lower
    if lower is not None and lower >= 0:
        return weak(compare("lt", entry, extent)) if isinstance(entry, Expr) else weak(compare("gt", extent, entry))
    if isinstance(entry, int):
        return False
    bits = max([x.dtype.bits for x in (entry, extent) if isinstance(x, Expr)])
    unsigned = dt.uint64 if bits == 64 else dt.uint32
    signed = dt.int64 if bits == 64 else dt.int32
    a, b = (Expr(operand_of(Expr(operand_of(x, signed)), unsigned)) for x in (entry, extent))
    return weak(compare("lt", a, b))


def _each(decide: Callable[[Any], Scalar], coordinates: CoordTensor) -> Tensor:
    """A bool register tensor with the answer for each coordinate."""
    count = size(coordinates.layout)
    if not isinstance(count, int):
        raise TensorError(f"the predicate of {coordinates!r} needs static extents", hint="mo.tile cuts static tiles",
                          locs=(locate(),))
    found = make_fragment(make_layout(coordinates.layout.shape), dt.bool_)
    flat = found.with_layout(make_layout(count))
    for i in range(count):
        at = coordinates[idx2crd(coordinates.layout.shape, i)] if rank(coordinates.layout) > 1 else coordinates[i]
        flat[i] = decide(at)
    return found


def misalignment(tensor: Tensor, bytes: int = _VECTOR) -> Int:
    """How many elements lie between the last multiple of ``bytes`` and the first element of a tensor in global memory.

    ``bytes`` is a power of two up to 16.  The data of an array is taken to begin at such a multiple; of one that does
    not, copies are right and element by element.  Rows of 4097 float16 give 0, 1, ... 7 in turn.
    """
    if not isinstance(tensor, Tensor):
        raise TensorError(f"misalignment takes a tensor of a kernel, not {kind(tensor)}", locs=(locate(),))
    itemsize = tensor.dtype.bits // 8
    if not isinstance(bytes, int) or bytes not in (2, 4, 8, 16) or not itemsize or bytes % itemsize or \
            tensor.space is not Space.GLOBAL:
        raise TensorError(f"misalignment({tensor.label}, {bytes}): {tensor.dtype} in {tensor.space.value}; it takes "
                          "global memory, and 2, 4, 8 or 16 bytes that hold whole elements", locs=(locate(),))
    found: Any = tensor.offset % (bytes // itemsize)
    return weak(found)  # type: ignore[no-any-return]


def with_lead(tensor: T, lead: Int) -> T:
    """``tensor`` with ``lead`` more elements in front of its first: element ``lead + i`` is element ``i`` of it.

    ``tensor`` has one mode.  What lies in front is not part of it and must be predicated off: of an identity tensor it
    has negative coordinates, which ``mo.inside`` refuses.
    """
    if not isinstance(tensor, (Tensor, CoordTensor)):
        raise TensorError(f"with_lead takes a tensor of a kernel, not {kind(tensor)}", locs=(locate(),))
    if isinstance(lead, bool) or not isinstance(lead, (int, Expr)) or (isinstance(lead, Expr) and
                                                                       not lead.dtype.is_integer):
        raise TensorError(f"with_lead({tensor.label}, {kind(lead)}): it takes a number of elements", locs=(locate(),))
    if rank(tensor.layout) != 1:
        raise TensorError(f"with_lead takes a tensor of one mode, not {tensor!r}", hint="slice a row of it",
                          locs=(locate(),))

    def step(layout: Layout) -> tuple[Layout, Any]:
        one = layout.mode(0) if isinstance(layout.shape, tuple) else layout
        if isinstance(one.shape, tuple):
            raise TensorError(f"with_lead takes a tensor of one flat mode, not {tensor!r}", locs=(locate(),))
        return Layout((wide(lead) + one.shape,), (one.stride,)), one(-wide(lead))

    if isinstance(tensor, CoordTensor):
        return tensor.each(step)
    tensor.unordered()
    origin = (tensor.origin or Origin.of(tensor)).beyond(tensor, (0,))
    return tensor.derived(step, origin=origin)
