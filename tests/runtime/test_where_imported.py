"""moye knows its own code from the user's wherever it was imported from: by links, by paths with ".." in them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import moye as mo
from moye.kernels.pack import packed

assert mo.__file__.startswith(sys.argv[1]), mo.__file__
x = np.arange(12, dtype=np.float32).reshape(4, 3)
assert np.array_equal(packed(x), x)             # its kernels' layouts have text in messages, made while tracing

@mo.kernel
def broken_kernel(A):
    A[0] = A.nothing

try:
    broken_kernel[1, 32](x)
except mo.MoyeError as error:
    frames, place = [], error.__traceback__
    while place:
        frames.append(place.tb_frame.f_code.co_filename)
        place = place.tb_next
    assert not any("/moye/" in frame for frame in frames[:-1]), frames
"""


@pytest.mark.parametrize("way", ["link", "dots"])
def test_own_code_is_known(way, tmp_path):
    if way == "link":
        (tmp_path / "link").symlink_to(SOURCE, target_is_directory=True)
        folder = str(tmp_path / "link")
    else:
        folder = os.path.join(SOURCE, "moye", "..")
    found = subprocess.run([sys.executable, "-c", PROGRAM, folder], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
