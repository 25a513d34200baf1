"""``grouped_gemm_sm90`` of lists of matrices that lie anywhere, in the simulator against float64; what it refuses."""

from __future__ import annotations

import re
from unittest import mock

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.kernels import WarpgroupConfig, gemm, grouped_gemm_sm90
from moye.kernels.gemm.grouped.lists import EXTENTS, described
from moye.kernels.upload import host_numbers, tensor_maps, written_numbers
from moye.runtime.prepare import compile_only
from scaled_products import blocks, exact, factors
from warpgroup_products import ACTIVATIONS, DTYPES, check_error, expected_of, filled, tile

SHAPES = ((300, 200, 72), (1, 8, 16), (64, 136, 200), (0, 40, 16), (130, 0, 16), (129, 264, 33), (65, 80, 0))
SMALL = tile("bf16", 128, 64, groups=2)
TILES = (WarpgroupConfig(64, 64, 64, 3, "pingpong"), WarpgroupConfig(128, 64, 64, 3, "pingpong"),
         WarpgroupConfig(64, 64, 64, 3, groups=1), WarpgroupConfig(192, 64, 64, 3, groups=3),
         WarpgroupConfig(256, 64, 64, 3))


def matrices(shapes, kind="bf16", orders="CC", out="bf16", *, odd=""):
    """Lists of A, B and C, each matrix in memory of its own; ``odd`` as in ``warpgroup_products``."""
    rng = np.random.default_rng(len(shapes))
    As = [filled(rng, (M, K), DTYPES[kind], orders[0], odd="A" in odd).x for M, _, K in shapes]
    Bs = [filled(rng, (N, K), DTYPES[kind], orders[1], odd="B" in odd).x for _, N, K in shapes]
    Cs = [filled(rng, (M, N), DTYPES[out], odd="C" in odd).x for M, N, _ in shapes]
    for C in Cs:
        C[...] = np.nan if C.dtype.kind != "i" else -77
    return As, Bs, Cs


def agree(As, Bs, Cs, alpha=1.0, activation="none", **options):
    """One call against float64; the reports of its launches."""
    with mo.checking() as reports:
        assert grouped_gemm_sm90(As, Bs, Cs, alpha=alpha, activation=activation, **options) is Cs
    for A, B, C in zip(As, Bs, Cs, strict=True):
        if 0 not in C.shape:
            sums, error = expected_of(A, B)
            check_error(C, ACTIVATIONS[activation](alpha * sums), 1.2 * abs(alpha) * error)
    assert [report for report in reports if not report.ok] == []
    return reports


def test_extents_of_their_own():
    """Matrices without elements, and one without anything to sum, for which zeros are made and multiplied alone."""
    names = [report.kernel for report in agree(*matrices(SHAPES), config=SMALL)]
    assert names == ["transpose_kernel", "gemm_sm90_kernel", "describe_matrices_kernel", "separate_gemm_sm90_kernel"]


@pytest.mark.parametrize("tile", TILES, ids=lambda tile: f"{tile.bM} rows {tile.schedule} {tile.groups}")
def test_tiles(tile):
    """Warpgroups in turns go past as many k tiles as each product of the other one has."""
    with mock.patch.object(mo, "multiprocessors", lambda array: 3):
        agree(*matrices(((130, 136, 72), (9, 64, 264), (270, 200, 128), (64, 72, 16))), config=tile)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "out"), [("f16", "f16"), ("f32", "bf16"), ("e4m3", "f16"), ("e5m2", "bf16")])
def test_dtypes(kind, out):
    agree(*matrices(SHAPES[:3], kind, out=out))


@pytest.mark.parametrize("orders", ["FC", "CF", "FF"])
def test_orders(orders):
    assert len(agree(*matrices(SHAPES[:3], orders=orders), config=SMALL)) == 2


def test_what_is_alone_goes_to_what_repeats_calls():
    """``gemm`` decides once and replays: the kernel of its choice, asked directly, would decide each time."""
    As, Bs, Cs = matrices(SHAPES[1:3], odd="AB")
    with mock.patch("moye.kernels.gemm.grouped.separate.gemm", wraps=gemm) as asked:
        agree(As, Bs, Cs, alpha=0.5, activation="relu")
    assert [call.args[2] is C for call, C in zip(asked.call_args_list, Cs, strict=True)] == [True, True]
    assert all((call.kwargs["alpha"], call.kwargs["activation"]) == (0.5, "relu") for call in asked.call_args_list)


@pytest.mark.parametrize("odd", ["C", "AB"])
def test_what_tma_cannot_take_is_alone(odd):
    """A launch for each product, and copies of operands before it."""
    assert len(agree(*matrices(SHAPES[1:3], odd=odd))) >= 2


def test_float32_results():
    assert len(agree(*matrices(SHAPES[1:3], out="f32"), config=SMALL)) == 2


def test_integers():
    As, Bs, Cs = matrices(SHAPES[:3], "s8", out="s32")
    grouped_gemm_sm90(As, Bs, Cs)
    assert all(np.array_equal(C, A.astype(int) @ B.astype(int).T) for A, B, C in zip(As, Bs, Cs, strict=True))


def test_mixed_strides():
    """Products that lie alike share a launch."""
    rows, columns = matrices(SHAPES[:3], orders="CC"), matrices(SHAPES[:3], orders="FC")
    lists = [[*first, *second] for first, second in zip(rows, columns, strict=True)]
    assert len(agree(*lists, config=SMALL)) == 4


def test_many():
    """Tables have room for 8, 16, 32 ... products, and the tile of a product is found by halves."""
    assert len(agree(*matrices([(20 + 3 * i, 64, 8 * i) for i in range(1, 20)]), config=SMALL)) == 2


def test_the_deepest_products_come_first():
    lists = described("f", *matrices([(8, 8, K) for K in (16, 64, 0, 40)]))
    kinds, alone = lists.kinds()
    assert alone == [2] and list(kinds) == [("k", "k")]
    assert [row[EXTENTS] for row in kinds["k", "k"]] == [(8, 8, 64), (8, 8, 40), (8, 8, 16)]


def test_matrices_of_one_array():
    """Views that lie beside each other, and one B for several."""
    rng = np.random.default_rng(0)
    X, W = filled(rng, (96, 192), DTYPES["bf16"]).x, filled(rng, (72, 64), DTYPES["bf16"]).x
    out = filled(rng, (96, 216), DTYPES["bf16"]).x
    agree([X[:, 64 * i:64 * i + 64] for i in range(3)], [W] * 3, [out[:, 72 * i:72 * i + 72] for i in range(3)],
          config=SMALL)


@pytest.mark.parametrize("like", [np.zeros(1), mo.TensorLike(mo.float32, (1,))])
def test_numbers_of_the_host(like):
    """As they are, or as launches write them where a graph is captured."""
    numbers = np.random.default_rng(2).integers(-1 << 62, 1 << 62, (10, 9))
    if isinstance(like, np.ndarray):
        assert np.array_equal(host_numbers(like, numbers), numbers)
        with mo.checking() as reports:
            assert np.array_equal(written_numbers(like, numbers), numbers)
        assert [report.ok for report in reports] == [True, True]
    else:
        assert host_numbers(like, numbers).shape == (*tensor_maps(like, 10).shape[:1], 9)


def test_fused():
    agree(*matrices(SHAPES[:3]), alpha=-0.5, activation="gelu", config=SMALL)


def scaled(shapes, orders="CC", **options):
    """Products of blocks with factors, against float64; the names of the launches."""
    As, Bs, Cs = matrices(shapes, "e4m3")
    rng = np.random.default_rng(1)
    of_A = [factors(rng, (M, blocks(K)), orders[0]) for M, _, K in shapes]
    of_B = [factors(rng, (blocks(N), blocks(K)), orders[1]) for _, N, K in shapes]
    with mo.checking() as reports:
        grouped_gemm_sm90(As, Bs, Cs, scale_a=of_A, scale_b=of_B, **options)
    for A, B, C, a, b in zip(As, Bs, Cs, of_A, of_B, strict=True):
        check_error(C, *exact(A, B, a, b))
    assert [report for report in reports if not report.ok] == []
    return [report.kernel for report in reports]


SEPARATE = ["describe_matrices_kernel", "separate_gemm_sm90_kernel"]


@pytest.mark.parametrize("orders", ["CC", "FC", "CF"])
def test_factors_of_blocks(orders):
    """However they lie, one launch: they are copied one behind the other."""
    assert scaled([(130, 136, 256), (5, 72, 400), (64, 8, 16)], orders) == SEPARATE


def test_factors_of_many_products():
    assert scaled([(1 + 29 * i % 70, 8 + 16 * (i % 4), 16 + 48 * i % 300) for i in range(11)]) == SEPARATE


@pytest.mark.slow
@pytest.mark.parametrize("config", [WarpgroupConfig(128, 192, 128, 3), WarpgroupConfig(128, 64, 128, 4)])
def test_factors_of_other_tiles(config):
    """A tile of 192 columns has a part of two blocks."""
    assert scaled([(150, 400, 384), (129, 200, 128)], config=config) == SEPARATE


def test_factors_of_some_products_alone():
    """Those that TMA does not take, here a C of 9 columns, and others, which have none."""
    assert scaled([(33, 9, 144), (20, 24, 144)]) == ["gemm_sm90_kernel", *SEPARATE]
    As, Bs, Cs = matrices([(33, 16, 144), (20, 24, 144)], "e4m3")
    a, b = (factors(np.random.default_rng(2), shape) for shape in ((33, 2), (1, 2)))
    with mo.checking() as reports:
        grouped_gemm_sm90(As, Bs, Cs, scale_a=[a, None], scale_b=[b, None])
    check_error(Cs[0], *exact(As[0], Bs[0], a, b))
    check_error(Cs[1], *expected_of(As[1], Bs[1]))
    assert [report.kernel for report in reports] == 2 * SEPARATE and all(report.ok for report in reports)


@pytest.mark.parametrize(("change", "message"), [
    ({"scale_a": [0, np.zeros((21, 2), np.float32)]}, "product 1: scale_a must be float32 (20, 2)"),
    ({"scale_b": [0, np.zeros((1, 2))]}, "product 1: scale_b must be float32 (1, 2)"),
    ({"scale_b": [0, None]}, "product 1: scale_a is given without scale_b"),
    ({"fast_accum": True}, "product 0: fast_accum=True does not go with scale_a")])
def test_factors_that_do_not_fit(change, message):
    As, Bs, Cs = matrices([(33, 16, 144), (20, 24, 144)], "e4m3")
    given = {"scale_a": [np.zeros((33, 2), np.float32), np.zeros((20, 2), np.float32)],
             "scale_b": [np.zeros((1, 2), np.float32)] * 2}
    options = {name: [given[name][0], x[1]] if isinstance(x, list) else x for name, x in (given | change).items()}
    with pytest.raises(mo.ArgumentError, match=f"^grouped_gemm_sm90, {re.escape(message)}"):
        grouped_gemm_sm90(As, Bs, Cs, **options)


@pytest.mark.slow
@pytest.mark.parametrize("promotion", ["between", "turns", "behind", "ahead"])
def test_promoted(promotion):
    agree(*matrices(SHAPES[:3], "e4m3"), config=WarpgroupConfig(128, 128, 128, 3, promotion=promotion))


def test_nothing():
    assert grouped_gemm_sm90([], [], []) == []


def changed(**other):
    As, Bs, Cs = matrices([(6, 8, 16), (20, 16, 32)])
    return {"A": As, "B": Bs, "C": Cs} | other


@pytest.mark.parametrize(("arguments", "message"), [
    (changed(A=np.zeros((6, 16))), "without offsets A, B and C are lists of matrices, and A is a ndarray"),
    (changed(B=[np.zeros((8, 16), np.float16)]), "2 matrices A, 1 B and 2 C are not as many of each"),
    (changed(A=matrices([(6, 8, 16), (20, 16, 40)])[0]), "product 1: A (20, 40), B (16, 32) and C (20, 16) are not"),
    (changed(A=[matrices([(6, 8, 16)], "f16")[0][0]] * 2), "product 0: A holds float16 and B bfloat16"),
    (changed(C=[np.zeros((6, 8), ml_dtypes.bfloat16), np.zeros((20, 16), np.float32)]),
     "product 1: C is float32 on the host, and that of product 0 bfloat16 on the host"),
    (changed(scale_a=[None]), "scale_a must be a list of 2 arrays, as A is, not 1"),
    (changed(scale_a=3), "scale_a must be a list of 2 arrays, as A is, not a int"),
    (changed(config=WarpgroupConfig(128, 64, 64, 3, share_A=2)), "blocks share work, or tiles are turned"),
    (changed(activation="tanh"), "activation='tanh' is none of"),
    (changed(alpha="x"), "alpha and beta are real numbers, not 'x'")])
def test_refused(arguments, message):
    with pytest.raises(mo.ArgumentError, match=f"^grouped_gemm_sm90[:,] .*{re.escape(message)}"):
        grouped_gemm_sm90(**arguments)


@pytest.mark.parametrize("shared", ["A", "C"])
def test_a_result_has_memory_of_its_own(shared):
    """Not only apart from the operands of its own product."""
    As, Bs, Cs = matrices([(16, 16, 16), (16, 16, 16), (16, 16, 16)])
    (As if shared == "A" else Cs)[2] = Cs[0]
    with pytest.raises(mo.ArgumentError, match=f"C shares memory with {shared} of product [02]"):
        grouped_gemm_sm90(As, Bs, Cs)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [mo.bfloat16, mo.float8_e4m3fn])
def test_compiled(dtype):
    """No spills, nothing serialised, one load of A and of B for however many products there are."""
    array, shapes = mo.TensorLike, [(1000 + 24 * i, 1024 + 128 * i, 512 * i + 64) for i in range(16)]
    with compile_only("sm_90a") as compiled:
        grouped_gemm_sm90([array(dtype, (M, K), (K, 1)) for M, _, K in shapes],
                          [array(dtype, (N, K), (K, 1)) for _, N, K in shapes],
                          [array(mo.bfloat16, (M, N), (N, 1)) for M, N, _ in shapes], activation="silu")
    maps, program = compiled.programs
    assert maps.spills == maps.stack == program.spills == program.stack == 0
    assert not re.findall(r"\(C\d+\).*", program.compiled.log)
    assert program.sass.count("UTMALDG") == 2


def test_tensors_of_two_classes():
    """Parameters beside plain tensors, and a tensor that is no strided memory."""
    torch = pytest.importorskip("torch")
    As, Bs, Cs = ([torch.randn(*shape) for _ in range(2)] for shape in ((8, 16), (24, 16), (8, 24)))
    Bs[1] = torch.nn.Parameter(Bs[1])
    before = [C._version for C in Cs]
    grouped_gemm_sm90(As, Bs, Cs)
    for A, B, C in zip(As, Bs, Cs, strict=True):
        assert torch.allclose(C, A @ B.detach().T, atol=0.05)
    assert [C._version for C in Cs] == [version + 1 for version in before]
    with pytest.raises(mo.ArgumentError, match="product 1: A: a sparse torch tensor"):
        grouped_gemm_sm90([As[0], As[1].to_sparse()], Bs, Cs)
    with pytest.raises(mo.ArgumentError, match="product 1: C is float16 on the host"):
        grouped_gemm_sm90(As, Bs, [Cs[0], Cs[1].half()])
