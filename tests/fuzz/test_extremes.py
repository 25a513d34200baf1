"""Operations on extreme numbers, threads together and Python's control flow, a few seconds of each: all answers agree.

By hand, more: ``python tests/fuzz/extremes.py SEED COUNT``, and so ``lanes.py``, ``pythonic.py``, ``kept.py``,
``approximate.py``, ``whole.py``, ``read_again.py``, ``classes.py``, ``effects.py``, ``words.py``.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from emulator import build
from fuzz import (
    aliases,
    approximate,
    classes,
    effects,
    extremes,
    kept,
    lanes,
    pythonic,
    read_again,
    unset,
    whole,
    whole_model,
    words,
)

needs_emulator = pytest.mark.skipif(build.compiler() is None, reason="the emulator needs g++ on x86-64")
FIRST, COUNT = 0, 8


@pytest.mark.slow
@needs_emulator
@pytest.mark.parametrize("of", [extremes, lanes, pythonic, kept, whole, classes, effects, words],
                         ids=lambda of: of.__name__.rpartition(".")[2])
def test_all_answers_agree(of):
    assert not of.judged([of.draw(seed) for seed in range(FIRST, FIRST + COUNT)])


@pytest.mark.slow
@needs_emulator
def test_functions_agree_about_what_is_no_number():
    assert not approximate.judged(0)


def test_variables_without_a_value():
    """They are refused, or not used: some of both are drawn, and some whose value Python has."""
    found = [unset.verdict(unset.draw(seed)) for seed in range(40)]
    assert not [told for _, told in found if told]
    assert {kind for kind, _ in found} == {"same", "refused", "unset"}


def test_objects_that_several_names_mean():
    found = [aliases.verdict(aliases.draw(seed)) for seed in range(60)]
    assert not [told for _, told in found if told]
    assert {kind for kind, _ in found} == {"same", "refused"}


def test_what_a_kernel_reads_is_read_again():
    programs = [read_again.draw(seed) for seed in range(40)]
    assert not read_again.judged(programs)
    assert sum(len(one.changes) for one in programs) > 40


def test_old_code_would_be_seen(monkeypatch):
    """A launch that looks at nothing runs it."""
    monkeypatch.setattr("moye.runtime.compile.Specialised.stale", lambda self: False)
    found = read_again.judged([read_again.draw(seed) for seed in range(8)])
    assert len(found) > 4 and "and not" in found[0]


def test_whole_kernels_have_all_parts():
    text = " ".join(whole.draw(seed).source for seed in range(80))
    for part in (r"partition_D\(", r"mo\.parallelize\(", r"mo\.tile\(", r"flat_divide\(", r"zipped_divide\(",
                 r"swizzled\(mo", r"composition\(", r"with_layout\(", r"recast\(", r"block_reduce\(",
                 r"warp_scan\(", r"ballot\(", r"first_above\(",
                 r"Window\(", r"row\d+, row\d+ = row", r"\.reduce\('", r"g0: mo\.Static"):
        assert re.search(part, text), part


def test_the_model_of_whole_kernels():
    """A kernel that every part of the model has a say in, and that NumPy computes in two lines."""
    source = """import moye as mo


@mo.kernel
def k(out, x):
    tid = mo.thread_idx().x
    s = mo.shared_array(mo.int32, mo.make_layout((8, 8), (8, 1)))
    mo.copyto(mo.parallelize(s, mo.make_layout((8, 8)), tid), mo.parallelize(x, mo.make_layout((8, 8)), tid))
    mo.sync_threads()
    t = mo.tile(s, (2, 4), (tid // 16, None))
    out[tid] = t[tid % 2, 1, 1] + mo.warp_reduce(s[tid % 8, :][tid // 8], "add")
"""
    x, out = np.arange(64, dtype=np.int32).reshape(8, 8) ** 2, np.zeros(64, np.int32)
    whole_model.run(source, "k", [out, x], 64)
    tid = np.arange(64)
    sums = x.T.reshape(-1)[:32].sum(), x.T.reshape(-1)[32:].sum()
    assert (out == x[2 * (tid // 16) + tid % 2, 5] + np.repeat(sums, 32)).all()


def test_a_difference_of_kept_numbers_is_seen():
    one = kept.draw(1)
    wanted = kept.by_python(one)
    assert not pythonic.differ(one, [wanted], [wanted], wanted)
    assert "in the emulator" in pythonic.differ(one, [wanted], [wanted + 1], wanted)[0]


def test_parts_of_kept_numbers_are_written_in_every_way():
    text = " ".join(kept.draw(seed).source for seed in range(60))
    for way in (r"\] \+= ", r"\[\.\.\.\] = ", r"\d\[\d*:\d*\] = ", r"\d\[:, \d\]", r"::2", r"\.fill\(", r"mo\.copyto\(",
                r"for q\d+ in \[", r"mo\.where\(m", r"folded\(", r"\], r\d+\[[\d, ]+\] = ", r"def f\d+\(p"):
        assert re.search(way, text), way


def test_every_operation_is_drawn():
    texts = " ".join(extremes.draw(seed).source for seed in range(100))
    named = set(re.findall(r"mo\.(\w+)\(", texts))
    assert named >= {"copysign", "fmod", "remainder", "nextafter", "fma", "ldexp", "mul_hi", "where", "prmt", "lop3",
                     "relu", "funnel_shift_left", "popcount", "clz", "ffs", "brev", "rcp", "sqrt", "isnan", "isinf"}
    assert all(f".{word}(" in texts for word in ("to", "bitcast"))
    assert all(f" {sign} " in texts for sign in ("+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "**", "=="))


def test_every_exchange_is_drawn():
    texts = " ".join(lanes.draw(seed).source for seed in range(60))
    named = set(re.findall(r"(?:mo|r\d)\.(\w+)\(", texts))
    atomics = {f"atomic_{kind}" for kind in ("add", "min", "max", "and", "or", "xor", "exch", "cas")}
    assert named >= {"warp_reduce", "warp_scan", "block_reduce", "block_scan", "match_any", "match_all", "ballot",
                     "vote_any", "vote_all", "shuffle_idx", "shuffle_up", "shuffle_down", "shuffle_xor", "reduce",
                     "argmax", "argmin"} | atomics


def test_parts_of_classes_effects_and_words_are_drawn():
    drawn = {of: " ".join(of.draw(seed).source for seed in range(60)) for of in (classes, effects, words)}
    parts = {classes: (r"\.clipped\(", r"Steep\(", r"\.mean = ", r"with s\d+ as", r"with lent\(", r"v\d+ \+= ",
                       r"weight\(", r"larger\(", r"sum\(\[", r"setattr\("),
             effects: (r"any\(", r"all\(", r"kept\.hit\(", r"mark\(", r"atomic_add\(", r"marks\[1\] = memory",
                       r"tick\(\d, times=tick"),
             words: (r" <<= ", r" >>= ", r"memory\[\d, tid\] \*= ", r"r\d+\[\d\]", r"while w", r"mix\d\(",
                     r"mo\.mul_hi\(", r"&= w\d+ - 1", r"\| x\d >> ")}
    for of, expected in parts.items():
        assert [part for part in expected if not re.search(part, drawn[of])] == []


def test_what_happens_once_too_often_is_seen():
    """A program whose memory is another one than Python's."""
    one = effects.draw(1)
    results, memory = effects.by_python(one)
    assert not effects.differ(one, [results, memory], [results, memory])
    assert "memory" in effects.differ(one, [results, memory + 1], [results, memory])[0]


@needs_emulator
def test_a_difference_is_seen():
    """One bit of one result."""
    one = lanes.draw(3)
    name = next(iter(one.results))
    one.results[name] = one.results[name].copy()
    one.results[name].view(np.uint8)[-1] ^= 1
    assert any(name in told for told in lanes.judged([one]))
