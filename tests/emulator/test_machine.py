"""The emulator of PTX: what it runs is right, and what kernels do wrong is found, with the line.

Kernels are written here, launched through moye's own path for devices, and run from the PTX that NVRTC made of them.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import device_maps
import moye as mo
from emulator.build import compiler
from emulator.by_hand import run
from emulator.emulated import EmulatorError, emulated
from emulator.library import CASES, judged
from emulator.programs import told
from emulator.ptx import PtxError
from emulator.translate import translate
from fuzz.generator import draw
from moye.runtime.arrays import Memory

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++ on x86-64")

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"


@mo.kernel
def staged(dst, src, wait: mo.Constexpr, meet: mo.Constexpr):
    tid = mo.thread_idx().x
    smem = mo.shared_array(src.dtype, 256)                                                      # (256)
    mo.copyto(mo.CpAsync(mo.uint128), mo.tile(smem, (4,), (tid,)), mo.tile(src, (4,), (tid,)))
    if wait:
        mo.cp_async_wait()
    if meet:
        mo.sync_threads()
    for i in mo.range(4):
        dst[i * 64 + tid] = smem[255 - i * 64 - tid]


@pytest.mark.parametrize("seed", range(3))
def test_staged(seed):
    src, dst = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    with emulated(seed) as device:
        staged[1, 64](dst, src, True, True)
    assert np.array_equal(dst, src[::-1]), f"{dst[:8]}"
    assert [launch.kernel for launch in device.launches] == ["staged"] and device.launches[0].instructions > 64 * 10


def test_the_short_way():
    """Launches after the first take the plan of fast_launch.py, with parameters that it packs."""
    held = [np.arange(n * 256, (n + 1) * 256, dtype=np.float32) for n in range(4)]
    dst, *sources = (Memory(x.ctypes.data, x.shape, mo.float32, 0) for x in held)
    with emulated() as device:
        assert all(mo.describe(x) for x in (dst, *sources)), "the emulator knows what was looked at"
        for n, src in enumerate(sources, 1):
            staged[1, 64](dst, src, True, True)
            assert np.array_equal(held[0], held[n][::-1]), f"launch {n}"
    assert len(device.launches) == 3 and device.short_launches == 2, "the first launch goes the long way"


@pytest.mark.parametrize(("wait", "meet"), [(False, True), (True, False)])
def test_what_is_not_waited_for_is_seen(wait, meet):
    """Without the wait or the barrier, some order of threads reads what is not there yet."""
    src, wrong = np.arange(256, dtype=np.float32), 0
    for seed in range(4):
        dst = np.zeros(256, np.float32)
        with emulated(seed):
            staged[1, 64](dst, src, wait, meet)
        wrong += not np.array_equal(dst, src[::-1])
    assert wrong, "four orders of threads, and every one gave the right numbers"


@mo.kernel
def strided(dst, step: mo.Constexpr):
    dst[mo.thread_idx().x * step] = 1.0


def test_out_of_bounds():
    held = np.zeros(96, np.float32)
    with emulated():
        strided[1, 32](held[:32], 1)
        with pytest.raises(EmulatorError, match=r"strided: PTX line \d+ in block \(0, 0, 0\) thread .*: out of "
                                                r"bounds: 4 bytes at global address"):
            strided[1, 32](held[:32], 3)


def test_deadlock():
    """Half of the threads wait at one barrier for the others, which wait at another."""
    ptx = HEAD + """.visible .entry k(.param .u64 k_param_0) {
    .reg .b32 %r<2>; .reg .pred %p<2>;
    mov.u32 %r0, %tid.x;
    setp.lt.u32 %p0, %r0, 32;
    @%p0 bar.sync 1, 64;
    @!%p0 bar.sync 2, 64;
    ret; }"""
    with pytest.raises(EmulatorError, match=r"deadlock: 32 threads wait at PTX line 8, bar.sync 1 .* bar.sync 2"):
        run(ptx, "k", np.zeros(4, np.uint32), threads=64)


def test_a_second_read_through_the_constant_cache_is_refused():
    """A write that a read by ld.global.nc may not see."""
    ptx = HEAD + """.visible .entry k(.param .u64 k_param_0) {
    .reg .b64 %rd<2>; .reg .b32 %r<2>;
    ld.param.u64 %rd0, [k_param_0];
    mov.u32 %r0, 7;
    st.global.u32 [%rd0], %r0;
    ld.global.nc.u32 %r1, [%rd0];
    ret; }"""
    with pytest.raises(EmulatorError, match=r"PTX line 9 .*ld.global.nc of address .*, which this launch has written"):
        run(ptx, "k", np.zeros(4, np.uint32))


def test_lanes_that_do_not_come():
    """A shuffle whose mask names a lane that waits elsewhere."""
    ptx = HEAD + """.visible .entry k(.param .u64 k_param_0) {
    .reg .b32 %r<4>; .reg .pred %p<2>;
    mov.u32 %r0, %laneid;
    setp.eq.u32 %p0, %r0, 5;
    @%p0 bar.warp.sync 0xffffffff;
    @!%p0 shfl.sync.bfly.b32 %r1, %r0, 1, 31, 0xffffffff;
    ret; }"""
    with pytest.raises(EmulatorError, match=r"deadlock: .*bar.warp.sync.*shfl.bfly"):
        run(ptx, "k", np.zeros(4, np.uint32))


@pytest.mark.parametrize("instruction", ["video.sub.u32 %r0, %r1, 3", "add.sat.s32 %r0, %r1, 3",
                                         "cvt.rs.f16x2.f32 %r0, %r1, 0f00000000", "cvt.sat.f32.s32 %r0, %r1"])
def test_what_is_not_known_is_refused(instruction):
    """An instruction, and a way of one."""
    text = HEAD + f".visible .entry k() {{\n.reg .b32 %r<2>;\n{instruction};\nret; }}"
    with pytest.raises(PtxError, match=rf"PTX line 6: the emulator does not know {re.escape(instruction)}"):
        translate(text)


def test_floats_are_cut_off_at_0_and_1():
    """cvt.sat from float32 to itself; NaN becomes 0."""
    ptx = HEAD + """.visible .entry k(.param .u64 k_param_0) {
    .reg .b64 %rd<3>; .reg .b32 %r<2>; .reg .f32 %f<3>;
    ld.param.u64 %rd0, [k_param_0];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 4;
    add.s64 %rd2, %rd0, %rd1;
    ld.global.f32 %f0, [%rd2];
    cvt.sat.f32.f32 %f1, %f0;
    st.global.f32 [%rd2], %f1;
    ret; }"""
    held = np.array([np.nan, -1, -0.0, 0.25, 1, 2, np.inf, -np.inf], np.float32)
    run(ptx, "k", held, threads=8)
    assert held.tolist() == [0, 0, 0, 0.25, 1, 1, 1, 0]


@pytest.mark.parametrize(("seed", "by"), [(0, "tensor"), (5, "address")])
def test_tensor_maps_that_kernels_change(seed, by):
    """tensormap.replace of each field, in shared memory, and the way to global memory."""
    begun, x, layout, at = device_maps.drawn(seed)
    out, workspace = np.zeros(mo.size(layout), np.float32), device_maps.places(1, 2)
    workspace[0, 0, 0] = x.ctypes.data
    with emulated(seed):
        tma = mo.make_tma_copy(mo.TmaLoad(), begun, layout)
        device_maps.tile_kernel[1, 32](out, tma, x, workspace, at, by)
    assert np.array_equal(out, device_maps.tile_of(x, layout.shape, at))


def test_products_of_halves_and_bytes():
    ptx = HEAD + """.visible .entry k(.param .u64 k_param_0) {
    .reg .b64 %rd<2>; .reg .b32 %r<8>;
    ld.param.u64 %rd0, [k_param_0];
    mov.b32 %r0, 0x0003fffe;
    mov.b32 %r1, 0x07fd02ff;
    dp2a.lo.u32.u32 %r2, %r0, %r1, 1;
    dp2a.lo.s32.s32 %r3, %r0, %r1, 1;
    dp2a.hi.s32.u32 %r4, %r0, %r1, 1;
    st.global.u32 [%rd0], %r2;
    st.global.u32 [%rd0+4], %r3;
    st.global.u32 [%rd0+8], %r4;
    ret; }"""
    found = np.zeros(3, np.int32)
    run(ptx, "k", found)
    assert list(found) == [65534 * 255 + 3 * 2 + 1, 2 + 3 * 2 + 1, -2 * 253 + 3 * 7 + 1]


def test_integers_are_packed():
    """cvt.pack: saturated, the second operand lowest, bytes below the lower half of the fourth."""
    ptx = HEAD + """.visible .entry k(.param .u64 k_param_0) {
    .reg .b64 %rd<2>; .reg .b32 %r<8>;
    ld.param.u64 %rd0, [k_param_0];
    mov.b32 %r0, -300;
    mov.b32 %r1, 70000;
    cvt.pack.sat.s8.s32.b32 %r2, %r0, 5, 0xabcd1234;
    cvt.pack.sat.u8.s32.b32 %r3, %r0, %r1, %r2;
    cvt.pack.sat.s16.s32 %r4, %r0, %r1;
    st.global.u32 [%rd0], %r2;
    st.global.u32 [%rd0+4], %r3;
    st.global.u32 [%rd0+8], %r4;
    ret; }"""
    found = np.zeros(3, np.uint32)
    run(ptx, "k", found)
    assert [hex(x) for x in found] == ["0x12348005", "0x800500ff", "0xfed47fff"]


@pytest.mark.parametrize(("kernel", "number"), [("rms_norm", 0), ("gemm_sm80", 3), ("gemm_sm90", 3)])
def test_library(kernel, number):
    """Cases of library.py, one of each kind of memory and products; the script runs all of them."""
    one = [x for x in CASES if x.kernel == kernel][number]
    verdict, error, device = judged(one, 5)
    assert verdict == "right" and error > 0, verdict
    assert device.launches, "it ran in the emulator"


@pytest.mark.parametrize("seed", [70000, 70005])
def test_programs_of_the_fuzzer(seed):
    """What the interpreter computes, bit for bit; the script runs any number."""
    assert told(draw(seed), seed) == "", told(draw(seed), seed)
