"""Pairs of float32 on sm_100: which instructions are printed, what is fused, what stays, and nothing of it on sm_90."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

import moye as mo

X, OUT = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
NAMES = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+ )?(F[A-Z0-9]+)")


@mo.kernel
def each(out, x, y, s, fn: mo.Constexpr):
    i = mo.thread_idx().x
    rX, rY = mo.fragment((8,), x.dtype), mo.fragment((8,), y.dtype)
    mo.copyto(rX, mo.tile(x, (8,), (i,)))
    mo.copyto(rY, mo.tile(y, (8,), (i,)))
    mo.copyto(mo.tile(out, (8,), (i,)), fn(rX, rY, s))


def program(fn, arch="sm_100a"):
    return each.compile(OUT, X, X, 1.5, fn, block=32, arch=arch)


def counts(found):
    """The instructions on floats, by name."""
    return dict(Counter(NAMES.findall(found.sass)))


def calls(found):
    """The packed operations, with short names for the registers."""
    lines = [line.strip() for line in found.source.splitlines() if re.match(r"\s*(fma|add|mul)_f32x2\(", line)]
    return [re.sub(r"\w+\[2 \* i\]", "", re.sub(r"(-?)(rX|rY|frag\d+)\[2 \* i\], -?\w+\[2 \* i \+ 1\]", r"\1\2",
                                               line)) for line in lines]


FORMS = {
    "sum": (lambda x, y, s: x + y, ["add_f32x2(frag5, rX, rY);"], {"FADD2": 4}),
    "difference": (lambda x, y, s: x - y, ["add_f32x2(frag5, rX, -rY);"], {"FADD2": 4}),
    "product": (lambda x, y, s: x * y, ["mul_f32x2(frag5, rX, rY);"], {"FMUL2": 4}),
    "axpy": (lambda x, y, s: x * s + y, ["fma_f32x2(frag5, rX, s, s, rY);"], {"FFMA2": 4}),
    "first": (lambda x, y, s: y + x * 0.5, ["fma_f32x2(frag5, rX, 0.5f, 0.5f, rY);"], {"FFMA2": 4}),
    "less": (lambda x, y, s: x * y - s, ["fma_f32x2(frag5, rX, rY, -s, -s);"], {"FFMA2": 4}),
    "from": (lambda x, y, s: s - x * y, ["fma_f32x2(frag5, -rX, rY, s, s);"], {"FFMA2": 4}),
    "fma": (lambda x, y, s: mo.fma(x, y, s), ["fma_f32x2(frag5, rX, rY, s, s);"], {"FFMA2": 4}),
    "negative": (lambda x, y, s: (-x) * y + s, ["fma_f32x2(frag5, -rX, rY, s, s);"], {"FFMA2": 4}),
}


@pytest.mark.parametrize("form", FORMS)
def test_one_instruction_for_two(form):
    """Four for eight elements; signs cost nothing."""
    fn, wanted, instructions = FORMS[form]
    found = program(fn)
    assert [re.sub(r"frag\d+", "frag5", call) for call in calls(found)] == wanted
    assert counts(found) == instructions and found.spills == 0


def test_chains():
    """Values between are pairs too; what two take is computed once."""
    horner = program(lambda x, y, s: ((x * 0.5 + 1.0) * x + s) * x + y)
    assert counts(horner) == {"FFMA2": 12}
    assert counts(program(lambda x, y, s: (x * y) * (x * y) + 1.0)) == {"FMUL2": 4, "FFMA2": 4}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a", "sm_120"])
def test_other_architectures_have_none(arch):
    found = program(FORMS["axpy"][0], arch)
    assert "rn.f32x2" not in found.source and counts(found) == {"FFMA": 8}


def test_both_architectures_that_have_them():
    for arch in ("sm_100", "sm_103", "sm_103a"):
        assert counts(program(FORMS["axpy"][0], arch)) == {"FFMA2": 4}


@pytest.mark.parametrize("fn", [
    lambda x, y, s: mo.max(x * y, s), lambda x, y, s: mo.exp2(x + y, fast=True), lambda x, y, s: mo.abs(x - y),
    lambda x, y, s: (x + y).to(mo.float16).to(mo.float32)], ids=range(4))
def test_what_has_no_packed_form_stays(fn):
    assert "rn.f32x2" not in program(fn).source


def test_squares_that_are_summed_stay():
    """The compiler fuses each with its sum: packed, they would be more instructions."""
    @mo.kernel
    def norm(out, x):
        r = mo.fragment((8,), x.dtype)
        mo.copyto(r, mo.tile(x, (8,), (mo.thread_idx().x,)))
        out[mo.thread_idx().x] = (r * r).reduce("add")

    assert "rn.f32x2" not in norm.compile(OUT, X, block=32, arch="sm_100a").source


def test_odd_places_stay():
    """Neighbours that are no even register and the next one would be moved first."""
    @mo.kernel
    def kernel(out, x):
        r, q = mo.fragment((9,), x.dtype), mo.fragment((8,), x.dtype)
        r.fill(x[0])
        mo.copyto(q, mo.tile(x, (8,), (mo.thread_idx().x,)))
        part = r[1:9]
        mo.copyto(mo.tile(out, (8,), (mo.thread_idx().x,)), part + q)

    assert "rn.f32x2" not in kernel.compile(OUT, X, block=32, arch="sm_100a").source


def test_in_place_in_a_loop():
    @mo.kernel
    def kernel(out, x, s):
        r = mo.fragment((4, 2), x.dtype)
        mo.copyto(r, mo.tile(x, (8,), (mo.thread_idx().x,)).with_layout(r.layout))
        acc = mo.fragment((4, 2), x.dtype)
        acc.fill(0)
        for _ in mo.range(5):
            acc += r * s
        mo.copyto(mo.tile(out, (8,), (mo.thread_idx().x,)).with_layout(r.layout), acc)

    found = kernel.compile(OUT, X, 0.5, block=32, arch="sm_100a")
    assert counts(found).get("FFMA", 0) == 0 and counts(found)["FFMA2"] >= 4
    out = OUT.copy()
    kernel[1, 32](out, X, 0.5)
    assert np.array_equal(out, X * 2.5)
