"""No verb without a law, no law without a test: the public names of moye.layout against their docstrings and tests."""

from __future__ import annotations

import re
from pathlib import Path
from types import FunctionType

import moye.layout as ml

TESTS = "\n".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
# What questions about layouts answer is described in moye.layout.analysis, and has its own tests.
OTHER = re.compile(r"moye\.layout\.(?!algebra|arithmetic|basis|coords|divide|generators|ints|inverse|layout|modes"
                   r"|product|recast|swizzle|tuples)")


def verbs() -> dict[str, FunctionType]:
    found = {name: getattr(ml, name) for name in ml.__all__}
    return {name: x for name, x in found.items() if isinstance(x, FunctionType) and not OTHER.match(x.__module__)}


def test_every_verb_states_its_law() -> None:
    mute = [name for name, verb in verbs().items() if "\n    Law: " not in (verb.__doc__ or "")]
    assert not mute, f"no line 'Law:' in the docstrings of {mute}"
    assert len(verbs()) > 90


def test_every_verb_names_its_source() -> None:
    own = {"divides", "known_less", "parse", "same", "swizzle"}
    mute = [name for name, verb in verbs().items() if not re.search(r"\((py)?cute/", verb.__doc__ or "")
            and not re.search(r"cute/\w+(/\w+)?\.hpp", verb.__doc__ or "")]
    assert set(mute) == own


def test_every_verb_has_a_test_of_its_name() -> None:
    untested = [name for name in verbs() if f"\ndef test_{name}(" not in TESTS]
    assert not untested, f"no test in tests/layout for {untested}"


def test_every_verb_is_public() -> None:
    """A function with a law is exported."""
    modules = Path(ml.__file__).parent.glob("*.py")
    law = re.compile(r"\ndef (\w+)\((?:(?!\ndef ).)*?\n    Law: ", re.DOTALL)
    lawful = [name for path in modules for name in law.findall(path.read_text())]
    assert set(lawful) <= {*ml.__all__, *ml.analysis.__all__}
