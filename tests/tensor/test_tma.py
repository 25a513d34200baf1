"""TMA: the boxes of a tile against what the hardware writes, what is refused, what kernels look like."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from pathlib import Path

import numpy as np
import pytest

import moye as mo
from moye.cuda.compiler import nvrtc
from moye.cuda.printing.printer import print_kernel
from moye.errors import MoyeError
from moye.ir import ops
from moye.ir.nodes import Literal
from moye.ir.rules import RULES
from moye.layout import ComposedLayout, make_layout
from moye.tensor.tma_boxes import tma_tiling
from tma_kernels import (
    BLOCK,
    CASES,
    ROUNDED,
    ROUNDING,
    copy_kernel,
    multicast_kernel,
    read_kernel,
    stages_kernel,
    write_kernel,
)

GOLDEN = Path(__file__).parents[1] / "golden"
HALF_K = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (128, 64))


def like(case):
    """The array of a case without memory."""
    array = case.array(lambda shape: np.empty(shape, case.dtype.numpy))
    return mo.TensorLike(case.dtype, array.shape, tuple(s // array.itemsize for s in array.strides))


def written(tiling, dtype):
    """{place in the tile: byte of shared memory} as the hardware writes it, box by box.

    A box is written with its first dimension fastest; of each byte address the 16-byte part within its row is XORed
    with the number of the 128-byte line, as far as the swizzle reaches.
    """
    box, size, parts = tiling.map.box, dtype.bits // 8, max(tiling.map.swizzle // 16, 1)
    found = {}
    for one in tiling.boxes:
        for n, at in enumerate(itertools.product(*(range(extent) for extent in box[::-1]))):
            byte = (one.offset + n) * size
            byte ^= (byte // 128 % parts) * 16
            place = [0] * len(box)
            for d, i in enumerate(at[::-1]):
                place[tiling.map.modes[d]] = one.coordinates[d] + i
            assert tuple(place) not in found
            found[tuple(place)] = byte
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_boxes_are_what_the_hardware_writes(name):
    case = CASES[name]
    _, tiling = case.copy(mo.TmaLoad(), like(case)).describe()
    found, bytes_ = written(tiling, case.dtype), case.dtype.bits // 8
    assert len(found) == math.prod(tiling.tile)
    assert tiling.bytes == len(found) * bytes_ == tiling.map.bytes * len(tiling.boxes)
    for n, place in enumerate(itertools.product(*(range(extent) for extent in case.extents[::-1]))):
        assert found[place[::-1]] == case.layout(n) * bytes_, place
    assert all(extent <= 256 for extent in tiling.map.box)
    assert all(box.offset * bytes_ % tiling.align == 0 for box in tiling.boxes)


@pytest.mark.parametrize(("dtype", "major", "row", "shape", "order", "box", "count"), [
    (mo.float16, "k", 128, (128, 64), None, (64, 128), 1), (mo.float16, "k", 128, (128, 128), None, (64, 128), 2),
    (mo.bfloat16, "mn", 128, (128, 64), None, (64, 8), 16), (mo.bfloat16, "mn", 128, (128, 64), (1, 0), (64, 64), 2),
    (mo.float32, "k", 64, (256, 32), None, (16, 256), 2), (mo.int8, "k", 32, (64, 32), None, (32, 64), 1),
    (mo.float16, "k", 128, (512, 64), None, (64, 256), 2),
    (mo.float8_e4m3fn, "k", 128, (128, 128), None, (128, 128), 1),
])
def test_boxes_of_the_atoms(dtype, major, row, shape, order, box, count):
    layout = mo.tile_to_shape(mo.smem_layout_atom(dtype, major, row), shape, order)
    tiling = tma_tiling(mo.TmaLoad(), dtype, (None, 1) if major == "k" else (1, None), layout, None, 1)
    assert (tiling.map.box, len(tiling.boxes), tiling.map.swizzle) == (box, count, row)
    assert tiling.map.modes == ((1, 0) if major == "k" else (0, 1))
    assert tiling.align == 8 * row or row == 16


def test_parts_of_a_multicast():
    tiling = tma_tiling(mo.TmaLoad(), mo.float16, (None, 1), HALF_K, None, 4)
    assert (tiling.map.box, tiling.part, tiling.bytes) == ((64, 32), (1, 32, 2048), 16384)


# --- refusals --------------------------------------------------------------------------------------------------------

ROWS, COLUMNS = mo.TensorLike(mo.float16, (256, 128), (128, 1)), mo.TensorLike(mo.float16, (256, 128))


def make(array, layout, *args, op=None, **named):
    if isinstance(layout, str):
        layout = mo.layout.parse(layout)
    return lambda: mo.make_tma_copy(op or mo.TmaLoad(), array, layout, *args, **named)


REFUSED = {
    "no_unit_stride": make(mo.TensorLike(mo.float16, (64, 64), (128, 2)), HALF_K),
    "transposing": make(COLUMNS, HALF_K),
    "padded_rows": make(ROWS, "(128,64):(72,1)"),
    "many_rows": make(ROWS, "(512,64):(128,1)"),
    "short_runs": make(ROWS, "(128,4):(4,1)"),
    "a_swizzle_of_8_bytes": make(ROWS, "Sw<3,2,3> o 0 o (128,64):(64,1)"),
    "a_swizzle_of_longer_rows": make(ROWS, "Sw<3,3,3> o 0 o (128,32):(32,1)"),
    "an_offset_swizzle": make(ROWS, "Sw<3,3,3> o 64 o (128,64):(64,1)"),
    "overlapping": make(ROWS, "(128,64):(0,1)"),
    "six_modes": make(mo.TensorLike(mo.float16, (2,) * 6), "8:1"),
    "another_tile": make(ROWS, HALF_K, (64, 64)),
    "odd_row_stride": make(mo.TensorLike(mo.float16, (256, 100), (100, 1)), HALF_K),
    "misaligned_pointer": make(mo.TensorLike(mo.float16, (256, 128), (128, 1), align=8), HALF_K),
    "empty": make(mo.TensorLike(mo.float16, (0, 128), (128, 1)), HALF_K),
    "adding_float64": make(mo.TensorLike(mo.float64, (64, 16), (16, 1)), "(8,16):(16,1)", op=mo.TmaReduceAdd()),
    "rounding_to_bfloat16": lambda: mo.TmaLoad(rounding=mo.bfloat16),
    "rounding_to_a_name": lambda: mo.TmaLoad(rounding="tfloat32"),
    "rounding_of_float16": make(ROWS, HALF_K, op=ROUNDING),
    "rounding_of_float64": make(mo.TensorLike(mo.float64, (64, 16), (16, 1)), "(8,16):(16,1)", op=ROUNDING),
    "int4": make(mo.TensorLike(mo.int4, (64, 32), (32, 1)), "(8,32):(32,1)"),
    "no_array": make("A", HALF_K), "no_operation": make(ROWS, HALF_K, op=mo.CpAsync(mo.float32)),
    "multicast_of_a_store": make(ROWS, HALF_K, multicast=2, op=mo.TmaStore()),
    "multicast_of_odd_parts": make(ROWS, HALF_K, multicast=3),
    "negative_stride": make(mo.TensorLike(mo.float16, (256, 128), (-128, 1)), HALF_K),
    "no_batches": make(mo.TensorLike(mo.float16, (256, 128, 0), (128, 1, 32768)), HALF_K),
    "odd_batch_stride": make(mo.TensorLike(mo.float16, (256, 128, 3), (128, 1, 32772)), HALF_K, (128, 64, 1)),
    "storing_to_repeated_batches": make(mo.TensorLike(mo.float16, (256, 128, 3), (128, 1, 0)), HALF_K, (128, 64, 1),
                                        op=mo.TmaStore()),
    "stored_rows_that_end_within_16_bytes": make(mo.TensorLike(mo.float16, (256, 99), (104, 1)), HALF_K,
                                                 op=mo.TmaStore()),
}
OF_TMA = ("no_unit_stride", "transposing", "padded_rows", "many_rows", "short_runs", "a_swizzle_of_8_bytes",
          "a_swizzle_of_longer_rows", "an_offset_swizzle", "overlapping", "six_modes", "another_tile", "odd_row_stride",
          "negative_stride", "no_batches", "odd_batch_stride", "storing_to_repeated_batches",
          "misaligned_pointer", "empty", "multicast_of_odd_parts", "stored_rows_that_end_within_16_bytes")


def traced(body, *args, dtype=mo.float16, layout=HALF_K):
    """A kernel of one shared tile, mbarriers and what ``body`` makes of them."""
    def kernel(tma):
        smem, bars = mo.shared_array(dtype, layout), mo.mbarrier_array(2)
        body(tma, smem, bars, mo.tile(tma.tensor, (128, 64), (0, 0)))
    return lambda: mo.kernel(kernel).trace(make(ROWS, HALF_K, *args)(), block=32)


def _store_with_a_barrier(tma):
    def kernel(tma):
        smem, bars = mo.shared_array(mo.float16, HALF_K), mo.mbarrier_array(1)
        mo.copyto(tma, mo.tile(tma.tensor, (128, 64), (0, 0)), smem, barrier=(bars, 0))
    return lambda: mo.kernel(kernel).trace(tma(), block=32)


IN_KERNELS = {
    "load_without_a_barrier": traced(lambda tma, smem, bars, at: mo.copyto(tma, smem, at)),
    "store_with_a_barrier": _store_with_a_barrier(make(ROWS, HALF_K, op=mo.TmaStore())),
    "load_turned_round": traced(lambda tma, smem, bars, at: mo.copyto(tma, at, smem, barrier=(bars, 0))),
    "another_layout": traced(lambda tma, smem, bars, at: mo.copyto(tma, smem, at, barrier=(bars, 0)),
                             layout=make_layout((128, 64), (64, 1))),
    "another_dtype": traced(lambda tma, smem, bars, at: mo.copyto(tma, smem, at, barrier=(bars, 0)), dtype=mo.float32),
    "other_coordinates": traced(lambda tma, smem, bars, at: mo.copyto(
        tma, smem, mo.tile(tma.tensor, (64, 64), (0, 0)), barrier=(bars, 0))),
    "unaligned_stage": traced(lambda tma, smem, bars, at: mo.copyto(tma, smem.moved(64), at, barrier=(bars, 0))),
    "predicated": traced(lambda tma, smem, bars, at: mo.copyto(tma, smem, at, barrier=(bars, 0), pred=True)),
    "a_hint_of_its_own": traced(lambda tma, smem, bars, at: mo.copyto(tma, smem, at, barrier=(bars, 0), hint="keep")),
    "a_mask_of_three_blocks": traced(lambda tma, smem, bars, at: mo.copyto(tma, smem, at, barrier=(bars, 0),
                                                                           multicast=0b111), None, 2),
    "parts_without_a_mask": traced(lambda tma, smem, bars, at: mo.copyto(tma, smem, at, barrier=(bars, 0)), None, 2),
    "a_barrier_without_its_index": traced(lambda tma, smem, bars, at: mo.copyto(tma, smem, at, barrier=bars)),
    "a_barrier_of_three": traced(lambda tma, smem, bars, at: mo.copyto(tma, smem, at, barrier=(bars, 0, 0))),
    "coordinates_as_a_barrier": traced(lambda tma, smem, bars, at: mo.copyto(tma, smem, at, barrier=tma.tensor)),
    "a_mask_of_float": traced(lambda tma, smem, bars, at: mo.copyto(
        tma, smem, at, barrier=(bars, 0), multicast=mo.where(mo.thread_idx().x > 0, 1.0, 2.0))),
    "a_barrier_of_floats": traced(lambda tma, smem, bars, at: mo.copyto(tma, smem, at, barrier=(smem, 0))),
}


@pytest.mark.parametrize("name", [*REFUSED, *IN_KERNELS])
def test_refusals(name):
    """``UPDATE_GOLDEN=1`` writes the messages anew."""
    with pytest.raises(MoyeError) as caught:
        {**REFUSED, **IN_KERNELS}[name]()
    golden = GOLDEN / "tensor" / f"tma_{name}.txt"
    text = f"{type(caught.value).__name__}: {caught.value.message}\n" + \
        (f"hint: {caught.value.hint}\n" if caught.value.hint else "")
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()
    codes = dict.fromkeys((*OF_TMA, "unaligned_stage"), "B5") | {"a_mask_of_three_blocks": "D20"}
    assert caught.value.code == codes.get(name)


# --- kernels ---------------------------------------------------------------------------------------------------------


def compiled(kernel, *args, cluster=(1, 1, 1), arch="sm_90a"):
    return kernel.compile(*args, block=BLOCK, cluster=cluster, arch=arch)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["float16-k-128-2", "int8-mn-64", "vector", "batch", "cube-turned"])
def test_kernels_compile(name):
    case = CASES[name]
    array, out = like(case), mo.TensorLike(case.dtype, (math.prod(case.extents), math.prod(case.grid)))
    for kernel, args in ((copy_kernel, (case.copy(mo.TmaLoad(), array), case.copy(mo.TmaStore(), array))),
                         (read_kernel, (case.copy(mo.TmaLoad(), array), out)),
                         (write_kernel, (case.copy(mo.TmaStore(), array), out))):
        program = compiled(kernel, *args)
        assert "UTMALDG" in program.sass or "UTMASTG" in program.sass
        assert program.spills == 0


def test_golden_copy():
    """What a copy looks like: maps by value, a call for each box; ``UPDATE_GOLDEN=1`` writes it anew."""
    case = CASES["float16-k-128-2"]
    program = compiled(copy_kernel, case.copy(mo.TmaLoad(), like(case)), case.copy(mo.TmaStore(), like(case)))
    golden = GOLDEN / "tma_copy.cu"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(program.source)
    assert program.source == golden.read_text()
    assert [slot.format for slot in program.printed.slots] == ["128s", "128s"]


def test_golden_stages():
    """Two stages of two boxes each: their addresses are one sum."""
    case = CASES["float16-k-64-2"]
    program = compiled(stages_kernel, case.copy(mo.TmaLoad(), like(case)), mo.TensorLike(mo.float16, (2048, 4)), 2)
    golden = GOLDEN / "tma_stages.cu"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(program.source)
    assert program.source == golden.read_text()


def test_multicast_compiles():
    half = mo.make_tma_copy(mo.TmaLoad(), ROWS, HALF_K, multicast=2)
    program = compiled(multicast_kernel, half, mo.TensorLike(mo.float16, (8192, 4)), cluster=(2, 1, 1))
    assert "multicast::cluster" in program.source
    assert "UTMALDG.2D.MULTICAST" in program.sass


def test_reduction_compiles():
    case = CASES["float32-k-128-1"]
    out = mo.TensorLike(case.dtype, (math.prod(case.extents), math.prod(case.grid)))
    program = compiled(write_kernel, case.copy(mo.TmaReduceAdd(), like(case)), out)
    assert "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group" in program.source
    assert "UTMAREDG.2D.ADD" in program.sass


def test_a_rounding_load_has_the_same_boxes():
    """Of tfloat32 elements, which is what the kernel finds in shared memory."""
    plain, rounded = (ROUNDED.copy(op, like(ROUNDED)) for op in (mo.TmaLoad(), ROUNDING))
    (_, of_plain), (_, of_rounded) = plain.describe(), rounded.describe()
    assert (of_plain.map.dtype, of_rounded.map.dtype) == (mo.float32, mo.tfloat32)
    assert dataclasses.replace(of_rounded, op=of_plain.op, map=of_plain.map) == of_plain
    assert dataclasses.replace(of_rounded.map, dtype=mo.float32) == of_plain.map
    assert plain.key != rounded.key

    @mo.kernel
    def sees(tma):
        smem = mo.shared_array(tma.dtype, tma.smem_layout)
        mo.copyto(tma, smem, mo.tile(tma.tensor, tma.tile, (0, 0)), barrier=(mo.mbarrier_array(1), 0))

    for copy, dtype in ((plain, mo.float32), (rounded, mo.tfloat32)):
        shared, = (x for x in sees.trace(copy, block=32).buffers if x.name == "smem")
        assert shared.dtype == dtype


@pytest.mark.slow
def test_a_rounding_load_compiles():
    """The map rounds, not the instruction: both programs are the same but for what the elements are called."""
    out = mo.TensorLike(mo.float32, (math.prod(ROUNDED.extents), math.prod(ROUNDED.grid)))
    programs = [compiled(read_kernel, ROUNDED.copy(op, like(ROUNDED)), out) for op in (mo.TmaLoad(), ROUNDING)]
    instructions = [[line.split("//")[0].split() for line in program.sass.splitlines()] for program in programs]
    assert [line for line in instructions[0] if "UTMALDG" in str(line)]
    assert len(instructions[0]) == len(instructions[1])
    assert programs[1].spills == 0


def test_an_older_architecture_is_refused():
    case = CASES["vector"]
    with pytest.raises(mo.UnsupportedError, match=r"need sm_90a or later, but is compiled for sm_80"):
        compiled(copy_kernel, case.copy(mo.TmaLoad(), like(case)), case.copy(mo.TmaStore(), like(case)), arch="sm_80")


def test_plain_tiles_are_aligned_for_tma():
    case = CASES["vector"]
    func = copy_kernel.trace(case.copy(mo.TmaLoad(), like(case)), case.copy(mo.TmaStore(), like(case)), block=BLOCK)
    assert [b.align for b in func.shared_buffers] == [128, 8]
    assert [p.buffer.written for p in func.params] == [False, True]
    kinds = [op.kind for op in func.body.walk() if isinstance(op, ops.TmaCopy)]
    assert kinds == ["prefetch", "load", "store"]
    assert print_kernel(func).static_smem == 1024 + 8
    assert nvrtc.normalize_arch("sm_90a") == "sm_90a"


def test_tiles_need_not_divide():
    """No guard: what lies outside reads as zero and is not written."""
    case = CASES["float16-k-128-1"]
    func = copy_kernel.trace(case.copy(mo.TmaLoad(), like(case)), case.copy(mo.TmaStore(), like(case)), block=BLOCK)
    assert func.guards == []


def test_the_specialisation_is_the_tiling_and_not_the_array():
    array, wider = mo.TensorLike(mo.float16, (256, 128), (128, 1)), mo.TensorLike(mo.float16, (77, 512), (512, 1))
    first, second = (copy_kernel.trace(mo.make_tma_copy(mo.TmaLoad(), x, HALF_K),
                                       mo.make_tma_copy(mo.TmaStore(), x, HALF_K), block=BLOCK) for x in (array, wider))
    assert first is second


def test_containers_hold_tma_copies():
    def kernel(pair):
        smem = mo.shared_array(pair[0].dtype, pair[0].smem_layout)
        mo.copyto(pair[1], mo.tile(pair[1].tensor, pair[1].tile, (0, 0)), smem)
    pair = (mo.make_tma_copy(mo.TmaLoad(), ROWS, HALF_K), mo.make_tma_copy(mo.TmaStore(), ROWS, HALF_K))
    func = mo.kernel(kernel).trace(pair, block=32)
    assert [(p.name, p.tensor_map.box) for p in func.params] == [("pair_0", (64, 128)), ("pair_1", (64, 128))]


def test_users_names_and_those_of_the_printed_functions():
    """A parameter may have the name of a type or a function that is printed."""
    def kernel(TensorMap, tma_load_2d, tma_store):
        smem, bars = mo.shared_array(mo.float16, HALF_K), mo.mbarrier_array(1)
        mo.copyto(TensorMap, smem, mo.tile(TensorMap.tensor, (128, 64), (0, 0)), barrier=(bars, 0))
        mo.copyto(tma_load_2d, smem, mo.tile(tma_load_2d.tensor, (128, 64), (0, 0)), barrier=(bars, 0))
        mo.copyto(tma_store, mo.tile(tma_store.tensor, (128, 64), (0, 0)), smem)
    program = compiled(mo.kernel(kernel), *(mo.make_tma_copy(op, ROWS, HALF_K) for op in (
        mo.TmaLoad(), mo.TmaLoad(), mo.TmaStore())))
    assert [param in program.source for param in ("TensorMap TensorMap_,", "TensorMap tma_load_2d_,",
                                                  "TensorMap tma_store)")] == [True] * 3


def test_wide_indices_are_coordinates_of_32_bits():
    """Another array needs 64-bit indices; TMA takes 32 bits all the same."""
    case = CASES["float16-k-128-1"]
    out = mo.TensorLike(case.dtype, (math.prod(case.extents), 1 << 21))
    func = read_kernel.trace(case.copy(mo.TmaLoad(), like(case)), out, block=BLOCK)
    load = next(op for op in func.body.walk() if isinstance(op, ops.TmaCopy) and op.kind == "load")
    assert func.index_bits == 64
    assert [x.dtype for x in load.coordinates] == [mo.int32, mo.int32]
    assert compiled(read_kernel, case.copy(mo.TmaLoad(), like(case)), out).spills == 0


def test_an_array_that_is_only_large_needs_no_wide_indices():
    array = mo.TensorLike(mo.float16, (1 << 20, 1 << 14), (1 << 14, 1))
    func = copy_kernel.trace(mo.make_tma_copy(mo.TmaLoad(), array, HALF_K),
                             mo.make_tma_copy(mo.TmaStore(), array, HALF_K), block=BLOCK)
    assert func.index_bits == 32


@pytest.mark.parametrize(("kind", "changes", "told"), [
    ("prefetch", {"coordinates": (Literal(0, mo.int32),)}, "a prefetch has memory"),
    ("load", {"smem": None}, "no shared memory"), ("load", {"barrier": None}, "loads have a barrier"),
    ("load", {"kind": "store"}, "loads have a barrier"), ("load", {"coordinates": ()}, "0 coordinates"),
    ("load", {"coordinates": (Literal(0, mo.int64),)}, "coordinate 0 is int64"),
    ("load", {"multicast": Literal(3, mo.int32)}, "its mask is int32"),
    ("store", {"multicast": Literal(3, mo.uint16)}, "loads have a barrier"),
])
def test_the_verifier_knows_what_a_copy_needs(kind, changes, told):
    case = CASES["float16-k-128-1"]
    func = copy_kernel.trace(case.copy(mo.TmaLoad(), like(case)), case.copy(mo.TmaStore(), like(case)), block=BLOCK)
    op = next(op for op in func.body.walk() if isinstance(op, ops.TmaCopy) and op.kind == kind)
    assert RULES[ops.TmaCopy](op) is None
    assert told in RULES[ops.TmaCopy](dataclasses.replace(op, **changes))


def test_a_layout_as_numbers():
    assert mo.make_tma_copy(mo.TmaLoad(), mo.TensorLike(mo.float32, (512,)), 64).smem_layout == make_layout(64)
    assert isinstance(HALF_K, ComposedLayout)


# --- reductions and fills --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("by", "dtype"), [("min", mo.float32), ("add", mo.float64), ("inc", mo.int32),
                                             ("xor", mo.float16)])
def test_dtypes_that_a_reduction_has_not(by, dtype):
    with pytest.raises(mo.DTypeError, match=f"there is no TmaReduce.* of {dtype}"):
        mo.make_tma_copy(mo.TmaReduce(by), mo.TensorLike(dtype, (64, 16), (16, 1)), mo.Layout.parse("(8,16):(16,1)"))


def test_what_a_load_brings_to_l2():
    tiling = mo.make_tma_copy(mo.TmaLoad(prefetch=256), ROWS, HALF_K).describe()[1]
    assert tiling.map.promotion == 256 and str(tiling.op) == "TmaLoad(prefetch=256)"
    assert mo.make_tma_copy(mo.TmaLoad(), ROWS, HALF_K).describe()[1].map.promotion == 128
    with pytest.raises(mo.DTypeError, match=r"TmaLoad\(prefetch=32\): a load prefetches 0, 64, 128 or 256 bytes"):
        mo.TmaLoad(prefetch=32)


def test_what_a_reduction_and_a_fill_may_be():
    with pytest.raises(mo.DTypeError, match=r"TmaReduce\('mul'\): the reductions are add, min, max, inc, dec, and"):
        mo.TmaReduce("mul")
    with pytest.raises(mo.DTypeError, match=r"BulkReduce\('mean'\): the reductions are"):
        mo.BulkReduce("mean")
    with pytest.raises(mo.DTypeError, match=r"TmaLoad\(outside='one'\): what lies outside reads as "):
        mo.TmaLoad(outside="one")
    with pytest.raises(mo.DTypeError, match=r"there is no TmaLoad\(outside=nan\) of int32"):
        mo.make_tma_copy(mo.TmaLoad(outside="nan"), mo.TensorLike(mo.int32, (64, 16), (16, 1)),
                         mo.Layout.parse("(8,16):(16,1)"))
    assert mo.TmaReduceAdd() == mo.TmaReduce("add") and mo.BulkReduceAdd() == mo.BulkReduce()
