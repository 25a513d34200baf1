"""Report -> HTML: what notebooks show of a checked launch, for light and dark; nothing is loaded from elsewhere.

In: a ``Report``.  Out: a ``<div>`` with its style: a line for the launch, then each finding with its source lines, the
part they are about marked, and its hint.

    fragment(report).startswith('<div class="moye-report">')
"""

from __future__ import annotations

from html import escape
from typing import Any, Protocol

from moye.errors import Frame, Loc


class Shown(Protocol):
    """What a Report has to say."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    findings: list[Any]
    lints: list[Any]
    unsupported: list[str]
    checked: tuple[str, ...]
    not_judged: tuple[str, ...]

    @property
    def verdict(self) -> str: ...
    @property
    def extent(self) -> str: ...
    def count(self, finding: Any) -> int: ...


STYLE = """
.moye-report{--ink:#1f2328;--dim:#59636e;--paper:#fff;--line:#d1d9e0;--code:#f6f8fa;--bad:#cf222e;--mark:#ffdce0;
--warn:#9a6700;--good:#1a7f37;color:var(--ink);background:var(--paper);border:1px solid var(--line);border-radius:6px;
padding:10px 14px;font:14px/1.45 system-ui,sans-serif;max-width:110ch}
@media (prefers-color-scheme:dark){.moye-report{--ink:#e6edf3;--dim:#9198a1;--paper:#0d1117;--line:#3d444d;
--code:#151b23;--bad:#ff7b72;--mark:#67262b;--warn:#d29922;--good:#3fb950}}
.moye-report p{margin:4px 0}
.moye-report section{border-top:1px solid var(--line);margin-top:10px;padding-top:8px}
.moye-report b.bad{color:var(--bad)} .moye-report b.warn{color:var(--warn)} .moye-report b.good{color:var(--good)}
.moye-report .dim{color:var(--dim);font-size:12px}
.moye-report pre{background:var(--code);color:var(--ink);margin:2px 0 6px;padding:4px 8px;border-radius:4px;
overflow-x:auto;font:12px/1.5 ui-monospace,monospace;white-space:pre}
.moye-report pre mark{background:var(--mark);color:inherit;text-decoration:underline var(--bad)}
"""


def fragment(report: Shown) -> str:
    """The report as one element."""
    tone = "bad" if report.findings else "warn" if report.unsupported else "good"
    parts = ['<div class="moye-report">', f"<style>{STYLE}</style>",
             f'<p><code>{escape(f"{report.kernel}[{report.grid}, {report.block}]")}</code> '
             f'<b class="{tone}">{escape(report.verdict)}</b>{_dim(report.extent)}</p>']
    parts += [_section(f, "bad", report.count(f)) for f in report.findings]
    parts += [_section(lint, "warn", 1) for lint in report.lints]
    parts += [f'<section><p><b class="warn">unsupported</b> {escape(text)}</p></section>'
              for text in report.unsupported]
    said = [f"checked: {', '.join(report.checked)}"]
    said += [f"not judged: {', '.join(report.not_judged)}"] if report.not_judged else []
    parts.append(f'<section class="dim">{"<br>".join(map(escape, said))}</section>')
    return "\n".join([*parts, "</div>"])


def _dim(text: str) -> str:
    return f' <span class="dim">{escape(text)}</span>' if text else ""


def _section(found: Any, tone: str, count: int) -> str:
    """A finding or a lint."""
    lines = ["<section>", f'<p><b class="{tone}">{escape(found.code)}</b> <b>{escape(found.title)}</b>'
             + _dim(f"and {count - 1} more like it" if count > 1 else "") + "</p>",
             f"<p>{escape(found.message)}</p>"]
    points = dict.fromkeys(loc for loc in getattr(found, "locs", ()) if loc.frames)
    lines += [_point(loc) for loc in points]
    if getattr(found, "hint", None):
        lines.append(f"<p>hint: {escape(found.hint)}</p>")
    lines.append(f'<p class="dim">moye explain {escape(found.code)} tells more</p>')
    return "\n".join([*lines, "</section>"])


def _point(loc: Loc) -> str:
    """A program point: every frame of its call chain, outermost first."""
    return "\n".join(_frame(frame) for frame in loc.frames)


def _frame(frame: Frame) -> str:
    """One source line, with the part that it is about marked."""
    where = f"{frame.file}:{frame.line}" + (f" in {frame.function}" if frame.function else "")
    source = frame.text()
    if not source.strip():
        return f'<p class="dim">{escape(where)}</p>'
    indent = len(source) - len(source.lstrip())
    start = max(frame.column, indent)
    end = frame.end if frame.end > start else len(source)
    marked = f"{escape(source[indent:start])}<mark>{escape(source[start:end])}</mark>{escape(source[end:])}"
    return f'<p class="dim">{escape(where)}</p>\n<pre>{marked}</pre>'
