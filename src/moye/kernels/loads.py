"""Loads that are on their way together, on the device.

In: register tensors that were just filled from memory.  Out: nothing; what is computed of them comes behind this point.

    in_flight(rX, rW)                        # neither waits for the other

The compiler would convert the first as soon as it is there, or read the last where it is used: a way to memory for
each.  Where many warps wait in turn that costs nothing, and saves registers.
"""

from __future__ import annotations

import moye as mo


@mo.jit
def in_flight(*held):
    """All of these (or None) are asked for before anything waits for a part of one."""
    mo.pin(*[as_words(values) for values in held if values is not None])


@mo.jit
def as_words(values):
    """A register tensor of 16-bit elements as it comes from memory: taking them apart would wait for it."""
    narrow = values.dtype.bits == 16 and mo.size(values) % 2 == 0
    return mo.recast(values, mo.uint32) if narrow else values
