"""A kernel's Python -> Python that can be traced inline: the AST -> AST station.

In: a function, and the control object that decides static or dynamic.  Out: a function that runs once, in which every
``for``, ``while``, ``if``, ``and`` ... is a call on that object, known to the code as ``__moye__``.

    rewrite(kernel, control)(A, B, C)

Lines, columns, globals and closure cells are the user's.  The texts given to ``_emit`` below are the whole protocol.
It decides nothing about values, and refuses what no control object could follow.
"""

from __future__ import annotations

import ast
import builtins
import copy
import dis
import functools
import itertools
from collections.abc import Iterator, Sequence
from types import CellType, CodeType, FunctionType
from typing import TypeVar
from weakref import WeakKeyDictionary

from moye.errors import TraceError
from moye.lang.annotations import names_in
from moye.lang.liveness import Liveness, always_true, assigned, bound_for_others
from moye.lang.source import Source, cloned, compile_inner, head_of, source_of

CONTROL = "__moye__"
RESERVED = (CONTROL, "locals")
BUILTINS = frozenset({"abs", "all", "any", "bool", "breakpoint", "divmod", "enumerate", "float", "format", "int",
                      "isinstance", "len", "max", "min", "pow", "print", "range", "repr", "reversed", "round", "str",
                      "sum", "type", "zip"})
OPERATORS: dict[type[ast.cmpop], str] = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">",
                                         ast.GtE: ">=", ast.Is: "is", ast.IsNot: "is not", ast.In: "in",
                                         ast.NotIn: "not in"}
_WATCHED = 14
"""The nested statements up to which errors in loops and arms are looked at: Python nests 20, and looking takes one."""
_ASKED = (ast.Is, ast.IsNot, ast.In, ast.NotIn)             # of which Python asks for the answer at once
ARITHMETIC: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
                                             ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**"}
_COLLECTIONS = (ast.Tuple, ast.List, ast.Dict, ast.Set, ast.JoinedStr, ast.Lambda, ast.ListComp)
Node = TypeVar("Node", bound=ast.AST)
Span = tuple[int, int, int, int]

# Equal code objects may come from different files, hence the inner key.
_rewritten: WeakKeyDictionary[CodeType, dict[str, CodeType]] = WeakKeyDictionary()


def rewrite(fn: FunctionType, control: object) -> FunctionType:
    """The function whose control flow goes through ``control``; it shares the original's globals and closure cells."""
    by_file = _rewritten.setdefault(fn.__code__, {})
    file = fn.__code__.co_filename
    if file not in by_file:
        by_file[file] = compile_inner(_rewritten_def(fn), fn.__code__, extra=(CONTROL,))
    code = by_file[file]
    cells = {**dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)), CONTROL: CellType(control)}
    new = FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, tuple(cells[n] for n in code.co_freevars))
    new.__kwdefaults__ = fn.__kwdefaults__
    new.__qualname__, new.__doc__, new.__module__ = fn.__qualname__, fn.__doc__, fn.__module__
    return new


def rewritten_source(fn: FunctionType) -> str:
    """The rewritten function as text, for MOYE_SHOW=ast."""
    return ast.unparse(_rewritten_def(fn).node)


def free_names(fn: FunctionType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(global names, free variables) that the function and what is nested in it may read; builtins do not count."""
    loaded = set(_global_loads(fn.__code__))
    names = sorted(name for name in loaded if name in fn.__globals__ or not hasattr(builtins, name))
    return tuple(names), fn.__code__.co_freevars


def _global_loads(code: CodeType) -> Iterator[str]:
    own: set[str] = set()                                   # a class body's names
    for instruction in dis.get_instructions(code):
        if instruction.opname == "STORE_NAME":
            own.add(instruction.argval)
        elif instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            yield from {instruction.argval} - own - {"__name__"}
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _global_loads(value)


def attribute_reads(code: CodeType) -> Iterator[tuple[str, ...]]:
    """``("cfg", "tiles", "BM")`` for every ``cfg.tiles.BM`` whose first name is global or free."""
    chain: tuple[str, ...] = ()
    for instruction in dis.get_instructions(code):
        if chain and instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            chain = (*chain, instruction.argval)
            continue
        if len(chain) > 1:
            yield chain
        starts = instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF")
        chain = (instruction.argval,) if starts else ()
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from attribute_reads(value)


def _rewritten_def(fn: FunctionType) -> Source:
    source = source_of(fn)
    Refusals(source, source.node.name).check(source.node)
    _WalrusTests().visit(source.node)
    names = _Names(source.node)
    for word in RESERVED:
        if word in names.bound:
            raise TraceError(f"{source.node.name} binds the name {word}, which moye needs in a kernel",
                             hint="rename it", locs=[source.loc(head_of(source.node))])
    _Rewriter(source, source.node, names).function()
    ast.fix_missing_locations(source.node)
    return source


# --- pieces of AST ---------------------------------------------------------------------------------------------------

class _Fill(ast.NodeTransformer):
    """Stamps a template with one span and puts the user's nodes, which keep their own, into its holes."""

    def __init__(self, span: Span, holes: dict[str, ast.expr]) -> None:
        self._span, self._holes = span, holes

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Name) and node.id in self._holes:
            return self._holes[node.id]
        if "lineno" in node._attributes:
            for field, value in zip(("lineno", "col_offset", "end_lineno", "end_col_offset"), self._span, strict=True):
                setattr(node, field, value)
        return self.generic_visit(node)


@functools.lru_cache(maxsize=512)
def _parsed(text: str) -> ast.Module:
    """A template; most recur from function to function."""
    return ast.parse(text)


def _emit(text: str, span: Span, **holes: ast.expr) -> list[ast.stmt]:
    """The statements of a text; every one, and every name that is no hole, lies at ``span``."""
    module = _Fill(span, holes).visit(cloned(_parsed(text)))
    assert isinstance(module, ast.Module), "a template is a module"
    return module.body


def _expression(text: str, at: ast.expr, **holes: ast.expr) -> ast.expr:
    [statement] = _emit(text, _span(at), **holes)
    assert isinstance(statement, ast.Expr), f"{text} is no expression"
    return statement.value


_NOT_TRIED = (ast.Return, ast.Break, ast.Continue, ast.Raise, ast.Delete, ast.With, ast.Match, ast.FunctionDef,
              ast.ClassDef, ast.Lambda, ast.Import, ast.ImportFrom, ast.NamedExpr)
_NAMING = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Load)
"""What a function may be named with, so that asking which one it is does nothing else."""


def _called_in(*arms: ast.expr) -> ast.expr:
    """``lambda: (f, g)`` of the functions that two expressions call; ``None`` where naming one may do something."""
    calls = [inner for arm in arms for inner in ast.walk(arm) if isinstance(inner, ast.Call)]
    parts = (part for call in calls for part in ast.walk(call.func))
    if not all(isinstance(part, _NAMING) for part in parts):
        return ast.Constant(None)
    functions = ast.Tuple([copy.deepcopy(call.func) for call in calls], ast.Load())
    return _expression("lambda: F", arms[0], F=functions)


def _tried(node: ast.If) -> tuple[str, ...] | None:
    """What the arms of an if call, as ``f`` or ``mo.f``; None if an arm leaves, or defines or calls something else."""
    parts = [part for statement in (*node.body, *node.orelse) for part in ast.walk(statement)]
    if any(isinstance(part, _NOT_TRIED) for part in parts):
        return None
    calls = [part.func for part in parts if isinstance(part, ast.Call)]
    found = [ast.unparse(f) for f in calls if not (isinstance(f, ast.Attribute) and f.attr in ("to", "bitcast"))]
    made = assigned([*node.body, *node.orelse])
    fine = all(name.replace(".", "_").isidentifier() and name.partition(".")[0] not in made for name in found)
    return tuple(dict.fromkeys(found)) if fine else None


def _may_meet(left: ast.expr, right: ast.expr) -> bool:
    """Whether the left may be a Python float and the right an integer that facts decided."""
    number = right.operand if isinstance(right, ast.UnaryOp) else right
    floats = isinstance(left.value, float) if isinstance(left, ast.Constant) else not isinstance(left, _COLLECTIONS)
    return floats and not isinstance(number, (ast.Constant, *_COLLECTIONS))


def _bind(names: Sequence[str], call: str) -> str:
    return f"({', '.join(names)},) = {call}" if names else call


def _words(names: Sequence[str]) -> ast.expr:
    """A literal tuple for a hole: texts that do not name what differs are parsed once."""
    return ast.Tuple([ast.Constant(name) for name in names], ast.Load())


def _span(first: ast.stmt | ast.expr, last: ast.stmt | ast.expr | None = None) -> Span:
    end = last or first
    return (first.lineno, first.col_offset, end.end_lineno or end.lineno, end.end_col_offset or end.col_offset)


class _Names:
    """The names that a function and its nested scopes use, and new ones that are not among them."""

    def __init__(self, node: ast.FunctionDef) -> None:
        self._count = itertools.count(1)
        arguments = {child.arg for child in ast.walk(node) if isinstance(child, ast.arg)}
        scopes = [child for child in ast.walk(node) if isinstance(child, ast.FunctionDef)]
        self.bound = arguments.union(*(assigned(scope.body) for scope in scopes))
        self._taken = self.bound | {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
        self.status, self.frame = self._free("__s"), self._free("__f")

    def fresh(self, prefix: str) -> str:
        """``__l1``, ``__c2``, ...: never the same twice."""
        return self._free(f"__{prefix}{next(self._count)}")

    def _free(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


# --- expressions -----------------------------------------------------------------------------------------------------

def _walrus(node: ast.AST) -> ast.NamedExpr | None:
    """The first walrus that would bind inside a lambda made of the node."""
    if isinstance(node, ast.NamedExpr):
        return node
    inner = () if isinstance(node, ast.Lambda) else ast.iter_child_nodes(node)
    return next(filter(None, map(_walrus, inner)), None)


def _terms(test: ast.expr) -> Iterator[ast.expr]:
    """What must be true for a condition to be."""
    if not isinstance(test, ast.BoolOp) or not isinstance(test.op, ast.And):
        yield test
        return
    for value in test.values:
        yield from _terms(value)


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


class _WalrusTests(ast.NodeTransformer):
    """``while TEST: BODY`` -> ``while True: (if TEST: pass; else: break); BODY`` where the test binds names, so that
    leaving the loop is a break, which sees them.
    """

    def visit_While(self, node: ast.While) -> ast.While:
        self.generic_visit(node)
        if _walrus(node.test) is not None:
            leave = _emit("if TEST: pass\nelse: break", _span(node.test), TEST=node.test)
            always = ast.copy_location(ast.Constant(True), node.test)
            node.test, node.body = always, [*leave, *node.body]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return node


class _Expressions(ast.NodeTransformer):
    """Short-circuit operators, chains and some builtins -> calls on the control object.

    Operands that may not run become lambdas, in which only names are read.
    """

    def __init__(self, source: Source, function: ast.FunctionDef) -> None:
        self.source, self.node = source, function

    def rewritten(self, node: Node) -> Node:
        """The node with its parts rewritten; it stays a node of its kind's family (expr, withitem, ...)."""
        new: Node = self.visit(node)
        return new

    def _thunk(self, node: ast.expr, tested: bool = False) -> ast.expr:
        if (walrus := _walrus(node)) is not None:
            raise TraceError("a kernel cannot use := in an expression that may not run",
                             hint="assign the name in a statement of its own before",
                             locs=[self.source.loc(walrus, self.node.name)])
        return _expression("lambda: BODY", node, BODY=self.tested(node) if tested else self.rewritten(node))

    def _certain(self, node: ast.expr, tested: bool = False) -> ast.expr:
        """An operand that runs in any case, as the first of ``and`` and the second of a chain do: it may bind names."""
        if _walrus(node) is None:
            return self._thunk(node, tested)
        return _expression("lambda __v=V: __v", node, V=self.tested(node) if tested else self.rewritten(node))

    def _call(self, method: str, at: ast.expr, *values: ast.expr, prefix: str = "") -> ast.expr:
        """``__moye__.method(prefix values...)`` at the node that it replaces."""
        holes = {f"V{i}": value for i, value in enumerate(values)}
        return _expression(f"{CONTROL}.{method}({prefix}{', '.join(holes)})", at, **holes)

    def tested(self, node: ast.expr) -> ast.expr:
        """The node rewritten where only its truth is asked."""
        return self._logic(node, "", (), tested=True) if isinstance(node, ast.BoolOp) else self.rewritten(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        return self._logic(node, "value", (_called_in(*node.values[1:]),))

    def _logic(self, node: ast.BoolOp, suffix: str, front: tuple[ast.expr, ...], tested: bool = False) -> ast.expr:
        first, *others = node.values
        value = self._certain(first, tested)
        method = ("and_" if isinstance(node.op, ast.And) else "or_") + suffix
        return self._call(method, node, *front, value, *(self._thunk(other, tested) for other in others))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            return self._call("not_", node, self.tested(node.operand))
        return self._inside(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self._inside(node)
        return self._strong(node, node.left, node.right, ARITHMETIC.get(type(node.op), ""))

    def _strong(self, node: ast.BinOp | ast.Compare, left: ast.expr, right: ast.expr, symbol: str) -> ast.expr:
        """``2.0 * t`` -> ``2.0 * __moye__.beside(2.0, t)``: Python's floats know nothing of the dtype of a known t."""
        if not symbol or not _may_meet(left, right):
            return node
        if not isinstance(left, ast.Name | ast.Constant):   # asked for once only
            return self._call("operator", node, ast.Constant(symbol), left, right)
        strong = self._call("beside", right, copy.copy(left), right)
        if isinstance(node, ast.BinOp):
            node.right = strong
        else:
            node.comparators = [strong]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) == 1:
            self._inside(node)
            symbol, right = OPERATORS[type(node.ops[0])], node.comparators[0]
            equality = isinstance(node.ops[0], (ast.Eq, ast.NotEq))
            tuples = equality and ast.Tuple in (type(node.left), type(right))   # Python itself would test their items
            if tuples or isinstance(node.ops[0], _ASKED):
                return self._call("operator", node, ast.Constant(symbol), node.left, right)
            return self._strong(node, node.left, right, symbol)
        operators = tuple(OPERATORS[type(op)] for op in node.ops)
        second, *others = node.comparators
        return self._call("chain", node, self.rewritten(node.left), self._certain(second), *map(self._thunk, others),
                          prefix=f"{operators!r}, ")

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """``a if c else b`` -> ``__moye__.ifexp(c, lambda: a, lambda: b, lambda: ())``."""
        called = _called_in(node.body, node.orelse)
        values = self.tested(node.test), self._thunk(node.body), self._thunk(node.orelse), called
        return self._call("ifexp", node, *values)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        bound = bound_for_others(node, self.node)
        self._inside(node)
        if isinstance(node.func, ast.Name) and node.func.id in BUILTINS:
            names = f", {bound!r}" if bound else ""
            node.func = _expression(f"{CONTROL}.builtin(F{names})", node.func, F=node.func)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        """Conditions decide how many items there are, so that they must be known while tracing."""
        node.target, node.iter = self.rewritten(node.target), self.rewritten(node.iter)
        # ``if a and b`` is ``if a if b``, where b may bind names.
        tests = [term for test in node.ifs for term in _terms(test)]
        node.ifs = [self._call("chosen", test, test if _walrus(test) else self.tested(test)) for test in tests]
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        """``f"n={n:3}"`` -> ``__moye__.text("n=", (n, -1, "3", "n"))``: a value may be known only on the device."""
        if all(isinstance(part, ast.Constant) for part in node.values):
            return node
        return self._call("text", node, *map(self._piece, node.values))

    def _piece(self, part: ast.expr) -> ast.expr:
        if not isinstance(part, ast.FormattedValue):
            return part
        spec = part.format_spec and self.rewritten(part.format_spec)
        source = ast.Constant(ast.unparse(part.value))
        piece = ast.Tuple([self.rewritten(part.value), ast.Constant(part.conversion), spec or ast.Constant(""), source],
                          ast.Load())
        return ast.fix_missing_locations(ast.copy_location(piece, part))

    def visit_Raise(self, node: ast.Raise) -> list[ast.stmt]:
        return [*_emit(f"{CONTROL}.raising()", _span(node)), self._inside(node)]

    def _inside(self, node: Node) -> Node:
        self.generic_visit(node)
        return node


# --- statements ------------------------------------------------------------------------------------------------------

class _Rewriter(_Expressions):
    """The statements of one function; each visit returns a list of statements."""

    def __init__(self, source: Source, function: ast.FunctionDef, names: _Names) -> None:
        super().__init__(source, function)
        liveness = Liveness(function)
        self._names, self._carried, self._dead = names, liveness.carried, liveness.dead
        self._loops: list[str] = []
        self._withs: list[int] = []                         # of each with around: how many loops are around it
        self._nested = 0                                    # the statements around that Python counts: for and with
        self._alive: list[tuple[str, ...]] = []             # carried by the statements around
        self._early = any(isinstance(child, ast.Return) for statement in function.body
                          for child in _own(statement) if child is not statement)

    def function(self) -> None:
        """Rewrite the body in place."""
        body, head = self.node.body, _span(head_of(self.node))
        documented = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        front, body = (body[:1], body[1:]) if documented else ([], body)
        for parameter in _parameters(self.node.args):
            if parameter.annotation is not None and any(names_in(parameter.annotation)):
                own = ast.copy_location(ast.Name(parameter.arg, ast.Load()), parameter)
                front += _emit(f"{parameter.arg} = V", head, V=self._of_its_dtype(parameter.annotation, own))
        if self._early:
            front += _emit(f"{self._names.frame} = {CONTROL}.function()", head)
        self.node.body = [*front, *self._suite(body)]
        if self._early:
            self.node.body += _emit(f"return {self._names.frame}.finish()", head)

    def _suite(self, body: list[ast.stmt], carried: tuple[str, ...] = ()) -> list[ast.stmt]:
        self._alive.append(carried)
        new: list[ast.stmt] = []
        for statement in body:
            result = self.visit(statement)
            new += result if isinstance(result, list) else [result]
            if isinstance(statement, ast.Break | ast.Continue | ast.Return):
                break
        self._alive.pop()
        return new

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        loop, head = self._names.fresh("l"), _span(node, node.iter)
        names, target = self._carried[node], node.target.id if isinstance(node.target, ast.Name) else ""
        jumps = _jumps(node.body)
        start = _emit(f"{loop} = {CONTROL}.loop(ITER, NAMES, TARGET{', JUMPS' if jumps else ''})", _span(node.iter),
                      NAMES=_words(names), TARGET=ast.Constant(target), ITER=self.rewritten(node.iter),
                      JUMPS=_words(jumps))
        goal, first = self.rewritten(node.target), list[ast.stmt]()
        if assigned([goal]) & set(names) or not isinstance(goal, ast.Name):   # begin reads what the last turn left
            item = self._names.fresh("t")
            first = _emit(f"TARGET = {item}", _span(goal), TARGET=goal)
            goal = ast.copy_location(ast.Name(item, ast.Store()), goal)
        turn = _emit(f"for TARGET in {loop}: pass", head, TARGET=goal)[0]
        return [*start, *self._turns(turn, loop, head, names, first, node.body)]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        loop, turn, status = self._names.fresh("l"), self._names.fresh("t"), self._names.status
        head, names, always = _span(node, node.test), self._carried[node], always_true(node.test)
        start = _emit(f"{loop} = {CONTROL}.while_({names!r}, {always})", head)
        test = [] if always else _emit(f"{status} = {loop}.test(COND)\nif {status} == 1: break\n"
                                       f"if {status} == 2: continue", _span(node.test), COND=self.tested(node.test))
        return [*start, *self._turns(_emit(f"for {turn} in {loop}: pass", head)[0], loop, head, names, test, node.body)]

    def _turns(self, turn: ast.stmt, loop: str, head: Span, names: tuple[str, ...], first: list[ast.stmt],
               body: list[ast.stmt]) -> list[ast.stmt]:
        assert isinstance(turn, ast.For), "a loop's turns are a for"
        self._loops.append(loop)
        watched = bool(names) and self._nested + 2 <= _WATCHED
        self._nested += 1 + watched
        inside = [*first, *self._suite(body, names), *_emit(f"{loop}.end(locals())", head)]
        self._nested -= 1 + watched
        if watched:
            [around] = _emit(f"with {loop}: pass", head)
            assert isinstance(around, ast.With), "a with statement"
            around.body, inside = inside, [around]
        turn.body = [*_emit(_bind(names, f"{loop}.begin(locals())"), head), *inside]
        self._loops.pop()
        return [turn, *_emit(_bind(names, f"{loop}.after(locals())"), head)]

    def visit_Break(self, node: ast.Break) -> list[ast.stmt]:
        status = self._names.status
        return _emit(f"{status} = {self._loops[-1]}.break_(locals(){self._through()})\nif {status} == 1: break\n"
                     f"if {status} == 2: continue", _span(node))

    def visit_Continue(self, node: ast.Continue) -> list[ast.stmt]:
        status = self._names.status
        return _emit(f"{status} = {self._loops[-1]}.continue_(locals(){self._through()})\nif {status}: continue",
                     _span(node))

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        branch, names, head = self._names.fresh("c"), self._carried[node], _span(node, node.test)
        dead = self._dead[node]
        called = _tried(node) if set(names) - set(dead) else None
        more = "" if called is None else ", DEAD, CALLED" if called else ", DEAD, ()"
        start = _emit(f"{branch} = {CONTROL}.if_(COND, NAMES{more or (', DEAD' if dead else '')})", _span(node.test),
                      NAMES=_words(names), DEAD=_words(dead), CALLED=_words(called or ()),
                      COND=self.tested(node.test))
        then, orelse = _emit(f"if {branch}.then(locals()): pass\nif {branch}.orelse(): pass", head)
        assert isinstance(then, ast.If) and isinstance(orelse, ast.If), "both branches are ifs"
        watched = called is not None and self._nested < _WATCHED
        self._nested += watched
        then.body = [*self._suite(node.body, names), *_emit(f"{branch}.end_then(locals())", head)]
        orelse.body = [*_emit(_bind(names, f"{branch}.restore()"), head), *self._suite(node.orelse, names),
                       *_emit(f"{branch}.end_else(locals())", head)]
        self._nested -= watched
        for arm in (then, orelse) if called is not None else ():
            if not watched:                                 # of a long chain of elif: its errors are not looked at
                arm.body += _emit(f"{branch}.__exit__(None, None, None)", head)
            else:
                [around] = _emit(f"with {branch}: pass", head)
                assert isinstance(around, ast.With), "a with statement"
                around.body, arm.body = arm.body, [around]
        return [*start, then, orelse, *_emit(_bind(names, f"{branch}.merge(locals())"), head)]

    def visit_Return(self, node: ast.Return) -> ast.stmt | list[ast.stmt]:
        if not self._early:
            return self._inside(node)
        frame, status = self._names.frame, self._names.status
        value = ast.copy_location(ast.Constant(None), node) if node.value is None else self.rewritten(node.value)
        skip = f"\nif {status} == 2: continue" if self._loops else ""
        through = ", True" if self._withs else ""
        return _emit(f"{status} = {frame}.return_(V{through})\nif {status} == 1: return {frame}.value{skip}",
                     _span(node), V=value)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        self._inside(node)
        match node.targets:
            case [ast.Name(name)]:
                node.value = self._named(name, node.value)
            case [ast.Tuple(items) | ast.List(items)] if items and all(isinstance(item, ast.Name) for item in items):
                names = tuple(item.id for item in items if isinstance(item, ast.Name))
                node.value = _expression(f"{CONTROL}.names(NAMES, E)", node.value, NAMES=_words(names), E=node.value)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        """A name that stands alone: a function that nobody calls, such as ``mo.sync_threads``, is a mistake."""
        self._inside(node)
        if isinstance(node.value, (ast.Name, ast.Attribute)):
            node.value = self._call("alone", node.value, ast.Constant(ast.unparse(node.value)), node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        self._inside(node)
        named = all(isinstance(part, (*_NAMING, ast.Store)) for part in ast.walk(node.target))
        if type(node.op) in ARITHMETIC and named and _may_meet(node.target, node.value):
            before = copy.deepcopy(node.target)
            before.ctx = ast.Load()
            if isinstance(before, ast.Subscript):           # a load, if it is of a tensor
                part = _expression("lambda: B", node.value, B=before)
                node.value = self._call("added", node.value, copy.deepcopy(before.value), part, node.value)
            else:
                node.value = self._call("beside", node.value, before, node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        node.target = self.rewritten(node.target)
        if node.value is not None:
            node.value = self._of_its_dtype(node.annotation, self.rewritten(node.value))
            if isinstance(node.target, ast.Name):
                node.value = self._named(node.target.id, node.value)
        return node

    def _of_its_dtype(self, annotation: ast.expr, value: ast.expr) -> ast.expr:
        """The value of ``total: mo.float64 = 0``, or of a parameter that is annotated so."""
        names = [_expression("lambda: A", annotation, A=name) for name, _ in names_in(annotation)]
        if not names:
            return value
        return self._call("annotated", value, ast.copy_location(ast.Tuple(names, ast.Load()), annotation), value)

    def _named(self, name: str, value: ast.expr) -> ast.expr:
        return _expression(f"{CONTROL}.name(NAME, E)", value, NAME=ast.Constant(name), E=value)

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        message = node.msg or ast.copy_location(ast.Constant(None), node)
        if isinstance(node.test, ast.Constant) and not node.test.value:
            return [ast.copy_location(ast.Expr(self._call("fails", node.test, self._thunk(message))), node)]
        call = self._call("assert_", node.test, self.tested(node.test), self._thunk(message))
        return [ast.copy_location(ast.Expr(call), node)]

    def visit_Delete(self, node: ast.Delete) -> ast.stmt:
        for target in node.targets:
            if isinstance(target, ast.Name) and any(target.id in names for names in self._alive):
                raise TraceError(f"a kernel cannot del {target.id}, which a loop or an if around it carries",
                                 hint="drop the del: a name costs nothing",
                                 locs=[self.source.loc(target, self.node.name)])
        return self._inside(node)

    def visit_With(self, node: ast.With) -> ast.stmt:
        node.items = [self.rewritten(item) for item in node.items]
        self._withs.append(len(self._loops))
        node.body = self._suite(node.body)
        self._withs.pop()
        return node

    def _through(self) -> str:
        """The argument of a jump in a loop that leaves a with statement inside of it."""
        return ", True" if self._withs and self._withs[-1] == len(self._loops) else ""

    def visit_Match(self, node: ast.Match) -> ast.stmt:
        truths = any(isinstance(part, ast.MatchSingleton) and part.value is not None
                     for case in node.cases for part in ast.walk(case.pattern))
        node.subject = self._call("subject", node.subject, self.rewritten(node.subject), prefix=f"{truths}, ")
        for case in node.cases:
            case.body = self._suite(case.body)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        node.decorator_list = [self.rewritten(decorator) for decorator in node.decorator_list]
        node.args.defaults = [self.rewritten(default) for default in node.args.defaults]
        node.args.kw_defaults = [default and self.rewritten(default) for default in node.args.kw_defaults]
        _Rewriter(self.source, node, self._names).function()
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        return node


def _jumps(body: list[ast.stmt]) -> list[str]:
    """How the statements of a loop's body leave a turn, or the loop."""
    found = {type(child).__name__.lower() for statement in body for child in _own(statement, ast.For, ast.While)
             if isinstance(child, ast.Break | ast.Continue)}
    return sorted(found)


def _own(node: ast.AST, *others: type[ast.AST]) -> Iterator[ast.AST]:
    """The node and its descendants in the same scope, but for what is inside of the ``others``."""
    yield node
    if not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Lambda, *others)):
        for child in ast.iter_child_nodes(node):
            yield from _own(child, *others)


# --- what a kernel's source cannot contain, whatever its values are --------------------------------------------------


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
        """A class is plain Python, except for names that it would rebind unseen by the analysis."""
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
        self._refuse(node, "global", "write it into an array that is a parameter; a @mo.jit function may return it")

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
