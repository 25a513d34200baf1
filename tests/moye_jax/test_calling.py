"""moye.jax.call on the host: XLA calls the handler, and the simulator runs the kernel."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import moye as mo

jax = pytest.importorskip("jax")
jnp = jax.numpy


@mo.kernel
def scaled(y, x, a):
    i = mo.block_idx().x * 128 + mo.thread_idx().x
    if i < mo.size(x):
        y[i] = x[i] * a


@mo.kernel
def both(total, product, x, y):
    i = mo.block_idx().x * 128 + mo.thread_idx().x
    if i < mo.size(x):
        total[i] = x[i] + y[i]
        product[i] = x[i] * y[i]


@mo.kernel
def added(y, x):
    i = mo.thread_idx().x
    y[i] += x[i]


@mo.kernel
def transposed(dst, src):
    i, j = mo.thread_idx().x, mo.thread_idx().y
    dst[j, i] = src[i, j]


def blocks(x):
    return mo.ceil_div(x.shape[0], 128)


def like(*shape, dtype="float32"):
    return jax.ShapeDtypeStruct(shape, dtype)


def doubled(n, **how):
    return mo.jax.call(scaled, like(n), grid=blocks, block=128, a=2.0, **how)


def test_eagerly_and_in_jit():
    f, x = doubled(1000), jnp.arange(1000, dtype=jnp.float32)
    assert np.array_equal(f(x), 2 * x)
    assert np.array_equal(jax.jit(lambda x: f(f(x) + 1) - 1)(x), 4 * x + 1)


def test_several_outputs_in_the_form_that_was_asked_for():
    x, y = jnp.arange(300, dtype=jnp.float32), jnp.full(300, 3, jnp.float32)
    total, product = mo.jax.call(both, (like(300), like(300)), grid=blocks, block=128)(x, y)
    assert np.array_equal(total, x + y) and np.array_equal(product, x * y)
    named = mo.jax.call(both, {"product": like(300), "total": like(300)}, grid=blocks, block=128)
    found = jax.jit(named)(x, y)
    assert sorted(found) == ["product", "total"]
    assert np.array_equal(found["total"], x + y) and np.array_equal(found["product"], x * y)


def test_arrays_are_row_major_and_may_be_bfloat16():
    x = jnp.arange(12, dtype=jnp.bfloat16).reshape(4, 3)
    f = mo.jax.call(transposed, like(3, 4, dtype=jnp.bfloat16), grid=1, block=(4, 3))
    assert np.array_equal(jax.jit(f)(x), x.T) and f(x).dtype == jnp.bfloat16


def test_an_aliased_output_begins_as_its_input():
    f = mo.jax.call(added, like(32), grid=1, block=32, input_output_aliases={0: 0})
    y, x = jnp.arange(32, dtype=jnp.float32), jnp.full(32, 5, jnp.float32)
    assert np.array_equal(jax.jit(f)(y, x), y + 5)
    assert np.array_equal(y, np.arange(32)), "an input that is not donated stays as it is"
    expected = np.asarray(y) + 5
    donated = jax.jit(f, donate_argnums=0)(y, x)
    assert np.array_equal(donated, expected)


def test_in_scan_and_while():
    f = mo.jax.call(added, like(32), grid=1, block=32, input_output_aliases={0: 0})
    x = jnp.arange(32, dtype=jnp.float32)

    @jax.jit
    def sums(xs):
        return jax.lax.scan(lambda carry, x: ((c := f(carry, x)), c), jnp.zeros(32), xs)

    last, all_of_them = sums(jnp.stack([x] * 5))
    assert np.array_equal(last, 5 * x) and np.array_equal(all_of_them, np.arange(1, 6)[:, None] * x)
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, 4, lambda i, c: f(c, x), x))
    assert np.array_equal(loop(x), 5 * x)


def test_gradients_by_custom_vjp():
    f = doubled(256)

    @jax.custom_vjp
    def double(x):
        return f(x)

    double.defvjp(lambda x: (f(x), None), lambda _, g: (f(g),))
    x = jnp.arange(256, dtype=jnp.float32)
    grad = jax.jit(jax.grad(lambda x: (double(x) ** 2).sum()))(x)
    assert np.array_equal(grad, 8 * x)


def test_vmap_in_turns():
    x = jnp.arange(600, dtype=jnp.float32).reshape(3, 200)
    assert np.array_equal(jax.vmap(doubled(200, vmap_method="sequential"))(x), 2 * x)


def test_a_host_function_launches_by_itself():
    def twice(out, x, a):
        scaled[blocks(x), 128](out, x, a)
        scaled[blocks(x), 128](out, out, a)

    x = jnp.arange(300, dtype=jnp.float32)
    assert np.array_equal(jax.jit(mo.jax.call(twice, like(300), a=3.0))(x), 9 * x)


@pytest.mark.parametrize("dtype, M, N, K", [("float32", 64, 48, 40), ("bfloat16", 65, 48, 32)])
def test_products_of_the_library(dtype, M, N, K):
    def product(C, A, B):
        mo.kernels.gemm(A, B.T, C)

    A = jax.random.normal(jax.random.key(0), (M, K), dtype)
    B = jax.random.normal(jax.random.key(1), (K, N), dtype)
    C = jax.jit(mo.jax.call(product, like(M, N, dtype=dtype)))(A, B)
    exact = np.asarray(A, np.float64) @ np.asarray(B, np.float64)
    assert np.abs(np.asarray(C, np.float64) - exact).max() < (1e-4 if dtype == "float32" else 0.1)


def test_tensor_maps_are_made_by_a_host_function():
    from export_kernels import BOXES, boxes

    def copied(dst, src):
        boxes[(2, 2), 32](mo.make_tma_copy(mo.TmaLoad(), src, BOXES), mo.make_tma_copy(mo.TmaStore(), dst, BOXES))

    x = jnp.arange(100 * 36, dtype=jnp.float32).reshape(100, 36)
    assert np.array_equal(mo.jax.call(copied, like(100, 36))(x), x)


def test_empty_arrays_and_grids():
    assert doubled(0)(jnp.zeros(0)).shape == (0,)


def test_many_threads():
    f, failed = jax.jit(doubled(512)), []

    def run(i):
        x = jnp.full(512, i, jnp.float32)
        failed.extend([] if all(np.array_equal(f(x), 2 * x) for _ in range(5)) else [i])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_equal_calls_are_one():
    def made():
        return mo.jax.call(scaled, like(64), grid=lambda x: blocks(x), block=128, a=2.0)

    assert made() is made() is not doubled(64)
    assert doubled(64) is not doubled(65)


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make, message", [
    (lambda: mo.jax.call(scaled, like(8), grid=1), "the kernel scaled needs grid= and block="),
    (lambda: mo.jax.call(blocks, like(8), grid=1, block=32), "takes a kernel with grid= and block=, or a host"),
    (lambda: mo.jax.call(lambda *arrays: None, like(8)), r"<lambda>\(\*arrays\): name each parameter"),
    (lambda: mo.jax.call(scaled, like(8), grid=1, block=32, b=1), r"scaled\(y, x, a\) has no parameter 'b'"),
    (lambda: mo.jax.call(scaled, [], grid=1, block=32, a=1.0), r"out_shapes has a jax.ShapeDtypeStruct for each"),
    (lambda: mo.jax.call(scaled, like(8), grid=1, block=32)(jnp.zeros(8)), "does not take 1 as outputs and 1 inputs"),
    (lambda: mo.jax.call(scaled, {"z": like(8)}, grid=1, block=32, a=1.0)(jnp.zeros(8)), "does not take z as outputs"),
    (lambda: doubled(8, input_output_aliases={1: 0})(jnp.zeros(8)), r"input_output_aliases {1: 0} of 1 inputs and 1"),
    (lambda: mo.jax.call(scaled, like(8), grid=lambda z: z, block=32, a=1.0)(jnp.zeros(8)), "grid= asks for 'z'"),
    (lambda: doubled(8)(jnp.zeros(8, jnp.complex64)), "a JAX array: .*complex64"),
])
def test_refusals(make, message):
    with pytest.raises(mo.ArgumentError, match=message):
        make()


def test_preconditions_are_told_while_jax_traces():
    @mo.kernel
    def whole(y, x):
        mo.copyto(mo.tile(y, (32,), (mo.thread_idx().x,)), mo.tile(x, (32,), (mo.thread_idx().x,)))

    f = mo.jax.call(whole, like(65), grid=1, block=2)
    with pytest.raises(mo.PreconditionError, match="65 in mode 0 is no multiple of 32"):
        jax.jit(f)(jnp.zeros(65))


def test_inputs_are_not_written():
    with pytest.raises(Exception, match="added writes argument 'y', which is read-only"):
        mo.jax.call(added, {"x": like(32)}, grid=1, block=32)
        mo.jax.call(lambda out, x: added[1, 32](x, out), like(32))(jnp.zeros(32)).block_until_ready()


def test_arrays_that_a_host_function_keeps_are_refused():
    """XLA gives their memory to others: a later launch wrote into these."""
    kept = []

    def keeps(y, x):
        kept.append((y, x.T))
        scaled[1, 128](y, x, 2.0)

    assert (mo.jax.call(keeps, like(32))(jnp.ones(32)) == 2).all()
    with pytest.raises(mo.ArgumentError, match="handed over for one call is used after that call"):
        scaled[1, 128](*kept[0], 2.0)


def test_aliases_are_numbers():
    with pytest.raises(mo.ArgumentError, match="input_output_aliases"):
        mo.jax.call(added, like(32), grid=1, block=32, input_output_aliases={"x": 0})(jnp.zeros(32))


def test_what_the_simulator_finds_comes_out_of_jax():
    @mo.kernel
    def outside(y, x):
        y[mo.thread_idx().x] = x[mo.thread_idx().x + mo.size(x) - 16]

    with pytest.raises(Exception, match="moye: B1: "):
        mo.jax.call(outside, like(32), grid=1, block=32)(jnp.zeros(32)).block_until_ready()


def test_a_program_of_another_process_is_refused():
    with pytest.raises(Exception, match="was compiled in another process"):
        from moye.jax import calling
        calling._registered()
        jax.ffi.ffi_call("moye_launch", like(8))(jnp.zeros(8), key="no-such-call").block_until_ready()
