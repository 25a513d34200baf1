"""ldmatrix and stmatrix: their layouts, the simulator against PTX's figures, what NVRTC makes of them, and refusals."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import matrix_kernels as kernels
import moye as mo
from matrix_kernels import PRODUCTS, ROUND_TRIPS
from moye.atoms.matrix import memory_layout, register_layout
from moye.errors import AlignmentError, DTypeError, LaunchError, LayoutError, TensorError, UnsupportedError
from moye.layout import make_layout, size

OPS = [(make, matrices, transpose, bits) for make in (mo.LdMatrix, mo.StMatrix) for matrices in (1, 2, 4)
       for transpose in (False, True) for bits in (8, 16, 32) if bits == 16 or not transpose]
MNEMONICS = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d\s+)?([A-Z0-9_]+)", re.MULTILINE)


# --- layouts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "matrices", "transpose", "bits"), OPS)
def test_register_layout_is_a_bijection(make, matrices, transpose, bits):
    """Each element of the matrices in one register of one thread, as PTX draws it."""
    layout = register_layout(make(matrices, transpose=transpose), bits)
    row, values = 128 // bits, matrices * 32 // bits
    assert (size(layout, 0), size(layout, 1)) == (32, values)
    table = {(t, v): layout(t, v) for t in range(32) for v in range(values)}
    assert sorted(table.values()) == list(range(8 * matrices * row))
    for (thread, value), element in table.items():
        assert divmod(element, row) == kernels.held(thread, value, bits, transpose)


@pytest.mark.parametrize(("make", "matrices", "transpose", "bits"), OPS)
def test_memory_layout_names_each_row_once(make, matrices, transpose, bits):
    """Thread r gives row r, a run of 16 bytes; threads beyond the rows repeat them."""
    layout = memory_layout(make(matrices, transpose=transpose), bits)
    row, rows = 128 // bits, 8 * matrices
    assert (size(layout, 0), size(layout, 1)) == (32, row)
    named = [layout(t, v) for t in range(rows) for v in range(row)]
    assert named == list(range(rows * row))
    for thread in range(rows, 32):
        assert [layout(thread, v) for v in range(row)] == [layout(thread % rows, v) for v in range(row)]


@pytest.mark.parametrize(("make", "matrices", "transpose", "bits"), OPS)
def test_an_atom_joins_both(make, matrices, transpose, bits):
    """(thread, value) in memory -> (thread, value) in registers, of one element."""
    dtype = {8: mo.uint8, 16: mo.bfloat16, 32: mo.float32}[bits]
    op = make(matrices, transpose=transpose)
    atom = mo.CopyAtom(op, dtype)
    side, other = (atom.source, atom.destination) if make is mo.LdMatrix else (atom.destination, atom.source)
    assert other is None
    memory, registers = memory_layout(op, bits), register_layout(op, bits)
    for thread, value in itertools.product(range(32), range(128 // bits)):
        assert registers(side(thread, value)) == memory(thread, value)


# --- the simulator ---------------------------------------------------------------------------------------------------


def run(case):
    """The arguments after a clean launch under every check."""
    arguments = [x.copy(order="K") if isinstance(x, np.ndarray) else x for x in case.arguments]
    report = mo.check(case.kernel)[1, case.block](*arguments)
    assert report.ok, str(report)
    return arguments


@pytest.mark.slow
@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_round_trip(name):
    """Registers as PTX draws them; back through stmatrix, or plain stores at the rows' places, the tile is itself."""
    case = ROUND_TRIPS[name]
    case.compare(run(case))


@pytest.mark.parametrize("name", PRODUCTS)
def test_product(name):
    """Swizzled shared memory, ldmatrix, retiled registers, tensor cores, stmatrix: equal to NumPy's product."""
    case = PRODUCTS[name]
    case.compare(run(case))


def test_a_wrong_element_is_noticed():
    plain = kernels.round_trip_case(4, False, mo.float16, stmatrix=True)
    with pytest.raises(AssertionError):
        ROUND_TRIPS["x4-trans-float16-stmatrix"].compare(run(plain))


# --- NVRTC -----------------------------------------------------------------------------------------------------------


def instructions(program):
    return MNEMONICS.findall(program.sass)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in ROUND_TRIPS if "-bfloat16-" not in n and "uint8" not in n])
def test_round_trip_compiles(name):
    case = ROUND_TRIPS[name]
    stores = "stmatrix" in name
    program = case.kernel.compile(*case.arguments, block=case.block, arch="sm_90a" if stores else "sm_80")
    assert program.spills == program.stack == 0
    shape = f"matrix.sync.aligned.m8n8.{name[:2]}{'.trans' if 'trans' in name else ''}.shared.b16"
    assert "ld" + shape in program.ptx
    assert ("st" + shape in program.ptx) == stores


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arch"), list(zip([n for n in PRODUCTS if "stmatrix" not in n],
                                                     itertools.cycle(["sm_90a", "sm_80"]))))
def test_products_pack_nothing(name, arch):
    """Registers go from ldmatrix to mma.sync as they are: no permutation, no spill, and no instruction too many."""
    case = PRODUCTS[name]
    program = case.kernel.compile(*case.arguments, block=case.block, arch=arch)
    assert program.spills == program.stack == 0
    found, mma = instructions(program), case.arguments[9]
    assert "PRMT" not in found
    (M, N), K, bits = case.arguments[0].shape, case.arguments[1].shape[1], mma.op.a_dtype.bits
    warps = [size(mma.atom_layout, mode) for mode in (0, 1)]
    products = M * N * K // (warps[0] * warps[1] * int(np.prod(mma.op.shape_mnk)))
    assert found.count("IMMA" if mma.op.a_dtype.is_integer else "HMMA") == products
    matrices = [rows * K * bits // 8 // 128 // count for rows, count in zip((M, N), warps, strict=True)]
    each = [copy.atom.op.matrices for copy in case.arguments[7:9]]
    assert found.count("LDSM") == sum(m // n for m, n in zip(matrices, each, strict=True))


def test_stmatrix_in_an_epilogue():
    case = PRODUCTS["f16-stmatrix"]
    program = case.kernel.compile(*case.arguments, block=case.block, arch="sm_90a")
    assert program.spills == program.stack == 0
    matrices = 128 * 64 * 2 // 128
    assert instructions(program).count("STSM") == matrices // 4 // (case.block // 32)


def test_an_architecture_too_old():
    case = ROUND_TRIPS["x4-float16-stmatrix"]
    with pytest.raises(UnsupportedError) as caught:
        case.kernel.compile(*case.arguments, block=case.block, arch="sm_80")
    assert caught.value.message == "round_trip uses StMatrix(4), which sm_90 and later have, and is compiled for sm_80"


# --- refusals --------------------------------------------------------------------------------------------------------


@mo.kernel
def misused(x, copy, layout, how: mo.Constexpr):
    """One fault, by name."""
    tid = mo.thread_idx().x
    s, t = mo.shared_array(x.dtype, layout), mo.shared_array(x.dtype, layout)
    if tid < mo.size(layout, 0):
        for j in mo.static_range(mo.size(layout, 1)):
            s[tid, j] = 1
    mo.sync_threads()
    thr = copy.get_slice(tid % 32)
    tXsX = thr.partition_S(s)
    regs = mo.fragment((copy.atom.values, 1, 1), x.dtype)
    regs.fill(0)
    if how == "fine":
        mo.copyto(copy, regs, tXsX)
    if how == "from gmem":
        mo.copyto(copy, regs, thr.partition_S(x))
    if how == "to smem":
        mo.copyto(copy, thr.partition_D(t), tXsX)
    if how == "backwards":
        mo.copyto(copy, thr.partition_D(s), regs)
    if how == "predicated":
        mo.copyto(copy, regs, tXsX, pred=tid > 3)
    if how == "half a warp" and tid < 16:
        mo.copyto(copy, regs, tXsX)
    if how == "one by one":
        mo.copyto(copy, mo.fragment((1, 8, 1), x.dtype), tXsX)
    if how == "not alike":
        mo.copyto(copy, mo.fragment((8, 3, 1), x.dtype), tXsX)
    x[tid, 0] = regs[0, 0, 0]


def misuse(how, op=None, layout=None, block=32, kernel=misused):
    op = op or mo.LdMatrix(4)
    layout = layout or make_layout((8 * op.matrices, 8), (8, 1))
    return kernel[1, block](np.zeros((64, 8), np.float16), kernels.one_warp(op, mo.float16), layout, how)


@pytest.mark.parametrize(("how", "op", "layout", "error", "sentence", "hint"), [
    ("from gmem", None, None, TensorError,
     "LdMatrix(4) copies from smem to registers; x lives in gmem and regs in rmem", None),
    ("to smem", None, None, TensorError,
     "LdMatrix(4) copies from smem to registers; tXsX lives in smem and t in smem", None),
    ("backwards", None, None, TensorError,
     "LdMatrix(4) copies from smem to registers; regs lives in rmem and s in smem", None),
    ("fine", mo.StMatrix(4), None, TensorError,
     "StMatrix(4) copies from registers to smem; tXsX lives in smem and regs in rmem", None),
    ("predicated", None, None, TensorError,
     "CopyAtom(LdMatrix(4), float16) is executed by whole warps and takes no predicate", None),
    ("one by one", None, None, TensorError,
     "LdMatrix(4) takes 8 float16 of a register tensor per thread, but the first mode of its layout (1,8,1):(0,1,0) "
     "has 1", "partition it by the tiled copy, and registers of an MMA by its retile_D (or retile_S)"),
    ("not alike", None, None, TensorError,
     "a register tensor (8,3,1):(1,8,0) takes 3 times LdMatrix(4), but tXsX (((2,4),1),1,1):(((1,2),0),0,0) 1", None),
    ("fine", None, make_layout((32, 8)), TensorError,
     "LdMatrix(4) moves rows of 8 contiguous float16, but a thread's row of tXsX is 8:32: its layout is "
     "(((2,4),1),1,1):(((32,64),0),0,0)",
     "the tile is contiguous along the other mode: transpose=True (16-bit elements alone)"),
    ("fine", mo.LdMatrix(4, transpose=True), make_layout((32, 8)), TensorError,
     "LdMatrix(4, transpose=True) moves rows of 8 contiguous float16",
     "the tile is contiguous along the other mode: transpose=False"),
    ("fine", None, make_layout((32, 8), (12, 1)), AlignmentError,
     "LdMatrix(4) needs addresses that are multiples of 16 bytes, but tXsX with layout "
     "(((2,4),1),1,1):(((1,2),0),0,0) in s of layout (32,8):(12,1) is misaligned: the stride 12 of s is 24 bytes",
     "pad by 8: a stride of 16 instead of 12"),
    ("fine", None, mo.ComposedLayout(mo.Swizzle(2, 2, 3), 0, make_layout((32, 8), (8, 1))), AlignmentError,
     "is misaligned: its swizzle Sw<2,2,3> keeps only 8 bytes together", "use a swizzle whose base is at least 3"),
])
def test_refused(how, op, layout, error, sentence, hint):
    with pytest.raises(error) as caught:
        misuse(how, op, layout)
    assert sentence in caught.value.message
    assert "\n" not in caught.value.message
    if hint is not None:
        assert caught.value.hint == hint


@pytest.mark.parametrize(("make", "sentence"), [
    (lambda: mo.LdMatrix(3), "LdMatrix(3): ldmatrix moves 1, 2 or 4 matrices, not 3"),
    (lambda: mo.StMatrix(8), "StMatrix(8): stmatrix moves 1, 2 or 4 matrices, not 8"),
    (lambda: mo.CopyAtom(mo.LdMatrix(4), mo.float64), "LdMatrix(4) moves elements of 8, 16 or 32 bits, not 64"),
    (lambda: mo.CopyAtom(mo.StMatrix(2, transpose=True), mo.int8),
     "StMatrix(2, transpose=True) moves elements of 16 bits, not 8"),
    (lambda: mo.CopyAtom(mo.LdMatrix(1, transpose=True), mo.tfloat32),
     "LdMatrix(1, transpose=True) moves elements of 16 bits, not 32"),
])
def test_what_matrices_cannot_be(make, sentence):
    with pytest.raises(DTypeError) as caught:
        make()
    assert caught.value.message == sentence


def test_too_few_threads():
    with pytest.raises(LayoutError) as caught:
        mo.make_tiled_copy(mo.CopyAtom(mo.LdMatrix(4), mo.float16), make_layout((4, 4)), make_layout((8, 8)))
    assert caught.value.message == "make_tiled_copy: CopyAtom(LdMatrix(4), float16) is executed by 32 threads " \
                                   "together, but the thread layout (4,4):(1,4) has 16"


def test_half_a_warp_is_a_finding():
    report = misuse("half a warp", kernel=mo.check(misused))
    assert [finding.code for finding in report.findings] == ["C6"]
    assert "but only threads 0-15 of warp 0 of block (0, 0, 0) execute it" in str(report)
    assert "let the condition around it be the same for the whole warp" in str(report)
    assert misuse("fine", kernel=mo.check(misused)).ok


def test_a_block_of_part_of_a_warp():
    with pytest.raises(LaunchError) as caught:
        misuse("fine", block=48)
    assert caught.value.code == "C6"
    assert caught.value.message == "LdMatrix(4) is executed by whole warps, but warp 1 of a block of (48, 1, 1) has " \
                                   "16 threads of 32"


@mo.kernel
def incomplete(x, copy):
    """Row 9 of the tile is never written."""
    tid = mo.thread_idx().x
    s = mo.shared_array(x.dtype, mo.make_layout((32, 8), (8, 1)))
    if tid != 9:
        for j in mo.static_range(8):
            s[tid, j] = 1
    mo.sync_threads()
    regs = mo.fragment((8, 1, 1), x.dtype)
    mo.copyto(copy, regs, copy.get_slice(tid).partition_S(s))
    x[tid, 0] = regs[0, 0, 0]


def test_a_row_that_nobody_wrote_is_a_finding():
    """It is the thread that names the row, whoever gets its values."""
    report = mo.check(incomplete)[1, 32](np.zeros((32, 8), np.float16), kernels.one_warp(mo.LdMatrix(4), mo.float16))
    assert not report.ok
    assert "is read by thread 9" in str(report)
    assert "s(9, 0)" in str(report)
