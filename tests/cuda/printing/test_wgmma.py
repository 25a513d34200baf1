"""The printed text of wgmma, and the instructions that ptxas makes of it.

``UPDATE_GOLDEN=1 pytest tests/cuda/printing/test_wgmma.py`` rewrites the golden file.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import moye as mo
import wgmma_kernels as kernels
from moye.atoms import sm90
from moye.cuda.printing.printer import print_kernel

GOLDEN = Path(__file__).parents[2] / "golden" / "wgmma_chained.cu"
BF16 = (mo.bfloat16, mo.bfloat16, mo.float32)
COOPERATIVE = kernels.Case(mo.mma.wgmma(*BF16, 256), groups=2)


@cache
def compiled(case):
    return kernels.wgmma_kernel.compile(*case.arguments(np.random.default_rng(0)), block=case.threads, arch="sm_90a")


def notes(program):
    """What ptxas says of lost performance: C7510, C7511, C7514, C7602 and their like."""
    return re.findall(r"\(C\d+\).*", program.compiled.log)


def instructions(sass):
    """The names of the instructions, in order."""
    return re.findall(r"/\*[0-9a-f]{4,}\*/ +(?:@!?U?P\w+ +)?([A-Z][\w.]*)", sass)


def body(program):
    return program.source.partition('extern "C"')[2]


def test_golden():
    source = kernels.chained.compile(*kernels.chained_arguments(np.random.default_rng(0)), block=128,
                                     arch="sm_90a").source
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(source)
    assert source == GOLDEN.read_text(), f"{GOLDEN} differs; UPDATE_GOLDEN=1 rewrites it"


# Every family from shared memory; with A in registers those of 16 and 32 bits, and every second one of 8.
FAMILIES = [(family, source) for i, family in enumerate(sm90.FAMILIES)
            for source in (("SS", "RS") if i < 4 or i % 2 else ("SS",))]


@pytest.mark.slow
@pytest.mark.parametrize(("family", "source"), FAMILIES, ids=lambda x: "".join((x.d, x.a, x.b)) if
                         isinstance(x, sm90.Family) else x)
def test_not_serialised(family, source):
    """Neither spills nor notes of ptxas; an instruction for every 32 bytes of k, none after another's wait."""
    op = sm90.warpgroup_mma(family.name(64, source, family.majors(source)[-1]))
    program = compiled(kernels.Case(op, tiles=(2, 1)))
    assert not notes(program)
    assert program.spills == 0
    found = [name for name in instructions(program.sass) if re.match(r".GMMA|WARPGROUP", name)]
    shape = r"[HIQ]GMMA\.64x64x" + str(op.shape_mnk[2])
    assert sum(bool(re.match(shape, name)) for name in found) == 8
    assert found.count("WARPGROUP.DEPBAR.LE") == 2
    assert found.count("WARPGROUP.ARRIVE") == 1


@pytest.mark.slow
def test_descriptors_in_uniform_registers():
    """The warpgroup comes from a shuffle at the start: nothing moves to uniform registers inside the loop."""
    program = compiled(COOPERATIVE)
    assert "const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);" in program.source
    found = instructions(program.sass)
    first = next(i for i, name in enumerate(found) if name.startswith("HGMMA"))
    last = len(found) - next(i for i, name in enumerate(reversed(found)) if name.startswith("HGMMA"))
    assert found[first:last].count("R2UR") == 0
    assert len([name for name in found[first:last] if name.startswith("HGMMA.64x256x16.F32.BF16")]) == 4


@pytest.mark.parametrize("kept", [False, True])
def test_addresses_are_computed_anew_unless_the_kernel_keeps_them(kept):
    """The compiler does not see how a descriptor was made, so that it holds none of their sums for later products."""
    @mo.kernel
    def product(D: mo.Static, kept: mo.Constexpr):
        if kept:
            mo.keep_addresses()
        mma = mo.make_tiled_mma(COOPERATIVE.op)
        thr = mma.get_slice(mo.thread_idx().x)
        s = mo.shared_array(mo.bfloat16, mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"), (256, 64)))
        acc = mma.partition_fragment_C((64, 256))
        acc.fill(0)
        mo.gemm(mma, thr.partition_fragment_A(mo.tile(s, (64, 64), (0, 0))), thr.partition_fragment_B(s), acc)
        mo.copyto(thr.partition_C(D), acc)

    source = print_kernel(product.trace(np.zeros((64, 256), np.float32), kept, block=128)).source
    assert ('asm volatile("" : "+l"(matrix));' in source) is not kept
    assert source.count("wgmma_descriptor(") == 3                   # of A, of B, and the function


def test_which_warpgroup():
    """Of threads counted from another warpgroup too; kernels without wgmma have none."""
    @mo.kernel
    def second(D: mo.Static, product: mo.Constexpr):
        tid = mo.thread_idx().x
        if tid >= 128:
            mma = mo.make_tiled_mma(COOPERATIVE.op, mo.make_layout((2, 1)))
            thr = mma.get_slice(tid - 128)
            s = mo.shared_array(mo.bfloat16, mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"), (256, 64)))
            acc = mma.partition_fragment_C((128, 256))
            acc.fill(0)
            if product:
                mo.gemm(mma, thr.partition_fragment_A(mo.tile(s, (128, 64), (0, 0))), thr.partition_fragment_B(s), acc)
            mo.copyto(thr.partition_C(D), acc)

    D = np.zeros((128, 256), np.float32)
    with_wgmma, without = (print_kernel(second.trace(D, product, block=384)).source for product in (True, False))
    assert "warpgroup - 1" in with_wgmma
    assert "__shfl_sync" not in without
    assert "warpgroup" not in without


@pytest.mark.slow
@pytest.mark.parametrize(("thread", "text"), [
    (lambda: mo.thread_idx().x % 256, "warpgroup % 2 * 4096"),
    (lambda: mo.warp_idx() // 4 % 2 * 128 + mo.thread_idx().x % 128, "warpgroup % 2 * 4096"),
    (lambda: (mo.thread_idx().x + 128) % 256, "(warpgroup + 1) % 2 * 4096")])
def test_which_of_two_warpgroups(thread, text):
    """The thread of a tiled product of two warpgroups in a block of three: nothing moves to uniform registers."""
    mma = mo.make_tiled_mma(mo.mma.wgmma(*BF16, 128), mo.make_layout((2, 1)))
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"), (128, 64))

    @mo.kernel
    def two_of_three(D: mo.Static, n, thread: mo.Constexpr):
        sA, sB = mo.shared_array(mo.bfloat16, layout), mo.shared_array(mo.bfloat16, layout)
        thr = mma.get_slice(thread())
        tA, tB, acc = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB), mma.partition_fragment_C((128, 128))
        acc.fill(0)
        for _ in range(n):
            mo.warpgroup_arrive()
            mo.gemm(mma, tA, tB, acc)
            mo.warpgroup_commit_batch()
            mo.warpgroup_wait(0)
        mo.copyto(thr.partition_C(D), acc)

    program = two_of_three.compile(mo.TensorLike(mo.float32, (128, 128)), 5, thread, block=384, arch="sm_90a")
    assert text in program.source, program.source
    found = instructions(program.sass)
    products = [i for i, name in enumerate(found) if name.startswith("HGMMA")][:16]     # four turns of the loop
    assert found[products[0]:products[-1]].count("R2UR") == 0


def test_steps_are_additions():
    """One descriptor per operand, advanced by 32 bytes of k, 64 rows; the first product alone may start from zero."""
    text = body(compiled(kernels.Case(mo.mma.wgmma(*BF16, 64), tiles=(2, 2))))
    assert text.count("wgmma_descriptor(") == 2
    assert re.search(r"wgmma_64x64x16_f32bf16bf16_ss\(acc \+ 32 \* i \+ 64 \* j, tCrA_desc \+ 512 \* i \+ 2 \* kk, "
                     r"tCrB_desc \+ 512 \* j \+ 2 \* kk, kk > 0 \|\| k > 0\);", text)


def test_settled_after_the_last_wait_alone():
    """A group in flight is not touched: registers are settled after the loop."""
    text = body(compiled(COOPERATIVE))
    assert text.count("wgmma_pin(") == 1
    assert text.index("warpgroup_wait_1()") < text.index("warpgroup_wait_0()") < text.index("wgmma_pin(")


def test_names_of_the_user():
    """A user's variable may have the name of a printed function."""
    case = kernels.Case(mo.mma.wgmma(*BF16, 8))

    @mo.kernel
    def named(D: mo.Static):
        mma = mo.make_tiled_mma(case.op)
        wgmma_pin = mma.get_slice(mo.thread_idx().x)
        warpgroup = mo.thread_idx().x // 64
        wgmma_descriptor = mo.shared_array(mo.bfloat16, mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"),
                                                                         (64, 64)))
        B = mo.shared_array(mo.bfloat16, mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k"), (8, 64)))
        warpgroup_arrive = mma.partition_fragment_C((64, 8))
        mo.gemm(mma, wgmma_pin.partition_fragment_A(wgmma_descriptor), wgmma_pin.partition_fragment_B(B),
                warpgroup_arrive, accumulate=warpgroup > 9)
        mo.warpgroup_commit_batch()
        mo.warpgroup_wait()
        mo.copyto(wgmma_pin.partition_C(D), warpgroup_arrive)

    program = named.compile(np.zeros((64, 8), np.float32), block=128, arch="sm_90a")
    assert "wgmma_descriptor_[4096]" in program.source
    assert "warpgroup_arrive_[4]" in program.source
