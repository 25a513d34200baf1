"""Every kernel of ``ops_kernels.py`` on the GPU: against NumPy, and against the simulator.

Integers and everything that rounds at most once are equal bit by bit to both.  Other floats agree within the tolerance
of the case: a few units in the last place of the dtype (2e-5 float32, 1e-12 float64, 4e-3 float16, 3e-2 bfloat16,
relative above 1 and absolute below), ten times as much where errors add up, 1e-3 for the fast functions.
"""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest

import ops_kernels_tiles as tiles
from ops_kernels_tiles import CASES
from ops_kernels_tiles import ops_kernels as table

torch = pytest.importorskip("torch")


def run_on_gpu(case, n):
    host = case.arguments(n)
    device = [tiles.to_device(x) for x in host]
    case.launch(device, n)
    torch.cuda.synchronize()
    return [tiles.to_host(x, like) for x, like in zip(device, host, strict=True)]


@pytest.mark.parametrize("name", CASES)
def test_op(name, monkeypatch):
    monkeypatch.setenv("MOYE_CHECK", "0")               # test_coverage_ops.py has the checks
    case = CASES[name]
    tolerance = case.gpu_tolerance or case.tolerance
    for n in case.sizes:
        found = run_on_gpu(case, n)
        table.compare(case, found, tolerance, n)
        simulated = case.arguments(n)
        case.launch(simulated, n)
        for mine, theirs in zip(found, simulated, strict=True):
            for a, b in zip(table.leaves(mine), table.leaves(theirs), strict=True):
                if isinstance(a, np.ndarray):
                    assert not table.mismatch(case, a, b, tolerance), f"size {n}, against the simulator"


def test_asserts_on(monkeypatch):
    """With the device's asserts compiled in, those that hold say nothing."""
    monkeypatch.setenv("MOYE_ASSERT", "1")
    case = CASES["debug"]
    host = case.arguments(201)
    device = [tiles.to_device(x) for x in host]
    assert "__trap" in case.kernel.compile(*device, block=case.block).source
    case.kernel.launch(*device, grid=case.grid(201), block=case.block)
    torch.cuda.synchronize()
    table.compare(case, [tiles.to_host(x, like) for x, like in zip(device, host, strict=True)], 0.0, 201)


def test_prints(capfd):
    """One line a thread: where, then the parts with one blank between."""
    flush = ctypes.CDLL(None).fflush                    # the driver prints through C's own buffer
    flush(None)
    capfd.readouterr()
    run_on_gpu(CASES["debug"], 201)
    flush(None)
    lines = [line for line in capfd.readouterr().out.splitlines() if "x =" in line]
    x = CASES["debug"].arguments(201)[1]
    assert len(lines) == 2
    for i, line in enumerate(sorted(lines)):
        assert re.search(rf"block \(0, ?0, ?0\) thread \({i}, ?0, ?0\)", line), line
        assert line.rstrip().endswith(f"x = {x[i]} {x[i] > 0} {i} 100%"), line


def test_runs_repeat():
    """Ten launches in a row give the same bits: no race that only luck hides."""
    for name in ("message", "barriers", "contended", "cp-async-global-16", "gemm-UniversalFMA(float32)-staged"):
        case = CASES[name]
        first = run_on_gpu(case, case.sizes[0])
        for _ in range(10):
            again = run_on_gpu(case, case.sizes[0])
            for a, b in zip(first, again, strict=True):
                assert not isinstance(a, np.ndarray) or a.tobytes() == b.tobytes(), name
