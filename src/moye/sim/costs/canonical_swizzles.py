"""The swizzled layouts that TMA and wgmma take in place of a tile's own: 8 rows of 32, 64 or 128 bytes, repeated.

In: a layout of shared memory that is contiguous along its first mode or its second.  Out: layouts of the same shape,
contiguous along the same mode, widest rows first, each with the bytes of its rows.

>>> [row for row, _ in canonical(Layout.parse("(32,32):(32,1)"), 32)]
[128, 64, 32]

They are those of ``mo.smem_layout_atom`` (CuTe cute/atom/mma_traits_sm90_gmma.hpp).
"""

from __future__ import annotations

from collections.abc import Iterator

from moye.layout import ComposedLayout, Layout, Swizzle, rank, size, tile_to_shape
from moye.layout.tables import AnyLayout
from moye.layout.tuples import flatten_tuple

_ROWS, _ACCESS, _BITS = 8, 128, {128: 3, 64: 2, 32: 1}


def major(layout: AnyLayout) -> str | None:
    """The mode along which a tile is contiguous: "mn" for its first, "k" for its second, None for neither."""
    if isinstance(layout, ComposedLayout) or rank(layout) < 2:
        return None
    for number, name in ((1, "k"), (0, "mn")):
        if flatten_tuple(layout.mode(number).stride)[0] == 1 and size(layout, number) != 1:
            return name
    return None


def canonical(layout: AnyLayout, bits: int) -> Iterator[tuple[int, AnyLayout]]:
    """The layouts whose rows divide the tile, of elements of so many bits."""
    along = major(layout)
    if along is None:
        return
    shape = tuple(size(layout, mode) for mode in range(rank(layout)))
    for row, swizzled in _BITS.items():
        wide = row * 8 // bits
        block = (_ROWS, wide) if along == "k" else (wide, _ROWS)
        if not all(isinstance(extent, int) for extent in shape) or shape[0] % block[0] or shape[1] % block[1]:
            continue
        plain = Layout(block, (wide, 1) if along == "k" else (1, wide))
        together = _ACCESS // bits
        yield row, tile_to_shape(ComposedLayout(Swizzle(swizzled, together.bit_length() - 1, 3), 0, plain), shape)
