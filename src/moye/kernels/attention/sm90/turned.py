"""Values of 8 bits for wgmma, which multiplies them along K alone: contiguous along the keys.

In: V (dim_v, keys, heads, batch), contiguous along dim_v.  Out: T (places, dim_v, heads, batch), contiguous along
places, zeros behind the last key.

    turn_kernel[(2, heads, batch), 128](T, V, None)

Of each 16 keys, keys 2t, 2t + 1, 2t + 8 and 2t + 9 have places 4t to 4t + 3: see ``plan.py``.  Sequences of any lengths
begin at ``turned_begin``, so that each has whole groups of ``KEYS``.  A pass of its own moves 2 bytes for each element
of V, which is little beside products with thousands of queries, and leaves the warps that load to TMA.
"""

from __future__ import annotations

import moye as mo

KEYS, WIDTH, THREADS = 32, 4, 128
"""Keys and columns of V that a thread turns at a time; threads of a block."""


@mo.jit
def turned_begin(begin, batch):
    """The place at which the keys of a sequence begin, which begin at row ``begin`` of V: a multiple of ``KEYS``."""
    return (begin // KEYS + batch) * KEYS


@mo.kernel
def turn_kernel(T, V, offsets):
    """Groups of keys, one after the other, of a head and sequence; WIDTH columns of V for each thread."""
    mo.griddepcontrol_launch_dependents()
    x, head, batch = mo.block_idx()
    begin, keys, first, end, own = 0, mo.size(V, 1), 0, mo.size(T, 0) // KEYS, batch
    if offsets is not None:
        begin, own = offsets[batch], 0
        keys, first = offsets[batch + 1] - begin, turned_begin(begin, batch) // KEYS
        if batch + 2 < mo.size(offsets):                # the last one has all that is behind
            end = turned_begin(offsets[batch + 1], batch + 1) // KEYS
    across = mo.size(V, 0) // WIDTH
    count, work = end - first, mo.int32(x * THREADS) + mo.thread_idx().x
    mo.assume(across > 0)
    while work < count * across:
        group, piece = work // across, work % across
        held, turned = mo.fragment((WIDTH, KEYS), V.dtype), mo.fragment((KEYS, WIDTH), V.dtype)
        for k in mo.static_range(KEYS):
            key = group * KEYS + k
            mo.copyto(held[:, k], mo.tile(V[:, begin + key, head, own], (WIDTH,), (piece,)), pred=key < keys,
                      zero_fill=True)
        for place in mo.static_range(KEYS):
            turned[place, :][...] = held[:, place // 16 * 16 + place % 16 // 4 * 2 + place % 4 // 2 * 8 + place % 2]
        for d in mo.static_range(WIDTH):
            mo.copyto(mo.tile(T[:, piece * WIDTH + d, head, own], (KEYS,), (first + group,)), turned[:, d])
        work += mo.grid_dim().x * THREADS
