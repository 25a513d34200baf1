"""Drawn calls, here in the simulator: each family once; and a ``Draw`` tells of what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.draw import Draw
from emulator.drawn_rows import ROWS


@pytest.mark.parametrize("family", ROWS)
def test_each_family(family: str) -> None:
    draw = Draw(1, family)
    with np.errstate(all="ignore"):
        ROWS[family](draw)
    draw.intact()


def test_the_same_seed_draws_the_same() -> None:
    first, again, other = (Draw(seed, "gated") for seed in (1, 1, 2))
    assert np.array_equal(first.normal((3, 4)), again.normal((3, 4)))
    assert not np.array_equal(again.normal((3, 4)), other.normal((3, 4)))


@pytest.mark.parametrize("name", ["bf16", "f16", "f32", "f64"])
def test_a_rounding_is_near_and_two_are_not(name: str) -> None:
    draw = Draw(3, "near")
    want = np.abs(draw.normal((9, 33))) + 1
    got = draw.room(want.shape, name, values=want)
    draw.near("got", got, want)
    got[4, 32] = np.nextafter(got[4, 32], got.dtype.type(99))
    got[4, 32] = np.nextafter(got[4, 32], got.dtype.type(99))
    with pytest.raises(AssertionError, match=r"1 of 297 are wrong, got\[4, 32\]"):
        draw.near("got", got, want)
    got[4, 32] = np.nan
    with pytest.raises(AssertionError, match=r"got\[4, 32\] is nan"):
        draw.near("got", got, want, noise=1.0)


def test_infinities_are_where_they_should_be() -> None:
    draw = Draw(4, "near")
    want = np.array([1.0, np.inf, -np.inf, 70000.0])    # the last of which float16 cannot hold
    draw.near("got", np.array([1, np.inf, -np.inf, np.inf], np.float16), want)
    for at, wrong in ((0, np.inf), (1, -np.inf), (2, np.nan), (3, -np.inf), (1, 65504)):
        got = np.array([1, np.inf, -np.inf, np.inf], np.float16)
        got[at] = wrong
        with pytest.raises(AssertionError, match=rf"1 of 4 are wrong, got\[{at}\]"):
            draw.near("got", got, want)


def test_bits_are_compared() -> None:
    draw = Draw(5, "equal")
    nans = np.array([np.nan, -0.0], np.float32)
    draw.equal("got", nans, nans.copy())
    with pytest.raises(AssertionError, match=r"got\[1\] is -0.0 and not 0.0"):
        draw.equal("got", nans, np.array([np.nan, 0.0], np.float32))


@pytest.mark.parametrize("seed", range(6))
def test_writes_beside_the_elements_are_told(seed: int) -> None:
    draw = Draw(seed, "memory")
    given, out = draw.given(draw.normal((5, 7)), "bf16", plain=0), draw.room((5, 7), "f32", plain=0)
    out[...] = 1
    draw.intact()
    memory = draw._rooms[0][1]
    memory[-1] = 0                                      # behind the last element
    with pytest.raises(AssertionError, match="around an output"):
        draw.intact()
    memory[-1] = 255
    given[2, 3] = 0
    with pytest.raises(AssertionError, match="only read was written"):
        draw.intact()
