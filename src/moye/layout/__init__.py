"""Layout algebra: where things are.  It needs only the standard library.

In: shapes and strides, or notation.  Out: layouts, and the functions of CuTe's algebra over them.

>>> str(logical_divide(make_layout((8, 8)), (2, 4)))
'((2,4),(4,2)):((1,2),(8,32))'

Indices are 0-based.  Compact layouts are column-major.  Integers may be dynamic (``DynInt``).
"""

import importlib
from typing import TYPE_CHECKING, Any

from moye.layout.algebra import (
    Tiler,
    coalesce,
    complement,
    composition,
    filter,
    filter_zeros,
    with_shape,
)
from moye.layout.arithmetic import (
    ceil_div,
    colex_leq,
    colex_less,
    elem_geq,
    elem_gtr,
    elem_leq,
    elem_less,
    elem_scale,
    evenly_divides,
    inner_product,
    lex_leq,
    lex_less,
    prefix_product,
    product_like,
    round_up,
    shape_div,
)
from moye.layout.basis import (
    ArithmeticTuple,
    E,
    ScaledBasis,
    as_arithmetic_tuple,
    basis_get,
    basis_value,
    make_basis_like,
)
from moye.layout.coords import (
    crd2crd,
    crd2idx,
    dice,
    domain_offset,
    has_none,
    idx2crd,
    increment,
    make_coord_iterator,
    slice_,
)
from moye.layout.divide import (
    domain_distribute,
    flat_divide,
    logical_divide,
    tile_unzip,
    tiled_divide,
    zipped_divide,
)
from moye.layout.face import face_all
from moye.layout.generators import make_identity_layout, make_layout_like, make_ordered_layout
from moye.layout.ints import DynInt, Int, divides, known_less, same
from moye.layout.inverse import left_inverse, max_common_layout, max_common_vector, nullspace, right_inverse
from moye.layout.layout import (
    Layout,
    coprofile,
    coshape,
    cosize,
    depth,
    make_layout,
    rank,
    shape,
    size,
    slice_and_offset,
    stride,
)
from moye.layout.modes import (
    append,
    compatible,
    congruent,
    flatten,
    group_modes,
    prepend,
    replace,
    select,
    take,
    transform_layout,
    unflatten,
    weakly_congruent,
    zip_modes,
)
from moye.layout.predicates import is_bijective, is_compact, is_injective, is_static, is_surjective
from moye.layout.product import (
    blocked_product,
    flat_product,
    logical_product,
    raked_product,
    tile_to_shape,
    tiled_product,
    zipped_product,
)
from moye.layout.recast import downcast, max_alignment, recast, upcast
from moye.layout.swizzle import ComposedLayout, Swizzle, make_swizzle, parse, swizzle
from moye.layout.tables import offsets
from moye.layout.tuples import (
    Coord,
    IntTuple,
    LayoutLeft,
    LayoutRight,
    compact_col_major,
    compact_order,
    compact_row_major,
    product,
    product_each,
)
from moye.layout.wrapped import WrappedLayout

__all__ = [
    "ArithmeticTuple", "ComposedLayout", "Coord", "DynInt", "E", "Int", "IntTuple", "Layout", "LayoutLeft",
    "LayoutRight", "ScaledBasis", "Swizzle", "Tiler", "WrappedLayout",
    "append", "as_arithmetic_tuple", "basis_get", "basis_value", "blocked_product",
    "ceil_div", "coalesce", "colex_leq", "colex_less", "compact_col_major", "compact_order", "compact_row_major",
    "compatible", "complement", "composition", "congruent", "coprofile", "coshape", "cosize", "crd2crd", "crd2idx",
    "depth", "dice", "divides", "domain_distribute", "domain_offset", "downcast", "elem_geq", "elem_gtr", "elem_leq",
    "elem_less", "elem_scale", "evenly_divides", "filter", "filter_zeros", "flat_divide", "flat_product", "flatten",
    "group_modes", "has_none", "idx2crd", "increment", "inner_product", "is_bijective", "is_compact", "is_injective",
    "is_static", "is_surjective", "known_less", "left_inverse", "lex_leq", "lex_less", "logical_divide",
    "logical_product", "make_basis_like", "make_coord_iterator", "make_identity_layout", "make_layout",
    "make_layout_like", "make_ordered_layout", "make_swizzle", "max_alignment", "max_common_layout",
    "max_common_vector", "nullspace", "offsets", "parse", "prefix_product", "prepend", "product", "product_each",
    "product_like", "raked_product", "rank", "recast", "replace", "right_inverse", "round_up", "same", "select",
    "shape", "shape_div", "size", "slice_", "slice_and_offset", "stride", "swizzle", "take", "tile_to_shape",
    "tile_unzip", "tiled_divide", "tiled_product", "transform_layout", "unflatten", "upcast", "weakly_congruent",
    "with_shape", "zip_modes", "zipped_divide", "zipped_product",
]

face_all(__all__, globals())


if not TYPE_CHECKING:                                   # to a type checker every name would be there
    def __getattr__(name: str) -> Any:
        """``moye.layout.analysis`` on first use: kernels do not need it."""
        if name == "analysis":
            return importlib.import_module("moye.layout.analysis")
        raise AttributeError(f"module 'moye.layout' has no attribute {name!r}")
