"""What pages of the site ask Python in the browser: a picture, the output of a program, a verdict on a puzzle.

In: the name of a function and its request, as JSON.  Out: JSON.

    answer("draw", '{"x": "(4,8):(8,1)"}')

``draw`` needs the standard library alone.  What the reader types runs in the reader's browser and nowhere else.
"""

from __future__ import annotations

import ast
import contextlib
import io
import itertools
import json
import linecache
import traceback
from typing import Any

import moye as mo

_runs = itertools.count(1)


def answer(name: str, request: str) -> str:
    """Call one of the functions of this module."""
    return json.dumps({"draw": draw, "run": run, "check": check}[name](**json.loads(request)))


def draw(x: str, swizzle: str = "", thr: str = "", val: str = "", bits: str = "",
         banks: bool = False) -> dict[str, Any]:
    """The picture of notation, or of the value of a Python expression; ``error`` where there is none."""
    try:
        drawn = value(x)
        picture = mo.draw(drawn, swizzle=swizzle.strip() or None, thr=thr.strip() or None, val=val.strip() or None,
                          bits=_bits(bits), banks=banks)
        return {"html": picture.html, "svg": picture.svg, "text": picture.text, "facts": facts(drawn, swizzle)}
    except Exception as error:
        return {"error": _told(error)}


def value(text: str) -> Any:
    """What a text means: Python where it names ``mo``, notation elsewhere, None where it is empty."""
    if "mo." not in text:
        return text.strip() or None
    program = ast.parse(text.strip())
    if not program.body or not isinstance(program.body[-1], ast.Expr):
        raise mo.LayoutError("the last line is no expression", hint="end with the object that is to be drawn")
    last = ast.Expression(program.body.pop().value)
    namespace: dict[str, Any] = {"mo": mo}
    exec(compile(program, "playground", "exec"), namespace)
    return eval(compile(last, "playground", "eval"), namespace)


def facts(found: Any, swizzle: str) -> dict[str, str]:
    """What can be said of a layout beside its picture."""
    from moye.layout import ComposedLayout, Layout, analysis
    from moye.pictures.drawing import read, read_swizzle

    found = read(found) if isinstance(found, str) else found
    if isinstance(found, Layout) and swizzle.strip():
        found = read_swizzle(swizzle).after(found)
    if not isinstance(found, (Layout, ComposedLayout)):
        return {} if found is None else {"drawn": str(found)}
    told = {"layout": str(found), "size": str(mo.size(found)), "cosize": str(mo.cosize(found))}
    if isinstance(found, Layout):
        told["coalesced"] = str(mo.coalesce(found))
    distinct = analysis.is_injective(found)
    told["offsets"] = "all distinct" if distinct else str(analysis.find_collision(found))
    return told


def _bits(text: str) -> int | None:
    if not text.strip():
        return None
    if not text.strip().isdigit():
        raise mo.LayoutError(f"{text.strip()!r} is no number of bits")
    return int(text)


def run(text: str) -> dict[str, Any]:
    """Run a program: what it printed, and ``error`` if it failed."""
    name, printed = f"kernel_{next(_runs)}.py", io.StringIO()
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            exec(compile(text, name, "exec"), {"__name__": "__main__", "__file__": name})
        except (Exception, SystemExit) as error:
            return {"output": printed.getvalue(), "error": _told(error, name)}
    return {"output": printed.getvalue()}


def _told(error: BaseException, name: str = "playground") -> str:
    """A sentence of moye's, or the traceback of Python without frames that are not the reader's."""
    if isinstance(error, mo.MoyeError):
        return f"{type(error).__name__}: {error}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)] if frames else []
    return "".join([*lines, *traceback.format_exception_only(error)]).rstrip()


def check(number: int, text: str) -> dict[str, Any]:
    """The verdict on an answer to a puzzle."""
    from moye.puzzles import check as judged
    from moye.testing.verdicts import STATUSES

    try:
        verdict = judged(number, text if text.endswith("\n") else f"{text}\n")
    except Exception as error:
        return {"ok": False, "status": "error", "text": _told(error)}
    told = str(verdict) if verdict.ok else f"{verdict}\n({STATUSES[verdict.status]})"
    return {"ok": verdict.ok, "status": verdict.status, "text": told, "output": verdict.output}
