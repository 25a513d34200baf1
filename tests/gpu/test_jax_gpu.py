"""moye.jax on a GPU: kernels on XLA's stream, in jit, scan and with donated arrays."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")     # torch has its share of the memory

import moye as mo
from export_kernels import BOXES, boxes
from moye.cuda.device import driver

jax = pytest.importorskip("jax")
jnp = jax.numpy
pytestmark = pytest.mark.skipif(jax.default_backend() != "gpu", reason="needs a JAX with CUDA")


@mo.kernel
def scaled(y, x, a):
    i = mo.block_idx().x * 256 + mo.thread_idx().x
    if i < mo.size(x):
        y[i] = x[i] * a


@mo.kernel
def added(y, x):
    i = mo.block_idx().x * 256 + mo.thread_idx().x
    if i < mo.size(x):
        y[i] += x[i]


def blocks(x):
    return mo.ceil_div(x.shape[0], 256)


def like(*shape, dtype="float32"):
    return jax.ShapeDtypeStruct(shape, dtype)


@pytest.mark.parametrize("n", [1, 1000, 1 << 20])
def test_between_operations_of_xla(n):
    f = mo.jax.call(scaled, like(n), grid=blocks, block=256, a=2.0)
    x = jax.random.normal(jax.random.key(0), (n,))
    found = jax.jit(lambda x: f(jnp.sin(f(x) + 1)) - x)(x)
    np.testing.assert_allclose(found, 2 * jnp.sin(2 * x + 1) - x, rtol=1e-5, atol=1e-6)


def test_in_a_scan_of_many_steps():
    f = mo.jax.call(added, like(4096), grid=blocks, block=256, input_output_aliases={0: 0})
    x = jnp.ones(4096)
    run = jax.jit(lambda y: jax.lax.scan(lambda c, _: (f(c, x), None), y, None, length=500)[0], donate_argnums=0)
    assert np.array_equal(run(jnp.zeros(4096)), np.full(4096, 500.0))


def test_donated_memory_is_written_in_place():
    f = jax.jit(mo.jax.call(added, like(4096), grid=blocks, block=256, input_output_aliases={0: 0}), donate_argnums=0)
    y, x = jnp.zeros(4096), jnp.ones(4096)
    place = y.unsafe_buffer_pointer()
    found = f(y, x)
    assert found.unsafe_buffer_pointer() == place and np.array_equal(found, x)


def test_bfloat16_and_several_shapes():
    for n in (64, 1000):
        f = mo.jax.call(added, like(n, dtype=jnp.bfloat16), grid=blocks, block=256, input_output_aliases={0: 0})
        x = jnp.arange(n, dtype=jnp.bfloat16)
        assert np.array_equal(jax.jit(f)(x, x), x + x)


@pytest.mark.skipif(driver.available() and int(driver.device_arch(0).strip("sm_af")) < 90, reason="needs sm_90")
def test_tensor_maps():
    def copied(dst, src):
        grid = mo.ceil_div(src.shape[0], 64), mo.ceil_div(src.shape[1], 32)
        boxes[grid, 32](mo.make_tma_copy(mo.TmaLoad(), src, BOXES), mo.make_tma_copy(mo.TmaStore(), dst, BOXES))

    x = jax.random.normal(jax.random.key(1), (300, 100))
    assert np.array_equal(jax.jit(mo.jax.call(copied, like(300, 100)))(x), x)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_products_of_the_library(dtype):
    def product(C, A, B):
        mo.kernels.gemm(A, B.T, C)

    A, B = (jax.random.normal(jax.random.key(i), (1024, 1024), dtype) for i in range(2))
    f = jax.jit(mo.jax.call(product, like(1024, 1024, dtype=dtype)))
    exact = np.asarray(A, np.float64) @ np.asarray(B, np.float64)
    for _ in range(3):                                  # as it is, recorded, repeated
        C = np.asarray(f(A, B), np.float64)
        assert np.linalg.norm(C - exact) / np.linalg.norm(exact) < (1e-5 if dtype == "float32" else 5e-3)


def test_an_error_of_a_launch_comes_out_of_jax():
    def wrong(y, x):
        scaled[1 << 40, 256](y, x, 1.0)

    with pytest.raises(Exception, match="moye: scaled: grid"):
        jax.jit(mo.jax.call(wrong, like(64)))(jnp.zeros(64)).block_until_ready()


@pytest.mark.alone
def test_a_call_in_a_program_costs_little():
    """500 calls in one program; the limit is generous, the figure is printed."""
    f = mo.jax.call(added, like(256), grid=blocks, block=256, input_output_aliases={0: 0})
    x = jnp.ones(256)

    @jax.jit
    def run(y):
        for _ in range(500):
            y = f(y, x)
        return y

    run(jnp.zeros(256)).block_until_ready()
    start = time.perf_counter()
    run(jnp.zeros(256)).block_until_ready()
    each = (time.perf_counter() - start) / 500 * 1e6
    print(f"{each:.1f} us for each call of a kernel in a program of XLA")
    assert each < 200
