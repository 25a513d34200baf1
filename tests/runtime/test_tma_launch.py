"""Launches with TMA copies: what the driver is asked for, how often, and that both ways pass the same bytes."""

from __future__ import annotations

import ctypes
import enum
import types

import numpy as np
import pytest

import moye as mo
from moye.cuda.device import driver, tensor_maps
from moye.errors import ArgumentError, DriverError, LayoutError
from moye.runtime.prepare import compile_only
from runtime.test_fast import Stub, Tensor, stub, ways  # noqa: F401

LAYOUT = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (32, 64))


def kinds(**values):
    return types.SimpleNamespace(**values)


class Encoder:
    """The driver as far as tensor maps go: an encoded map is the text of what was asked."""

    CUtensorMapDataType = kinds(CU_TENSOR_MAP_DATA_TYPE_FLOAT32="f32", CU_TENSOR_MAP_DATA_TYPE_UINT8="u8",
                                CU_TENSOR_MAP_DATA_TYPE_TFLOAT32="tf32")
    CUtensorMapInterleave = kinds(CU_TENSOR_MAP_INTERLEAVE_NONE="packed")
    CUtensorMapSwizzle = kinds(CU_TENSOR_MAP_SWIZZLE_128B="Sw128", CU_TENSOR_MAP_SWIZZLE_NONE="Sw0")
    CUtensorMapL2promotion = kinds(CU_TENSOR_MAP_L2_PROMOTION_L2_128B="L128")
    CUtensorMapFloatOOBfill = kinds(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE="zero")
    cuuint64_t = cuuint32_t = int

    def __init__(self):
        self.asked, self.error = [], 0

    def cuCtxGetCurrent(self):
        return 0, 1

    def cuGetErrorString(self, error):
        return 0, b"invalid argument"

    def cuTensorMapEncodeIm2col(self, *asked):
        return self.cuTensorMapEncodeTiled(*asked)

    def cuTensorMapEncodeTiled(self, *asked):
        self.asked.append(asked)
        text = ctypes.create_string_buffer(f"map {len(self.asked)} of {asked[2]}".encode(), 128)
        return self.error, types.SimpleNamespace(getPtr=lambda: ctypes.addressof(text), keep=text)


@pytest.fixture
def encoder(stub, monkeypatch):  # noqa: F811
    made = Encoder()
    monkeypatch.setattr(driver, "_driver", lambda: made)
    tensor_maps.encode.cache_clear()
    yield made
    tensor_maps.encode.cache_clear()


def make_kernel():
    @mo.kernel
    def move(source, target, scale):
        smem = mo.shared_array(source.dtype, source.smem_layout)
        bars = mo.mbarrier_array(1)
        at = mo.block_idx().x, 0
        if mo.thread_idx().x == 0:
            mo.copyto(source, smem, mo.tile(source.tensor, source.tile, at), barrier=(bars, 0))
            smem[0, 0] = scale
            mo.copyto(target, mo.tile(target.tensor, target.tile, at), smem)
    return move


def make_moves_alone():
    @mo.kernel
    def move(source, target):
        smem = mo.shared_array(source.dtype, source.smem_layout)
        if mo.thread_idx().x == 0:
            mo.copyto(target, mo.tile(target.tensor, target.tile, (0, 0)), smem)
            mo.prefetch_tensormap(source)
    return move


def aligned(*shape):
    """A tensor at a multiple of 16 bytes."""
    memory = np.zeros(int(np.prod(shape)) + 4, np.float32)
    start = -memory.ctypes.data % 16 // 4
    return Tensor(array=memory[start: start + int(np.prod(shape))].reshape(shape))


def load(x, layout=LAYOUT):
    return mo.make_tma_copy(mo.TmaLoad(), x, layout)


def save(x, layout=LAYOUT):
    return mo.make_tma_copy(mo.TmaStore(), x, layout)


def test_both_ways_pass_the_same_maps(stub, encoder):  # noqa: F811
    kernel, x, y = make_kernel(), aligned(64, 128), aligned(64, 128)
    for _ in range(3):                                  # new copies of the same arrays each time
        kernel[2, 32](load(x), save(y), 2.0)
    assert ways(stub) == (1, 2)
    assert stub.short == stub.long * 2
    assert stub.formats == ["128s", "128s", "f"]
    assert len(encoder.asked) == 2
    assert stub.long[0][0].rstrip(b"\0").decode() == f"map 1 of {x.data_ptr()}"


def test_what_the_driver_is_asked(stub, encoder):  # noqa: F811
    kernel, x, y = make_kernel(), aligned(64, 128), aligned(40, 256)
    kernel[1, 32](load(x), save(y), 2.0)
    assert encoder.asked == [("f32", 2, a.data_ptr(), list(a.shape[::-1]), [a.shape[1] * 4], [32, 32], [1, 1], "packed",
                              "Sw128", "L128", "zero") for a in (x, y)]


def test_what_the_driver_is_asked_of_images(stub, encoder):  # noqa: F811
    """Extents, strides and corners begin with the channels, and with the fastest mode of pixels."""
    @mo.kernel
    def look(images):
        mo.prefetch_tensormap(images)

    x, op = aligned(2, 6, 9, 64), mo.TmaLoadIm2col(filter=(3, 5), padding=(1, 0), stride=(2, 3), dilation=(1, 2))
    look[1, 32](mo.make_tma_copy(op, x, LAYOUT))
    assert encoder.asked == [("f32", 4, x.data_ptr(), [64, 9, 6, 2], [256, 2304, 13824], [0, -1], [-8, -1], 32, 32,
                              [1, 3, 2, 1], "packed", "Sw128", "L128", "zero")]


def test_what_the_driver_is_asked_of_merged_and_of_repeated_modes(stub, encoder):  # noqa: F811
    @mo.kernel
    def look(merged, repeated):
        mo.prefetch_tensormap(merged)
        mo.prefetch_tensormap(repeated)

    x, y = aligned(100, 2), aligned(8, 2, 4)
    y.array = np.broadcast_to(y.array[:1], (8, 2, 4))
    look[1, 32](load(x, mo.make_layout((8, 2), (2, 1))), load(y, mo.make_layout((8, 2, 4), (4, 32, 1))))
    assert [asked[3:6] for asked in encoder.asked] == [([200], [16], [16]), ([4, 8, 2], [0, 16], [4, 8, 2])]


def test_a_map_that_rounds(stub, encoder):  # noqa: F811
    """One array, two maps and two specialisations."""
    kernel, x, y = make_moves_alone(), aligned(64, 128), aligned(64, 128)
    for rounding in (None, mo.tfloat32, None):
        kernel[1, 32](mo.make_tma_copy(mo.TmaLoad(rounding=rounding), x, LAYOUT), save(y))
    assert [asked[0] for asked in encoder.asked] == ["f32", "f32", "tf32"]
    assert encoder.asked[0][1:] == encoder.asked[2][1:]
    assert ways(stub) == (2, 1)


def test_other_arrays_have_other_maps(stub, encoder):  # noqa: F811
    kernel, x, y, z = make_moves_alone(), aligned(64, 128), aligned(64, 128), aligned(64, 128)
    for target in (y, y, z, y, z):
        kernel[1, 32](load(x), save(target))
    assert ways(stub) == (1, 4)
    assert [params[1].split()[-1].rstrip(b"\0") for params in (*stub.long, *stub.short)] == [
        str(t.data_ptr()).encode() for t in (y, y, z, y, z)]
    assert len(encoder.asked) == 3
    kernel[1, 32](load(aligned(64, 256)), save(y))      # other strides: another map, the same specialisation
    assert ways(stub) == (2, 4)
    assert len(encoder.asked) == 4
    assert kernel.why_recompiled() == []


def test_other_tiles_are_another_specialisation(stub, encoder):  # noqa: F811
    kernel, x, y = make_moves_alone(), aligned(64, 128), aligned(64, 128)
    small = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (16, 32))
    kernel[1, 32](load(x), save(y))
    kernel[1, 32](load(x, small), save(y, small))
    assert ways(stub) == (2, 0)
    assert "argument 'source' changed from TmaLoad() of float32 tiles" in kernel.why_recompiled()[0]


def test_an_array_that_changed_is_looked_at_again(stub, encoder):  # noqa: F811
    """The copy holds the array, not what it was."""
    kernel, x, y = make_moves_alone(), load(aligned(64, 128)), save(aligned(64, 128))
    kernel[1, 32](x, y)
    x.array = aligned(32, 64)
    kernel[1, 32](x, y)
    assert ways(stub) == (2, 0)
    assert encoder.asked[-1][3] == [64, 32]
    x.array = aligned(64, 126)
    with pytest.raises(LayoutError, match="stride 126 of mode 0 is 504 bytes"):
        kernel[1, 32](x, y)


def test_a_prepared_launch(stub, encoder):  # noqa: F811
    kernel, x, y, z = make_moves_alone(), aligned(64, 128), aligned(64, 128), aligned(64, 128)
    again = kernel.prepare(load(x), save(y), grid=1, block=32)
    again()
    again.update(target=z)
    again()
    again.update(target=save(y))
    again()
    assert [params[1].split()[-1].rstrip(b"\0") for params in stub.short] == [
        str(t.data_ptr()).encode() for t in (y, z, y)]
    with pytest.raises(ArgumentError, match="has shape"):
        again.update(target=aligned(32, 128))


def test_a_map_that_the_driver_refuses(stub, encoder):  # noqa: F811
    encoder.error = enum.IntEnum("CUresult", ["CUDA_ERROR_INVALID_VALUE"])(1)
    with pytest.raises(DriverError, match=r"a tensor map of float32 extents \[128, 64\].*CUDA_ERROR_INVALID_VALUE"):
        make_moves_alone()[1, 32](load(aligned(64, 128)), save(aligned(64, 128)))
    assert ways(stub) == (0, 0)


def test_a_mode_of_one_element_needs_no_stride(stub, encoder):  # noqa: F811
    one = aligned(64, 130)
    one.array = one.array[:1]
    load(one)
    with pytest.raises(LayoutError, match="multiples of 16"):
        load(aligned(64, 130))
    tensor_maps.encode(load(one).describe()[1].map, (1, 130), (130, 1), 0, one.data_ptr())
    assert encoder.asked[-1][4] == [528]


def test_compiling_only():
    x = mo.TensorLike(mo.float32, (64, 128), (128, 1))
    with compile_only("sm_90a", trace_only=True) as gathered:
        make_kernel()[1, 32](load(x), save(x), 1.0)
    assert [param.tensor_map.box for param in gathered.jobs[0].spec.func.params[:2]] == [(32, 32), (32, 32)]


def test_a_read_only_array_is_not_stored_to():
    x, y = np.zeros((64, 128), np.float32), np.zeros((64, 128), np.float32)
    y.flags.writeable = False
    with pytest.raises(ArgumentError, match="writes argument 'target', which is read-only"):
        make_moves_alone()[1, 32](load(x), save(y))
