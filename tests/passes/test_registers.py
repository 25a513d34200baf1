"""Register budgets of warp groups against what a block starts with (F6), before anything runs and in the simulator."""

from __future__ import annotations

import numpy as np
import pytest

import moye as mo
from moye.passes.register_budgets import at_launch, budgets, require_budgets

X = np.zeros(1024, np.float32)


@mo.jit
def fill(Y, X, down, early):
    """A role in a function of its own, which may return early."""
    tid = mo.thread_idx().x
    if early and X[0] > 0:
        return
    mo.warpgroup_reg_dealloc(down)
    Y[tid] = X[tid]


@mo.kernel
def roles(Y, X, down: mo.Constexpr, up: mo.Constexpr, how: mo.Constexpr):
    """The first warp group gives registers back, the others ask for them."""
    tid = mo.thread_idx().x
    first = mo.warpgroup_idx() == 0
    if how == "return":
        if mo.warp_idx() < 4:
            mo.warpgroup_reg_dealloc(down)
            return
        mo.warpgroup_reg_alloc(up)
        Y[tid] = X[tid]
    elif how == "calls":
        if first:
            fill(Y, X, down, False)
        else:
            mo.warpgroup_reg_alloc(up)
    elif how == "early":
        if first:
            fill(Y, X, down, True)
        else:
            mo.warpgroup_reg_alloc(up)
    elif how == "data":
        if X[0] == 0:
            if first:
                mo.warpgroup_reg_dealloc(down)
            else:
                mo.warpgroup_reg_alloc(up)
    elif how == "twice":
        mo.warpgroup_reg_dealloc(24)
        mo.sync_threads()
        if not first:
            mo.warpgroup_reg_alloc(up)
    elif how == "half":
        if tid < 64:
            Y[tid] = X[tid]
        elif tid >= 128:
            mo.warpgroup_reg_alloc(up)
    elif first:
        mo.warpgroup_reg_dealloc(down)
    else:
        mo.warpgroup_reg_alloc(up)


def counts(how, block=384, up=232):
    found = budgets(roles.trace(X, X, 40, up, how, block=block))
    return None if found is None else {group: op.count for group, op in found.items()}


@pytest.mark.parametrize("how", ["", "return", "calls"])
@pytest.mark.parametrize("block", [384, (128, 3), (32, 4, 3)])
def test_budgets_of_roles(how, block):
    """Blocks are numbered with x fastest."""
    assert counts(how) == {0: 40, 1: 232, 2: 232}
    if how != "return":                                 # which tells roles apart by their warps
        func = roles.trace(X, X, 40, 232, how, block=block)
        assert {group: op.count for group, op in budgets(func).items()} == {0: 40, 1: 232, 2: 232}


def test_budgets_that_change_and_that_stay():
    assert counts("twice") == {0: 24, 1: 232, 2: 232}
    assert counts("half", up=168) == {1: 168, 2: 168}


@pytest.mark.parametrize("how", ["data", "early"])
def test_budgets_that_depend_on_data(how):
    assert counts(how) is None


@pytest.mark.parametrize(("threads", "blocks", "each"), [(128, 1, 256), (256, 1, 256), (384, 1, 168), (512, 1, 128),
                                                         (384, 2, 80), (1024, 1, 64)])
def test_registers_at_launch(threads, blocks, each):
    @mo.kernel
    def kernel(Y, blocks: mo.Constexpr):
        mo.min_blocks(blocks)
        Y[mo.thread_idx().x] = 1.0

    func = kernel.trace(X, blocks, block=threads)
    assert at_launch(func) == each and at_launch(func, 165) == 168


@pytest.mark.parametrize(("down", "up", "most"), [(40, 232, None), (24, 240, None), (40, 240, 232), (48, 232, 224),
                                                  (160, 256, 168)])
@pytest.mark.parametrize("how", ["", "return", "calls"])
def test_more_than_there_are(how, down, up, most):
    """168 registers each for three warp groups; nothing is compiled, nothing runs."""
    if most is None:
        assert mo.check(roles)[1, 384](np.zeros(384, np.float32), X[:384], down, up, how).ok
        return
    with pytest.raises(mo.TraceError) as caught:
        roles.trace(X, X, down, up, how, block=384)
    assert caught.value.code == "F6" and caught.value.hint == (f"warpgroup_reg_alloc({most})" if most > 168 else None)
    assert f"want {down} + {up} + {up} = {down + 2 * up} registers for a thread of each, and have 3 * 168 = 504" in \
        caught.value.message
    assert len(caught.value.locs) == 2


def test_what_the_compiler_gave_counts():
    func = roles.trace(X, X, 40, 232, "", block=384)
    require_budgets(func, 168)
    with pytest.raises(mo.TraceError, match=r"have 3 \* 128 = 384"):
        require_budgets(func, 128)


@pytest.mark.parametrize("how", ["data", "early"])
@pytest.mark.parametrize(("up", "codes"), [(232, []), (240, ["F6"])])
def test_in_the_simulator(how, up, codes):
    """A block in which the budgets are set; one with other data sets none, or others."""
    report = mo.check(roles, lints=False)[1, 384](np.zeros(384, np.float32), X[:384], 40, up, how)
    assert [finding.code for finding in report.findings] == codes, str(report)
    if codes:
        (finding,) = report.findings
        assert finding.message.startswith("block (0, 0, 0): 3 warp groups of a block of 384 threads want 40 + 240 +")
        assert finding.block == (0, 0, 0) and finding.hint == "warpgroup_reg_alloc(232)"
        assert "mo.warpgroup_reg_alloc(up)" in finding.locs[0].innermost.text()
    other = mo.check(roles, lints=False)[1, 384](np.zeros(384, np.float32), X[:384] + 1, 40, 232, how)
    assert other.ok == (how == "data")                  # the others ask for what the first has not given back


def test_a_compiled_kernel_has_enough():
    assert roles.compile(X, X, 40, 232, "", block=384, arch="sm_90a").registers == 168


def _unsigned(x):
    if mo.thread_idx().x.to(mo.uint32) - mo.uint32(128) < mo.uint32(256):
        mo.warpgroup_reg_alloc(240)
    else:
        mo.warpgroup_reg_dealloc(24)


def _narrow(x):
    if mo.thread_idx().x.to(mo.uint8) < 128:
        mo.warpgroup_reg_dealloc(24)
    else:
        mo.warpgroup_reg_alloc(240)


def _divided(x):
    if 128 // mo.thread_idx().x < 1:
        mo.warpgroup_reg_dealloc(24)


@pytest.mark.parametrize(("body", "counts"), [(_unsigned, [24, 240, 240]), (_narrow, [24, 240, 24]), (_divided, None)])
def test_integers_of_the_gpu(body, counts):
    """Differences of unsigned numbers wrap, narrow ones are cut, and nobody knows what is divided by 0."""
    func = mo.kernel(body).trace(mo.TensorLike(mo.float32, (4,)), block=384)
    found = budgets(func)
    assert (found and [op.count for _, op in sorted(found.items())]) == counts
    require_budgets(func)


@mo.kernel
def later(out, how: mo.Constexpr):
    """Warp group 0 asks for registers that the others give back; ``how`` says what lies between."""
    tid, group = mo.thread_idx().x, mo.warpgroup_idx()
    bars = mo.mbarrier_array(1)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 128)
    mo.sync_threads()
    if group == 0:
        if how == "in turns":
            mo.barrier_sync(1, 384)
        mo.warpgroup_reg_alloc(240)
        if how == "mbarrier":
            mo.mbarrier_arrive(bars, 0)
    elif how == "mbarrier" or (how == "one of two" and group == 2):
        mo.mbarrier_wait(bars, 0, 0 if how == "mbarrier" else 1)
    if how == "block":
        mo.sync_threads()
    if group != 0:
        mo.warpgroup_reg_dealloc(128)
        if how == "in turns":
            mo.barrier_sync(1, 384)
    out[tid] = tid


@pytest.mark.parametrize(("how", "codes"), [("", []), ("in turns", []), ("one of two", []), ("block", ["F6"]),
                                            ("mbarrier", ["F6"])])
def test_registers_that_are_given_back_too_late(how, codes):
    """Who gives them back waits for the one that waits for them."""
    report = mo.check(later, lints=False)[2, 384](np.zeros(384, np.int32), how)
    found = [finding for finding in report.findings if finding.code != "G1"]
    assert [finding.code for finding in found] == codes, str(report)
    if codes:
        assert "warp group 0 of block (0, 0, 0) waits for 240 registers" in found[0].message
        assert "and can have 168" in found[0].message


@mo.jit
def change(count):
    """More than 0 asks for registers, less than 0 gives some back."""
    if count > 0:
        mo.warpgroup_reg_alloc(count)
    elif count < 0:
        mo.warpgroup_reg_dealloc(-count)


@mo.kernel
def twice(out, flag, first: mo.Constexpr, between: mo.Constexpr, second: mo.Constexpr):
    """Warp group 0 changes its budget twice, if the flag says so; the others give 128 back, 128 are left to them."""
    tid = mo.thread_idx().x
    bars = mo.mbarrier_array(2)
    if tid == 0:
        mo.mbarrier_init(bars, 0, 128)
        mo.mbarrier_init(bars, 1, 1)
    mo.sync_threads()
    if mo.warpgroup_idx() != 0:
        mo.warpgroup_reg_dealloc(40)
    elif flag[0] == 0:
        change(first)
        if between == "named":
            mo.barrier_sync(1, 128)
        elif between == "warp":
            mo.sync_warp()
        elif between == "mbarrier":
            mo.mbarrier_arrive(bars, 0)
            mo.mbarrier_wait(bars, 0, 0)
        elif between == "one arrives":
            if tid == 0:
                mo.mbarrier_arrive(bars, 1)
            mo.mbarrier_wait(bars, 1, 0)
        change(second)
    out[tid] = tid


def report_of(first, between, second, flag):
    """While tracing nobody knows what a flag in memory says; a static one is what the trace says."""
    out = np.zeros(384, np.int32)
    return mo.check(twice, lints=False)[1, 384](out, flag, first, between, second)


@pytest.mark.parametrize(("first", "second", "text", "mend"), [
    (-40, -80, "has 40 registers for each thread, and warpgroup_reg_dealloc(80) at line {} asks for more: it can only "
               "give registers back", "warpgroup_reg_alloc(80)"),
    (-176, 0, "has 168 registers for each thread, and warpgroup_reg_dealloc(176) at line {} asks for more",
     "warpgroup_reg_alloc(176)"),
    (232, 160, "has 232 registers for each thread, and warpgroup_reg_alloc(160) at line {} asks for fewer: it can only "
               "add registers", "warpgroup_reg_dealloc(160)"),
    (232, -168, None, None), (-40, 168, None, None), (-40, -40, None, None), (168, 0, None, None)])
def test_changes_that_go_the_wrong_way(first, second, text, mend):
    report = report_of(first, "named", second, np.zeros(1, np.int32))
    assert [finding.code for finding in report.findings] == ["F6"] * (text is not None), str(report)
    if text is not None:
        (finding,) = report.findings
        before, after = text.split(" at line {}")
        assert finding.message.startswith(f"warp group 0 of block (0, 0, 0) {before} at line ")
        assert after in finding.message and finding.hint == mend
    assert report_of(first, "named", second, np.ones(1, np.int32)).ok


@pytest.mark.parametrize(("between", "codes"), [("named", []), ("mbarrier", []), ("", ["F6"]), ("warp", ["F6"]),
                                                ("one arrives", ["F6"])])
def test_changes_of_warps_that_have_not_met(between, codes):
    """All of them must know of all of them: one arrival that the others wait for does not tell of these."""
    report = report_of(-40, between, 168, np.zeros(1, np.int32))
    assert [finding.code for finding in report.findings] == codes, str(report)
    if codes:
        (finding,) = report.findings
        assert finding.message.startswith("warp group 0 of block (0, 0, 0) executes warpgroup_reg_alloc(168) at line ")
        assert "after warpgroup_reg_dealloc(40), and its warps do not meet in between" in finding.message
        assert finding.hint is not None and "barrier_sync(id, 128)" in finding.hint


@mo.kernel
def static(out, first: mo.Constexpr, between: mo.Constexpr, second: mo.Constexpr):
    """The same of all warp groups, and without a flag."""
    change(first)
    if between == "block":
        mo.sync_threads()
    elif between == "warp":
        mo.sync_warp()
        out[mo.thread_idx().x] = out[384 - mo.thread_idx().x]
    change(second)


@pytest.mark.parametrize(("first", "between", "second", "text"), [
    (-40, "block", -80, "warp group 0 has 40 registers for a thread after warpgroup_reg_dealloc(40), and "
                        "warpgroup_reg_dealloc(80) asks for more: it can only give registers back"),
    (-176, "", 0, "warp group 0 has 168 registers for a thread, and warpgroup_reg_dealloc(176) asks for more"),
    (160, "block", 120, "has 160 registers for a thread after warpgroup_reg_alloc(160), and warpgroup_reg_alloc(120) "
                        "asks for fewer: it can only add registers"),
    (-40, "", 160, "warp group 0 executes warpgroup_reg_alloc(160) after warpgroup_reg_dealloc(40), and its warps do "
                   "not meet in between"),
    (-40, "warp", 160, "its warps do not meet in between"),
    (-40, "block", 160, None), (120, "", 0, None)])
def test_changes_that_are_known_before_anything_runs(first, between, second, text):
    if text is None:
        static.trace(X, first, between, second, block=384)
        return
    with pytest.raises(mo.TraceError) as caught:
        static.trace(X, first, between, second, block=384)
    assert caught.value.code == "F6" and text in caught.value.message and caught.value.hint is not None
    assert len(caught.value.locs) == 1 + (second != 0)


@pytest.mark.parametrize(("up", "registers"), [(160, 160), (216, 216), (256, 256)])
def test_registers_at_launch_are_no_more_than_anybody_asks_for(up, registers):
    """ptxas starts the kernel with what its bounds allow, up to the largest budget."""
    func = roles.trace(X, X, 40, up, "", block=256)
    assert at_launch(func) == registers
    assert at_launch(func, roles.compile(X, X, 40, up, "", block=256, arch="sm_90a").registers) == registers
