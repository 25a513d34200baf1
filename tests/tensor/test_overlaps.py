"""Copies between views of one buffer read all before they write: on a GPU, a thread goes element by element."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.errors import TensorError
from moye.ir import ops
from written import block

PLACES = {"registers": "mo.fragment((8,), mo.float32)", "shared": "mo.shared_array(mo.float32, 8)"}
ATOM = "mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32)"


def placed(body: str, place: str):
    """A kernel of one thread that fills ``f`` with 0 to 7, does something, and stores it."""
    text = f"f = {PLACES[place]}\np = mo.fragment((4,), mo.bool)\np.fill(True)\np[1] = False\ni = mo.thread_idx().x\n" \
           f"for k in mo.static_range(8):\n    f[k] = k\n{body}\nfor k in mo.static_range(8):\n    out[k] = f[k]"
    return mo.kernel(block(text, "out"))


def in_place(func) -> list[ops.Copy]:
    """Copies within a buffer: what the printed loop reads may have been written by it."""
    return [op for op in func.body.walk() if isinstance(op, ops.Copy) and op.dst.buffer is op.src.buffer]


UP, DOWN, SPREAD = [0, 0, 1, 2, 3, 5, 6, 7], [1, 2, 3, 4, 4, 5, 6, 7], [1, 1, 2, 3, 3, 5, 4, 7]
MASKED, FILLED = [0, 0, 2, 2, 3, 5, 6, 7], [0, 0, 9, 2, 3, 5, 6, 7]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("body", "expected"), [
    ("mo.copyto(f[1:5], f[0:4])", UP), ("f[1:5] = f[0:4]", UP), ("f[1:5][...] = f[0:4]", UP),
    ("mo.copyto(f[0:4], f[1:5])", DOWN), ("mo.copyto(f[0:8:2], f[1:5])", SPREAD),
    ("mo.copyto(f[1:5], f[0:4], pred=p)", MASKED), ("mo.copyto(f[1:5], f[0:4], pred=p, other=9)", FILLED),
    (f"mo.copyto({ATOM}, f[1:5], f[0:4])", UP), (f"mo.copyto({ATOM}, f[1:5], f[0:4], pred=p, other=9)", FILLED),
    ("mo.copyto(f.with_layout(mo.make_layout((2, 4))), f.with_layout(mo.make_layout((2, 4), (4, 1))))",
     [0, 4, 1, 5, 2, 6, 3, 7])])
def test_views_that_overlap(body, expected, place):
    kernel, out = placed(body, place), np.zeros(8, np.float32)
    kernel[1, 1](out)
    assert out.tolist() == expected
    assert not in_place(kernel.trace(out, block=1))


def test_places_that_only_the_kernel_knows():
    four = "mo.domain_offset(({},), f).with_layout(mo.make_layout(4))"
    kernel = placed(f"mo.copyto({four.format('i + 1')}, {four.format('i')})", "shared")
    out = np.zeros(8, np.float32)
    kernel[1, 1](out)
    assert out.tolist() == UP and not in_place(kernel.trace(out, block=1))


@pytest.mark.parametrize("body", ["mo.copyto(f[4:8], f[0:4])", "mo.copyto(f[0:8:2], f[1:8:2])"])
def test_views_that_are_apart_are_copied_at_once(body):
    assert len(in_place(placed(body, "shared").trace(np.zeros(8, np.float32), block=1))) == 1


def test_swizzled_views():
    @mo.kernel
    def k(out):
        s = mo.shared_array(mo.float32, mo.composition(mo.Swizzle(1, 0, 1), mo.make_layout((2, 4))))
        for i in mo.static_range(8):
            s[i % 2, i // 2] = i
        mo.copyto(s[:, 1:3], s[:, 0:2])
        for i in mo.static_range(8):
            out[i] = s[i % 2, i // 2]

    out = np.zeros(8, np.float32)
    k[1, 1](out)
    assert out.tolist() == [0, 1, 0, 1, 2, 3, 6, 7] and not in_place(k.trace(out, block=1))


@pytest.mark.parametrize("call", ["mo.gemm(a, b, a)", "mo.gemm(b, a, a)", "mo.gemm(a, a, b, f.with_layout(square))"])
def test_products_over_their_operands_are_refused(call):
    kernel = placed("square = mo.make_layout((2, 2))\na, b = f[0:4].with_layout(square), "
                    f"f[2:6].with_layout(square)\n{call}", "registers")
    with pytest.raises(TensorError, match=r"would overwrite operand [AB]"):
        kernel.trace(np.zeros(8, np.float32), block=1)


@pytest.mark.parametrize(("each", "refused"), [(1, False), (2, True)])
def test_one_instruction_may_overwrite_its_operands(each, refused):
    @mo.kernel
    def k(out):
        mma = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((1, 1, 1)))
        part = mo.fragment((1, each, each), mo.float32)
        part.fill(3)
        mo.gemm(mma, part, part, part)
        out[0] = part[0, 0, 0]

    out = np.zeros(1, np.float32)
    if refused:
        with pytest.raises(TensorError, match="would overwrite operand A"):
            k[1, 1](out)
    else:
        k[1, 1](out)
        assert out[0] == 12


@pytest.mark.parametrize(("layout", "expected", "at_once"), [
    ("mo.make_layout((4,), (0,))", [1, 1, 2, 3, 4, 5, 6, 7], False),
    ("mo.make_layout((4, 2), (1, 1))", [1, 2, 3, 4, 5, 5, 6, 7], False),
    ("mo.make_layout((4, 2), (2, 1))", [1, 2, 3, 4, 5, 6, 7, 8], True)])
def test_views_that_repeat_an_element(layout, expected, at_once):
    """``h += 1`` adds once to each element, as in NumPy, and not as often as it is in the view."""
    kernel, out = placed(f"h = f.with_layout({layout})\nh += 1", "registers"), np.zeros(8, np.float32)
    kernel[1, 1](out)
    assert out.tolist() == expected
    maps = [op for op in kernel.trace(out, block=1).body.walk() if isinstance(op, ops.Map)]
    assert any(s.buffer is op.dst.buffer for op in maps for s in op.sources) == at_once
