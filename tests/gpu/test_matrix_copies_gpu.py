"""ldmatrix and stmatrix on the GPU: the tables of ``matrix_kernels.py`` against NumPy and the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from matrix_kernels import PRODUCTS, ROUND_TRIPS
from ops_kernels_tiles import to_device, to_host

torch = pytest.importorskip("torch")

CASES = {**ROUND_TRIPS, **PRODUCTS}


@pytest.fixture(scope="module")
def capability():
    return torch.cuda.get_device_capability()


@pytest.mark.parametrize("name", CASES)
def test_as_numpy_and_as_the_simulator(name, capability):
    if "stmatrix" in name and capability < (9, 0):
        pytest.skip(f"stmatrix needs sm_90, and this is sm_{capability[0]}{capability[1]}")
    case = CASES[name]
    simulated = [x.copy(order="K") if isinstance(x, np.ndarray) else x for x in case.arguments]
    case.kernel[1, case.block](*simulated)
    device = [to_device(x) for x in case.arguments]
    case.kernel[1, case.block](*device)
    torch.cuda.synchronize()
    found = [to_host(x, like) for x, like in zip(device, case.arguments, strict=True)]
    case.compare(found)
    for mine, theirs in zip(found, simulated, strict=True):
        if isinstance(mine, np.ndarray):
            assert np.array_equal(mine, theirs)
