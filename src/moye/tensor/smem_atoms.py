"""Swizzled layouts for tiles in shared memory: matrix loads and 16-byte accesses read them without bank conflicts.

In: a dtype, the mode along which the tile is contiguous, the bytes of a row.  Out: an atom of 8 rows, to be repeated.

>>> atom = smem_layout_atom(float16, "k")                       # Sw<3,3,3> o 0 o (8,64):(64,1)
>>> sA_layout = tile_to_shape(atom, (128, 64, 3))               # (bM, bK, stages)

The user chooses the atom: wider rows have fewer and longer runs, but the atom must divide the tile.  Source: CuTe
cute/arch/mma_sm90_gmma.hpp and cute/atom/mma_traits_sm90_gmma.hpp, Layout_K_SW128_Atom and others.
"""

from __future__ import annotations

from moye.dtypes import DType, require_dtype
from moye.errors import LayoutError
from moye.layout import ComposedLayout, Layout, Swizzle

_ROWS, _ACCESS = 8, 16
"""Rows of an 8x8 matrix, and bytes of one of its rows, which a swizzle keeps together."""
_BITS = {128: 3, 64: 2, 32: 1, 16: 0}


def smem_layout_atom(dtype: DType, major: str, bytes: int = 128) -> Layout | ComposedLayout:
    """The atom of a shared (M or N, K) tile of this dtype that is contiguous along ``major``: "k" or "mn".

    ``bytes`` is the length of a row.  For 128, 64 or 32, the row's 16-byte parts are swizzled over 8 rows; 16 needs no
    swizzle.  The shape is (8, row) for "k" and (row, 8) for "mn", in elements.

    Law: the 8 parts of 16 bytes at one place of the 8 rows lie in different banks, and so do those of 128 bytes in a
    row.  So ldmatrix, stmatrix and 16-byte accesses along the rows have no conflicts.  A buffer of it must begin at a
    multiple of 8 rows, 1024 bytes for rows of 128; ``mo.shared_array`` sees to that.
    """
    require_dtype("smem_layout_atom", dtype)
    named = f'"{major}"' if isinstance(major, str) else repr(major)
    asked = f"smem_layout_atom({dtype}, {named}, {bytes!r})"
    if not isinstance(major, str) or major not in ("k", "mn"):
        raise LayoutError(f'{asked}: a tile is contiguous along "k" or along "mn", not along {major!r}')
    if not isinstance(bytes, int) or bytes not in _BITS:
        raise LayoutError(f"{asked}: rows are {', '.join(map(str, _BITS))} bytes long, not {bytes!r}")
    together, row = _ACCESS * 8 // dtype.bits, bytes * 8 // dtype.bits
    plain = Layout((_ROWS, row), (row, 1)) if major == "k" else Layout((row, _ROWS), (1, row))
    if not _BITS[bytes]:
        return plain
    return ComposedLayout(Swizzle(_BITS[bytes], together.bit_length() - 1, 3), 0, plain)
