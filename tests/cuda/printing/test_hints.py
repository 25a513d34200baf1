"""What unnamed values are called."""

from __future__ import annotations

import re

import pytest

import moye as mo
from moye.cuda.printing.printer import print_kernel


@mo.kernel
def views(out, x):
    tid = mo.thread_idx().x
    gX, gO = (mo.tile(t, (32, 8), (mo.block_idx().x, 0)) for t in (x, out))
    part = mo.parallelize(gX, mo.make_layout((8, 4)), tid)
    place = mo.parallelize(gO, mo.make_layout((8, 4)), tid)
    first = mo.warp_reduce(part[0, 0] + part[0, 1], "add")
    for i in mo.static_range(1, 4):
        place[i, 0] = part[i, 0] * first + part[i, 1]


def text():
    array = mo.TensorLike(mo.float32, (64, 8), (8, 1))
    return print_kernel(views.trace(array, array, block=32)).source


@pytest.mark.parametrize("declared", ["tx_mod_8 = tx % 8", "tx_div_8 = tx / 8", r"first_part(_\d)? = "])
def test_names(declared):
    assert re.search(rf"const \w+ {declared}", text()), text()


def test_no_number_is_a_name():
    assert not re.search(r"\bt\d+\b", text()), text()


def test_names_repeat():
    assert text() == text()


@mo.kernel
def optional(out, bias, plan: mo.Constexpr):
    out[mo.thread_idx().x] = 1.0


def test_the_header_tells_what_there_is():
    """No line for what is None; long ones are wrapped, not cut."""
    words = " ".join(f"word{i}" for i in range(60))
    source = print_kernel(optional.trace(mo.TensorLike(mo.float32, (32,)), None, words, block=32)).source
    head = source.partition("extern")[0]
    assert "None" not in head and "..." not in head and "word59" in head
    assert max(map(len, head.splitlines())) <= 120


def test_the_header_is_the_same_in_every_process():
    """It is part of the key of compiled kernels on disk: addresses of functions and objects are left out."""
    class Thing:
        pass

    plan = (lambda x: x, [Thing()], {"one": Thing})
    source = print_kernel(optional.trace(mo.TensorLike(mo.float32, (32,)), None, plan, block=32)).source
    assert "<lambda>" in source and ".Thing object>" in source and "0x" not in source
