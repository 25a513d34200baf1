"""docs/attention.md: each step is right and clean, compiles without spills, and the page shows what it is made of."""

from __future__ import annotations

import importlib.util
import re
import sys
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

import moye as mo

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("make_attention", ROOT / "docs" / "make_attention.py")
make_attention = sys.modules["make_attention"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(make_attention)
STEPS = make_attention.steps()
trial = make_attention.trial
HOPPER = [name for name in STEPS if int(name[5]) >= 5]
CSV = "name,heads,seqlen,ms,tflops,of_cudnn,error,device\n"
sheet = cache(make_attention.sheet)


def test_there_are_nine():
    assert [int(name.split("_")[1]) for name in STEPS] == list(range(1, 10))


# --- the steps -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("earliest", [False, True])
@pytest.mark.parametrize("shape", [(1, 128, 128), (2, 256, 384)])
@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_right_and_clean(name, shape, earliest):
    """``checked`` compares with float64, and wants clean reports."""
    reports = make_attention.checked(name, shape, earliest=earliest)
    assert [report.verdict for report in reports] == ["clean for this launch"] * len(reports)
    assert all(not report.not_judged for report in reports)


@pytest.mark.parametrize("name", STEPS)
def test_large_scores_do_not_overflow(name):
    """exp of a score of 700 is no float32."""
    out, q, k, v = trial.arrays(1, 128, 128)
    q, k = q * 8, k * 8
    make_attention.step(name).attention(out, q, k, v)
    assert trial.error(out, trial.exact(q, k, v, make_attention.causal(name))) < trial.NORM


@pytest.mark.parametrize(("name", "rows", "keys"), [(name, 64, 300) for name in STEPS] + [
    ("step_3_tensor_cores", 64, 64), ("step_6_roles", 128, 64), ("step_9_causal", 128, 256)])
def test_what_is_no_whole_tile_is_refused(name, rows, keys):
    with pytest.raises(mo.ArgumentError, match=f"multiples of .* not {rows} and {keys}"):
        make_attention.step(name).attention(*trial.arrays(1, rows, keys))


def test_shapes_that_do_not_fit_are_refused():
    out, q, k, v = trial.arrays(2, 128, 128)
    with pytest.raises(mo.ArgumentError, match=r"out and q, k and v are \(heads, rows, 128\)"):
        make_attention.step("step_5_wgmma").attention(out, q, k[:1], v)


FAULTS = {
    "the tile before is still read": ("step_2_online", r"mo.sync_threads\(\) +# and has", "pass  #", "C2"),
    "the tile is not there": ("step_3_tensor_cores", r"mo.sync_threads\(\) +# the tile is", "pass  #", "C1"),
    "the stage that is read is filled": ("step_4_two_stages", r"sK\[:, :, at.write\]", "sK[:, :, at.read]", "D4"),
    "scores are not waited for": ("step_5_wgmma", r"mo.warpgroup_wait\(0\)\n +online", "online", "E2"),
    "a stage is released too early": ("step_6_roles", r"mo.warpgroup_wait\(0\)\n( +)release\(pipes.V, at\)",
                                      r"release(pipes.V, at)\n\1mo.warpgroup_wait(0)", "E3"),
    "values are not waited for": ("step_7_turns", r"pipes.V.consumer_wait\(at\)\n +order", "order", "D6 D8"),
    "a wait that leaves too much": ("step_8_overlap", r"mo.warpgroup_wait\(1\)", "mo.warpgroup_wait(2)", "E2"),
    "sums do not shrink": ("step_8_overlap", r"scaled\(out, plan.output, state\[2\]\)\n", "pass\n", ""),
    "a tile is left out": ("step_9_causal", r"for _n in range\(", "for _n in range(1, ", "D18 F2"),
    "no mask": ("step_9_causal", r"masked\(plan, S\)\n", "pass\n", ""),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_shows(fault, tmp_path):
    """By the checker, as these classes; or, where nothing but the arithmetic is wrong, by the result."""
    name, line, instead, codes = FAULTS[fault]
    text, count = re.subn(line, instead, (make_attention.FOLDER / f"{name}.py").read_text())
    assert count == 1
    path = tmp_path / f"faulty_{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    arrays, reports = trial.arrays(1, 384, 384), []
    module.attention(*arrays, run=lambda kernel: trial.Noted(mo.check(kernel), reports))
    assert " ".join(sorted({finding.code for report in reports for finding in report.findings})) == codes
    assert codes or trial.error(arrays[0], trial.exact(*arrays[1:], make_attention.causal(name))) > 0.02


@pytest.mark.parametrize("name", STEPS)
def test_a_step_compiles_without_spills(name):
    costs = sheet(name)
    assert costs.spills == 0 and costs.registers <= 255 and costs.shared <= 227 * 1024
    assert name not in HOPPER[1:] or costs.registers == 168, "what 384 threads begin with"


@pytest.mark.parametrize("name", HOPPER)
def test_ptxas_keeps_the_overlap(name):
    """No products one after the other, and no softmax that was put behind a wait."""
    assert [note.message for program in make_attention.programs(name) for note in program.notes] == []


def test_the_softmax_stands_before_the_wait():
    """Of the loop of step 8: the exponentials lie between the waits for the scores and for the product with V."""
    program, = make_attention.programs("step_8_overlap")
    waits = re.split(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x1", program.sass)
    assert len(waits) == 2
    before, behind = (part.count("MUFU.EX2") for part in re.split(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x0", waits[1])[:2])
    assert before >= 64 and behind < 8


@pytest.mark.parametrize("name", STEPS)
def test_no_conflicts(name):
    assert sheet(name).conflicts == 0


# --- what the pictures show ------------------------------------------------------------------------------------------


@cache
def model(name):
    report, = make_attention.checked(name, make_attention.DRAWN, timeline=True)
    return report.timeline().modelled()


def beside(name, of, by):
    """The share of the exponentials of warp ``of`` that stands beside products of warp ``by``."""
    spans = model(name).spans
    products = [span for span in spans if span.unit == "tensor" and span.warp == by]
    mine = [span for span in spans if span.unit == "special" and span.warp == of]
    both = sum(max(0.0, min(a.end, b.end) - max(a.begin, b.begin)) for a in mine for b in products)
    return both / sum(span.end - span.begin for span in mine)


def test_turns_bring_the_softmax_beside_the_products_of_the_other():
    six, seven = (beside(name, 0, 4) for name in ("step_6_roles", "step_7_turns"))
    assert six < 0.8 < seven
    assert model("step_7_turns").busy("tensor") > model("step_6_roles").busy("tensor") + 0.05


def test_overlap_brings_the_softmax_beside_its_own_product():
    six, seven, eight = (beside(name, 0, 0) for name in make_attention.PICTURES)
    assert six == seven == 0 < 0.1 < eight
    assert model("step_8_overlap").busy("tensor") > model("step_7_turns").busy("tensor")


# --- the page --------------------------------------------------------------------------------------------------------


def same_compiler(page):
    return f"of {make_attention.compiler()}." in " ".join(page.split())


def plain(page):
    """Without figures of the compiler, where it is another one, and without line ends in text."""
    page = re.sub(r"[\d,]+( registers| spills| instructions|\s)", r"#\1", " ".join(page.split()))
    return re.sub(r"NVRTC [\d.]+", "NVRTC", re.sub(r"\| # \| # \|", "|", page))


def test_the_page_is_what_the_steps_are():
    page = make_attention.PAGE.read_text()
    made = make_attention.filled(page, {name: sheet(name) for name in STEPS})
    if same_compiler(page):
        assert page == made, "python docs/make_attention.py writes it anew"
    assert plain(page) == plain(made), "python docs/make_attention.py writes it anew"


@pytest.mark.parametrize("name", make_attention.PICTURES)
def test_the_pictures_are_those_of_the_steps(name):
    drawn = (make_attention.FOLDER / f"{name}.svg").read_text().replace(f"{ROOT}/", "")
    assert drawn == model(name).svg().replace(f"{ROOT}/", ""), "python docs/make_attention.py draws it anew"
    texts = [text.text for text in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert {"warps 0-3", "warps 4-7", "warp 8"} <= set(texts)


def test_there_are_pictures_for_steps_alone():
    assert {path.stem for path in make_attention.FOLDER.glob("*.svg")} == set(make_attention.PICTURES)


def test_the_page_says_what_nobody_has_measured(tmp_path, monkeypatch):
    costs = {name: make_attention.Sheet(1, 1.0, 1.0, 0, 0.5, 1, 1, 0, 1) for name in STEPS}
    monkeypatch.setattr(make_attention, "TABLE", tmp_path / "absent.csv")
    assert make_attention.table(costs).count("not measured yet") == len(STEPS) + 2
    assert "nobody has measured yet" in make_attention.note()
    monkeypatch.setattr(make_attention, "TABLE", tmp_path / "some.csv")
    make_attention.TABLE.write_text(f"{CSV}step_3_tensor_cores,1,2,3,123.4,0.256,1e-3,A GPU\n")
    table = make_attention.table(costs)
    assert "| 123 | 0.26 |" in table and table.count("not measured yet") == len(STEPS) + 1
    assert "A GPU" in make_attention.note() and "nobody" not in make_attention.note()


def test_what_a_step_imports_was_shown_before():
    """By a step before it: the page has all code."""
    shown: set[str] = set()
    for number, name in enumerate(STEPS):
        text = (make_attention.FOLDER / f"{name}.py").read_text()
        for module, names in re.findall(r"^from (step_\w+) import (.+)$", text, re.MULTILINE):
            assert module in STEPS[:number] and set(names.split(", ")) <= shown
        for line in "\n".join(make_attention.parts(name)).splitlines():
            if found := re.match(r"(?:def|class) (\w+)|([A-Z][A-Z0-9_, ]*) = ", line):
                shown |= set((found[1] or found[2]).split(", "))
