"""The solutions of the puzzles on a GPU: they give what their references say."""

from __future__ import annotations

import runpy

import numpy as np
import pytest

import moye as mo
from moye.puzzles import pages
from moye.testing.judging import _expected

PAGES = [page for page in pages() if page.puzzle.make is not None]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_solution(page, tmp_path):
    path = tmp_path / f"{page.name}.py"
    path.write_text(page.solution)
    solve = runpy.run_path(str(path))["solve"]
    for case in page.puzzle.cases():
        expected = _expected(page.puzzle.reference, case)
        arguments = {name: mo.testing.array(value) if isinstance(value, np.ndarray) else value
                     for name, value in case.arguments.items()}
        solve(**arguments)
        for name, wanted in expected.items():
            got, wide = mo.testing.host(arguments[name]).astype(np.float64), np.asarray(wanted, np.float64)
            scale = np.sqrt(np.mean(np.square(wide[np.isfinite(wide)]))) if np.isfinite(wide).any() else 0.0
            rtol = case.rtol or 1e-4
            assert np.allclose(got, wide, rtol=rtol, atol=rtol * float(scale) + 1e-30, equal_nan=True), case.name
