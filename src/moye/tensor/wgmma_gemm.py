"""From tensors to one wgmma op: descriptors of what lies in shared memory, and registers for the rest.

In: the operation, accumulators, A as a view of shared memory or registers, B as a view of shared memory.  Out: an
``ops.Wgmma``, whose index space runs over the instructions along M, N and K.

    emit_wgmma(op, acc, tCrA[:, :, k, stage], tCrB[:, :, k, stage], accumulate=k > 0)
"""

from __future__ import annotations

from moye.atoms.atom import MmaOp
from moye.dtypes import DType, Space, bool_
from moye.errors import LayoutError, TensorError
from moye.ir import ops
from moye.ir.nodes import Literal, Operand
from moye.layout import Layout, coalesce, crd2idx, divides, make_layout, rank, size
from moye.layout.tuples import flatten_tuple
from moye.tensor.accesses import judge
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr, Scalar, is_scalar, truth
from moye.tensor.space import common_space
from moye.tensor.tensor import Tensor
from moye.tensor.view import View


def emit_wgmma(op: MmaOp, d: Tensor, a: Tensor, b: Tensor, accumulate: Scalar) -> None:
    """d (V, M, N) += a (V, M, K) * b (V, N, K), or d = a * b if ``accumulate`` is false."""
    shared_a = "a" in op.shared
    if not shared_a and a.space is not Space.REGISTER:
        raise TensorError(f"{op} takes A from registers, but {a.label} lives in {a.space.value}", locs=(locate(),),
                          hint="copy it into make_fragment_A of a slice of the tiled MMA")
    m = common_space([t.layout.mode(1) for t in (a, d)])
    n = common_space([b.layout.mode(1), d.layout.mode(2)])
    k = common_space([a.layout.mode(2), b.layout.mode(2)])
    zm, zn, zk = ((0,) * len(space.extents) for space in (m, n, k))
    extents = (*m.extents, *n.extents, *k.extents)
    if not all(isinstance(x, int) for space in (m, n, k) for x in (*space.extents, *space.strides[0],
                                                                   *space.strides[1])):
        raise TensorError(f"gemm with {op}: the layouts of {a!r}, {b!r} and {d!r} must be static", locs=(locate(),))
    for operand in (a, b):
        judge(operand, write=False)
    builder().emit(ops.Wgmma(
        mma=op, roles="m" * len(zm) + "n" * len(zn) + "k" * len(zk),
        d=d.tile_ref((*m.strides[1], *n.strides[1], *zk)), a=a.tile_ref((*m.strides[0], *zn, *k.strides[0])),
        b=b.tile_ref((*zm, *n.strides[0], *k.strides[1])), extents=tuple(e for e in extents if isinstance(e, int)),
        accumulate=_truth(accumulate), b_descriptor=descriptor(op, "B", b),
        a_descriptor=descriptor(op, "A", a) if shared_a else None,
        a_values=(0,) if shared_a else _neighbours(op, a), d_values=_neighbours(op, d)))


def descriptor_view(op: MmaOp, operand: str, tensor: Tensor) -> Tensor:
    """The tensor itself, once it is proven that descriptors can describe it."""
    descriptor(op, operand, tensor)
    return Tensor(tensor.buffer, tensor.offset, tensor.layout, tensor.dtype, tensor.swizzle, order=tensor.order,
                  origin=tensor.origin)


def _truth(accumulate: Scalar) -> Operand:
    if not is_scalar(accumulate):
        raise TensorError(f"gemm: accumulate={accumulate!r} is no bool", locs=(locate(),))
    return truth(accumulate).operand if isinstance(accumulate, Expr) else Literal(bool(accumulate), bool_)


def _neighbours(op: MmaOp, tensor: Tensor) -> tuple[int, ...]:
    """The register offsets of the values of one instruction, which must follow one another."""
    mode = tensor.layout.mode(0)
    count = size(mode)
    offsets = tuple(crd2idx(i, mode) for i in range(count)) if isinstance(count, int) else ()
    if offsets != tuple(range(len(offsets))) or not offsets:
        raise TensorError(f"{op} takes neighbouring registers, but the values of {tensor.label} {tensor.layout} lie at "
                          f"{mode}", locs=(locate(),), hint="make them with make_fragment_A, make_fragment_C or "
                                                            "partition_fragment_C")
    return tuple(range(len(offsets)))


# --- descriptors -----------------------------------------------------------------------------------------------------

# Law: the tile's rows and its k are the canonical layout of the three numbers of its descriptor, which the algebra
# rebuilds and compares.  Source: PTX ISA, "Shared Memory Matrix Layout", "Strides"; CuTe
# cute/atom/mma_traits_sm90_gmma.hpp, make_gmma_desc.
Descriptor = tuple[int, int, int]
ROWS, ACCESS_BITS, FIELD = 8, 128, 1 << 18
"""Rows of a core matrix, bits of one of its rows, and a limit that byte offsets of a descriptor stay below."""
_WIDTHS = {1: 32, 2: 64, 3: 128}


def descriptor(op: MmaOp, operand: str, tensor: View) -> Descriptor:
    """(leading byte offset, stride byte offset, bytes of the swizzle) of what ``partition_A`` or ``partition_B`` gives.

    TensorError A9, with what the hardware would need, if the tile cannot be read through a descriptor.

        descriptor(op, "B", tCsB)      # (16, 1024, 128)
    """
    if tensor.space is not Space.SHARED:
        raise TensorError(f"{op} reads {operand} from shared memory, but {tensor.label} lives in {tensor.space.value}",
                          locs=(locate(),), hint=None if operand == "B" else
                          'mo.mma.wgmma(..., a_source="registers") takes A from registers')
    rows, k = _tile(op, operand, tensor)
    major = op.a_major if operand == "A" else op.b_major
    width = _width(op, operand, tensor)
    together = ACCESS_BITS // tensor.dtype.bits
    row = together * width * 8 // ACCESS_BITS if width else together
    wanted, leading, stride = (_along_k if major == "k" else _along_rows)(rows, k, together, row)
    # Two offsets are all that a descriptor says of a tile: it must be the canonical layout with these offsets.
    if wanted is None or tuple(map(coalesce, (rows, k))) != tuple(map(coalesce, wanted)):
        raise _not_canonical(op, operand, tensor, (rows, k, major, width))
    leading, stride = (x * tensor.dtype.bits // 8 for x in (leading, stride))
    for name, offset in (("leading", leading), ("stride", stride)):
        if offset % (ACCESS_BITS // 8) or not 0 <= offset < FIELD:
            raise TensorError(f"{op} cannot read {tensor.label} {tensor.layout} as {operand}: the {name} byte offset "
                              f"{offset} is no multiple of 16 below {FIELD}", locs=(locate(),), code="A9")
    _check_start(op, operand, tensor)
    return leading, stride, width


def _tile(op: MmaOp, operand: str, tensor: View) -> tuple[Layout, Layout]:
    """The layouts of one instruction's rows and k."""
    extents = (op.shape_mnk[0 if operand == "A" else 1], op.shape_mnk[2])
    first = tensor.layout.mode(0)
    made = isinstance(first.shape, tuple) and rank(first) == 2
    if not made or (size(first, 0), size(first, 1)) != extents:
        raise TensorError(f"{op} reads tiles of {extents[0]}x{extents[1]} as {operand}, but the first mode of "
                          f"{tensor.label} {tensor.layout} is {first}", locs=(locate(),),
                          hint=f"make it with partition_{operand} of a slice of the tiled MMA")
    if not all(isinstance(step, int) for step in flatten_tuple(first.stride)):
        raise TensorError(f"{op} reads {tensor.label} through a descriptor, but its layout {tensor.layout} is not "
                          "static", locs=(locate(),), code="A9")
    return first.mode(0), first.mode(1)


def _width(op: MmaOp, operand: str, tensor: View) -> int:
    """Bytes of the swizzle; 0 without one."""
    swizzle = tensor.swizzle
    if swizzle is None or not swizzle.bits:
        return 0
    # The hardware permutes chunks of 16 bytes, by bits that lie 3 above the chunk's (PTX ISA, shared-memory
    # descriptor).
    base = (ACCESS_BITS // tensor.dtype.bits).bit_length() - 1
    if (swizzle.base, swizzle.shift) != (base, 3) or swizzle.bits not in _WIDTHS:
        listed = ", ".join(f"Sw<{bits},{base},3> of {width} bytes" for bits, width in reversed(_WIDTHS.items()))
        raise TensorError(f"{op} cannot read {tensor.label} as {operand}: of {tensor.dtype} it knows the swizzles "
                          f"{listed}, and {tensor.label} has {swizzle}", locs=(locate(),), code="A9",
                          hint=_atoms(tensor.dtype, op.a_major if operand == "A" else op.b_major))
    return _WIDTHS[swizzle.bits]


Canonical = tuple[tuple[Layout, Layout] | None, int, int]
"""The layouts of rows and k, and the leading and stride offsets in elements."""


def _along_k(rows: Layout, k: Layout, together: int, row: int) -> Canonical:
    """A tile contiguous along k: 8 rows of a row's width one after another, and the next 8 at the stride offset.

    Without a swizzle, the second 16 bytes along k lie at the leading offset.  With one, that offset is not used.
    """
    count = _int(size(rows))
    stride = _int(rows(ROWS)) if count > ROWS else ROWS * row
    leading = _int(k(together)) if row == together else together
    wanted = make_layout((ROWS, count // ROWS), (row, stride)), make_layout((together, 2), (1, leading))
    return wanted, leading, stride


def _along_rows(rows: Layout, k: Layout, together: int, row: int) -> Canonical:
    """A tile contiguous along the rows: a number of them, for 8 k one after another.

    The next rows lie at the leading offset and the next 8 k at the stride offset.  Without a swizzle it is the other
    way.
    """
    count = _int(size(rows))
    if count % row:
        return None, 0, 0
    further = _int(rows(row)) if count > row else ROWS * row
    deeper = _int(k(ROWS))
    wanted = make_layout((row, count // row), (1, further)), make_layout((ROWS, 2), (row, deeper))
    return (wanted, deeper, further) if row == together else (wanted, further, deeper)


def _not_canonical(op: MmaOp, operand: str, tensor: View, found: tuple[Layout, Layout, str, int]) -> TensorError:
    rows, k, major, width = found
    name = "M" if operand == "A" else "N"
    together = ACCESS_BITS // tensor.dtype.bits
    row = together * (width or 16) // 16
    if major == "k":
        needs = f"{name} as (8,m):({row},s) and K as " + (f"{2 * together}:1" if width else f"({together},2):(1,l)")
    else:
        needs = f"{name} as ({row},m):(1,{'l' if width else 's'}) and K as (8,2):({row},{'s' if width else 'l'})"
    swizzled = f"a swizzle of {width} bytes" if width else "no swizzle"
    along = "K" if major == "k" else name
    return TensorError(f"{op} cannot read {tensor.label} as {operand}, contiguous along {along}: with {swizzled} it "
                       f"needs {needs}, but {tensor.label} has {coalesce(rows)} and {coalesce(k)}",
                       locs=(locate(),), code="A9", hint=_atoms(tensor.dtype, major))


def _atoms(dtype: DType, major: str) -> str:
    return f'mo.tile_to_shape(mo.smem_layout_atom(mo.{dtype}, "{major}"), ...) is laid out so'


def _check_start(op: MmaOp, operand: str, tensor: View) -> None:
    """Check that every tile begins at a multiple of 16 bytes."""
    together = ACCESS_BITS // tensor.dtype.bits
    steps = [step for i in range(1, rank(tensor.layout)) for step in flatten_tuple(tensor.layout.mode(i).stride)]
    if not all(divides(together, x) for x in (tensor.offset, *steps)):
        raise TensorError(f"{op} reads {operand} from addresses that are multiples of 16 bytes, {together} "
                          f"{tensor.dtype}; {tensor.label} {tensor.layout} from element {tensor.offset} is not known "
                          "to lie so", locs=(locate(),), code="A9")


def _int(x: object) -> int:
    if not isinstance(x, int):
        raise LayoutError(f"{x} must be static here")
    return x
