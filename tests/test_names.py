"""docs/names.md: every name of moye in it exists, and takes the arguments that the page gives it."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import moye as mo
from moye.tensor.tiled import ThrCopy, ThrMMA

PAGE = Path(__file__).parents[1] / "docs" / "names.md"
OBJECTS = {"mo": mo, "t": mo.Tensor, "tiled_copy": mo.TiledCopy, "thr_copy": ThrCopy, "tiled_mma": mo.TiledMMA,
           "thr_mma": ThrMMA, "pipe": mo.Pipeline, "ring": mo.PipelineTma}
"""What the names of the page stand for; a method is looked for in the class."""
SPAN = re.compile(r"`([^`]+)`")


def rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """The tables: line number and cells."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("| ") and not line.startswith("| there"):
            yield number, [cell.strip() for cell in line.strip("|").split(" |")]


def wrong(span: str) -> str | None:
    """Why a piece of code cannot be written so, or None."""
    for node in ast.walk(ast.parse(span)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            if (found := _found(node)) is not None and found is _NOWHERE:
                return f"there is no {ast.unparse(node)}"
        elif isinstance(node, ast.Call) and (why := _misfit(node)):
            return why
    return None


_NOWHERE, _METHOD = object(), object()


def _found(node: ast.expr) -> Any:
    """What a dotted name is; None for what belongs to no object of the page."""
    if isinstance(node, ast.Name):
        return OBJECTS.get(node.id, getattr(builtins, node.id, None))
    if not isinstance(node, ast.Attribute) or (owner := _found(node.value)) is None or owner is _NOWHERE:
        return None
    return getattr(owner, node.attr, _NOWHERE)


def _misfit(node: ast.Call) -> str | None:
    """Why a function does not take these arguments."""
    function = _found(node.func)
    if function is None and isinstance(node.func, ast.Name):
        return f"there is no {node.func.id}"
    if not callable(function) or getattr(function, "__module__", "").split(".")[0] != "moye":
        return None
    method = isinstance(node.func, ast.Attribute) and _found(node.func.value) is not mo
    try:
        inspect.signature(function).bind(*[None] * (method + len(node.args)), **{k.arg: 1 for k in node.keywords})
    except TypeError as error:
        return f"{ast.unparse(node)}: {error}"
    return None


@pytest.mark.parametrize(("line", "cells"), [pytest.param(*row, id=f"line {row[0]}")
                                             for row in rows(PAGE.read_text())])
def test_names_of_moye_exist(line, cells):
    assert len(cells) >= 2, "two names and a remark"
    assert SPAN.findall(cells[0]), "what it is called elsewhere"
    for cell in cells[1:]:
        for span in SPAN.findall(cell):
            if "mo." in span or span.split(".")[0] in OBJECTS or cell is cells[1]:
                assert (why := wrong(span)) is None, why


@pytest.mark.parametrize("span", ["mo.no_such_thing", "mo.mma.SM80_1x1x1", "t.zeros()", "mo.copyto(t, to=1)",
                                  "thr_copy.partition_A(t)", "mo.cp_async_wait(1, 2)", "local_tile(t)",
                                  "mo.CpAsync(mo.float65)", "mo.thread_idx(3)"])
def test_a_wrong_name_is_found(span):
    assert wrong(span)


def test_the_names_that_users_of_both_look_for_are_there():
    """Those of CuTe's examples, and of the kernels of MoYe's manual."""
    theirs = " ".join(cells[0] for _, cells in rows(PAGE.read_text()))
    for name in ("Copy_Atom", "TiledMMA", "TiledCopy", "make_tma_copy", "local_tile", "local_partition", "elem_less",
                 "ArithTuple", "cp_async_fence", "cp_async_wait", "warpgroup_wait", "partition_fragment_C", "copy_if",
                 "make_gmem_ptr", "make_smem_ptr", "make_fragment_like", "MoYeArray", "MoYeSharedArray", "zeros!",
                 "@tile", "@parallelize", "copyto!", "gemm!", "CPOP_ASYNC_CACHEALWAYS", "CPOP_ASYNC_CACHEGLOBAL",
                 "LDSM_U32x4_N", "MMAOP_16x8x8_F32TF32TF32F32_TN", "sync_threads"):
        assert name in theirs, name
