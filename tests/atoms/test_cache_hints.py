"""Hints for caches: the copies do what they did, the instructions say so, and what no instruction has is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

import cache_hint_kernels as cases
import moye as mo


@pytest.mark.parametrize(("hint", "prefetch", "dtype"), cases.CASES)
def test_copies_are_the_same(hint, prefetch, dtype):
    args = cases.arguments(dtype, hint, prefetch)
    wanted = cases.expected(args)
    assert mo.check(cases.hinted_kernel)[1, 32](*args).ok
    assert np.array_equal(args[0], wanted[0]) and np.array_equal(args[2], wanted[1])


@pytest.mark.slow
@pytest.mark.parametrize(("hint", "prefetch", "dtype"), cases.CASES)
def test_instructions(hint, prefetch, dtype):
    program = cases.hinted_kernel.compile(*cases.arguments(dtype, hint, prefetch), block=32, arch="sm_80")
    words = f".L1::{hint}" if hint else ""
    policy = ".L2::cache_hint" if hint in ("evict_first", "evict_last") else ""
    more = f".L2::{prefetch}B" if prefetch else ""
    assert not (words or more) or f"ld.global{words}{policy}{more}." in program.ptx
    assert not words or f"st.global{words}{policy}." in program.ptx
    assert len(re.findall(r"\.L1::", program.ptx)) == (program.ptx.count("L1::" + hint) if hint else 0)
    assert len(re.findall(r"\.L2::\d+B", program.ptx)) == (program.ptx.count(more) if more else 0)
    if hint is not None:
        loads = set(re.findall(r"LDG\.E\S*", program.sass))
        short = {"evict_first": "EF", "evict_last": "EL", "no_allocate": "NA"}[hint]
        assert loads and all(f".{short}" in load for load in loads)


def test_cp_async_prefetches():
    @mo.kernel
    def fetch(dst, src):
        tid = mo.thread_idx().x
        smem = mo.shared_array(src.dtype, 256)
        near, far = mo.tile(smem, (4,), (tid,)), mo.tile(smem, (4,), (tid + 32,))
        mo.copyto(mo.CpAsync(mo.uint128, cache="global", prefetch=256), near, mo.tile(src, (4,), (tid,)))
        mo.copyto(mo.CpAsync(mo.uint128, cache="global"), far, mo.tile(src, (4,), (tid + 32,)))
        mo.cp_async_wait()
        mo.copyto(mo.tile(dst, (4,), (tid,)), near)
        mo.copyto(mo.tile(dst, (4,), (tid + 32,)), far)

    src, dst = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    assert mo.check(fetch)[1, 32](dst, src).ok
    assert np.array_equal(dst, src)
    ptx = fetch.compile(dst, src, block=32, arch="sm_80").ptx
    assert "cp.async.cg.shared.global.L2::256B [" in ptx and "cp.async.cg.shared.global [" in ptx


def test_hints_with_a_conversion():
    """The hints are for the end in global memory, at both ends of a copy by way of registers."""
    @mo.kernel
    def convert(dst, src):
        tid = mo.thread_idx().x
        mo.copyto(mo.tile(dst, (4,), (tid,)), mo.tile(src, (4,), (tid,)), hint="evict_first", prefetch=128)

    src, dst = np.arange(128, dtype=np.float32), np.zeros(128)
    assert mo.check(convert)[1, 32](dst, src).ok
    assert np.array_equal(dst, src)
    ptx = convert.compile(dst, src, block=32, arch="sm_80").ptx
    assert "ld.global.L1::evict_first.L2::cache_hint.L2::128B.v4.f32" in ptx
    assert "st.global.L1::evict_first.L2::cache_hint.v2.f64" in ptx


def test_what_a_hint_may_be():
    with pytest.raises(mo.DTypeError, match="UniversalCopy: the hint is 'evict_first', 'evict_last' or 'no_allocate', "
                                            "not 'often'"):
        mo.UniversalCopy(mo.float32, hint="often")
    with pytest.raises(mo.DTypeError, match="AutoCopy: a load prefetches 64, 128 or 256 bytes, not 32"):
        mo.AutoCopy(prefetch=32)
    with pytest.raises(mo.DTypeError, match=r"CpAsync\(uint128\): a load prefetches 64, 128 or 256 bytes, not 512"):
        mo.CpAsync(mo.uint128, prefetch=512)
    assert str(mo.UniversalCopy(mo.float32, hint="evict_last", prefetch=64)) == \
        'UniversalCopy(float32, hint="evict_last", prefetch=64)'
    assert mo.UniversalCopy(mo.float32) == mo.UniversalCopy(mo.float32, hint=None)


@pytest.mark.parametrize(("how", "message"), [
    ("shared", r"AutoCopy\(hint=\"evict_first\"\) tells caches what to keep of global memory; smem lives in smem and "
               "mine in rmem"),
    ("store", r"AutoCopy\(prefetch=64\) prefetches what a load brings; mine lives in rmem"),
    ("atom", "hint= is for plain copies and those with a mo.make_tma_copy or mo.BulkCopy"),
    ("prefetch", "prefetch= is for plain copies; an atom has its own"),
    ("word", "copyto: AutoCopy: the hint is 'evict_first', 'evict_last' or 'no_allocate', not 'never'"),
])
def test_refused(how, message):
    @mo.kernel
    def kernel(dst, how: mo.Constexpr):
        tid = mo.thread_idx().x
        smem, mine = mo.shared_array(dst.dtype, 32), mo.fragment((1,), dst.dtype)
        place = mo.tile(dst, (1,), (tid,))
        if how == "shared":
            mo.copyto(mine, mo.tile(smem, (1,), (tid,)), hint="evict_first")
        elif how == "store":
            mo.copyto(place, mine, prefetch=64)
        elif how == "atom":
            mo.copyto(mo.UniversalCopy(mo.float32), place, mine, hint="evict_first")
        elif how == "prefetch":
            mo.copyto(mo.UniversalCopy(mo.float32), mine, place, prefetch=64)
        else:
            mo.copyto(place, mine, hint="never")

    with pytest.raises(mo.TensorError, match=message):
        kernel.trace(np.zeros(32, np.float32), how, block=32)
