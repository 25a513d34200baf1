"""copyto, gemm, fill and elementwise operations: what they move, how wide, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from ir_interpreter import run
from moye.ir import ops
from moye.runtime.arrays import TensorLike
from tensor.test_views import launch


def copies(func):
    return [op for op in func.body.walk() if isinstance(op, ops.Copy)]


# --- widths ----------------------------------------------------------------------------------------------------------


@mo.kernel
def from_smem(out, layout, dtype: mo.Constexpr, start: mo.Constexpr, count: mo.Constexpr):
    s = mo.shared_array(dtype, layout)
    view = mo.tile(s, (count,), (start,), ragged=True) if mo.rank(s) == 1 else s[:, start]
    f = mo.make_fragment_like(view)
    mo.copyto(f, view)
    out[0] = f.reduce("add")


WIDTHS = [  # layout, dtype, index, count -> elements at a time
    ("(32):(1)", mo.float32, 0, 8, 4), ("(32):(1)", mo.float32, 1, 8, 4), ("(32):(1)", mo.float32, 1, 6, 2),
    ("(32):(1)", mo.float32, 1, 3, 1), ("(32):(1)", mo.float16, 1, 8, 8), ("(32):(1)", mo.float64, 1, 4, 2),
    ("(32):(1)", mo.uint8, 1, 16, 16), ("(32):(1)", mo.uint8, 1, 4, 4), ("(32):(2)", mo.float32, 0, 8, 1),
    ("(8,4):(1,8)", mo.float32, 1, 0, 4), ("(8,4):(1,10)", mo.float32, 1, 0, 2), ("(8,4):(1,9)", mo.float32, 1, 0, 1),
    ("(8,4):(4,1)", mo.float32, 1, 0, 1), ("(6,4):(1,8)", mo.float32, 2, 0, 2),
]


@pytest.mark.parametrize("layout, dtype, start, count, width", WIDTHS, ids=str)
def test_plain_copies_are_as_wide_as_proven(layout, dtype, start, count, width):
    func = from_smem.trace(np.zeros(1), mo.Layout.parse(layout), dtype, start, count, block=1)
    assert [op.width for op in copies(func)] == [width]


@pytest.mark.parametrize("base, width", [(0, 1), (1, 2), (2, 4), (3, 4)])
def test_a_swizzle_keeps_runs_together(base, width):
    layout = mo.ComposedLayout(mo.Swizzle(2, base, 3), 0, mo.make_layout((8, 8)))

    @mo.kernel
    def kernel(x, y, layout):
        s = mo.shared_array(mo.float32, layout)
        for j in mo.static_range(8):
            mo.copyto(s[:, j], x[:, j])
        for j in mo.static_range(8):
            mo.copyto(y[:, j], s[:, j])

    x = np.asfortranarray(np.arange(64, dtype=np.float32).reshape(8, 8))
    y = np.zeros_like(x)
    kernel.signature.roles.update(x="static", y="static")
    func = kernel.trace(x, y, layout, block=1)
    assert {op.width for op in copies(func)} == {width}
    run(func, [x, y])
    assert (x == y).all()


@pytest.mark.parametrize("align, stride, width", [(16, 8, 4), (8, 8, 2), (4, 8, 1), (16, 10, 2), (16, 9, 1)])
def test_global_copies_follow_the_specialisation(align, stride, width):
    @mo.kernel
    def kernel(x, y):
        f = mo.fragment((8,), mo.float32)
        tile = mo.tile(x, (8, 1), (0, mo.block_idx().x))
        mo.copyto(f, tile[:, 0])
        mo.copyto(y, f)

    spec = TensorLike(mo.float32, (8, 4), (1, stride), align=align)
    out = TensorLike(mo.float32, (8,), (1,))
    kernel.signature.roles["y"] = "static"
    assert [op.width for op in copies(kernel.trace(spec, out, block=1))] == [width, 4]


def test_different_mode_structure():
    """(8, 4) from ((2, 4), (2, 2)): the common refinement; values arrive where they belong."""
    inner = mo.Layout.parse("((2,4),(2,2)):((4,8),(1,2))")

    @mo.kernel
    def kernel(x, y, inner):
        s = mo.shared_array(mo.float32, inner)
        mo.copyto(s, x)
        mo.copyto(y, s)

    kernel.signature.roles.update(x="static", y="static")
    x = np.asfortranarray(np.arange(32, dtype=np.float32).reshape(8, 4))
    for order in "FC":
        y = np.zeros((8, 4), np.float32, order=order)
        launch(kernel, x, y, inner)
        assert (x == y).all()


def test_shapes_that_do_not_fit():
    @mo.kernel
    def kernel(x, a: mo.Constexpr, b: mo.Constexpr):
        mo.copyto(mo.shared_array(mo.float32, a), mo.shared_array(mo.float32, b))

    for a, b in (((8, 4), (8, 2)), ((6, 4), (4, 6)), ((8,), (4, 3))):
        with pytest.raises(mo.TensorError):
            kernel.trace(np.zeros(1), a, b, block=1)
    with pytest.raises(mo.TensorError, match="has 1 elements"):
        kernel.trace(np.zeros(1), (1,), (8,), block=1)


def test_dtype_conversion_everywhere():
    @mo.kernel
    def kernel(x, y, z):
        s = mo.shared_array(mo.float64, (8,))
        f = mo.fragment((8,), mo.int32)
        mo.copyto(s, x)                             # int32 global -> float64 shared
        mo.copyto(f, s)                             # -> int32 registers
        mo.copyto(y, s)                             # -> float32 global
        mo.copyto(z, f)                             # -> int64 global

    kernel.signature.roles.update(x="static", y="static", z="static")
    x, y, z = np.arange(8, dtype=np.int32) - 3, np.zeros(8, np.float32), np.zeros(8, np.int64)
    launch(kernel, x, y, z)
    assert (y == x).all() and (z == x).all()


# --- predicates ------------------------------------------------------------------------------------------------------


def test_predicated_copies():
    @mo.kernel
    def kernel(x, y, z, n):
        f = mo.fragment((8,), mo.float32)
        f.fill(-1)
        p = mo.fragment((8,), mo.bool)
        for i in mo.static_range(8):
            p[i] = i < n
        mo.copyto(f, x, pred=p)
        mo.copyto(y, f)
        g = mo.fragment((8,), mo.int32)
        g.fill(7)
        mo.copyto(g, x, pred=p)                     # converting: what is not copied stays
        mo.copyto(z, g, pred=n > 0)

    kernel.signature.roles.update(x="static", y="static", z="static")
    for n in (0, 3, 8):
        x, y, z = np.arange(8, dtype=np.float32) + 10, np.zeros(8, np.float32), np.zeros(8, np.int32)
        launch(kernel, x, y, z, n)
        keep = np.arange(8) < n
        assert (y == np.where(keep, x, -1)).all()
        assert (z == (np.where(keep, x, 7) if n else 0)).all()


def test_a_predicate_that_differs_within_an_access_prevents_it():
    @mo.kernel
    def kernel(x, n, size: mo.Constexpr):
        f, p = mo.fragment((8, 2), mo.float32), mo.fragment(size, mo.bool)
        p.fill(True)
        mo.copyto(f, x, pred=p)
        x[0, 0] = f.reduce("add")

    kernel.signature.roles["x"] = "static"
    x = np.zeros((8, 2), np.float32, order="F")
    assert [op.width for op in copies(kernel.trace(x, 1, (8, 2), block=1))] == [1]
    assert [op.width for op in copies(kernel.trace(x, 1, (1, 2), block=1))] == [4]


# --- atoms -----------------------------------------------------------------------------------------------------------


def test_the_misaligned_case_of_the_manual():
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.float64), mo.float32), mo.make_layout((32, 8)),
                              mo.make_layout((2, 1)))

    @mo.kernel
    def kernel(A, copy, sA_layout):
        sA = mo.shared_array(A.dtype, sA_layout)
        gA = mo.tile(A, (128, 8), (mo.block_idx().x, 0))
        thr = copy.get_slice(mo.thread_idx().x)
        mo.copyto(copy, thr.partition_D(sA), thr.partition_S(gA))

    A = TensorLike(mo.float32, (256, 64))
    kernel.trace(A, copy, mo.make_layout((128, 8), (1, 130)), block=256)
    with pytest.raises(mo.AlignmentError) as caught:
        kernel.trace(A, copy, mo.make_layout((128, 8), (1, 129)), block=256)
    text = str(caught.value)
    assert "multiples of 8 bytes" in text and "sA of layout (128,8):(1,129)" in text
    assert "the stride 129 of sA is 516 bytes" in text
    assert "hint: pad by 2: a stride of 130 instead of 129" in text
    with pytest.raises(mo.TensorError, match="A is row-major: pass it column-major"):
        kernel.trace(TensorLike(mo.float32, (256, 64), (64, 1)), copy, mo.make_layout((128, 8), (1, 130)), block=256)
    with pytest.raises(mo.AlignmentError, match="hint: pass an A whose strides are multiples of 2 elements"):
        kernel.trace(TensorLike(mo.float32, (256, 64), (1, 257)), copy, mo.make_layout((128, 8), (1, 130)), block=256)
    with pytest.raises(mo.AlignmentError, match="hint: pass an A whose data pointer is a multiple of 8"):
        kernel.trace(TensorLike(mo.float32, (256, 64), align=4), copy, mo.make_layout((128, 8), (1, 130)), block=256)


def test_asynchronous_copies_go_from_global_to_shared():
    @mo.kernel
    def kernel(x):
        s = mo.shared_array(mo.float32, (8,))
        mo.copyto(mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32), x, s)

    kernel.signature.roles["x"] = "static"
    with pytest.raises(mo.TensorError, match="from gmem to smem"):
        kernel.trace(np.zeros(8, np.float32), block=1)


def test_copyto_checks_its_arguments():
    @mo.kernel
    def kernel(x, case: mo.Constexpr):
        s = mo.shared_array(mo.float32, (8,))
        if case == 0:
            mo.copyto(s)
        elif case == 1:
            mo.copyto("copy", s, s)
        else:
            mo.copyto(mo.CopyAtom(mo.UniversalCopy(mo.float64), mo.float64), s, s)

    for case, text in ((0, "copyto takes"), (1, "no tiled copy"), (2, "holds float32")):
        with pytest.raises(mo.MoyeError, match=text):
            kernel.trace(np.zeros(8), case, block=1)


# --- gemm ------------------------------------------------------------------------------------------------------------


@mo.kernel
def product(a, b, c, where: mo.Constexpr, four: mo.Constexpr):
    mma = mo.make_tiled_mma(mo.UniversalFMA(mo.float32))
    thr = mma.get_slice(0)
    tA, tB, tC = thr.partition_A(a), thr.partition_B(b), thr.partition_C(c)
    rA, rB, rC = mma.make_fragment_A(tA), mma.make_fragment_B(tB), mma.make_fragment_C(tC)
    mo.copyto(rC, tC)
    if "r" in where:
        mo.copyto(rA, tA)
        mo.copyto(rB, tB)
    A, B = rA if where[0] == "r" else tA, rB if where[1] == "r" else tB
    if four:
        rD = mma.make_fragment_C(tC)
        rD.fill(99)
        mo.gemm(mma, rD, A, B, rC)
        mo.copyto(tC, rD)
    else:
        mo.gemm(mma, A, B, rC)
        mo.copyto(tC, rC)


@pytest.mark.parametrize("where", ["rr", "gg", "rg"])
@pytest.mark.parametrize("four", [False, True])
def test_gemm_with_three_and_four_tensors(where, four):
    product.signature.roles.update(a="static", b="static", c="static")
    rng = np.random.default_rng(1)
    a, b, c = (rng.integers(-4, 5, s).astype(np.float32) for s in ((4, 3), (5, 3), (4, 5)))
    expected = c + a @ b.T
    launch(product, a, b, c, where, four)
    assert (c == expected).all()


def test_gemm_refuses_what_does_not_fit():
    @mo.kernel
    def kernel(x, case: mo.Constexpr):
        mma = mo.UniversalFMA(mo.float32)
        a, b, c = (mo.fragment(s, mo.float32) for s in ((1, 4, 2), (1, 3, 2), (1, 4, 3)))
        if case == "dtype":
            a = mo.fragment((1, 4, 2), mo.float16)
        elif case == "M":
            a = mo.fragment((1, 5, 2), mo.float32)
        elif case == "K":
            b = mo.fragment((1, 3, 4), mo.float32)
        elif case == "values":
            a = mo.fragment((2, 4, 2), mo.float32)
        elif case == "space":
            c = mo.shared_array(mo.float32, (1, 4, 3))
        mo.gemm(mma, a, b, c)

    for case, text in (("dtype", "holds float16, not float32"), ("M", "M of A and C differ: 5 and 4"),
                       ("K", "K of A and B differ: 2 and 4"), ("values", "a thread holds 1 values of A"),
                       ("space", "must be a register tensor")):
        with pytest.raises(mo.MoyeError, match=text):
            kernel.trace(np.zeros(1), case, block=1)


# --- elementwise -----------------------------------------------------------------------------------------------------


def test_elementwise_arithmetic_broadcasts():
    @mo.kernel
    def kernel(x, row, column, y):
        a, r, c = (mo.make_fragment_like(t) for t in (x, row, column))
        mo.copyto(a, x)
        mo.copyto(r, row)
        mo.copyto(c, column)
        b = a * 2 + r - c / 4
        outer = r * c                               # neither is as large as the result
        a[...] = mo.where(outer > b, -b, abs(a) % 3)
        a += 1
        a[...] *= r
        a[0, :] = 5
        a[:, 1] = column[:, 0]
        mo.copyto(y, a)

    for name in ("x", "row", "column", "y"):
        kernel.signature.roles[name] = "static"
    x = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
    row, column = np.array([[1, -2, 3]], np.float32), np.array([[4], [0], [-8], [1]], np.float32)
    y = np.zeros((4, 3), np.float32)
    launch(kernel, x, row, column, y)
    b = x * 2 + row - column / 4
    expected = (np.where(row * column > b, -b, np.abs(x) % 3) + 1) * row
    expected[0, :] = 5
    expected[:, 1] = column[:, 0]
    assert np.allclose(y, expected)


def test_integer_bits_equality_and_reductions():
    @mo.kernel
    def kernel(x, out):
        a = mo.make_fragment_like(x)
        mo.copyto(a, x)
        out[0] = (a & 3).reduce("add")
        out[1] = mo.where(a == 4, 1, 0).reduce("add")
        out[2] = mo.where(a != 4, 1, 0).reduce("add")
        out[3] = (a // 2 ^ 1).reduce("max")
        out[4] = (-a).reduce("min")
        out[5] = (~a).reduce("add")
        out[6] = (a << 2 | 1).reduce("xor")
        out[7] = mo.where((a > 2) & (a < 6), a, 0).reduce("add", init=100)

    kernel.signature.roles["x"] = "static"
    x, out = np.array([1, 4, 7, 4, 3, 0], np.int32), np.zeros(8, np.int32)
    launch(kernel, x, out)
    assert list(out) == [int((x & 3).sum()), 2, 4, int((x // 2 ^ 1).max()), -7, int((~x).sum()),
                         int(np.bitwise_xor.reduce(x << 2 | 1)), 111]


def test_overlapping_assignment_reads_before_it_writes():
    @mo.kernel
    def kernel(x):
        a = mo.make_fragment_like(x)
        mo.copyto(a, x)
        square = mo.Tensor(a.buffer, 0, mo.make_layout((3, 3), (3, 1)), a.dtype)
        a[...] = square                             # transposed in place
        a[...] = a
        mo.copyto(x, a)

    kernel.signature.roles["x"] = "static"
    x = np.asfortranarray(np.arange(9, dtype=np.float32).reshape(3, 3))
    expected = x.T.copy()
    launch(kernel, x)
    assert (x == expected).all()


def test_math_functions():
    @mo.kernel
    def kernel(x, y):
        a = mo.make_fragment_like(x)
        mo.copyto(a, x)
        mo.copyto(y, mo.exp(a) + mo.sqrt(abs(a)) * mo.tanh(a) - mo.max(a, 0.5))

    kernel.signature.roles.update(x="static", y="static")
    x, y = np.linspace(-2, 2, 7).astype(np.float32), np.zeros(7, np.float32)
    launch(kernel, x, y)
    assert np.allclose(y, np.exp(x) + np.sqrt(abs(x)) * np.tanh(x) - np.maximum(x, 0.5), rtol=1e-6)


def test_arithmetic_is_for_registers():
    @mo.kernel
    def kernel(x):
        s = mo.shared_array(mo.float32, (4,))
        return s + 1

    with pytest.raises(mo.TensorError, match="make_fragment_like"):
        kernel.trace(np.zeros(4), block=1)


def test_shapes_that_do_not_broadcast():
    @mo.kernel
    def kernel(x, a: mo.Constexpr, b: mo.Constexpr):
        f, g = mo.fragment(a, mo.float32), mo.fragment(b, mo.float32)
        f[...] = f + g

    kernel.trace(np.zeros(1), (4, 3), (4,), block=1)                    # trailing modes of size 1
    with pytest.raises(mo.TensorError, match="do not fit together: mode 0 has 4 and 3 elements") as error:
        kernel.trace(np.zeros(1), (4, 3), (3,), block=1)
    assert "unlike NumPy's" in str(error.value)
    with pytest.raises(mo.TensorError, match="mode 1 has 3 and 2 elements\n"):
        kernel.trace(np.zeros(1), (4, 3), (4, 2), block=1)
    with pytest.raises(mo.TensorError, match="which is larger"):
        kernel.trace(np.zeros(1), (1, 3), (4, 3), block=1)


def test_fill_of_shared_and_global_memory():
    @mo.kernel
    def kernel(x, y):
        s = mo.shared_array(mo.float32, (4, 2))
        s.fill(3)
        s[0, :] = 2.5
        mo.copyto(x, s)
        y.fill(7)

    kernel.signature.roles.update(x="static")
    x, y = np.zeros((4, 2), np.float32), np.zeros((3, 5), np.int16)
    launch(kernel, x, y)
    assert (x[1:] == 3).all() and (x[0] == 2.5).all() and (y == 7).all()
