"""The table of codes: nothing in it is dead, whoever asks names what is there, and facts fill the fields."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

import pytest

import moye as mo
from moye.sim.findings import codes
from moye.sim.findings.codes import CODES, clause, hint, hint_between_roles, sentence
from moye.sim.findings.groups import GROUPS
from moye.sim.findings.wording import Clause, Crowd, say

SIM = Path(mo.__file__).parent / "sim"
SOURCE = "\n".join(path.read_text() for path in SIM.rglob("*.py") if path.name not in ("codes.py", "shared_words.py"))
WORDS = codes._WORDS


def fields(template):
    """All fields, also those within the alternatives of others."""
    for _, name, spec, _ in Formatter().parse(template):
        if name is not None:
            yield name
            yield from fields(spec)


def test_every_row_is_of_a_class():
    assert {code for code, _, _ in WORDS} <= CODES.keys() | {"*"}
    assert frozenset().union(*GROUPS.values()) <= CODES.keys()
    assert len(WORDS) > 100 and all(re.fullmatch(r"[\w-]+", case) for _, _, case in WORDS)


def test_every_case_is_named_where_something_is_found():
    unnamed = {case for _, kind, case in WORDS if kind != "=" and case != "-" and f'"{case}"' not in SOURCE}
    assert not unnamed


def test_every_clause_is_used():
    used = {name for text in WORDS.values() for name in fields(text)}
    assert not {name for _, kind, name in WORDS if kind == "=" and name not in used and f'"{name}"' not in SOURCE
                and not name.startswith("a_")}


def test_every_field_is_a_clause_or_a_fact_of_somebody():
    clauses = {name for _, kind, name in WORDS if kind == "="}
    for (code, _, case), text in WORDS.items():
        for name in fields(text):
            assert name in clauses or re.search(rf"\b{name}\b", SOURCE), f"{code} {case}: nobody tells {{{name}}}"


def depth(template):
    """How deep alternatives lie within alternatives."""
    return max((depth(spec) + 1 for _, name, spec, _ in Formatter().parse(template) if name is not None), default=0)


def test_alternatives_are_no_deeper_than_python_formats_them():
    assert max(map(depth, WORDS.values())) <= 2


def test_a_case_of_its_own_or_any():
    assert hint("D3", "store") == "sync_threads() after tma_store_wait(0, read=False)"
    assert hint("D3", "cluster") == hint("D3") == "sync_threads() after cp_async_wait()"
    assert hint_between_roles("C2") is not None and hint_between_roles("C3") is None
    assert sentence("D1", "read") == sentence("D1") != sentence("D1", "far")
    assert clause("C3", "barrier") != clause("C1", "barrier")


def test_what_is_not_in_the_table_is_said_at_once():
    with pytest.raises(AssertionError, match="no sentence for C1 in the case 'sideways'"):
        sentence("C1", "sideways")
    with pytest.raises(AssertionError, match=r"C1: \{nonsense\} is neither a fact nor a clause"):
        say("C1", "so {nonsense}", {})


@pytest.mark.parametrize(("template", "facts", "said"), [
    ("{n} element{n:|s}", {"n": 1}, "1 element"),
    ("{n} element{n:|s}", {"n": 0}, "0 elements"),
    ("{n:none was|one was|{n} were} seen", {"n": 0}, "none was seen"),
    ("{n:none was|one was|{n} were} seen", {"n": 7}, "7 were seen"),
    ("by thread 1{of:| of block {of}}", {"of": None}, "by thread 1"),
    ("by thread 1{of:| of block {of}}", {"of": (0, 2, 0)}, "by thread 1 of block (0, 2, 0)"),
    ("{late:in time|late}", {"late": True}, "late"),
    ("{who} {who:comes|come}", {"who": Crowd([3], 64)}, "thread 3 comes"),
    ("{who} {who:comes|come}", {"who": Crowd(range(64), 64)}, "warps 0-1 come"),
    ("mask {mask:#x}{op}", {"mask": 255, "op": None}, "mask 0xff"),
    ("no {barrier}", {"warp": 3}, "no sync_warp among the lanes of warp 3"),
    ("the {noun}", {"noun": Clause("a_copied")}, "the asynchronous copy"),
])
def test_facts_fill_the_fields(template, facts, said):
    assert say("C3", template, facts) == said
