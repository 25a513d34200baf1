"""Every conversion between register tensors on the GPU, bit for bit as in the simulator.

All patterns of 8- and 16-bit floats; ties, limits, subnormals, infinities, NaNs and random patterns of wider ones.
"""

from __future__ import annotations

import numpy as np
import pytest

from convert_kernels import (
    BLOCK,
    NARROW,
    SOURCES,
    THREADS,
    activation_kernel,
    bits,
    narrow_kernel,
    patterns,
    run,
)
from moye import dtypes as dt
from ops_kernels import numpy_of
from ops_kernels_tiles import to_device, to_host

torch = pytest.importorskip("torch")


def launch(kernel, out, *args):
    device = [to_device(out), *map(to_device, args)]
    kernel[len(args[0]) // BLOCK, THREADS](*device)
    torch.cuda.synchronize()
    return to_host(device[0], out)


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_conversions(source, monkeypatch):
    """Any NaN is as good as another."""
    monkeypatch.setenv("MOYE_CHECK", "0")
    x, simulated = run(source)
    _, found = run(source, x, launch)
    assert set(found) == set(simulated) == set(SOURCES) - {source}
    for target, wanted in simulated.items():
        a, b = bits(found[target]), bits(wanted)
        wrong = np.flatnonzero(a != b)
        assert not len(wrong), f"{source} to {target}: {len(wrong)} differ, first {x[wrong[0]]}: " \
                               f"{a[wrong[0]]:#x} instead of {b[wrong[0]]:#x}"


@pytest.mark.parametrize("target", NARROW, ids=str)
def test_nan_patterns(target):
    """The canonical NaN of the simulator is the hardware's."""
    x = np.resize(np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0x7FFFFFFF], np.uint32).view(np.float32), BLOCK)
    _, found = run(dt.float32, x, launch)
    np.testing.assert_array_equal(found[target].view(f"u{target.bytes}"), {8: 0x7F, 16: 0x7FFF}[target.bits])


@pytest.mark.parametrize("target", (*NARROW, dt.int8, dt.uint8), ids=str)
def test_narrowed_sums(target, monkeypatch):
    """A body before the conversion; 8-bit elements four at a time."""
    monkeypatch.setenv("MOYE_CHECK", "0")
    rng = np.random.default_rng(1)
    n = 128 * 128 // target.bits * 8
    x, y = (np.round(rng.standard_normal(n) * 64, 3).astype(np.float32) for _ in range(2))
    y = np.round(y)
    x = np.round(x * 4) / 4                             # sums are exact: no question of contraction
    results = []
    for convert in (to_device, lambda a: a):
        out = np.zeros(n, numpy_of(target))
        args = [convert(a) for a in (out, x, y)]
        narrow_kernel[8, 128](*args)
        torch.cuda.synchronize()
        results.append(bits(to_host(args[0], out) if convert is to_device else args[0]))
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(("name", "options"), [("relu", {}), ("gelu", {}), ("gelu", {"approximate": "tanh"}),
                                               ("silu", {}), ("sigmoid", {})], ids=str)
@pytest.mark.parametrize("dtype", [dt.float32, dt.float16, dt.bfloat16], ids=str)
def test_activations(name, options, dtype):
    """Against torch, a few units in the last place."""
    x = np.clip(patterns(dt.float16), -20, 20).astype(numpy_of(dtype))
    x = x[np.isfinite(x.astype(np.float32))]
    x = to_device(np.resize(x, -(-len(x) // BLOCK) * BLOCK))
    out = torch.zeros_like(x)
    activation_kernel[len(x) // BLOCK, THREADS](out, x, name, tuple(options.items()))
    wanted = getattr(torch if name == "sigmoid" else torch.nn.functional, name)(x.double(), **options).to(dtype=x.dtype)
    tolerance = {dt.float32: 2e-6, dt.float16: 1e-3, dt.bfloat16: 8e-3}[dtype]
    torch.testing.assert_close(out, wanted, rtol=tolerance, atol=tolerance)
