"""The pytest plugin, in sessions of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[1]

KERNELS = '''
import numpy as np
import pytest
import moye as mo

@mo.kernel
def double(y, x):
    y[mo.thread_idx().x] = x[mo.thread_idx().x] * 2

@mo.kernel
def races(y, x):
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, 64)
    staged[tid] = x[tid]
    y[tid] = staged[63 - tid]

@mo.kernel
def refused(y, x):
    raise mo.TensorError("nonsense", code="A5")

def arrays():
    return np.zeros(64, np.float32), np.arange(64, dtype=np.float32)
'''


@pytest.fixture
def session(pytester, monkeypatch):
    """Run tests below the kernels, with the plugin."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("PYTEST_ADDOPTS", "")

    def run(tests, *options):
        pytester.makepyfile(KERNELS + tests)
        return pytester.runpytest_inprocess("-p", "moye.pytest_plugin", "-p", "no:cacheprovider", "--strict-markers",
                                            "-rs", *options)
    return run


@pytest.mark.slow
def test_check_kernel(session):
    result = session('''
def test_right(check_kernel):
    y, x = arrays()
    report = check_kernel(double, 1, 64, y, x, expect=lambda x: 2 * x)
    assert report.ok and y[3] == 6

def test_race(check_kernel):
    check_kernel(races, 1, 64, *arrays())

def test_allowed(check_kernel):
    assert not check_kernel(races, 1, 64, *arrays(), allow=("C1",)).ok

def test_other_codes_are_not_allowed(check_kernel):
    check_kernel(races, 1, 64, *arrays(), allow=("C2",))

def test_wrong(check_kernel):
    check_kernel(double, (1,), 64, *arrays(), expect=lambda x: 3 * x)

def test_within_tolerance(check_kernel):
    check_kernel(double, 1, 64, *arrays(), expect=lambda x: 2.001 * x, rtol=0.01)

def test_refused(check_kernel):
    check_kernel(refused, 1, 64, *arrays())
''')
    result.assert_outcomes(passed=3, failed=4)
    result.stdout.fnmatch_lines(["*_ test_race _*", "races[[](1, 1, 1), (64, 1, 1)[]]: 1 finding*", "C1: staged*",
                                 "*staged[[]tid[]] = x[[]tid[]]*", "*and 63 more like it*"])
    result.stdout.fnmatch_lines(["V1: y(1) is 2 and 3 is expected*"])
    result.stdout.fnmatch_lines(["A5: nonsense*"])


@pytest.mark.slow
def test_what_cannot_be_judged_fails_unless_allowed(session):
    result = session('''
@mo.kernel
def chain(flags):
    bx, _, _ = mo.block_idx()
    if bx > 0:
        while mo.load(flags, bx - 1) == 0:
            pass
    mo.store(flags, bx, 1)

def test_not_judged(check_kernel):
    check_kernel(chain, 4, 1, np.zeros(4, np.int32), blocks=[2])

def test_allowed(check_kernel):
    assert not check_kernel(chain, 4, 1, np.zeros(4, np.int32), blocks=[2], allow=["unsupported"]).ok
''')
    result.assert_outcomes(passed=1, failed=1)


LAUNCHES = '''
def test_right():
    double[1, 64](*arrays())

def test_race():
    races[1, 64](*arrays())

def test_own_check():
    assert not mo.check(races)[1, 64](*arrays()).ok

def test_coped_with():
    with pytest.raises(mo.TensorError):
        refused[1, 64](*arrays())

def test_race_and_assertion():
    races[1, 64](*arrays())
    assert 1 == 2
'''


@pytest.mark.slow
def test_every_launch_of_a_session(session):
    result = session(LAUNCHES, "--moye-check")
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.fnmatch_lines(["*_ test_race _*", "races*: 1 finding*", "C1: staged*"])
    result.stdout.fnmatch_lines(["*assert 1 == 2*", "*Captured moye call*", "races*: 1 finding*"])


@pytest.mark.slow
def test_without_the_option_launches_raise_as_ever(session):
    result = session(LAUNCHES)
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.fnmatch_lines(["*SimulationError: C1*"])


@pytest.mark.slow
def test_gpu_tests_are_skipped_where_there_is_none(session, monkeypatch):
    from moye.cuda.device import driver

    tests = '''
@pytest.mark.gpu
def test_on_the_gpu():
    pass
'''
    monkeypatch.setattr(driver, "available", lambda: False)
    result = session(tests)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*needs an NVIDIA GPU and driver, and this machine has none*"])
    monkeypatch.setattr(driver, "available", lambda: True)
    session(tests).assert_outcomes(passed=1)


def test_the_plugin_is_light():
    """It is loaded by every pytest of an environment that has moye."""
    code = ("import pytest, sys; before = set(sys.modules); import moye.pytest_plugin; "
            "print(*{m for m in set(sys.modules) - before} - set(sys.stdlib_module_names))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={"PYTHONPATH": str(ROOT / "src")})
    assert set(done.stdout.split()) <= {"moye", "moye.pytest_plugin"}


def test_the_entry_point_is_the_module():
    """A session that names the module and has the entry point too loads it once."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"moye.pytest_plugin": "moye.pytest_plugin"}
