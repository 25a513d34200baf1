"""A ``def`` -> for each of its loops and ifs, the names that control flow has to carry.

In: the AST of one function.  Out: ``Liveness(node).carried``: statement -> sorted names.  A loop carries a name that
its body assigns and that is read before it is written in the body, or live after the loop; an if carries a name that
a branch assigns and that is live after the if or on entry to its else; ``dead``: those live in the latter alone.

    Liveness(node).carried[loop]      # ('smem_read', 'smem_write')

Purely syntactic; where it must guess (closures) it carries more.  It does not change the tree.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

Names = frozenset[str]
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
NONE: Names = frozenset()


# --- names of a piece of code ----------------------------------------------------------------------------------------

class _Stores(ast.NodeVisitor):
    """Names that code binds or deletes in its own scope."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.names.add(node.id)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.names.add(node.name)
        for part in _evaluated_at_def(node):
            self.visit(part)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for part in _evaluated_at_def(node):
            self.visit(part)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.names.add(node.name)

    def _comprehension(self, node: ast.AST) -> None:
        self.names.update(walrus.target.id for walrus in ast.walk(node)
                          if isinstance(walrus, ast.NamedExpr) and isinstance(walrus.target, ast.Name))

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_alias(self, node: ast.alias) -> None:
        self.names.add(node.asname or node.name.split(".")[0])

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self.names.update(filter(None, [node.name]))
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self.names.update(filter(None, [node.name]))

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.names.update(filter(None, [node.rest]))
        self.generic_visit(node)


def assigned(nodes: Iterable[ast.AST]) -> Names:
    """Names that the nodes bind (or delete) in the scope they stand in."""
    stores = _Stores()
    for node in nodes:
        stores.visit(node)
    return frozenset(stores.names)


class _Effects(ast.NodeVisitor):
    """In evaluation order: names read before they are written, and names certainly written."""

    def __init__(self) -> None:
        self.reads: set[str] = set()
        self.writes: set[str] = set()

    def _read(self, names: Iterable[str]) -> None:
        self.reads.update(set(names) - self.writes)

    def _maybe(self, *nodes: ast.AST | None) -> None:
        """Nodes each of which may not run: what they write does not count."""
        for node in filter(None, nodes):
            before = set(self.writes)
            self.visit(node)
            # A write that may not happen does not hide a later read.
            self.writes = before

    def _all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in filter(None, nodes):
            self.visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read([node.id])
        else:
            self.writes.add(node.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        # As Python evaluates: ``x = x + 1`` reads x before it binds it.
        self._all([node.value, *node.targets])

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._read([node.target.id])
        self._all([node.value, node.target])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None or not isinstance(node.target, ast.Name):
            self._all([node.value, node.target])

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._all([node.value, node.target])

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        # ``a and b`` evaluates a for sure, and b perhaps.
        self.visit(node.values[0])
        self._maybe(*node.values[1:])

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        self._maybe(node.body, node.orelse)

    def visit_Compare(self, node: ast.Compare) -> None:
        self._all([node.left, node.comparators[0]])
        self._maybe(*node.comparators[1:])

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)
        self._maybe(node.msg)

    def visit_withitem(self, node: ast.withitem) -> None:
        self._all([node.context_expr, node.optional_vars])

    def visit_alias(self, node: ast.alias) -> None:
        self.writes.add(node.asname or node.name.split(".")[0])

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._all(_evaluated_at_def(node))
        self._read(captured(node))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._all(_evaluated_at_def(node))
        self._read(captured(node))
        self.writes.add(node.name)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._read(captured(node))
        self.writes.add(node.name)

    def _comprehension(self, node: Comprehension) -> None:
        self.visit(node.generators[0].iter)
        self._read(captured(node))

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension


def effects(*nodes: ast.AST) -> tuple[Names, Names]:
    """(names read before written, names certainly written) of expressions or simple statements run in order."""
    found = _Effects()
    for node in nodes:
        found.visit(node)
    return frozenset(found.reads), frozenset(found.writes)


def captured(node: ast.AST) -> Names:
    """Names of the enclosing scope that a nested function, lambda, class or comprehension may read when it runs."""
    if isinstance(node, Scope):
        body = node.body if isinstance(node.body, list) else [node.body]
        return _loads(body) - assigned(body) - _parameters(node.args)
    if isinstance(node, Comprehension):
        first, *others = node.generators
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        inside = [*first.ifs, *others, *results]
        return _loads(inside) - assigned(generator.target for generator in node.generators)
    return _loads(ast.iter_child_nodes(node))


def _loads(nodes: Iterable[ast.AST]) -> Names:
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            # ``x += 1`` reads x, though the syntax tree marks it as a store.
            found |= {node.target.id, *_loads([node.value])}
        elif isinstance(node, Scope):
            found |= captured(node) | _loads(_evaluated_at_def(node))
        elif isinstance(node, Comprehension):
            found |= captured(node) | _loads([node.generators[0].iter])
        else:
            found |= _loads(ast.iter_child_nodes(node))
    return frozenset(found)


def _evaluated_at_def(node: Scope) -> list[ast.expr]:
    defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    return defaults if isinstance(node, ast.Lambda) else [*node.decorator_list, *defaults]


def _parameters(args: ast.arguments) -> Names:
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return frozenset(argument.arg for argument in filter(None, every))


def nested_scopes(body: Iterable[ast.AST]) -> Iterable[ast.AST]:
    """Functions, classes and stored lambdas of this scope: what may read its names at any later time.

    A lambda inside a call is taken to run during that call.
    """
    for node in body:
        if isinstance(node, Scope | ast.ClassDef):
            yield node
        elif not isinstance(node, ast.Call | Comprehension):
            yield from nested_scopes(ast.iter_child_nodes(node))


# --- liveness --------------------------------------------------------------------------------------------------------

@dataclass(frozen=True, slots=True)
class _Exits:
    """What is live where a break and a continue lead; whether this pass writes its results down."""

    broken: Names = NONE
    continued: Names = NONE
    record: bool = False


def always_true(test: ast.expr) -> bool:
    """Whether a while's test is the literal True or 1."""
    return isinstance(test, ast.Constant) and (test.value is True or (type(test.value) is int and test.value == 1))


class Liveness:
    """Backward over the structured AST.  With E(body) the names read before written in a body, the names live at a
    loop's head are exactly those live after it and E(body) less its targets, so that no fixpoint iteration is needed.
    """

    def __init__(self, function: ast.FunctionDef) -> None:
        self.carried: dict[ast.stmt, tuple[str, ...]] = {}
        self.dead: dict[ast.stmt, tuple[str, ...]] = {}
        self._exposed: dict[ast.stmt, Names] = {}
        self._everywhere = NONE.union(*map(captured, nested_scopes(function.body)))
        self._suite(function.body, NONE, _Exits(record=True))

    def _suite(self, body: list[ast.stmt], after: Names, exits: _Exits) -> Names:
        for statement in reversed(body):
            after = self._statement(statement, after, exits)
        return after

    def _statement(self, node: ast.stmt, after: Names, exits: _Exits) -> Names:
        match node:
            case ast.For() | ast.While():
                return self._loop(node, after, exits)
            case ast.If():
                return self._if(node, after, exits)
            case ast.With():
                return _before(self._suite(node.body, after, exits), *node.items)
            case ast.Match():
                return self._match(node, after, exits)
            case ast.Break():
                return exits.broken
            case ast.Continue():
                return exits.continued
            case ast.Return() | ast.Raise():
                return _before(NONE, node)
            case _:
                return _before(after, node)

    def _loop(self, node: ast.For | ast.While, after: Names, exits: _Exits) -> Names:
        exposed = self._exposed_in(node)
        if isinstance(node, ast.For):
            head, stores = after | exposed, assigned([node.target, *node.body])
        else:
            head = _before(after, node.test) | exposed
            stores = assigned([node.test, *node.body])
        if exits.record:
            # What is written and neither read by a later turn nor behind the loop is a temporary of one turn.
            self._carry(node, stores, exposed | after)
            self._suite(node.body, head, _Exits(after, head, record=True))
        return _before(head, node.iter) if isinstance(node, ast.For) else head

    def _exposed_in(self, node: ast.For | ast.While) -> Names:
        """Names that one turn of the loop may read before writing them (a while's test is part of the turn)."""
        if node not in self._exposed:
            # With nothing live behind: only what the body itself reads before it writes.
            inside = self._suite(node.body, NONE, _Exits())
            self._exposed[node] = _before(inside, node.target if isinstance(node, ast.For) else node.test)
        return self._exposed[node]

    def _if(self, node: ast.If, after: Names, exits: _Exits) -> Names:
        then, orelse = self._suite(node.body, after, exits), self._suite(node.orelse, after, exits)
        if exits.record:
            stores = assigned([*node.body, *node.orelse])
            # Both arms are traced one after the other: what the first writes and the second reads must be put back
            # between.
            self._carry(node, stores, after | orelse)
            self.dead[node] = tuple(sorted((stores & orelse) - after - self._everywhere))
        return _before(then | orelse, node.test)

    def _match(self, node: ast.Match, after: Names, exits: _Exits) -> Names:
        live = after
        for case in node.cases:
            guarded = self._suite(case.body, after, exits)
            if case.guard is not None:
                guarded = _before(guarded, case.guard)
            live |= (guarded - assigned([case.pattern])) | effects(case.pattern)[0]
        return _before(live, node.subject)

    def _carry(self, node: ast.stmt, stores: Names, live: Names) -> None:
        self.carried[node] = tuple(sorted(stores & (live | self._everywhere)))


def _before(after: Names, *nodes: ast.AST) -> Names:
    reads, writes = effects(*nodes)
    return reads | (after - writes)


def bound_for_others(call: ast.Call, function: ast.AST) -> tuple[str, ...]:
    """Of ``any((y := x[i]) > 3 for i in ...)``: ``y``, if something outside reads it, for which the last item counts
    that Python comes to.
    """
    asked = isinstance(call.func, ast.Name) and call.func.id in ("any", "all")
    if not asked or len(call.args) != 1 or not isinstance(call.args[0], ast.GeneratorExp):
        return ()
    inside = list(ast.walk(call.args[0]))
    names = dict.fromkeys(each.target.id for each in inside if isinstance(each, ast.NamedExpr))
    if not names:
        return ()
    own = set(inside)
    outside = {each.id for each in ast.walk(function) if each not in own
               and isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    return tuple(name for name in names if name in outside)
