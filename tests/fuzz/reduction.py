"""Makes a failing program small: statements and expressions go as long as it fails in the same way.

In: a program, and a function that says how a program fails ("" where it does not).  Out: the smallest one found.

>>> reduced(program, lambda p: signature(judge(p)))

A cut that makes the program wrong is no cut: the interpreter then calls it unclear, which is another signature.
"""

from __future__ import annotations

import ast
import copy
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

from fuzz.answers import Verdict
from fuzz.programs import Program

KEPT = {"sync_threads"}     # without them a right program is a wrong one of another kind


def signature(verdict: Verdict) -> str:
    """How a program fails, without its names and numbers."""
    if not verdict.failed:
        return ""
    if verdict.kind in ("values", "cuda"):
        return verdict.kind
    text = re.sub(r"'[^']*'|\b[a-z]*_?\w*\d\w*\b|<[^>]*>|-?\d+", "", verdict.text)
    return f"{verdict.kind} {' '.join(text.split())[:60]}"


def reduced(program: Program, failure: Callable[[Program], str], seconds: float = 60.0) -> Program:
    """Greedy passes until none of them shrinks the program, or time is up."""
    end = time.monotonic() + seconds
    wanted = failure(program)
    tree = ast.parse(program.source)
    again = True
    while again and time.monotonic() < end:
        again = False
        for cuts in (_statements, _expressions):
            skip = 0
            while time.monotonic() < end and (made := next(islice(cuts(tree), skip, None), None)):
                candidate = made()
                small = replace(program, source=_source(candidate))
                if len(small.source) < len(_source(tree)) and failure(small) == wanted:
                    tree, again = candidate, True
                else:
                    skip += 1
    return _without_parameters(replace(program, source=_source(tree)))


def _source(tree: ast.Module) -> str:
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _waits(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr in KEPT for n in ast.walk(node))


def _bodies(tree: ast.Module) -> list[tuple[ast.AST, str]]:
    return [(node, name) for node in ast.walk(tree) for name in ("body", "orelse")
            if isinstance(getattr(node, name, None), list) and getattr(node, name)]


def _statements(tree: ast.Module) -> Iterator[Callable[[], ast.Module]]:
    """One statement less, the last first; or a compound statement's body in its place."""
    for place, (node, name) in reversed(list(enumerate(_bodies(tree)))):
        for at in reversed(range(len(getattr(node, name)))):
            statement = getattr(node, name)[at]
            if isinstance(statement, (ast.Import, ast.Pass)) or (isinstance(statement, ast.FunctionDef)
                                                                 and statement.name.startswith("fuzz_")):
                continue
            if not _waits(statement) or isinstance(statement, (ast.If, ast.For, ast.While)):
                yield partial(_cut, tree, place, at, [])
            for inner in ("body", "orelse"):
                found = getattr(statement, inner, None)
                if found and not isinstance(statement, ast.FunctionDef):
                    yield partial(_cut, tree, place, at, found)


def _cut(tree: ast.Module, place: int, at: int, instead: list[ast.stmt]) -> ast.Module:
    new = copy.deepcopy(tree)
    node, name = _bodies(new)[place]
    body = getattr(node, name)
    body[at:at + 1] = copy.deepcopy(instead)
    if not body and name == "body":
        body.append(ast.Pass())
    return new


def _parts(node: ast.expr) -> list[ast.expr]:
    """What may stand in place of an expression."""
    one = ast.Constant(1)
    if isinstance(node, ast.BinOp):
        return [node.left, node.right, one]
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.BoolOp):
        return list(node.values)
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.Call):
        inner = [node.func.value] if isinstance(node.func, ast.Attribute) and not isinstance(node.func.value,
                                                                                          ast.Name) else []
        return [*node.args, *inner]
    return []


def _expressions(tree: ast.Module) -> Iterator[Callable[[], ast.Module]]:
    for place, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.expr) and not _waits(node):
            for choice in range(len(_parts(node))):
                yield partial(_simpler, tree, place, choice)


def _simpler(tree: ast.Module, place: int, choice: int) -> ast.Module:
    new = copy.deepcopy(tree)
    old = list(ast.walk(new))[place]
    assert isinstance(old, ast.expr), "the walk finds what it found in the tree that was copied"
    return _Replacing(old, _parts(old)[choice]).visit(new)  # type: ignore[no-any-return]


class _Replacing(ast.NodeTransformer):
    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def _without_parameters(program: Program) -> Program:
    """Only the parameters that are read."""
    tree = ast.parse(program.source)
    kernel = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == program.name)
    used = {n.id for n in ast.walk(kernel) if isinstance(n, ast.Name)}
    kernel.args.args = [a for a in kernel.args.args if a.arg in used]
    return replace(program, source=_source(tree))
