"""Runs a kernel from its Python source, one thread at a time: the second answer of the fuzzer.

In: the source, NumPy arrays and numbers, a grid and a block.  Out: the arrays, written; the codes of what went wrong.

>>> run(source, "kernel", [out, x, 3], grid=2, block=64)     # set(): clean

Python itself does the control flow: the source is rewritten so that what waits (barriers, shuffles, votes) yields to
a scheduler, and Python numbers in variables harden where control flow joins.  It shares no code with moye.
"""

from __future__ import annotations

import ast
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import numpy as np

from fuzz import places, scalars
from fuzz.places import View
from fuzz.scalars import BITS, FAULTS, NAMES, Fault, Num, Unclear, family, hardened

WAITS = {"sync_threads", "sync_warp", "shuffle_idx", "shuffle_up", "shuffle_down", "shuffle_xor", "ballot",
         "vote_any", "vote_all"}
FOLDS = {"warp_reduce", "block_reduce"}
LIMIT = 200_000     # scheduler steps of a program


# --- source ----------------------------------------------------------------------------------------------------------


def _assigned(body: list[ast.stmt]) -> list[str]:
    """Names that statements assign, those of inner functions left out."""
    found: dict[str, None] = {}

    def visit(node: ast.AST) -> None:
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            return
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = None
        for child in ast.iter_child_nodes(node):
            visit(child)

    for statement in body:
        visit(statement)
    return list(found)


def _attribute(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) \
        and function.value.id == "mo" else ""


def _counts(iterable: ast.expr) -> bool:
    """Whether a loop over it is one of the kernel: range and mo.range."""
    return isinstance(iterable, ast.Call) and (_attribute(iterable) == "range" or (
        isinstance(iterable.func, ast.Name) and iterable.func.id == "range"))


class Rewriter(ast.NodeTransformer):
    def __init__(self, collective: set[str]) -> None:
        self.collective = collective
        self.loops: list[list[str]] = []

    def _hardened(self, names: list[str]) -> list[ast.stmt]:
        text = "".join(f"try: {n} = _hard({n}, {_type_of(n)!r})\nexcept NameError: pass\n" for n in names)
        return ast.parse(text).body

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        outer, self.loops = self.loops, []
        self.generic_visit(node)
        self.loops = outer
        node.decorator_list = []
        for argument in node.args.args:
            argument.annotation = None
        return node

    def _loop(self, node: Any) -> Any:
        names = [] if isinstance(node, ast.For) and not _counts(node.iter) else _assigned(node.body)
        self.loops.append(names)
        self.generic_visit(node)
        self.loops.pop()
        node.body += self._hardened(names)
        return [*self._hardened(names), node, *self._hardened(names)]

    visit_For = visit_While = _loop

    def visit_Continue(self, node: ast.Continue) -> Any:
        return [*self._hardened(self.loops[-1]), node]

    def visit_If(self, node: ast.If) -> Any:
        names = _assigned([*node.body, *node.orelse])
        self.generic_visit(node)
        return [node, *self._hardened(names)]

    def visit_Return(self, node: ast.Return) -> Any:
        self.generic_visit(node)
        if node.value is not None:
            node.value = ast.Call(ast.Name("_hard", ast.Load()), [node.value], [])
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self.generic_visit(node)
        name = "_and" if isinstance(node.op, ast.And) else "_or"
        return ast.Call(ast.Name(name, ast.Load()), [_lambda(v) for v in node.values], [])

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if isinstance(node.ops[0], (ast.In, ast.NotIn)):
            member = ast.Call(ast.Name("_member", ast.Load()), [node.left, *node.comparators], [])
            inside = isinstance(node.ops[0], ast.In)
            return member if inside else ast.Call(ast.Name("_not", ast.Load()), [member], [])
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return ast.Call(ast.Name("_not", ast.Load()), [node.operand], [])
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        self.generic_visit(node)
        return ast.Call(ast.Name("_ifexp", ast.Load()), [node.test, _lambda(node.body), _lambda(node.orelse)], [])

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        name = _attribute(node)
        if name in WAITS:
            return ast.Yield(ast.Tuple([ast.Constant(name), *node.args], ast.Load()))
        if name in FOLDS or (isinstance(node.func, ast.Name) and node.func.id in self.collective):
            return ast.YieldFrom(node)
        return node


def _lambda(body: ast.expr) -> ast.Lambda:
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), body)


def _type_of(name: str) -> str:
    """``i8_3`` is a variable of int8."""
    prefix = name.partition("_")[0]
    return prefix if prefix in BITS else ""


def rewritten(source: str) -> ast.Module:
    tree = ast.parse(source)
    collective: set[str] = set()
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    for _ in functions:
        for function in functions:
            for call in (n for n in ast.walk(function) if isinstance(n, ast.Call)):
                if _attribute(call) in WAITS | FOLDS or (isinstance(call.func, ast.Name)
                                                         and call.func.id in collective):
                    collective.add(function.name)
    tree.body = [n for n in tree.body if not isinstance(n, (ast.Import, ast.ImportFrom))]
    return ast.fix_missing_locations(Rewriter(collective).visit(tree))


# --- what rewritten code calls ---------------------------------------------------------------------------------------


def _traced(x: Any) -> bool:
    return isinstance(x, Num)


def _and(*terms: Any) -> Any:
    return _logic(terms, False)


def _or(*terms: Any) -> Any:
    return _logic(terms, True)


def _logic(terms: Any, stop: bool) -> Any:
    """The operand that decides; a scalar of the kernel and what may come instead have one dtype."""
    value, rest = terms[0](), terms[1:]
    if not rest or (not _traced(value) and bool(value) is stop):
        return value
    if not _traced(value):
        return _logic(rest, stop)
    kept, other = (lambda: value), (lambda: _logic(rest, stop))
    return _ifexp(value, *((kept, other) if stop else (other, kept)))


def _member(x: Any, of: Any) -> Any:
    return _or(*((lambda item=item: x == item) for item in of))


def _not(x: Any) -> Any:
    return Num("bool", not bool(x)) if _traced(x) else not x


def _ifexp(cond: Any, then: Any, orelse: Any) -> Any:
    if not _traced(cond):
        return then() if cond else orelse()
    value = then() if cond else orelse()
    before = set(FAULTS)
    try:
        other = orelse() if cond else then()
    except Fault:
        other = None
    FAULTS.clear()
    FAULTS.update(before)
    if isinstance(value, View) or isinstance(other, View):
        raise Unclear("a conditional tensor")
    if other is None:
        if not _traced(value):
            raise Unclear("a conditional of unknown type")
        return value
    return scalars.Num((t := scalars.common(value, other)[0]), scalars.operand(value, t))


def _range(*bounds: Any) -> Any:
    wide = any(_traced(b) and BITS[b.t] == 64 for b in bounds)
    numbers = [b.__index__() for b in bounds]
    for i in range(*numbers):
        yield Num("i64" if wide else "i32", i)


def _extremum(kind: str) -> Any:
    def function(*values: Any) -> Any:
        items = values[0] if len(values) == 1 else values
        result = items[0]
        for item in items[1:]:
            if isinstance(result, View) or isinstance(item, View):
                result = places.elementwise(lambda x, y: scalars.binary(kind, x, y), result, item)
            elif not _traced(result) and not _traced(item):
                result = (min if kind == "min" else max)(result, item)
            else:
                result = scalars.binary(kind, result, item)
        return result
    return function


def _where(cond: Any, a: Any, b: Any) -> Any:
    if any(isinstance(x, View) for x in (cond, a, b)):
        return places.elementwise(_where, cond, a, b)
    if not _traced(cond):
        return a if cond else b
    t = scalars.common(a, b)[0]
    return Num(t, scalars.operand(a if cond else b, t))


def _math(kind: str) -> Any:
    def function(x: Any) -> Any:
        if isinstance(x, View):
            return places.elementwise(lambda e: scalars.unary(kind, e), x)
        return scalars.unary(kind, x)
    return function


def _int(x: Any) -> Any:
    return int(x) if not _traced(x) else x if scalars.family(x.t) in "iu" else x.to(scalars.DType("i32"))


def _float(x: Any) -> Any:
    return float(x) if not _traced(x) else x if x.t == "f64" else x.to(scalars.DType("f32"))


def _bool(x: Any) -> Any:
    return Num("bool", bool(x)) if _traced(x) else bool(x)


def _fold(kind: str, a: Any, b: Any) -> Any:
    return scalars.binary(kind, a, b)


def _warp_reduce(value: Any, kind: str = "add", width: int = 32) -> Generator:
    delta = width // 2
    if kind == "add" and BITS[value.t] < 32 and family(value.t) in "iu":    # sums of narrow integers have 32 bits
        t = "i32" if family(value.t) == "i" else "u32"
        value = Num(t, scalars.operand(value, t))
    while delta:
        other = yield ("shuffle_xor", value, delta, width)
        value = _fold(kind, value, other)
        delta //= 2
    return value


class Machine:
    """The grid: its blocks one after the other, the threads of a block in turns."""

    def __init__(self, grid: int, block: int) -> None:
        self.grid, self.block = grid, block
        self.thread = self.number = 0
        self.shared: dict[int, View] = {}
        self.allocations: dict[int, int] = {}
        self.steps = 0

    def shared_array(self, dtype: scalars.DType, layout: Any) -> View:
        at = self.allocations[self.thread] = self.allocations.get(self.thread, 0) + 1
        if at not in self.shared:
            swizzle = layout.swizzle if isinstance(layout, places.Composed) else None
            plain = layout.layout if swizzle else layout if isinstance(layout, places.Lay) else places.Lay(layout)
            where = plain.offsets()
            span = int(where.max()) + 1
            memory = [None] * (1 << (span - 1).bit_length() if swizzle else span)
            self.shared[at] = View(memory, where, dtype.t, swizzle)
        known = self.shared[at]
        return View(known.memory, known.where, known.t, known.swizzle)

    def block_reduce(self, value: Any, scratch: View, kind: str = "add") -> Generator:
        value = yield from _warp_reduce(value, kind)
        warps = self.block // 32
        if warps == 1:
            return value
        if self.thread % 32 == 0:
            scratch[self.thread // 32] = value
        yield ("sync_threads",)
        result = scratch[0]
        for warp in range(1, warps):
            result = _fold(kind, result, scratch[warp])
        yield ("sync_threads",)
        return result

    def atomic(self, kind: str) -> Any:
        def function(view: View, coordinate: Any, value: Any) -> Num:
            index = view._index(coordinate)
            place = int(view.where[index])
            old = view.load(place)
            new = scalars.convert(value.v, value.t, view.t) if _traced(value) else scalars.fitted(value, view.t)
            if kind == "add":
                view.store(place, Num(view.t, scalars.wrap(old.v + new, view.t)))
            else:
                view.store(place, _fold(kind, old, Num(view.t, new)))
            return old
        return function

    def namespace(self) -> dict[str, Any]:
        """The names of a kernel's module: ``mo`` and the builtins that moye replaces."""
        mo = SimpleNamespace(**{NAMES[t]: scalars.DType(t) for t in BITS if t != "bool"})
        mo.bool, mo.float32 = scalars.DType("bool"), scalars.DType("f32")
        one = SimpleNamespace
        mo.thread_idx = lambda: one(x=Num("i32", self.thread) if self.block > 1 else 0, y=0, z=0)
        mo.block_idx = lambda: one(x=Num("i32", self.number), y=Num("i32", 0), z=Num("i32", 0))
        mo.block_dim = lambda: one(x=self.block, y=1, z=1)
        mo.grid_dim = lambda: one(x=Num("i32", self.grid), y=Num("i32", 1), z=Num("i32", 1))
        mo.lane_idx = lambda: Num("i32", self.thread % 32)
        mo.warp_idx = lambda: Num("i32", self.thread // 32)
        mo.min, mo.max, mo.where = _extremum("min"), _extremum("max"), _where
        for kind in ("abs", "sqrt", "floor", "ceil", "trunc", "round", "isnan", "isinf", "popcount", "clz"):
            setattr(mo, kind, _math(kind))
        for kind in ("add", "min", "max", "and", "or", "xor"):
            setattr(mo, f"atomic_{kind}", self.atomic(kind))
        mo.static_range, mo.range = range, lambda *bounds, unroll=None: _range(*bounds)
        mo.warp_reduce, mo.block_reduce, mo.shared_array = _warp_reduce, self.block_reduce, self.shared_array
        mo.make_layout, mo.Swizzle, mo.ComposedLayout = places.Lay, places.Swizzle, places.Composed
        mo.select, mo.tile, mo.parallelize, mo.copyto = places.select, places.tile, places.parallelize, places.copyto
        mo.fragment, mo.size = places.fragment, places.size
        mo.make_fragment_like = lambda v, dtype=None: places.fragment(v.where.shape, dtype or v.dtype)
        return {"mo": mo, "_hard": hardened, "_and": _and, "_or": _or, "_not": _not, "_ifexp": _ifexp,
                "_member": _member, "range": _range, "min": mo.min, "max": mo.max, "int": _int, "float": _float,
                "bool": _bool,
                "inf": float("inf"), "nan": float("nan")}

    # --- scheduling ---

    def run(self, kernel: Any, arguments: list[Any]) -> None:
        for block in range(self.grid):
            self.number = block
            self.shared, self.allocations = {}, {}
            self._block([self._start(kernel, arguments, t) for t in range(self.block)])

    @staticmethod
    def _start(kernel: Any, arguments: list[Any], thread: int) -> Any:
        return lambda: kernel(*arguments)

    def _block(self, starts: list[Any]) -> None:
        threads: dict[int, Any] = {}
        waiting: dict[int, tuple] = {}
        for self.thread, start in enumerate(starts):
            made = start()
            if made is not None:
                threads[self.thread] = made
                self._step(threads, waiting, self.thread, None)
        while waiting:
            self.steps += 1
            if self.steps > LIMIT:
                raise Unclear("too long")
            if not self._warps(threads, waiting):
                self._barrier(threads, waiting)

    def _step(self, threads: dict, waiting: dict, thread: int, sent: Any) -> None:
        self.thread = thread
        try:
            waiting[thread] = threads[thread].send(sent)
        except StopIteration:
            waiting.pop(thread, None)

    def _barrier(self, threads: dict, waiting: dict) -> None:
        """All that have not returned are there: a thread waits or is at its end."""
        if any(request[0] != "sync_threads" for request in waiting.values()):
            raise Fault("C1", "a deadlock")
        for thread in sorted(waiting):
            self._step(threads, waiting, thread, None)

    def _warps(self, threads: dict, waiting: dict) -> bool:
        """Let every warp whose lanes wait for one warp operation go on."""
        moved = False
        for first in range(0, self.block, 32):
            lanes = [t for t in range(first, min(first + 32, self.block)) if t in waiting]     # the others returned
            requests = {t: waiting[t] for t in lanes if waiting[t][0] != "sync_threads"}
            if not requests or len(requests) < len(lanes):
                continue
            if len({r[0] for r in requests.values()}) > 1:
                raise Fault("C3", "lanes that wait for different things")
            answers = _exchange(requests, first)
            for thread in sorted(requests):
                self._step(threads, waiting, thread, answers[thread])
            moved = True
        return moved


def _exchange(requests: dict[int, tuple], first: int) -> dict[int, Any]:
    kind = next(iter(requests.values()))[0]
    if kind == "sync_warp":
        return dict.fromkeys(requests)
    values = {t: hardened(r[1]) for t, r in requests.items()}
    for value in values.values():
        value.maybe = False
    if kind in ("ballot", "vote_any", "vote_all"):
        bits = [(t, bool(v)) for t, v in values.items()]
        if kind == "ballot":
            return dict.fromkeys(requests, Num("u32", sum(1 << t - first for t, on in bits if on)))
        return dict.fromkeys(requests, Num("bool", (any if kind == "vote_any" else all)(on for _, on in bits)))
    found = {}
    for t, request in requests.items():
        width = request[3] if len(request) > 3 else 32
        found[t] = Num(values[t].t, values[first + _source(kind, t - first, request[2].__index__(), width)].v)
    return found


def _source(kind: str, lane: int, argument: int, width: int) -> int:
    start = lane // width * width
    if kind == "shuffle_idx":
        return start + argument % width
    there = lane ^ argument if kind == "shuffle_xor" else lane + (argument if kind == "shuffle_down" else -argument)
    return there if start <= there < start + width else lane


# --- arguments -------------------------------------------------------------------------------------------------------


def _as_view(array: np.ndarray, t: str) -> View:
    """A column-major or one-dimensional array."""
    flat = array.ravel(order="F")
    memory = [bool(x) for x in flat] if t == "bool" else [float(x) for x in flat] if scalars.family(t) == "f" else \
        [int(x) for x in flat]
    return View(memory, places.Lay(tuple(array.shape)).offsets(), t)


def run(source: str, name: str, arguments: list[Any], grid: int, block: int) -> tuple[set[str], list[list | None]]:
    """Codes of what went wrong, and the memories of the arrays (column-major).

    An argument is ``(array, dtype)``, ``Num`` or, for a static parameter, a Python number.
    """
    machine = Machine(grid, block)
    names = machine.namespace()
    exec(compile(rewritten(source), "<kernel>", "exec"), names)
    passed = [_as_view(*a) if isinstance(a, tuple) else a for a in arguments]
    FAULTS.clear()
    try:
        machine.run(names[name], passed)
    except Fault as fault:
        FAULTS.add(fault.code)
    return set(FAULTS), [a.memory if isinstance(a, View) else None for a in passed]
