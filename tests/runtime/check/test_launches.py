"""How launches are checked: refused ones, samples of blocks, ``launch``, sessions, arrays of a device, MOYE_CHECK."""

from __future__ import annotations

import contextvars
import ctypes
import gc
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

import moye as mo
from moye.errors import ArgumentError, MoyeError, SimulationError
from moye.runtime import arrays
from moye.runtime.check import checking
from moye.runtime.check.sampling import sampled
from moye.sim.checks.dependent_launches import _owner
from moye.sim.findings.codes import CODES
from moye.sim.findings.groups import GROUPS, chosen
from moye.sim.values.memory import TensorArg

BLOCK = 64


@mo.kernel
def number(x):
    """Each block writes its number, counted from 1."""
    bx, by, _ = mo.block_idx()
    x[mo.thread_idx().x, bx, by] = 1 + bx + by * mo.grid_dim().x


@mo.kernel
def races(x):
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, BLOCK)
    staged[tid] = x[tid]
    x[tid] = staged[BLOCK - 1 - tid]


@mo.kernel
def double(x):
    x[mo.thread_idx().x] = x[mo.thread_idx().x] * 2


def vector():
    return np.arange(BLOCK, dtype=np.float32)


# --- refused launches ------------------------------------------------------------------------------------------------


@pytest.fixture
def coded(monkeypatch):
    """A kernel whose launches are refused with a code, as classes that are found while tracing are."""
    @mo.kernel
    def refused(x):
        raise mo.TensorError("nonsense", hint="do not", code="A5")
    return refused


def test_an_error_with_a_code_is_a_finding(coded):
    with pytest.raises(mo.TensorError):
        coded[1, BLOCK](vector())
    report = mo.check(coded)[1, BLOCK](vector())
    assert [f.code for f in report.findings] == ["A5"] and not report.ok
    found = report.findings[0]
    assert (found.message, found.hint, found.title) == ("nonsense", "do not", CODES["A5"].title)
    assert "A5: nonsense" in str(report) and found.locs and report.not_judged == ()
    with pytest.raises(SimulationError, match="A5: nonsense"):
        report.raise_if_any()


def test_an_error_without_a_code_raises():
    with pytest.raises(ArgumentError, match="missing a required argument"):
        mo.check(double)[1, BLOCK]()


@mo.kernel
def waiting(x):
    mo.griddepcontrol_launch_dependents()
    mo.griddepcontrol_wait()
    x[mo.thread_idx().x] = x[mo.thread_idx().x] * 2


def test_what_a_dependent_launch_does_not_wait_for():
    """Against the launch before it; where none is known that is not judged."""
    told = "it is launched dependent and never calls griddepcontrol_wait()"
    x = vector()

    def launch(kernel, dependent):
        return mo.check(kernel).launch(x, grid=1, block=BLOCK, dependent=dependent)

    report = contextvars.Context().run(launch, double, True)
    assert report.ok and told in " ".join(report.not_judged) and told in str(report)
    for kernel, dependent, expected in ((double, False, []), (waiting, True, []), (double, True, ["G3"]),
                                        (double, False, [])):
        found = [launch(kernel, dependent)]
        with mo.checking() as reports:
            kernel.launch(x, grid=1, block=BLOCK, dependent=dependent)
            kernel.prepare(x, grid=1, block=BLOCK, dependent=dependent)()
        for report in (*found, *reports):
            assert [finding.code for finding in report.findings] == expected and not report.not_judged, str(report)
    assert np.array_equal(x, 2 ** 13 * vector())


class Exchanged:
    """An array of another library, through DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.usefixtures("short_collections")
def test_a_dependent_launch_after_a_view_that_is_gone():
    """Whoever holds the memory now cannot be told: the report says so; of an array of its own there is nothing left."""
    x, told = vector(), "what the launch of double may still be doing to an array that is gone"

    def behind(make, again):
        mo.check(double).launch(make(), grid=1, block=BLOCK)
        gc.collect()                                    # a checked launch has cycles
        return mo.check(double).launch(again, grid=1, block=BLOCK, dependent=True)

    kept = Exchanged(x)
    assert [f.code for f in behind(lambda: kept, kept).findings] == ["G3"]
    report = behind(lambda: Exchanged(x), Exchanged(x))
    assert report.ok and told in " ".join(report.not_judged) and told in str(report)
    assert behind(vector, x).not_judged == ()


def test_views_of_torch_belong_to_what_they_are_of():
    """A stand-in for torch: the tensor of a slice is gone at once, what it is a slice of is not."""
    tensor = type("Tensor", (), {"__module__": "torch", "_base": None})
    whole, view = tensor(), tensor()
    view._base = whole
    owner = _owner(TensorArg(vector(), 0, (BLOCK,), (1,), "x", view))
    del view
    assert owner.alive() is whole and not owner.alone


def test_a_dependent_launch_on_a_device_says_what_is_not_compared(monkeypatch):
    @contextmanager
    def copies(call, func):
        yield replace(call)

    x = vector()
    mo.check(double).launch(x, grid=1, block=BLOCK)
    monkeypatch.setattr(checking, "on_host", copies)
    report = mo.check(waiting).launch(x, grid=1, block=BLOCK, dependent=True)
    assert "arrays on a device" in " ".join(report.not_judged)


def test_launch_and_a_bad_configuration():
    x = vector()
    report = mo.check(double).launch(x, grid=1, block=(BLOCK,), stream=3)
    assert report.ok and (report.grid, report.block) == ((1, 1, 1), (BLOCK, 1, 1))
    assert np.array_equal(x, 2 * vector())
    with pytest.raises(MoyeError, match=r"takes \[grid, block\], not 3"):
        mo.check(double)[3]


def test_an_empty_grid_is_clean():
    assert mo.check(double)[0, BLOCK](vector()).ok


# --- samples of blocks -----------------------------------------------------------------------------------------------


def test_only_the_sample_runs_and_the_report_says_so():
    x = np.zeros((4, 8, 8), np.int32)
    report = mo.check(number, blocks=4)[(8, 8), 4](x)
    ran = sorted({int(n) - 1 for n in x[x > 0]})
    assert tuple(ran) == report.blocks == sampled((8, 8, 1), 4) and len(ran) == 4
    assert "clean for this launch, 4 of 64 blocks" in str(report).splitlines()[0]
    assert "only 4 of 64 blocks ran; outputs of the others are untouched" in str(report).splitlines()[-1]
    assert report.ok


def test_blocks_by_index():
    x = np.zeros((4, 8, 8), np.int32)
    report = mo.check(number, blocks=[(1, 2), 3, np.int64(3)])[(8, 8), 4](x)
    assert report.blocks == (3, 17) and {int(n) for n in np.unique(x)} == {0, 4, 18}


def test_all_blocks_are_no_sample():
    x = np.zeros((4, 2, 1), np.int32)
    assert mo.check(number, blocks=5)[2, 4](x).blocks is None
    assert mo.check(number, blocks=[0, 1])[2, 4](x).blocks is None


@pytest.mark.parametrize(("blocks", "message"), [
    (0, "blocks is 0, and at least one block must run"),
    (True, "blocks is True"),
    ([], "blocks is empty"),
    ([64], r"blocks holds 64, and the grid \(8, 8, 1\) has the blocks 0 to 63"),
    ([(8, 0)], r"blocks holds \(8, 0\), which lies outside of the grid"),
    ([(1, 2, 3, 4)], r"blocks holds \(1, 2, 3, 4\), which is no block index"),
    (2.5, "blocks is a number of blocks or some block indices, not 2.5"),
])
def test_bad_samples(blocks, message):
    with pytest.raises(ArgumentError, match=message):
        mo.check(number, blocks=blocks)[(8, 8), 4](np.zeros((4, 8, 8), np.int32))


@pytest.mark.parametrize("grid", [(1, 1, 1), (7, 1, 1), (4, 4, 1), (5, 3, 2), (100, 1, 60)])
@pytest.mark.parametrize("count", [1, 2, 3, 9, 30])
def test_samples_are_deterministic_and_cover(grid, count):
    total = grid[0] * grid[1] * grid[2]
    found = sampled(grid, count)
    if count >= total:
        assert found is None
        return
    assert found == sampled(grid, count) and len(set(found)) == count and max(found) < total
    assert total - 1 in found, "the far corner: what reaches past the end does so there"
    if count >= 3 and all(extent == 1 or extent > 2 for extent in grid) and total > 3:
        at = [(b % grid[0], b // grid[0] % grid[1], b // (grid[0] * grid[1])) for b in found]
        assert any(all(e == 1 or 0 < i < e - 1 for i, e in zip(b, grid, strict=True)) for b in at), "one inside"


def test_a_block_that_waits_for_one_that_does_not_run_is_not_judged():
    @mo.kernel
    def chain(flags):
        bx, _, _ = mo.block_idx()
        if bx > 0:
            while mo.load(flags, bx - 1, order="acquire") == 0:
                pass
        mo.store(flags, bx, 1, order="release")

    report = mo.check(chain)[4, 1](np.zeros(4, np.int32))
    assert report.ok, str(report)
    report = mo.check(chain, blocks=[3])[4, 1](np.zeros(4, np.int32))
    assert not report.findings and not report.ok
    assert "only 1 of 4 blocks run" in report.unsupported[0] and "(3, 0, 0)" in report.unsupported[0]
    assert "no finding, but not everything could be judged" in str(report)


def test_a_timeline_of_a_sample():
    x = np.zeros((4, 8, 8), np.int32)
    assert mo.check(number, blocks=[5, 9], timeline=True)[(8, 8), 4](x).timeline().blocks == (5,)
    assert mo.check(number, blocks=[5, 9], timeline=[9])[(8, 8), 4](x).timeline().events
    with pytest.raises(ArgumentError, match="a timeline of block 0 was asked for, and only the blocks 5, 9 run"):
        mo.check(number, blocks=[5, 9], timeline=[0])[(8, 8), 4](x)


# --- every launch of a program ---------------------------------------------------------------------------------------


def test_a_session_checks_every_launch():
    x, told = vector(), []
    with mo.checking(each=told.append) as reports:
        double[1, BLOCK](x)
        races.launch(x, grid=1, block=BLOCK)
        double.prepare(x, grid=1, block=BLOCK)()
        mo.check(races)[1, BLOCK](x)
    assert [(r.kernel, bool(r.findings)) for r in reports] == [("double", False), ("races", True), ("double", False)]
    assert told == reports and checking.session() is None
    with pytest.raises(SimulationError, match="C1"):
        races[1, BLOCK](x)
    with mo.checking(explicit=True) as reports:
        mo.check(races)[1, BLOCK](x)
    assert len(reports) == 1


def test_what_refuses_a_launch_raises_in_a_session_and_is_a_report_if_it_leaves_it(coded):
    with mo.checking() as reports, pytest.raises(mo.TensorError):
        coded[1, BLOCK](vector())
    assert reports == [], "the program coped with it"
    with pytest.raises(mo.TensorError), mo.checking() as reports:
        coded[1, BLOCK](vector())
    assert [f.code for report in reports for f in report.findings] == ["A5"]


def test_a_session_samples_each_grid():
    with mo.checking(blocks=[0, 17, (1, 1)]) as reports:
        number[(8, 8), 4](np.zeros((4, 8, 8), np.int32))
        number[1, 4](np.zeros((4, 1, 1), np.int32))
    assert [report.blocks for report in reports] == [(0, 9, 17), None]


def test_compile_only_within_a_session_compiles_only():
    with mo.checking() as reports, mo.compile_only("sm_90a", trace_only=True) as gathered:
        double[1, BLOCK](vector())
    assert not reports and len(gathered.jobs) == 1


# --- arrays of a device ----------------------------------------------------------------------------------------------


class OnDevice:
    """Host memory that says it is on device 0."""

    def __init__(self, x):
        self.x = x


@pytest.fixture
def device(monkeypatch):
    """OnDevice arrays can be arguments; copies to and from the device go to the same memory."""
    def described(obj):
        return arrays.describe(obj.x)._replace(device=0, kind="fake")

    driver = arrays.driver
    monkeypatch.setitem(arrays._READERS, OnDevice, described)
    monkeypatch.setattr(driver, "synchronize", lambda ordinal: None)
    monkeypatch.setattr(driver, "copy_to_host", lambda host, at, size, ordinal: ctypes.memmove(host, at, size))
    monkeypatch.setattr(driver, "copy_to_device", lambda at, host, size, ordinal: ctypes.memmove(at, host, size))
    return OnDevice


@mo.kernel
def shift(dst, src):
    tid = mo.thread_idx().x
    value = src[tid]
    mo.sync_threads()
    dst[tid] = value + 1


def test_device_arrays_are_copied_and_written_back(device):
    x, y = vector(), np.zeros((BLOCK, 2), np.float32)
    report = mo.check(shift)[1, BLOCK](device(y[:, 1]), device(x))
    assert report.ok and np.array_equal(y[:, 1], vector() + 1) and not y[:, 0].any()
    assert np.array_equal(x, vector())


def test_device_arrays_that_share_memory_share_it_on_the_host(device):
    memory = np.arange(BLOCK + 4, dtype=np.float32)
    assert mo.check(shift)[1, BLOCK](device(memory[4:]), device(memory[:BLOCK])).ok
    assert np.array_equal(memory, [0, 1, 2, 3, *range(1, BLOCK + 1)])


def test_device_arrays_in_a_session_and_with_named_checks(device, monkeypatch):
    x = vector()
    with mo.checking() as reports:
        double[1, BLOCK](device(x))
    assert reports[0].ok and np.array_equal(x, 2 * vector())
    monkeypatch.setenv("MOYE_CHECK", "bounds")
    double[1, BLOCK](device(x))
    races[1, BLOCK](device(x))
    monkeypatch.setenv("MOYE_CHECK", "race")
    kept = x.copy()
    with pytest.raises(SimulationError, match="C1"):
        races[1, BLOCK](device(x))
    assert np.array_equal(x, kept), "what a launch that raises did is not copied back"
    again = double.prepare(device(x), grid=1, block=BLOCK)
    again()
    assert np.array_equal(x, 2 * kept)


# --- MOYE_CHECK ------------------------------------------------------------------------------------------------------


def test_names_of_checks():
    assert chosen(["race"]) == GROUPS["races"] and chosen(["Align", "init"]) == GROUPS["alignment"] | GROUPS[
        "uninitialised"]
    assert chosen(["d3"]) == {"D3"} and chosen(["copy", "barrier", "assert"]) == \
        GROUPS["copies"] | GROUPS["barriers"] | GROUPS["asserts"]
    assert chosen(["all"]) == {code for code, row in CODES.items() if row.when != "P"}
    with pytest.raises(MoyeError, match=r"P1 \(bank conflicts\) is a lint"):
        chosen(["P1"])


def test_a_class_can_be_chosen(monkeypatch):
    monkeypatch.setenv("MOYE_CHECK", "C2,D3")
    races[1, BLOCK](vector())
    monkeypatch.setenv("MOYE_CHECK", "c1")
    with pytest.raises(SimulationError, match="C1"):
        races[1, BLOCK](vector())


@mo.kernel
def careless(x):
    """Two threads of a warp write each element."""
    x[mo.thread_idx().x // 2] = mo.thread_idx().x


def test_a_block_whose_reports_nobody_takes_raises():
    x = np.zeros(32, np.int32)
    with pytest.raises(mo.SimulationError, match="two writes that nothing orders") as raised, mo.checking():
        careless[1, 32](x)
    assert raised.value.finding.code == "C1"
    with mo.checking() as reports:
        careless[1, 32](x)
    assert not reports[0].ok
    told = []
    with mo.checking(each=told.append):
        careless[1, 32](x)
    assert not told[0].ok
    with pytest.raises(ZeroDivisionError), mo.checking():       # what leaves the block is not replaced
        careless[1, 32](x)
        raise ZeroDivisionError
