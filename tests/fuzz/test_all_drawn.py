"""Each public kernel and operator is called by a generator of drawn problems; what is not says why."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytest.importorskip("torch")

import moye.torch as mt
from moye import kernels

TESTS = Path(__file__).parents[1]
GENERATORS = ("drawn_calls", "drawn_operations", "drawn_operators", "drawn_row_plans", "random_attention",
              "random_groups", "random_pages", "random_products", "random_sequences")
REACHED = {
    **dict.fromkeys(("gemm_shallow", "gemm_simt", "gemm_sm80", "gemm_sm90", "gemm_streamed"), "gemm chooses them"),
    **dict.fromkeys(("tuned_gemm_simt", "tuned_gemm_sm90"), "they measure on a GPU, and give a kernel that is drawn"),
    **dict.fromkeys(("TensorConfig", "TileConfig", "WarpgroupConfig"), "they say what a kernel is like"),
    "op": "it makes operators"}


def called(name: str) -> set[str]:
    """The names that a generator reads, of its own or of modules."""
    found = list(ast.walk(ast.parse((TESTS / "cases" / f"{name}.py").read_text())))
    return {node.attr if isinstance(node, ast.Attribute) else node.id for node in found
            if isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load)}


def test_every_kernel_and_operator_is_drawn():
    names = set.union(*map(called, GENERATORS))
    assert sorted({*kernels.__all__} - names - set(REACHED)) == []
    assert sorted({*mt.__all__} - called("drawn_operators") - set(REACHED)) == []


def test_what_is_left_out_is_public():
    assert set(REACHED) <= {*kernels.__all__, *mt.__all__}
