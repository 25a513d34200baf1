"""What a judge is given and what it says: cases, goals, limits, memory of arguments, verdicts as data, values."""

from __future__ import annotations

import json
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import moye as mo
from moye.sim.findings.codes import CODES
from moye.testing import Asked, Case, Goals, Judge, Limits, cases, judge, judge_values, ragged_sizes
from moye.testing import cases as cases_of
from moye.testing.holes import holes
from moye.testing.memory import Room, pack
from moye.testing.verdicts import STATUSES, status_of, worst

DOCS = Path(__file__).parents[2] / "docs"
COPY = """
import moye as mo

@mo.kernel
def copied(out, x):
    tid = mo.thread_idx().x
    for i in range(mo.block_idx().x * 32 + tid, mo.size(x), mo.grid_dim().x * 32):
        out[i] = x[i]

def solve(out, x):
    copied[2, 32](out, x)
"""
MATRIX = """
import moye as mo

@mo.kernel
def scaled(out, x, factor, add):
    i, j = mo.thread_idx().x, mo.block_idx().x
    if i < mo.size(x, 0):
        out[i, j] += factor * x[i, j] + add

def solve(out, x, factor, add):
    scaled[x.shape[1], 64](out, x, factor, add)
"""

STAGED = """
import moye as mo

ATOM = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)

@mo.kernel
def staged(out, x, threads: mo.Constexpr, layout: mo.Constexpr):
    copy = mo.make_tiled_copy(ATOM, threads, mo.make_layout((1, 1)))
    tid = mo.thread_idx().x
    room = mo.shared_array(mo.float32, layout)          # (32, 32)
    thr = copy.get_slice(tid)
    mo.copyto(copy, thr.partition_D(room), thr.partition_S(x))
    mo.cp_async_commit()
    mo.cp_async_wait()
    mo.sync_threads()
    for i in mo.static_range(32):
        out[i, tid] = room[i, tid]

def solve(out, x):
    staged[1, 32](out, x, mo.make_layout(THREADS), mo.make_layout((32, 32), STRIDES))
"""


@pytest.fixture(scope="module")
def one():
    with Judge() as judge:
        yield judge


def vectors(rng, n):
    return {"out": np.empty(n, np.float32), "x": rng.standard_normal(n).astype(np.float32)}


# --- cases -----------------------------------------------------------------------------------------------------------


def test_cases_have_sizes_seeds_and_variants():
    found = cases(vectors, [(40,), (1,)], seeds=(5, 6), strided=("x",), aliased=[("out", "x")], special=True,
                  goals=Goals(degree=1), rtol=0.5)
    assert [case.name for case in found] == ["size 40, seed 5", "size 40, seed 6", "size 1, seed 1000",
                                             "size 40, seed 5, strided x", "size 40, seed 5, out is x",
                                             "size 40, seed 5, special values"]
    assert [case.goals is not None for case in found] == [True] + 5 * [False]
    assert {case.rtol for case in found} == {0.5} and {case.earliest for case in found} == {True, False}
    strided, aliased, special = (case.arguments for case in found[3:])
    assert strided["x"].strides == (8,) and aliased["out"] is aliased["x"]
    assert found[4].outputs == () and found[4].updated == ("out",)
    x = special["x"]
    assert all(np.any(there) for there in (np.isnan(x), x == np.inf, x == -np.inf, (x == 0) & np.signbit(x)))
    assert np.isfinite(x).sum() > 30
    assert not np.array_equal(found[0].arguments["x"], found[1].arguments["x"])


def test_a_matrix_with_gaps_has_its_modes_in_another_order():
    x = np.arange(12.0).reshape(3, 4)
    view = cases_of.__globals__["with_gaps"](x)
    assert np.array_equal(view, x) and view.strides == (16, 8 * 2 * 6) and not view.flags.contiguous


@pytest.mark.parametrize("tile", [2, 32, 128, 1000])
def test_ragged_sizes(tile):
    sizes = [size for (size,) in ragged_sizes(tile)]
    assert sizes == sorted(set(sizes)) and {1, tile - 1, tile, tile + 1} - {0} <= set(sizes)
    assert any(size > 2 * tile and size % tile for size in sizes)


@pytest.mark.parametrize(("wrong", "said"), [
    (lambda: cases(vectors, []), "there are no sizes"), (lambda: cases(None, [(1,)]), "must be a function"),
    (lambda: cases(vectors, [1]), "tuples of integers"), (lambda: ragged_sizes(0), "positive integer"),
    (lambda: Case("a", {"x": np.zeros(3)}), "the output 'out' is none of the arrays x"),
    (lambda: Case("a", {"out": [1]}, outputs=()), "is a list, and must be a NumPy array"),
    (lambda: Case("a", [1]), "must be a dict"), (lambda: Case("a", {}, outputs="out"), "tuple of names"),
    (lambda: Limits(seconds=0), "seconds is 0"), (lambda: Limits(cpu=True), "cpu is True"),
    (lambda: Asked(1, 2), "takes a name and a function"), (lambda: judge("", len, []), "list of mo.testing.Case"),
    (lambda: judge(3, len, []), "source is a int"), (lambda: judge(Path("/none.py"), len, []), "cannot read"),
    (lambda: judge_values("x = 1", []), "list of mo.testing.Asked")])
def test_what_is_refused(wrong, said):
    with pytest.raises(mo.ArgumentError, match=re.escape(said)):
        wrong()


@pytest.mark.parametrize(("reference", "said"), [
    (lambda y: y, "takes 'y'"), (lambda x: (x, x, x), None), (lambda x: x[:2], "gives shape (2,)"),
    (lambda x: {"z": x}, "gives 1 arrays")])
def test_a_reference_that_does_not_fit(one, reference, said):
    case = cases(vectors, [(40,)])[:1]
    if said is None:                                    # more than there are outputs: the first ones count
        assert one(COPY, reference, case).ok
        return
    with pytest.raises(mo.ArgumentError, match=re.escape(said)):
        one(COPY, reference, case)


# --- memory ----------------------------------------------------------------------------------------------------------


def test_arrays_keep_strides_and_overlaps_in_other_memory():
    whole = np.arange(48, dtype=np.int16).reshape(6, 8)
    given = {"a": whole[::2, 1:], "b": whole.T, "c": np.arange(5.0), "e": np.empty((0, 3)), "f": np.array(3.0),
             "h": np.ones(3, ml_dtypes.bfloat16), "l": np.broadcast_to(np.float32(2), (4, 4))}
    packed = pack(given)
    room = Room(packed.plan)
    assert not room.touched()
    room.fill([bytes(piece) for piece in packed.pieces])
    for name, x in given.items():
        got = room.arrays[name]
        assert (got.shape, got.strides, got.dtype) == (x.shape, x.strides, x.dtype) and np.array_equal(got, x)
    room.arrays["a"][0, 0] = 99
    assert room.arrays["b"][1, 0] == 99 and whole[0, 1] == 1
    assert room.touched()


def test_negative_strides_are_refused():
    with pytest.raises(mo.ArgumentError, match="negative strides"):
        pack({"x": np.arange(4)[::-1]})


# --- judging ---------------------------------------------------------------------------------------------------------


def test_arguments_of_all_kinds(one):
    """Matrices of any strides, updated arrays, numbers; a tuple of what is expected is one array here."""
    def make(rng, m, n):
        return {"out": np.asfortranarray(rng.standard_normal((m, n))), "x": rng.standard_normal((m, n)),
                "factor": 2.5, "add": np.float32(1)}

    def reference(out, x, factor, add):
        return out + factor * x + add

    asked = cases(make, [(40, 3), (1, 1)], outputs=(), updated=("out",), strided=("out", "x"), rtol=1e-6)
    verdict = one(MATRIX, reference, asked)
    assert verdict.ok, str(verdict)
    assert one(MATRIX, lambda out, x: out + x, asked).status == "wrong"


def test_a_kernel_that_the_judge_launches(one):
    source = COPY.replace("range(mo.block_idx().x * 32 + tid, mo.size(x), mo.grid_dim().x * 32)", "range(tid, 40, 32)")
    case = Case("one block", vectors(np.random.default_rng(0), 40), grid=1, block=32)
    assert one(source, lambda x: x, [case], entry="copied").ok
    assert one(source, lambda x: x, [case], entry="copy").status == "error"


def test_bit_for_bit(one):
    """-0 is not 0, and one unit in the last place is too much."""
    asked = cases(vectors, [(40,)], special=True, exact=True)
    assert one(COPY, lambda x: x, asked).ok
    negative = one(COPY, lambda x: np.where(x == 0, np.float32(0), x), asked)
    assert negative.status == "wrong" and "bit for bit" in negative.message
    assert one(COPY, lambda x: np.nextafter(x, np.float32(9)), asked[:1]).status == "wrong"
    assert one(COPY, lambda x: np.nextafter(x, np.float32(9)), cases(vectors, [(40,)])).ok


def test_goals_are_judged_where_they_are_asked_for(one):
    """Numbers of the counters and of operations are bounds, too; a goal that is missed is no wrong result."""
    def status(**goals):
        verdict = one(COPY, lambda x: x, cases(vectors, [(64,), (32,)], goals=Goals(**goals)))
        assert all(result.ok for result in verdict.results[1:])
        return verdict

    met = status(degree=1, conflicts=0, sectors=1.0, launches=1, at_most={"global_load_requests": 2},
                 at_least={"Load": 1})
    assert met.ok and met.results[0].numbers["counters"]["global_load_requests"] == 2
    assert met.results[0].numbers["sectors_per_request"] == 4
    few = status(at_most={"global_load_requests": 1})
    assert (few.status, few.message) == (
        "costly", "size 64, seed 0: global_load_requests is 2, and at most 1 is asked for")
    assert status(at_least={"ldmatrix_requests": 1}).status == "costly"
    assert "the kernel has Load 1 times, and at most 0 is asked for" in status(at_most={"Load": 0}).message
    assert status(overlap=0.5).status == "overlap"
    assert status(launches=0).status == "costly"


@pytest.mark.parametrize(("threads", "strides", "degree", "words"), [
    ("(1, 32), (32, 1)", "(32, 1)", 1, ""),
    ("(1, 32), (32, 1)", "(1, 32)", 32, "has bank conflicts of degree 32"),
    ("(8, 4), (4, 1)", "(32, 1)", 8, "takes 256 wavefronts where 32 would do, as cp.async.4 goes line by line")])
def test_the_degree_of_asynchronous_copies(one, threads, strides, degree, words):
    """Copies out of many lines take a wavefront for each, although no two words meet in a bank."""
    source = STAGED.replace("THREADS", threads).replace("STRIDES", strides)
    make = {"out": np.empty((32, 32), np.float32), "x": np.ones((32, 32), np.float32)}

    def status(goals):
        return one(source, lambda x: x, cases(lambda rng, n: dict(make), [(32,)], goals=goals))

    assert status(Goals(degree=degree)).ok
    numbers = status(Goals()).results[0].numbers
    assert (numbers["degree"], numbers["conflicts"] > 0) == (degree, degree > 1)
    if degree > 1:
        missed = status(Goals(degree=degree - 1))
        assert missed.status == "bank conflicts" and words in missed.message, missed.message


def test_stopping_at_the_first_case_that_fails(one):
    asked = cases(vectors, [(40,), (41,)])
    source = COPY.replace("x[i]", "x[i] + 1")
    assert [len(one(source, lambda x: x, asked, stop=stop).results) for stop in (True, False)] == [1, 3]


def test_a_verdict_is_data(one):
    source = COPY.replace("out[i] = x[i]", "out[i + 1] = x[i]")
    verdict = one(source, lambda x: x, cases(vectors, [(40,)]))
    told = json.loads(verdict.as_json())
    assert told["status"] == verdict.status == "out of bounds" and told["meaning"] == STATUSES["out of bounds"]
    [finding] = told["results"][0]["findings"]
    assert finding["code"] == "B1" and "index 40 of out" in finding["message"]
    assert verdict.lines == (8,) and finding["points"][0][-1]["source"].strip() == "out[i + 1] = x[i]"
    assert "0 of 2 cases passed" in str(verdict)


def test_what_a_source_prints_is_kept_up_to_the_limit(one):
    source = COPY + "\nimport sys\nprint('hello' * 100)\nprint('x', file=sys.stderr)\n"
    assert one(source, lambda x: x, cases(vectors, [(4,)])).output.endswith("hello\nx\n")
    assert len(one(source, lambda x: x, cases(vectors, [(4,)]), limits=Limits(output=100)).output) == 100


def test_without_a_process_the_verdicts_are_the_same():
    """For a browser; the host code still sees no data."""
    asked = cases(vectors, [(40,), (1,)], special=True)
    with Judge(inside=True) as here:
        assert here(COPY, lambda x: x, asked).ok
        assert here(COPY.replace("x[i]", "x[i] + 1"), lambda x: x, asked).status == "wrong"
        assert here(COPY.replace("    copied[", "    out[:] = x + 1\n    copied["), lambda x: x, asked).status == "host"
        assert here("1 / 0", lambda x: x, asked).status == "error"
        assert here("print(3)" + COPY, lambda x: x, asked).output == "3\n"


# --- values ----------------------------------------------------------------------------------------------------------

VALUES = """
import moye as mo
number, text, pair = 3, "a", (1, (2, 3))
layout = mo.make_layout(((2, 2), 8), ((1, 4), 8))
swizzle = mo.Swizzle(3, 3, 3)
swizzled = mo.composition(swizzle, mo.make_layout((8, 64), (64, 1)))
atom = mo.CopyAtom(mo.UniversalCopy(mo.float32), mo.float32)
copy = mo.make_tiled_copy(atom, mo.make_layout((4, 8)), mo.make_layout((2, 1)))
array = object()
"""


def test_values_arrive_as_they_are(one):
    wanted = {"number": 3, "text": "a", "pair": (1, (2, 3)), "layout": mo.make_layout(((2, 2), 8), ((1, 4), 8)),
              "swizzle": mo.Swizzle(3, 3, 3),
              "swizzled": mo.composition(mo.Swizzle(3, 3, 3), mo.make_layout((8, 64), (64, 1)))}

    def same(name):
        return lambda value: None if value == wanted[name] else f"{value} is not {wanted[name]}"

    def tile_of(value):
        return None if mo.size(value[0]) == 64 and tuple(value[1]) == (8, 8) else str(value)

    asked = [*(Asked(name, same(name)) for name in wanted), Asked("copy", tile_of)]
    verdict = judge_values(VALUES, asked, judge=one)
    assert verdict.ok, str([result.message for result in verdict.results])


def test_values_that_are_not_so(one):
    asked = [Asked("array", lambda v: None), Asked("none", lambda v: None), Asked("number", lambda v: v.shape),
             Asked("text", lambda v: f"it is {v}")]
    verdict = judge_values(VALUES, asked, judge=one)
    assert [result.status for result in verdict.results] == ["error", "error", "wrong", "wrong"]
    assert "not of the kind" in verdict.results[2].message and verdict.results[3].message == "it is a"
    assert judge_values("x = ...", [Asked("x", lambda v: None)], judge=one).status == "holes"


# --- words -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "lines"), [
    ("x = ...", [1]), ("x[...] = y[..., 1]", []), ("f(...)\n\ndef g():\n    ...", [1, 4]), ("x[f(...)]", [1]),
    ("if ...:\n    y = t[..., k]", [1]), ("no python(", []), ("x: int = 3", [])])
def test_holes(text, lines):
    assert holes(text) == lines


def test_every_class_of_defects_has_a_status():
    for code, row in CODES.items():
        assert status_of(code) in STATUSES, code
        assert row.when == "P" or status_of(code) != "passed"
    assert [status_of(code) for code in ("B1", "C1", "C2", "G2", "D1", "D8", "E2", "B6", "C4", "F4", "A11", "A12", "B3",
                                         "A4")] == [
        "out of bounds", "race", "race", "race", "copies", "copies", "copies", "uninitialised", "barriers", "deadlock",
        "overflow", "assertion", "misaligned", "refused"]
    assert worst(["passed", "wrong", "race"]) == "race" and worst([]) == "passed"


def test_the_page_has_every_status_in_order():
    rows = re.findall(r"^\| ([a-z ]+) \| (.+) \|$", (DOCS / "judge.md").read_text(), re.MULTILINE)
    assert [row for row in rows if row[0] in STATUSES] == list(STATUSES.items())
