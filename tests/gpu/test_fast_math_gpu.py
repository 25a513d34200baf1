"""Fast functions on the GPU: within the bounds that PTX states, and subnormal numbers as the simulator has them."""

from __future__ import annotations

import numpy as np
import pytest

from fast_math import BOUNDS, NARROW_BOUNDS, arguments, fast_functions, narrow_functions, off, quotients

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("kind", BOUNDS)
def test_within_bounds(kind):
    x = arguments(kind)
    out = torch.empty((len(x), 1), device="cuda")
    fast_functions[-(-len(x) // 128), 128](out, torch.from_numpy(x).cuda(), (kind,))
    assert off(kind, out[:, 0].cpu().numpy(), x) <= BOUNDS[kind][1]


EDGES = [1e-40, -1e-40, 2.0**-130, 0.0, -0.0, 2.0**127, -(2.0**127), np.inf, -np.inf, np.nan, -126.0, -126.5, -140.0,
         128.0, 2.0**-126, -(2.0**-126)]


@pytest.mark.parametrize("kind", BOUNDS)
def test_edges(kind):
    """Zeros, infinities and NaNs where the simulator has them, zeros and infinities with their signs."""
    x = np.array([e for e in EDGES if kind not in ("sin", "cos", "tan") or not abs(e) > 600 or np.isinf(e)], np.float32)
    simulated, out = np.empty((len(x), 1), np.float32), torch.empty((len(x), 1), device="cuda")
    fast_functions[1, 32](simulated, x, (kind,))
    fast_functions[1, 32](out, torch.from_numpy(x).cuda(), (kind,))
    found, wanted = out.cpu().numpy()[:, 0], simulated[:, 0]
    special = ~np.isfinite(wanted) | (wanted == 0)
    if kind in ("sin", "tan"):                          # the hardware scales first: the least normal numbers become 0
        normal = np.abs(x) > np.finfo(np.float32).tiny
        found, wanted, special = found[normal], wanted[normal], special[normal]
    assert np.array_equal(found[special], wanted[special], equal_nan=True), (x, found, wanted)
    known = special & ~np.isnan(wanted)
    assert (np.signbit(found[known]) == np.signbit(wanted[known])).all()
    assert (np.isfinite(found[~special]) & (found[~special] != 0)).all(), (x, found, wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", NARROW_BOUNDS)
def test_narrow(kind, dtype):
    x = torch.linspace(-9, 9, 640, device="cuda").to(dtype)
    out = torch.empty((640, 1), device="cuda", dtype=dtype)
    narrow_functions[20, 32](out, x, (kind,))
    measure, bounds = NARROW_BOUNDS[kind]
    assert off(kind, out[:, 0].float().cpu().numpy(), x.float().cpu().numpy(), measure) <= bounds[str(dtype)[6:]]


def test_divide():
    a, b = (torch.rand(320, device="cuda") + 0.5 for _ in range(2))
    slow, fast = torch.empty_like(a), torch.empty_like(a)
    quotients[10, 32](slow, fast, a, b)
    assert torch.equal(slow, a / b)
    exact = a.double().cpu().numpy() / b.double().cpu().numpy()
    step = np.spacing(np.abs(exact).astype(np.float32))
    assert (np.abs(fast.double().cpu().numpy() - exact) <= 2 * step).all()
