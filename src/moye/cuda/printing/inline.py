"""Snippets of PTX and CUDA C++ as device functions, and their calls.

In: an op with a snippet.  Out: a function that holds its text, once for all calls; a call.

    const unsigned y = ptx_prmt(a, b, 21520u);

The text has been read by the front end (``lang/inline.py``), so that nothing in it ends the function or the string.
"""

from __future__ import annotations

import re

from moye.cuda.printing.context import Kernel
from moye.cuda.printing.dispatch import prints
from moye.cuda.printing.escapes import string
from moye.cuda.printing.expressions import Text, call
from moye.cuda.printing.intrinsics import Intrinsics, constraint
from moye.dtypes import DType
from moye.ir import ops
from moye.ir.inline import Snippet
from moye.ir.nodes import Operand, Value


@prints(ops.Inline)
def _inline(kernel: Kernel, op: ops.Inline) -> None:
    text = _call(kernel, op.snippet, op.arguments, volatile=False)
    if len(op.snippet.gives) == 1:
        kernel.values.define(op, text)
    else:
        _several(kernel, op.result, op.snippet, text)


@prints(ops.InlineEffect)
def _effect(kernel: Kernel, op: ops.InlineEffect) -> None:
    text = _call(kernel, op.snippet, op.arguments, volatile=True)
    kernel.values.before(op)
    if op.result is None or not kernel.uses.count.get(op.result.id):
        kernel.writer.line(f"{text.text};")
    elif len(op.snippet.gives) == 1:
        kernel.values.name(op.result, text.text)
    else:
        _several(kernel, op.result, op.snippet, text)


@prints(ops.InlinePart)
def _part(kernel: Kernel, op: ops.InlinePart) -> None:
    """A member of the struct that ``_several`` has named."""
    first = kernel.values.operand(op.first).text
    kernel.values.define(op, Text(f"{first.removesuffix('.y0')}.y{op.index}"), alias=True)


def _several(kernel: Kernel, result: Value, snippet: Snippet, text: Text) -> None:
    """A snippet of several results, called once: they are members of a struct."""
    name = kernel.names.fresh(result.name or "results")
    kernel.writer.line(f"const auto {name} = {text.text};")
    kernel.values.bind(result, f"{name}.y0")


def _call(kernel: Kernel, snippet: Snippet, arguments: tuple[Operand, ...], *, volatile: bool) -> Text:
    name = _function(kernel.helpers, snippet, volatile)
    return call(name, *(kernel.values.operand(argument) for argument in arguments))


# --- the function ----------------------------------------------------------------------------------------------------


def _function(helpers: Intrinsics, snippet: Snippet, volatile: bool) -> str:
    """The device function of a snippet; snippets with one text and one type share it."""
    takes = [helpers.ctype(dtype) for dtype in snippet.takes]
    gives = [helpers.ctype(dtype) for dtype in snippet.gives]
    body = _ptx(snippet, volatile) if snippet.language == "ptx" else snippet.text.split("\n")
    result = "void" if not gives else gives[0]
    if len(gives) > 1:
        members = " ".join(f"{ctype} y{i};" for i, ctype in enumerate(gives))
        result = "results_" + "_".join(re.sub(r"\W", "_", ctype) for ctype in gives)
        helpers.declare(result, f"struct {result} {{ {members} }};")
    finish = {0: "", 1: "return y0;"}.get(len(gives), f"return {{{', '.join(f'y{i}' for i in range(len(gives)))}}};")
    parameters = ", ".join(f"{ctype} x{i}" for i, ctype in enumerate(takes))
    declared = "".join(f"{ctype} y{i}; " for i, ctype in enumerate(gives))
    lines = [line for line in (declared.rstrip(), *body, finish) if line]
    if snippet.language == "cuda" and (len(body) > 1 or "//" in snippet.text):
        lines = ["\n    ".join(lines)]                  # on one line a comment would hide what follows it
    return helpers.apart(f"{snippet.language}_{snippet.name}", f"{result} ({parameters})", *lines, arch=snippet.arch)


def _place(dtype: DType, name: str) -> str:
    """The constraint and the register of an element."""
    return f'{constraint(dtype)}"({name}{".bits" if dtype.is_float and dtype.bits == 16 else ""})'


def _ptx(snippet: Snippet, volatile: bool) -> list[str]:
    outs = ", ".join(f'"={_place(dtype, f"y{i}")}' for i, dtype in enumerate(snippet.gives))
    ins = ", ".join(f'"{_place(dtype, f"x{i}")}' for i, dtype in enumerate(snippet.takes))
    clobber = ' : "memory"' if snippet.memory else ""
    head = "asm volatile" if volatile else "asm"
    return [f'{head}("{string(snippet.text)}" : {outs} : {ins}{clobber});'.replace("  ", " ")]
