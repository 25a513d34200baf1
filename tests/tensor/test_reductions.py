"""Register tensors folded along modes, and the places of their largest and least elements: against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.ir import ops

FOLDS = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
         "or": np.bitwise_or, "xor": np.bitwise_xor, "sum": np.add, "prod": np.multiply}


@mo.kernel
def folded(out, x, shape: mo.Constexpr, kind: mo.Constexpr, mode: mo.Constexpr):
    tid = mo.thread_idx().x
    r = mo.fragment(shape, x.dtype)
    mo.copyto(r, mo.tile(x, (mo.size(r), 1), (0, tid))[:, 0].with_layout(r.layout))
    found = r.reduce(kind, mode)
    if mode in (None, (1, 0)) or not isinstance(shape, tuple):
        out[0, tid] = found                                     # nothing stays: a scalar
    else:
        for i in mo.static_range(mo.size(found)):
            out[i, tid] = found.with_layout(mo.make_layout(mo.size(found)))[i]


def chained(fold, values):
    """The order that Tensor.reduce documents, over the first axis."""
    n = len(values)
    chains = 1 if n < 4 else 2 if n < 8 else 4
    parts = list(values[:chains])
    for i in range(chains, n):
        parts[i % chains] = fold(parts[i % chains], values[i])
    while len(parts) > 1:
        parts = [fold(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def expected(x, shape, kind, mode):
    """NumPy on the modes, column-major: (elements that stay, threads)."""
    sizes = [int(np.prod(s)) for s in shape] if isinstance(shape, tuple) else [shape]
    whole = x.reshape(*sizes, x.shape[1], order="F")
    modes = tuple(range(len(sizes))) if mode is None else (mode,) if isinstance(mode, int) else tuple(sorted(mode))
    stay = [m for m in range(len(sizes)) if m not in modes]
    moved = whole.transpose(*modes, *stay, len(sizes))
    gone = int(np.prod([sizes[m] for m in modes]))
    values = moved.reshape(gone, -1, x.shape[1], order="F")
    return chained(FOLDS[kind], list(values))


CASES = [((8, 6), None), ((8, 6), 0), ((8, 6), 1), ((8, 6), (1, 0)), (13, None), (13, 0), (((2, 2), 3, 5), 1),
         (((2, 2), 3, 5), (0, 2)), (((2, 3), 7), 0), ((1, 4), 0), ((4, 1), 1), (3, None)]


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "mode"), CASES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_floats_are_folded_in_the_documented_order(dtype, shape, mode):
    elements = int(np.prod([np.prod(s) for s in shape])) if isinstance(shape, tuple) else shape
    x = np.asfortranarray(np.random.default_rng(0).standard_normal((elements, 32)).astype(dtype))
    for kind in ("sum", "prod", "max", "min"):
        wanted = expected(x, shape, kind, mode)
        out = np.zeros_like(x)
        report = mo.check(folded)[1, 32](out, x, shape, kind, mode)
        assert report.ok, report
        assert (out[:len(wanted)] == wanted).all(), kind


@pytest.mark.parametrize("kind", FOLDS)
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64])
def test_integers_are_folded(dtype, kind):
    x = np.asfortranarray(np.random.default_rng(1).integers(0 if dtype == np.uint8 else -3, 4, (12, 32)).astype(dtype))
    for mode in (None, 0, 1):
        wanted = expected(x, (4, 3), kind, mode)
        out = np.zeros_like(x)
        assert mo.check(folded)[1, 32](out, x, (4, 3), kind, mode).ok
        assert (out[:len(wanted)] == wanted).all()


def test_sums_have_four_chains_in_the_machine_code():
    """A sum of 32 numbers is eight additions deep in place of 31: chains, as the source has them."""
    args = mo.TensorLike(mo.float32, (32, 32)), mo.TensorLike(mo.float32, (32, 32))
    func = folded.trace(*args, (32,), "add", None, block=32)
    [op] = [op for op in func.body.walk() if isinstance(op, ops.Reduce)]
    assert op.chains == 4
    compiled = folded.compile(*args, (32,), "add", None, block=32, arch="sm_90a")
    assert compiled.source.count(" += ") == 5                                   # the loop's step, and four chains
    assert compiled.sass.count("FADD") == 31 and compiled.spills == 0


def test_a_sum_that_overflows_is_told():
    x = np.asfortranarray(np.full((8, 32), 1 << 29, np.int32))
    report = mo.check(folded)[1, 32](np.zeros_like(x), x, 8, "add", None)
    assert [finding.code for finding in report.findings] == ["A11"]
    assert mo.check(folded)[1, 32](np.zeros_like(x), x, 8, "max", None).ok


def test_init_is_folded_with_each():
    @mo.kernel
    def started(out, x):
        r = mo.fragment((2, 2), mo.int32)
        mo.copyto(r, x)
        out[0] = r.reduce("add", init=100)
        out[1] = r.reduce("or", init=8)
        tops = r.reduce("max", 0, init=2)
        out[2] = tops[0]
        out[3] = tops[1]

    out = np.zeros(4, np.int32)
    started[1, 1](out, np.array([[0, 1], [2, 3]], np.int32).T)
    assert out.tolist() == [106, 11, 2, 3]


# --- places ----------------------------------------------------------------------------------------------------------


@mo.kernel
def placed(values, places, x, kind: mo.Constexpr, mode: mo.Constexpr):
    tid = mo.thread_idx().x
    r = mo.fragment((6, 4), x.dtype)
    mo.copyto(r, mo.tile(x, (24, 1), (0, tid))[:, 0].with_layout(r.layout))
    found = r.argmax(mode) if kind == "argmax" else r.argmin(mode)
    if mode is None:
        values[0, tid] = found[0]
        places[0, tid] = found[1]
    else:
        for i in mo.static_range(mo.size(found[0])):
            values[i, tid] = found[0][i]
            places[i, tid] = found[1][i]


@pytest.mark.slow
@pytest.mark.parametrize("mode", [None, 0, 1])
@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.int64])
def test_places_are_the_first_of_equals(dtype, kind, mode):
    x = np.asfortranarray(np.random.default_rng(2).integers(-4, 5, (24, 32)).astype(dtype))
    values, places = np.zeros((24, 32), dtype), np.full((24, 32), -1, np.int32)
    assert mo.check(placed)[1, 32](values, places, x, kind, mode).ok
    whole = x.reshape(6, 4, 32, order="F") if mode is not None else x
    at = getattr(whole, kind)(axis=mode or 0).reshape(-1, 32)
    best = (whole.max if kind == "argmax" else whole.min)(axis=mode or 0).reshape(-1, 32)
    assert (places[:len(at)] == at).all() and (values[:len(at)] == best).all()
    placed.compile(values, places, x, kind, mode, block=32, arch="sm_90a")


def test_nan_is_never_the_largest():
    x = np.asfortranarray(np.random.default_rng(3).standard_normal((24, 32)).astype(np.float32))
    x[::3] = np.nan
    x[:, 5] = np.nan
    values, places = np.zeros((24, 32), np.float32), np.full((24, 32), -1, np.int32)
    placed[1, 32](values, places, x, "argmax", None)
    wanted = np.where(np.isnan(x), -np.inf, x).argmax(0)
    assert (places[0] == wanted).all() and places[0, 5] == 0 and np.isnan(values[0, 5])
    assert np.array_equal(values[0], x[wanted, np.arange(32)], equal_nan=True)


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "message"), [
    (lambda r: r.reduce("mean"), "'mean' is none of add, mul, min, max, and, or, xor"),
    (lambda r: r.reduce("xor"), 'kind "xor" is for integers and bools, not float32'),
    (lambda r: r.reduce("add", 2), "over mode 2: (6,4):(1,6) has modes 0 to 1"),
    (lambda r: r.reduce("add", (0, 0)), "over mode (0, 0)"), (lambda r: r.reduce("add", ()), "over mode ()"),
    (lambda r: r.reduce("add", "0"), "over mode '0'"), (lambda r: r.reduce("add", 1.0), "over mode 1.0"),
    (lambda r: r.argmax(-1), "over mode -1"),
])
def test_what_is_refused(call, message):
    @mo.kernel
    def wrong(x, call: mo.Constexpr):
        r = mo.fragment((6, 4), mo.float32)
        r.fill(0)
        call(r)

    with pytest.raises(mo.MoyeError) as refused:
        wrong[1, 1](np.zeros(1, np.float32), call)
    assert message in refused.value.message


def test_memory_is_copied_into_registers_first():
    @mo.kernel
    def wrong(x):
        x[0] = x.reduce("add")

    with pytest.raises(mo.TensorError, match="works on register tensors"):
        wrong[1, 1](np.zeros(8, np.float32))


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_folds_of_8_bit_floats_saturate_at_each_step(dtype):
    largest = float(ml_dtypes.finfo(dtype).max)
    x = np.array([[largest, largest], [largest, -largest], [-largest, -largest]], dtype).T
    out = np.zeros((1, 3), dtype)
    folded[1, 3](out, x, 2, "add", None)
    assert out[0].astype(np.float32).tolist() == [largest, 0, -largest]
    folded[1, 3](out, x, 2, "mul", None)
    assert out[0].astype(np.float32).tolist() == [largest, -largest, largest]
