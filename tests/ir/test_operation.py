"""The declaration of operations: what it refuses, what it generates, what traits say, that no back end lacks one."""

from __future__ import annotations

import dataclasses
import time

import pytest

import test_coverage_ops as coverage
from moye import dtypes as dt
from moye.cuda.printing import statements
from moye.dtypes import Space
from moye.errors import IRError
from moye.ir import ops
from moye.ir.nodes import Block, Buffer, Func, Index, Literal, Op, Operand, Ref, TileRef, Value
from moye.ir.operation import Role, attribute, block, operand, operation, read
from moye.ir.rules import RULES, broken
from moye.ir.traits import Trait, with_implied
from moye.layout import make_layout
from moye.sim.flow.roles import role_of
from moye.sim.flow.spins import quiet
from moye.sim.generate import control
from moye.sim.machine import waiters


def i32(n):
    return Literal(n, dt.int32)


def buffer(name, space=Space.SHARED, dtype=dt.uint64):
    return Buffer(name, space, dtype, 8, make_layout(8), align=16)


# --- what is refused -------------------------------------------------------------------------------------------------


def forgotten():
    class Teleport(Op):
        to: int
        where: Operand = operand()
    return Teleport


def plain_default():
    class Teleport(Op):
        to: int = 0
    return Teleport


def unused_values():
    class Teleport(Op):
        to: Operand = attribute()
    return Teleport


def unsaid_reference():
    class Teleport(Op):
        to: Ref = operand()
    return Teleport


def read_number():
    class Teleport(Op):
        to: int = read()
    return Teleport


def block_of_nothing():
    class Teleport(Op):
        body: Operand = block()
    return Teleport


def by_hand():
    class Teleport(Op):
        to: Operand = operand()

        def operands(self):
            yield self.to
    return Teleport


@pytest.mark.parametrize(("make", "text"), [
    (forgotten, "Teleport.to has no role"), (plain_default, "Teleport.to has no role"),
    (unused_values, "Teleport.to is attribute, but holds Literal, Value"),
    (unsaid_reference, "Teleport.to is operand, but holds Ref"),
    (read_number, "Teleport.to is read, but holds nothing of the IR"),
    (block_of_nothing, "Teleport.body is block, but holds Literal, Value"),
    (by_hand, "Teleport.operands is generated")], ids=lambda x: getattr(x, "__name__", ""))
def test_a_declaration_that_says_too_little_is_refused(make, text):
    with pytest.raises(TypeError, match=text):
        operation()(make())


def test_an_operation_that_nobody_knows_is_refused_everywhere(monkeypatch):
    """By each back end when it is imported, by the verifier when it sees one."""
    @operation(Trait.QUIET)
    class Teleport(Op):
        to: Operand = operand()

    monkeypatch.setattr(ops, "ALL", (*ops.ALL, Teleport))
    for who, table in (("printer", statements.PRINTERS), ("simulator", control.HANDLED), ("verifier", RULES)):
        with pytest.raises(IRError, match=f"the {who} has no function for Teleport"):
            ops.need_all(f"the {who}", table)
    assert broken(Teleport(to=i32(1))) == "the verifier has no rule for it"


# --- what is generated -----------------------------------------------------------------------------------------------


def scalars(x):
    """The operands in what a field holds, in order: a plain walk over values."""
    if isinstance(x, (Value, Literal)):
        yield x
    elif isinstance(x, Buffer):
        yield from scalars(x.base)
    elif isinstance(x, (Ref, TileRef)):
        yield from scalars(x.offset)
        yield from scalars(x.buffer.base)
        yield from scalars(getattr(x, "strides", ()))
    elif isinstance(x, Index):
        yield from scalars((x.offset, x.extent, x.strides))
    elif isinstance(x, tuple):
        for part in x:
            yield from scalars(part)


def held(x, kinds):
    """What of these classes a field holds."""
    if isinstance(x, kinds):
        yield x
    elif isinstance(x, tuple):
        for part in x:
            yield from held(part, kinds)


def walked(op):
    """What the methods of an op should give, from the roles of its fields."""
    fields = [(each.metadata["role"], each.metadata["rule"], getattr(op, each.name))
              for each in dataclasses.fields(op) if "role" in each.metadata]
    references = (Role.READ, Role.WRITTEN, Role.UPDATED, Role.RULED)
    reads = [(ref, False) for role, _, x in fields if role is Role.READ for ref in held(x, (Ref, TileRef))]
    writes = [(ref, how) for role, rule, x in fields for ref in held(x, (Ref, TileRef))
              for how in {Role.WRITTEN: (True,), Role.UPDATED: (False, True),
                          Role.RULED: (rule is not None and rule(op),)}.get(role, ())]
    return {
        "operands": [o for role, _, x in fields if role in (Role.OPERAND, *references) for o in scalars(x)],
        "refs": reads + writes,
        "blocks": [b for role, _, x in fields if role is Role.BLOCK for b in held(x, Block)],
        "given": [v for role, _, x in fields if role is Role.GIVEN for v in held(x, Value)],
        "computed": [o for role, _, x in fields if role is Role.COMPUTED for o in scalars(x)],
        "defines": next((x for role, _, x in fields if role is Role.DEFINED), None),
    }


def same(a, b):
    return a is b or (isinstance(a, tuple) and len(a) == len(b) and all(map(same, a, b)))


@pytest.mark.slow
def test_methods_are_what_the_roles_say():
    """Of each op of every kernel of ``ops_kernels.py``, and of every class."""
    seen = set()
    for func in [*coverage.traced().values(), *coverage.elsewhere()]:
        for op in func.body.walk():
            seen.add(type(op))
            for name, wanted in walked(op).items():
                found = getattr(op, name)()
                if name != "defines":
                    assert same(tuple(found), tuple(wanted)), (name, op)
                else:
                    assert found is wanted
                    assert found is None or found.op is op
    assert seen == set(ops.ALL)


def test_a_value_knows_its_op():
    value, again = Value(dt.int32), Value(dt.int32)
    op = ops.Cast(result=value, a=i32(3))
    assert value.op is op
    copy = dataclasses.replace(op, result=again)
    assert again.op is copy
    assert value.op is op


def test_generated_methods_cost_no_more_than_by_hand():
    """Against the same lines in a class of its own; the fastest of many runs."""
    @dataclasses.dataclass(slots=True)
    class ByHand:
        a: Operand
        b: Operand

        def operands(self):
            yield from (self.a, self.b)

    def fastest(op):
        times = []
        for _ in range(200):
            start = time.perf_counter()
            for _ in range(100):
                list(op.operands())
            times.append(time.perf_counter() - start)
        return min(times)

    a, b = i32(1), i32(2)
    assert fastest(ops.Binary(result=Value(dt.int32), kind="add", a=a, b=b)) < 1.3 * fastest(ByHand(a, b))


# --- traits ----------------------------------------------------------------------------------------------------------


def test_traits_follow_from_others():
    assert with_implied(Trait.ARITHMETIC) == {Trait.ARITHMETIC, Trait.PURE, Trait.SPECULATIVE, Trait.REMOVABLE,
                                              Trait.QUIET}
    assert with_implied() == frozenset()


@pytest.mark.parametrize("trait", Trait, ids=lambda trait: trait.name)
def test_every_trait_tells_classes_apart(trait):
    having = [each for each in ops.ALL if trait in each.traits]
    assert 0 < len(having) < len(ops.ALL)


def test_traits_agree_with_roles():
    """What the fields say and what the class says of itself."""
    for each in ops.ALL:
        roles = {f.metadata.get("role") for f in dataclasses.fields(each)}
        assert Trait.REMOVABLE not in each.traits or Role.DEFINED in roles, each
        assert Trait.WRITER not in each.traits or roles & {Role.WRITTEN, Role.UPDATED}, each
        assert Trait.PURE not in each.traits or not roles & {Role.READ, Role.WRITTEN, Role.UPDATED, Role.BLOCK}, each
        assert (Role.BLOCK in roles) == bool(each.traits & {Trait.REGION, Trait.POINTWISE}), each
        assert Trait.ACTS_WHEN_MET not in each.traits or Trait.WAITS in each.traits, each


def test_tables_of_one_function_are_complete():
    assert set(waiters.NAMES) == {each for each in ops.ALL if Trait.MEETS_WARP in each.traits}


def branch(then, orelse, *more):
    tid = Value(dt.int32)
    first = ops.Special(result=tid, kind="thread_x")
    cond = ops.Binary(result=Value(dt.bool_), kind="lt", a=tid, b=i32(32))
    split = ops.If(cond=cond.result, then=Block(then), orelse=Block(orelse))
    return split, Func("f", [], Block([first, cond, split, *more]), (64, 1, 1))


def test_roles_talk_by_bulk_copies_too():
    """One side only begins copies, the other one waits for them: both are roles."""
    bar, tile, source = buffer("bar"), buffer("tile", dtype=dt.float32), buffer("x", Space.GLOBAL, dt.float32)
    begins = ops.BulkCopy(kind="load", dst=Ref(tile, i32(0), dt.float32), src=Ref(source, i32(0), dt.float32),
                          bytes=i32(32), run=32, barrier=Ref(bar, i32(0), dt.uint64))
    waits = ops.MbarrierWait(ref=Ref(bar, i32(0), dt.uint64), parity=i32(0))
    sync = ops.SyncThreads()
    split, func = branch([begins, sync], [waits])
    assert role_of(func, sync) is split


def test_a_loop_that_maps_shared_memory_is_quiet():
    """The address of another block's memory changes nothing: such a loop that never ends is found."""
    flag = buffer("flag")
    mapped = ops.MapShared(result=Value(dt.uint32), buffer=flag, rank=i32(1))
    assert quiet(ops.Loop(body=Block([mapped])))
    assert not quiet(ops.Loop(body=Block([mapped, ops.BulkCommit()])))


# --- rules of single operations --------------------------------------------------------------------------------------

X = buffer("x", dtype=dt.int32)
AT = Ref(X, i32(0), dt.int32)
ROWS = TileRef(X, i32(0), dt.int32, (1,))


@pytest.mark.parametrize(("op", "text"), [
    (ops.Shuffle(result=Value(dt.int32), kind="idx", value=i32(1), lane=i32(0), width=3), "segments of 3 lanes"),
    (ops.Shuffle(result=Value(dt.int64), kind="idx", value=i32(1), lane=i32(0)), "a shuffle of int32 gives int64"),
    (ops.Shuffle(result=Value(dt.int32), kind="left", value=i32(1), lane=i32(0)), "unknown kind 'left'"),
    (ops.Vote(result=Value(dt.bool_), kind="ballot", pred=Literal(True, dt.bool_)), "ballot of bool gives bool"),
    (ops.SyncWarp(mask=0), "the lanes 0x0"), (ops.Fence(order="strong", scope="gpu"), "unknown order 'strong'"),
    (ops.Load(result=Value(dt.int32), ref=AT, order="acquire", scope="host"), "unknown scope 'host'"),
    (ops.Atomic(result=Value(dt.int32), kind="nand", ref=AT, value=i32(1)), "unknown kind 'nand'"),
    (ops.Atomic(result=Value(dt.int32), kind="add", ref=AT, value=i32(1), compare=i32(0)), "cas compares"),
    (ops.Atomic(result=Value(dt.int64), kind="add", ref=AT, value=i32(1)), "int64 for an element of int32"),
    (ops.Reduce(result=Value(dt.int32), kind="mean", src=ROWS, extents=(8,)), "unknown kind 'mean'"),
    (ops.Reduce(result=Value(dt.float32), kind="add", src=ROWS, extents=(8,)), "reduces int32 to float32"),
    (ops.CpAsyncWait(pending=-1), "waits for all but -1 groups"),
    (ops.Print(parts=("x", i32(1)), formats=("%d", "%d")), "2 formats for 1 values"),
    (ops.Exit(kind="leave", target=ops.Loop(body=Block())), "leave of a Loop"),
    (ops.Alloc(buffer=Buffer("g", Space.GLOBAL, dt.int32, None, make_layout(1), align=4)), "has no static size")],
    ids=lambda x: type(x).__name__ if isinstance(x, Op) else "")
def test_what_is_wrong_with_an_op(op, text):
    assert text in broken(op)


def test_nothing_is_wrong_with_the_ops_of_kernels():
    assert not [op for func in coverage.traced().values() for op in func.body.walk() if broken(op)]
