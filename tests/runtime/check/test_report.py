"""Report: its text, its HTML and its data.  ``UPDATE_GOLDEN=1`` writes golden/reports anew: read the difference."""

from __future__ import annotations

import json
import linecache
import os
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import moye as mo
from moye.errors import Frame, Loc
from moye.runtime.check.report import Report
from moye.sim.findings.finding import Finding

GOLDEN = Path(__file__).parents[2] / "golden" / "reports"
SOURCE = """def helper(s, i):
    return s[i] < 3 & 1     # <b>not bold</b>
def kernel(x):
    s[tid] = x[tid]
    helper(s, 63 - tid)
"""


@pytest.fixture
def report():
    """Two findings (one seen often, with a call chain), a lint, something unjudged, a sample of blocks."""
    linecache.cache["k.py"] = (len(SOURCE), None, SOURCE.splitlines(keepends=True), "k.py")
    write = Loc((Frame("k.py", 4, 4, 10, "kernel"),))
    read = Loc((Frame("k.py", 5, 4, -1, "kernel"), Frame("k.py", 2, 11, 15, "helper")))
    race = Finding("C1", "s(0) is read & written", (write, read), (0, 0, 0), (0, 63), "s", (0,), "sync_threads()", 2048)
    refused = Finding("A12", "n is < 3", (Loc((Frame("<nowhere>", 7),)),), None, (), "", None, None)
    lint = Finding("P5", "nothing needs this barrier", (write,), None, (), "", None, None)
    return Report("kernel", (4, 1, 1), (64, 1, 1), [race, refused], [lint], ["it polls"], blocks=(0, 3),
                  not_judged=("only 2 of 4 blocks ran",))


def compare(name, text):
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def test_text(report):
    compare("report.txt", f"{report}\n")


def test_html(report):
    html = report._repr_html_()
    compare("report.html", f"{html}\n")


class Tags(HTMLParser):
    """What is open at each point; the marked text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.marked, self.ids = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "mark":
            self.marked.append(data)


def test_the_html_is_well_formed_and_loads_nothing(report):
    html = report._repr_html_()
    tags = Tags(html)
    assert not tags.open and tags.marked == ["s[tid]", "helper(s, 63 - tid)", "s[i]", "s[tid]"]
    assert "prefers-color-scheme:dark" in html and "&lt;b&gt;" in html
    assert not any(word in html for word in ("http", "<script", "<b>not", "src=", "@import", "url("))


def test_a_clean_report_in_html():
    html = Report("k", (1, 1, 1), (32, 1, 1))._repr_html_()
    assert '<b class="good">clean for this launch</b>' in html


def test_counts(report):
    assert [report.count(f) for f in report.findings] == [2048, 1]
    assert "and 2047 more like it" in str(report) and str(report).count("more like it") == 1


def test_data(report):
    data = json.loads(json.dumps(report.as_dict()))
    assert (data["kernel"], data["ok"], data["blocks"], data["unsupported"]) == ("kernel", False, [0, 3], ["it polls"])
    race, refused = data["findings"]
    assert (race["code"], race["count"], race["threads"], race["coordinate"]) == ("C1", 2048, [0, 63], [0])
    assert race["title"] == "another thread's shared write with no barrier in between"
    assert [[frame["line"] for frame in point] for point in race["points"]] == [[4], [5, 2]]
    assert race["points"][0][0] == {"file": "k.py", "line": 4, "column": 4, "end": 10, "function": "kernel",
                                    "source": "    s[tid] = x[tid]"}
    assert refused["block"] is None and data["lints"][0]["code"] == "P5"


def test_occurrences_of_a_real_launch():
    @mo.kernel
    def outside(x):
        x[mo.thread_idx().x + 32] = 1

    report = mo.check(outside)[1, 64](np.zeros(64, np.float32))
    assert [report.count(f) for f in report.findings] == [32]
    assert str(report).endswith("and 31 more like it") and not report.not_judged
    assert report.count(object()) == 1
