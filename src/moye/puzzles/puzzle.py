"""``Puzzle``: how an answer is judged, what helps, and a picture.

In: the lower part of a file of the book.  Out: a record.

    puzzle = Puzzle(reference=lambda x: 2 * x, make=make, sizes=((1000,), (1,)), goals=Goals(sectors=1.0), hints=(...))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from moye.testing.cases import Case, Goals, Make, cases
from moye.testing.judging import Judge
from moye.testing.properties import Asked, judge_values
from moye.testing.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class Puzzle:
    """How the answer to one puzzle is judged.

    ``asked``: names that the answer defines, and what must be true of them.  Otherwise ``reference``, ``make`` and
    ``sizes`` make cases for the function ``solve`` (``mo.testing.cases``; ``variants`` goes there), the first of which
    has the ``goals``.  ``given`` is the verdict of the file as it is handed out.  ``picture`` draws what helps to see.
    """

    hints: Sequence[str]
    asked: Sequence[Asked] = ()
    reference: Callable[..., Any] | None = None
    make: Make | None = None
    sizes: Sequence[Sequence[int]] = ()
    goals: Goals | None = None
    variants: dict[str, Any] = field(default_factory=dict)
    given: str = "holes"
    picture: Callable[[], Any] | None = None

    def cases(self) -> list[Case]:
        """The cases of a puzzle with a kernel."""
        assert self.make is not None, "a puzzle has cases or names that are asked for"
        return cases(self.make, self.sizes, goals=self.goals, **self.variants)

    def judge(self, text: str, judge: Judge) -> Verdict:
        """The verdict on an answer."""
        if self.asked:
            return judge_values(text, list(self.asked), judge=judge)
        assert self.reference is not None, "a puzzle with cases has a reference"
        return judge(text, self.reference, self.cases(), stop=True)
