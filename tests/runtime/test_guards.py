"""What a trace assumes about arguments is checked at launch, with the argument's name and both values."""

from __future__ import annotations

import re

import numpy as np
import pytest

import moye as mo
from ir_interpreter import run
from moye.errors import LaunchError
from moye.runtime.guards import compile_guards


def check(kernel, *args, block=1, grid=(1, 1, 1)):
    """Only the guards of a launch."""
    func = kernel.trace(*args, block=block)
    slots = [n for a in args if isinstance(a, (np.ndarray, int))
             for n in ((*a.shape, *(s // a.itemsize for s in a.strides)) if isinstance(a, np.ndarray) else (a,))]
    compile_guards(func)(slots, grid)
    return func


def refused(text, kernel, *args, **options):
    with pytest.raises(mo.PreconditionError, match=re.escape(text)) as caught:
        check(kernel, *args, **options)
    return str(caught.value)


def test_a_tile_must_divide():
    @mo.kernel
    def kernel(A):
        mo.tile(A, (8, 4), (0, None))

    check(kernel, np.zeros((16, 12)))
    text = refused("the tile (8, 4) does not divide argument A: its extent 13 in mode 1 is no multiple of 4", kernel,
                   np.zeros((16, 13)))
    assert "mo.tile(A, (8, 4), (0, None))" in text


def test_block_indices_and_constants_lie_inside():
    @mo.kernel
    def kernel(A, B):
        tile = mo.tile(A, (8,), (mo.block_idx().x,))
        B[3, mo.block_idx().y] = tile[0]

    A, B = np.zeros(32), np.zeros((4, 2))
    check(kernel, A, B, grid=(4, 2, 1))
    text = refused("index 4 of A, mode 0, is outside its extent 4", kernel, A, B, grid=(5, 2, 1))
    assert "hint: launch as many blocks as there are tiles" in text
    refused("index 2 of B, mode 1, is outside its extent 2", kernel, A, B, grid=(4, 3, 1))
    refused("index 3 of B, mode 0, is outside its extent 3", kernel, A, B[:3], grid=(4, 2, 1))


def test_a_loop_over_one_tensor_indexes_another():
    @mo.kernel
    def kernel(A, B):
        gA, gB = mo.tile(A, (4,), (None,)), mo.tile(B, (4,), (None,))
        for k in range(mo.size(gA, 1)):
            A[k] = gA[0, k] + gB[0, k]

    check(kernel, np.zeros(32), np.zeros(40))
    text = refused("index 7 of gB (a view of B), mode 1, is outside its extent 6", kernel, np.zeros(32), np.zeros(24))
    assert "as many tiles along this mode as the loop has iterations" in text


PREFETCH = {
    "if k + 1 < n": lambda k, n: k + 1 < n, "if k < n - 1": lambda k, n: k < n - 1,
    "if n > k + 1": lambda k, n: n > k + 1, "if k != n - 1": lambda k, n: k != n - 1,
    "if not k >= n - 1": lambda k, n: k <= n - 2,
}


@pytest.mark.parametrize("condition", PREFETCH)
def test_a_condition_on_the_loop_variable_tightens_its_bound(condition):
    test = PREFETCH[condition]

    @mo.kernel
    def kernel(A, B, n):
        for k in range(n):
            if test(k, n):
                A[k] = B[k + 1]

    check(kernel, np.zeros(9), np.zeros(9), 9)
    check(kernel, np.zeros(8), np.zeros(9), 9)
    refused("index 8 of B, mode 0, is outside its extent 8", kernel, np.zeros(9), np.zeros(8), 9)


def test_conditions_that_say_nothing_about_the_variable_leave_it_to_the_simulator():
    @mo.kernel
    def kernel(A, B, n, flag):
        for k in range(n):
            if flag > 0:
                A[k] = B[k]
            if k >= flag:
                continue
            A[k] = B[k]
        for k in range(n):
            B[k] = 0
            if k == flag:
                break
        if flag > 2:
            for k in range(n):
                B[k] = 1

    assert not kernel.trace(np.zeros(4), np.zeros(4), 9, 0, block=1).guards


def test_a_guarded_kernel_may_have_more_blocks_than_tiles():
    @mo.kernel
    def kernel(A):
        bx = mo.block_idx().x
        if bx >= mo.size(A):
            return
        A[bx] = bx

    A = np.zeros(3)
    check(kernel, A, grid=(8, 1, 1))
    run(kernel.trace(A, block=1), [A], grid=(8, 1, 1))
    assert list(A) == [0, 1, 2]


def test_a_bounded_if_inside_a_longer_loop():
    @mo.kernel
    def kernel(A, n):
        for k in range(n):
            if k < 1000:
                A[k] = 1

    check(kernel, np.zeros(10), 10)
    refused("index 11 of A", kernel, np.zeros(10), 12)


def test_equal_guards_are_checked_once():
    @mo.kernel
    def kernel(A, n):
        stage = 0
        for _ in range(n):                          # traced more than once
            mo.tile(A, (8,), (0,))
            A[3] = stage
            stage = (stage + 3) % 7

    func = kernel.trace(np.zeros(16), 4, block=1)
    names = [g.message for g in func.guards]
    assert len(names) >= 2
    from moye.runtime import guards
    texts = {guards._python(g.cond, guards.slot_names(func)) for g in func.guards}
    assert len(texts) == 3                          # the tile, tile 0, element 3


def test_guards_need_no_ops_in_the_body():
    @mo.kernel
    def kernel(A):
        mo.tile(A, (8,), (mo.block_idx().x,)).fill(0)

    text = str([type(op).__name__ for op in kernel.trace(np.zeros(16), block=1).body.walk()])
    assert "Special" in text and text.count("Binary") == 1


def test_assumptions_under_a_condition():
    @mo.kernel
    def kernel(A, n):
        if n > 2:
            mo.tile(A, (8,), (0,))

    with pytest.raises(mo.FactError) as caught:
        kernel.trace(np.zeros(16), 4, block=1)
    assert "hint: say mo.assume(mo.size(A, 0) % 8 == 0) before" in str(caught.value)
    assert "{value}" not in str(caught.value)

    @mo.kernel
    def assumed(A, n):
        mo.assume(mo.size(A) % 8 == 0)
        if n > 2:
            mo.tile(A, (8,), (0,)).fill(1)

    check(assumed, np.zeros(16), 4)
    refused("an assumption of the kernel does not hold", assumed, np.zeros(15), 4)


def test_assumptions_that_arguments_cannot_express():
    @mo.kernel
    def kernel(A, lengths):
        n = lengths[0]
        view = mo.tile(A, (8,), (0,))
        mo.tile(mo.Tensor(A.buffer, 0, mo.make_layout((n,), (1,)), A.dtype), (8,), (0,))
        view.fill(0)

    with pytest.raises(mo.FactError, match="launch cannot check it"):
        kernel.trace(np.zeros(16), np.zeros(2, np.int32), block=1)


def test_assumed_facts_are_used():
    @mo.kernel
    def kernel(x, n, m):
        mo.assume(n % 4 == 0 and 0 <= n < 64)
        x[0] = n % 4
        x[1] = n // 64
        mo.assume(m <= n, "m is at most n")
        x[2] = mo.where(m < 100, 1, 0)

    func = check(kernel, np.zeros(4, np.int32), 12, 3)
    assert not any(type(op).__name__ in ("Binary", "Select") for op in func.body.walk())
    refused("m is at most n", kernel, np.zeros(4, np.int32), 12, 13)
    refused("assumption", kernel, np.zeros(4, np.int32), 13, 3)
    refused("assumption", kernel, np.zeros(4, np.int32), 64, 3)


def test_facts_assumed_under_a_condition_end_with_it():
    @mo.kernel
    def kernel(x, n):
        if n > 100:
            mo.assume(0 <= n < 200)
            x[0] = n // 200
        x[1] = n // 200

    func = kernel.trace(np.zeros(2, np.int32), 1000, block=1)
    assert sum(type(op).__name__ == "Binary" and op.kind == "floordiv" for op in func.body.walk()) == 1


def test_floats_are_never_guards():
    @mo.kernel
    def kernel(x, f):
        mo.assume(f > 0.1)
        x[0] = f

    func = kernel.trace(np.zeros(1, np.float32), 1.0, block=1)
    assert len(func.guards) == 1 and any(type(op).__name__ == "Assert" for op in func.body.walk())


def test_sixty_four_bit_coordinates_do_not_overflow():
    from moye.runtime.arrays import TensorLike

    @mo.kernel
    def kernel(x):
        mo.tile(x, (128,), (mo.block_idx().x,)).fill(0)

    func = kernel.trace(TensorLike(mo.int8, (1 << 32,)), block=1)
    assert func.index_bits == 64
    offsets = [op.dst.offset for op in func.body.walk() if type(op).__name__ == "Copy"]
    assert offsets[0].dtype is mo.int64 and offsets[0].op.a.dtype is mo.int64 and offsets[0].op.kind == "mul"


@mo.kernel
def first_of_each_block(out):
    if mo.thread_idx().x == 0:
        out[mo.block_idx().x] = mo.cluster_rank()


@pytest.mark.parametrize(("grid", "cluster", "message"), [
    (3, 2, r"cluster \(2, 1, 1\) does not divide grid \(3, 1, 1\)"),
    (32, 32, r"a cluster has 1 to 16 blocks, not \(32, 1, 1\)")])
@pytest.mark.parametrize("launch", [first_of_each_block.launch, first_of_each_block.prepare,
                                    lambda *args, **how: mo.check(first_of_each_block).launch(*args, **how)])
def test_clusters_divide_the_grid_in_the_simulator_too(launch, grid, cluster, message):
    """No device has the launch; the simulator gave blocks that do not exist."""
    with pytest.raises(LaunchError, match=f"^first_of_each_block: {message}"):
        launch(np.zeros(64, np.int32), grid=grid, block=32, cluster=cluster)


@pytest.mark.parametrize(("condition", "bad", "good"), [
    (lambda n, m: n % m == 0, (3, 0), (6, 3)), (lambda n, m: n // m > 0, (3, 0), (3, 1)),
    (lambda n, m: mo.ceil_div(n, m) > 0, (3, 0), (3, 2)), (lambda n, m: (n >> m) >= 0, (3, -1), (3, 1)),
    (lambda n, m: (n << m) > 0, (3, -1), (3, 4)), (lambda n, m: (n << m) > 0, (3, 10**9), (3, 4)),
    (lambda n, m: (n % (m - 4)) + 1 > 0, (3, 4), (3, 7)), (lambda n, m: mo.min(n // m, 5) >= 0, (7, 0), (7, 2)),
], ids=["mod", "floordiv", "ceil_div", "shr", "shl", "far shl", "inner", "min"])
def test_guards_that_have_no_value(condition, bad, good):
    """An assumption that divides by zero, or shifts by what is no count, does not hold."""
    @mo.kernel
    def kernel(x, n, m):
        mo.assume(condition(n, m), "what is assumed")
        x[0] = 1

    x = np.zeros(1, np.int32)
    kernel[1, 1](x, *good)
    with pytest.raises(mo.errors.PreconditionError, match="what is assumed"):
        kernel[1, 1](x, *bad)


def test_the_other_guards_are_still_judged():
    """The first broken assumption is told, whether it is false or has no value."""
    @mo.kernel
    def kernel(x, n, m):
        mo.assume(n > 0, "n is positive")
        mo.assume(n % m == 0, "m divides n")
        x[0] = 1

    x = np.zeros(1, np.int32)
    for n, m, told in ((0, 0, "n is positive"), (3, 0, "m divides n.*by zero"), (3, 2, "m divides n")):
        with pytest.raises(mo.errors.PreconditionError, match=told):
            kernel[1, 1](x, n, m)


def test_a_constant_that_only_some_launches_have():
    """A view of it is checked at launch, whatever the predicate of the copy says; under an if it is not."""
    @mo.kernel
    def masked(out, x, under: mo.Constexpr):
        r = mo.fragment((4,), mo.float32)
        r.fill(0)
        if not under or mo.size(x, 0) > 1:
            mo.copyto(r, mo.tile(x[1, None], (4,), (0,), ragged=True), pred=mo.size(x, 0) > 1)
        out[0] = r[0]

    x = np.ones((1, 4), np.float32)
    with pytest.raises(mo.PreconditionError, match="index 1 of x, mode 0, is outside its extent 1") as error:
        masked[1, 1](np.zeros(1, np.float32), x, False)
    assert error.value.hint == "if the access is guarded, take the view under an if, too"
    masked[1, 1](np.zeros(1, np.float32), x, True)
