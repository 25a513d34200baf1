"""Programs of other systems, ported by their habits: in the simulator against NumPy, without a finding, and as code."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import moye as mo
import ported_formats
import ported_images
import ported_machines
import ported_models
import ported_rings
import ported_scenes
import ported_signals
import ported_solvers
import ported_sorts
import ported_tokens
import ported_words

MODULES = (ported_sorts, ported_solvers, ported_models, ported_words, ported_signals, ported_rings,
           ported_machines, ported_scenes, ported_images, ported_tokens, ported_formats)
PORTS = tuple(port for module in MODULES for port in module.PORTS)


def as_torch(x):
    """The same memory as a tensor, as on the GPU: launches must ask for nothing that only NumPy's arrays have."""
    torch = pytest.importorskip("torch")
    return torch.from_numpy(x) if isinstance(x, np.ndarray) and x.dtype.kind != "V" else x


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("port", PORTS, ids=str)
def test_against_numpy(port, size):
    arguments, wanted = port.draw(np.random.default_rng(size), port.sizes[size])
    with mo.checking(lints=False):
        port.launch(*arguments)
    port.judge(arguments, wanted)


@pytest.mark.parametrize("port", PORTS, ids=str)
def test_copies_that_finish_at_once(port):
    arguments, wanted = port.draw(np.random.default_rng(2), port.sizes[0])
    with mo.checking(lints=False, earliest=True):
        port.launch(*map(as_torch, arguments))
    port.judge(arguments, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("port", PORTS, ids=str)
def test_compiled_without_spills(port):
    arguments, _ = port.draw(np.random.default_rng(0), port.sizes[0])
    with mo.compile_only("sm_90a") as compiled:
        port.launch(*arguments)
    assert compiled.programs
    assert all(program.spills == 0 for program in compiled.programs)


def test_a_wrong_result_is_seen():
    port = next(p for p in PORTS if p.name == "merge by paths")
    arguments, wanted = port.draw(np.random.default_rng(0), 30)
    port.launch(*arguments)
    arguments[0][7] += 1
    with pytest.raises(AssertionError, match="1 of argument 0 differ"):
        port.judge(arguments, wanted)


def test_each_fits_a_page():
    for module in MODULES:
        for name, value in vars(module).items():
            if name.endswith("_kernel"):
                assert len(inspect.getsource(value.function).splitlines()) <= 60, name
