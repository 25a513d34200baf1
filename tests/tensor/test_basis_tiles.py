"""Tiles of tensors by coordinates: refused, since extents are checked by size alone."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo

TILE = mo.layout.Layout.parse("(4,2):(1@0,1@1)")
MODE = mo.layout.Layout.parse("4:1@0")


@pytest.mark.parametrize("divide", [
    lambda x: mo.zipped_divide(x, TILE), lambda x: mo.logical_divide(x, TILE), lambda x: mo.tile(x, (MODE, 2), (0, 0)),
])
def test_a_tile_with_basis_strides_is_refused(divide):
    @mo.kernel
    def kernel(x):
        divide(x)[0]

    with pytest.raises(mo.TensorError, match=r"the strides of the tile are coordinates, and tiles of"):
        kernel.trace(np.zeros((6, 4), np.float32), block=32)


def test_a_copy_of_threads_at_coordinates_is_refused():
    atom = mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32)
    with pytest.raises(mo.LayoutError, match=r"^make_tiled_copy of .* needs offsets that are numbers"):
        mo.make_tiled_copy(atom, TILE, mo.make_layout((1, 1)))
