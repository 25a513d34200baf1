"""Judge layouts and numbers by what is true of them: ``judge_values``.

In: source text that defines names, and for each name a function that says what is not so.  Out: a ``Verdict``.

    judge_values(source, [Asked("swizzle", lambda s: None if s.bits == 3 else "it moves 3 bits")])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moye.errors import ArgumentError, MoyeError
from moye.layout import ComposedLayout, Layout, Swizzle
from moye.testing.cases import Limits
from moye.testing.holes import holes
from moye.testing.judging import Asks, Failed, Judge, _text
from moye.testing.verdicts import Result, Verdict


@dataclass(frozen=True, slots=True)
class Asked:
    """A name that the source defines, and what must be true of its value.

    ``check`` gets a number, a string, a tuple, a Layout, a ComposedLayout or a Swizzle, or of a tiled copy or MMA
    ``(layout of threads and values, tile)``.  It returns a sentence that says what is not so, or None.
    """

    name: str
    check: Callable[[Any], str | None]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not callable(self.check):
            raise ArgumentError(f"Asked takes a name and a function, not {self.name!r} and {self.check!r}")


def judge_values(source: str | Path, asked: Sequence[Asked], *, limits: Limits | None = None,
                 judge: Judge | None = None) -> Verdict:
    """Judge the values that a source gives to names; the checks run here, the source in a process of its own."""
    text = _text(source)
    if not isinstance(asked, (list, tuple)) or not asked or not all(isinstance(one, Asked) for one in asked):
        raise ArgumentError(f"judge_values: asked is {asked!r}, and must be a list of mo.testing.Asked")
    if (empty := holes(text)):
        return Verdict("holes", f"line {', '.join(map(str, empty))}: fill in the hole")
    if judge is not None:
        return judge.run(text, limits or Limits(), lambda talk: _results(talk, asked))
    with Judge() as one:
        return one.run(text, limits or Limits(), lambda talk: _results(talk, asked))


def _results(talk: Asks, asked: Sequence[Asked]) -> list[Result]:
    found = []
    for one in asked:
        try:
            told, _ = talk.ask({"values": [one.name]})
            said = one.check(value(told["done"]["values"][one.name]))
        except Failed as failed:
            found.append(Result(one.name, failed.status, failed.message))
            continue
        except (TypeError, ValueError, AttributeError, IndexError, KeyError, MoyeError) as error:
            said = f"it is not of the kind that is asked for: {error}"
        found.append(Result(one.name, "passed" if said is None else "wrong", said or ""))
    return found


def value(told: Any) -> Any:
    """The value that plain data stand for."""
    if isinstance(told, list):
        return tuple(value(item) for item in told)
    if not isinstance(told, dict):
        return told
    if "tv" in told:
        return Layout.parse(told["tv"]), value(told["tile"])
    return layout_of(told["layout"])


def layout_of(text: str) -> Layout | ComposedLayout | Swizzle:
    """The layout, the swizzle, or the layout behind a swizzle that a text says."""
    if not text.startswith("Sw<"):
        return Layout.parse(text)
    return ComposedLayout.parse(text) if " o " in text else Swizzle.parse(text)
