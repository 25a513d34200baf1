"""Which tests take long: ``make check`` and ``make test`` leave some of them out, ``make test-all`` runs them.

In: a run of all tests.  Out: ``tests/data/longest.txt``, seconds and ids of tests that took ``LONG`` or more: CPU time,
with that of the processes that they started, or half of the time that went by, if a test left its work to others.

    python tests/longest.py [-n 2]          # runs all tests: do nothing else meanwhile

conftest.py marks the tests of that list "long", and "longest" those of ``LONGEST`` or more.  A test that has another
name now is not marked, and runs.  A test that is skipped, where there is no browser say, stays as it was listed.  Where
the environment has ``TEST_SHARE=2/3``, the second of three parts of the list runs beside all others: CI takes another
part with each commit.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest

LONG, LONGEST = 0.1, 0.3
LIST = Path(__file__).parent / "data" / "longest.txt"
_FOLDER = "TEST_TIMES"
_times: dict[str, float | None] = {}
"""Of tests that have run; None of a skipped one."""


def listed() -> dict[str, float]:
    """Seconds of the tests of the list, by id."""
    lines = (line.split(" ", 1) for line in LIST.read_text().splitlines())
    return {test: float(seconds) for seconds, test in lines}


def text(times: dict[str, float]) -> str:
    """The list: a line for each test that takes long, sorted by id."""
    return "".join(f"{seconds:.2f} {test}\n" for test, seconds in sorted(times.items()) if seconds >= LONG)


def with_skipped(times: dict[str, float | None]) -> dict[str, float]:
    """What was measured; tests that were skipped take what the list says."""
    known = listed()
    return {test: known.get(test, 0.0) if seconds is None else seconds for test, seconds in times.items()}


def mark(items: Iterable[pytest.Item]) -> None:
    """Mark the tests of the list."""
    known = listed()
    for item in items:
        if (seconds := known.get(item.nodeid)) is not None:
            item.add_marker("long")
            if seconds >= LONGEST:
                item.add_marker("longest")


def of_other_shares(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The tests of the list that belong to other shares than the one that the environment asks for, if it does."""
    if not (asked := os.environ.get("TEST_SHARE")):
        return []
    share, count = map(int, asked.split("/"))
    if not 1 <= share <= count:
        raise pytest.UsageError(f"TEST_SHARE={asked} is no share: 1/3, 2/3 and 3/3 are the three of three")
    shares = shares_of(listed(), count)
    return [item for item in items if item.get_closest_marker("long")
            and shares.get(item.nodeid, zlib.crc32(item.nodeid.encode()) % count + 1) != share]   # not all are listed


def shares_of(times: dict[str, float], count: int) -> dict[str, int]:
    """The share, from 1 to ``count``, of each test: the longest first, each to the share that has least so far."""
    shares, seconds = {}, [0.0] * count
    for test in sorted(times, key=lambda test: (-times[test], test)):
        least = seconds.index(min(seconds))
        seconds[least] += times[test]
        shares[test] = least + 1
    return shares


# --- as a plugin of the run that is measured -------------------------------------------------------------------------


def _seconds() -> float:
    """CPU seconds of this process, and of all that it started and that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    start, began = _seconds(), time.perf_counter()
    result = yield
    if item.nodeid not in _times:
        _times[item.nodeid] = max(_seconds() - start, (time.perf_counter() - began) / 2)
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped:
        _times[report.nodeid] = None


def pytest_sessionfinish() -> None:
    name = os.environ.get("PYTEST_XDIST_WORKER", "main")
    (Path(os.environ[_FOLDER]) / f"{name}.json").write_text(json.dumps(_times))


# --- as a script -----------------------------------------------------------------------------------------------------


def measured(workers: int) -> dict[str, float | None]:
    """Seconds of each test, None of those that were skipped."""
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, _FOLDER: folder, "PYTHONPATH": f"{here}:{os.environ.get('PYTHONPATH', '')}"}
        subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "longest", "-n", str(workers), "--dist",
                        "worksteal", f"--ignore={here / 'gpu'}", str(here)], cwd=here.parent, env=environment,
                       check=True)
        return {test: seconds for path in Path(folder).glob("*.json")
                for test, seconds in json.loads(path.read_text()).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-n", type=int, default=2, dest="workers", help="processes")
    times = with_skipped(measured(parser.parse_args().workers))
    LIST.write_text(text(times))
    for least in (LONG, LONGEST):
        found = [seconds for seconds in times.values() if seconds >= least]
        print(f"{len(found)} of {len(times)} tests take {least} s or more, and {sum(found):.0f} of "
              f"{sum(times.values()):.0f} seconds")


if __name__ == "__main__":
    main()
