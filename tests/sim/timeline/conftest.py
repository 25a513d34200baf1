"""``record``: run a kernel of ``timeline_pipelines.py`` and return its timeline."""

import numpy as np
import pytest

import moye as mo


@pytest.fixture
def record():
    """``record(kernel, *args, block=64, clean=True)``: the timeline of a launch of one block."""
    def run(kernel, *args, block=64, grid=1, timeline=True, clean=True):
        report = mo.check(kernel, timeline=timeline)[grid, block](*args)
        assert report.ok or not clean, str(report)
        return report.timeline()
    return run


@pytest.fixture
def steps(record):
    """The timeline of a straight sequence of steps, see ``pipelines.sequence``."""
    from timeline_pipelines import MMA, sequence

    def run(*program, clean=True):
        x = np.ones((64, 64), np.float32)
        return record(sequence, x, np.zeros((16, 4), np.float32), program, MMA, clean=clean)
    return run
