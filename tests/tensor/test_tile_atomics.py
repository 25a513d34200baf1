"""``mo.red``: its instructions, what is refused, what the checker still finds; atomics of floats and of 16 bits."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import moye as mo


@mo.kernel
def add_rows(out, x, n: mo.Constexpr, width: mo.Constexpr, ragged: mo.Constexpr):
    tid, bid = mo.thread_idx().x, mo.block_idx().x
    mine = mo.fragment((n,), x.dtype)
    mo.copyto(mine, mo.tile(x, (n,), (bid * 32 + tid,)))
    mo.red(mo.tile(out, (n,), (tid,), ragged=ragged), mine, width=width)


def instructions(dtype, n, width=None, out=None):
    x = np.zeros(64 * n, dtype)
    program = add_rows.compile(np.zeros(32 * n, dtype) if out is None else out, x, n, width, False, block=32,
                               arch="sm_90a" if width != 1 else "sm_80")
    return re.findall(r"red\.\S+", program.ptx)


@pytest.mark.parametrize(("dtype", "n", "width", "wanted"), [
    (np.float32, 8, None, ["red.relaxed.gpu.global.add.v4.f32"] * 2),
    (np.float32, 6, None, ["red.relaxed.gpu.global.add.v2.f32"] * 3),
    (np.float32, 4, 2, ["red.relaxed.gpu.global.add.v2.f32"] * 2),
    (np.float32, 3, None, ["red.relaxed.gpu.global.add.f32"] * 3),
    (np.float32, 2, 1, ["red.relaxed.gpu.global.add.f32"] * 2),
    (np.float16, 8, None, ["red.relaxed.gpu.global.add.noftz.v8.f16"]),
    (np.float16, 4, None, ["red.relaxed.gpu.global.add.noftz.v4.f16"]),
    (ml_dtypes.bfloat16, 8, None, ["red.relaxed.gpu.global.add.noftz.v8.bf16"]),
    (ml_dtypes.bfloat16, 2, None, ["red.relaxed.gpu.global.add.noftz.v2.bf16"]),
    (np.float64, 2, None, ["red.relaxed.gpu.global.add.f64"] * 2),
    (np.int32, 4, None, ["red.relaxed.gpu.global.add.u32"] * 4),
])
def test_instructions(dtype, n, width, wanted):
    assert instructions(dtype, n, width) == wanted


def test_memory_that_is_apart_is_not_taken_together():
    assert instructions(np.float32, 4, out=np.zeros((128, 2), np.float32)[:, 0]) == \
        ["red.relaxed.gpu.global.add.f32"] * 4


def test_older_architectures_say_what_they_lack():
    with pytest.raises(mo.UnsupportedError, match="uses atomics of several elements, which need sm_90a or later"):
        add_rows.compile(np.zeros(128, np.float32), np.zeros(256, np.float32), 4, None, False, block=32, arch="sm_80")


@mo.kernel
def added(out, shared_out, x):
    """Sums whose old value nobody uses, one whose is, and sums in shared memory."""
    tid, sums = mo.thread_idx().x, mo.shared_array(x.dtype, 2)
    if tid < 2:
        sums[tid] = 0
    mo.sync_threads()
    mo.atomic_add(out, tid % 2, x[tid])
    mo.atomic_max(out, 2, mo.atomic_add(out, tid % 2, x[tid]))
    mo.atomic_add(sums, tid % 2, x[tid])
    mo.sync_threads()
    if tid < 2:
        shared_out[tid] = sums[tid]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int16, np.int32])
@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a"])
def test_sums_on_every_architecture(dtype, arch):
    x = (np.arange(32) % 5).astype(dtype)
    out, in_shared = np.zeros(3, dtype), np.zeros(2, dtype)
    assert mo.check(added)[1, 32](out, in_shared, x).ok
    even, odd = x[::2].astype(int).sum(), x[1::2].astype(int).sum()
    assert (out[:2] == [2 * even, 2 * odd]).all() and (in_shared == [even, odd]).all()
    ptx = added.compile(out, in_shared, x, block=32, arch=arch).ptx
    assert ("add.noftz.bf16" in ptx) == (dtype is ml_dtypes.bfloat16 and arch == "sm_90a")


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int16])
def test_blocks_that_add_to_the_same_rows(dtype):
    x, out = (np.arange(512) % 7).astype(dtype), (np.arange(256) % 3).astype(dtype)
    wanted = out + x[:256] + x[256:]
    assert mo.check(add_rows)[2, 32](out, x, 8, None, False).ok
    assert np.array_equal(out, wanted)


def test_a_plain_access_beside_it_is_a_race():
    @mo.kernel
    def mixed(out, x):
        tid = mo.thread_idx().x
        mine = mo.fragment((4,), x.dtype)
        mo.copyto(mine, mo.tile(x, (4,), (tid,)))
        place = mo.tile(out, (4,), (tid,))
        if mo.block_idx().x == 0:
            mo.red(place, mine)
        else:
            out[4 * tid + 3] = 1

    report = mo.check(mixed)[2, 32](np.zeros(128, np.float32), np.ones(128, np.float32))
    assert {finding.code for finding in report.findings} == {"G2"}


def test_every_element_of_an_access_is_judged():
    """The last of four lies beyond the array."""
    report = mo.check(add_rows)[2, 32](np.zeros(126, np.float32), np.ones(256, np.float32), 4, 1, True)
    assert {finding.code for finding in report.findings} == {"B1"}


@pytest.mark.parametrize(("how", "message"), [
    ("registers", r"red: .*no global tensor, nor one in this block's shared memory"),
    ("memory", "red: .*is no register tensor"),
    ("kind", "red: kind is add or min or max or and or or or xor, not 'mul'"),
    ("order", "red: order is relaxed or release, not 'acquire'"),
    ("dtype", "red: place holds float32 but mine holds int32"),
    ("bits", "red: there is no atomic and of float32, but of int32, uint32, int64, uint64, int16, uint16"),
    ("width", "red: add of float32 in gmem takes 4 or 2 or 1 at a time, not 8"),
    ("aligned", "red: 4 elements side by side at multiples of 16 bytes are not proven of place with layout 8:1"),
])
def test_refused(how, message):
    @mo.kernel
    def kernel(out, how: mo.Constexpr):
        mine = mo.fragment((8,), mo.int32 if how == "dtype" else mo.float32)
        mine.fill(0)
        arguments = {"kind": ("mul",), "bits": ("and",)}.get(how, ())
        options = {"order": {"order": "acquire"}, "width": {"width": 8}, "aligned": {"width": 4}}.get(how, {})
        place = mo.tile(out, (8,), (mo.thread_idx().x,))
        mo.red(mine if how == "registers" else place, place if how == "memory" else mine, *arguments, **options)

    out = np.zeros(1024, np.float32)
    with pytest.raises((mo.TensorError, mo.DTypeError), match=message):
        kernel.trace(out[1:513] if how == "aligned" else out, how, block=32)


# --- one element: floats and 16 bits ---------------------------------------------------------------------------------


@mo.kernel
def extremes(low, high, x):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    mo.atomic_min(low, i % 2, x[i])
    mo.atomic_max(high, i % 2, x[i])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int16, np.uint16])
def test_extremes_of_contended_elements(dtype):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 200, 256).astype(dtype) if np.dtype(dtype).kind in "iu" else \
        rng.standard_normal(256).astype(dtype)
    if np.dtype(dtype).kind not in "iu":
        x[5] = np.nan                                   # no number, and so no extreme
    low, high = np.full(2, 100, dtype), np.zeros(2, dtype)
    assert mo.check(extremes)[8, 32](low, high, x).ok
    with np.errstate(invalid="ignore"):
        assert np.array_equal(low, np.fmin(np.fmin.reduce(x.reshape(-1, 2)), 100).astype(dtype))
        assert np.array_equal(high, np.fmax(np.fmax.reduce(x.reshape(-1, 2)), 0).astype(dtype))


def test_the_loop_around_compare_and_swap():
    x = np.zeros(64, np.float16)
    ptx = extremes.compile(x[:2], x[2:4], x, block=32, arch="sm_80").ptx
    assert "atom.relaxed.gpu.global.cas.b16" in ptx
    assert "atom.relaxed.gpu.global.cas.b32" in extremes.compile(*(3 * [np.zeros(64, np.float32)]), block=32,
                                                                 arch="sm_80").ptx
