"""Kernels and compiled kernels -> HTML, for notebooks: what they are in a line, and their source below it, folded.

In: a ``Kernel`` or a ``Program``.  Out: a ``<div>`` with its style, for light and dark; nothing is loaded.

    kernel_html(copy).startswith('<div class="moye-code">')
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from contextlib import suppress
from html import escape
from typing import Any, Protocol

from moye.errors import MoyeError

STYLE = """
.moye-code{--ink:#1f2328;--dim:#59636e;--paper:#fff;--line:#d1d9e0;--code:#f6f8fa;color:var(--ink);
background:var(--paper);border:1px solid var(--line);border-radius:6px;padding:8px 14px;
font:14px/1.45 system-ui,sans-serif;max-width:110ch}
@media (prefers-color-scheme:dark){.moye-code{--ink:#e6edf3;--dim:#9198a1;--paper:#0d1117;--line:#3d444d;
--code:#151b23}}
.moye-code p{margin:2px 0} .moye-code .dim,.moye-code summary{color:var(--dim);font-size:12px}
.moye-code pre{background:var(--code);color:var(--ink);margin:4px 0 0;padding:6px 10px;border-radius:4px;
overflow-x:auto;font:12px/1.5 ui-monospace,monospace;white-space:pre}
"""


class Compiled(Protocol):
    """What a compiled kernel has to say."""

    arch: str

    @property
    def source(self) -> str: ...
    @property
    def cubin(self) -> bytes: ...
    @property
    def smem(self) -> int: ...
    @property
    def registers(self) -> int: ...
    @property
    def spills(self) -> int: ...


def kernel_html(function: Callable[..., Any], signature: object, specialisations: int) -> str:
    """A kernel: its name and parameters, where it is, how often it was traced, and its Python source."""
    code = function.__code__
    facts = [f"{code.co_filename}:{code.co_firstlineno}",
             f"{specialisations} specialisation{'' if specialisations == 1 else 's'}"]
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):                        # exec'd, or the file is gone
        source = ""
    return _page(f"mo.kernel {function.__qualname__}{signature}", facts, [("source", source)])


def program_html(name: str, program: Compiled) -> str:
    """A compiled kernel: architecture, registers, spills and shared memory, and the printed CUDA."""
    facts = [program.arch, f"{len(program.cubin)} bytes of code"]
    with suppress(MoyeError):                           # where ptxas would have to be asked again, and cannot be
        facts += [f"{program.registers} registers", f"{program.spills} bytes spilled"]
    return _page(name, [*facts, f"{program.smem} bytes of shared memory"], [("CUDA C++", program.source)])


def _page(title: str, facts: Iterable[str], parts: Iterable[tuple[str, str]]) -> str:
    lines = ['<div class="moye-code">', f"<style>{STYLE}</style>", f"<p><code>{escape(title)}</code></p>",
             f'<p class="dim">{escape(", ".join(facts))}</p>']
    lines += [f"<details><summary>{escape(name)}</summary><pre>{escape(text)}</pre></details>"
              for name, text in parts if text]
    return "\n".join([*lines, "</div>"])
