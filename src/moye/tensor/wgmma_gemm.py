"""From tensors to one wgmma op: descriptors of what lies in shared memory, and registers for the rest.

In: the operation, accumulators, A as a view of shared memory or registers, B as a view of shared memory.  Out: an
``ops.Wgmma``, whose index space runs over the instructions along M, N and K.

    emit_wgmma(op, acc, tCrA[:, :, k, stage], tCrB[:, :, k, stage], accumulate=k > 0)
"""

from __future__ import annotations

from moye.atoms.atom import MmaOp
from moye.dtypes import Space, bool_
from moye.errors import TensorError
from moye.ir import ops
from moye.ir.nodes import Literal, Operand
from moye.layout import crd2idx, size
from moye.tensor.accesses import judge
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr, Scalar, is_scalar, truth
from moye.tensor.space import common_space
from moye.tensor.tensor import Tensor
from moye.tensor.wgmma_descriptors import descriptor


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
