"""The overlap that the manual's pictures promise, in the kernels of the examples: in program order, in PTX, in SASS."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from unittest import mock

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.cuda.compiler import nvrtc
from moye.cuda.compiler.nvrtc import compile_cubin
from moye.cuda.compiler.overlap import ptx_overlap, sass_overlap
from moye.kernels import WarpgroupConfig, gemm_sm90

TWINS = Path(__file__).parents[2] / "benchmarks" / "twins"
NONE, THROUGH, DOUBLE = Fraction(0), Fraction(31, 32), Fraction(31, 32) * Fraction(7, 8)
FIGURES = {"03_matmul_tiled": NONE, "04_matmul_async": NONE, "05_matmul_vectorized": NONE,
           "06_matmul_overlapped": THROUGH, "09_matmul_double_buffered": DOUBLE}


def launch(module, k_tiles, **options):
    """One block of a matmul, with the timeline."""
    rng = np.random.default_rng(k_tiles)
    A, B = (np.asfortranarray(rng.standard_normal((128, 8 * k_tiles), np.float32)) for _ in range(2))
    C = np.full((128, 128), np.nan, np.float32, order="F")
    report = module.matmul(A, B, C, kernel=mo.check(module.matmul_kernel, timeline=True), **options)
    assert report.ok and np.allclose(C, A @ B.T, atol=1e-3)
    return report.timeline()


@pytest.mark.slow
@pytest.mark.parametrize("stem", FIGURES)
def test_the_share_at_32_k_tiles(example, stem):
    overlap = launch(example(stem), 32).overlap()
    assert overlap.share == FIGURES[stem]
    per_tile = 1 if stem.startswith("06") else 8
    assert overlap.total == 32 * per_tile * 8, "k-tiles, gemms of a k-tile, warps"


@pytest.mark.parametrize("k_tiles", [1, 2, 5])
def test_the_share_at_other_lengths(example, k_tiles):
    """Every k-tile but the last hides the copy of the next."""
    hidden = Fraction(k_tiles - 1, k_tiles)
    assert launch(example("04_matmul_async"), k_tiles).overlap().share == 0
    assert launch(example("06_matmul_overlapped"), k_tiles).overlap().share == hidden
    assert launch(example("09_matmul_double_buffered"), k_tiles).overlap().share == hidden * Fraction(7, 8)


def test_the_eighth_k_block_waits_first(example):
    """Why it is 7/8: in k_block 7 the wait stands before the product."""
    timeline = launch(example("09_matmul_double_buffered"), 3)
    mmas = [e for e in timeline.events if e.kind == "mma" and e.warp == 0]
    assert [(dict(e.trips)["k_tile"], dict(e.trips)["k_block"]) for e in mmas if not e.in_flight] == \
        [(0, 7), (1, 7), *((2, k_block) for k_block in range(8))]
    waits = [e for e in timeline.events if e.kind == "wait" and e.warp == 0 and e.trips]
    assert [dict(e.trips)["k_block"] for e in waits] == [7, 7, 7]
    assert [len(e.completes) for e in waits] == [2, 2, 0]


@pytest.mark.slow
@pytest.mark.parametrize(("stem", "expected"), [("04_matmul_async", 0), ("06_matmul_overlapped", 1),
                                                ("09_matmul_double_buffered", Fraction(7, 8))])
def test_compiled_kernels(example, stem, expected):
    """PTX keeps the order of the source; of the SASS only what no compiler may break is asserted."""
    A = np.zeros((128, 16), np.float32, order="F")
    C = np.zeros((128, 128), np.float32, order="F")
    module = example(stem)
    with mo.compile_only("sm_90a") as gathered:
        module.matmul(A, A, C)
    overlap = gathered.programs[0].overlap()
    assert (overlap.ptx.total, overlap.sass.total, overlap.sass.name) == (512, 512, "FFMA")
    assert overlap.ptx.share == expected
    assert overlap.ptx.main.loop and overlap.sass.main.loop
    assert all(loop.unended == 0 and loop.copies for loop in (overlap.ptx.main, overlap.sass.main))
    if expected == 0:
        assert overlap.sass.share == 0
    else:
        assert 0 < overlap.sass.share <= overlap.ptx.share
        assert overlap.sass.overlapped == between(gathered.programs[0].sass, after_loop=stem.startswith("06"))
    assert f"{overlap.ptx.overlapped} of 512 FFMA" in str(overlap)


def between(sass, after_loop):
    """FFMA lines from the first LDGSTS of the main loop to DEPBAR, through the loop's end if that stands before it."""
    lines = sass.splitlines()
    first, last = (next(i for i in order if "FFMA" in lines[i])
                   for order in (range(len(lines)), range(len(lines) - 1, -1, -1)))
    head = max(i for i in range(first) if lines[i].startswith(".L"))
    back = next(i for i in range(last, len(lines)) if "BRA" in lines[i])
    issue = next(i for i in range(head, back) if "LDGSTS" in lines[i])
    wait = next(i for i in range(head, back) if "DEPBAR.LE" in lines[i])
    spans = [range(issue, back), range(head, wait)] if after_loop else [range(issue, wait)]
    return sum("FFMA" in lines[i] for span in spans for i in span)


@pytest.mark.slow
def test_ptxas_undoes_the_overlap_of_the_hand_written_twin():
    """510 of the 512 FFMA of a k-tile stand before the copy is issued, though the PTX has them all behind it."""
    compiled = compile_cubin((TWINS / "simt_naive_frag.cu").read_text(), "k", "sm_90a")
    sass, ptx = sass_overlap(compiled.sass, "k"), ptx_overlap(compiled.ptx, "k")
    assert (ptx.overlapped, ptx.total) == (512, 512)
    assert sass.total == 512
    assert sass.overlapped < 64, "ptxas may change, but 512 it will not be"


# --- TMA and wgmma ---------------------------------------------------------------------------------------------------

ROLES = {"15_matmul_wgmma": (256, 128, np.float32), "17_matmul_warp_specialized": (200, 136, np.float16)}


def launch_roles(module, k, m=128, n=128, dtype=np.float16, **options):
    """A matmul with a warp for each role, with the timeline of one block."""
    rng = np.random.default_rng(k)
    A, B = (rng.standard_normal((rows, k)).astype(np.float16) for rows in (m, n))
    C = np.full((m, n), np.nan, dtype)
    report = module.matmul(A, B, C, kernel=mo.check(module.matmul_kernel, **{"timeline": True, **options}))
    assert report.ok, str(report)
    exact = A.astype(np.float64) @ B.astype(np.float64).T
    assert np.linalg.norm(C - exact) < 1e-3 * np.linalg.norm(exact)
    return report.timeline()


@pytest.mark.slow
@pytest.mark.parametrize("earliest", [False, True])
@pytest.mark.parametrize("k", [64, 104, 512, 1000])
@pytest.mark.parametrize("stem", ROLES)
def test_every_k_tile_but_the_last_hides_a_load(example, stem, k, earliest):
    """Fewer k-tiles than stages and more; the block in the corner, where they are ragged."""
    m, n, dtype = ROLES[stem]
    tiles = -(-k // 64)
    overlap = launch_roles(example(stem), k, m, n, dtype, earliest=earliest, timeline=[1]).overlap()
    assert overlap.total == tiles * 4 * 8, "k-tiles, products of a k-tile, warps"
    assert overlap.share == Fraction(tiles - 1, tiles)


def test_the_last_k_tile_has_no_next(example):
    """Which products hide nothing; loads of warp 8 end in warp 0, products at the wait of the next trip."""
    timeline = launch_roles(example("17_matmul_warp_specialized"), 512)
    mmas = [e for e in timeline.events if e.kind == "mma"]
    assert {dict(e.trips)["k"] for e in mmas if not e.in_flight} == {7}
    assert {e.in_flight for e in mmas if dict(e.trips)["k"] == 0} == {8}, "the other four stages, of A and of B"
    loads = [e for e in timeline.events if e.kind == "tma"]
    assert {(e.warp, timeline.events[e.done].warp) for e in loads} == {(8, 0)}
    assert [dict(timeline.events[e.done].trips)["k"] for e in loads] == [k for k in range(8) for _ in "AB"]
    for event in mmas:
        wait, k = timeline.events[event.done], dict(event.trips)["k"]
        assert (wait.warp, dict(wait.trips).get("k", 8)) == (event.warp, k + 1), "warpgroup_wait(1), one k-tile later"
    stores = [e for e in timeline.events if e.kind == "tma store"]
    assert stores and {timeline.events[e.done].text for e in stores} == {"mo.tma_store_wait(0)"}


CONFIGS = {
    "cooperative": (WarpgroupConfig(128, 128, 64, 3, groups=2), (128, 128, 512), 1),
    "one_group": (WarpgroupConfig(64, 64, 64, 4, groups=1), (128, 72, 264), 4),
    "pingpong": (WarpgroupConfig(64, 128, 64, 3, "pingpong", 2), (128, 256, 512), 4),
    "pingpong_ragged": (WarpgroupConfig(64, 128, 64, 3, "pingpong", 2), (200, 136, 328), 8),
    "multicast": (WarpgroupConfig(64, 64, 64, 3, groups=1, share_A=2), (64, 256, 320), 2),
}


def launch_gemm(config, shape):
    """gemm_sm90 by as few blocks as there can be, and the timeline of the first."""
    M, N, K = shape
    rng = np.random.default_rng(K)
    A, B = (rng.standard_normal((rows, K)).astype(ml_dtypes.bfloat16) for rows in (M, N))
    C = np.zeros((M, N), ml_dtypes.bfloat16)
    with mock.patch.object(mo, "multiprocessors", lambda array: config.cluster), mo.timelines() as found:
        gemm_sm90(A, B, C, config=config)
    exact = A.astype(np.float64) @ B.astype(np.float64).T
    assert np.linalg.norm(C - exact) < 5e-3 * np.linalg.norm(exact)
    timeline, = found
    return timeline


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_gemm_sm90_hides_loads_from_tile_to_tile(name):
    """A persistent block goes on to load for its next tile: only the last k-tile of all has no next."""
    config, shape, tiles = CONFIGS[name]
    total = tiles * -(-shape[2] // 64)
    overlap = launch_gemm(config, shape).overlap()
    assert overlap.share == Fraction(total - 1, total)
    assert overlap.total == total * 4 * config.bM // 64, "products of k-tiles, warps, rows"


def test_loads_of_the_next_tile_are_in_flight_while_a_warpgroup_stores():
    """Ping-pong: each warpgroup stores two tiles in two pieces, and all but the last tile of all hide loads."""
    config, shape, _ = CONFIGS["pingpong"]
    events = launch_gemm(config, shape).events
    pieces = {warp: [e for e in events if e.kind == "write" and e.warp == warp] for warp in (0, 4)}
    assert [[e.in_flight > 0 for e in pieces[warp]] for warp in (0, 4)] == [[True] * 4, [True, True, False, False]]


PICTURES = {"single_stage": "04_matmul_async", "through_registers": "06_matmul_overlapped",
            "double_buffered": "09_matmul_double_buffered"}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PICTURES, "warp_specialized"])
def test_the_pictures_of_the_manual(example, name):
    path = Path(__file__).parents[2] / "docs" / "pictures" / f"timeline_{name}.svg"
    svg = (launch(example(PICTURES[name]), 32) if name in PICTURES else
           launch_roles(example("17_matmul_warp_specialized"), 512)).svg()
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(svg)
    assert path.read_text() == svg, f"{path.name} differs: UPDATE_GOLDEN=1 rewrites it"


@pytest.mark.slow
def test_a_timeline_prints_both(example, monkeypatch):
    timeline = launch(example("09_matmul_double_buffered"), 32)
    told = str(timeline)
    assert "program order: 1736 of 2048 MMAs (217/256)" in told
    assert "PTX   448 of 512 FFMA (7/8)" in told
    assert "SASS" in told
    monkeypatch.setattr("moye.cuda.compiler.nvrtc._disassembler", lambda: None)
    monkeypatch.setattr("moye.cuda.compiler.nvrtc.Compiled.sass", property(lambda self: nvrtc.sass(self.cubin)))
    assert "compiled: not known here, disassembling needs nvdisasm" in str(timeline)
