"""The table of hints: its classes exist, and whoever asks for the hint of a place names one that is there."""

from __future__ import annotations

import re
from pathlib import Path

import moye as mo
from moye.sim.findings import codes
from moye.sim.findings.codes import CODES, GROUPS, hint, hint_between_roles

SIM = Path(mo.__file__).parent / "sim"
ROWS = [row.split(maxsplit=2) for row in codes._HINTS.strip().splitlines()]


def test_every_hint_is_of_a_class():
    assert {code for code, _, _ in ROWS} <= CODES.keys()
    assert len({(code, where) for code, where, _ in ROWS}) == len(ROWS), "a row twice"
    assert frozenset().union(*GROUPS.values()) <= CODES.keys()


def test_every_class_with_a_hint_has_one_for_anywhere():
    assert {code for code, _, _ in ROWS} == {code for code, where, _ in ROWS if where == "-"}


def test_places_that_are_named_in_the_simulator_are_in_the_table():
    asked = {pair for path in SIM.rglob("*.py") for pair in re.findall(r'\bhint\("(\w+)", "(\w+)"\)', path.read_text())}
    assert len(asked) > 8 and asked <= {(code, where) for code, where, _ in ROWS}


def test_a_place_of_its_own_or_anywhere():
    assert hint("D3", "store") == "sync_threads() after tma_store_wait(0, read=False)"
    assert hint("D3", "cluster") == hint("D3") == "sync_threads() after cp_async_wait()"
    assert hint_between_roles("C2") is not None and hint_between_roles("C3") is None
