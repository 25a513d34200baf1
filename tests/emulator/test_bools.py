"""Bools whose bytes are neither 0 nor 1, as ``mask.view(bool)`` of 0 and 255 has them, are true: printed CUDA, too."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from emulator.emulated import emulated
from emulator.tensor_library import compiler
from moye.cuda.printing.printer import print_kernel
from written import block

BYTES = np.array([2, 1, 255, 0] * 16, np.uint8)
WAYS = {
    "loads": "a, b = x[t], x[t + 1]",
    "a loop": "a, b = x[0], x[0]\nfor i in range(t):\n    a, b = b, x[i]",
    "atomic loads": "a, b = mo.load(x, t), mo.load(x, t + 1)",
    "copies": "r = mo.fragment((2,), mo.bool)\nmo.copyto(r, mo.tile(x, (2,), (t,)))\na, b = r[0], r[1]",
    "hinted copies": "r = mo.fragment((1,), mo.bool)\nmo.copyto(r, mo.tile(x, (1,), (t,)), hint='evict_first')\n"
                     "a, b = r[0], x[2]",
    "shared memory": "s = mo.shared_array(mo.bool, 64)\nmo.copyto(mo.tile(s, (2,), (t,)), mo.tile(x, (2,), (t,)))\n"
                     "mo.sync_threads()\na, b = s[t], s[t + 32]",
    "bytes": "y = mo.recast(mo.recast(x, mo.uint8), mo.bool)\na, b = y[t], y[63 - t]",
    "registers of bytes": "r = mo.fragment((2,), mo.uint8)\nmo.copyto(r, mo.tile(mo.recast(x, mo.uint8), (2,), (t,)))\n"
                          "y = mo.recast(r, mo.bool)\na, b = y[0], y[1]",
    "bytes of registers": "r = mo.fragment((2,), mo.bool)\ny = mo.recast(r, mo.uint8)\n"
                          "mo.copyto(y, mo.tile(mo.recast(x, mo.uint8), (2,), (t,)))\na, b = r[0], r[1]",
    "other blocks": "s = mo.shared_array(mo.bool, 32)\nmo.recast(s, mo.uint8)[t] = t % 4\nmo.cluster_sync()\n"
                    "a, b = mo.map_shared_rank(s, 0)[t], s[31 - t]\nmo.cluster_sync()",
}
RESULTS = "out[0, t], out[1, t], out[2, t] = int(a) + b, 2 * (a == b) + (a & b), mo.where(a ^ b, 1, 0)"


def kernel_of(ways):
    text = "\n".join(f"{text}\n{RESULTS}".replace("out[", f"out[{way}, ") for way, text in enumerate(ways))
    return mo.kernel(block(f"t = mo.thread_idx().x\nmo.assume(mo.size(x, 0) % 2 == 0)\n{text}", "out, x"))


@pytest.mark.parametrize("way", WAYS)
def test_a_byte_is_compared_with_zero(way):
    """Where C++ loads a bool it may take its bits as they are."""
    func = kernel_of([WAYS[way]]).trace(np.zeros((1, 3, 32), np.int32), BYTES.view(bool), block=32)
    assert "!= 0" in (source := print_kernel(func, arch="sm_90a").source) or "(bool)y" in source, source


@pytest.mark.slow
@pytest.mark.skipif(compiler() is None, reason="no g++")
def test_any_byte_but_zero_is_true():
    """All ways in one kernel, because compiling takes longer than running."""
    kernel = kernel_of(WAYS.values())
    results = [np.zeros((len(WAYS), 3, 32), np.int32) for _ in range(2)]
    kernel[1, 32](results[0], BYTES.view(bool).copy())
    with emulated():
        kernel[1, 32](results[1], BYTES.view(bool).copy())
    differ = {list(WAYS)[way]: (simulated[..., :5], printed[..., :5]) for way, (simulated, printed) in
              enumerate(zip(*results, strict=True)) if (simulated != printed).any()}
    assert not differ
    assert results[0][0, 0, :4].tolist() == [2, 2, 1, 1], "2 and 1, 1 and 255, 255 and 0, 0 and 2"
