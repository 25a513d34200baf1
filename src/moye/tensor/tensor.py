"""Tensors of a kernel: a pointer (buffer and element offset) with a layout.

In: arguments, ``shared_array``, fragments.  Out: views by slicing, loads and stores by full coordinates, elementwise
arithmetic on register tensors.

>>> tAsA[:, :, :, stage]          # a view: the offset moves into the pointer
>>> tCrC[0, 1, 2]                 # a load
>>> acc[...] = acc * 2            # in place on registers

Copies and products of whole tensors are in ``algorithms.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from moye.atoms.universal import AUTO_COPY
from moye.dtypes import DType, Space
from moye.errors import LayoutError, TensorError
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Literal, Operand, Ref, TileRef, Value
from moye.layout import (
    ComposedLayout,
    Int,
    IntTuple,
    Layout,
    Swizzle,
    cosize,
    crd2idx,
    is_static,
    make_layout,
    rank,
    recast,
    size,
    slice_and_offset,
)
from moye.tensor import copying, expr
from moye.tensor.context import builder, locate
from moye.tensor.expr import Expr, Scalar, is_scalar, operand_of, wrap
from moye.tensor.space import IndexSpace, common_space, merged

AUTO = "_"  # first letter of names that moye gives, until the user's variable names the thing


class Tensor:
    """A view of memory in a kernel: ``dtype`` elements of ``buffer`` at ``offset + layout(coordinate)``.

    ``offset`` counts elements of ``dtype`` and is static for register tensors.  ``swizzle`` (in elements) is applied to
    the whole offset.  ``name`` is the user's variable.
    """

    __slots__ = ("buffer", "dtype", "layout", "name", "offset", "swizzle")

    def __init__(self, buffer: Buffer, offset: Int, layout: Layout, dtype: DType, swizzle: Swizzle | None = None,
                 name: str = "") -> None:
        self.buffer = buffer
        self.offset = offset
        self.layout = layout
        self.dtype = dtype
        self.swizzle = swizzle
        self.name = name

    # --- properties ---

    @property
    def shape(self) -> IntTuple:
        return self.layout.shape

    @property
    def space(self) -> Space:
        return self.buffer.space

    @property
    def label(self) -> str:
        """The name for messages."""
        return self.name or self.buffer.name

    @property
    def alignment(self) -> int:
        """Bytes that the address of element 0 is known to be a multiple of."""
        if self.space is Space.REGISTER:
            return 16
        bits = _divisor(self.offset) * self.dtype.bits
        return math.gcd(self.buffer.align, bits // 8) if bits >= 8 else 1

    def __repr__(self) -> str:
        return f"{self.label}: {self.space.value} {self.dtype} {self.layout}"

    def __len__(self) -> int:
        raise TensorError(f"len({self.label}): use mo.size(x, mode) or mo.rank(x)", locs=(locate(),))

    def __iter__(self) -> None:
        raise TensorError(f"{self.label} cannot be iterated over; loop over coordinates", locs=(locate(),))

    # --- views ---

    def view(self, coordinate: object) -> tuple[Layout, Int]:
        """The sub-layout and element offset of a slicing coordinate, bounds recorded or checked."""
        check_coordinate(self, coordinate)
        try:
            sub, moved = slice_and_offset(coordinate, self.layout)
        except LayoutError as error:
            raise TensorError(f"{self.label}[{_show(coordinate)}]: {error.message}", locs=(locate(),)) from None
        return sub, self.offset + moved

    def __getitem__(self, coordinate: object) -> Tensor | Scalar:
        coordinate = normalise(coordinate, rank(self.layout))
        if is_slice(coordinate):
            sub, offset = self.view(coordinate)
            if self.space is Space.REGISTER:
                _static_offset(self, offset)
            return Tensor(self.buffer, offset, sub, self.dtype, self.swizzle, self.name)
        value = Value(self.dtype, name="")
        op = ops.Load(result=value, ref=self.ref(coordinate))
        value.op = op
        builder().emit(op)
        return Expr(value)

    def __setitem__(self, coordinate: object, value: object) -> None:
        coordinate = normalise(coordinate, rank(self.layout))
        if is_slice(coordinate):
            target = self[coordinate]
            assert isinstance(target, Tensor), "a sliced tensor is a tensor"
            assign(target, value)
            return
        if not is_scalar(value):
            raise TensorError(f"{self.label}[{_show(coordinate)}] is one element; it cannot hold {value!r}",
                              locs=(locate(),))
        builder().emit(ops.Store(ref=self.ref(coordinate), value=operand_of(value, self.dtype)))  # type: ignore[arg-type]

    def offset_of(self, coordinate: object) -> Int:
        """The element offset of a full coordinate, bounds recorded or checked."""
        check_coordinate(self, coordinate)
        try:
            return self.offset + crd2idx(coordinate, self.layout)  # type: ignore[arg-type]
        except LayoutError as error:
            raise TensorError(f"{self.label}[{_show(coordinate)}]: {error.message}", locs=(locate(),)) from None

    def ref(self, coordinate: object) -> Ref:
        """The element at a full coordinate."""
        offset = self.offset_of(coordinate)
        if self.space is Space.REGISTER:
            _static_offset(self, offset)
        return Ref(self.buffer, index_operand(offset), self.dtype, self.swizzle)

    def tile_ref(self, strides: Sequence[Int]) -> TileRef:
        """This tensor as the operand of a tile op whose index space has these strides."""
        return TileRef(self.buffer, index_operand(self.offset), self.dtype,
                       tuple(s if isinstance(s, int) else _value(s) for s in strides), self.swizzle, self.layout,
                       self.label)

    def with_layout(self, layout: Layout) -> Tensor:
        return Tensor(self.buffer, self.offset, layout, self.dtype, self.swizzle, self.name)

    # --- registers ---

    def fill(self, value: Scalar) -> None:
        """Set every element to one scalar."""
        if not is_scalar(value):
            raise TensorError(f"{self.label}.fill({value!r}): a scalar is needed", locs=(locate(),))
        if self.space is not Space.REGISTER:
            one = make_fragment(make_layout(1), self.dtype)
            one.fill(value)
            copying.emit_copy(AUTO_COPY, self, one.with_layout(Layout(self.layout.shape, _zeros(self.layout.shape))))
            return
        space = merged(common_space([self.layout]))
        emit_map(self, space, [], lambda: operand_of(value, self.dtype))

    def reduce(self, kind: str, init: Scalar | None = None) -> Scalar:
        """Fold all elements of a register tensor: "add", "mul", "min", "max", "and", "or", "xor"."""
        _need_registers(self, "reduce")
        space = merged(common_space([self.layout]))
        value = Value(self.dtype)
        op = ops.Reduce(result=value, kind=kind, src=self.tile_ref(space.strides[0]), extents=_static(space, self))
        value.op = op
        builder().emit(op)
        return Expr(value) if init is None else expr.arithmetic(kind, Expr(value), init)

    def to(self, dtype: DType) -> Tensor:
        """A new register tensor with every element converted."""
        return elementwise(lambda x: x if x.dtype == dtype else x.to(dtype), self, dtype=dtype)  # type: ignore[union-attr]

    def __add__(self, o: object) -> Tensor: return _arith("add", self, o)
    def __radd__(self, o: object) -> Tensor: return _arith("add", o, self)
    def __sub__(self, o: object) -> Tensor: return _arith("sub", self, o)
    def __rsub__(self, o: object) -> Tensor: return _arith("sub", o, self)
    def __mul__(self, o: object) -> Tensor: return _arith("mul", self, o)
    def __rmul__(self, o: object) -> Tensor: return _arith("mul", o, self)
    def __truediv__(self, o: object) -> Tensor: return elementwise(expr.divide, self, o)
    def __rtruediv__(self, o: object) -> Tensor: return elementwise(expr.divide, o, self)
    def __pow__(self, o: object) -> Tensor: return elementwise(lambda a, b: a**b, self, o)
    def __neg__(self) -> Tensor: return elementwise(lambda a: expr.unary("neg", a), self)
    def __abs__(self) -> Tensor: return elementwise(lambda a: expr.unary("abs", a), self)
    def __lt__(self, o: object) -> Tensor: return elementwise(lambda a, b: expr.compare("lt", a, b), self, o)
    def __le__(self, o: object) -> Tensor: return elementwise(lambda a, b: expr.compare("le", a, b), self, o)
    def __gt__(self, o: object) -> Tensor: return elementwise(lambda a, b: expr.compare("gt", a, b), self, o)
    def __ge__(self, o: object) -> Tensor: return elementwise(lambda a, b: expr.compare("ge", a, b), self, o)
    def __iadd__(self, o: object) -> Tensor: return _in_place("add", self, o)
    def __isub__(self, o: object) -> Tensor: return _in_place("sub", self, o)
    def __imul__(self, o: object) -> Tensor: return _in_place("mul", self, o)

    def __itruediv__(self, o: object) -> Tensor:
        assign(self, elementwise(expr.divide, self, o))
        return self


def _arith(kind: str, a: object, b: object) -> Tensor:
    return elementwise(lambda x, y: expr.arithmetic(kind, x, y), a, b)


def _in_place(kind: str, target: Tensor, other: object) -> Tensor:
    assign(target, _arith(kind, target, other))
    return target


def _divisor(x: Int) -> int:
    if isinstance(x, int):
        return x if x > 0 else (-x or 1 << 40)
    return x.divisor


def _zeros(shape: IntTuple) -> IntTuple:
    return tuple(_zeros(s) for s in shape) if isinstance(shape, tuple) else 0


def _show(coordinate: object) -> str:
    if isinstance(coordinate, tuple):
        return ", ".join(f"({_show(c)})" if isinstance(c, tuple) else _show(c) for c in coordinate)
    return ":" if coordinate is None else str(coordinate)


def index_operand(x: Int) -> Operand:
    """An offset as an operand of the kernel's index width."""
    index = builder().index
    return Literal(x, index) if isinstance(x, int) else operand_of(x, index)  # type: ignore[arg-type]


def _value(x: Int) -> Value:
    operand = index_operand(x)
    assert isinstance(operand, Value), "a dynamic stride is a Value"
    return operand


def normalise(coordinate: object, modes: int) -> object:
    """A coordinate with ``...`` and slices replaced by None, as a tuple of one entry per mode (or one integer)."""
    if coordinate is Ellipsis:
        return (None,) * modes
    if not isinstance(coordinate, tuple):
        return _entry(coordinate) if modes == 1 or not isinstance(coordinate, slice) else (None,) * modes
    if any(c is Ellipsis for c in coordinate):
        at = next(i for i, c in enumerate(coordinate) if c is Ellipsis)
        missing = modes - (len(coordinate) - 1)
        coordinate = (*coordinate[:at], *(None,) * missing, *coordinate[at + 1:])
    if len(coordinate) != modes:
        raise TensorError(f"a coordinate of {len(coordinate)} entries for a tensor of rank {modes}: "
                          f"[{_show(coordinate)}]", locs=(locate(),))
    return tuple(_entry(c) for c in coordinate)


def _entry(c: object) -> object:
    if isinstance(c, tuple):
        return tuple(_entry(x) for x in c)
    if isinstance(c, slice):
        if (c.start, c.stop, c.step) != (None, None, None):
            raise TensorError("only whole modes are sliced, with ':'; use mo.tile for a part", locs=(locate(),))
        return None
    if c is None or isinstance(c, (int, Expr)) or hasattr(c, "__index__"):
        return c if c is None or isinstance(c, (int, Expr)) else c.__index__()  # type: ignore[attr-defined]
    raise TensorError(f"{c!r} is no coordinate", locs=(locate(),))


def is_slice(coordinate: object) -> bool:
    if isinstance(coordinate, tuple):
        return any(is_slice(c) for c in coordinate)
    return coordinate is None


def _static_offset(tensor: Tensor, offset: Int) -> None:
    if not isinstance(offset, int):
        raise TensorError(f"{tensor.label} lives in registers, which have no addresses: its index {offset} must be "
                          f"static", hint="loop with mo.static_range, or keep the tensor in shared memory",
                          locs=(locate(),))


def check_coordinate(tensor: Tensor, coordinate: object) -> None:
    """Static coordinates must lie inside; constants and block indices are guarded against dynamic extents."""
    entries = coordinate if isinstance(coordinate, tuple) else (coordinate,)
    shapes = tensor.layout.shape if isinstance(coordinate, tuple) else (tensor_size(tensor),)
    if not isinstance(shapes, tuple):
        shapes = (shapes,)
    for mode, (entry, extent) in enumerate(zip(entries, shapes, strict=False)):
        if isinstance(extent, tuple) or entry is None or isinstance(entry, tuple):
            continue
        _check_entry(tensor, mode, entry, extent)


def tensor_size(tensor: Tensor) -> Int:
    return size(tensor.layout)


def _check_entry(tensor: Tensor, mode: int, entry: object, extent: Int) -> None:
    if isinstance(entry, int) and isinstance(extent, int):
        if not 0 <= entry < extent:
            raise TensorError(f"{tensor.label}: index {entry} is outside mode {mode} of extent {extent} "
                              f"({tensor.layout})", locs=(locate(),))
        return
    bound = _largest(entry)
    if bound is None:
        return
    launch_time = not isinstance(entry, int) and isinstance(entry, Expr) and _loop_part(entry) is not None
    inside = expr.compare("lt", bound, extent)
    if isinstance(inside, bool):
        if not inside:
            raise TensorError(f"{tensor.label}: index {entry} is outside mode {mode} of extent {extent}",
                              locs=(locate(),))
        return
    assert isinstance(inside, Expr), "a traced comparison"
    if expr.can_guard(inside.operand, conditional=launch_time):
        fields = {"bound": operand_of(bound), "extent": operand_of(extent)}  # type: ignore[arg-type]
        builder().guard(inside.operand, f"index {{bound}} of {tensor.label}, mode {mode}, is outside its extent "
                                        f"{{extent}}", fields, _bound_hint(entry))


def _bound_hint(entry: object) -> str | None:
    if isinstance(entry, int):
        return None
    if isinstance(entry, Expr) and _loop_part(entry) is not None:
        return "the operands must have as many tiles along this mode as the loop has iterations"
    return "launch as many blocks as there are tiles"


def _loop_part(entry: Expr) -> tuple[Value, int] | None:
    """A coordinate ``i + c`` as its loop variable and constant."""
    operand, constant = entry.operand, 0
    op = operand.op if isinstance(operand, Value) else None
    if isinstance(op, ops.Binary) and op.kind == "add" and isinstance(op.b, Literal):
        operand, constant = op.a, int(op.b.value)
    if isinstance(operand, Value) and operand.id in builder().loop_stops:
        return operand, constant
    return None


def _largest(entry: object) -> Scalar | None:
    """The largest value of a constant or of a bare block index, as a launch-time scalar."""
    if isinstance(entry, int):
        return entry
    operand = entry.operand if isinstance(entry, Expr) else None
    op = operand.op if isinstance(operand, Value) else None
    if isinstance(op, ops.Special) and op.kind.startswith("block_"):
        grid = builder().special("grid_" + op.kind[-1], lower=1)
        return Expr(grid) - 1  # type: ignore[no-any-return]
    part = _loop_part(entry) if isinstance(entry, Expr) else None
    if part is None:
        return None
    variable, constant = part
    return wrap(builder().largest(variable)) + constant - 1  # type: ignore[operator]


# --- making ----------------------------------------------------------------------------------------------------------


def _auto_name(stem: str) -> str:
    return f"{AUTO}{stem}{len(builder().func.buffers)}"


def shared_array(dtype: DType, layout: Layout | ComposedLayout | IntTuple, *, align: int | None = None) -> Tensor:
    """A tensor in the block's shared memory, of static layout; contents undefined.

    ``align`` is the alignment of its first byte (a power of two; default 16, or the span of its swizzle).
    """
    if not isinstance(layout, (Layout, ComposedLayout)):
        layout = make_layout(layout)
    swizzle = layout.swizzle if isinstance(layout, ComposedLayout) else None
    inner = layout.layout if isinstance(layout, ComposedLayout) else layout
    if not is_static(cosize(inner)):
        raise TensorError(f"shared_array: the layout {layout} is not static", locs=(locate(),))
    if align is None:
        align = 16 if swizzle is None else max(16, swizzle_span(swizzle) * dtype.bits // 8)
    elements = cosize(inner)
    assert isinstance(elements, int), "a static cosize"
    buffer = Buffer(_auto_name("smem"), Space.SHARED, dtype, elements, layout, align=align, loc=locate())
    builder().allocate(buffer)
    return Tensor(buffer, 0, inner, dtype, swizzle)


def swizzle_span(swizzle: Swizzle) -> int:
    """Elements after which a swizzle repeats: its buffer must be aligned to as many."""
    return 1 << (swizzle.base + swizzle.bits + abs(swizzle.shift))


def make_fragment(layout: Layout, dtype: DType) -> Tensor:
    """A register tensor of static layout; contents undefined."""
    elements = cosize(layout)
    if not isinstance(elements, int):
        raise TensorError(f"a register tensor needs a static layout, not {layout}", locs=(locate(),))
    buffer = Buffer(_auto_name("frag"), Space.REGISTER, dtype, elements, layout, align=16, loc=locate())
    builder().allocate(buffer)
    return Tensor(buffer, 0, layout, dtype)


def make_fragment_like(tensor: Tensor | Layout, dtype: DType | None = None) -> Tensor:
    """A register tensor of the same shape, compact, column-major over the modes."""
    layout = tensor.layout if isinstance(tensor, Tensor) else tensor
    chosen = dtype or (tensor.dtype if isinstance(tensor, Tensor) else None)
    if chosen is None:
        raise TensorError("make_fragment_like of a layout needs a dtype", locs=(locate(),))
    return make_fragment(make_layout(layout.shape), chosen)


def recast_tensor(tensor: Tensor, dtype: DType) -> Tensor:
    """The same memory as elements of another dtype (widths may differ; the unit-stride mode scales)."""
    old, new = tensor.dtype.bits, dtype.bits
    offset = tensor.offset
    if new > old:
        factor = new // old
        if (isinstance(offset, int) and offset % factor) or (not isinstance(offset, int) and offset.divisor % factor):
            raise TensorError(f"{tensor.label} starts at element {offset}, which is no multiple of {factor}: it cannot "
                              f"be recast from {tensor.dtype} to {dtype}", locs=(locate(),))
        offset = offset // factor
    else:
        offset = offset * (old // new)
    if tensor.swizzle is None:
        return Tensor(tensor.buffer, offset, recast(tensor.layout, old, new), dtype, None, tensor.name)
    swizzled = recast(ComposedLayout(tensor.swizzle, 0, tensor.layout), old, new)
    return Tensor(tensor.buffer, offset, swizzled.layout, dtype, swizzled.swizzle, tensor.name)


# --- elementwise -----------------------------------------------------------------------------------------------------


def _need_registers(tensor: Tensor, what: str) -> None:
    if tensor.space is not Space.REGISTER:
        raise TensorError(f"{what} works on register tensors; {tensor.label} lives in {tensor.space.value}",
                          hint="copy it into a fragment first: f = mo.make_fragment_like(t); mo.copyto(f, t)",
                          locs=(locate(),))


def _static(space: IndexSpace, tensor: Tensor) -> tuple[int, ...]:
    if not all(isinstance(extent, int) for extent in space.extents):
        raise TensorError(f"{tensor.label} has a dynamic extent: {tensor.layout}", locs=(locate(),))
    return tuple(extent for extent in space.extents if isinstance(extent, int))


def emit_map(dst: Tensor, space: IndexSpace, sources: Sequence[Tensor], compute: Callable[..., Operand]) -> None:
    """One Map op: dst over the space's first strides, sources over the others; ``compute`` takes the element Exprs."""
    b = builder()
    inputs = tuple(Value(source.dtype) for source in sources)
    offset = 1
    if not sources:
        value = compute()  # a scalar of the surrounding code
        body = Block()
    else:
        with b.inside(Block()) as body:
            value = compute(*(Expr(x) for x in inputs))
    refs = tuple(s.tile_ref(space.strides[offset + i]) for i, s in enumerate(sources))
    b.emit(ops.Map(dst=dst.tile_ref(space.strides[0]), sources=refs, inputs=inputs, extents=_static(space, dst),
                   body=body, value=value))


def _broadcast_shape(tensors: Sequence[Tensor]) -> Layout:
    largest = max(tensors, key=lambda t: int(str(tensor_size(t))) if is_static(tensor_size(t)) else 0)
    return make_layout(largest.shape)


def elementwise(fn: Callable[..., Scalar], *operands: object, dtype: DType | None = None) -> Tensor:
    """A new register tensor with ``fn`` of the operands' elements; scalars and modes of size 1 are repeated."""
    tensors = [o for o in operands if isinstance(o, Tensor)]
    for operand in operands:
        if isinstance(operand, Tensor):
            _need_registers(operand, "arithmetic")
        elif not is_scalar(operand):
            return NotImplemented
    shape = _broadcast_shape(tensors)

    def compute(*elements: Expr) -> Scalar:
        supply = iter(elements)
        return fn(*(next(supply) if isinstance(o, Tensor) else o for o in operands))

    result_dtype = dtype or _result_dtype(compute, tensors)
    result = make_fragment(shape, result_dtype)
    space = merged(common_space([shape, *(t.layout for t in tensors)]))
    emit_map(result, space, tensors, lambda *xs: operand_of(compute(*xs), result_dtype))
    return result


def _result_dtype(compute: Callable[..., Scalar], tensors: Sequence[Tensor]) -> DType:
    with builder().inside(Block()):
        probe = compute(*(Expr(Value(t.dtype)) for t in tensors))
    return probe.dtype if isinstance(probe, Expr) else expr.default_dtype(probe)


def assign(target: Tensor, value: object) -> None:
    """``target[...] = value``: a scalar fills, a tensor is copied element by element (converted to target's dtype)."""
    if is_scalar(value):
        target.fill(value)  # type: ignore[arg-type]
        return
    if not isinstance(value, Tensor):
        raise TensorError(f"{target.label}[...] = {value!r}: a tensor or a scalar is needed", locs=(locate(),))
    if target.space is not Space.REGISTER or value.space is not Space.REGISTER:
        copy_plain(target, value)
        return
    space = merged(common_space([target.layout, value.layout]))
    emit_map(target, space, [value], lambda x: operand_of(x, target.dtype))


def copy_plain(dst: Tensor, src: Tensor, pred: Tensor | Scalar | None = None) -> None:
    """A synchronous element-by-element copy, as wide as layouts and alignment prove, converting where dtypes differ."""
    if dst.dtype == src.dtype:
        copying.emit_copy(AUTO_COPY, dst, src, pred)
    elif dst.space is Space.REGISTER and src.space is Space.REGISTER:
        assign(dst, src)
    elif src.space is Space.REGISTER:
        copying.emit_copy(AUTO_COPY, dst, src.to(dst.dtype), pred)
    else:
        staged = make_fragment_like(src)
        copying.emit_copy(AUTO_COPY, staged, src, pred)
        copy_plain(dst, staged, pred)
