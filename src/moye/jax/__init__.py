"""Kernels as functions of JAX: in ``jax.jit``, ``lax.scan`` and with donated arrays, on CUDA and in the simulator.

In: a kernel, and what it computes.  Out: a function of JAX arrays.

    scaled = moye.jax.call(scale_kernel, jax.ShapeDtypeStruct((1024,), "float32"), grid=4, block=256, factor=2.0)
    y = jax.jit(scaled)(x)

It is a custom call of XLA.  ``calling`` makes it, and ``frames`` reads what XLA hands over.
"""

from moye.jax.calling import call

__all__ = ["call"]
