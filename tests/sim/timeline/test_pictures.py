"""Tables, SVG and Chrome traces: golden files of a tiny pipeline, and what any trace must fulfil."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import moye as mo
from hopper_pipelines import operands as hopper_operands
from hopper_pipelines import products, run_ring
from moye.sim.timeline.chrome import flights
from moye.sim.timeline.columns import MOST, Columns, Gap, rows
from timeline_pipelines import (
    COPY,
    LOAD,
    MMA,
    THREE,
    TWO,
    T,
    carried_scalar,
    multistage,
    operands,
    specialised,
    through_registers,
)

GOLDEN = Path(__file__).parents[2] / "golden"
HERE = f"{Path(__file__).parents[2] / 'cases'}/"
WGMMA = (("load", 0), "mma", "mma", "commit", ("load", 1), "mma", "commit", 1, ("wait", 0, 0), "mma", "commit", 0,
         ("wait", 1, 0))
SVG = "{http://www.w3.org/2000/svg}"


def timelines():
    """Timelines of every sort."""
    def run(kernel, *args, block=T):
        return mo.check(kernel, timeline=True)[1, block](*args).timeline()
    return {
        "tiny": run(multistage, *operands(6), TWO, COPY, MMA),
        "three stages": run(multistage, *operands(9), THREE, COPY, MMA),
        "registers": run(through_registers, *operands(5), mo.make_layout((16, 4)), LOAD, MMA),
        "scalars": run(carried_scalar, np.ones(128, np.float32), np.ones(128, np.float32), 4, block=32),
        "ring": run_ring(260, 2, 2)[0].timeline(),
        "wgmma": mo.check(products, lints=False, timeline=True)[1, 128](*hopper_operands(), WGMMA).timeline(),
        "roles": run(specialised, np.ones(32, np.float32), np.zeros((16, 4), np.float32), 3, MMA, block=96),
    }


@pytest.fixture(scope="module")
def every():
    return timelines()


@pytest.fixture(params=["tiny", "three stages", "registers", "scalars", "roles", "ring", "wgmma"])
def timeline(request, every):
    return every[request.param]


def compare(name, text):
    path = GOLDEN / name
    text = text.replace(HERE, "")
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert path.read_text() == text, f"{name} differs: UPDATE_GOLDEN=1 rewrites it"


def test_golden_table(every):
    compare("timeline_tiny.txt", every["tiny"].text() + "\n")


def test_golden_svg(every):
    compare("timeline_tiny.svg", every["tiny"].svg())


@pytest.mark.parametrize("name", ["ring", "wgmma"])
def test_golden_tables_and_pictures_of_sm_90(every, name):
    compare(f"timeline_{name}.txt", every[name].text() + "\n")
    compare(f"timeline_{name}.svg", every[name].svg())


def test_golden_trace(every):
    trace = every["tiny"].chrome()
    events = ",\n".join(json.dumps(event) for event in trace.pop("traceEvents"))
    compare("timeline_tiny.json", f'{json.dumps(trace)[:-1]}, "traceEvents": [\n{events}\n]}}\n')


# --- Chrome ----------------------------------------------------------------------------------------------------------


def test_a_trace_is_what_perfetto_loads(timeline):
    trace = json.loads(json.dumps(timeline.chrome()))
    assert "steps of program order" in trace["otherData"]["unit"]
    named, tracks, flows = set(), defaultdict(list), defaultdict(list)
    for event in trace["traceEvents"]:
        track = event["pid"], event["tid"]
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name") and event["args"]["name"]
            named.add(track)
        elif event["ph"] == "X":
            assert event["dur"] >= 1 and event["ts"] >= 0
            tracks[track].append(event)
        else:
            flows[event["id"]].append(event)
    assert set(tracks) <= named, "every track has a name"
    for events in tracks.values():
        ends = [event["ts"] + event["dur"] for event in events]
        assert all(end <= event["ts"] for end, event in zip(ends, events[1:], strict=False)), "monotone, no overlaps"
    copies = [e for e in timeline.events if e.goes_on and e.kind != "mma" and e.done is not None]
    assert len(flows) == len(copies)
    for start, finish in flows.values():
        assert (start["ph"], finish["ph"], finish["bp"]) == ("s", "f", "e")
        assert start["ts"] < finish["ts"]
        for end in (start, finish):                     # both ends lie on a slice of their track
            assert any(e["ts"] == end["ts"] for e in tracks[end["pid"], end["tid"]])


def test_an_arrow_goes_from_a_copy_to_its_wait(every):
    events = every["tiny"].chrome()["traceEvents"]
    by_place = {(e["pid"], e["tid"], e["ts"]): e["name"] for e in events if e["ph"] == "X"}
    ends = [(e["ph"], by_place[e["pid"], e["tid"], e["ts"]]) for e in events if e["ph"] in "sf"]
    assert set(ends) == {("s", "cp.async"), ("f", "wait")}


def test_an_arrow_goes_from_a_load_to_the_wait_of_another_warp(every):
    events = every["ring"].chrome()["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    by_place = {(e["tid"], e["ts"]): e["name"] for e in events if e["ph"] == "X"}
    ends = {e["ph"]: (names[e["tid"]], by_place[e["tid"], e["ts"]]) for e in events if e["ph"] in "sf"}
    assert ends == {"s": ("warp 0", "tma"), "f": ("warp 1", "wait")}
    bars = [e["name"] for e in events if e.get("cat") == "in flight"]
    assert bars == [f"smem <- x stage {k % 2}" for k in range(9)]


def test_a_bar_of_wgmmas_reaches_to_their_wait(every):
    """One bar for what one wait ends: the first group, then the two behind it."""
    timeline = every["wgmma"]
    bars = [e for e in timeline.chrome()["traceEvents"] if e.get("cat") == "wgmma" and e["tid"] < 64]
    mmas = [e for e in timeline.events if e.kind == "mma" and e.warp == 0]
    assert [(bar["name"], bar["ts"], bar["ts"] + bar["dur"]) for bar in bars] == [
        ("2 wgmma", mmas[0].step, mmas[0].until), ("2 wgmma", mmas[2].step, mmas[3].until)]
    assert [e.in_flight for e in mmas] == [1, 1, 2, 1]
    assert timeline.svg().count(">wgmma</text>") == len(rows(timeline.events))
    assert ">wgmma</text>" not in every["ring"].svg()


def test_copies_of_one_track_do_not_overlap(timeline):
    for warp in {e.warp for e in timeline.events}:
        mine = [e for e in timeline.events if e.warp == warp]
        end = defaultdict(int)
        for track, copy in flights(mine):
            assert copy.step >= end[track]
            end[track] = copy.until


def test_links_name_the_other_warp(every):
    told = every["ring"].text().split("\n\n")
    loads = [line for line in told[0].splitlines() if " tma " in line]
    waits = [line for line in told[1].splitlines() if "ends" in line]
    assert len(loads) == len(waits) == 3, "two trips and the last"
    assert all(line.split("until ")[1].endswith(" of warp 1") for line in loads)
    assert all(line.split("ends ")[1].endswith(" of warp 0") for line in waits)


# --- columns ---------------------------------------------------------------------------------------------------------


def test_long_loops_are_cut_in_the_middle(every):
    columns = Columns(every["three stages"].events, 2, 1)
    gaps = [what for what in columns.shown if isinstance(what, Gap)]
    assert [(gap.count, gap.name) for gap in gaps] == [(6, "k")]
    assert [s.label for s in columns.sections()] == ["stage = 0", "stage = 1", "k = 0", "k = 1", "k = 8", ""]
    assert not any(isinstance(what, Gap) for what in Columns(every["three stages"].events, 20, 1).shown)


def test_one_trip_is_not_worth_a_gap(every):
    assert not any(isinstance(what, Gap) for what in Columns(every["scalars"].events, 2, 1).shown)


@mo.kernel
def spins(x, n):
    i = mo.int32(0)
    while i < n:
        x[i] = i
        i = i + 1


def test_what_has_no_trips_is_cut_by_length():
    n = MOST + 100
    timeline = mo.check(spins, timeline=True)[1, 1](np.zeros(n, np.float32), n).timeline()
    columns = Columns(timeline.events, 2, 1)
    assert len(columns.shown) == MOST + 1
    gap = columns.shown[MOST * 3 // 4]
    assert (gap.label, gap.first, gap.last) == ("100 steps", MOST * 3 // 4, MOST * 3 // 4 + 99)
    hidden = [event.step for event in timeline.events if not columns.visible(event)]
    assert hidden == list(range(gap.first, gap.last + 1))
    assert "... 100 steps ..." in timeline.text() and "100 steps are left out" in timeline.svg()


def test_warps_that_do_the_same_share_a_row(every):
    assert [row.label for row in rows(every["tiny"].events)] == ["warps 0-1"]
    assert [row.label for row in rows(every["roles"].events)] == ["warp 0", "warps 1-2"]


# --- SVG -------------------------------------------------------------------------------------------------------------


def test_svg_is_well_formed_and_shows_every_visible_event(timeline):
    root = ElementTree.fromstring(timeline.svg())
    columns = Columns(timeline.events, 2, 1)
    shown = [e for row in rows(timeline.events) for e in row.events if columns.visible(e)]
    marks = [mark for mark in root.iter() if mark.find(f"{SVG}title") is not None
             and mark.find(f"{SVG}title").text.startswith("#")]
    bars = sum(mark.get("rx") == "3" for mark in marks)
    assert len(marks) - bars == len(shown)
    width = float(root.get("width"))
    for rect in root.iter(f"{SVG}rect"):
        x, wide = float(rect.get("x", 0)), float(rect.get("width"))
        assert wide > 0 and x >= 0 and x + wide <= width
    assert timeline._repr_svg_() == timeline.svg()


def test_bars_of_a_long_loop_reach_into_the_gap(every):
    root = ElementTree.fromstring(every["three stages"].svg())
    gap = next(r for r in root.iter(f"{SVG}rect") if r.get("fill") == "#f4f4f4")
    middle = float(gap.get("x")) + float(gap.get("width")) / 2
    bars = [(float(r.get("x")), float(r.get("x")) + float(r.get("width"))) for r in root.iter(f"{SVG}rect")
            if r.get("rx") == "3"]
    assert sum(end == middle for _, end in bars) == 4, "A and B of tiles 2 and 3: waited for in what is left out"
    assert sum(start == middle for start, _ in bars) == 2, "A and B of tile 8: issued in it"
    assert all(start < end for start, end in bars)


# --- files -----------------------------------------------------------------------------------------------------------


def test_files(every, tmp_path):
    for suffix in ("svg", "json", "txt"):
        every["tiny"].save(tmp_path / f"out.{suffix}")
    assert (tmp_path / "out.svg").read_text() == every["tiny"].svg()
    assert json.loads((tmp_path / "out.json").read_text()) == every["tiny"].chrome()
    assert every["tiny"].text() in (tmp_path / "out.txt").read_text()
    with pytest.raises(mo.ArgumentError, match=r"as .svg, .json or .txt, not '.png'"):
        every["tiny"].save(tmp_path / "out.png")


def test_launches_are_gathered():
    A, B, C = operands(4)
    with mo.timelines() as found:
        multistage[1, T](A, B, C, TWO, COPY, MMA)
        multistage[1, T](A, B, C, THREE, COPY, MMA)
    multistage[1, T](A, B, C, THREE, COPY, MMA)
    assert [str(t.overlap()) for t in found] == ["6 of 8 MMAs (3/4)"] * 2
