"""The vectorised counts are those of moye.layout.analysis, for whole launches as for single requests."""

from __future__ import annotations

import numpy as np
import pytest

from moye.layout import Layout, analysis
from moye.layout.analysis.banks import bank_request
from moye.layout.analysis.requests import Request
from moye.sim.costs.wavefronts import bypass_cost, global_cost, line_cost, shared_cost, whole

LAYOUTS = ["32:1", "32:2", "32:4", "32:32", "32:33", "64:32", "32:0", "(8,4):(1,64)", "(4,8):(32,1)", "(16,2):(0,1)",
           "(32,8):(1,130)", "(32,4):(33,1)", "(64,4):(4,1)"]


def threads_only(text: str) -> Layout:
    layout = Layout.parse(text)
    return layout if isinstance(layout.shape, tuple) else Layout((layout.shape,), (layout.stride,))


def table_of(layout: Layout, itemsize: int) -> np.ndarray:
    """(1, T, 1) bytes: the layout maps threads."""
    count = int(np.prod(np.ravel(layout.shape)))
    return np.array([layout(t) for t in range(count)])[None, :, None] * itemsize


@pytest.mark.parametrize("bits", [8, 16, 32, 64, 128])
@pytest.mark.parametrize("text", LAYOUTS)
def test_wavefronts_are_those_of_the_analysis(text, bits):
    layout = threads_only(text)
    report = analysis.bank_conflicts(Layout((layout.shape,), (layout.stride,)), bits)
    cost = shared_cost(table_of(layout, bits // 8), bits // 8, None)
    assert (cost.requests, cost.passes, cost.ideal, cost.degree) == (
        len(report.requests), report.wavefronts, report.ideal, report.degree)


@pytest.mark.parametrize("bits", [8, 16, 32, 64, 128])
@pytest.mark.parametrize("text", LAYOUTS)
def test_sectors_are_those_of_the_analysis(text, bits):
    layout = threads_only(text)
    report = analysis.sectors_per_request(Layout((layout.shape,), (layout.stride,)), bits)
    cost = global_cost(table_of(layout, bits // 8), bits // 8, None)
    assert (cost.requests, cost.passes, cost.ideal) == (len(report.requests), report.sectors, report.ideal)


@pytest.mark.parametrize("access", ["ldmatrix.x1", "ldmatrix.x2", "ldmatrix.x4"])
@pytest.mark.parametrize("text", ["32:8", "32:64", "32:72", "(8,4):(64,8)"])
def test_rows_of_ldmatrix(text, access):
    layout = threads_only(text)
    report = analysis.bank_conflicts(Layout((layout.shape,), (layout.stride,)), 16, access)
    named = np.arange(32) < {"1": 8, "2": 16, "4": 32}[access[-1]]
    cost = shared_cost(table_of(layout, 2), 16, named[None, :, None])
    assert (cost.passes, cost.ideal, cost.degree) == (report.wavefronts, report.ideal, report.degree)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_random_addresses_and_masks(size):
    """Many values, warps and blocks at once are each warp alone; idle lanes cost nothing."""
    rng = np.random.default_rng(size)
    address = rng.integers(0, 256, (3, 70, 5)) * size
    mask = rng.random((3, 70, 5)) < 0.4
    mask[0, :32, 0] = False                             # a warp of which nobody takes part
    requests = wavefronts = sectors = 0
    for v, b, w in np.ndindex(3, 5, 3):
        lanes = slice(32 * w, min(32 * w + 32, 70))
        row, here = address[v, lanes, b], mask[v, lanes, b]
        if not here.any():
            continue
        requests += 1
        sectors += len(set((row[here] // 32).tolist()))
        together = 32 * 4 // max(size, 4)
        for start in range(0, len(row), together):
            part = row[start:start + together][here[start:start + together]]
            if len(part):
                wavefronts += bank_request(Request(w, v, tuple((8 * part).tolist())), 8 * size).degree
    shared, out = shared_cost(address, size, mask), global_cost(address, size, mask)
    assert (shared.requests, shared.passes) == (requests, wavefronts)
    assert (out.requests, out.passes) == (requests, sectors)


def test_the_worst_request_is_found():
    address = np.zeros((2, 64, 3), np.int64)
    address[1, 32:, 2] = np.arange(32) * 128
    cost = shared_cost(address, 4, None)
    assert cost.degree == 32
    value, rest = divmod(cost.skew, 3 * 2)
    assert (value, *divmod(rest, 2)) == (1, 2, 1)       # value, block, warp


def test_accesses_wider_than_an_instruction_are_several():
    address, size = whole(np.array([[[0], [32]]]), 32)
    assert size == 16 and address[:, :, 0].tolist() == [[0, 32], [16, 48]]


# --- cp.async --------------------------------------------------------------------------------------------------------

LANES = np.arange(32)


@pytest.mark.parametrize(("line", "size", "passes", "ideal"), [
    (LANES // 2, 16, 16, 4),                            # 32 bytes from each of 16 lines: ncu counts 12 conflicts
    (LANES // 4, 8, 8, 2),                              # 32 bytes from each of 8 lines: 6 conflicts
    (LANES // 8, 4, 4, 1),                              # 32 bytes from each of 4 lines: 3 conflicts
    (LANES // 16, 8, 2, 2), (LANES // 8, 16, 4, 4), (LANES * 0, 4, 1, 1)])
def test_cp_async_goes_line_by_line(line, size, passes, ideal):
    """Into contiguous shared memory: no layout of it takes fewer wavefronts."""
    cost = line_cost(LANES[None, :, None] * size, size, None, line[None, :, None])
    assert (cost.requests, cost.passes, cost.ideal, cost.degree) == (1, passes, ideal, 1)
    assert cost.spread == passes - ideal


def test_a_line_that_is_scattered_over_one_bank():
    cost = line_cost(LANES[None, :, None] * 128, 4, None, LANES[None, :, None] * 0)
    assert (cost.passes, cost.ideal, cost.degree, cost.spread) == (32, 1, 32, 0)


@pytest.mark.parametrize("size", [4, 8, 16])
def test_lines_and_masks_at_random(size):
    """Each line of each warp alone, word by word."""
    rng = np.random.default_rng(size)
    address, line = rng.integers(0, 256, (3, 70, 5)) * size, rng.integers(-3, 3, (3, 70, 5))
    mask = rng.random((3, 70, 5)) < 0.4
    mask[0, :32, 0] = False
    requests = passes = ideal = least = 0
    for v, b, w in np.ndindex(3, 5, 3):
        lanes = [t for t in range(32 * w, min(32 * w + 32, 70)) if mask[v, t, b]]
        words = {}
        for t in lanes:
            first = int(address[v, t, b]) // 4
            words.setdefault(int(line[v, t, b]), set()).update(range(first, first + size // 4))
        requests += bool(lanes)
        passes += sum(max(sum(word % 32 == bank for word in one) for bank in range(32)) for one in words.values())
        ideal += -(-sum(map(len, words.values())) // 32)
        least += sum(-(-len(one) // 32) for one in words.values())
    cost = line_cost(address, size, mask, line)
    assert (cost.requests, cost.passes, cost.ideal, cost.spread) == (requests, passes, ideal, least - ideal)
    assert bypass_cost(address, mask).passes == bypass_cost(address, mask).requests == requests
    assert bypass_cost(address, None).passes == 3 * 5 * 3
