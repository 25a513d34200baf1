"""Loads, stores, tiles, fragments, atomics, and the findings B1-B7 about them."""

import numpy as np
import pytest

from moye import dtypes as dt
from moye.atoms.atom import MmaOp
from moye.atoms.universal import UniversalCopy, UniversalFMA
from moye.dtypes import Space
from moye.errors import UnsupportedError
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Value
from moye.layout import Swizzle, make_layout
from moye.sim.machine.machine import TensorArg, simulate
from moye.sim.values.addressing import apply_swizzle
from moye.sim.values.memory import Shared, poison
from sim_kernels import K, codes, line_of, run_matmul

T = 64


def copy_tile(dst_space, src_space, extents, width, blocks=3, **kw):
    """gmem -> src_space -> dst_space -> gmem, each thread its own 8 elements."""
    k = K(T)
    A, C = k.tensor("A"), k.tensor("C")
    mine = k.mul(k.tid, 8)
    g = k.add(mine, k.mul(k.bid, 8 * T))
    at = {"s": (k.shared(8 * T), mine), "r": (k.fragment(8), 0)}
    (a, ao), (b, bo) = at[src_space], ((k.shared(8 * T, name="sB"), mine) if dst_space == "s"
                                       else (k.fragment(8, name="q"), 0))
    strides = {1: (1,), 2: (2,), 4: (4,)}[width]
    for dst, do, src, so in ((a, ao, A, g), (b, bo, a, ao), (C, g, b, bo)):
        k.copy(k.tile(dst, do, strides), k.tile(src, so, strides), extents, width, **kw)
    x = np.arange(8 * T * blocks, dtype=np.float32)
    y = np.zeros_like(x)
    outcome = k.run(x, y, grid=(blocks, 1, 1))
    return x, y, outcome


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("spaces", ["ss", "sr", "rs", "rr"])
def test_copies_between_all_spaces(spaces, width):
    x, y, outcome = copy_tile(*spaces, (8 // width,), width)
    assert not outcome.findings
    np.testing.assert_array_equal(x, y)


def test_two_dimensional_copy_with_dynamic_strides_and_extents():
    k = K(1)
    A, C, n = k.tensor("A", 2), k.tensor("C", 2), k.scalar("n")
    lda, ldc = (p.strides[1] for p in k.func.params[:2])
    k.copy(k.tile(C, 0, (ldc, 1)), k.tile(A, 0, (1, lda)), (n, 4))
    a = np.asfortranarray(np.arange(24, dtype=np.float32).reshape(6, 4))
    c = np.zeros((4, 6), np.float32, order="F")
    k.run(TensorArg(a.T.reshape(-1), 0, (6, 4), (1, 6), "A"), TensorArg(c.T.reshape(-1), 0, (4, 6), (1, 4), "C"), 5)
    np.testing.assert_array_equal(c[:, :5], a.T[:, :5])
    assert not c[:, 5].any()


def test_extents_that_differ_between_threads_are_unsupported():
    k = K(T)
    A = k.tensor("A")
    with pytest.raises(UnsupportedError):
        k.copy(k.tile(A, 0, (1,)), k.tile(A, 0, (1,)), (k.tid,))
        k.run(np.zeros(T, np.float32))


def test_arguments_with_an_offset_and_negative_strides():
    k = K(4)
    A = k.tensor("A", 1, strides=(Value(dt.int32),))
    step = k.func.params[0].strides[0]
    k.store(A, k.mul(k.tid, step), k.cast(k.tid, dt.float32))
    flat = np.full(12, -1, np.float32)
    outcome = simulate(k.func, [TensorArg(flat, 9, (4,), (-2,), "A")], (1, 1, 1), check=True)
    assert not outcome.findings
    assert flat[[9, 7, 5, 3]].tolist() == [0, 1, 2, 3] and (flat[::2] == -1).all()


def test_recast_references():
    """The same bytes as other dtypes, in every space."""
    k = K(T)
    A, C = k.tensor("A", dtype=dt.float32), k.tensor("C", dtype=dt.float32)
    s, r, q = k.shared(2 * T), k.fragment(2), k.fragment(2, name="q")
    wide = k.load(A, k.tid, dt.uint64)                      # elements 2 tid, 2 tid + 1
    k.store(s, k.tid, wide, dt.uint64)
    k.store(r, 0, k.load(s, k.tid, dt.uint64), dt.uint64)
    for half in range(4):
        k.store(q, half, k.load(r, half, dt.uint16), dt.uint16)
    for half in range(4):
        k.store(s, k.add(k.mul(k.tid, 4), half), k.load(q, half, dt.uint16), dt.uint16)
    k.store(C, k.tid, k.load(s, k.tid, dt.uint64), dt.uint64)
    a, c = np.arange(2 * T, dtype=np.float32), np.zeros(2 * T, np.float32)
    outcome = k.run(a, c)
    assert not outcome.findings
    np.testing.assert_array_equal(a, c)


def test_swizzled_shared_memory():
    swizzle = Swizzle(2, 3, 3)
    k = K(T)
    A, C, s = k.tensor("A"), k.tensor("C"), k.shared(8 * T)
    at = k.mul(k.tid, 8)
    k.copy(k.tile(s, at, (1,), swizzle=swizzle), k.tile(A, at), (8,))
    k.sync()
    k.copy(k.tile(C, at), k.tile(s, at), (8,))
    a, c = np.arange(8 * T, dtype=np.float32), np.zeros(8 * T, np.float32)
    assert not k.run(a, c).findings
    expected = np.zeros_like(a)
    expected[apply_swizzle(swizzle, np.arange(8 * T))] = a
    np.testing.assert_array_equal(c, expected)
    assert [swizzle(i) for i in range(8 * T)] == apply_swizzle(swizzle, np.arange(8 * T)).tolist()


def test_predicates():
    k = K(T)
    A, C, n = k.tensor("A"), k.tensor("C"), k.scalar("n")
    p, r, q = k.fragment(4, dt.bool_, "p"), k.fragment(4), k.fragment(4, name="q")
    at = k.mul(k.tid, 4)
    for i in range(4):
        k.store(p, i, k.lt(k.add(at, i), n))
    k.fill(r, -1.0)
    k.copy(k.tile(r), k.tile(A, at), (4,), pred=k.tile(p))
    k.copy(k.tile(q), k.tile(A, at), (4,), pred=k.tile(p), zero_fill=True)
    k.copy(k.tile(C, at), k.tile(r), (4,), pred=k.lt(k.tid, T // 2))
    k.copy(k.tile(C, k.add(at, 4 * T)), k.tile(q), (4,))
    a, c = np.arange(4 * T, dtype=np.float32), np.full(8 * T, 9, np.float32)
    outcome = k.run(a[:50].copy(), c, 50)
    assert not outcome.findings
    np.testing.assert_array_equal(c[:2 * T], np.where(a < 50, a, -1)[:2 * T])
    assert (c[2 * T:4 * T] == 9).all()
    np.testing.assert_array_equal(c[4 * T:], np.where(a < 50, a, 0))


def test_map_and_reduce():
    k = K(T)
    A, C = k.tensor("A"), k.tensor("C")
    r = k.fragment(4)
    k.copy(k.tile(r), k.tile(A, k.mul(k.tid, 4)), (4,))
    x, y = Value(dt.float32), Value(dt.float32)
    body = Block()
    with k.inside(body):
        value = k.add(k.mul(x, y), k.cast(k.tid, dt.float32))
    k.emit(ops.Map(dst=k.tile(r), sources=(k.tile(r), k.tile(r, 3, (-1,))), inputs=(x, y), extents=(4,), body=body,
                   value=value))
    total = k.emit(ops.Reduce(result=Value(dt.float32), kind="add", src=k.tile(r), extents=(4,)))
    top = k.emit(ops.Reduce(result=Value(dt.float32), kind="max", src=k.tile(r), extents=(4,)))
    k.store(C, k.tid, total)
    k.store(C, k.add(k.tid, T), top)
    a, c = np.arange(4 * T, dtype=np.float32), np.zeros(2 * T, np.float32)
    assert not k.run(a, c).findings
    b = a.reshape(T, 4)
    b = b * b[:, ::-1] + np.arange(T)[:, None]
    np.testing.assert_array_equal(c[:T], b.sum(1))
    np.testing.assert_array_equal(c[T:], b.max(1))


def test_divergent_tile_ops_touch_their_lanes_only():
    k = K(T)
    C, r = k.tensor("C"), k.fragment(2)
    k.fill(r, 1.0)
    with k.if_(k.lt(k.tid, 20)):
        k.fill(r, 2.0)
        k.emit(ops.Gemm(mma=UniversalFMA(dt.float32), d=k.tile(r, 0, ()), a=k.tile(r, 1, ()), b=k.tile(r, 1, ()),
                        c=k.tile(r, 0, ()), extents=(), roles=""))
    k.copy(k.tile(C, k.mul(k.tid, 2)), k.tile(r), (2,))
    c = np.zeros(2 * T, np.float32)
    assert not k.run(c).findings
    assert c.reshape(T, 2).tolist() == [[6, 2]] * 20 + [[1, 1]] * (T - 20)


# --- matrix products -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.float16, dt.bfloat16, dt.int32], ids=str)
def test_scalar_fma_over_m_n_k(dtype):
    k = K(T)
    A, C = k.tensor("A", dtype=dtype), k.tensor("C", dtype=dtype)
    a, b, c = (k.fragment(n, dtype, name) for n, name in ((6, "a"), (8, "b"), (12, "c")))
    for r, at, n in ((a, 0, 6), (b, 6, 8), (c, 14, 12)):
        k.copy(k.tile(r), k.tile(A, k.add(k.mul(k.tid, 26), at)), (n,))
    k.emit(ops.Gemm(mma=UniversalFMA(dtype), d=k.tile(c, 0, (1, 3, 0)), a=k.tile(a, 0, (1, 0, 3)),
                    b=k.tile(b, 0, (0, 2, 1)), c=k.tile(c, 0, (1, 3, 0)), extents=(3, 4, 2), roles="mnk"))
    k.copy(k.tile(C, k.mul(k.tid, 12)), k.tile(c), (12,))
    x = np.random.default_rng(0).integers(-3, 4, 26 * T)
    from moye.sim.values.memory import numpy_dtype
    y = np.zeros(12 * T, numpy_dtype(dtype))
    assert not k.run(x.astype(numpy_dtype(dtype)), y).findings
    x = x.reshape(T, 26)
    for t in range(T):
        m, n, d = x[t, :6].reshape(2, 3).T, x[t, 6:14].reshape(4, 2), x[t, 14:].reshape(4, 3).T
        np.testing.assert_array_equal(y[12 * t:12 * t + 12].reshape(4, 3).T.astype(int), m @ n.T + d)


def warp_mma():
    """mma.m16n8k8: thread/value layouts of the PTX ISA as CuTe writes them."""
    return MmaOp("m16n8k8", (16, 8, 8), dt.tfloat32, dt.tfloat32, dt.float32, dt.float32, 32,
                 make_layout(((4, 8), (2, 2)), ((16, 1), (8, 64))), make_layout(((4, 8), 2), ((8, 1), 32)),
                 make_layout(((4, 8), (2, 2)), ((32, 1), (16, 8))))


@pytest.mark.parametrize("blocks", [1, 3])
def test_matrix_atom_follows_its_layouts(blocks):
    k, mma = K(64), warp_mma()
    A, C = k.tensor("A"), k.tensor("C")
    a, b, c = k.fragment(4, dt.tfloat32, "a"), k.fragment(2, dt.tfloat32, "b"), k.fragment(4, name="c")
    g = k.add(k.tid, k.mul(k.bid, 64))
    k.copy(k.tile(a), k.tile(A, k.mul(g, 10), dtype=dt.tfloat32), (4,))
    k.copy(k.tile(b), k.tile(A, k.add(k.mul(g, 10), 4), dtype=dt.tfloat32), (2,))
    k.copy(k.tile(c), k.tile(A, k.add(k.mul(g, 10), 6)), (4,))
    k.emit(ops.Gemm(mma=mma, d=k.tile(c, 0, ()), a=k.tile(a, 0, (), dtype=dt.tfloat32),
                    b=k.tile(b, 0, (), dtype=dt.tfloat32), c=k.tile(c, 0, ()), extents=(), roles="",
                    a_values=(0, 1, 2, 3), b_values=(0, 1), c_values=(0, 1, 2, 3), d_values=(0, 1, 2, 3)))
    k.copy(k.tile(C, k.mul(g, 4)), k.tile(c), (4,))
    x = np.random.default_rng(1).integers(-9, 9, 640 * blocks).astype(np.float32)
    y = np.zeros(256 * blocks, np.float32)
    assert not k.run(x, y, grid=(blocks, 1, 1)).findings
    for w in range(2 * blocks):
        v, got = x.reshape(-1, 32, 10)[w], y.reshape(-1, 32, 4)[w]
        full = {n: np.zeros(s) for n, s in (("a", (16, 8)), ("b", (8, 8)), ("c", (16, 8)), ("d", (16, 8)))}
        for t in range(32):
            for name, layout, values, rows in (("a", mma.a_layout, v[t, :4], 16), ("b", mma.b_layout, v[t, 4:6], 8),
                                               ("c", mma.c_layout, v[t, 6:], 16), ("d", mma.c_layout, got[t], 16)):
                for i, value in enumerate(values):
                    e = layout(t, i)
                    full[name][e % rows, e // rows] = value
        np.testing.assert_array_equal(full["d"], full["a"] @ full["b"].T + full["c"])


def test_matrix_atom_by_part_of_a_warp_is_c6():
    k, mma = K(32), warp_mma()
    r = k.fragment(16, name="r")
    k.fill(r, 0.0)
    four = (0, 1, 2, 3)
    with k.if_(k.lt(k.tid, 16)):
        k.emit(ops.Gemm(mma=mma, d=k.tile(r, 0, ()), a=k.tile(r, 4, (), dtype=dt.tfloat32),
                        b=k.tile(r, 8, (), dtype=dt.tfloat32), c=k.tile(r, 0, ()), extents=(), roles="",
                        a_values=four, b_values=(0, 1), c_values=four, d_values=four))
    assert codes(k.run()) == ["C6"]


@pytest.mark.parametrize("check", [False, True])
def test_double_buffered_matmul(check):
    outcome, C, expected, _ = run_matmul(256, 384, 64, check)
    assert not outcome.findings and outcome.blocks == 6
    np.testing.assert_allclose(C, expected, atol=1e-4)


def test_matmul_in_uneven_batches_at_the_earliest_time():
    outcome, C, expected, _ = run_matmul(256, 384, 64, True, blocks=4, asynchronous="earliest")
    assert not outcome.findings
    np.testing.assert_allclose(C, expected, atol=1e-4)


# --- atomics ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["add", "min", "max", "and", "or", "xor", "exch"])
@pytest.mark.parametrize("space", ["global", "shared"])
def test_atomics(kind, space):
    k = K(T)
    A, X, Old = k.tensor("A", dtype=dt.int32), k.tensor("X", dtype=dt.int32), k.tensor("O", dtype=dt.int32)
    m = A if space == "global" else k.shared(8, dt.int32)
    if space == "shared":
        with k.if_(k.lt(k.tid, 8)):
            k.store(m, k.tid, k.load(A, k.tid))
        k.sync()
    old = k.atomic(kind, m, k.mod(k.tid, 8), k.load(X, k.tid))
    k.store(Old, k.tid, old)
    if space == "shared":
        k.sync()
        with k.if_(k.lt(k.tid, 8)):
            k.store(A, k.tid, k.load(m, k.tid))
    rng = np.random.default_rng(3)
    a, x, o = rng.integers(0, 99, 8, np.int32), rng.integers(0, 99, T, np.int32), np.zeros(T, np.int32)
    mem, expected = a.copy(), np.zeros(T, np.int32)
    for t in range(T):
        expected[t] = mem[t % 8]
        mem[t % 8] = {"add": mem[t % 8] + x[t], "min": min(mem[t % 8], x[t]), "max": max(mem[t % 8], x[t]),
                      "and": mem[t % 8] & x[t], "or": mem[t % 8] | x[t], "xor": mem[t % 8] ^ x[t],
                      "exch": x[t]}[kind]
    assert not k.run(a, x, o).findings
    np.testing.assert_array_equal(a, mem)
    np.testing.assert_array_equal(o, expected)


def test_float_atomic_add_and_masks():
    k = K(T)
    A = k.tensor("A")
    with k.if_(k.lt(k.tid, 10)):
        k.atomic("add", A, 0, k.cast(k.tid, dt.float32))
    a = np.ones(1, np.float32)
    k.run(a, grid=(5, 1, 1), blocks=2)
    assert a[0] == 1 + 5 * 45


def test_compare_and_swap_lets_one_win():
    k = K(T)
    A, W = k.tensor("A", dtype=dt.int32), k.tensor("W", dtype=dt.int32)
    old = k.atomic("cas", A, 0, k.add(k.tid, 1), compare=0)
    with k.if_(k.eq(old, 0)):
        k.atomic("add", W, 0, 1)
    a, w = np.zeros(1, np.int32), np.zeros(1, np.int32)
    k.run(a, w)
    assert a[0] == 1 and w[0] == 1


# --- poison and findings ---------------------------------------------------------------------------------------------


def test_poison():
    for dtype in (dt.float16, dt.bfloat16, dt.float32, dt.float64, dt.tfloat32, dt.float8_e4m3fn):
        assert np.isnan(np.asarray(poison(dtype)).astype(np.float64))
    assert poison(dt.int32) == 0x7F7F7F7F
    shared = Shared(Buffer("s", Space.SHARED, dt.float32, 4, make_layout(4), align=16), 2)
    shared.reset()
    assert np.isnan(shared.data).all()


def test_uninitialised_registers_are_poison_and_b7():
    k = K(T)
    C, r = k.tensor("C"), k.fragment(4, name="acc")
    with k.if_(k.lt(k.tid, 60)):
        k.fill(r, 0.0)
    copy = k.copy(k.tile(C, k.mul(k.tid, 4)), k.tile(r), (4,))
    c = np.zeros(4 * T, np.float32)
    outcome = k.run(c)
    assert codes(outcome) == ["B7"]
    finding = outcome.findings[0]
    assert finding.threads == (60,) and finding.tensor == "acc" and line_of(finding) == copy.loc.line
    assert np.isnan(c[240:]).all() and not c[:240].any()


def test_a_fragment_made_in_a_loop_is_undefined_again():
    k = K(T)
    C = k.tensor("C")
    with k.for_(0, 2) as loop:
        r = k.fragment(1)
        with k.if_(k.eq(loop.iv, 0)):
            k.fill(r, 1.0)
        k.store(C, k.tid, k.load(r, 0))
    assert codes(k.run(np.zeros(T, np.float32))) == ["B7"]


def test_shared_memory_read_before_it_was_written():
    k = K(T)
    C, s = k.tensor("C"), k.shared(T)
    k.store(C, k.tid, k.load(s, k.tid))
    c = np.zeros(T, np.float32)
    assert codes(k.run(c)) == ["B6"] and np.isnan(c).all()


@pytest.mark.parametrize("how", ["load", "store", "copy in", "copy out"])
def test_global_bounds(how):
    k = K(T)
    A, C = k.tensor("A"), k.tensor("C")
    r = k.fragment(2)
    k.fill(r, 1.0)
    if how == "load":
        k.store(C, k.tid, k.load(A, k.tid))
    elif how == "store":
        k.store(A, k.tid, k.load(C, k.tid))
    elif how == "copy in":
        k.copy(k.tile(r), k.tile(A, k.mul(k.tid, 2)), (1,), 2)
    else:
        k.copy(k.tile(A, k.mul(k.tid, 2)), k.tile(r), (2,))
    size = 50 if how in ("load", "store") else 100
    backing = np.full(4 * T, 7, np.float32)
    outcome = simulate(k.func, [TensorArg(backing, 0, (size,), (1,), "A"),
                                TensorArg(np.zeros(T, np.float32), 0, (T,), (1,), "C")], (1, 1, 1), check=True)
    assert codes(outcome) == ["B1"]
    finding = outcome.findings[0]
    assert finding.threads == (50,) and finding.tensor == "A" and finding.coordinate == (size,)
    assert f"A({size})" in finding.message


def test_nothing_is_read_or_written_outside_without_checks():
    k = K(T)
    A = k.tensor("A")
    k.store(A, k.sub(k.tid, 4), k.load(A, k.mul(k.tid, 1000)))
    backing = np.arange(8, dtype=np.float32)
    simulate(k.func, [TensorArg(backing, 0, (8,), (1,), "A")], (1, 1, 1), check=False)
    assert not codes(k.run(np.zeros(64000, np.float32), check=False))


def test_coordinates_of_a_matrix_out_of_bounds():
    k = K(4)
    A = k.tensor("A", 2)
    k.load(A, k.add(k.mul(k.tid, k.func.params[0].strides[1]), 2))
    a = np.zeros((8, 3), np.float32, order="F")
    outcome = k.run(TensorArg(a.T.reshape(-1), 0, (8, 3), (1, 8), "A"))
    assert codes(outcome) == ["B1"] and outcome.findings[0].coordinate == (2, 3)


def test_shared_bounds():
    k = K(T)
    s = k.shared(T)
    k.shared(T, name="sB")
    k.store(s, k.add(k.tid, 4), 1.0)
    outcome = k.run()
    assert codes(outcome) == ["B2"] and outcome.findings[0].threads == (60,) and outcome.findings[0].tensor == "sA"


@pytest.mark.parametrize("stride,expected", [(130, []), (131, ["B3"])])
def test_vector_alignment(stride, expected):
    k = K(T)
    s, r = k.shared(2 * 131 * T), k.fragment(2)
    k.fill(r, 0.0)
    k.copy(k.tile(s, k.mul(k.tid, stride), (2,)), k.tile(r, 0, (2,)), (1,), 2, UniversalCopy(dt.float64))
    outcome = k.run()
    assert codes(outcome) == expected


def test_asynchronous_alignment_is_b4():
    k = K(T)
    A, s = k.tensor("A"), k.shared(4 * T)
    k.cp_async(k.tile(s, k.mul(k.tid, 4), (4,)), k.tile(A, k.mul(k.tid, 4), (4,)), (1,), 4)
    k.wait()
    flat = np.zeros(8 * T + 8, np.float32)
    start = (-flat.ctypes.data // 4) % 4
    for off, expected in ((0, []), (1, ["B4"])):
        argument = TensorArg(flat, start + off, (4 * T,), (1,), "A")
        assert codes(simulate(k.func, [argument], (1, 1, 1), check=True)) == expected


def test_stop_on_first():
    k = K(T)
    A = k.tensor("A")
    k.store(A, k.add(k.tid, 1000), 1.0)
    k.store(A, k.tid, 1.0)
    a = np.zeros(T, np.float32)
    assert codes(k.run(a, stop_on_first=True)) == ["B1"] and not a.any()


def test_asserts_and_assumptions():
    k = K(T)
    n = k.scalar("n")
    k.emit(ops.Assert(cond=k.lt(k.tid, n), message="tid < n"))
    k.emit(ops.Assert(cond=k.gt(n, 5), message="n > 5", assume=True))
    assert not k.run(64).findings
    outcome = k.run(3)
    assert codes(outcome) == ["A12", "A12"]
    assert outcome.findings[0].threads == (3,) and "tid < n" in outcome.findings[0].message
    assert not k.run(3, check=False).findings


def test_print_and_inspect():
    k = K(4)
    n = k.scalar("n")
    r = k.fragment(6)
    for i in range(6):
        k.store(r, i, k.cast(k.add(k.mul(k.tid, 10), i), dt.float32))
    with k.if_(k.gt(k.tid, 2)):
        k.emit(ops.Print(parts=("tid = ", k.tid, " n = ", n, "\n")))
        k.emit(ops.Print(parts=(k.cast(k.mul(k.tid, 1000000), dt.float32), k.gt(n, 0))))
    k.emit(ops.Inspect(label="here", tensors=(("r", k.tile(r, 0, (1, 2)), (2, 3)),), scalars=(("n", n),)))
    seen = []
    outcome = k.run(5, grid=(2, 1, 1), inspect=seen.append)
    where = [f"[block ({b},0,0) thread (3,0,0)]" for b in range(2)]
    assert outcome.printed == [*(f"{w} tid = 3 n = 5" for w in where), *(f"{w} 3e+06True" for w in where)]
    inspection = outcome.inspections[0]
    assert seen == outcome.inspections and inspection.label == "here" and inspection.scalars == {"n": 5}
    assert inspection.tensor("r", thread=2, block=1).tolist() == [[20, 22, 24], [21, 23, 25]]


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("rows", [(0, 1, 4, 5), (0, 2, 1, 3)], ids=["gaps", "shuffled"])
def test_scalar_fma_on_registers_that_are_no_slice(rows, swap):
    """m runs over two dimensions whose strides do not merge; with swap, n does."""
    k = K(T)
    A, C = k.tensor("A"), k.tensor("C")
    a, b, c = k.fragment(8, name="a"), k.fragment(3, name="b"), k.fragment(12, name="c")
    strides = (rows[1], rows[2])
    k.copy(k.tile(a), k.tile(A, k.mul(k.tid, 11)), (8,))
    k.copy(k.tile(b), k.tile(A, k.add(k.mul(k.tid, 11), 8)), (3,))
    k.fill(c, 1.0)
    one, two = ("nnm", "b") if swap else ("mmn", "a")
    fragments = {"a": k.tile(b, 0, (0, 0, 1)), "b": k.tile(a, 0, (*strides, 0))} if two == "b" else \
        {"a": k.tile(a, 0, (*strides, 0)), "b": k.tile(b, 0, (0, 0, 1))}
    out = k.tile(c, 0, (3, 6, 1))
    k.emit(ops.Gemm(mma=UniversalFMA(dt.float32), d=out, c=out, extents=(2, 2, 3), roles=one, **fragments))
    k.copy(k.tile(C, k.mul(k.tid, 12)), k.tile(c), (12,))
    x, y = np.arange(11 * T, dtype=np.float32), np.zeros(12 * T, np.float32)
    assert not k.run(x, y).findings
    values = x.reshape(T, 11)
    picked = values[:, [0, rows[1], rows[2], rows[1] + rows[2]]]
    np.testing.assert_array_equal(y.reshape(T, 4, 3), picked[:, :, None] * values[:, None, 8:] + 1)


def test_block_of_a_size_that_the_atom_does_not_divide():
    k, mma = K(48), warp_mma()
    r = k.fragment(16)
    four = (0, 1, 2, 3)
    k.emit(ops.Gemm(mma=mma, d=k.tile(r, 0, ()), a=k.tile(r, 4, ()), b=k.tile(r, 8, ()), c=k.tile(r, 0, ()),
                    extents=(), roles="", a_values=four, b_values=(0, 1), c_values=four, d_values=four))
    with pytest.raises(UnsupportedError, match="groups of 32"):
        k.run()
