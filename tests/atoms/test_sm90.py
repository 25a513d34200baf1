"""wgmma's operations: layouts against the PTX ISA's formulas, descriptors against the addresses the hardware makes."""

from __future__ import annotations

import re

import numpy as np
import pytest

import moye as mo
import wgmma_kernels as kernels
from moye.atoms import sm90
from moye.dtypes import Space
from moye.errors import DTypeError, LaunchError, TensorError
from moye.ir import ops

EVERY = [sm90.warpgroup_mma(name) for name in sm90.NAMES]
BF16 = (mo.bfloat16, mo.bfloat16, mo.float32)

# --- names and the search --------------------------------------------------------------------------------------------


def test_the_table():
    """16-bit: 3 dtypes, 4 majors with A shared and 2 without; tf32; 4 pairs of 8-bit floats and of integers."""
    assert len(EVERY) == 32 * (3 * 6 + 2 + 8 * 2) + 18 * 4 * 2 * 2
    assert len({(op.ptx, op.shared) for op in EVERY}) == len(EVERY)
    assert all(str(op) == name and getattr(mo.mma, name) is op for name, op in zip(sm90.NAMES, EVERY, strict=True))
    assert not set(sm90.NAMES) & set(mo.mma.ALL)
    assert all(op.threads == 128 and op.shape_mnk[0] == 64 and op.shape_mnk[2] * op.a_dtype.bits == 256 for op in EVERY)
    assert {op.shape_mnk[1] for op in EVERY if op.c_dtype == mo.int32} == {8, 16, 24, *range(32, 257, 16)}
    assert {op.shape_mnk[1] for op in EVERY if op.a_dtype == mo.tfloat32} == set(range(8, 257, 8))


@pytest.mark.parametrize(("options", "name", "ptx"), [
    ({}, "SM90_64x256x16_F32BF16BF16_SS", "m64n256k16.f32.bf16.bf16 {d}, {a}, {b}, p, 1, 1, 0, 0;"),
    ({"a_major": "mn"}, "SM90_64x256x16_F32BF16BF16_SS_NN", "m64n256k16.f32.bf16.bf16 {d}, {a}, {b}, p, 1, 1, 1, 0;"),
    ({"b_major": "mn"}, "SM90_64x256x16_F32BF16BF16_SS_TT", "m64n256k16.f32.bf16.bf16 {d}, {a}, {b}, p, 1, 1, 0, 1;"),
    ({"b_major": "mn", "a_source": "registers"}, "SM90_64x256x16_F32BF16BF16_RS_TT",
     "m64n256k16.f32.bf16.bf16 {d}, {a}, {b}, p, 1, 1, 1;"),
])
def test_found_by_dtypes(options, name, ptx):
    op = mo.mma.wgmma(*BF16, 256, **options)
    assert str(op) == name
    assert op.ptx == "wgmma.mma_async.sync.aligned." + ptx
    assert (op.a_major, op.b_major) == (options.get("a_major", "k"), options.get("b_major", "k"))
    assert op.shared == ("b" if "a_source" in options else "ab")


def test_integers_and_tf32_along_k():
    assert mo.mma.SM90_64x64x32_S32S8U8_RS_TN_SATURATE.ptx == \
        "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.u8.satfinite {d}, {a}, {b}, p;"
    assert str(mo.mma.wgmma(mo.tfloat32, mo.tfloat32, mo.float32, 8)) == "SM90_64x8x8_F32TF32TF32_SS_TN"
    assert str(mo.mma.wgmma(mo.float8_e5m2, mo.float8_e4m3fn, mo.float16, 16)) == "SM90_64x16x32_F16E5M2E4M3_SS_TN"


@pytest.mark.parametrize(("arguments", "options", "says"), [
    ((mo.float32, mo.float32, mo.float32, 64), {}, "there are float16, float16, float16; .*\nhint: .*tfloat32"),
    ((mo.int8, mo.int8, mo.int32, 40), {}, "N of wgmma on int8 and int8 is one of 8, 16, 24, 32, 48, .*, not 40"),
    ((*BF16, 260), {}, "the multiples of 8 from 8 to 256, not 260"),
    ((mo.int8, mo.int8, mo.int32, 64), {"b_major": "mn"}, 'operands of 8 bits are contiguous along K.*b_major="mn"'),
    ((*BF16, 64), {"a_major": "mn", "a_source": "registers"}, 'A in registers has a_major="k", not "mn"'),
    ((*BF16, 64), {"a_major": "m"}, '"k" or "mn", not \'m\''), ((*BF16, 64), {"a_source": "global"}, "not 'global'"),
])
def test_what_there_is_not(arguments, options, says):
    with pytest.raises(DTypeError, match=re.compile(says, re.DOTALL)):
        mo.mma.wgmma(*arguments, **options)


def test_a_name_there_is_not():
    with pytest.raises(AttributeError, match="the nearest SM90_64x256x16_F32BF16BF16_SS"):
        mo.mma.SM90_64x256x16_F32BF16F16_SS  # noqa: B018


# --- layouts: the PTX ISA's formulas, written out --------------------------------------------------------------------

# bits of an element -> (row, column) of value i of A in registers, within the 16 rows of a warp
A_FRAGMENTS = {
    16: lambda lane, i: (lane // 4 + 8 * (i // 2 % 2), lane % 4 * 2 + i % 2 + 8 * (i // 4)),
    32: lambda lane, i: (lane // 4 + 8 * (i % 2), lane % 4 + 4 * (i // 2)),
    8: lambda lane, i: (lane // 4 + 8 * (i // 4 % 2), lane % 4 * 4 + i % 4 + 16 * (i // 8)),
}


def elements(layout, rows):
    """(thread, value) -> (row, column)."""
    return {(t, v): (layout(t, v) % rows, layout(t, v) // rows) for t in range(128) for v in range(mo.size(layout, 1))}


@pytest.mark.slow
@pytest.mark.parametrize("n", sorted({op.shape_mnk[1] for op in EVERY}))
def test_accumulators(n):
    layout = sm90.accumulator(n)
    found = elements(layout, 64)
    assert found == {(t, i): (16 * (t // 32) + t % 32 // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + t % 4 * 2 + i % 2)
                     for t in range(128) for i in range(n // 2)}
    assert len(set(found.values())) == 64 * n
    assert all(op.c_layout == layout for op in EVERY if op.shape_mnk[1] == n)


@pytest.mark.parametrize("bits", A_FRAGMENTS)
def test_a_in_registers(bits):
    k = 256 // bits
    found = elements(sm90.fragment(k, bits), 64)
    places = {(t, i): A_FRAGMENTS[bits](t % 32, i) for t in range(128) for i in range(64 * k // 128)}
    assert found == {(t, i): (16 * (t // 32) + row, column) for (t, i), (row, column) in places.items()}
    assert len(set(found.values())) == 64 * k


def test_every_thread_sees_all_of_shared_memory():
    for op in EVERY:
        m, n, k = op.shape_mnk
        for layout, rows in ((op.b_layout, n), *([(op.a_layout, m)] if op.shared == "ab" else [])):
            assert mo.size(layout) == 128 * rows * k
            assert layout(127, 0) == 0
            assert mo.coalesce(mo.make_layout(layout.mode(1))) == mo.make_layout(rows * k)


# --- descriptors -----------------------------------------------------------------------------------------------------


def address(start, numbers, major, bits, row, k):
    """PTX ISA, "Strides": where the hardware finds an element of a tile; all in bytes."""
    leading, stride, width = numbers
    row_bytes, k_bytes, span = row * bits // 8, k * bits // 8, width or 16
    if major == "k":
        at = start + row // 8 * stride + row % 8 * span
        at += k_bytes if width else k_bytes // 16 * leading + k_bytes % 16
    else:
        along, deep = (leading, stride) if width else (stride, leading)
        at = start + row_bytes // span * along + row_bytes % span + k // 8 * deep + k % 8 * span
    swizzled = {0: 0, 32: 1, 64: 3, 128: 7}[width]
    return at ^ (at >> 7 & swizzled) << 4


def products(case):
    func = kernels.wgmma_kernel.trace(*case.arguments(np.random.default_rng(0)), block=case.threads)
    return [op for op in func.body.walk() if isinstance(op, ops.Wgmma)]


NAMES = [name for name, case in kernels.CASES.items() if "SATURATE" not in name and case.op.d_dtype != mo.float16]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_descriptors_find_the_elements(name):
    """The first instruction's tile of A and B, element by element, and the steps to the others."""
    case = kernels.CASES[name]
    op, = products(case)
    sides = [("b", op.b, op.b_descriptor, case.op.b_major, case.op.shape_mnk[1], 1)]
    if op.a_descriptor:
        sides.append(("a", op.a, op.a_descriptor, case.op.a_major, 64, 0))
    for letter, ref, numbers, major, rows, side in sides:
        whole = case.layouts()[side]
        inner, swizzle = (whole.layout, whole.swizzle) if hasattr(whole, "swizzle") else (whole, None)
        bits, depth = ref.dtype.bits, case.op.shape_mnk[2]
        assert numbers[2] == (0 if swizzle is None else 16 << swizzle.bits)
        for k_tile in range(4):
            start = inner(0, k_tile * depth, 1) * bits // 8
            for row in range(0, rows, 1 if rows < 64 else 5):
                for k in range(depth):
                    assert address(start, numbers, major, bits, row, k) == \
                        whole(row, k_tile * depth + k, 1) * bits // 8, (letter, row, k)
        steps = {role: mo.make_layout(*[mo.make_layout(e, s) for e, s, r in
                                        zip(op.extents, ref.strides, op.roles, strict=True) if r == role] or [1])
                 for role in "mnk"}
        assert [steps["k"](i) for i in range(4)] == [inner(0, i * depth, 0) for i in range(4)]
        along = "m" if letter == "a" else "n"
        apart = rows * (case.groups if letter == "a" else 1)
        assert [steps[along](i) for i in range(case.tiles[side])] == \
            [inner(i * apart, 0, 0) for i in range(case.tiles[side])]
        assert not any(s for s, r in zip(ref.strides, op.roles, strict=True) if r not in (along, "k"))
        assert ref.buffer.space is Space.SHARED


def test_the_facts_of_128_byte_swizzles():
    """K-major: 1024 bytes between 8 rows, 32 to the next k; MN-major: 64 columns of 64 k apart, 1024 bytes to 8 k."""
    along_k = kernels.Case(mo.mma.wgmma(*BF16, 128))
    op, = products(along_k)
    assert op.a_descriptor == op.b_descriptor == (16, 1024, 128)
    assert op.b.strides[op.roles.index("k")] * 2 == 32
    along_n = kernels.Case(mo.mma.wgmma(*BF16, 128, a_major="mn", b_major="mn"))
    op, = products(along_n)
    assert op.b_descriptor == (1024, 2048, 128)
    assert op.b.strides[op.roles.index("k")] * 2 == 4096


# --- what is refused -------------------------------------------------------------------------------------------------


@mo.kernel
def viewed(D: mo.Static, op: mo.Constexpr, operand: mo.Constexpr, layout, dtype: mo.Constexpr):
    mma = mo.make_tiled_mma(op)
    thr = mma.get_slice(mo.thread_idx().x)
    s = mo.shared_array(dtype, layout)
    (thr.partition_fragment_A if operand == "A" else thr.partition_fragment_B)(s)
    D[0] = 1


@pytest.mark.parametrize(("layout", "operand", "says"), [
    ("(64,16):(16,1)", "A", "needs M as (8,m):(8,s) and K as (8,2):(1,l), but s has 64:16 and 16:1"),
    ("(64,16):(1,64)", "A", "contiguous along K"),
    ("Sw<3,3,3> o 0 o (64,64):(1,64)", "A", "with a swizzle of 128 bytes it needs M as (8,m):(64,s) and K as 16:1"),
    ("Sw<2,3,4> o 0 o (64,64):(64,1)", "A", "it knows the swizzles Sw<3,3,3> of 128 bytes, Sw<2,3,3> of 64 bytes"),
    ("(64,(8,2)):(12,(1,768))", "B", "contiguous along K"),
    ("((8,8),(8,2)):((8,68),(1,544))", "B", "the stride byte offset 136 is no multiple of 16"),
])
def test_a9_layouts_that_no_descriptor_describes(layout, operand, says):
    layout = mo.ComposedLayout.parse(layout) if "Sw" in layout else mo.Layout.parse(layout)
    with pytest.raises(TensorError) as failed:
        viewed.trace(np.zeros(1, np.float32), mo.mma.wgmma(*BF16, 64), operand, layout, mo.bfloat16, block=128)
    assert says in str(failed.value)
    assert failed.value.code == "A9"


@mo.kernel
def wrong(D: mo.Static, op: mo.Constexpr, what: mo.Constexpr):
    mma = mo.make_tiled_mma(op)
    thr = mma.get_slice(mo.thread_idx().x)
    atom = mo.smem_layout_atom(mo.bfloat16, "k")
    sA, sB = (mo.shared_array(mo.bfloat16, mo.tile_to_shape(atom, (64, 64))) for _ in range(2))
    A, B = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)
    acc, other = (mma.partition_fragment_C((64, 64)) for _ in range(2))
    if what == "d":
        mo.gemm(mma, other, A, B, acc)
    elif what == "a":
        mo.gemm(mma, mo.make_fragment_like(A), B, acc)
    elif what == "accumulate":
        mo.gemm(mma, A, B, acc, accumulate="yes")
    elif what == "apart":
        mo.gemm(mma, A, B, mo.fragment(mo.make_layout((32, 1, 1), (2, 0, 0)), mo.float32))
    else:
        mo.warpgroup_wait(what)
        mo.gemm(mma, A, B, acc)
    mo.copyto(thr.partition_C(D), acc)


@pytest.mark.parametrize(("what", "kind", "says"), [
    ("d", TensorError, "accumulates in place"), ("a", TensorError, "reads A from shared memory, but"),
    ("accumulate", TensorError, "accumulate='yes' is no bool"),
    ("apart", TensorError, "takes neighbouring registers"), (8, mo.TraceError, "from 0 to 7"),
])
def test_wrong_operands(what, kind, says):
    with pytest.raises(kind, match=says):
        wrong.trace(np.zeros((64, 64), np.float32), mo.mma.wgmma(*BF16, 64), what, block=128)


def test_c6_part_of_a_warpgroup():
    D = np.zeros((64, 64), np.float32)
    with pytest.raises((TensorError, LaunchError)) as failed:
        wrong.trace(D, mo.mma.wgmma(*BF16, 64), 0, block=96)
    assert failed.value.code in ("A10", "C6")


def test_accumulate_is_for_wgmma():
    @mo.kernel
    def plain(D: mo.Static):
        a, b, c = (mo.fragment((1, 1, 1), mo.float32) for _ in range(3))
        mo.gemm(mo.UniversalFMA(mo.float32), a, b, c, accumulate=False)
        D[0] = c[0, 0, 0]

    with pytest.raises(TensorError, match="accumulate=False is for wgmma"):
        plain.trace(np.zeros(1, np.float32), block=1)


@pytest.mark.parametrize("arch", ["sm_80", "sm_100a"])
def test_other_architectures(arch):
    case = kernels.Case(mo.mma.wgmma(*BF16, 64))
    with pytest.raises(mo.UnsupportedError, match="which sm_90a alone has, and is compiled for " + arch):
        kernels.wgmma_kernel.compile(*case.arguments(np.random.default_rng(0)), block=128, arch=arch)
