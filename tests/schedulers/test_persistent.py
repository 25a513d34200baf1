"""``mo.PersistentTileScheduler``: every tile once, in an order that is kind to L2, with few instructions.

``UPDATE_GOLDEN=1 pytest tests/schedulers`` rewrites the golden files.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import moye as mo
import scheduler_kernels as kernels
from moye.errors import ArgumentError, TraceError

GOLDEN = Path(__file__).parents[1] / "golden" / "scheduled_tiles.cu"
EXTENTS = st.integers(1, 40)
SETTINGS = settings(max_examples=300, deadline=None)
OUT = mo.TensorLike(mo.int32, (1000, 3))


# --- every tile once -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@SETTINGS
@given(EXTENTS, EXTENTS, st.integers(1, 4), st.integers(1, 50), st.sampled_from("mn"))
@example(61, 7, 1, 8, "m")
def test_every_tile_once(tiles_m, tiles_n, batches, group, along):
    sched = mo.PersistentTileScheduler(tiles_m, tiles_n, batches, group, along)
    found = [sched.coordinates(t) for t in range(sched.tiles)]
    assert sched.tiles == tiles_m * tiles_n * batches
    assert sorted(found) == [(m, n, b) for m in range(tiles_m) for n in range(tiles_n) for b in range(batches)]
    assert [b for _, _, b in found] == sorted(b for _, _, b in found)


@pytest.mark.slow
@SETTINGS
@given(EXTENTS, EXTENTS, st.integers(1, 12))
def test_along_n_is_along_m_of_the_transpose(tiles_m, tiles_n, group):
    along_n, along_m = (mo.PersistentTileScheduler(*tiles, 1, group, along)
                        for tiles, along in (((tiles_m, tiles_n), "n"), ((tiles_n, tiles_m), "m")))
    assert [along_n.coordinates(t)[:2] for t in range(along_n.tiles)] == \
        [along_m.coordinates(t)[1::-1] for t in range(along_m.tiles)]


# --- L2 --------------------------------------------------------------------------------------------------------------


def operand_tiles(sched, begin, blocks):
    """How many tiles of A, and of B, the tiles of one wave need."""
    wave = [sched.coordinates(t) for t in range(begin, min(begin + blocks, sched.tiles))]
    return len({m for m, _, _ in wave}), len({n for _, n, _ in wave})


@SETTINGS
@given(EXTENTS, EXTENTS, st.integers(1, 12), st.integers(1, 200), st.data())
def test_a_wave_shares_its_operands(tiles_m, tiles_n, group, blocks, data):
    """Within a strip at most ``group`` tiles of A, and no more of B than that many rows take."""
    sched = mo.PersistentTileScheduler(tiles_m, tiles_n, 1, group)
    begin = data.draw(st.integers(0, sched.tiles - 1))
    strip = begin // (group * tiles_n)
    rows = min(group, tiles_m - strip * group)
    blocks = min(blocks, (strip * group + rows) * tiles_n - begin)      # to the end of the strip
    tiles_A, tiles_B = operand_tiles(sched, begin, blocks)
    assert tiles_A == min(rows, blocks)
    assert tiles_B <= (blocks - 1 + rows - 1) // rows + 1


@pytest.mark.parametrize(("tiles", "plain", "grouped"), [((64, 64), 67, 25), ((32, 64), 67, 25), ((64, 32), 37, 33)])
def test_fewer_operand_tiles_than_in_rows(tiles, plain, grouped):
    """The worst of some waves of 132 blocks: column after column of C, all of A would be read each time.

    Of the last size a wave may lie in two strips.
    """
    def worst(group):
        sched = mo.PersistentTileScheduler(*tiles, 1, group)
        return max(sum(operand_tiles(sched, begin, 132)) for begin in range(0, 256, 32))

    assert (worst(1), worst(8)) == (plain, grouped)


# --- kernels ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "cluster"), [(kernels.copy_kernel, 1), (kernels.copy_kernel, 2),
                                                 (kernels.turns_kernel, 1)], ids=["copy", "cluster", "turns"])
@pytest.mark.parametrize("shape", [(64, 96, 1), (100, 70, 3), (300, 33, 2), (1, 1, 1)], ids=str)
@pytest.mark.parametrize(("group", "along", "blocks"), [(8, "m", 4), (2, "n", 6), (3, "m", 12)])
def test_copies(kernel, cluster, shape, group, along, blocks):
    """Fewer blocks than tiles and more; two warps in turns; blocks of a cluster that share tiles."""
    src, dst, counts = kernels.copied(shape)
    report = mo.check(kernel).launch(dst, src, counts, group, along, cluster, grid=blocks, block=kernels.THREADS,
                                     cluster=cluster)
    assert report.ok, str(report)
    assert np.array_equal(dst, src)
    assert (counts == 1).all()


# --- what is printed -------------------------------------------------------------------------------------------------


@mo.kernel
def listed(out, M, N, L, along: mo.Constexpr):
    sched = mo.PersistentTileScheduler(mo.ceil_div(M, 128), mo.ceil_div(N, 256), L, 8, along)
    for t in range(sched.first, sched.tiles, sched.step):
        out[t, 0], out[t, 1], out[t, 2] = sched.coordinates(t)


@mo.kernel
def listed_statically(out, tiles: mo.Constexpr, along: mo.Constexpr):
    sched = mo.PersistentTileScheduler(*tiles, along=along)
    for t in range(sched.first, sched.tiles, sched.step):
        out[t, 0], out[t, 1], out[t, 2] = sched.coordinates(t)


def body(kernel, *arguments):
    source = kernel.compile(OUT, *arguments, block=32, arch="sm_90a").source
    return source[source.index("__global__"):]


@pytest.mark.parametrize("along", ["m", "n"])
def test_three_divisions_at_most(along):
    """Of 32 bits, unsigned, with no floors, no remainders: batch, strip, width of the strip."""
    text = body(listed, 5000, 5000, 3, along)
    assert text.count(" / (unsigned)") == text.count(" / ") == 3
    assert "long" not in text
    assert "floor" not in text
    assert " % " not in text


@pytest.mark.parametrize(("tiles", "along", "divided"), [
    ((64, 32), "m", []), ((8, 16), "m", []), ((61, 32), "m", ["5"]), ((61, 31), "n", ["488", "7"]),
    ((5, 31), "m", ["5"]), ((6, 64, 4), "n", ["384", "48"])])
def test_static_numbers_are_never_divided_by(tiles, along, divided):
    """By a constant it is a product; a power of two shifts."""
    text = body(listed_statically, tiles, along)
    assert re.findall(r" / (\(?\w+)", text) == divided
    assert " % " not in text


@pytest.mark.slow
@pytest.mark.parametrize("tiles", [(64, 32), (8, 16), (61, 32, 2), (61, 31), (5, 31), (7, 1, 3)], ids=str)
@pytest.mark.parametrize("along", ["m", "n"])
def test_static_numbers_give_the_same_order(tiles, along):
    sched = mo.PersistentTileScheduler(*tiles, along=along)
    out = np.full((sched.tiles, 3), -1, np.int32)
    listed_statically[3, 1](out, tiles, along)
    assert out.tolist() == [list(sched.coordinates(t)) for t in range(sched.tiles)]


@pytest.mark.slow
def test_fewer_instructions_than_the_floors_of_python():
    """The same order from ``//`` and ``%`` of what might be negative."""
    @mo.jit
    def floored(t, tiles_m, tiles_n):
        width = 8 * tiles_n
        first = t // width * 8
        rows = mo.min(tiles_m - first, 8)
        return first + t % width % rows, t % width // rows

    @mo.kernel
    def one(out, M, N, own: mo.Constexpr):
        t, tiles = mo.block_idx().x, (mo.ceil_div(M, 128), mo.ceil_div(N, 256))
        out[t, 0], out[t, 1] = mo.PersistentTileScheduler(*tiles).coordinates(t)[:2] if own else floored(t, *tiles)

    mine, other = (len(re.findall(r"/\*[0-9a-f]{4,}\*/ +(?!NOP)[@A-Z]", one.compile(
        OUT, 5000, 5000, own, block=32, arch="sm_90a").sass)) for own in (True, False))
    assert mine <= 62
    assert mine < other - 30


def test_golden():
    program = listed.compile(OUT, 5000, 5000, 3, "m", block=32, arch="sm_90a")
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(program.source)
    assert program.source == GOLDEN.read_text(), f"{GOLDEN} differs; UPDATE_GOLDEN=1 rewrites it"


# --- errors and the model --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "message"), [
    ({"group": 0}, "PersistentTileScheduler: group=0 is no static number >= 1"),
    ({"cluster": 1.5}, "PersistentTileScheduler: cluster=1.5 is no static number >= 1"),
    ({"along": "k"}, "PersistentTileScheduler: along='k' is neither \"m\" nor \"n\"")])
def test_errors(options, message):
    with pytest.raises(TraceError) as caught:
        mo.PersistentTileScheduler(4, 4, **options)
    assert caught.value.message == message


@pytest.mark.parametrize(("tiles", "cluster", "waves", "efficiency"), [
    ((132, 1), 1, 1, 1.0), ((133, 1), 1, 2, 133 / 264), ((32, 9), 1, 3, 288 / 396), ((66, 2), 2, 2, 1.0),
    ((3, 1), 66, 2, 3 / 4)])
def test_quantisation(tiles, cluster, waves, efficiency):
    """Whole waves of 132 blocks, of which ``cluster`` share a tile and all work at it."""
    found = mo.schedulers.quantisation(mo.PersistentTileScheduler(*tiles, cluster=cluster), 132)
    assert (found.waves, found.efficiency) == (waves, pytest.approx(efficiency))


def test_quantisation_wants_numbers():
    with pytest.raises(ArgumentError, match=r"^quantisation: 0 tiles on 132 blocks; both are numbers >= 1$"):
        mo.schedulers.quantisation(mo.PersistentTileScheduler(0, 3), 132)


def test_quantisation_of_what_it_does_not_model():
    with pytest.raises(ArgumentError, match=r"^quantisation: 3 blocks are no whole clusters of 2$"):
        mo.schedulers.quantisation(mo.PersistentTileScheduler(4, 3, cluster=2), 3)
    with pytest.raises(ArgumentError, match=r"^quantisation: a GroupedTileScheduler does not say how many tiles"):
        mo.schedulers.quantisation(mo.GroupedTileScheduler([0, 4], 16, 2), 132)


@pytest.mark.parametrize("make", [
    lambda x: mo.PersistentTileScheduler(x, 4), lambda x: mo.PersistentTileScheduler(4, 4, x),
    lambda x: mo.GroupedTileScheduler([0, 4], 16, x), lambda x: mo.StreamKScheduler(4, 4, x, blocks=8),
    lambda x: mo.StreamKScheduler(4, 4, 4, blocks=x)])
@pytest.mark.parametrize("number", [-1, 1.5, "a", None, 1 << 31])
def test_numbers_that_count_nothing(make, number):
    with pytest.raises(TraceError, match=r"integers from [01] to 2147483647, not|must be told how many blocks"):
        make(number)


def test_traced_floats_count_nothing():
    """They were truncated."""
    @mo.kernel
    def halves(x):
        mo.PersistentTileScheduler(mo.where(mo.thread_idx().x > 0, 1.5, 2.5), 4)

    with pytest.raises(TraceError, match=r"^a scheduler counts .* not a float32 value"):
        halves.trace(mo.TensorLike(mo.float32, (4,)), block=32)


@pytest.mark.parametrize("tiles", [(0, 3, 1), (3, 0, 1), (20, 0, 2), (0, 0, 1), (2, 2, 0)])
@pytest.mark.parametrize("along", ["m", "n"])
def test_no_tiles_that_are_known_while_tracing(tiles, along):
    """An array of no rows whose extents are static: the loop over tiles is traced, and has no turns."""
    @mo.kernel
    def none(out):
        sched = mo.PersistentTileScheduler(*tiles, along=along)
        for t in range(sched.first, sched.tiles, sched.step):
            m, n, batch = sched.coordinates(t)
            out[0] = m + n + batch

    out = np.full(1, -1, np.int32)
    assert mo.check(none)[2, 32](out).ok and out[0] == -1


def test_no_blocks_no_k_tiles_and_too_many_tiles():
    for make in (lambda: mo.StreamKScheduler(4, 4, 4, blocks=0), lambda: mo.StreamKScheduler(4, 4, 0, blocks=8),
                 lambda: mo.PersistentTileScheduler(1 << 16, 1 << 15).tiles):
        with pytest.raises(TraceError, match=r"^a scheduler counts tiles, k-tiles and blocks with integers from"):
            make()
    assert mo.PersistentTileScheduler(np.int64(3), 4).tiles == 12
