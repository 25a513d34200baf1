"""The short way with arguments of all kinds: what it launches is what a kernel that knows nothing launches.

A device that is not there notes kernels, configurations and parameters.  Each sequence is drawn, so that calls are
often like earlier ones, and often only nearly.
"""

from __future__ import annotations

import dataclasses
import random
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import moye as mo
from fake_device import fake_device
from host_calls import ways
from moye.kernels import softmax
from moye.runtime.kernel import Kernel

Both = namedtuple("Both", ["x", "scale"])


@dataclasses.dataclass
class Box:
    x: Any
    scale: Any


def of_sequence(out, xs):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < mo.size(out):
        out[i] = xs[0][i] * xs[1]


def of_named(out, pair, scale=2.0):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < mo.size(out):
        out[i] = pair.x[i] * pair.scale * scale


def of_dict(out, d, more: mo.Constexpr = (1, 2)):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < mo.size(out):
        out[i] = d["x"][i] * d["scale"] + more[0]


def of_deep(outs, xs):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    for out, (x, scale) in zip(outs, xs, strict=True):
        if i < mo.size(out):
            out[i] = x[i] * scale


def of_annotated(out, x, scale: mo.float32, wide: mo.float64, count: mo.int16, yes: mo.bool_, half: mo.float16):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < count:
        out[i] = mo.where(yes, x[i] * scale + mo.float32(wide) + mo.float32(half), x[i])


def of_scalars(out, x, scale):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < mo.size(out):
        out[i] = x[i] * scale


def of_guarded(out, x, n):
    """What it assumes depends on a number and on the grid."""
    mo.assume(n <= mo.grid_dim().x * 32)
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    if i < n:
        out[i] = x[i]


def of_many(outs, x):
    i = mo.block_idx().x * 32 + mo.thread_idx().x
    for out in outs:
        if i < mo.size(out):
            out[i] = x[i]


class Pieces:
    """What arguments are drawn from: few arrays of few kinds, some of which share memory."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        room = torch.zeros(1024)
        self.arrays = [torch.zeros(64), torch.zeros(64), torch.zeros(96), torch.zeros(64, dtype=torch.float64),
                       room[:64], room[32:96], room[128:192], room[1:65], torch.nn.Parameter(torch.zeros(64)),
                       torch.zeros(128)[::2]]

    def array(self) -> Any:
        return self.rng.choice(self.arrays)

    def number(self) -> Any:
        return self.rng.choice([2, 3, 2.0, -0.0, 1 << 40, True, np.float32(2), np.int64(3), np.float64(2),
                                np.bool_(True), np.float16(1), 1e300, float("inf"), float("nan")])

    def pair(self) -> tuple[Any, Any]:
        return self.array(), self.number()


def sequences(p: Pieces) -> tuple[Any, ...]:
    return p.array(), p.rng.choice([tuple, list, lambda x: Both(*x)])(p.pair())


def named(p: Pieces) -> tuple[Any, ...]:
    more = {"scale": p.number()} if p.rng.random() < 0.5 else {}
    return (p.array(), p.rng.choice([Both, Box])(*p.pair())), more


def dicts(p: Pieces) -> tuple[Any, ...]:
    x, scale = p.pair()
    order = p.rng.choice([{"x": x, "scale": scale}, {"scale": scale, "x": x}])
    more = p.rng.choice([{}, {"more": (1, 2)}, {"more": (1.0, 2)}, {"more": (True, 2)}])
    return (p.array(), order), more


def deep(p: Pieces) -> tuple[Any, ...]:
    count = p.rng.choice([1, 2])
    return [p.array() for _ in range(count)], tuple(p.rng.choice([tuple, list])(p.pair()) for _ in range(count))


def annotated(p: Pieces) -> tuple[Any, ...]:
    rng = p.rng
    return (p.array(), p.array(), p.number(), p.number(), rng.choice([3, np.int8(3), 1 << 15, 2.0]),
            rng.choice([True, np.bool_(False), 1]), rng.choice([2, 0.1, 1e6, np.float32(3)]))


def scalars(p: Pieces) -> tuple[Any, ...]:
    return p.array(), p.array(), p.number()


def guarded(p: Pieces) -> tuple[Any, ...]:
    return p.array(), p.array(), p.rng.choice([32, 64, 128, np.int32(64)])


def many(p: Pieces) -> tuple[Any, ...]:
    return [p.array() for _ in range(p.rng.choice([2, 7]))], p.array()


CASES = {"sequences": (of_sequence, sequences), "named": (of_named, named), "dicts": (of_dict, dicts),
         "deep": (of_deep, deep), "annotated": (of_annotated, annotated), "scalars": (of_scalars, scalars),
         "guarded": (of_guarded, guarded), "many": (of_many, many)}


def outcome(launches, kernel, args, named, grid, stream):
    """What a launch passed to the driver, or the error that refused it."""
    try:
        if stream is None:
            kernel[grid, 32](*args, **named)
        else:
            kernel.launch(*args, **named, grid=grid, block=32, stream=stream)
    except (mo.MoyeError, TypeError) as error:
        return type(error), str(error)
    return launches.taken()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", CASES)
def test_drawn_sequences(case, seed):
    function, draw = CASES[case]
    rng = random.Random(f"{case} {seed}")
    pieces, kernel, earlier, short = Pieces(rng), Kernel(function), [], 0
    with fake_device(short=True) as launches, ways() as gone:
        for _ in range(60):
            if earlier and rng.random() < 0.7:
                args, named, _, stream = rng.choice(earlier)
                grid = rng.choice([2, 3, 4])
            else:
                drawn = draw(pieces)
                args, named = drawn if isinstance(drawn[-1], dict) and isinstance(drawn[0], tuple) else (drawn, {})
                grid, stream = rng.choice([2, 3]), rng.choice([None, None, 9])
            earlier.append((args, named, grid, stream))
            gone.clear()
            versions = [x._version for x in pieces.arrays]
            got = outcome(launches, kernel, args, named, grid, stream)
            short += not gone["run"]
            marked = [x._version - old for x, old in zip(pieces.arrays, versions, strict=True)]
            versions = [x._version for x in pieces.arrays]
            wanted = outcome(launches, Kernel(function), args, named, grid, stream)
            assert got == wanted, (args, named, grid)
            assert marked == [x._version - old for x, old in zip(pieces.arrays, versions, strict=True)]
    assert short > 10


def test_what_is_taken_apart_may_change():
    """A list with another array in it, a dataclass with another number, a dict with another key."""
    kernel, out, x, y = Kernel(of_deep), torch.zeros(64), torch.zeros(64), torch.zeros(64)
    pair, xs = [x, 2.0], []
    xs.append(pair)
    with fake_device(short=True) as launches:
        for change in (lambda: None, lambda: None, lambda: pair.__setitem__(0, y), lambda: pair.__setitem__(1, 3.0),
                       lambda: xs.append(pair), lambda: xs.pop()):
            change()
            got = outcome(launches, kernel, ([out] * len(xs), xs), {}, 2, None)
            assert got == outcome(launches, Kernel(of_deep), ([out] * len(xs), xs), {}, 2, None)


def test_launches_in_place_are_repeated_too():
    kernel, x = Kernel(of_scalars), torch.zeros(64)
    with fake_device(short=True) as launches, ways() as gone:
        for _ in range(3):
            kernel[2, 32](x, x, 2.0)
            kernel[2, 32](torch.zeros(64), x, 2.0)
        assert gone["run"] == 2
        launches.taken()
        kernel[2, 32](x[:32], x[16:48], 2.0)
        assert gone["run"] == 3


def test_many_arrays_are_looked_at_by_address():
    """Of those that are written none may share memory with another: then it is another kernel."""
    kernel, room = Kernel(of_many), torch.zeros(64 * 40)
    parts = [room[64 * i:64 * i + 64] for i in range(40)]
    with fake_device(short=True) as launches, ways() as gone:
        for order in (parts, parts[::-1], parts[1:] + parts[:1]):
            kernel[2, 32](order[:-1], order[-1])
        assert gone["run"] == 1
        shifted = [*parts[:5], room[64 * 4 + 32:][:64], *parts[6:-1]]
        got = outcome(launches, kernel, (shifted, parts[-1]), {}, 2, None)
        assert gone["run"] == 2
        assert got[-1:] == outcome(launches, Kernel(of_many), (shifted, parts[-1]), {}, 2, None)


def test_a_call_in_place_and_another_by_turns():
    """torch's check takes no tensor twice; both calls have the same shapes, and each finds its own replay."""
    x, y, other = torch.zeros(8, 64), torch.zeros(8, 64), torch.zeros(8, 64)
    with fake_device(softmax, short=True) as launches, ways() as gone:
        for _ in range(4):
            softmax(x, x)
            softmax(y, x)
        gone.clear()
        launches.taken()
        for out, given in ((x, x), (y, x), (other, other), (x, other)):
            softmax(out, given)
            pointers = [int.from_bytes(value, "little") for value in launches.taken()[0][2] if len(value) == 8]
            assert {out.data_ptr(), given.data_ptr()} <= set(pointers)
        assert not gone
        softmax(x, x.view(8, 64))                       # another object in the same place: looked at in full
        assert gone["decide"] == 1 and not gone["run"]
