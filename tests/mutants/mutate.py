"""Mutants of a module with kernels: its text with one statement or expression changed.

In: the text of a correct module.  Out: ``Mutant``s, each with the class of what was changed:

- sync: a barrier, wait, commit or fence removed, moved by one statement, or made weaker;
- predicate: a comparison, an ``if`` or a ``pred=`` changed;
- stage: the last index of a view changed;
- layout: a stride, a shape or an order changed in a layout.

Only the functions named are changed, methods included.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

SYNC = {"sync_threads", "sync_warp", "cp_async_wait", "cp_async_commit", "fence", "barrier_sync", "barrier_arrive",
        "wait", "commit"}
EMITTED = {"SyncThreads", "CpAsyncWait", "CpAsyncCommit"}
LAYOUTS = {"make_layout", "smem_layout_atom", "tile_to_shape"}
WEAKER = {"acquire": "relaxed", "release": "relaxed", "acq_rel": "relaxed"}
FLIPPED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
OTHER = {"read": "write", "write": "read"}


@dataclass(frozen=True)
class Mutant:
    """``text`` is the whole module with the change at ``line``; ``what`` says it in a few words."""

    kind: str
    line: int
    what: str
    text: str
    function: str = ""
    start: int = 0

    @property
    def name(self) -> str:
        """The same however far down its file the function lies."""
        return f"{self.kind} {self.function}+{self.line - self.start}: {self.what}"


class _Source:
    """A text whose nodes can be replaced."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        first, last = self.lines[node.lineno - 1].encode(), self.lines[node.end_lineno - 1].encode()
        return (self.starts[node.lineno - 1] + len(first[:node.col_offset].decode()),
                self.starts[node.end_lineno - 1] + len(last[:node.end_col_offset].decode()))

    def of(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def replaced(self, node: ast.AST, new: str) -> str:
        start, end = self.span(node)
        return self.text[:start] + new + self.text[end:]

    def swapped(self, first: ast.stmt, second: ast.stmt) -> str:
        """Two neighbouring statements, each with its own lines, exchanged."""
        a, b, c = first.lineno - 1, second.lineno - 1, second.end_lineno
        return "".join([*self.lines[:a], *self.lines[b:c], *self.lines[a:b], *self.lines[c:]])


def mutants(text: str, functions: tuple[str, ...]) -> list[Mutant]:
    """Every mutant of these functions of a module, in the order of the lines."""
    source, tree = _Source(text), ast.parse(text)
    found = []
    for function in _functions(tree, functions):
        of_function = []
        for node in ast.walk(function):
            for field in ("body", "orelse"):
                of_function += _of_statements(source, getattr(node, field, None))
            of_function += _of_expression(source, node)
        found += [replace(mutant, function=function.name, start=function.lineno) for mutant in of_function]
    found.sort(key=lambda mutant: (mutant.line, mutant.kind))
    unique: dict[str, Mutant] = {}
    for mutant in found:                                # two neighbours exchanged are one mutant
        unique.setdefault(mutant.text, mutant)
    count: Counter[str] = Counter()
    named = []
    for mutant in unique.values():
        count[mutant.name] += 1
        again = f" ({count[mutant.name]})" if count[mutant.name] > 1 else ""
        named.append(replace(mutant, what=mutant.what + again))
    return named


def _functions(tree: ast.Module, names: tuple[str, ...]) -> Iterator[ast.FunctionDef]:
    """Outermost functions and methods of classes, by name."""
    for node in tree.body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        yield from (n for n in inside if isinstance(n, ast.FunctionDef) and n.name in names)


# --- barriers, waits, commits, fences --------------------------------------------------------------------------------

def _sync_of(statement: ast.stmt) -> str | None:
    """What a statement synchronises by, None where it does not."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    call = statement.value
    if not isinstance(call.func, ast.Attribute):
        return None
    if call.func.attr in SYNC:
        return call.func.attr
    if call.func.attr == "emit" and isinstance(call.args[0], ast.Call):     # inside mo.Pipeline
        inner = call.args[0].func
        return inner.attr if isinstance(inner, ast.Attribute) and inner.attr in EMITTED else None
    return None


def _of_statements(source: _Source, statements: object) -> Iterator[Mutant]:
    if not isinstance(statements, list) or not statements or not isinstance(statements[0], ast.stmt):
        return
    for i, statement in enumerate(statements):
        name = _sync_of(statement)
        if name is None:
            continue
        yield Mutant("sync", statement.lineno, f"remove {name}", source.replaced(statement, "pass"))
        if i > 0 and not isinstance(statements[i - 1], ast.Expr | ast.Assign | ast.For | ast.If | ast.AugAssign):
            continue
        if i > 0 and not _is_docstring(statements[i - 1]):
            yield Mutant("sync", statement.lineno, f"{name} one up", source.swapped(statements[i - 1], statement))
        if i + 1 < len(statements):
            yield Mutant("sync", statement.lineno, f"{name} one down", source.swapped(statement, statements[i + 1]))


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _weaker(source: _Source, call: ast.Call, name: str) -> Iterator[Mutant]:
    """Waits that leave one group more in flight, fences and orders that order less, other barriers."""
    if name == "cp_async_wait":
        pending = source.of(call.args[0]) if call.args else None
        for new in ((f"{pending} + 1",) if pending else ("0", "1")):
            text = f"{source.of(call.func)}({new})"
            yield Mutant("sync", call.lineno, f"cp_async_wait({new})", source.replaced(call, text))
    if name == "fence":
        text = f'{source.of(call.func)}("acq_rel", "cta")'
        yield Mutant("sync", call.lineno, "fence of the block", source.replaced(call, text))
    if name in ("barrier_sync", "barrier_arrive") and len(call.args) == 2:
        yield Mutant("sync", call.lineno, f"{name} of another id", source.replaced(call.args[0], "5"))
    for keyword in call.keywords:
        if keyword.arg == "order" and isinstance(keyword.value, ast.Constant) and keyword.value.value in WEAKER:
            new = WEAKER[keyword.value.value]
            yield Mutant("sync", call.lineno, f"{name} {new}", source.replaced(keyword.value, f'"{new}"'))
        if keyword.arg == "pending":                    # inside mo.Pipeline
            text = f"{source.of(keyword.value)} + 1"
            yield Mutant("sync", call.lineno, "wait for one group less", source.replaced(keyword.value, text))


# --- predicates, stages, layouts -------------------------------------------------------------------------------------

def _of_expression(source: _Source, node: ast.AST) -> Iterator[Mutant]:
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        yield from _weaker(source, node, name)
        yield from _predicate_of_call(source, node)
        if name in LAYOUTS:
            yield from _of_layout(source, node)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in FLIPPED:
        new = f"{source.of(node.left)} {FLIPPED[type(node.ops[0])]} {source.of(node.comparators[0])}"
        yield Mutant("predicate", node.lineno, f"{source.of(node)} -> {new}", source.replaced(node, new))
    elif isinstance(node, ast.If):
        yield Mutant("predicate", node.lineno, f"if {source.of(node.test)} always", source.replaced(node.test, "True"))
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) and _is_view(node.slice):
        yield from _of_stage(source, node.slice.elts[-1])


def _predicate_of_call(source: _Source, call: ast.Call) -> Iterator[Mutant]:
    for keyword in call.keywords:
        if keyword.arg == "pred":
            yield Mutant("predicate", call.lineno, "pred=None", source.replaced(keyword.value, "None"))


def _is_view(index: ast.Tuple) -> bool:
    return any(isinstance(e, ast.Slice) for e in index.elts) and not isinstance(index.elts[-1], ast.Slice)


def _of_stage(source: _Source, index: ast.expr) -> Iterator[Mutant]:
    text, new = source.of(index), []
    if isinstance(index, ast.Constant) and isinstance(index.value, int):
        new = [str(index.value + 1)]
    elif isinstance(index, ast.BinOp):
        new = [source.of(index.left)]
    elif isinstance(index, ast.Name):
        stem, _, end = index.id.rpartition("_")
        new = [f"{stem}_{OTHER[end]}"] if stem and end in OTHER else ["0"]
    elif isinstance(index, ast.Attribute) and index.attr in OTHER:
        new = [f"{source.of(index.value)}.{OTHER[index.attr]}", "0"]
    for other in new:
        yield Mutant("stage", index.lineno, f"[{text}] -> [{other}]", source.replaced(index, other))


def _of_layout(source: _Source, call: ast.Call) -> Iterator[Mutant]:
    for argument in call.args:
        if isinstance(argument, ast.Constant) and argument.value in ("k", "m"):
            new = '"m"' if argument.value == "k" else '"k"'
            yield Mutant("layout", call.lineno, f"{source.of(argument)} -> {new}", source.replaced(argument, new))
        if not isinstance(argument, ast.Tuple) or len(argument.elts) < 2:
            continue
        parts = [source.of(element) for element in argument.elts]
        turned = f"({', '.join(reversed(parts))})"
        if parts != parts[::-1]:
            yield Mutant("layout", call.lineno, f"{source.of(argument)} -> {turned}",
                         source.replaced(argument, turned))
        for element in argument.elts:
            if isinstance(element, ast.BinOp) and isinstance(element.op, ast.Add):
                new = source.of(element.left)
                yield Mutant("layout", call.lineno, f"{source.of(element)} -> {new}", source.replaced(element, new))
