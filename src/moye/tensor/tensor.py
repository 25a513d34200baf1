"""Tensors of a kernel: a pointer (buffer and element offset) with a layout.

In: arguments, ``shared_array``, fragments.  Out: views by slicing, loads and stores by full coordinates, elementwise
arithmetic on register tensors.

    tAsA[:, :, :, stage]          # a view: the offset moves into the pointer
    tCrC[0, 1, 2]                 # a load
    acc[...] = acc * 2            # in place on registers

Copies and products of whole tensors are in ``algorithms.py``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, overload

from moye.atoms.atom import CopyOp
from moye.atoms.universal import AUTO_COPY
from moye.dtypes import DType, Space, as_dtype, int32, uint32, uint128
from moye.errors import DTypeError, LayoutError, TensorError
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Literal, Operand, Ref, TileRef, Value
from moye.layout import (
    ComposedLayout,
    Int,
    IntTuple,
    Layout,
    Swizzle,
    WrappedLayout,
    cosize,
    crd2idx,
    make_layout,
    rank,
    recast,
    size,
    slice_and_offset,
)
from moye.layout.ints import is_const
from moye.tensor import copying, expr, folds
from moye.tensor.accesses import judge_element
from moye.tensor.bounds import check_coordinate, need_bytes
from moye.tensor.context import MAKE_STATIC, at_once, builder, joins, locate
from moye.tensor.expr import Expr, Scalar, is_scalar, operand_of
from moye.tensor.joined import Place
from moye.tensor.operators import Elementwise
from moye.tensor.overlaps import overlap
from moye.tensor.slices import cut, is_slice, normalise, shown, wide
from moye.tensor.space import IndexSpace, broadcast, common_space, merged, static_size
from moye.tensor.tile_extents import require_allocated, require_index, require_inside, require_tiles
from moye.tensor.value_order import Order, Partition
from moye.tensor.view import Origin, Pending, Step, placed, recast_origin

AUTO = "_"  # first letter of names that moye gives, until the user's variable names the thing


class Tensor(Elementwise, WrappedLayout):
    """A view of memory in a kernel: ``dtype`` elements of ``buffer`` at ``offset + layout(coordinate)``.

    ``offset`` counts elements of ``dtype`` and is static for register tensors.  ``swizzle`` (in elements) is applied to
    the whole offset.  ``name`` is the user's variable.  ``order`` says which elements of a tile a thread's values are,
    and ``origin`` where a view's elements lie in the tensor that it was made from.  Layout functions take tensors and
    give views.
    """

    __slots__ = ("buffer", "dtype", "layout", "name", "offset", "order", "origin", "swizzle")

    def __init__(self, buffer: Buffer, offset: Int, layout: Layout, dtype: DType, swizzle: Swizzle | None = None,
                 name: str = "", order: Order | None = None, origin: Origin | None = None) -> None:
        self.buffer = buffer
        self.offset = offset
        self.layout = layout
        self.dtype = dtype
        self.swizzle = swizzle
        self.name = name
        self.order = order
        self.origin = origin

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
        if self.name or not self.buffer.name.startswith(AUTO):
            return self.name or self.buffer.name
        return "a register tensor" if self.space is Space.REGISTER else f"a {self.space.name.lower()} tensor"

    @property
    def alignment(self) -> int:
        """A number of bytes that the address of element 0 is known to be a multiple of."""
        if self.space is Space.REGISTER:
            return 16
        bits = _divisor(self.offset) * self.dtype.bits
        return math.gcd(self.buffer.align, bits // 8) if bits >= 8 else 1

    def __repr__(self) -> str:
        return f"{self.label}: {self.space.value} {self.dtype} {self.layout}"

    def __array_function__(self, function: Any, *_: object) -> NoReturn: expr.no_numpy(function)

    def __array__(self, *_: object, **__: object) -> NoReturn: expr.no_numpy(None)

    def __copy__(self) -> Tensor:
        if self.space is Space.REGISTER:                # two names of one register tensor are no copy
            raise TensorError(f"copy.copy({self.label}): it copies no registers", locs=(locate(),),
                              hint="y = mo.make_fragment_like(x); mo.copyto(y, x)")
        return self

    def __deepcopy__(self, memo: object) -> Tensor:
        return self.__copy__()

    def __len__(self) -> int:
        raise TensorError(f"len({self.label}): use mo.size(x, mode) or mo.rank(x)", locs=(locate(),))

    def __iter__(self) -> None:
        fold = 'x.reduce("sum") adds' if self.space is Space.REGISTER else "mo.block_reduce adds over threads"
        raise TensorError(f"{self.label} cannot be iterated over; loop over coordinates", locs=(locate(),),
                          hint=f"for i in range(mo.size(x, 0)), of registers mo.static_range, with x[i] inside; {fold}")

    # --- views ---

    def derived(self, step: Step, pending: tuple[Pending, ...] = (), order: Order | None = None,
                origin: Origin | None = None) -> Tensor:
        """A view: ``step`` maps the layout to the view's layout and an offset to add, and the coordinates likewise."""
        layout, moved = step(self.layout)
        if self.space is not Space.REGISTER:
            origin = (origin or self.origin or Origin.of(self)).then(step, pending)
        return Tensor(self.buffer, self.offset + moved, layout, self.dtype, self.swizzle, self.name, order, origin)

    def applied(self, plain: Callable[[Layout], Layout]) -> Tensor:
        self.unordered()
        return self.derived(lambda layout: (plain(layout), 0))

    def view(self, coordinate: object, order: Order | None = None) -> Tensor:
        """The view of a slicing coordinate; its closed entries are checked."""
        if isinstance(coordinate, DType):
            raise TensorError(f"{self.label}: a view is of a coordinate, not of {coordinate}", locs=(locate(),),
                              hint=f"mo.recast(x, mo.{coordinate}) shows the same bits as another dtype")
        pending = check_coordinate(self, coordinate)
        try:
            return self.derived(lambda layout: slice_and_offset(wide(coordinate), layout), pending, order)
        except LayoutError as error:
            raise TensorError(f"{self.label}[{shown(coordinate)}]: {error.message}", locs=(locate(),)) from None

    def normalised(self, coordinate: object) -> object:
        """A coordinate in one form; an array without modes has one element, at ()."""
        if isinstance(coordinate, tuple) and not coordinate and is_const(self.layout.shape, 1):
            return 0
        return normalise(coordinate, rank(self.layout))

    def __getitem__(self, coordinate: object) -> Any:
        """A view where the coordinate has a slice or None, else the element: a type checker cannot know which."""
        step, coordinate = cut(coordinate, self.layout, self.label)
        if step is not None:
            self.unordered()
            return self.derived(step)[coordinate]
        coordinate = self.normalised(coordinate)
        if is_slice(coordinate):
            whole = isinstance(coordinate, tuple) and coordinate[0] is None
            part = self.view(coordinate, self.order if whole else None)
            if self.space is Space.REGISTER:
                _static_offset(self, part.offset)
            if not whole:
                self.unordered()
            return part
        value = Value(self.dtype, name="")
        builder().emit(ops.Load(result=value, ref=self.ref(coordinate)))
        return Expr(value)

    def __setitem__(self, coordinate: object, value: object) -> None:
        step, coordinate = cut(coordinate, self.layout, self.label)
        if step is not None:
            self.unordered()
            self.derived(step)[coordinate] = value
            return
        coordinate = self.normalised(coordinate)
        if is_slice(coordinate):
            target = self[coordinate]
            assert isinstance(target, Tensor), "a sliced tensor is a tensor"
            assign(target, value)
            return
        if not is_scalar(value):
            raise TensorError(f"{self.label}[{shown(coordinate)}] is one element; it cannot hold {value!r}",
                              hint="elements of an identity tensor and of tma.tensor are coordinates, not the array's"
                              if isinstance(value, tuple) else None, locs=(locate(),))
        number: Any = value
        if self.dtype is uint128 and getattr(number, "dtype", None) is not uint128:
            raise TensorError(f"{self.label}[{shown(coordinate)}] is a uint128, which is only moved: "
                              "it holds no number",
                              hint="write through a view of narrower elements: mo.recast(x, mo.uint32)",
                              locs=(locate(),))
        self.unordered()
        builder().emit(ops.Store(ref=self.ref(coordinate, write=True), value=operand_of(number, self.dtype)))

    def ref(self, coordinate: object, *, write: bool = False) -> Ref:
        """The element at a full coordinate, which is about to be accessed."""
        need_bytes(self)
        own = check_coordinate(self, coordinate)
        try:
            offset = self.offset + crd2idx(wide(coordinate), self.layout)
        except LayoutError as error:
            raise TensorError(f"{self.label}[{shown(coordinate)}]: {error.message}", locs=(locate(),)) from None
        judge_element(self, coordinate, own, write)
        if self.space is Space.REGISTER:
            _static_offset(self, offset)
        return Ref(self.buffer, index_operand(offset), self.dtype, self.swizzle)

    def tile_ref(self, strides: Sequence[Int]) -> TileRef:
        """This tensor as the operand of a tile op whose index space has these strides."""
        return TileRef(self.buffer, index_operand(self.offset), self.dtype,
                       tuple(s if isinstance(s, int) else _value(s) for s in strides), self.swizzle, self.layout,
                       self.name or self.buffer.name)

    # --- layout verbs ---

    def with_layout(self, layout: Layout | ComposedLayout) -> Tensor:
        """The same memory under another layout, whose shape then bounds the coordinates of the view."""
        offset, inner, swizzle = placed(self, layout)
        require_allocated(self, offset, inner, swizzle)
        self.unordered()
        return Tensor(self.buffer, offset, inner, self.dtype, swizzle, self.name)

    def moved(self, offset: Int) -> Tensor:
        """The same layout from an element ``offset`` further on."""
        self.unordered()
        return Tensor(self.buffer, self.offset + offset, self.layout, self.dtype, self.swizzle, self.name)

    def shifted(self, coordinate: Any) -> Tensor:
        self.unordered()                                # the last elements of the shape lie beyond the tensor
        origin = (self.origin or Origin.of(self)).beyond(self, tuple(range(rank(self.layout))))
        return self.derived(lambda layout: (layout, layout(wide(coordinate))), origin=origin)

    def contiguous_run(self) -> int:
        return 0 if self.swizzle is None else math.gcd(1 << self.swizzle.base, _divisor(self.offset))

    def require_tiles(self, tiler: Any, asked: str) -> None:
        """A division must not round up, or the last tiles would leave the tensor; the launch checks dynamic extents."""
        require_tiles(self.label, self.layout, tiler, asked)

    def require_inside(self, other: Any, asked: str) -> None:
        """A composition must stay inside the tensor; the launch checks dynamic extents."""
        require_inside(self.label, self.layout, other)

    # --- registers ---

    def unordered(self) -> None:
        """Forget the order of the values: registers may be written through a view, or element by element."""
        if self.order is not None and self.space is Space.REGISTER:
            self.order.put(None)

    def fill(self, value: Scalar) -> None:
        """Set every element to one scalar."""
        if not is_scalar(value):
            raise TensorError(f"{self.label}.fill({value!r}): a scalar is needed", locs=(locate(),))
        if self.space is not Space.REGISTER:
            one = make_fragment(make_layout(1), self.dtype)
            one.fill(value)
            copying.emit_copy(AUTO_COPY, self, one.with_layout(Layout(self.layout.shape, _zeros(self.layout.shape))))
            return
        if self.order is not None:
            b = builder()
            self.order.fill(conditional=b.conditions > 0 or size(self.layout) != self.buffer.elements)
        space = merged(common_space([self.layout]))
        emit_map(self, space, [], lambda: operand_of(value, self.dtype))

    @overload
    def reduce(self, kind: str, mode: None = None, init: Scalar | None = None) -> Scalar: ...
    @overload
    def reduce(self, kind: str, mode: int | tuple[int, ...], init: Scalar | None = None) -> Any: ...
    def reduce(self, kind: str, mode: int | tuple[int, ...] | None = None, init: Scalar | None = None) -> Any:
        """Fold elements of a register tensor: "add" (or "sum"), "mul" ("prod"), "min", "max", "and", "or", "xor".

        Without ``mode`` all of them, to a scalar.  With a mode, or a tuple of modes, those are folded, and the others
        stay: the result is a register tensor of their shapes, compact.  ``init`` is folded with each result.  Sums and
        products of bools and of integers below 32 bits are int32, of unsigned ones uint32.

        The order is fixed, and the simulator has the same.  The elements, in column-major order, are folded in chains:
        1 below four elements, 2 below eight, else 4.  Chain i of c takes the elements i, i + c, i + 2c, ...  Then
        chain 0 is folded with chain 1, 2 with 3, and what these give with each other.
        """
        kind = folds.fold_kind(f"{self.label}.reduce", kind, self.dtype)
        _need_registers(self, "reduce")
        need_bytes(self)
        if (wide_enough := folds.fold_dtype(kind, self.dtype)) is not self.dtype:
            return self.to(wide_enough).reduce(kind, mode, init)

        def folded(part: Tensor) -> Scalar:
            value, space = Value(self.dtype), merged(common_space([part.layout]))
            points = _static(space, self)
            if 0 in points:
                raise TensorError(f"{self.label}.reduce: there are no elements to fold", locs=(locate(),))
            builder().emit(ops.Reduce(result=value, kind=kind, src=part.tile_ref(space.strides[0]), extents=points,
                                      chains=folds.chains(math.prod(points))))
            return Expr(value) if init is None else folds.fold(kind, Expr(value), init)

        return self._by_mode(mode, folded)

    def argmax(self, mode: int | tuple[int, ...] | None = None) -> Any:
        """The largest element of a register tensor and its coordinate: (value, index), or two tensors by mode.

        The index (int32) counts the elements that were folded from 0, in column-major order: the coordinate of one
        number that any shape takes.  The first of equal elements counts.  NaN is never the largest; if all are, the
        value is NaN and the index 0.  ``mode`` is as in ``reduce``.
        """
        return self._arg("max", mode)

    def argmin(self, mode: int | tuple[int, ...] | None = None) -> Any:
        """The least element of a register tensor and its coordinate, as ``argmax``."""
        return self._arg("min", mode)

    def _arg(self, kind: str, mode: int | tuple[int, ...] | None) -> Any:
        values: Any = self.reduce(kind, mode)
        wanted = iter([values] if isinstance(values, Expr) else [values[c] for c in _coordinates(values.layout)])

        def found(part: Tensor) -> Scalar:
            space = merged(common_space([part.layout]))
            points = _static(space, self)
            index = Value(int32, lower=0, upper=math.prod(points) - 1)
            builder().emit(ops.Find(result=index, value=operand_of(next(wanted), self.dtype),
                                    src=part.tile_ref(space.strides[0]), extents=points))
            return Expr(index)

        return values, self._by_mode(mode, found)

    def _by_mode(self, mode: int | tuple[int, ...] | None, folded: Callable[[Tensor], Scalar]) -> Any:
        """``folded`` of the part of each element of the modes that stay, as a tensor of them; or of everything."""
        count = rank(self.layout)
        modes = tuple(range(count)) if mode is None else tuple(map(expr.plain, mode)) if isinstance(mode, tuple) \
            else (expr.plain(mode),)
        if not all(isinstance(m, int) and 0 <= m < count for m in modes) or len(set(modes)) < len(modes) or not modes:
            raise TensorError(f"{self.label}.reduce over mode {mode!r}: {self.layout} has modes 0 to {count - 1}",
                              locs=(locate(),))
        stay = [m for m in range(count) if m not in modes]
        if not stay:
            return folded(self)
        kept = make_layout(*(self.layout.mode(m) for m in stay))
        gone = make_layout(*(self.layout.mode(m) for m in sorted(modes)))
        scalars = [folded(Tensor(self.buffer, self.offset + crd2idx(c, kept), gone, self.dtype, name=self.name))
                   for c in _coordinates(kept)]
        first = scalars[0]
        result = make_fragment(make_layout(kept.shape), first.dtype if isinstance(first, Expr) else self.dtype)
        for c, scalar in zip(_coordinates(kept), scalars, strict=True):
            result[c] = scalar
        return result

    def to(self, dtype: DType) -> Tensor:
        """A new register tensor with every element converted."""
        dtype = as_dtype(f"{self.label}.to", dtype)
        return elementwise(lambda x: x.to(dtype), self, dtype=dtype)

    def _elementwise(self, fn: Callable[..., Scalar], *operands: object) -> Tensor:
        if not all(isinstance(operand, Tensor) or is_scalar(operand) for operand in operands):
            return NotImplemented  # type: ignore[no-any-return]
        return elementwise(fn, *operands)

    def _assign(self, value: object) -> None:
        assign(self, value)


def _coordinates(layout: Layout) -> list[Any]:
    """Every coordinate of a static layout of modes, column-major; one number for each mode."""
    sizes = [static_size(layout.mode(m)) for m in range(rank(layout))]
    return [c[::-1] for c in itertools.product(*(range(n) for n in reversed(sizes)))]


def _divisor(x: Int) -> int:
    if isinstance(x, int):
        return x if x > 0 else (-x or 1 << 40)
    return x.divisor


def _zeros(shape: IntTuple) -> IntTuple:
    return tuple(_zeros(s) for s in shape) if isinstance(shape, tuple) else 0


def index_operand(x: Int) -> Operand:
    """An offset as an operand of the kernel's index width."""
    index = builder().index
    return Literal(int(x), index) if isinstance(x, int) else operand_of(x, index)  # type: ignore[arg-type]


def _value(x: Int) -> Value:
    operand = index_operand(x)
    assert isinstance(operand, Value), "a dynamic stride is a Value"
    return operand


def _static_offset(tensor: Tensor, offset: Int) -> None:
    if not isinstance(offset, int):
        raise TensorError(f"{tensor.label} lives in registers, which have no addresses: it cannot be indexed with "
                          f"{offset}, which is not static",
                          hint="loop with mo.static_range, or keep the tensor in shared memory", locs=(locate(),))


# --- making ----------------------------------------------------------------------------------------------------------


def _auto_name(stem: str) -> str:
    return f"{AUTO}{stem}{len(builder().func.buffers)}"


def shared_array(dtype: DType, layout: Layout | ComposedLayout | IntTuple, *, align: int | None = None) -> Tensor:
    """A tensor in the block's shared memory, of static layout; its contents are undefined.

    ``align`` is the alignment of its first byte (a power of two; default 16, or the span of its swizzle).
    """
    if isinstance(layout, DType):
        raise DTypeError(f"shared_array({dtype}, {layout}): the dtype comes first",
                         hint=f"mo.shared_array(mo.{layout}, {dtype})", locs=(locate(),))
    dtype = as_dtype("shared_array", dtype)
    if dtype.bits < 8:
        raise DTypeError(f"shared_array of {dtype}: elements narrower than a byte live in registers",
                         hint=f"make it of mo.uint32, and take mo.recast(x, mo.{dtype})", locs=(locate(),))
    if not isinstance(layout, (Layout, ComposedLayout)):
        layout = make_layout(layout)
    swizzle = layout.swizzle if isinstance(layout, ComposedLayout) else None
    inner = layout.layout if isinstance(layout, ComposedLayout) else layout
    elements = cosize(layout)                           # a swizzle may reach beyond the last offset
    if not isinstance(elements, int):
        raise TensorError(f"shared_array: the layout {layout} is not static", hint=MAKE_STATIC, locs=(locate(),))
    if elements < 1:
        raise TensorError(f"shared_array: the layout {layout} has no elements", locs=(locate(),))
    if align is None:
        align = 16 if swizzle is None else max(16, swizzle.span * dtype.bits // 8)
    known = joins()
    place = None if known is None else known.place(elements, dtype, align)
    if place is not None:
        return _stage(place, layout, inner, dtype, align, swizzle)
    buffer = Buffer(_auto_name("smem"), Space.SHARED, dtype, elements, layout, align=align, loc=locate())
    builder().allocate(buffer)
    if known is not None:
        known.own(buffer)
    return Tensor(buffer, 0, inner, dtype, swizzle)


def _stage(place: Place, layout: Layout | ComposedLayout, inner: Layout, dtype: DType, align: int,
           swizzle: Swizzle | None) -> Tensor:
    """A shared array that is a stage of another one (``joined.py``)."""
    buffer, whole = place.buffer, place.whole(inner)
    if buffer is None:
        of = whole if swizzle is None else ComposedLayout(swizzle, 0, whole)
        elements = cosize(of)
        assert isinstance(elements, int), "the layouts of shared arrays are static"
        buffer = Buffer(place.name, Space.SHARED, dtype, elements, of, align=align, loc=locate())
        builder().allocate(buffer)
        place.made(buffer)
    return Tensor(buffer, place.offset, inner, dtype, swizzle)


def make_fragment(layout: Layout, dtype: DType) -> Tensor:
    """A register tensor of static layout; its contents are undefined."""
    dtype = as_dtype("a register tensor", dtype)
    elements = cosize(layout)
    if not isinstance(elements, int):
        raise TensorError(f"a register tensor needs a static layout, not {layout}", hint=MAKE_STATIC,
                          locs=(locate(),))
    buffer = Buffer(_auto_name("frag"), Space.REGISTER, dtype, elements, layout, align=16, loc=locate())
    builder().allocate(buffer)
    return Tensor(buffer, 0, layout, dtype, order=Order())


@at_once
def make_fragment_like(tensor: Tensor | Layout, dtype: DType | None = None) -> Tensor:
    """A register tensor of the same shape, compact and column-major over the modes."""
    layout = tensor.layout if isinstance(tensor, Tensor) else tensor
    own = tensor.dtype if isinstance(tensor, Tensor) else None
    chosen = as_dtype("make_fragment_like", dtype) if dtype is not None else own
    if chosen is None or not hasattr(layout, "shape"):
        raise TensorError("make_fragment_like takes a tensor, or a layout and a dtype", locs=(locate(),))
    return make_fragment(make_layout(layout.shape), chosen)


@at_once
def recast_tensor(tensor: Tensor, dtype: DType) -> Tensor:
    """The same memory as elements of another dtype (widths may differ; the unit-stride mode scales)."""
    dtype = as_dtype("recast", dtype)
    old, new = tensor.dtype.bits, dtype.bits
    offset = tensor.offset
    require_index(tensor, dtype)
    tensor.unordered()
    if new > old:
        factor = new // old
        if (isinstance(offset, int) and offset % factor) or (not isinstance(offset, int) and offset.divisor % factor):
            raise TensorError(f"{tensor.label} starts at element {offset}, which is no multiple of {factor}: it cannot "
                              f"be recast from {tensor.dtype} to {dtype}", locs=(locate(),))
        offset = offset // factor
    else:
        offset = offset * (old // new)
    layout, swizzle = tensor.layout, tensor.swizzle
    if swizzle is None:
        layout = recast(layout, old, new)
    else:
        swizzled = recast(ComposedLayout(swizzle, 0, layout), old, new)
        layout, swizzle = swizzled.layout, swizzled.swizzle
    origin = recast_origin(tensor.origin, tensor.layout, layout, new // old if new >= old else -(old // new))
    return Tensor(tensor.buffer, offset, layout, dtype, swizzle, tensor.name, origin=origin)


# --- elementwise -----------------------------------------------------------------------------------------------------


def _need_registers(tensor: Tensor, what: str) -> None:
    if tensor.space is not Space.REGISTER:
        raise TensorError(f"{what} works on register tensors; {tensor.label} lives in {tensor.space.value}",
                          hint="t[i] is one element; for all of them a fragment: f = mo.make_fragment_like(t); "
                               "mo.copyto(f, t)", locs=(locate(),))


def _static(space: IndexSpace, tensor: Tensor) -> tuple[int, ...]:
    if not all(isinstance(extent, int) for extent in space.extents):
        raise TensorError(f"{tensor.label} has a dynamic extent: {tensor.layout}", locs=(locate(),))
    return tuple(extent for extent in space.extents if isinstance(extent, int))


def emit_map(dst: Tensor, space: IndexSpace, sources: Sequence[Tensor], compute: Callable[..., Operand]) -> None:
    """Emit one Map op: dst over the space's first strides, sources over the others; ``compute`` takes element Exprs."""
    need_bytes(dst, *sources)
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


@partial(at_once, registers=True)
def elementwise(fn: Callable[..., Scalar], *operands: object, dtype: DType | None = None) -> Tensor:
    """A new register tensor with ``fn`` of the operands' elements; scalars and modes of size 1 are repeated."""
    tensors = [o for o in operands if isinstance(o, Tensor)]
    for operand in operands:
        if isinstance(operand, Tensor):
            _need_registers(operand, "arithmetic")
        elif not is_scalar(operand):
            raise TensorError(f"{operand!r} is no tensor and no scalar, so it has no elements to compute with",
                              locs=(locate(),))

    def compute(*elements: Expr) -> Scalar:
        supply = iter(elements)
        return fn(*(next(supply) if isinstance(o, Tensor) else o for o in operands))

    result_dtype = dtype or _result_dtype(compute, tensors)
    layouts = broadcast([t.layout for t in tensors])
    result = make_fragment(make_layout(layouts[0].shape), result_dtype)
    emit_map(result, _common(layouts, tensors), tensors, lambda *xs: operand_of(compute(*xs), result_dtype))
    assert result.order is not None, "a new fragment has an order"
    for partition in {known_order(t) for t in tensors if size(t.layout) == size(result.layout)}:
        result.order.put(partition)
    return result


def known_order(tensor: Tensor) -> Partition | None:
    """The partition that the values of a tensor follow, if it is known."""
    return None if tensor.order is None else tensor.order.known


def _common(layouts: Sequence[Layout], tensors: Sequence[Tensor]) -> IndexSpace:
    """The common index space of layouts that belong to tensors (for the message)."""
    try:
        return merged(common_space(layouts))
    except LayoutError as error:
        names = " and ".join(f"{t.label} {t.layout}" for t in tensors)
        why, hint = _first_mode_apart(tensors) or (error.message, None)
        raise TensorError(f"{names} do not fit together: {why}", hint=hint, locs=(locate(),)) from None


def _first_mode_apart(tensors: Sequence[Tensor]) -> tuple[str, str | None] | None:
    """Which mode has several extents, none of them 1, and what to do if NumPy would take them; None if none has."""
    ranks = [rank(t.layout) for t in tensors]
    for mode in range(max(ranks)):
        found = list(dict.fromkeys(n for t, r in zip(tensors, ranks, strict=True)
                                   if mode < r and not is_const(n := size(t.layout, mode), 1)))
        if len(found) > 1:
            hint = "modes meet from the first on, unlike NumPy's: x.with_layout(mo.make_layout((1, 4))) has one more"
            return f"mode {mode} has {found[0]} and {found[1]} elements", hint if len(set(ranks)) > 1 else None
    return None


def _result_dtype(compute: Callable[..., Scalar], tensors: Sequence[Tensor]) -> DType:
    with builder().inside(Block()):
        probe = compute(*(Expr(Value(t.dtype)) for t in tensors))
    return probe.dtype if isinstance(probe, Expr) else expr.default_dtype(probe)


@at_once
def assign(target: Tensor, value: object) -> None:
    """``target[...] = value``: a scalar fills, a tensor is copied element by element, converted to target's dtype."""
    if is_scalar(value):
        target.fill(value)  # type: ignore[arg-type]
        return
    if not isinstance(value, Tensor):
        several = isinstance(value, (list, tuple)) or hasattr(value, "__array_interface__")
        raise TensorError(f"{target.label}[...] = {value!r}: a tensor or a scalar is needed", locs=(locate(),),
                          hint="assign elements one by one, or pass the numbers as an array" if several else None)
    if target.space is not Space.REGISTER or value.space is not Space.REGISTER:
        copy_plain(target, value)
        return
    if value.buffer is target.buffer:
        if value.offset == target.offset and value.layout == target.layout and value.dtype == target.dtype:
            return
        value = elementwise(lambda x: x, value)  # read everything before anything is written
    if target.order is not None:
        target.order.put(known_order(value))
    layouts = broadcast([target.layout, value.layout])
    if static_size(layouts[0]) != static_size(target.layout):
        raise TensorError(f"{target.label} {target.layout} cannot take {value.label} {value.layout}, which is "
                          "larger", locs=(locate(),))
    space = _common(layouts[1:], [target, value])
    emit_map(target, space, [value], lambda x: operand_of(x, target.dtype))


def copy_plain(dst: Tensor, src: Tensor, pred: Tensor | Scalar | None = None, *, zero_fill: bool = False,
               other: Scalar | None = None, op: CopyOp = AUTO_COPY) -> None:
    """Copy synchronously, as wide as layouts and alignment prove; convert if dtypes differ.

    All that is read is read before anything is written, where the two may be the same memory.
    """
    if dst.dtype.bits < 8 and dst.dtype == src.dtype:
        dst, src = recast_tensor(dst, uint32), recast_tensor(src, uint32)
    filling = None if other is None else operand_of(other, src.dtype)
    if pred is None and dst.space is Space.REGISTER and src.space is Space.REGISTER and op is AUTO_COPY:
        assign(dst, src)
    elif dst.dtype == src.dtype and not overlap(dst, src):
        copying.emit_copy(op, dst, src, pred, zero_fill=zero_fill, other=filling)
    elif src.space is Space.REGISTER:
        converted = None if other is None else operand_of(other, dst.dtype)
        read = src.to(dst.dtype) if dst.dtype != src.dtype else elementwise(lambda x: x, src)
        copying.emit_copy(op, dst, read, pred, zero_fill=zero_fill, other=converted)
    else:
        staged = make_fragment_like(src.layout if isinstance(size(src.layout), int) else dst.layout, src.dtype)
        loads, stores = copying.hinted_ends(op, dst, src)
        copying.emit_copy(loads, staged, src, pred, zero_fill=zero_fill, other=filling)
        copy_plain(dst, staged, None if zero_fill else pred, op=stores)
