"""Tables of leftovers: one column while blocks agree, and the same answers as a full table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import moye as mo
from moye.dtypes import Space
from moye.ir.nodes import Block, Buffer, Func, Literal, TileRef
from moye.sim.flow.once import KEPT, once_per_func
from moye.sim.values.addressing import Addresser
from moye.sim.values.leftovers import Leftovers, SharedTable

ELEMENTS, BLOCKS = 12, 5


def _rows(rng: np.random.Generator) -> np.ndarray[Any, Any]:
    return rng.integers(-2, ELEMENTS + 2, (2, rng.choice([1, 3]), rng.choice([1, BLOCKS])))


def _lanes(rng: np.random.Generator) -> np.ndarray[Any, Any] | None:
    shape = [(3, 1), (1, BLOCKS), (3, BLOCKS), (2, 3, BLOCKS), (2, 1, 1)][rng.integers(5)]
    return None if rng.random() < 0.3 else rng.random(shape) < 0.5


def _places(rows: np.ndarray[Any, Any], lanes: np.ndarray[Any, Any] | None) -> tuple[np.ndarray[Any, Any], ...]:
    row, block, here = np.broadcast_arrays(rows.clip(0, ELEMENTS - 1), np.arange(BLOCKS),
                                           np.True_ if lanes is None else lanes)
    return row[here], block[here]


@pytest.mark.parametrize("seed", range(30))
def test_a_table_says_what_a_full_one_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table, full = SharedTable(ELEMENTS, BLOCKS, np.int16), np.zeros((ELEMENTS, BLOCKS), np.int16)
    for number in range(1, 40):
        rows, lanes = _rows(rng), _lanes(rng)
        if rng.random() < 0.8 and number < 20:          # as most kernels are: all blocks do the same
            rows, lanes = rows[..., :1], None if lanes is None else lanes[..., :1]
        table.put(rows, lanes, number)
        full[_places(rows, lanes)] = number
        asked = _rows(rng)
        wide = np.broadcast_to(asked.clip(0, ELEMENTS - 1), (*asked.shape[:2], BLOCKS))
        assert np.array_equal(np.broadcast_to(table.of(asked), wide.shape), full[wide, np.arange(BLOCKS)])


def test_blocks_that_agree_share_a_column() -> None:
    table = SharedTable(ELEMENTS, BLOCKS, np.int16)
    table.put(np.arange(3)[:, None, None], np.array([[True]]), 4)
    assert table.data.shape == (ELEMENTS, 1)
    table.put(np.arange(3)[:, None, None], np.arange(BLOCKS)[None] < 2, 5)
    assert table.data[:4].tolist() == [[5, 5, 4, 4, 4]] * 3 + [[0] * BLOCKS]


@pytest.mark.parametrize("seed", range(30))
def test_leftovers_are_read_where_a_full_table_says_so(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found, full = Leftovers(ELEMENTS, BLOCKS), np.zeros((ELEMENTS, BLOCKS), np.bool_)
    for _ in range(30):
        rows, lanes = _rows(rng), _lanes(rng)
        if rng.random() < 0.3:
            there = (rows >= 0) & (rows < ELEMENTS)
            lanes = there if lanes is None else there & lanes
            found.note(rows, lanes)
            full[_places(rows, lanes)] = True
        elif rng.random() < 0.6:
            found.clear(rows, lanes)
            full[_places(rows, lanes)] = False
        else:
            found.look(rows, lanes)
            assert found.read == bool(full[_places(rows, lanes)].any())
            found.read = False


@pytest.mark.parametrize("seed", range(20))
def test_what_lies_beyond_an_argument(seed: int) -> None:
    rng = np.random.default_rng(seed)
    buffer = Buffer("x", Space.GLOBAL, mo.float32, None, mo.make_layout(60), align=4, index=0)
    ref = TileRef(buffer, Literal(0, mo.int32), mo.float32, (1, 7))
    addresser = Addresser(ref, (4, 3), 2, None)
    offset = rng.integers(-30, 60, [(3, 5), (1, 5), (3, 1), (1, 1)][seed % 4])
    low, high = -5, int(rng.integers(0, 60))
    index = addresser(offset, (), ())
    expected = (index < low) | (index > high)
    assert np.array_equal(np.broadcast_to(addresser.beyond(offset, (), (), low, high), expected.shape), expected)
    few = addresser.beyond(3, (), (), -5, 100)
    assert not few.any() and few.size == 1, "nothing is beyond, and no index was made to see that"


def test_what_follows_from_a_func_is_worked_out_once() -> None:
    calls: list[str] = []

    @once_per_func
    def name_of(func: Func) -> str:
        calls.append(func.name)
        return func.name

    one, other = Func("f", [], Block(), (1, 1, 1)), Func("f", [], Block(), (1, 1, 1))
    assert [name_of(one), name_of(other), name_of(one)] == ["f"] * 3 and len(calls) == 2
    for number in range(KEPT):
        name_of(Func(str(number), [], Block(), (1, 1, 1)))
    name_of(one)
    assert len(calls) == KEPT + 3, "the oldest is forgotten"
