"""Loops that never end and flags that nobody sets are told soon, by the loop; Ctrl-C leaves nothing behind."""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest

import moye as mo
from moye.errors import SimulationError


def judged(kernel, *arguments, grid=1, block=32, flags=1):
    x = np.ones(grid * block, np.float32)
    return mo.check(kernel, lints=False)[grid, block](x, np.zeros(flags, np.int32), *arguments)


# --- flags that nobody sets ------------------------------------------------------------------------------------------


@mo.kernel
def flag(x, flags, ok: mo.Constexpr):
    tid = mo.thread_idx().x
    if tid == 0:
        if ok:
            mo.atomic_add(flags, 0, 1, order="release")
        while mo.load(flags, 0) == 0:
            pass
    mo.sync_threads()
    x[tid] = 2.0


@mo.kernel
def counted_flag(x, flags, ok: mo.Constexpr):
    """The variable that counts decides nothing; in the twin it does."""
    n = 0
    while mo.load(flags, 0) == 0:
        n += 1
        if ok and n > 300:
            break
    x[mo.thread_idx().x] = n


@mo.kernel
def lock(x, flags, ok: mo.Constexpr):
    if mo.thread_idx().x == 0:
        while mo.atomic_cas(flags, 0, 0, 1, order="acq_rel") != 0:
            pass
        x[0] = x[0] + 1.0
        if ok:
            mo.atomic_exch(flags, 0, 0, order="release")


@mo.kernel
def shared_flag(x, flags, ok: mo.Constexpr):
    tid, s = mo.thread_idx().x, mo.shared_array(mo.int32, 1)
    if tid == 0:
        s[0] = 0
    mo.sync_threads()
    if tid == 32 and ok:
        mo.atomic_add(s, 0, 1, order="release", scope="cta")
    if tid < 32:
        while mo.load(s, 0, scope="cta") == 0:
            pass
    x[tid] = 1.0


@mo.kernel
def flag_and_barrier(x, flags, ok: mo.Constexpr):
    """All meet in every pass, and one of them looks."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.int32, 1)
    if tid == 0:
        s[0] = 1 if ok else 0
    mo.sync_threads()
    while s[0] == 0:
        mo.sync_threads()
    x[tid] = 1.0


@mo.kernel
def ring(x, flags, ok: mo.Constexpr):
    """Each block waits for the next; in the twin the last waits for nobody."""
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        if not ok or b < 7:
            while mo.load(flags, (b + 1) % 8) == 0:
                pass
        mo.atomic_add(flags, b, 1, order="release")


@pytest.mark.parametrize(("kernel", "launch"), [
    (flag, {}), (counted_flag, {}), (lock, {"grid": 4}), (shared_flag, {"block": 64}), (flag_and_barrier, {}),
    (ring, {"grid": 8, "flags": 8})], ids=lambda value: getattr(value, "__name__", ""))
def test_a_flag_that_nobody_sets(kernel, launch):
    before = time.process_time()
    wrong, right = judged(kernel, False, **launch), judged(kernel, True, **launch)
    assert [finding.code for finding in wrong.findings] == ["F4"], str(wrong)
    assert "F4" not in {finding.code for finding in right.findings} and not right.unsupported, str(right)
    assert time.process_time() - before < 6


# --- threads that work while they wait -------------------------------------------------------------------------------


@mo.kernel
def works(x, flags, ok: mo.Constexpr):
    """Stores in each pass what nobody waits for, and counts beside the flag."""
    tid, b, s = mo.thread_idx().x, mo.block_idx().x, mo.shared_array(mo.float32, 32)
    s[tid] = 0.0
    if ok:
        mo.atomic_add(flags, b, 1, order="release")
    while mo.load(flags, 1 - b, order="acquire") == 0:
        mo.atomic_add(flags, 2 + b, 1)
        for _ in range(50):
            s[tid] = s[tid] * 0.5 + 1.0
        x[b * 32 + tid] += s[tid]


@mo.kernel
def throws(x, flags, ok: mo.Constexpr):
    """A ball goes to and fro; in the twin somebody stops after a while."""
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        thrown = 0
        while mo.load(flags, 1, order="acquire") == 0:
            if mo.load(flags, 0, order="acquire") == b:
                mo.store(flags, 0, 1 - b, order="release")
                thrown += 1
                if ok and thrown == 400:
                    mo.store(flags, 1, 1, order="release")
            x[b * 32] += 1.0


@mo.kernel
def meets_and_works(x, flags, ok: mo.Constexpr):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    s, go = mo.shared_array(mo.float32, 32), mo.shared_array(mo.int32, 1)
    s[tid] = 0.0
    if tid == 0:
        go[0] = 0
        if ok:
            mo.atomic_add(flags, b, 1, order="release")
    mo.sync_threads()
    while go[0] == 0:
        mo.sync_threads()
        if tid == 0:
            go[0] = mo.load(flags, 1 - b, order="acquire")
        for _ in range(4):
            other = s[tid ^ 1]
            mo.sync_threads()
            s[tid] = other + 1.0
            mo.sync_threads()
    x[b * 32 + tid] = s[tid]


@mo.kernel
def answers(x, flags, ok: mo.Constexpr):
    """Two loops, one inside of the other: block 0 waits for each answer, and the last one does not come."""
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0 and b == 0:
        for turn in range(1, 6):
            mo.store(flags, 0, turn, order="release")
            while mo.load(flags, 1, order="acquire") != turn:
                x[0] += 1.0
    elif tid == 0:
        for turn in range(1, 6 if ok else 5):
            while mo.load(flags, 0, order="acquire") < turn:
                x[32] += 1.0
            mo.store(flags, 1, turn, order="release")


@pytest.mark.parametrize("kernel", [works, throws, meets_and_works, answers],
                         ids=lambda kernel: kernel.function.__name__)
def test_work_that_nobody_waits_for_is_no_progress(kernel):
    before = time.process_time()
    wrong, right = judged(kernel, False, grid=2, flags=4), judged(kernel, True, grid=2, flags=4)
    assert [finding.code for finding in wrong.findings] == ["F4"], str(wrong)
    assert right.ok, str(right)
    assert time.process_time() - before < 20


@pytest.mark.parametrize("checked", ["0", "1"])
def test_plain_launches_find_it_too(checked, monkeypatch):
    monkeypatch.setenv("MOYE_CHECK", checked)
    with pytest.raises(SimulationError) as caught:
        works[2, 32](np.ones(64, np.float32), np.zeros(4, np.int32), False)
    assert caught.value.code == "F4" and "has come back to what it was" in str(caught.value)


@mo.kernel
def tells_late(x, flags, n):
    """Who polls finds the values one after the other, so that nothing changes for as long as one has been written."""
    b = mo.block_idx().x
    if mo.thread_idx().x == 0:
        if b == 0:
            for _ in range(n):
                mo.store(flags, 0, 0, order="release")
            mo.store(flags, 0, 1, order="release")
            while mo.load(flags, 1, order="acquire") == 0:
                x[0] += 1.0
        else:
            while mo.load(flags, 0, order="acquire") == 0:
                x[32] += 1.0
            mo.store(flags, 1, 1, order="release")


@mo.kernel
def works_long(x, flags, n):
    """Warp 1 works through a loop that polls as well, and warp 0 waits for it."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.int32, 2)
    if tid < 2:
        s[tid] = 0
    mo.sync_threads()
    if tid == 32:
        done = 0
        while mo.load(flags, 0) == 0 and done < n:
            done += 1
        mo.store(s, 0, done, order="release", scope="cta")
    elif tid < 32:
        while mo.load(s, 0, order="acquire", scope="cta") == 0:
            x[tid] = x[tid] * 0.5


@pytest.mark.parametrize(("kernel", "grid", "block"), [(tells_late, 2, 32), (works_long, 1, 64)],
                         ids=lambda value: value.function.__name__ if hasattr(value, "function") else "")
def test_what_takes_long_is_no_deadlock(kernel, grid, block):
    report = judged(kernel, 3000, grid=grid, block=block, flags=2)
    assert report.ok, str(report)


@mo.kernel
def grid_barrier(x, flags):
    tid, b = mo.thread_idx().x, mo.block_idx().x
    if tid == 0:
        mo.atomic_add(flags, 0, 1, order="acq_rel")
        while mo.load(flags, 0) < 300:
            pass
    mo.sync_threads()
    x[b * 1024 + tid] += 1.0


@pytest.mark.slow
@pytest.mark.parametrize("checked", [True, False])
def test_blocks_that_are_not_resident(checked, monkeypatch):
    """300 blocks of 1024 threads: 256 of them run, and wait for the others."""
    before = time.process_time()
    x, flags = np.zeros(300 * 1024, np.float32), np.zeros(1, np.int32)
    if checked:
        (finding,) = mo.check(grid_barrier, lints=False)[300, 1024](x, flags).findings
    else:
        monkeypatch.setenv("MOYE_CHECK", "0")
        with pytest.raises(SimulationError) as caught:
            grid_barrier[300, 1024](x, flags)
        finding = caught.value.finding
    assert finding.code == "G4" and "44 blocks that have not started" in finding.message
    assert time.process_time() - before < 60         # to the end of all steps would take minutes


# --- loops -----------------------------------------------------------------------------------------------------------


@mo.kernel
def sentinel(x, flags, end):
    """Looks for an element that may not be there."""
    i = 0
    while x[i % 32] != end:
        i += 1
    flags[0] = i


@mo.kernel
def steps_over(x, flags, end):
    """Odd lanes never come to an even number."""
    k = mo.thread_idx().x
    while k != 30:
        k = (k + 2) % 128
    x[mo.thread_idx().x] = k


@mo.kernel
def with_barriers(x, flags, end):
    tid, k = mo.thread_idx().x, flags[0]
    while k < 5:
        mo.sync_threads()
        k += end
    x[tid] = k


@pytest.mark.parametrize(("kernel", "wrong", "right", "why"), [
    (sentinel, 2.0, 1.0, "after 2000 passes, and nothing has ended it"),
    (with_barriers, 0, 1, "for ever: in 547 passes, what decides whether it ends has come back to what it was, again "
                          "and again")], ids=["sentinel", "with_barriers"])
def test_a_loop_without_end(kernel, wrong, right, why, monkeypatch):
    monkeypatch.setenv("MOYE_STEPS", "2000")
    (finding,) = judged(kernel, wrong).findings
    line = finding.locs[0].line
    assert finding.code == "F4" and finding.message == (
        f"warp 0 of block (0, 0, 0) goes on with the loop at line {line} {why}")
    assert "while" in finding.locs[0].innermost.text()
    assert judged(kernel, right).ok


@mo.kernel
def turns_of_three_flags(x, flags, ok: mo.Constexpr):
    """Goes on while somebody has changed something; the flag of the turn to come must be cleared."""
    tid, s, changed = mo.thread_idx().x, mo.shared_array(mo.float32, (2, 32)), mo.shared_array(mo.int32, 3)
    s[0, tid] = mo.float32(tid % 7)
    if tid < 3:
        changed[tid] = 0
    mo.sync_threads()
    turn, go = 0, 1
    while go > 0:
        if tid == 0 and ok:
            changed[(turn + 1) % 3] = 0
        here = s[turn % 2, tid]
        new = mo.min(here, s[turn % 2, mo.max(tid - 1, 0)])
        s[(turn & 1) ^ 1, tid] = new
        if new != here:
            changed[turn % 3] = 1
        mo.sync_threads()
        go = changed[turn % 3]
        turn += 1
    x[tid] = s[turn % 2, tid]


@mo.kernel
def flags_of_the_grid(x, flags, ok: mo.Constexpr):
    """Whose turn it is follows from a quotient of the counter."""
    turn, go = 0, 1
    while go > 0:
        if mo.block_idx().x == turn // 2 % 2 and mo.thread_idx().x == 0:
            mo.atomic_add(flags, turn & 1, 1 if ok else 0)
        mo.grid_sync()
        go = mo.where(mo.load(flags, (turn + 1) % 2, order="relaxed") < 4, 1, 0)
        turn += 1
    x[mo.block_idx().x * 32 + mo.thread_idx().x] = mo.float32(turn)


@pytest.mark.parametrize(("kernel", "grid"), [(turns_of_three_flags, 1), (flags_of_the_grid, 2)],
                         ids=lambda value: value.function.__name__ if hasattr(value, "function") else "")
def test_turns_that_only_count(kernel, grid):
    """Of the counter of the turns remainders alone matter, so all is as it was every few turns."""
    before = time.process_time()
    wrong, right = judged(kernel, False, grid=grid, flags=2), judged(kernel, True, grid=grid, flags=2)
    assert [finding.code for finding in wrong.findings] == ["F4"], str(wrong)
    assert right.ok, str(right)
    assert time.process_time() - before < 60         # to the end of all steps would take minutes


@mo.kernel
def ends_by_itself(x, flags, n: mo.Constexpr):
    """Nothing changes for a long time but a counter, which ends the loop or makes somebody do so."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.int32, 2)
    if tid < 2:
        s[tid] = 0
    mo.sync_threads()
    turn = 0
    while s[turn % 2] == 0:
        mo.sync_threads()
        turn += 1
        if tid == 0:
            s[turn % 2] = turn // n
        mo.sync_threads()
    x[tid] = mo.float32(turn)


def test_a_counter_that_ends_a_loop():
    report = judged(ends_by_itself, 2500)
    assert report.ok, str(report)


def test_only_some_lanes_go_on(monkeypatch):
    monkeypatch.setenv("MOYE_STEPS", "2000")
    (finding,) = judged(steps_over, 2).findings
    assert finding.code == "F4" and finding.threads == (1,)


@pytest.mark.parametrize("check", ["0", "1"])
def test_a_plain_launch_raises(check, monkeypatch):
    monkeypatch.setenv("MOYE_STEPS", "2000")
    monkeypatch.setenv("MOYE_CHECK", check)
    with pytest.raises(SimulationError) as caught:
        sentinel[1, 32](np.ones(32, np.float32), np.zeros(1, np.int32), 2.0)
    assert caught.value.code == "F4" and "after 2000 passes" in str(caught.value)


@mo.kernel
def counts(x, flags, n):
    total = mo.float32(0)
    for _ in range(n):
        total += 1.0
    x[mo.thread_idx().x] = total


@mo.kernel
def counts_back(x, flags, n):
    """Another bound for each lane."""
    total = mo.float32(0)
    for _ in range(n, mo.int64(mo.thread_idx().x), -3):
        total += 1.0
    x[mo.thread_idx().x] = total


@mo.kernel
def stores(x, flags, n):
    for i in range(n):
        x[mo.thread_idx().x] = i


@mo.kernel
def meets(x, flags, n):
    for _ in range(n):
        mo.sync_threads()
    x[mo.thread_idx().x] = 1.0


@mo.kernel
def leaves(x, flags, n):
    """One lane goes on."""
    for _ in range(n):
        if mo.thread_idx().x != 7:
            break
    x[mo.thread_idx().x] = 1.0


@pytest.mark.slow
@pytest.mark.parametrize("check", ["0", "1"])
@pytest.mark.parametrize("kernel", [counts, counts_back, stores, meets, leaves],
                         ids=lambda kernel: kernel.function.__name__)
def test_a_for_loop_with_too_many_passes(kernel, check, monkeypatch):
    monkeypatch.setenv("MOYE_STEPS", "100")
    monkeypatch.setenv("MOYE_CHECK", check)
    x, flags = np.ones(64, np.float32), np.zeros(1, np.int32)
    with pytest.raises(SimulationError) as caught:
        kernel[1, 64](x, flags, np.int64(2**40))
    finding = caught.value.finding
    who = "thread 7" if kernel is leaves else "warps 0-1"
    assert finding.code == "F4" and f"{who} of block (0, 0, 0) go" in finding.message, finding.message
    assert "after 100 passes, and " in finding.message and "are left" in finding.message
    assert "for" in finding.locs[0].innermost.text()
    kernel[1, 64](x, flags, np.int64(10000))            # as many as it may
    monkeypatch.setenv("MOYE_STEPS", "0")
    kernel[1, 64](x, flags, np.int64(10200))


def test_nested_loops_that_change_nothing(monkeypatch):
    @mo.kernel
    def nest(x, n, write: mo.Constexpr):
        tid, total = mo.thread_idx().x, mo.float32(0)
        for _ in range(n):
            for _ in range(n):
                k = 0
                while k < n:
                    k += 1
                total += 1.0
            if write:
                x[tid] = total
        x[tid] = total

    monkeypatch.setenv("MOYE_STEPS", "60")
    x = np.zeros(32, np.float32)
    (finding,) = mo.check(nest, lints=False)[1, 32](x, 50, False).findings
    assert finding.code == "F4" and "6000 passes, with those of the loops around it, have changed" in str(finding)
    assert mo.check(nest, lints=False)[1, 32](x, 50, True).ok and x[0] == 2500


def test_a_loop_that_nobody_runs_is_no_loop_without_end(monkeypatch):
    """What a condition leaves out is looked at, for B8, and that ends too."""
    @mo.kernel
    def guarded(x, n):
        tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 32)
        s[tid] = 0.0
        for k in range(2):
            if k * 32 + tid < n:
                for _ in range(mo.int64(2**40) * (1 - n // 64) + 1):
                    s[tid] = x[k * 32 + tid]
            mo.sync_threads()
        x[tid] = s[tid]

    monkeypatch.setenv("MOYE_STEPS", "1000")
    before = time.process_time()
    x = np.ones(64, np.float32)
    assert mo.check(guarded, lints=False)[1, 32](x, 64).ok
    (finding,) = mo.check(guarded, lints=False)[1, 32](x, 32).findings
    assert finding.code == "F4" and "are left" in finding.message
    assert mo.check(guarded, lints=False)[1, 32](x, 0).ok
    assert time.process_time() - before < 20


def test_a_limit_that_is_high_enough(monkeypatch):
    x = np.ones(4000, np.float32)
    x[3000] = 2
    found = np.zeros(1, np.int32)

    @mo.kernel
    def search(x, found):
        i = 0
        while x[i] != 2.0:
            i += 1
        found[0] = i

    monkeypatch.setenv("MOYE_STEPS", "1000")
    assert [finding.code for finding in mo.check(search, lints=False)[1, 1](x, found).findings] == ["F4"]
    for steps in ("5000", "0"):
        monkeypatch.setenv("MOYE_STEPS", steps)
        assert mo.check(search, lints=False)[1, 1](x, found).ok and found[0] == 3000


# --- Ctrl-C ----------------------------------------------------------------------------------------------------------


@mo.kernel
def keeps_leftovers(y, x, n):
    """A predicated copy that leaves what was there, so that the launch is repeated with other leftovers."""
    tid, s = mo.thread_idx().x, mo.shared_array(mo.float32, 32)
    for k in range(2):
        if k * 32 + tid < n:
            s[tid] = x[k * 32 + tid]
        print(k)
        mo.sync_threads()
        y[tid] = s[31 - tid]
        mo.sync_threads()


def test_an_interrupted_launch_leaves_nothing_behind(monkeypatch, capsys):
    import moye.sim.machine.batch as batch

    x, wanted = np.arange(64, dtype=np.float32), np.zeros(32, np.float32)
    before = mo.check(keeps_leftovers, lints=False)[1, 32](wanted, x, 64)
    run, runs = batch.Batch.run, []

    def interrupted(self):
        runs.append(self)
        if len(runs) == stop:
            raise KeyboardInterrupt
        return run(self)

    for stop in (1, 2):
        runs.clear()
        y = np.full(32, 7, np.float32)
        monkeypatch.setattr(batch.Batch, "run", interrupted)
        try:
            mo.check(keeps_leftovers, lints=False)[1, 32](y, x, 64)
        except KeyboardInterrupt:
            assert (y == (7 if stop == 1 else wanted)).all()
        monkeypatch.setattr(batch.Batch, "run", run)
        y[:] = 7
        again = mo.check(keeps_leftovers, lints=False)[1, 32](y, x, 64)
        assert str(again) == str(before) and (y == wanted).all()
    with mo.checking() as reports, pytest.raises(KeyboardInterrupt):
        raise KeyboardInterrupt
    assert reports == []
    keeps_leftovers[1, 32](y, x, 64)
    assert reports == []


@mo.kernel
def searches(out, x):
    i = mo.thread_idx().x
    while x[i] == 0:
        i += 32
    out[mo.thread_idx().x] = i


def test_a_while_that_breaks_rules_ends_soon(monkeypatch):
    out, x = np.zeros(32, np.int32), np.zeros(64, np.float32)
    monkeypatch.setenv("MOYE_STEPS", "2000")
    bounds, endless = mo.check(searches, lints=False)[1, 32](out, x).findings
    assert (bounds.code, bounds.coordinate, endless.code) == ("B1", (64,), "F4")
    assert "passes, in 21 of which there were findings" in endless.message


def test_a_while_may_go_on_after_a_rule_was_broken(monkeypatch):
    @mo.kernel
    def waits(out, x, n):
        out[0] = x[mo.thread_idx().x + n]
        i = mo.int32(0)
        while i < n:
            i += 1
        out[1] = i

    monkeypatch.setenv("MOYE_STEPS", "2000")
    out = np.zeros(2, np.float32)
    report = mo.check(waits, lints=False)[1, 1](out, np.zeros(4, np.float32), 1500)
    assert [finding.code for finding in report.findings] == ["B1"] and out[1] == 1500


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [counts, stores, meets], ids=lambda kernel: kernel.function.__name__)
def test_a_long_loop_can_be_interrupted(kernel, monkeypatch):
    monkeypatch.setenv("MOYE_STEPS", "0")
    x, flags = np.ones(32, np.float32), np.zeros(1, np.int32)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            mo.check(kernel)[1, 32](x, flags, np.int64(2**40))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert mo.check(kernel, lints=False)[1, 32](x, flags, np.int64(3)).ok
    assert x[0] == {"counts": 3, "stores": 2, "meets": 1}[kernel.function.__name__]


@mo.kernel
def gives_up_under_a_condition(x, flag, n):
    passes, tired = mo.int32(0), mo.int32(0)
    while mo.load(flag, 0) == 0 and tired == 0:
        passes += 1
        x[1] = 2.0
        if passes > n:
            tired = 1
    x[0] = passes


@mo.kernel
def gives_up_in_an_inner_loop(x, flag, n):
    passes, tired = mo.int32(0), mo.int32(0)
    while mo.load(flag, 0) == 0 and tired == 0:
        passes += 1
        x[1] = 2.0
        for _ in range(passes // (n + 1)):
            tired = 1
    x[0] = passes


@mo.kernel
def gives_up_by_memory(x, flag, n):
    """What is counted lies in memory, and decides only whether something is written that decides."""
    passes = mo.int32(0)
    flag[1], flag[2] = 0, 0
    while mo.load(flag, 0) == 0 and flag[2] == 0:
        passes += 1
        x[1] = 2.0
        if passes > n:
            flag[2] = 1
    x[0] = passes


@mo.kernel
def gives_up_by_registers(x, flag: mo.Static, n):
    """Registers are counted, and a tile that is made of them decides."""
    held, passes = mo.fragment((2,), mo.int32), mo.int32(0)
    held.fill(0)
    flag[2] = 0
    while mo.load(flag, 0) == 0 and flag[2] == 0:
        held[...] = held + 1
        x[1] = 2.0
        mo.copyto(mo.tile(flag, (2,), (1,)), held // (n + 1))
    passes += held[0]
    x[0] = passes


@pytest.mark.parametrize("kernel", [gives_up_under_a_condition, gives_up_in_an_inner_loop, gives_up_by_memory,
                                    gives_up_by_registers],
                         ids=lambda kernel: kernel.function.__name__)
def test_what_decides_whether_something_is_set_decides_too(kernel):
    """1500 passes in which nothing changes but a count: they end."""
    x, flag = np.ones(2, np.float32), np.zeros(4, np.int32)
    report = mo.check(kernel, lints=False)[1, 1](x, flag, 1500)
    assert report.ok and x[0] == 1501, str(report)


@mo.kernel
def gives_up_by_the_clock(x, flag, n):
    passes, start = mo.int32(0), mo.clock()
    while mo.load(flag, 0) == 0 and mo.clock() - start < n:
        passes += 1
        x[1] = 2.0
    x[0] = passes


def test_the_clock_goes_on_while_nothing_else_changes():
    x, flag = np.ones(2, np.float32), np.zeros(1, np.int32)
    report = mo.check(gives_up_by_the_clock, lints=False)[1, 1](x, flag, 3000)
    assert report.ok and x[0] > 200, f"{report}, {x[0]} passes"


@mo.kernel
def counts_for_another(x, cells, n):
    """One block counts up what the other one waits for, and both poll."""
    if mo.block_idx().x == 0:
        while mo.load(cells, 0) == 0:
            mo.atomic_add(cells, 1, 1)
    else:
        while mo.load(cells, 1, order="relaxed") < n:
            pass
        mo.store(cells, 0, 1)
        x[0] = 7


def test_memory_that_changes_while_all_poll():
    x, cells = np.ones(1, np.float32), np.zeros(2, np.int32)
    report = mo.check(counts_for_another, lints=False, schedules=1)[2, 1](x, cells, 1500)
    assert report.ok and x[0] == 7, str(report)


@mo.kernel
def looks_at_copies(x, flag, decides: mo.Constexpr, ok: mo.Constexpr):
    """Each pass copies an element by cp.async; what decides is that element, or the flag."""
    copied, copy = mo.shared_array(mo.float32, 1), mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)
    done = 0
    if ok and mo.block_idx().x == 1:
        mo.store(flag, 0, 1)
    while done == 0:
        mo.copyto(copy, copied, mo.tile(x, (1,), (mo.load(flag, 0, order="relaxed"),)))
        mo.cp_async_commit()
        mo.cp_async_wait(0)
        if copied[0] == 1.0 if decides else mo.load(flag, 0, order="relaxed") == 1:
            done = 1


@pytest.mark.parametrize("decides", [True, False])
@pytest.mark.parametrize("ok", [True, False])
def test_passes_with_copies_by_cp_async_go_round(decides, ok):
    start = time.perf_counter()
    x, flag = np.array([0, 1], np.float32), np.zeros(1, np.int32)
    report = mo.check(looks_at_copies, lints=False)[2, 1](x, flag, decides, ok)
    assert [finding.code for finding in report.findings] == ([] if ok else ["F4"]), str(report)
    assert time.perf_counter() - start < 20
