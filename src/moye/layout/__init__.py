"""Layout algebra: where things are.  Needs the standard library alone.

In: shapes and strides, or notation.  Out: layouts, and the verbs of CuTe's algebra over them.

>>> str(logical_divide(make_layout((8, 8)), (2, 4)))
'((2,4),(4,2)):((1,2),(8,32))'

Indices are 0-based; compact layouts are column-major; integers may be dynamic (``DynInt``).
"""

import importlib
from typing import Any

from moye.layout.algebra import (
    Tiler,
    coalesce,
    complement,
    composition,
    filter,
    filter_zeros,
    left_inverse,
    max_common_layout,
    max_common_vector,
    nullspace,
    right_inverse,
    with_shape,
)
from moye.layout.divide import flat_divide, logical_divide, tiled_divide, zipped_divide
from moye.layout.ints import DynInt, Int, divides, is_static, known_less, same
from moye.layout.layout import (
    Layout,
    col_major,
    cosize,
    crd2idx,
    depth,
    make_layout,
    make_ordered_layout,
    rank,
    row_major,
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
    select,
    take,
    unflatten,
    weakly_congruent,
    zip_modes,
)
from moye.layout.predicates import is_bijective, is_compact, is_injective, is_surjective
from moye.layout.product import (
    blocked_product,
    flat_product,
    logical_product,
    raked_product,
    tile_to_shape,
    tiled_product,
    zipped_product,
)
from moye.layout.swizzle import ComposedLayout, Swizzle, downcast, recast, swizzle, upcast
from moye.layout.tables import offsets
from moye.layout.tuples import Coord, IntTuple, ceil_div, idx2crd, product, product_each, shape_div

__all__ = [
    "ComposedLayout", "Coord", "DynInt", "Int", "IntTuple", "Layout", "Swizzle", "Tiler",
    "append", "blocked_product", "ceil_div", "coalesce", "col_major", "compatible",
    "complement", "composition", "congruent", "cosize", "crd2idx", "depth", "divides", "downcast", "filter",
    "filter_zeros", "flat_divide", "flat_product", "flatten", "group_modes", "idx2crd", "is_bijective", "is_compact",
    "is_injective", "is_static", "is_surjective", "known_less", "left_inverse", "logical_divide", "logical_product",
    "make_layout", "make_ordered_layout", "max_common_layout", "max_common_vector", "nullspace", "offsets", "prepend",
    "product", "product_each", "raked_product", "rank", "recast", "right_inverse", "row_major", "same", "select",
    "shape", "shape_div", "size", "slice_and_offset", "stride", "swizzle", "take", "tile_to_shape", "tiled_divide",
    "tiled_product", "unflatten", "upcast", "weakly_congruent", "with_shape", "zip_modes", "zipped_divide",
    "zipped_product",
]


def __getattr__(name: str) -> Any:
    """``moye.layout.analysis`` on first use: kernels do not need it."""
    if name == "analysis":
        return importlib.import_module("moye.layout.analysis")
    raise AttributeError(f"module 'moye.layout' has no attribute {name!r}")
