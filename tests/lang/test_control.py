"""Control flow of kernels: what the traced function computes is what Python computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import moye as mo
from moye.errors import TraceError
from moye.ir import ops
from moye.ir.verify import verify
from moye.lang.signature import ScalarSpec, TensorSpec
from moye.lang.trace import trace as trace_function
from plain_and_traced import Fault, agree, run, trace, traced

# --- functions that run both ways ------------------------------------------------------------------------------------


def sum_to(n, step):
    total = 0
    for i in range(0, n, 3):
        total = total + i * step
    return total


def countdown(n, m):
    total, seen = 0, 0
    for i in range(n, m, -2):
        total = total * 3 + i
        seen += 1
    return total, seen


def nested(n, m):
    total = 0
    for i in range(n):
        for j in range(i, m):
            if (i + j) % 2 == 0:
                total += i * j
            elif j % 3 == 0:
                total -= j
            else:
                total ^= i
    return total


def swaps(n, m):
    a, b = 0, 1
    for i in range(n):
        if i % m != 1:
            a, b = b, a + b
    return a, b


def collatz(n, limit):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
        if steps >= limit:
            break
    return steps, n


def forever(n, m):
    i = 0
    while True:
        if i * i >= n:
            break
        i += m
    return i


def early(n, m):
    if n < 0:
        return -1
    if m == 0:
        return -2
    return n // m


def early_in_loop(n, m):
    for i in range(n):
        for j in range(m):
            if i * j == 6:
                return i * 10 + j
            if j > i:
                break
        if i == 7:
            return 700
    return -1


def continues(n, m):
    total = 0
    for i in range(n):
        if i % m == 0:
            continue
        if i > 20:
            if i % 2:
                continue
            else:
                break
        total += i
    return total


def both_arms_leave(n, m):
    total = 0
    for i in range(n):
        total += 1
        if i == m:
            break
        else:
            total += 10
            continue
    return total


def one_arm(n, m):
    x = 5
    if n > m:
        x = n * 2
        if m > 2:  # noqa: SIM108
            y = x + 1
        else:
            y = x - 1
        x = y
    return x


def last_index(n, m):
    i = -1
    k = 0
    for i in range(n):
        if i > m:
            k = i
    return i, k


def rotate(n, m):
    a, b, c = 1, 2, 3
    for _ in range(n):
        a, b, c = c, a, b
        if m > 2:
            b, c = c, b
    return a * 100 + b * 10 + c


def stages(n, m):
    stage, phase, total = 0, 0, 0
    for i in range(n):
        total += (stage + 1) * (phase + 2) * (i + m)
        stage = (stage + 1) % 3
        if stage == 0:
            phase ^= 1
    return total, stage, phase


def chain_of_facts(n, m):
    a, b, c, d, e, f = 0, 0, 0, 0, 0, 0
    for _ in range(n):
        f = e
        e = d
        d = c
        c = b
        b = a
        a = a + m
    return a % 8 + 8 * (f % 8), f, e


def restored(n, m):
    x = n
    for i in range(n):
        saved = x
        if i % 2 == m:
            x = x + 5
        if x > 40:
            x = saved
            break
    return x


def restored_inside(n, m):
    x, seen = n, 0
    for i in range(n):
        saved = x
        if i % 2 == 0:
            if i > m:
                x = x + 7
            seen += x
            x = saved
            if i > 6:
                break
        x += 1
    return x, seen


def while_and(n, m):
    i, total = 0, 0
    while i < n and total < m:
        i += 1
        total += i if i % 2 else 2 * i
    return i, total


def nested_while(n, m):
    total = 0
    i = n
    while i > 0:
        j = i
        while j > m:
            if j == 5:
                j -= 2
                continue
            total += j
            j -= 1
        i -= 1
    return total


def negative_range(n, m):
    total = 0
    for i in range(-n, n, 2):
        total += (i // 3) * 5 + i % 3 + (-i) // 4 + (i - 1) % 7
    return total + m


def strides(n, m):
    total, last = 0, -1
    for i in range(m, n, max(m - 2, 1)):
        if i % 5 == 4:
            continue
        for j in range(i % 2, i, max(i // 4, 1)):
            total = total * 3 % 1009 + j
            if j > 11:
                break
        last = i
    return total, last


BOTH = [sum_to, countdown, nested, swaps, collatz, forever, early, early_in_loop, continues, both_arms_leave, one_arm,
        last_index, rotate, stages, chain_of_facts, restored, restored_inside, while_and, nested_while, negative_range,
        strides]
NUMBERS = [(0, 1), (1, 1), (2, 2), (5, 3), (9, 2), (12, 4), (27, 111), (31, 5)]


@pytest.mark.parametrize(("step", "message"), [
    (lambda n: n, "range: the step n is not known to be positive"),
    (lambda n: 0, "range: the step 0 is no integer other than 0"),
    (lambda n: 1.5, "range: the step 1.5 is no integer other than 0")])
def test_a_step_that_may_stand_still(step, message):
    def counts(n):
        for _ in range(0, 8, step(n)):
            mo.sync_threads()

    with pytest.raises(TraceError) as caught:
        mo.kernel(counts).trace(3, block=32)
    assert caught.value.message == message


def turns_by_an_array(n, x):
    for _ in range(n):
        mo.sync_threads()


def place_by_an_array(n, x):
    x[n] = 0.0


def turns_by_a_float(n, x):
    for _ in range(x[0]):
        mo.sync_threads()


@pytest.mark.parametrize(("kernel", "hint"), [
    (turns_by_an_array, "t[0] where it has no other"), (place_by_an_array, "t[0] where it has no other"),
    (turns_by_a_float, "int(...) converts")])
def test_an_array_of_one_element_is_no_number(kernel, hint):
    """Such as torch gives for a number: what to say is told."""
    with pytest.raises(mo.MoyeError) as caught:
        mo.kernel(kernel).trace(np.array(3), np.zeros(4, np.float32), block=32)
    assert hint in caught.value.hint


@mo.kernel
def strides_in_blocks(out, a, b, s):
    """What is assumed of a step holds until its block ends."""
    n, last = 0, -1
    for _ in range(2):
        if b > 0:
            mo.assume(s > 0)
            for i in range(a, b, s):
                n, last = n + 1, i
        s = s + 1
    out[0], out[1] = n, last


def test_steps_that_are_assumed_inside_of_blocks():
    out = np.zeros(2, np.int32)
    strides_in_blocks[1, 1](out, -3, 11, 4)
    assert out.tolist() == [len(range(-3, 11, 4)) + len(range(-3, 11, 5)), range(-3, 11, 5)[-1]]


@pytest.mark.parametrize("dtype", [mo.int8, mo.uint8, mo.uint16, mo.int32, mo.uint32, mo.int64])
def test_steps_of_every_integer(dtype):
    """Wide enough a loop to hold the step: one of 3000000000 is not negative."""
    @mo.kernel
    def counts(out, x, a, b):
        step, n = x[0], 0
        mo.assume(step > 0)
        for _ in range(a, b, step):
            n += 1
        out[0] = n

    for step in (1, 3, 200, 3_000_000_000):
        if step < 1 << dtype.bits - (dtype.name[0] == "i"):
            out = np.zeros(1, np.int32)
            counts[1, 1](out, np.array([step], dtype.name), -5, 9)
            assert out[0] == len(range(-5, 9, step)), step


def test_a_step_of_uint64():
    @mo.kernel
    def counts(out, x):
        step = x[0]
        mo.assume(step > 0)
        for i in range(0, 8, step):
            out[i] = 1

    with pytest.raises(TraceError, match=r"^range: the step step is a uint64, and loops count in int64 at most"):
        counts.trace(mo.TensorLike(mo.int32, (8,)), mo.TensorLike(mo.uint64, (1,)), block=1)


@pytest.mark.parametrize("unroll", ["4", 1.5, 0, -1, 1 << 31, [2]])
def test_a_factor_that_no_loop_has(unroll):
    """It went to the text of the pragma as it was."""
    def counts(n):
        for _ in mo.range(n, unroll=unroll):
            mo.sync_threads()

    with pytest.raises(TraceError) as caught:
        mo.kernel(counts).trace(3, block=32)
    assert caught.value.message == f"range: unroll={unroll!r} is no bool and no factor from 1 to 2147483647"


@mo.kernel
def persistent(out, n):
    for t in range(mo.block_idx().x, n, mo.grid_dim().x):
        out[t] = t % 7


def test_a_loop_over_a_grid():
    """The step is printed as it is, the variable is known not to be negative: C's own remainder."""
    out = np.full(20, -1, np.int32)
    persistent[3, 1](out, 17)
    assert out.tolist() == [t % 7 for t in range(17)] + [-1] * 3
    source = persistent.compile(out, 17, block=32, arch="sm_80").source
    assert "for (int t = (int)blockIdx.x; t < n; t += (int)gridDim.x) {\n" in source
    assert "t % 7" in source


@pytest.mark.slow
@pytest.mark.parametrize("fn", BOTH, ids=lambda f: f.__name__)
def test_agrees_with_python(fn):
    cases = [c for c in NUMBERS if fn is not collatz or c[0] > 0]
    agree(fn, *cases)


@mo.jit
def clamp(x, low, high):
    if x < low:
        return low
    if x > high:
        return high
    return x


@mo.jit
def digits(n):
    count = 1
    while n >= 10:
        n //= 10
        count += 1
    return count


@mo.jit
def power(x, n):
    return 1 if n == 0 else x * power(x, n - 1)


@mo.jit
def divmod_(a, b):
    if b == 0:
        return 0, 0
    return a // b, a % b


def callees(n, m):
    total = 0
    for i in range(n):
        q, r = divmod_(i * 7, m - 2)
        total += clamp(i * m, 3, 50) + digits(i * 37) + q - r
    return total, power(n, 3)


def test_device_functions_and_static_recursion():
    agree(callees, *NUMBERS)                            # outside a kernel they are the plain functions


def test_first_call_of_a_kernel_is_a_device_function_with_an_early_return():
    @mo.kernel
    def kernel(out, n):
        out[0] = clamp(n, 2, 4)
        out[1] = 7

    for n, expected in ((0, 2), (3, 3), (9, 4)):
        out = np.zeros(2, np.int32)
        run(kernel.trace(out, n, block=1), [out, n])
        assert list(out) == [expected, 7]


def test_nested_function_with_an_early_return():
    @mo.kernel
    def kernel(out, n):
        def inner(x):
            if x > 3:
                return x * 2
            return x

        out[0] = inner(n)
        out[1] = inner(n + 1)

    out = np.zeros(2, np.int32)
    run(kernel.trace(out, 3, block=1), [out, 3])
    assert list(out) == [3, 8]


def test_return_from_a_static_loop_stays_static():
    @mo.jit
    def first_over(x):
        for i in mo.static_range(10):
            if i * i > x:
                return i
        return -1

    @mo.kernel
    def kernel(out):
        for i in mo.static_range(first_over(10)):
            out[i] = i

    out = np.full(8, -1, np.int32)
    func = kernel.trace(out, block=1)
    assert not any(isinstance(op, (ops.For, ops.Read, ops.Scope)) for op in func.body.walk())
    run(func, [out])
    assert list(out) == [0, 1, 2, 3, -1, -1, -1, -1]


def test_kernel_returns_early():
    @mo.kernel
    def kernel(out, n):
        tid = mo.thread_idx().x
        if tid >= n:
            return
        for i in range(4):
            if i == tid:
                return
            out[tid] = out[tid] + 1
        out[tid] = 100

    out = np.zeros(8, np.int32)
    run(kernel.trace(out, 6, block=8), [out, 6])
    assert list(out) == [0, 1, 2, 3, 100, 100, 0, 0]


def test_static_range_with_static_break_and_continue():
    @mo.kernel
    def kernel(out):
        for i in mo.static_range(8):
            if i == 1:
                continue
            if i == 4:
                break
            out[i] = i * 10

    out = np.full(8, -1, np.int32)
    func = kernel.trace(out, block=1)
    assert not any(isinstance(op, (ops.If, ops.For)) for op in func.body.walk())
    run(func, [out])
    assert list(out) == [0, -1, 20, 30, -1, -1, -1, -1]


def test_break_out_of_an_unrolled_loop_under_a_traced_condition():
    def fn(n):
        i = 7
        for i in (0, 1, 2, 3):
            if n == i:
                break
        return n, i

    agree(fn, (0,), (2,), (3,), (5,))


# --- short circuit ---------------------------------------------------------------------------------------------------


def test_guarded_loads_do_not_run():
    def fn(x, n):
        a = n > 2 and x[n] > 10
        b = n <= 2 or x[n] < 100
        c = x[n] if n > 3 else -7
        d = 1 if 0 < n < x[n] else 0
        return a, b, c, d

    x = np.array([1, 2, 3, 4, 50], np.int32)
    for n in range(5):
        func, out = trace(fn, x, n)
        outcome = run(func, [out, x, n])
        expected = fn([int(v) for v in x], n)
        assert [int(v) for v in out[:4]] == [int(v) for v in expected], n
        loads = sum(name == "a" for name, _ in outcome.loads)
        assert loads == (2 if n > 2 else 0) + (n > 3) + (n > 0), n
    assert int(traced(fn, x, -5, guards=False)[2]) == -7            # out of bounds, if the load ran


def test_division_is_guarded():
    def fn(a, b):
        return (a // b if b != 0 else -1), b != 0 and a % b == 0

    agree(fn, (7, 2), (8, 2), (8, 0), (-9, 4))


def test_pure_conditions_stay_expressions():
    def fn(a, b):
        return 1 if a < b and b < 10 else 2

    func, _ = trace(fn, 3, 4)
    assert not any(isinstance(op, ops.If) for op in func.body.walk())


def test_not_and_chains():
    def fn(a, b):
        return not a < b, 0 <= a < b <= 10, not (a == 1 or b == 2), bool(a and b), bool(a or b)

    agree(fn, (0, 1), (1, 2), (3, 2), (5, 10), (-1, 4), (0, 0))


def test_and_or_give_the_operand_that_decides():
    def fn(a, b):
        return (a and b, a or b, (a and 3) + 1, (a % 3 or 5) * 2, a > 1 and b, a or b > 1, (a % 2 and b % 3) or 9,
                not (a % 2 and b % 2))

    agree(fn, *((a, b) for a in range(4) for b in range(4)))


def test_and_or_of_two_dtypes():
    def fn(a, b):
        return a % 2 and 1.5, a > 1 or 2.5, (a and b * 0.5) or 7

    agree(fn, *((a, b) for a in range(3) for b in range(3)), dtype=np.float64)


def test_an_operand_that_may_not_run_is_guarded():
    def fn(a, b):
        return (b and a // b, b == 0 or a % b, (b or 3) + (b and a // b))

    agree(fn, (7, 2), (7, 0), (-9, 4), (0, 0))


def test_operands_that_facts_decide_have_the_dtype_of_both():
    def fn(a, b):
        tid = mo.thread_idx().x
        return (tid < 1 and a), (tid or b), (tid > 1 or a), (tid > 1 and b) + 2

    expected = [5, 6, 5, 2]
    assert traced(fn, 5, 6)[:4] == expected

    @mo.kernel
    def dtypes(out, a: mo.int8):
        tid = mo.thread_idx().x
        assert (tid < 1 and a).dtype == mo.int8 and (tid > 1 and a).dtype == mo.int8 and (tid or a).dtype == mo.int32
        out[0] = 1

    dtypes[1, 1](np.zeros(1, np.int32), 3)


def test_a_scalar_or_something_else():
    def fn(a, b):
        return (a or None, b)

    with pytest.raises(mo.TraceError, match="a or None: one of both is the result"):
        trace(fn, 1, 2)


def test_membership_and_identity():
    def fn(a, b):
        return (a in (1, b, 5), a not in [1, b], a in {2, 7}, a is None, b is not None,
                1 if a in (3, 4) and b not in (0,) else 0)

    agree(fn, *((a, b) for a in range(6) for b in range(3)))

    def same(a):
        return (a > 1) is True

    with pytest.raises(mo.TraceError, match="a bool value is True: numbers of a kernel") as info:
        trace(same, 3)
    assert info.value.hint == "use =="


# --- carried values --------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass
class State:
    stage: Any
    phase: Any = 0

    def step(self):
        return State((self.stage + 1) % 4, self.phase + self.stage)


def carried_containers(n, m):
    pair, state, box, table = Pair(0, m), State(0), [m, 1], {"x": n, "y": 0}
    for i in range(n):
        if i % 2 == 0:
            pair = Pair(pair.b, pair.a + 1)
        state = state.step()
        box = [box[1], box[0] + i]
        table = {"x": table["x"] - 1, "y": table["y"] + table["x"]}
    return pair.a, pair.b, state.stage, state.phase, box[0], box[1], table["y"]


def test_carried_containers_and_dataclasses():
    agree(carried_containers, *NUMBERS)


def test_written_before_read_stays_static():
    @mo.kernel
    def kernel(out, n):
        frag = mo.fragment((4,), mo.int32)
        frag.fill(0)
        for _ in range(n):
            for k in mo.static_range(4):
                nxt = k + 1
                if k == 3:
                    nxt = 0
                frag[nxt] = frag[k] + 1                 # a register index: must be static
        for k in mo.static_range(4):
            out[k] = frag[k]

    out = np.zeros(4, np.int32)
    run(kernel.trace(out, 3, block=1), [out, 3])
    frag = [0] * 4
    for _ in range(3):
        for k in range(4):
            frag[(k + 1) % 4] = frag[k] + 1
    assert list(out) == frag


def test_carried_view():
    @mo.kernel
    def kernel(x, out, n):
        view = x[:, 0]
        other = x[:, 1]
        for i in range(n):
            out[i] = view[i % 2] * 10 + other[1]
            if i % 3 != 2:
                view, other = other, x[:, i % 4]
            else:
                view = x[:, 3]

    x = np.asfortranarray(np.arange(8, dtype=np.int32).reshape(2, 4))
    out, expected = np.zeros(9, np.int32), []
    run(kernel.trace(x, out, 9, block=1), [x, out, 9])
    view, other = x[:, 0], x[:, 1]
    for i in range(9):
        expected.append(view[i % 2] * 10 + other[1])
        view, other = (other, x[:, i % 4]) if i % 3 != 2 else (x[:, 3], other)
    assert list(out) == expected


@pytest.mark.parametrize("wide", [False, True])
def test_carried_view_in_a_tuple_with_either_index_width(wide):
    def kernel(x, out, n):
        both = (x[:, 0], 0)
        for i in range(n):
            view, count = both
            out[i] = view[0] + count
            if i > 0:  # noqa: SIM108
                both = (x[:, i % 3], count + 1)
            else:
                both = (x[:, 1], 5)

    tensor = TensorSpec(mo.int32, (None, None), (1, None), (1, 4), 16)
    flat = TensorSpec(mo.int32, (None,), (1,), (1,), 16)
    specs = {"x": tensor, "out": flat, "n": ScalarSpec(mo.int32)}
    func = trace_function(kernel, specs, block=(1, 1, 1), index_bits=64 if wide else 32).func
    verify(func)
    x, out = np.asfortranarray(np.arange(12, dtype=np.int32).reshape(4, 3)), np.zeros(5, np.int32)
    run(func, [x, out, 5])
    assert list(out) == [0, 6, 7, 9, 8]


def test_float_and_bool_variables():
    def fn(x, n):
        best, found, total = -1.0, False, 0.0
        for i in range(n):
            if x[i] > best:
                best = x[i]
            if x[i] == 3:
                found = True
            total += x[i] / 2
        return best, found, total

    x = np.array([1.5, 3, -2, 0.25], np.float32)
    for n in range(5):
        assert np.allclose(traced(fn, x, n, dtype=np.float64)[:3], [float(v) for v in fn(x, n)])


def test_conditional_expressions_of_views_and_tuples():
    def fn(x, n):
        row = x[0, :] if n > 1 else x[1, :]
        pair = (n, 1) if n > 2 else (0, n)
        return row[1], pair[0], pair[1]

    agree(fn, *((np.arange(6, dtype=np.int32).reshape(2, 3), n) for n in range(4)))


# --- facts -----------------------------------------------------------------------------------------------------------


def reads(func: Any, name: str) -> list[Any]:
    return [op.result for op in func.body.walk() if isinstance(op, ops.Read) and op.var.name == name]


def test_alignment_is_lost_where_the_body_loses_it():
    def fn(x, n):
        offset = 0
        for _ in range(n):
            x[offset] = 1
            offset = offset + 6
        return offset

    func, _ = trace(fn, np.zeros(64, np.int32), 4)
    assert {v.divisor for v in reads(func, "offset")} == {6}
    assert all(v.lower == 0 for v in reads(func, "offset"))


def test_stage_never_becomes_negative():
    func, _ = trace(stages, 3, 4)
    assert all(v.lower == 0 for v in reads(func, "stage"))


def test_loop_variable_knows_its_bounds():
    def fn(x):
        for i in range(4, 32, 4):
            x[i % 32] = i // 4
        return 0

    func, _ = trace(fn, np.zeros(64, np.int32))
    loop = next(op for op in func.body.walk() if isinstance(op, ops.For))
    assert (loop.iv.lower, loop.iv.upper, loop.iv.divisor) == (4, 31, 4)
    assert not any(isinstance(op, ops.Binary) and op.kind == "mod" for op in func.body.walk())


# --- errors ----------------------------------------------------------------------------------------------------------


def error(fn: Any, *args: Any) -> str:
    with pytest.raises(TraceError) as caught:
        trace(fn, *args)
    return str(caught.value)


def test_undefined_on_a_path():
    def late(n, m):
        for i in range(n):
            if i > 0:
                m = y + 1  # noqa: F821
            y = i  # noqa: F841
        return m

    text = error(late, 3, 4)
    assert "'y' has no value on some path" in text and "m = y + 1" in text

    def compared(n, m):
        for i in range(n):
            if i == y:  # noqa: F821
                m = 2
            y = i  # noqa: F841
        return m

    assert "'y' has no value" in error(compared, 3, 4)


def test_set_in_one_arm_only():
    def then(n, m):
        if n > m:
            v = n
        return v + 1

    def orelse(n, m):
        if n > m:
            pass
        else:
            v = n
        return v + 1

    def nested(n, m):
        if n > 0:
            m = m + 1
            if m > 1:
                v = n
        return v

    def stored(x, n):
        if n > 0:
            v = 1
        x[0] = v
        return n

    assert "the variable 'v' has no value where the condition n > m is false" in error(then, 3, 4)
    assert "has no value where the condition n > m is true" in error(orelse, 3, 4)
    assert "has no value where the condition m > 1 is false" in error(nested, 3, 4)
    assert "has no value where the condition n > 0 is false" in error(stored, np.zeros(4, np.int32), 4)

    def unused(n, m):
        if n > m:
            v = n
            m = v + 1
        for i in range(n):
            if i > 2:
                v = m
                m = v + i
        return m

    agree(unused, (5, 3), (3, 5), (0, 0))


def test_set_in_a_loop_only():
    def no_trips(n, m):
        for i in range(n):
            v = i + m
        return v

    def target(n, m):
        for i in range(n):
            m += i
        return i + m

    def condition(n, m):
        while n < m:
            v = n
            n += 1
        return v

    def skipped(n, m):
        for i in range(4):
            if i > n:
                continue
            v = i + m
        return v

    def left_before(n, m):
        while True:
            if n > m:
                break
            v = n
            n += 1
        return v

    for fn in (no_trips, condition):
        assert "the variable 'v' has no value where the loop before runs no iteration" in error(fn, 3, 4)
    assert "the variable 'i' has no value where the loop" in error(target, 3, 4)
    for fn in (skipped, left_before):
        assert "the variable 'v' has no value on some way out of the loop before" in error(fn, 3, 4)

    def always(n, m):
        for i in range(4):
            v = i + m
        for j in range(min(n, 0), 3):
            w = j * v
        while True:
            u = n
            if n >= m:
                break
            n += 1
        return v + w + u, i, j

    agree(always, (3, 4), (4, 3), (0, 9))


def test_structure_changes_in_a_loop():
    def fn(x, n):
        view = x[:, 0]
        for _ in range(n):
            view = x[0, :]
        return view[0]

    text = error(fn, np.zeros((4, 4), np.int32), 3)
    assert "the variable 'view' changes its structure" in text and "a view of a with layout (?" not in text
    assert "hint: keep one buffer with a stage mode" in text

    def kind(n, m):
        x = 0
        for _ in range(n):
            x = (x, m)
        return 0

    assert "a scalar before this loop, a tuple of 2 at the end of its body" in error(kind, 1, 2)


def test_dtype_changes_in_a_loop():
    def fn(n, m):
        x = 0
        for i in range(n):
            x = x + i * 0.5
        return x

    text = error(fn, 3, 4)
    assert "'x' is int32 before" in text and "float32 at the end" in text and "mo.float32(...)" in text

    def halves(n, m):
        x = mo.float32(0) if not mo.is_static(n) else 0.0
        for i in range(n):
            x = x + i * 0.5
        return x

    agree(halves, (4, 1), dtype=np.float64)


def test_return_dtypes_must_agree():
    @mo.jit
    def bad(n):
        if n > 0:
            return 0
        return n * 0.5

    assert "bad returns int32 on one path and float32 on another" in error(lambda n: bad(n), 1)


def test_missing_return():
    @mo.jit
    def bad(n):
        if n > 0:
            return 1

    assert "not on every path" in error(lambda n: bad(n), 1)


def test_undecorated_helpers_cannot_branch_on_traced_values():
    def helper(x):
        return 1 if x else 2

    def call(n):
        return (lambda y: helper(y > 2))(n)

    assert "@mo.jit" in error(call, 1)


def test_object_changed_in_a_loop_in_place():
    def fn(n, m):
        box = State(0)
        for i in range(n):
            box.stage = box.stage + i
        return box.stage + m

    agree(fn, (3, 4), (0, 4))


def test_register_tensor_index_must_be_static():
    def fn(n, m):
        frag = mo.fragment((4,), mo.int32)
        frag.fill(0)
        for i in range(4):
            frag[i] = m
        return frag[0]

    with pytest.raises(mo.TensorError, match="static_range"):
        trace(fn, 3, 4)


def test_static_integer_needed():
    def fn(n):
        return sum(mo.static_range(n))

    assert "static_range" in error(fn, 3)


def test_condition_of_a_while_becomes_traced_late():
    def fn(n):
        i = 0
        while i < 3:
            i = i + 1 if i < 1 else i + n
        return i

    agree(fn, (3,), (1,), (0 + 2,))


def test_probe_of_a_while_leaves_nothing_behind():
    def fn(n, m):
        i = 0
        while i < n * 2 + m:
            i += n * 2
        return i, n * 2 + m

    agree(fn, (3, 4), (1, 9))


def test_an_arm_puts_back_what_an_inner_if_changed():
    """The inner if assigns the loop's variable in place; the other arm assigns it, too."""
    def fn(x, n):
        value, total = x[0], x[0]
        for i in range(4):
            if i % 2 == 0:
                kept = value
                if x[i] > 0:
                    value = n
                total += value * (i + 1)
                value = kept
            else:
                value = value * 2
            value += 1
        return total, value

    agree(fn, (np.array([3, 1, 2, 5]), 7), (np.array([-1, 4, -2, 6]), 7), (np.array([2, 0, 9, 0]), 1))


def test_ranges_outside_of_for_are_pythons():
    def fn(n, m):
        values = [n + i for i in range(3)]
        total = sum(v * k for k, v in enumerate(values))
        for i, v in zip(range(2), values, strict=False):
            total += i * v
        return total, len(range(4)), max(range(m)) if isinstance(m, str) else 3

    agree(fn, (3, 4))
    assert "iterated over while tracing" in error(lambda n: sum(i for i in range(n)), 3)


def test_fault_of_the_oracle():
    with pytest.raises(Fault):
        traced(lambda n: 2**30 * n, 4)
