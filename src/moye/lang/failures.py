"""Errors in the body of a loop that the values of its first turn may have made.

A pass over a body assumes what is known of the carried variables when the loop begins: ``last = -1`` is -1 there.
What is wrong for this value alone, under a condition that no launch meets with it, does not exist.  So a pass that
fails under a traced condition is followed by one that assumes less.

    except as error: first = first or Failure(error, line); ...; raise told(first, error, line)

In: exceptions.  Out: the one that the user sees, where the pass that assumes nothing fails too.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

from moye.errors import Frame, Loc, MoyeError
from moye.ir import fold
from moye.tensor.context import frame_of

NOTHING: fold.Facts = (None, None, 1)
LEVELS = 2
"""How many passes there are that assume less than the ones before: no upper bounds, nothing."""
MOST = 64
"""Such passes in one trace: loops in loops that fail all begin anew."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong in a pass, and at which line of the loop's function."""

    error: BaseException
    line: int


def less(facts: fold.Facts, level: int) -> fold.Facts:
    """What the next pass assumes in place of ``facts``; most variables count upwards."""
    return (facts[0], None, 1) if level == 0 else NOTHING


def failure(error: BaseException, step: TracebackType | None) -> Failure:
    if isinstance(error, MoyeError):
        error.at(where_of(error))
    return Failure(error, 0 if step is None else step.tb_lineno)


def told(first: Failure | None, last: Failure) -> BaseException | None:
    """The error to raise in place of the last one, which comes of knowing too little if the first one is behind it."""
    if first is None or not isinstance(first.error, MoyeError) or last.line > first.line:
        return None
    return first.error.with_traceback(None)


def where_of(error: BaseException) -> Loc:
    """The user's frames of a traceback."""
    frames: list[Frame] = []
    step = error.__traceback__
    while step is not None:
        frame = frame_of(step.tb_frame.f_code, step.tb_lasti)
        if frame is not None:
            frames.append(frame)
        step = step.tb_next
    return Loc(tuple(frames))
