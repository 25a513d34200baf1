"""What a kernel's source cannot contain, whatever its values are: the first such statement raises.

In: a function's source.  Out: a TraceError that points at the statement, or nothing.

    Refusals(source, "kernel").check(source.node)

Values decide the rest, while tracing.
"""

from __future__ import annotations

import ast

from moye.errors import TraceError
from moye.lang.source import Source


class Refusals(ast.NodeVisitor):
    """Raises for the first statement or expression that cannot be traced."""

    def __init__(self, source: Source, function: str) -> None:
        self._source, self._function = source, function

    def check(self, node: ast.FunctionDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def _refuse(self, node: ast.AST, feature: str, hint: str) -> None:
        raise TraceError(f"a kernel cannot use {feature}", hint=hint, locs=[self._source.loc(node, self._function)])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        self.visit(node.args)
        Refusals(self._source, node.name).check(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """A class is plain Python, but for names that it would rebind behind the analysis's back."""
        for child in ast.walk(node):
            if isinstance(child, ast.Global | ast.Nonlocal):
                self.visit(child)

    def visit_Try(self, node: ast.Try) -> None:
        self._refuse(node, "try", "there are no exceptions on a device; test the condition with an if")

    def visit_TryStar(self, node: ast.TryStar) -> None:
        self._refuse(node, "except*", "there are no exceptions on a device; test the condition with an if")

    def visit_Yield(self, node: ast.AST) -> None:
        self._refuse(node, "yield", "return a tuple, or write a loop")

    visit_YieldFrom = visit_Yield

    def visit_Await(self, node: ast.AST) -> None:
        self._refuse(node, "async or await", "asynchronous copies are waited for with cp_async_wait() and its like")

    visit_AsyncFor = visit_AsyncWith = visit_AsyncFunctionDef = visit_Await

    def visit_comprehension(self, node: ast.comprehension) -> None:
        if node.is_async:
            self.visit_Await(node.iter)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        self._refuse(node, "global", "pass the value as a parameter and return the new one")

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self._refuse(node, "nonlocal", "return the new value and assign it where the name lives")

    def visit_For(self, node: ast.For) -> None:
        if node.orelse:
            self._refuse(node, "for ... else", "set a flag before break and test it after the loop")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        if node.orelse:
            self._refuse(node, "while ... else", "set a flag before break and test it after the loop")
        self.generic_visit(node)
