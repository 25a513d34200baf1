"""What a kernel's source cannot say: one clear sentence each, and nothing runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

import moye as mo

KERNELS = {}


def bad(kernel):
    """Collect a kernel that must be refused; its name is that of the golden file."""
    KERNELS[kernel.__name__] = kernel
    return kernel


# --- variables whose structure changes -------------------------------------------------------------------------------


@bad
@mo.kernel
def carries_two_buffers(x, y, n):
    stage = x
    for _ in range(n):
        stage = y
    x[0] = stage[0]


@bad
@mo.kernel
def carries_two_layouts(x, y, n):
    tile = mo.shared_array(mo.float32, (32, 8))
    part = tile[:, 0]
    for _ in range(n):
        part = tile[0, :]
    x[0] = part[0]


@bad
@mo.kernel
def rebinds_registers(x, y, n):
    total = mo.fragment(4, mo.float32)
    total.fill(0)
    for _ in range(n):
        total = total * 2
    x[0] = total[0]


@bad
@mo.kernel
def carries_int_then_float(x, y, n):
    total = 0
    for i in range(n):
        total = total + y[i]
    x[0] = total


@bad
@mo.kernel
def carries_none_then_scalar(x, y, n):
    last = None
    for i in range(n):
        last = y[i]
    x[0] = last


@bad
@mo.kernel
def arms_differ(x, y, n):
    if n > 2:  # noqa: SIM108
        pair = (x[0], x[1])
    else:
        pair = x[0]
    x[2] = pair


@bad
@mo.kernel
def set_in_one_arm(x, y, n):
    if n > 0:
        v = 1
    x[0] = v


@bad
@mo.kernel
def set_in_a_loop(x, y, n):
    for i in range(n):
        last = y[i]
    x[0] = last


# --- static where it must be -----------------------------------------------------------------------------------------


@bad
@mo.kernel
def loop_variable_in_registers(x, y, n):
    part = mo.fragment(4, mo.float32)
    for i in range(4):
        part[i] = x[i]


@bad
@mo.kernel
def loop_variable_slices_registers(x, y, n):
    part = mo.fragment((4, 2), mo.float32)
    part.fill(0)
    for i in range(2):
        mo.copyto(part[:, i], part[:, 0])


@bad
@mo.kernel
def loop_variable_as_extent(x, y, n):
    for i in range(4):
        mo.fragment((i, 2), mo.float32)


@bad
@mo.kernel
def loop_variable_as_count(x, y, n):
    for i in range(4):
        mo.cp_async_wait(i)


@bad
@mo.kernel
def loop_variable_in_tuple(x, y, n):
    steps = (1, 2, 4)
    for i in range(3):
        x[i] = steps[i]


@bad
@mo.kernel
def static_range_of_a_parameter(x, y, n):
    for i in mo.static_range(n):
        x[i] = 0


@bad
@mo.kernel
def static_index_outside(x, y, n):
    tile = mo.shared_array(mo.float32, (32, 8))
    tile[32, 0] = 1


def clamp(value):
    if value > 1:
        return 1
    return value


@bad
@mo.kernel
def undecorated_helper(x, y, n):
    tid = mo.thread_idx().x
    x[tid] = clamp(y[tid])


@bad
@mo.kernel
def python_math(x, y, n):
    x[0] = math.exp(y[0])


@bad
@mo.kernel
def numpy_function(x, y, n):
    x[0] = np.exp(y[0])


@bad
@mo.kernel
def has_no_value_behind_a_break(x, y, n):
    for i in mo.static_range(4):
        if y[i] > 0:
            break
        z = y[i]
    x[0] = z

# --- Python that a kernel cannot use ---------------------------------------------------------------------------------

@bad
@mo.kernel
def uses_try(x, y, n):
    try:
        x[0] = y[0]
    except ValueError:
        x[0] = 0


@bad
@mo.kernel
def uses_yield(x, y, n):
    yield x[0]


@bad
@mo.kernel
async def uses_async(x, y, n):
    x[0] = y[0]


@bad
@mo.kernel
def uses_for_else(x, y, n):
    for i in range(n):
        x[i] = 0
    else:
        x[0] = 1


launches = 0


@bad
@mo.kernel
def uses_global(x, y, n):
    global launches
    launches = 1


@bad
@mo.kernel
def uses_walrus_behind_and(x, y, n):
    if y[0] > 0 and (second := y[1]) > 0:
        x[0] = second


@bad
@mo.kernel
def returns_a_value(x, y, n):
    return x[0]


TABLE = [1, 2, 3]


@bad
@mo.kernel
def reads_mutable_global(x, y, n):
    x[0] = TABLE[0]


# --- tensors used as what they are not -------------------------------------------------------------------------------


@bad
@mo.kernel
def iterates_over_a_tensor(x, y, n):
    for value in y:
        x[0] = value


@bad
@mo.kernel
def asks_for_len(x, y, n):
    x[0] = len(y)


@bad
@mo.kernel
def slices_a_part(x, y, n):
    mo.copyto(x[0:4], y[0:4])


@bad
@mo.kernel
def adds_global_tensors(x, y, n):
    mo.copyto(x, x + y)


@bad
@mo.kernel
def copies_other_extents(x, y, n):
    mo.copyto(mo.fragment(4, mo.float32), mo.fragment(8, mo.float32))


@bad
@mo.kernel
def waits_for_a_negative_count(x, y, n):
    mo.cp_async_wait(-1)


# --- what Python would decide while tracing --------------------------------------------------------------------------


@bad
@mo.kernel
def chooses_items(x, y, n):
    x[0] = sum(y[i] for i in range(8) if y[i] > 0)


@bad
@mo.kernel
def asks_for_a_class(x, y, n):
    x[0] = y[0] if isinstance(n, int) else y[1]


@bad
@mo.kernel
def matches_truths(x, y, n):
    match (n > 2, 1):
        case (True, 1):
            x[0] = 1


@pytest.mark.parametrize("name", KERNELS)
def test_kernel(name, refuses):
    x, y = np.full(256, np.nan, np.float32), np.ones(256, np.float32)
    refuses(name, lambda: KERNELS[name][1, 256](x, y, 3), x)


def test_no_source(refuses):
    namespace = {"mo": mo}
    exec("@mo.kernel\ndef kernel(x):\n    x[0] = 1\n", namespace)
    x = np.full(256, np.nan, np.float32)
    refuses("no_source", lambda: namespace["kernel"][1, 256](x), x)


def test_lambda(refuses):
    refuses("kernel_of_a_lambda", lambda: mo.kernel(lambda x: x)[1, 256](np.zeros(1, np.float32)))


def test_outside_of_a_kernel(refuses):
    refuses("outside_of_a_kernel", lambda: mo.thread_idx())
