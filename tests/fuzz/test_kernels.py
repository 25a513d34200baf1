"""Random kernels, a few seconds of them: the simulator, an interpreter of the source and the printed CUDA agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.answers import judge
from fuzz.campaign import FOUND, judged, kept, replayed
from fuzz.generator import draw
from fuzz.host import compiler
from fuzz.reduction import reduced, signature

RIGHT, BESIDE, OVERFLOWING = range(2000, 2024), range(3000, 3008), range(4000, 4012)


def told(programs, verdicts):
    return "\n".join(f"seed {p.seed}: {v.kind}: {v.text}" for p, v in zip(programs, verdicts, strict=True) if v.failed)


def test_right_programs_have_one_answer(tmp_path):
    programs = [draw(seed) for seed in RIGHT]
    verdicts, hosted = judged(programs, tmp_path)
    assert not told(programs, verdicts)
    kinds = [v.kind for v in verdicts]
    assert kinds.count("clean") > len(programs) // 2, kinds
    assert compiler() is None or hosted == kinds.count("clean"), "some printed CUDA did not run on the host"


def test_accesses_beside_a_tensor_are_found():
    programs = [draw(seed, "bounds") for seed in BESIDE]
    verdicts = [judge(p) for p in programs]
    assert not told(programs, verdicts)
    assert "fault" in {v.kind for v in verdicts}


def test_overflow_is_found_where_it_happens():
    programs = [draw(seed, "", 0.5) for seed in OVERFLOWING]
    verdicts = [judge(p) for p in programs]
    assert not told(programs, verdicts)
    assert "overflow" in {v.kind for v in verdicts}


@pytest.mark.parametrize("path", sorted(FOUND.glob("*.py")), ids=lambda p: p.stem)
def test_what_was_found_once_stays_mended(path, tmp_path):
    program = replayed(path)
    [verdict], _ = judged([program], tmp_path)
    assert not verdict.failed, f"{verdict.kind}: {verdict.text}"
    assert verdict.kind != "unclear", verdict.text


def test_a_failing_program_is_reduced_and_kept(tmp_path):
    """Of a program that fails for one statement little else is left, and the file runs as the program did."""
    program = draw(2001)

    def uses_a_product(p):
        return "product" if "*" in p.source and not judge(p).failed else ""

    small = reduced(program, uses_a_product, seconds=5)
    assert "*" in small.source and len(small.source) < len(program.source) // 2
    path = Path(tmp_path) / "clean_2001.py"
    path.write_text(kept(small, judge(small)))
    assert replayed(path).source == small.source and signature(judge(replayed(path))) == ""
