"""Random IR of all dtypes, printed, compiled as C++ or PTX, run, and compared with the interpreter of the IR.

``python tests/fuzz/test_irs.py 1000 2000`` draws 2000 programs by hand.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "cases"),
                    str(Path(__file__).parents[2] / "src")]

import pytest

from fuzz import host, irs

FIRST, COUNT = 0, 12


@pytest.mark.slow
@pytest.mark.skipif(host.compiler() is None, reason="no g++")
def test_printed_ir_does_what_it_says(tmp_path):
    drawn = [irs.draw(FIRST + i) for i in range(COUNT)]
    told, judged = irs.judged([(one, irs.printed(one)) for one in drawn], tmp_path)
    assert not told
    assert judged > 0.7 * COUNT, "the others overflow, and the emulator may do anything then"


def main(first: int, count: int) -> int:
    wrong = 0
    for start in range(first, first + count, 50):
        with tempfile.TemporaryDirectory() as name:
            drawn = [irs.draw(i) for i in range(start, min(start + 50, first + count))]
            told, judged = irs.judged([(one, irs.printed(one)) for one in drawn], Path(name))
        wrong += len(told)
        print(start, judged, *told, sep="\n", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
