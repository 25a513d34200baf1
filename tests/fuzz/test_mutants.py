"""Faults put into moye: the list follows the source, and a few of them are judged, each by another fuzzer.

All of them: ``python tests/fuzz/mutants.py``.
"""

from __future__ import annotations

import pickle

import pytest

from fuzz import fuzzers
from fuzz.mutant_list import EQUAL, MUTANTS
from fuzz.mutants import SRC, verdict_of

SAMPLE = {  # file, a part of the text: the fuzzer that must notice
    ("ir/fold.py", "return 0, a.dtype.bits, 1"): "facts",
    ("cuda/printing/expressions.py", "_int_literal(power if division"): "integers",
    ("cuda/printing/values.py", "self._known.pop(value.id, None)"): "tiles",
    ("cuda/printing/statements.py", "deps=frozenset((op.var.id,))"): "programs",
    ("sim/values/masks.py", "np.copyto(result, old"): "simulated",
    ("sim/operations/bounds.py", "return both(mask, np.asarray(pred))"): "edges",
    ("tensor/expr.py", "if dtype.kind is Kind.BOOL"): "operators",
    ("layout/layout.py", "offset = add(offset, step)"): "layouts",
}


@pytest.mark.slow
def test_every_mutants_text_is_still_there():
    """Each text occurs once, and its change is another program."""
    assert len(MUTANTS) >= 60 and len(set(MUTANTS)) == len(MUTANTS)
    texts = {file: (SRC / "moye" / file).read_text() for file, _, _ in MUTANTS}
    assert not [(file, old) for file, old, _ in MUTANTS if texts[file].count(old) != 1]
    assert all(old != new for _, old, new in MUTANTS)
    for file, found in EQUAL.items():
        assert all((SRC / "moye" / file).read_text().count(old) == 1 for old, _, _ in found)
    for file, old, new in MUTANTS:
        compile(texts[file].replace(old, new), file, "exec")


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mutants")
    path = folder / "corpus.pickle"
    path.write_bytes(pickle.dumps(fuzzers.learn(4, folder, texts=20, tiles=8)))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(("place", "fuzzer"), SAMPLE.items(), ids=SAMPLE.values())
def test_a_fault_is_noticed(known, place, fuzzer):
    [mutant] = [m for m in MUTANTS if m[0] == place[0] and place[1] in m[1]]
    how, _ = verdict_of(mutant, known, 10.0)
    assert how.startswith(fuzzer + " "), how


@pytest.mark.slow
def test_moye_as_it_is_has_no_fault(known):
    names = ("programs", "tiles", "printed", "kernels", "simulated", "edges", "operators")
    how, _ = verdict_of(("", "", ""), known, 1.0, names)
    assert not how
