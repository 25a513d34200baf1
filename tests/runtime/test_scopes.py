"""What a ``with`` block of one thread or task means for launches of others: nothing, unless it says everywhere."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import moye as mo
from moye.errors import SimulationError
from moye.runtime import fast_launch
from moye.runtime.check import checking
from moye.runtime.check.program import check_program
from moye.runtime.scoped import Scoped


@mo.kernel
def bad(x):
    x[mo.thread_idx().x + 8] = 1.0


@mo.kernel
def good(x):
    x[mo.thread_idx().x] = x[mo.thread_idx().x] + 1.0


@mo.kernel
def seen(x, tag):
    i = mo.thread_idx().x
    mo.inspect("first", value=x[i])
    x[i] = tag


def launched(kernel=bad):
    """What became of a launch of 8 threads on 8 elements."""
    x = np.zeros(8, np.float32)
    try:
        kernel[1, 8](x)
    except SimulationError:
        return "raised"
    return "ran" if x.any() else "nothing"


def elsewhere(function=launched):
    """In another thread, while this one waits."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_launches_of_other_threads_raise_as_ever():
    with mo.checking() as reports:
        assert elsewhere() == "raised" and elsewhere(lambda: launched(good)) == "ran"
        assert not reports
        launched()
        assert len(reports) == 1 and elsewhere() == "raised"
    assert launched() == "raised" and not fast_launch.held


def test_two_threads_check_each_its_own():
    ready = threading.Barrier(2)

    def checked(kernel):
        with mo.checking() as reports:
            ready.wait(10)
            launched(kernel)
            ready.wait(10)
            return [(report.kernel, report.ok) for report in reports]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(checked, (bad, good))) == [[("bad", False)], [("good", True)]]


def test_blocks_that_end_in_another_order_than_they_began():
    first, second = mo.checking(), mo.checking()
    outer = first.__enter__()
    inner = elsewhere(second.__enter__)                 # of a thread that has ended
    launched()
    first.__exit__(None, None, None)
    assert launched() == "raised" and (len(outer), len(inner)) == (1, 0)
    second.__exit__(None, None, None)
    assert not fast_launch.held


def test_tasks_begun_in_the_block_are_in_it_and_others_are_not():
    async def checks(began, go):
        with mo.checking() as reports:
            began.set()
            await go.wait()
            await asyncio.gather(asyncio.to_thread(launched), asyncio.create_task(inside()))
        return len(reports)

    async def inside():
        return launched()

    async def others(began, go):
        await began.wait()
        found = launched(), await asyncio.to_thread(launched)
        go.set()
        return found

    async def both():
        began, go = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(checks(began, go), others(began, go))

    assert asyncio.run(both()) == [2, ("raised", "raised")]


def test_a_thread_that_is_given_the_context_is_in_the_block():
    with mo.checking() as reports:
        context = contextvars.copy_context()
        assert elsewhere(lambda: context.run(launched)) == "nothing"
    assert len(reports) == 1


def test_everywhere():
    with mo.checking(everywhere=True) as reports:
        assert elsewhere() == "nothing" and launched() == "nothing"
        with mo.checking() as own:                      # a block of one's own comes first
            launched(good)
            elsewhere()
        assert (len(own), len(reports)) == (1, 3)
    assert elsewhere() == "raised" and checking.session() is None


def test_what_is_only_compiled_in_one_thread_runs_in_others():
    with mo.compile_only("sm_90a", trace_only=True) as gathered:
        assert launched(good) == "nothing" and elsewhere(lambda: launched(good)) == "ran"
    assert len(gathered.jobs) == 1


def test_timelines():
    with mo.timelines() as found:
        elsewhere(lambda: launched(good))
        launched(good)
        with mo.timelines(everywhere=True) as all_of_them:
            elsewhere(lambda: launched(good))
    assert (len(found), len(all_of_them)) == (1, 1)


def test_inspections_are_those_of_the_threads_own_last_launch():
    def inspected(tag):
        x = np.full(4, tag, np.float32)
        seen[1, 4](x, tag + 1.0)
        return mo.inspections()

    mine = inspected(1.0)
    other = elsewhere(lambda: inspected(5.0))
    own, = mo.inspections()
    assert own is mine[0] and other[0] is not own
    assert elsewhere(mo.inspections) == []


def test_programs_are_checked_in_all_their_threads(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import threading\nimport numpy as np\nimport moye as mo\n\n\n@mo.kernel\ndef bad(x):\n"
                      "    x[mo.thread_idx().x + 8] = 1.0\n\n\n"
                      "thread = threading.Thread(target=lambda: bad[1, 8](np.zeros(8, np.float32)))\n"
                      "thread.start()\nthread.join()\n")
    assert check_program(str(script), [], lambda text: None).status() == 1


def test_simulated_launches_of_several_threads_at_once():
    @mo.kernel
    def summed(y, x):
        i = mo.thread_idx().x
        s = mo.shared_array(mo.float32, (64,))
        s[i] = x[i, mo.block_idx().x]
        mo.sync_threads()
        total = 0.0
        for j in range(64):
            total += s[j]
        y[i, mo.block_idx().x] = total

    def run(seed):
        x = np.random.default_rng(seed).integers(0, 9, (64, 4)).astype(np.float32)
        y = np.zeros_like(x)
        summed[4, 64](y, x)
        return np.array_equal(y, np.broadcast_to(x.sum(0), y.shape))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(8)))


def test_a_generator_that_is_closed_elsewhere_leaves_nothing_open():
    value: Scoped[str] = Scoped("test")

    def generator():
        with value.set("here"):
            yield value.get()

    opened = generator()
    context = contextvars.copy_context()
    assert context.run(next, opened) == "here" and value.get() is None
    opened.close()
    assert value.get() is None
    with value.set("a"), value.set("b", everywhere=True):
        assert value.get() == "a" and elsewhere(value.get) == "b"
    with pytest.raises(ZeroDivisionError), value.set("c"):
        raise ZeroDivisionError
    assert value.get() is None
