"""Every tensor-core operation: its layouts against the formulas of the PTX ISA, its product against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import mma_kernels as kernels
import moye as mo
from ops_kernels import CASES, TOLERANCE, difference
from tensor.test_tiled import inside

ALL = list(mo.mma.ALL.values())
WARP = [op for op in ALL if op.threads == 32]
QUAD = [op for op in ALL if op.threads == 8]

# --- layouts: the PTX ISA's formulas, written out --------------------------------------------------------------------

# (M, K, bits of an element) -> (row, column) of value i of A; g = lane / 4, t = lane % 4
A_FRAGMENTS = {
    (8, 4, 64): lambda g, t, i: (g, t),
    (16, 4, 64): lambda g, t, i: (g + 8 * (i % 2), t),
    (16, 8, 64): lambda g, t, i: (g + 8 * (i % 2), t + 4 * (i // 2)),
    (16, 16, 64): lambda g, t, i: (g + 8 * (i % 2), t + 4 * (i // 2)),
    (16, 4, 32): lambda g, t, i: (g if i == 0 else g + 8, t),
    (16, 8, 32): lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4),
    (16, 8, 16): lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1)),
    (16, 16, 16): lambda g, t, i: (g if i in (0, 1, 4, 5) else g + 8, t * 2 + (i & 1) + (8 if i >= 4 else 0)),
    (8, 16, 8): lambda g, t, i: (g, t * 4 + i),
    (16, 16, 8): lambda g, t, i: (g if i < 4 else g + 8, t * 4 + (i & 3)),
    (16, 32, 8): lambda g, t, i: (g if i < 4 or 8 <= i < 12 else g + 8, t * 4 + (i & 3) + (16 if i >= 8 else 0)),
    (8, 32, 4): lambda g, t, i: (g, t * 8 + i),
    (16, 32, 4): lambda g, t, i: (g if i < 8 else g + 8, t * 8 + (i & 7)),
    (16, 64, 4): lambda g, t, i: (g if i < 8 or 16 <= i < 24 else g + 8, t * 8 + (i & 7) + (32 if i >= 16 else 0)),
    (8, 128, 1): lambda g, t, i: (g, t * 32 + i),
    (16, 128, 1): lambda g, t, i: (g if i < 32 else g + 8, t * 32 + (i & 31)),
    (16, 256, 1): lambda g, t, i: (g if i < 32 or 64 <= i < 96 else g + 8,
                                   t * 32 + (i & 31) + (128 if i >= 64 else 0)),
}
# (K, bits of an element) -> row (k) of value i of B; the column (n) is g
B_FRAGMENTS = {
    (4, 64): lambda t, i: t, (8, 64): lambda t, i: t + 4 * i, (16, 64): lambda t, i: t + 4 * i,
    (4, 32): lambda t, i: t, (8, 32): lambda t, i: t if i == 0 else t + 4,
    (8, 16): lambda t, i: t * 2 + i, (16, 16): lambda t, i: t * 2 + (i & 1) + (8 if i >= 2 else 0),
    (16, 8): lambda t, i: t * 4 + i, (32, 8): lambda t, i: t * 4 + (i & 3) + (16 if i >= 4 else 0),
    (32, 4): lambda t, i: t * 8 + i, (64, 4): lambda t, i: t * 8 + (i & 7) + (32 if i >= 8 else 0),
    (128, 1): lambda t, i: t * 32 + i, (256, 1): lambda t, i: t * 32 + (i & 31) + (128 if i >= 32 else 0),
}


def quad_pair(op, lane, i):
    """(A, B, C) coordinates of value i in the lanes 0 to 3 and 16 to 19 (the first quad-pair of a warp)."""
    low = lane < 16
    along_k = (lane % 4 if low else lane % 4 + 4, i)
    along_rows = (i if low else i + 4, lane % 4)
    c = (lane % 4 if low else lane % 4 + 4, i)
    if op.c_dtype == mo.float32:
        x = (lane & 1) + (i & 2)
        c = (x if low else x + 4, (i & 4) + (lane & 2) + (i & 1))
    return along_k if op.name[-2] == "T" else along_rows, along_k if op.name[-1] == "N" else along_rows, c


def operands(op):
    m, n, k = op.shape_mnk
    return (op.a_layout, (m, k), op.a_dtype), (op.b_layout, (n, k), op.b_dtype), (op.c_layout, (m, n), op.c_dtype)


@pytest.mark.parametrize("op", ALL, ids=str)
def test_layouts_are_bijections(op):
    """(thread, value) takes each element of A, B and C once, in whole registers."""
    for layout, (rows, columns), dtype in operands(op):
        values = mo.size(layout, 1)
        assert mo.size(layout, 0) == op.threads
        assert values * op.threads == rows * columns
        assert values * dtype.bits % 32 == 0
        assert sorted(layout(t, v) for t in range(op.threads) for v in range(values)) == list(range(rows * columns))


@pytest.mark.slow
@pytest.mark.parametrize("op", WARP, ids=str)
def test_layouts_are_the_ptx_isas(op):
    m, _, k = op.shape_mnk
    a = A_FRAGMENTS[m, k, op.a_dtype.bits]
    b = B_FRAGMENTS[k, op.b_dtype.bits]
    for lane in range(32):
        g, t = lane // 4, lane % 4
        for i in range(mo.size(op.a_layout, 1)):
            row, column = a(g, t, i)
            assert op.a_layout(lane, i) == row + m * column
        for i in range(mo.size(op.b_layout, 1)):
            assert op.b_layout(lane, i) == g + 8 * b(t, i)
        for i in range(mo.size(op.c_layout, 1)):
            row, column = g if i < 2 else g + 8, t * 2 + (i & 1)
            assert op.c_layout(lane, i) == row + m * column


@pytest.mark.parametrize("op", QUAD, ids=str)
def test_quad_pairs_are_the_ptx_isas(op):
    lanes = [op.lanes(t) for t in range(8)]
    assert lanes == [0, 1, 2, 3, 16, 17, 18, 19]
    for thread, lane in enumerate(lanes):
        for layout, at in zip((op.a_layout, op.b_layout, op.c_layout), range(3), strict=True):
            for i in range(mo.size(layout, 1)):
                row, column = quad_pair(op, lane, i)[at]
                assert layout(thread, i) == row + 8 * column


def test_names_say_what_the_records_are():
    assert len(ALL) == 87
    for name, op in mo.mma.ALL.items():
        assert op.name == name
        assert getattr(mo.mma, name) is op
        assert name in dir(mo.mma)
        assert f"SM{op.arch}_{op.shape_mnk[0]}x8x{op.shape_mnk[2]}_" in name
        assert op.saturate == name.endswith("_SATURATE") == (".satfinite" in op.ptx)
        assert (op.product != "mul") == name.endswith("POPC") == op.ptx.endswith(".popc")
        assert op.c_dtype == op.d_dtype


@pytest.mark.slow
@pytest.mark.parametrize("op", [*QUAD, mo.mma.SM80_16x8x16_F32F16F16F32_TN], ids=str)
@pytest.mark.parametrize("atoms", ["(2,2):(1,2)", "(4,2):(2,1)", "(2,4,2):(1,2,8)"])
def test_threads_of_tiled_mmas(op, atoms):
    """Every thread of whole warps has a part of C, and together they hold each element once per layer of K."""
    tiled = mo.make_tiled_mma(op, mo.Layout.parse(atoms))
    threads = op.threads * mo.size(tiled.atom_layout)
    assert mo.size(tiled.layout) == threads
    assert sorted(tiled.layout(i) for i in range(threads)) == list(range(threads))
    shape = (2 * tiled.tile_size(0), tiled.tile_size(1))
    seen = []
    with inside():
        tile = mo.shared_array(mo.float32, shape)
        for thread in range(threads):
            part = tiled.get_slice(thread).partition_C(tile)
            seen += [part.offset + part.layout(i) for i in range(mo.size(part))]
    layers = mo.size(tiled.atom_layout, 2)
    assert sorted(seen) == sorted(list(range(shape[0] * shape[1])) * layers)


# --- products --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("op", ALL, ids=str)
def test_one_instruction(op, order):
    """Rounded once from the exact sum; integers exactly."""
    args = kernels.one_tile_arguments(op, np.random.default_rng(3), order)
    report = mo.check(kernels.one_tile)[1, 32](*args)
    assert {finding.code for finding in report.findings} == ({"A11"} if kernels.overflows(args) else set()), str(report)
    wanted = kernels.expected(args)[0]
    if op.d_dtype == mo.float64:
        assert difference(args[0], wanted) <= TOLERANCE["float64"]
    else:
        assert np.array_equal(args[0], wanted)


def test_tf32_reads_the_upper_19_bits():
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((n, 8)).astype(np.float32) for n in (16, 8))
    cut_A, cut_B = ((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (A, B))
    D, E = np.zeros((16, 8), np.float32), np.zeros((16, 8), np.float32)
    mma = mo.make_tiled_mma(mo.mma.SM80_16x8x8_F32TF32TF32F32_TN)
    kernels.raw_tf32[1, 32](D, A, B, mma)
    kernels.raw_tf32[1, 32](E, cut_A, cut_B, mma)
    assert np.array_equal(D, E)
    assert np.array_equal(D, (cut_A.astype(np.float64) @ cut_B.astype(np.float64).T).astype(np.float32))
    assert not np.array_equal(D, (A.astype(np.float64) @ B.astype(np.float64).T).astype(np.float32))


def test_sums_round_at_every_instruction():
    """1 + 2**-24 + 2**-24: lost one at a time, kept within one instruction."""
    mma = mo.make_tiled_mma(mo.mma.SM80_16x8x8_F32F16F16F32_TN)
    for places, wanted in (((0, 8), 1.0), ((0, 1), 1.0 + 2.0**-23)):
        A, B = np.zeros((32, 16), np.float16), np.zeros((16, 16), np.float16)
        A[:, places], B[:, places] = 2.0**-12, 2.0**-12
        D, C = np.zeros((32, 16), np.float32), np.ones((32, 16), np.float32)
        kernels.mma_kernel[1, 32](D, A, B, C, mma, 16)
        assert (np.float32(wanted) == D).all()


@pytest.mark.parametrize("op", [mo.mma.SM70_8x8x4_F32F16F16F32_TN, mo.mma.SM80_16x8x8_F32F16F16F32_TN], ids=str)
def test_half_a_warp_is_c6(op):
    mma = mo.make_tiled_mma(op, mo.make_layout((2, 2) if op.threads == 8 else (1, 1)))

    @mo.kernel
    def kernel(mma, n):
        tid = mo.thread_idx().x
        thr = mma.get_slice(tid)
        tile = mo.shared_array(mo.float16, (mma.tile_size(0), mma.tile_size(2)))
        a, b = thr.make_fragment_A(thr.partition_A(tile)), mo.fragment((mo.size(op.b_layout, 1), 1), mo.float16)
        c = mma.partition_fragment_C((mma.tile_size(0), mma.tile_size(1)))
        a.fill(1)
        b.fill(1)
        c.fill(0)
        if tid < n:
            mo.gemm(mma, a[:, :, 0], b, c)
        if c[0, 0, 0] > 1000:
            mo.sync_warp()

    assert [f.code for f in mo.check(kernel)[1, 32](mma, 16).findings] == ["C6"]
    assert mo.check(kernel)[1, 32](mma, 32).ok


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SM80_16x8x16_F32F16F16F32_TN", "SM80_16x8x32_S32S8S8S32_TN",
                                  "SM80_16x8x64_S32S4U4S32_TN", "SM70_8x8x4_F16F16F16F16_TT"])
def test_operands_in_shared_memory(name):
    op = mo.mma.ALL[name]
    mma, rng = kernels.tiled(op), np.random.default_rng(1)
    M, N, K = 2 * mma.tile_size(0), 2 * mma.tile_size(1), 4 * op.shape_mnk[2]
    A, B = kernels.data(rng, (M, K), op.a_dtype), kernels.data(rng, (N, K), op.b_dtype)
    D = np.zeros((M, N), kernels.numpy_of(op.d_dtype))
    report = mo.check(kernels.staged)[1, 64](D, A, B, mma)
    assert report.ok, str(report)
    wanted = kernels.expected([D, A, B, np.zeros_like(D), mma])[0]
    if op.d_dtype.is_integer:
        assert np.array_equal(D, wanted)
    else:
        assert difference(D, wanted) <= 10 * TOLERANCE[op.d_dtype.name]
    assert kernels.staged.compile(D, A, B, mma, block=64, arch="sm_80").spills == 0


# --- code ------------------------------------------------------------------------------------------------------------


# The first of each shape and width: ptxas makes the others of the same instruction, and nvdisasm takes long to start.
DISASSEMBLED = {(op.arch, op.shape_mnk, op.a_dtype.bits): op for op in reversed(ALL)
                if op.arch >= 80 and not op.saturate and op.a_dtype == op.b_dtype}.values()


@pytest.mark.slow
@pytest.mark.parametrize("op", ALL, ids=str)
def test_compiles_for_its_own_architecture(op):
    arch = f"sm_{max(op.arch, 80)}"
    case = CASES[f"mma-{op}"]
    compiled = case.kernel.compile(*case.arguments(1), block=case.block, arch=arch)
    assert compiled.spills == 0
    assert compiled.source.count(op.ptx) == 1
    if op in DISASSEMBLED:                              # an instruction, no function in its stead
        assert "MMA" in compiled.sass and "CALL" not in compiled.sass


@pytest.mark.slow
@pytest.mark.parametrize("name, arch", [
    ("SM80_16x8x16_F32F16F16F32_TN", "sm_80"), ("SM80_16x8x16_F16F16F16F16_TN", "sm_80"),
    ("SM80_16x8x16_F32BF16BF16F32_TN", "sm_90a"), ("SM80_16x8x32_S32S8U8S32_TN", "sm_90a"),
    ("SM89_16x8x32_F32E4M3E5M2F32_TN", "sm_89"), ("SM80_16x8x8_F32TF32TF32F32_TN", "sm_80")])
def test_nothing_is_packed_between_loads_and_products(name, arch):
    """Operands that a loop carries stay in their words: no byte is moved."""
    case, op = CASES[f"mma-{name}"], mo.mma.ALL[name]
    D, A, B, _, mma, bK = case.arguments(1)
    if op.a_dtype == mo.tfloat32:
        A, B = (mo.TensorLike(mo.tfloat32, x.shape, (x.shape[1], 1)) for x in (A, B))
    compiled = kernels.buffered.compile(D, A, B, mma, bK, block=case.block, arch=arch)
    assert compiled.spills == 0
    assert "MMA" in compiled.sass
    assert "PRMT" not in compiled.sass


def test_buffered_fragments_in_the_simulator():
    case = CASES["mma-SM80_16x8x16_F16F16F16F16_TN"]
    D, A, B, C, mma, bK = case.arguments(1)
    rows = len(D) // kernels.BLOCKS
    report = mo.check(kernels.buffered)[1, case.block](D[:rows], A[:rows], B, mma, bK)
    assert report.ok, str(report)
    assert difference(D[:rows], kernels.expected([D[:rows], A[:rows], B, 0 * C[:rows], mma])[0]) < 0.04


SCATTERED = ["SM80_16x8x16_F16F16F16F16_TN", "SM80_16x8x32_S32S8U8S32_TN", "SM80_16x8x8_F32TF32TF32F32_TN",
             "SM80_16x8x8_F32BF16BF16F32_TN"]


@pytest.mark.parametrize("name", SCATTERED)
def test_values_that_do_not_lie_side_by_side(name):
    op = mo.mma.ALL[name]
    D, A, B, C, mma = kernels.one_tile_arguments(op, np.random.default_rng(5))
    report = mo.check(kernels.scattered)[1, 32](D, A, B, C, mma)
    leaves = kernels.overflows([D, A, B, C, mma])
    assert {finding.code for finding in report.findings} == ({"A11"} if leaves else set()), str(report)
    assert np.array_equal(D, kernels.expected([D, A, B, C, mma])[0])
    compiled = kernels.scattered.compile(D, A, B, C, mma, block=32, arch="sm_80")
    assert compiled.spills == 0
    assert ("pack(" in compiled.source) == (op.a_dtype.bits < 32)
    assert ("unsigned w" in compiled.source) == (op.d_dtype.bits < 32)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SCATTERED, "SM70_8x8x4_F16F16F16F16_NT"])
def test_columns_compile(name):
    """A and B along M and N: values of a word come from far apart."""
    args = kernels.one_tile_arguments(mo.mma.ALL[name], np.random.default_rng(5), "F")
    compiled = kernels.one_tile.compile(*args, block=32, arch="sm_80")
    assert compiled.spills == 0
    assert "LDL" not in compiled.sass


# --- errors ----------------------------------------------------------------------------------------------------------


def test_find():
    names = [str(op) for op in mo.mma.find(mo.bfloat16, mo.bfloat16, mo.float32)]
    assert names == ["SM80_16x8x16_F32BF16BF16F32_TN", "SM80_16x8x8_F32BF16BF16F32_TN"]
    (found,) = mo.mma.find(mo.float16, mo.float16, mo.float32, shape=(16, 8, 8), arch="sm_75")
    assert found is mo.mma.SM75_16x8x8_F32F16F16F32_TN
    assert mo.mma.find(mo.int8, mo.int8, mo.int32, arch="sm_90a")[0] is mo.mma.SM80_16x8x32_S32S8S8S32_TN
    with pytest.raises(mo.DTypeError, match=r"no MMA operation of A float16, B bfloat16 and C float32; there are "
                                            r".*bfloat16, bfloat16, float32"):
        mo.mma.find(mo.float16, mo.bfloat16, mo.float32)
    with pytest.raises(mo.DTypeError, match=r"A int8, B int8 and C float32; there are int8, int8, int32$"):
        mo.mma.find(mo.int8, mo.int8, mo.float32)
    with pytest.raises(mo.DTypeError, match=r"on sm_75; there are SM80_16x8x4_F32TF32TF32F32_TN \(16, 8, 4\) from"):
        mo.mma.find(mo.tfloat32, mo.tfloat32, mo.float32, arch=75)
    with pytest.raises(mo.DTypeError, match=r"of shape \(16, 8, 4\) on sm_80; there are "
                                            r".*\(8, 8, 4\) from sm_80 on, .*\(16, 8, 4\) from sm_90 on"):
        mo.mma.find(mo.float64, mo.float64, mo.float64, shape=(16, 8, 4), arch="sm_80")
    with pytest.raises(AttributeError, match="no MMA operation 'SM80_1x1x1'"):
        _ = mo.mma.SM80_1x1x1


def test_an_architecture_that_is_too_old():
    case = CASES["mma-SM89_16x8x32_F32E4M3E5M2F32_TN"]
    with pytest.raises(mo.UnsupportedError, match=r"mma_kernel uses SM89_16x8x32_F32E4M3E5M2F32_TN, which sm_89 and "
                                                  r"later have, and is compiled for sm_80\n(.*\n)*hint: sm_80 has "
                                                  r"operations on float16 x float16 \+ float16, "):
        case.kernel.compile(*case.arguments(1), block=case.block, arch="sm_80")


def test_quad_pairs_fill_warps():
    with pytest.raises(mo.LayoutError, match=r"8 threads spread over a warp, and the atom layout \(2,1\):\(1,0\) has "
                                             r"2 of them\nhint: use a multiple of 4 atoms"):
        mo.make_tiled_mma(mo.mma.SM70_8x8x4_F16F16F16F16_TN, mo.make_layout((2, 1)))


def test_a_tile_that_the_atom_does_not_divide():
    mma = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN, mo.make_layout((2, 1)))
    with inside(), pytest.raises(mo.TensorError, match=r"partition_A\(.*\): extent 48 of mode 0 of \(48,16\):\(1,48\) "
                                                       r"is no multiple of 32, which TiledMMA\(SM80_16x8x16_"):
        mma.get_slice(0).partition_A(mo.shared_array(mo.float16, (48, 16)))


def test_elements_narrower_than_a_byte():
    with inside():
        a = mo.fragment((8, 2), mo.int4)
        words = mo.recast(a, mo.uint32)
        assert str(words.layout) == "(1,2):(1,1)" and words.dtype is mo.uint32
        for access in (lambda: a[0, 0], lambda: a.fill(0), lambda: a.reduce("add"), lambda: a.to(mo.int8)):
            with pytest.raises(mo.DTypeError, match=r"int4: elements narrower than a byte .*\n(.*\n)*hint: .*uint32"):
                access()
        with pytest.raises(mo.DTypeError, match=r"shared_array of uint4: .*\n(.*\n)*hint: .*mo.recast\(x, mo.uint4\)"):
            mo.shared_array(mo.uint4, 64)
    ml_dtypes = pytest.importorskip("ml_dtypes")
    case = CASES["mma-SM80_16x8x32_S32S4S4S32_TN"]
    args = case.arguments(1)
    args[1] = np.zeros((64, 64), ml_dtypes.int4)
    with pytest.raises(mo.ArgumentError, match=r"dtype int4 cannot be an argument .* a byte\nhint: pack 8 "):
        case.launch(args, 1)


# --- pictures --------------------------------------------------------------------------------------------------------


def test_pictures_show_the_lanes_of_quad_pairs():
    """The 8 threads of an sm_70 operation under their numbers in the warp; every operation can be drawn and printed."""
    shown = str(mo.draw(mo.mma.SM70_8x8x4_F32F16F16F32_TN))
    assert "T19" in shown and "T16" in shown and "T4" not in shown
    for op in (mo.mma.SM80_16x8x64_S32S4U4S32_TN, mo.mma.SM80_8x8x128_S32U1U1S32_TN_XORPOPC):
        assert str(op) in str(mo.draw(op))
