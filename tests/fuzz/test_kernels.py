"""Random kernels, a few seconds of them: the simulator, an interpreter of the source and the printed CUDA agree."""

from __future__ import annotations

import pytest

from fuzz import interpreter
from fuzz.answers import exact, for_moye, judge
from fuzz.campaign import FOUND, judged, kept, replayed
from fuzz.generator import draw
from fuzz.host import compiler
from fuzz.programs import Program, arguments
from fuzz.reduction import reduced, signature

RIGHT, BESIDE, OVERFLOWING = range(2048, 2064), range(3000, 3006), range(4000, 4008)


def told(programs, verdicts):
    return "\n".join(f"seed {p.seed}: {v.kind}: {v.text}" for p, v in zip(programs, verdicts, strict=True) if v.failed)


@pytest.mark.slow
def test_right_programs_have_one_answer(tmp_path):
    programs = [draw(seed) for seed in RIGHT]
    verdicts, hosted = judged(programs, tmp_path)
    assert not told(programs, verdicts)
    kinds = [v.kind for v in verdicts]
    assert kinds.count("clean") > len(programs) // 2, kinds
    assert compiler() is None or hosted == kinds.count("clean"), "some printed CUDA did not run on the host"


@pytest.mark.slow
def test_accesses_beside_a_tensor_are_found():
    programs = [draw(seed, "bounds") for seed in BESIDE]
    verdicts = [judge(p) for p in programs]
    assert not told(programs, verdicts)
    assert "fault" in {v.kind for v in verdicts}


@pytest.mark.slow
def test_overflow_is_found_where_it_happens():
    programs = [draw(seed, "", 0.5) for seed in OVERFLOWING]
    verdicts = [judge(p) for p in programs]
    assert not told(programs, verdicts)
    assert "overflow" in {v.kind for v in verdicts}


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(FOUND.glob("*.py")), ids=lambda p: p.stem)
def test_what_was_found_once_stays_mended(path, tmp_path):
    program = replayed(path)
    [verdict], _ = judged([program], tmp_path)
    assert not verdict.failed, f"{verdict.kind}: {verdict.text}"
    assert verdict.kind != "unclear", verdict.text


FOLDED = """\
import moye as mo

@mo.kernel
def fuzz_1(o_i32):
    bid = mo.block_idx().x
    o_i32[bid, 0] = bid * 2147483646 % 7
"""


def test_what_folding_leaves_out_does_not_overflow():
    """The remainder folds to 0, as of exact integers; the wrapped product would leave 3."""
    program = Program(FOLDED, 1, 3, 1)
    items = arguments(program)
    assert judge(program).text.startswith("of what folding leaves out")
    [wrapped] = interpreter.run(program.source, program.name, items, 3, 1)[1]
    right = for_moye(items)
    right[0][:3, 0] = 0
    assert exact(program, items, right)
    right[0][2, 0] = wrapped[2]
    assert wrapped[2] == 3 and not exact(program, items, right)


ZEROS = """\
import moye as mo

@mo.kernel
def fuzz_1(o_f32, n):
    f32_1 = 0.0
    f32_1 -= -mo.thread_idx().x
    o_f32[mo.thread_idx().x, 0] = f32_1
    o_f32[mo.thread_idx().x, 1] = 0.0 - mo.float32(n - n)
"""


@pytest.mark.skipif(compiler() is None, reason="the host's answer needs g++")
def test_the_host_keeps_the_sign_of_zeros(tmp_path):
    [verdict], hosted = judged([Program(ZEROS, 1, 1, 32)], tmp_path)
    assert verdict.kind == "clean" and hosted == 1, verdict.text


LONG = """\
import moye as mo


@mo.kernel
def fuzz_1(a_i32, a_f32, o_i32, o_f32, n, x, w, c: mo.Constexpr):
    tid = mo.thread_idx().x
    f32_1 = a_f32[tid] + x
    i32_2 = a_i32[n] & 15
    for i_3 in range(n):
        if i_3 > 3 and f32_1 < 2.0:
            i32_2 = (i32_2 * (i_3 + 1)) % 7
        else:
            f32_1 = f32_1 * 0.5
    o_f32[tid, 0] = f32_1
    o_i32[tid, 0] = i32_2
"""


@pytest.mark.slow
def test_a_failing_program_is_reduced_and_kept(tmp_path):
    """Of a program that fails for one product little else is left, and the file runs as the program did."""
    program = Program(LONG, 1, 1, 32)

    def has_a_product(p):
        verdict = judge(p)
        return "product" if "* (i_3" in p.source and verdict.kind == "clean" else ""

    assert has_a_product(program)
    small = reduced(program, has_a_product, seconds=300)
    assert "* (i_3" in small.source and "f32" not in small.source and len(small.source) < len(LONG) // 2
    assert len(small.parameters) < 3
    path = tmp_path / "clean_1.py"
    path.write_text(kept(small, judge(small)))
    assert replayed(path).source == small.source and signature(judge(replayed(path))) == ""
