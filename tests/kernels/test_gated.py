"""SwiGLU and GeGLU in the checking simulator against float64, forward and backward and packed."""

from __future__ import annotations

import math

import numpy as np
import pytest

import moye as mo
from drawn_arrays import FLOATS, clean, close, drawn, laid_out, poisoned, shape_of, wide
from moye.kernels import geglu, geglu_backward, maps, swiglu, swiglu_backward
from moye.kernels.gated import backward_of, forward_of
from moye.kernels.maps import Plan, map_kernel

erf = np.vectorize(math.erf, otypes=[float])


def exact(kind, x):
    """The activation and its derivative in float64."""
    if kind == "silu":
        s = 1 / (1 + np.exp(-x))
        return x * s, s * (1 + x * (1 - s))
    if kind == "none":
        below = (1 + erf(x / math.sqrt(2))) / 2
        return x * below, below + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x ** 3))
    return x * (1 + t) / 2, (1 + t) / 2 + x / 2 * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)


def run(kind, backward, *arguments):
    if kind == "silu":
        return (swiglu_backward if backward else swiglu)(*arguments)
    return (geglu_backward if backward else geglu)(*arguments, approximate=kind)


@pytest.mark.parametrize("kind", ["silu", "none", "tanh"])
@pytest.mark.parametrize("seed", range(5))
def test_drawn(kind, seed):
    rng = np.random.default_rng([seed, len(kind)])
    name = list(FLOATS)[seed % 4]
    shape = shape_of(rng, most=3000)
    gate, up, dout = (drawn(rng, shape, name) for _ in range(3))
    out, dgate, dup = (poisoned(rng, shape, name) for _ in range(3))
    with clean():
        run(kind, False, out, gate, up)
        run(kind, True, (dgate, dup), dout, gate, up)
    value, slope = exact(kind, wide(gate))
    close(out, value * wide(up), name, "out")
    close(dgate, wide(dout) * wide(up) * slope, name, "dgate")
    close(dup, wide(dout) * value, name, "dup")


@pytest.mark.parametrize("name", FLOATS)
def test_packed(name):
    rng = np.random.default_rng(3)
    both = drawn(rng, (5, 2 * 48), name)
    out, grads = (poisoned(rng, shape, name) for shape in ((5, 48), (5, 96)))
    dout = drawn(rng, (5, 48), name)
    with clean():
        swiglu(out, both)
        swiglu_backward(grads, dout, both)
    value, slope = exact("silu", wide(both[:, :48]))
    close(out, value * wide(both[:, 48:]), name)
    close(grads, np.hstack([wide(dout) * wide(both[:, 48:]) * slope, wide(dout) * value]), name)


def test_gradients_over_their_arrays():
    rng = np.random.default_rng(4)
    gate, up, dout = (rng.standard_normal((7, 40)).astype(np.float32) for _ in range(3))
    expected = [g.copy() for g in (gate, up)]
    swiglu_backward(tuple(expected), dout, gate.copy(), up.copy())
    swiglu_backward((gate, up), dout, gate, up)
    assert np.array_equal(gate, expected[0]) and np.array_equal(up, expected[1])


def test_large_gates_stay_finite():
    gate = np.array([-1e4, -100, -88, 0, 88, 100, 1e4], np.float32)
    out, (dgate, dup) = np.zeros(7, np.float32), np.zeros((2, 7), np.float32)
    for kind in ("silu", "none", "tanh"):
        run(kind, False, out, gate, np.ones(7, np.float32))
        run(kind, True, (dgate, dup), np.ones(7, np.float32), gate, np.ones(7, np.float32))
        assert np.isfinite([out, dgate, dup]).all()
        assert np.allclose(out, np.where(gate > 0, gate, 0), atol=1e-6)
        assert np.allclose(dgate[[0, -1]], [0, 1])


def test_empty_arrays_are_left_alone():
    x = np.zeros((0, 8), np.float32)
    swiglu(x, x, x)
    swiglu(np.zeros((4, 0), np.float32), np.zeros((4, 0), np.float32))


def test_what_is_refused():
    x = np.zeros((4, 6), np.float32)
    for arguments, text in [((x, x[:, :5], x), r"gate has shape \(4, 5\), and out has \(4, 6\)"),
                            ((x, np.zeros((4, 7), np.float32)), "its last axis must be even"),
                            ((x, x.astype(np.int32), x), "gate holds int32"),
                            ((np.broadcast_to(np.zeros(6, np.float32), (4, 6)), x, x), "out"),
                            (([1], x, x), "out is a list, and no array")]:
        with pytest.raises(mo.ArgumentError, match=text):
            swiglu(*arguments)
    with pytest.raises(mo.ArgumentError, match="approximate is 'erf'"):
        geglu(x, x, x, approximate="erf")
    with pytest.raises(mo.ArgumentError, match="grads has 3 arrays"):
        swiglu_backward((x, x, x), x, x, x)


def test_accesses_are_16_bytes():
    """Contiguous bfloat16: three loads and two stores of 128 bits for each vector, no local memory."""
    x = mo.TensorLike(mo.bfloat16, (16384 * 8192,))
    plan = Plan(8, 1, True, mo.float32)
    for outs, ins, function in [((x,), (x, x), forward_of("silu", True)),
                                ((x, x), (x, x, x), backward_of("silu", True))]:
        program = map_kernel.compile(outs, ins, function, plan, block=256, arch="sm_90a")
        moves = [line for line in program.sass.splitlines() if "LDG" in line or "STG" in line]
        assert len(moves) == len(outs) + len(ins) and all(".128" in line for line in moves)
        assert program.spills == 0 and program.registers <= 64


def test_a_slice_of_rows_is_read_in_vectors():
    """Halves of packed rows begin at multiples of 16 bytes, so they are not copied one by one."""
    rng = np.random.default_rng(5)
    both = laid_out(rng, rng.standard_normal((6, 64)).astype(np.float32), plain=1)
    out = np.zeros((6, 32), np.float32)
    with mo.checking() as reports:
        swiglu(out, both)
    assert len(reports) == 1 and reports[0].ok


@pytest.mark.parametrize("shape, pitch", [((6, 74), 74), ((3, 5), 8), ((1, 3), 3), ((40, 61), 64), ((7, 8), 8)])
def test_what_is_left_of_lines(monkeypatch, shape, pitch):
    """Elements behind the last whole vector of each line, in lines shorter than one, too; nothing beside is written."""
    rng = np.random.default_rng(11)
    gate, up = (rng.standard_normal((shape[0], pitch)).astype(np.float32)[:, :shape[1]] for _ in range(2))
    room = np.full((shape[0], pitch), 77, np.float32)
    with mo.checking() as reports:
        monkeypatch.setattr(maps, "_NARROW", 0)         # vectors of 16 bytes, as larger arrays have them
        maps.mapped((room[:, :shape[1]],), (gate, up), forward_of("silu", False))
    exact = gate.astype(np.float64) / (1 + np.exp(-gate.astype(np.float64))) * up
    assert abs(room[:, :shape[1]] - exact).max() < 1e-5 and (room[:, shape[1]:] == 77).all()
    assert all(report.ok for report in reports), reports
