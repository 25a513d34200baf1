"""Each defect class with its twin, one line different, that is right."""

from __future__ import annotations

import numpy as np
import pytest

from moye.layout import ComposedLayout, Swizzle, make_layout, size
from moye.sim.findings.codes import CODES
from moye.sim.findings.finding import StopSimulation, coordinate_of

T = 64
TID = np.arange(T)
OTHER = (TID + 32) % T      # an element of the other warp's lane
LANE = TID ^ 1              # an element of the neighbouring lane


def case_c1(b, fault):
    b.write(1, TID)
    fault or b.sync()
    b.read(3, OTHER)
    return "C1(1, 3)"


def case_c1_two_writes(b, fault):
    b.write(1, TID)
    fault or b.sync()
    b.write(3, OTHER)
    return "C1(1, 3)"


def case_c1_one_statement(b, fault):
    b.write(1, TID // 2 if fault else TID)
    return "C1(1, 1)"


def case_c2(b, fault):
    for _ in range(2):
        b.write(1, TID).sync().read(3, OTHER)
        fault or b.sync()
    return "C2(1, 3)"


def case_c3(b, fault):
    b.write(1, TID)
    fault or b.warp_sync()
    b.read(3, LANE)
    return "C3(1, 3)"


def case_c3_overwrite(b, fault):
    b.write(1, TID).warp_sync().read(3, LANE)
    fault or b.warp_sync()
    b.write(5, TID)
    return "C3(5, 3)"


def case_d1(b, fault):
    b.copy(1, TID)
    fault or b.wait(2).sync()
    b.read(3, OTHER)
    return "D1(1, 3)"


def case_d1_own_element(b, fault):
    b.copy(1, TID)
    fault or b.wait(2)
    b.read(3, TID)
    return "D1(1, 3)"


def case_d1_other_thread_waits(b, fault):
    b.copy(1, np.tile(TID[:32], 2), active=range(32))
    b.wait(2, active=range(32, 64) if fault else range(32)).sync()
    b.read(3, np.tile(TID[:32], 2))
    return "D1(1, 3)"


def case_d2(b, fault):
    b.copy(1, TID).commit().copy(2, TID + 64).commit()
    b.wait(3, pending=1 if fault else 0).sync()
    b.read(5, np.stack([OTHER, OTHER + 64]))
    return "D2(2, 5)"


def case_d2_never_committed(b, fault):
    b.copy(1, TID)
    fault or b.commit()
    b.wait(3, pending=0).sync().read(5, OTHER)
    return "D2(1, 5)"


def case_d3(b, fault):
    b.copy(1, TID).wait(2)
    fault or b.sync()
    b.read(3, OTHER)
    return "D3(1, 3)"


def case_d3_within_a_warp(b, fault):
    b.copy(1, TID).wait(2)
    fault or b.warp_sync()
    b.read(3, LANE)
    return "D3(1, 3)"


def case_d3_barrier_before_the_wait(b, fault):
    b.copy(1, TID)
    (b.sync().wait(2) if fault else b.wait(2).sync())
    b.read(3, OTHER)
    return "D3(1, 3)"


def case_d4(b, fault):
    b.write(1, TID).sync().read(3, OTHER)
    fault or b.sync()
    b.copy(5, TID)
    return "D4(5, 3)"


def case_b6(b, fault):
    b.write(1, TID, active=range(T // 2 if fault else T)).sync().read(3, OTHER)
    return "B6(3)"


def case_b9(b, fault):
    b.copy(1, TID)
    fault or b.wait(2)
    b.write(3, TID)
    return "B9(1, 3)"


def case_b9_two_copies(b, fault):
    b.copy(1, TID)
    fault or b.wait(2)
    b.copy(3, TID)
    return "B9(1, 3)"


CASES = [function for name, function in sorted(globals().items()) if name.startswith("case_")]


@pytest.mark.parametrize("case", CASES, ids=lambda f: f.__name__[5:])
def test_fault_is_reported_and_its_twin_is_clean(bench, case):
    faulty, clean = bench(T), bench(T)
    assert faulty.codes() == [] and case(faulty, True) in faulty.codes()
    assert len(faulty.findings) == 1
    case(clean, False)
    assert clean.codes() == []


@pytest.mark.parametrize("case", CASES, ids=lambda f: f.__name__[5:])
def test_the_same_among_blocks_that_differ(bench, case):
    faulty, clean = bench(T, 3), bench(T, 3)
    for b in (faulty, clean):                           # an access by one block only makes all state per block
        b.write(90, TID + 128, active=np.ones((T, 1), bool) & np.array([False, True, False]))
    expected = case(faulty, True)
    assert faulty.codes() == [expected]
    case(clean, False)
    assert clean.codes() == []


def test_message_names_element_threads_block_and_lines(bench):
    b = bench(T, layout=make_layout((32, 8), (1, 32)))
    b.copy(1, TID).wait(2).read(3, OTHER)
    (finding,) = b.findings
    assert finding.message == (
        "sA(0, 0) of block (0, 0, 0) may be read before the asynchronous copy by thread 0 at line 1 has arrived: "
        "no barrier between the wait of thread 0 at line 2 and the read by thread 32 at line 3")
    assert (finding.code, finding.tensor, finding.coordinate) == ("D3", "sA", (0, 0))
    assert (finding.threads, finding.block) == ((0, 32), (0, 0, 0))
    assert str(finding).splitlines()[1:] == ["  kernel.py:1", "  kernel.py:3",
                                             "hint: sync_threads() after cp_async_wait()"]


def test_the_most_specific_class_wins_and_a_repeated_finding_is_counted(bench):
    b = bench(T)
    for _ in range(3):
        b.copy(1, TID).wait(2).read(3, OTHER).sync()
    (finding,) = b.findings
    assert finding.code == "D3" and finding.count == 3 * T


def test_stop_on_first(bench):
    b = bench(T, stop=True)
    b.write(1, TID)
    with pytest.raises(StopSimulation, match="C1: sA") as caught:
        b.read(3, OTHER)
    assert caught.value.finding is b.findings[0]


def test_too_permissive_wait_says_what_would_do(bench):
    b = bench(T)
    for stage in range(3):
        b.copy(1, TID + 64 * stage).commit()
    b.wait(3, pending=1).sync().read(5, OTHER + 128)
    assert b.findings[0].message.endswith(
        "the last wait between the asynchronous copy by thread 0 at line 1 and the read by thread 32 at line 5, "
        "cp_async_wait(1) at line 3, leaves the newest group in flight, and none was committed after that of the copy")
    assert b.findings[0].hint == "cp_async_wait(0)"


@pytest.mark.parametrize("layout", [
    make_layout((16, 4), (1, 18)), make_layout(((2, 4), (4, 2)), ((1, 8), (2, 32))),
    ComposedLayout(Swizzle(2, 2, 3), 0, make_layout((8, 16), (16, 1))),
], ids=str)
def test_coordinate_of_inverts_the_layout(bench, layout):
    buffer = bench().buffer("s", 128, layout)
    for offset in {layout(i) for i in range(size(layout))}:
        crd = coordinate_of(buffer, offset)
        assert crd is not None and layout(*crd) == offset
    assert coordinate_of(buffer, 100000) is None


def test_padding_is_named_by_its_byte(bench):
    b = bench(T, layout=make_layout((31, 4), (1, 32)))
    b.read(1, np.full(T, 31), active=[31])
    assert b.findings[0].message == ("byte 124 of sA of block (0, 0, 0) is read by thread 31 at "
                                     "line 1 before anything wrote it")


def test_every_class_of_the_catalogue_has_a_title():
    sizes = {"A": 12, "B": 11, "C": 7, "D": 22, "E": 6, "F": 7, "G": 5, "P": 8, "V": 1}
    assert list(CODES) == [f"{letter}{i}" for letter, n in sizes.items() for i in range(1, n + 1)]
    assert all(code.title and set(code.when) <= set("TLSP/") for code in CODES.values())
