"""Every fact of tests/data/conformance holds: the same map in every case, the same form but for OTHER_FORM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import moye.layout as ml
from moye.layout import Layout

DATA = Path(__file__).parent.parent / "data" / "conformance"
BY_MODE = {"composition_by_mode": "composition", "logical_divide_by_mode": "logical_divide"}

OTHER_FORM = {
    # A layout of the one mode (4,4):(4,1), divided by <8:2>.  The fact's first mode is 2:8, a part of the tile; ours is
    # the tile (2,4):(8,1) itself, as the law of zipped_divide has it (mode 0 is composition(layout, tiler)).
    ("zipped_divide", "((4,4)):((4,1)) , <8:2>"): "((2,4),2):((8,1),4)",
}


def read(name: str) -> list[dict[str, Any]]:
    with (DATA / name).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def python(x: Any) -> Any:
    """A JSON value of the facts as a layout, a tuple or an integer."""
    if isinstance(x, dict):
        return Layout(python(x["shape"]), python(x["stride"]))
    return tuple(map(python, x)) if isinstance(x, list) else x


def show(x: Any) -> str:
    return f"<{','.join(map(str, x))}>" if isinstance(x, tuple) else str(x)


FACTS = read("layout_algebra.jsonl")
CPP = read("cute_cpp.jsonl")


@pytest.mark.parametrize("op", sorted({fact["op"] for fact in FACTS}))
def test_layout_algebra(op: str) -> None:
    cases = [fact for fact in FACTS if fact["op"] == op]
    assert len(cases) == 75
    verb = getattr(ml, BY_MODE.get(op, op))
    for fact in cases:
        args, want = [python(arg) for arg in fact["args"]], python(fact["result"])
        got = verb(*args)
        asked = " , ".join(map(show, args))
        if fact["values"] is not None:
            assert [got(i) for i in range(ml.size(got))] == fact["values"], (op, asked)
        if (op, asked) in OTHER_FORM:
            assert str(got) == OTHER_FORM[op, asked]
        else:
            assert got == want, (op, asked)


@pytest.mark.parametrize("op", sorted({fact["op"] for fact in CPP}))
def test_cute_cpp(op: str) -> None:
    for fact in (fact for fact in CPP if fact["op"] == op):
        args = [Layout.parse(part) if ":" in part else Layout.parse(part).shape for part in fact["inputs"].split(" , ")]
        got = getattr(ml, op)(*args)
        assert str(got) in (fact["expected"], fact["also_accepted"]), fact
        assert Layout.parse(str(got)) == got


def test_every_fact_is_there() -> None:
    assert (len(FACTS), len(CPP)) == (1500, 226)
