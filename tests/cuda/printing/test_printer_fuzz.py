"""Random programs, printed, compiled as C++ for this machine, and compared with an interpreter of the IR.

What it is after: a value that is printed at its use instead of at its definition must still have its old value there.
"""

from __future__ import annotations

import ctypes
import operator
import random
import re
import shutil
import subprocess

import pytest

from moye import dtypes as dt
from moye.cuda.printing.printer import print_kernel
from moye.dtypes import Space
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Func, Literal, Operand, Ref, ScalarParam, TensorParam, Value, Var
from moye.layout import make_layout

I32 = dt.int32
PROGRAMS = 400
SHIM = """\
#define __device__
#define __forceinline__ inline
#define __global__
#define __launch_bounds__(x)
static inline void __syncwarp() {}
static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }
"""
OPERATIONS = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "and": operator.and_,
              "xor": operator.xor, "floordiv": operator.floordiv, "mod": operator.mod, "min": min, "max": max,
              "shr": operator.rshift, "lt": operator.lt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne}


def lit(x: int) -> Literal:
    return Literal(x, I32)


class Generator:
    """One random program over two arrays, four register elements, variables and a scalar argument."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.budget = 60
        self.A, self.out = (Buffer(name, Space.GLOBAL, I32, None, make_layout(1), align=4, index=i)
                            for i, name in enumerate(("A", "out")))
        self.reg = Buffer("reg", Space.REGISTER, I32, 4, make_layout(4), align=16)
        n = Value(I32, name="n")
        self.func = Func("fuzz", [TensorParam("A", self.A, (1,), (1,)), TensorParam("out", self.out, (1,), (1,)),
                                  ScalarParam("n", n)], Block(), (1, 1, 1), restrict=self.random.random() < 0.5)
        body = self.func.body.ops
        body.append(ops.Alloc(buffer=self.reg))
        body += [ops.Store(ref=Ref(self.reg, lit(i), I32), value=lit(i)) for i in range(4)]
        variables = [self.declare(body, [lit(i)], i) for i in range(3)]
        self.block(body, [n], variables, [], 0)
        for i, var in enumerate(variables):
            body.append(ops.Store(ref=Ref(self.out, lit(16 + i), I32), value=self.read(body, var)))
        for i in range(4):
            got = self.define(body, ops.Load, ref=Ref(self.reg, lit(i), I32))
            body.append(ops.Store(ref=Ref(self.out, lit(20 + i), I32), value=got))

    def define(self, body: list, op_class, dtype=I32, name: str = "", **fields) -> Value:
        value = Value(dtype, name=name)
        value.op = op_class(result=value, **fields)
        body.append(value.op)
        return value

    def declare(self, body: list, values: list, number: int) -> Var:
        var = Var(f"v{number % 4}", I32)
        body.append(ops.Declare(var=var, init=self.pick(values)))
        return var

    def read(self, body: list, var: Var) -> Value:
        return self.define(body, ops.Read, var=var)

    def pick(self, values: list) -> Operand:
        return self.random.choice(values[-8:]) if self.random.random() < 0.75 else lit(self.random.randint(-9, 9))

    def masked(self, body: list, values: list, mask: int) -> Value:
        return self.define(body, ops.Binary, kind="and", a=self.pick(values), b=lit(mask))

    def condition(self, body: list, values: list, variables: list) -> Value:
        kind = self.random.choice(["lt", "ge", "ne"])
        x = self.read(body, self.random.choice(variables))
        return self.define(body, ops.Binary, dt.bool_, kind=kind, a=x, b=self.pick(values))

    def scalar(self, body: list, values: list) -> None:
        kind = self.random.choice(["add", "sub", "mul", "and", "xor", "floordiv", "mod", "min", "max", "shr", "neg",
                                   "select"])
        name = self.random.choice(["", "", "x", "i"])
        a, b = self.pick(values), self.pick(values)
        if kind == "neg":
            values.append(self.define(body, ops.Unary, name=name, kind="neg", a=a))
        elif kind == "select":
            p = self.define(body, ops.Binary, dt.bool_, kind="lt", a=a, b=b)
            if self.random.random() < 0.3:
                p = self.define(body, ops.Unary, dt.bool_, kind="not", a=p)
            values.append(self.define(body, ops.Select, cond=p, a=self.pick(values), b=self.pick(values)))
        else:
            if kind in ("floordiv", "mod"):
                b = lit(self.random.choice([2, 3, 4, -3, 8]))
            values.append(self.define(body, ops.Binary, name=name, kind=kind, a=a, b=lit(3) if kind == "shr" else b))

    def block(self, body: list, values: list, variables: list, targets: list, depth: int) -> None:
        values, variables = list(values), list(variables)
        for _ in range(self.random.randint(2, 7)):
            self.budget -= 1
            if self.budget < 0:
                break
            kind = self.random.choice(["scalar"] * 5 + ["read"] * 4 + ["assign"] * 4 + ["load"] * 2 + ["store"] * 2 + [
                "rload", "rstore", "declare", "branch", "branch", "count", "loop", "scope", "leave", "sync", "swap"])
            if depth == 4 and kind in ("branch", "count", "loop", "scope"):
                continue
            self.statement(kind, body, values, variables, targets, depth)

    def statement(self, kind, body, values, variables, targets, depth) -> None:
        if kind == "scalar":
            self.scalar(body, values)
        elif kind == "read":
            values.append(self.read(body, self.random.choice(variables)))
        elif kind == "assign":
            chosen = self.random.sample(variables, self.random.randint(1, 3))
            body.append(ops.Assign(pairs=tuple((var, self.pick(values)) for var in chosen)))
        elif kind == "swap":
            x, y = self.random.sample(variables, 2)
            body.append(ops.Assign(pairs=((x, self.read(body, y)), (y, self.read(body, x)))))
        elif kind == "load":
            place = self.random.choice([self.A, self.out])
            values.append(self.define(body, ops.Load, ref=Ref(place, self.masked(body, values, 7), I32)))
        elif kind == "rload":
            values.append(self.define(body, ops.Load, ref=Ref(self.reg, lit(self.random.randint(0, 3)), I32)))
        elif kind == "rstore":
            body.append(ops.Store(ref=Ref(self.reg, lit(self.random.randint(0, 3)), I32), value=self.pick(values)))
        elif kind == "store":
            place = Ref(self.out, self.masked(body, values, 7), I32)
            body.append(ops.Store(ref=place, value=self.pick(values)))
        elif kind == "declare":
            variables.append(self.declare(body, values, len(variables)))
        elif kind == "sync":
            body.append(ops.SyncWarp())
        else:
            getattr(self, kind)(body, values, variables, targets, depth + 1)

    def branch(self, body, values, variables, targets, depth) -> None:
        op = ops.If(cond=self.condition(body, values, variables), then=Block(), orelse=Block())
        self.block(op.then.ops, values, variables, targets, depth)
        if self.random.random() < 0.5:
            self.block(op.orelse.ops, values, variables, targets, depth)
        body.append(op)

    def count(self, body, values, variables, targets, depth) -> None:
        iv, step, stop = Value(I32, name="i"), self.random.choice([1, 2, -1, None]), self.masked(body, values, 3)
        if step is None:
            step = self.define(body, ops.Binary, kind="add", a=self.masked(body, values, 1), b=lit(1))
            step.lower = 1
        start, stop = (stop, lit(0)) if step == -1 else (lit(0), stop)
        op = ops.For(iv=iv, start=start, stop=stop, step=step, body=Block())
        self.block(op.body.ops, [*values, iv], variables, [*targets, op], depth)
        body.append(op)

    def loop(self, body, values, variables, targets, depth) -> None:
        op, counter = ops.Loop(body=Block()), Var("c", I32)
        body.append(ops.Declare(var=counter, init=lit(0)))
        inside = op.body.ops
        x = self.read(inside, counter)
        done = self.define(inside, ops.Binary, dt.bool_, kind="ge", a=x, b=lit(4))
        inside.append(ops.If(cond=done, then=Block([ops.Exit(kind="break", target=op)]), orelse=Block()))
        y = self.define(inside, ops.Binary, kind="add", a=x, b=lit(1))
        inside.append(ops.Assign(pairs=((counter, y),)))
        self.block(inside, [*values, x, y], variables, [*targets, op], depth)
        body.append(op)

    def scope(self, body, values, variables, targets, depth) -> None:
        op = ops.Scope(body=Block())
        self.block(op.body.ops, values, variables, [*targets, op], depth)
        body.append(op)

    def leave(self, body, values, variables, targets, depth) -> None:
        if targets:
            target = self.random.choice(targets)
            kind = "leave" if isinstance(target, ops.Scope) else self.random.choice(["break", "continue"])
            body.append(ops.If(cond=self.condition(body, values, variables), orelse=Block(),
                               then=Block([ops.Exit(kind=kind, target=target)])))


class Leaving(Exception):
    def __init__(self, kind: str, target: ops.Op | None) -> None:
        self.kind, self.target = kind, target


def wrapped(x: int | bool) -> int | bool:
    return x if isinstance(x, bool) else (x + 2**31) % 2**32 - 2**31


class Interpreter:
    """Runs a program op by op."""

    def __init__(self, func: Func, n: int, arrays: dict[str, list[int]]) -> None:
        self.values, self.vars, self.arrays = {func.params[2].value.id: n}, {}, arrays
        self.run(func.body)

    def get(self, operand: Operand):
        return operand.value if isinstance(operand, Literal) else self.values[operand.id]

    def run(self, block: Block) -> None:
        for op in block.ops:
            result = getattr(op, "result", None)
            if result is not None:
                self.values[result.id] = wrapped(self.result(op))
            else:
                self.effect(op)

    def result(self, op: ops.Op):
        if isinstance(op, ops.Binary):
            return OPERATIONS[op.kind](self.get(op.a), self.get(op.b))
        if isinstance(op, ops.Unary):
            return not self.get(op.a) if op.kind == "not" else -self.get(op.a)
        if isinstance(op, ops.Select):
            return self.get(op.a if self.get(op.cond) else op.b)
        if isinstance(op, ops.Read):
            return self.vars[op.var.id]
        assert isinstance(op, ops.Load), op
        return self.arrays[op.ref.buffer.name][self.get(op.ref.offset)]

    def effect(self, op: ops.Op) -> None:
        if isinstance(op, ops.Declare):
            self.vars[op.var.id] = self.get(op.init)
        elif isinstance(op, ops.Assign):
            self.vars.update([(var.id, self.get(source)) for var, source in op.pairs])
        elif isinstance(op, ops.Store):
            self.arrays[op.ref.buffer.name][self.get(op.ref.offset)] = self.get(op.value)
        elif isinstance(op, ops.If):
            self.run(op.then if self.get(op.cond) else op.orelse)
        elif isinstance(op, ops.For):
            i, stop = self.get(op.start), self.get(op.stop)
            step = op.step if isinstance(op.step, int) else self.get(op.step)
            while i < stop if step > 0 else i > stop:
                self.values[op.iv.id] = i
                if self.left(op, op.body) == "break":
                    break
                i += step
        elif isinstance(op, ops.Loop):
            while self.left(op, op.body) != "break":
                pass
        elif isinstance(op, ops.Scope):
            self.left(op, op.body)
        elif isinstance(op, ops.Exit):
            raise Leaving(op.kind, op.target)

    def left(self, op: ops.Op, body: Block) -> str:
        try:
            self.run(body)
        except Leaving as leaving:
            if leaving.target is not op:
                raise
            return leaving.kind
        return ""


def printed(count):
    """Each program and its text."""
    return [(func, print_kernel(func)) for func in (Generator(seed).func for seed in range(count))]


def compiled(programs, folder):
    """One library of all of them: ``fuzz_0``, ``fuzz_1``, ..."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler, "no host C++ compiler"
    texts = [re.sub(r"\bfloor_(div|mod)\b", rf"floor_\1_{i}", re.sub(r"\bfuzz\(", f"fuzz_{i}(", one.source))
             for i, (_, one) in enumerate(programs)]
    (folder / "fuzz.cpp").write_text("\n".join([SHIM, *texts]))
    subprocess.run([compiler, "-O1", "-w", "-fwrapv", "-shared", "-fPIC", "-o", folder / "fuzz.so",
                    folder / "fuzz.cpp"], check=True, stderr=subprocess.DEVNULL)
    return ctypes.CDLL(str(folder / "fuzz.so"))


def agrees(library, i, func, one, n):
    """Whether the compiled program does what the interpreter does."""
    arrays = {"A": [(j * 7919 + n) % 23 - 11 for j in range(8)], "out": [j * 3 - 5 for j in range(24)],
              "reg": [0] * 4}
    native = [(ctypes.c_int * len(arrays[name]))(*arrays[name]) for name in ("A", "out")]
    getattr(library, f"fuzz_{i}")(*(native[slot.param] if slot.kind == "ptr" else n for slot in one.slots))
    Interpreter(func, n, arrays)
    return list(native[1]) == arrays["out"]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    if not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("no host C++ compiler")
    drawn = printed(PROGRAMS)
    return drawn, compiled(drawn, tmp_path_factory.mktemp("fuzz"))


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 3, -5, 7])
def test_printed_programs_do_what_the_ir_says(programs, n):
    drawn, library = programs
    for i, (func, one) in enumerate(drawn):
        assert agrees(library, i, func, one, n), f"seed {i}:\n{one.source}"
