"""The mutator, and the verdicts of the simulator on mutants of barriers, waits, commits and fences.

``verdicts.json`` holds what survey.py found, on a GPU too: what changed results there must not be called clean.
"""

from __future__ import annotations

import ast
import json

import pytest

import library
import survey
from mutate import mutants
from subjects import SUBJECTS

RECORDED = json.loads(survey.KEPT.read_text())

KERNEL = '''
def kernel(A, B):
    k = 0
    mo.copyto(sA[:, :, k + 1], A)
    mo.cp_async_wait(1)
    mo.sync_threads()
    if k < 3:
        mo.copyto(B, sA[:, :, smem_read], pred=inside)
    layout = mo.make_layout((8, 4), (1, 8 + 2))
'''


def test_what_is_changed():
    assert {mutant.name for mutant in mutants(KERNEL, ("kernel",))} == {
        "stage kernel+2: [k + 1] -> [k]",
        "sync kernel+3: remove cp_async_wait", "sync kernel+3: cp_async_wait one up",
        "sync kernel+3: cp_async_wait one down", "sync kernel+3: cp_async_wait(1 + 1)",
        "sync kernel+4: remove sync_threads", "sync kernel+4: sync_threads one down",
        "predicate kernel+5: k < 3 -> k <= 3", "predicate kernel+5: if k < 3 always", "predicate kernel+6: pred=None",
        "stage kernel+6: [smem_read] -> [smem_write]",
        "layout kernel+7: (8, 4) -> (4, 8)", "layout kernel+7: (1, 8 + 2) -> (8 + 2, 1)", "layout kernel+7: 8 + 2 -> 8"}
    assert not mutants(KERNEL, ("main",))


def test_what_is_changed_in_the_library(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text('''
def kernel(pipe, state):
    if mo.thread_idx().x == 0:
        mo.mbarrier_wait(bars, 0, state.phase)
    state = state.next()
    mo.warpgroup_wait(1)
    seen = mo.load(flag, 0, order="acquire")
''')
    assert {(mutant.line, mutant.what) for mutant in library.mutants_of(path)} == {
        (3, "if mo.thread_idx().x == 0: always"), (4, "no mo.mbarrier_wait(bars, 0, state.phase)"),
        (4, "mo.mbarrier_wait(bars, 0, state.phase): state.phase -> (state.phase) ^ 1"),
        (5, "no state = state.next()"), (6, "no mo.warpgroup_wait(1)"), (6, "mo.warpgroup_wait(1): 1 -> 1 + 1"),
        (7, 'mo.load(flag, 0, order="acquire"): "acquire" -> "relaxed"')}
    assert library.probe_of(path, 4).splitlines()[3] == "        assert mo.block_idx().x > 1000000"


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_every_mutant_is_another_program(name):
    text = SUBJECTS[name].path.read_text()
    found = mutants(text, SUBJECTS[name].functions)
    programs = {ast.dump(ast.parse(mutant.text)) for mutant in found}
    assert found and len(programs) == len(found) and ast.dump(ast.parse(text)) not in programs


def test_every_mutant_has_a_verdict():
    named = {subject: sorted(m.name for m in mutants(s.path.read_text(), s.functions))
             for subject, s in SUBJECTS.items()}
    assert named == {subject: sorted(records) for subject, records in RECORDED.items()}, \
        "run tests/mutants/survey.py simulator, and on a GPU survey.py gpu"


def test_no_mutant_that_changes_results_is_called_clean_and_right():
    ran = [(subject, name, record) for subject, records in RECORDED.items() for name, record in records.items()
           if record.get("gpu", {}).get("changed")]
    assert len(ran) > 200
    assert not [item[:2] for item in ran if item[2]["simulator"]["verdict"] == "right"]


def test_what_breaks_no_rule_and_is_wrong_is_found_by_expect():
    wrong = [record["simulator"]["code"] for records in RECORDED.values() for record in records.values()
             if record["simulator"]["verdict"] == "wrong"]
    assert len(wrong) > 40 and set(wrong) == {"V1"}


@pytest.fixture(scope="module", autouse=True)
def _warm():
    survey.prepare("simulator")


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBJECTS)
def test_verdicts_of_the_simulator(name):
    """As recorded: the class of the finding, or that the mutant is equivalent to the kernel."""
    assert survey.run("simulator", name, "")["verdict"] == "right"
    for mutant, record in RECORDED[name].items():
        if mutant.startswith("sync"):
            now, kept = survey.run("simulator", name, mutant), record["simulator"]
            assert (now["verdict"], now.get("code")) == (kept["verdict"], kept.get("code")), mutant
