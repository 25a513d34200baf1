"""ptxas's notes of lost performance (P7): provoked, told apart, and traced back to the kernel's lines."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import moye as mo
from moye.cuda.compiler import nvrtc, ptxas_notes
from moye.errors import CompileError
from moye.runtime import simulate

SERIAL = "Potential Performance Loss: wgmma.mma_async instructions are serialized due to"
REASONS = [
    "ill formed pipeline stage", "insufficient register resources",
    "insufficient register resources for the wgmma pipeline",
    "non wgmma instructions defining accumulator registers of a wgmma between start and end of the pipeline stage",
    "non wgmma instructions defining input registers of a wgmma between start and end of the pipeline stage",
    "non wgmma instructions reading accumulator registers of  a wgmma between start and end of the pipeline stage",
    "program dependence on compiler-inserted WG.AR in divergent path",
    "program dependence on compiler-inserted WG.DP in divergent path", "the presence of Extern calls",
    "wgmma pipeline crossing function boundary at a function call",
]
"""In the words of ptxas 13.0."""


@mo.kernel
def product(C: mo.Static, A: mo.Static, B: mo.Static, mma, layouts, fault: mo.Constexpr):
    """C = A * B^T by one warp group, which touches its registers where it should not."""
    sA, sB = mo.shared_array(A.dtype, layouts[0]), mo.shared_array(B.dtype, layouts[1])
    tid = mo.thread_idx().x
    if fault == "bounds":
        mo.min_blocks(8)
    threads = mo.make_layout((4, 32), (32, 1))
    mo.copyto(mo.parallelize(sA, threads, tid), mo.parallelize(A, threads, tid))
    mo.copyto(mo.parallelize(sB, threads, tid), mo.parallelize(B, threads, tid))
    mo.fence_proxy_async()
    mo.sync_threads()
    thr = mma.get_slice(tid)
    tCrA, tCrB = thr.partition_fragment_A(sA), thr.partition_fragment_B(sB)
    acc = mma.partition_fragment_C((mo.size(A, 0), mo.size(B, 0)))
    mo.warpgroup_arrive()
    mo.gemm(mma, tCrA, tCrB, acc, accumulate=False)                         # the first
    if fault == "between":
        acc[...] = acc * 2.0                                                # in flight
        mo.gemm(mma, tCrA, tCrB, acc, accumulate=True)                      # the second
    mo.warpgroup_commit_batch()
    mo.warpgroup_wait(0)
    mo.copyto(thr.partition_C(C), acc)


def arguments(fault, M=64, N=64):
    mma = mo.make_tiled_mma(mo.mma.wgmma(mo.float16, mo.float16, mo.float32, N))
    layouts = tuple(mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (rows, 64)) for rows in (M, N))
    A, B = (mo.TensorLike(mo.float16, (rows, 64), (64, 1)) for rows in (M, N))
    return mo.TensorLike(mo.float32, (M, N), (N, 1)), A, B, mma, layouts, fault


def compiled(fault, M=64, N=64):
    return product.compile(*arguments(fault, M, N), block=128, arch="sm_90a")


def lines(note):
    return [loc.innermost.text().strip() for loc in note.locs]


@pytest.mark.parametrize("where", ["in", "for"])
@pytest.mark.parametrize("reason", REASONS)
def test_every_reason(reason, where):
    text, func = f"{SERIAL} {reason} {where} the function 'k'", product.trace(*arguments(""), block=128)
    (note,) = ptxas_notes.notes(func, f"ptxas info    : (C7510) {text}\nptxas info    : Used 86 registers", None)
    assert note.message == f"wgmma wait for each other: {' '.join(reason.split())} (ptxas C7510)" and note.text == text
    assert note.serial and note.costs and note.registers == ("register resources" in reason)
    assert [line.endswith("# the first") for line in lines(note)] == [True]


def test_ignored_budgets_cost_and_serialise_nothing():
    text = "Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum register requirements."
    (note,) = ptxas_notes.notes(product.trace(*arguments(""), block=128), f"ptxas info    : (C7508) {text}", None)
    assert note.message == "register budgets are ignored: to maintain minimum register requirements (ptxas C7508)"
    assert note.costs and not note.serial


def test_a_kernel_without_notes():
    assert compiled("").notes == ()


@pytest.mark.parametrize("lineinfo", [False, True])
def test_the_line_that_uses_registers_in_flight(lineinfo, monkeypatch):
    """Of a statement that is several lines of C++; with #line directives in the program, too."""
    monkeypatch.setenv("MOYE_LINEINFO", str(int(lineinfo)))
    found = compiled("between").notes
    (wait,) = [note for note in found if note.serial]
    assert lines(wait) == ["acc[...] = acc * 2.0                                                # in flight"]
    assert wait.message.startswith("every wgmma in flight is waited for here")
    assert [line[-len("# the second"):] for note in found if not note.costs for line in lines(note)] == ["# the second"]


@pytest.mark.slow
def test_too_few_registers_name_every_wgmma():
    program = compiled("", M=128, N=256)
    (note,) = program.notes
    assert note.serial and "insufficient register resources" in note.message and lines(note)[0].endswith("# the first")
    assert program.spills > 0 and "more warp groups" in note.hint


def test_the_compiler_is_asked_again_once(tmp_path, monkeypatch):
    """What it said with line numbers is kept on disk."""
    monkeypatch.setenv("MOYE_CACHE_DIR", str(tmp_path))
    product._specialised.clear()
    first = compiled("between")
    assert [note.code for note in first.notes] and first.notes is first.notes
    product._specialised.clear()
    monkeypatch.setattr(nvrtc, "compile_cubin", None)
    monkeypatch.setattr(nvrtc, "compile_ptx", None)
    again = compiled("between")
    assert [str(note) for note in again.notes] == [str(note) for note in first.notes]


def test_a_rejected_kernel_names_the_instruction():
    with pytest.raises(CompileError, match="Insufficient registers") as caught:
        compiled("bounds", N=256)
    assert [loc.innermost.text().strip()[-len("# the first"):] for loc in caught.value.locs] == ["# the first"]


def test_a_warning_is_raised_once():
    program = compiled("between")
    with pytest.warns(mo.PerformanceWarning, match="product: every wgmma in flight is waited for here") as caught:
        program.warn()
    assert [warning.lineno for warning in caught] == [note.locs[0].line for note in program.notes if note.costs]
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.warn()
        compiled("").warn()


# --- lints -----------------------------------------------------------------------------------------------------------


@mo.kernel
def rows(y, x, blocks: mo.Constexpr):
    mo.min_blocks(blocks)
    bx, tid = mo.block_idx().x, mo.thread_idx().x
    gX, gY = mo.tile(x, (256, 96), (bx, 0)), mo.tile(y, (256, 96), (bx, 0))
    rX = mo.make_fragment_like(gX[tid, :])
    mo.copyto(rX, gX[tid, :])
    rX[...] = rX / rX.reduce("max")
    mo.copyto(gY[tid, :], rX)


def checked_rows(blocks, lints):
    rows._specialised.clear()
    x = np.asfortranarray(np.ones((256, 96), np.float32))
    return mo.check(rows, lints=lints)[1, 256](np.zeros_like(x), x, blocks)


@pytest.mark.slow
def test_only_deep_lints_compile():
    assert [lint.code for lint in checked_rows(8, True).lints] == []
    report = checked_rows(8, "deep")
    (lint,) = report.lints
    assert lint.code == "P6" and lint.tensor == "rX" and lint.numbers["spills"] > 0
    assert "rX = mo.make_fragment_like" in lint.locs[0].innermost.text() and "min_blocks" in lint.hint
    assert [lint.code for lint in checked_rows(2, "deep").lints] == [] and report.not_judged == ()


def test_without_a_compiler_it_is_said(monkeypatch):
    def missing(*args, **kwargs):
        raise CompileError("compiling needs NVRTC, and it is not there")

    monkeypatch.setattr(simulate, "compile_program", missing)
    report = checked_rows(8, "deep")
    assert report.ok and not report.lints
    assert report.not_judged == ("spills and serialised wgmma, which a compiler would tell of: compiling needs NVRTC, "
                                 "and it is not there",)
