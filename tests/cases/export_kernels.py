"""Kernels that are exported as C: one for each way to launch.

In: nothing.  Out: ``saxpy``, ``boxes`` (TMA), ``across`` (clusters), ``meet`` (a grid that meets).

Their C is called in tests/runtime on a driver that is not there, and in tests/gpu on a device.
"""

from __future__ import annotations

import moye as mo

BOXES = mo.tile_to_shape(mo.smem_layout_atom(mo.float32, "k"), (64, 32))


@mo.kernel
def saxpy(y, x, a):
    i = mo.block_idx().x * 256 + mo.thread_idx().x
    if i < mo.size(x):
        y[i] = a * x[i] + y[i]


@mo.kernel
def boxes(load, store):
    bM, bN = load.tile
    bx, by, _ = mo.block_idx()
    smem = mo.shared_array(load.dtype, load.smem_layout)
    arrived = mo.mbarrier_array(1)
    if mo.thread_idx().x == 0:
        mo.mbarrier_init(arrived, 0, 1)
        mo.fence_mbarrier_init()
        mo.mbarrier_arrive_expect_tx(arrived, 0, load.bytes)
        mo.copyto(load, smem, mo.tile(load.tensor, (bM, bN), (bx, by)), barrier=(arrived, 0))
        mo.mbarrier_wait(arrived, 0, 0)
        mo.copyto(store, mo.tile(store.tensor, (bM, bN), (bx, by)), smem)
        mo.tma_store_arrive()
        mo.tma_store_wait(0)


@mo.kernel
def across(y):
    """Each block writes the rank of its cluster's first block, which is 0."""
    part = mo.shared_array(mo.float32, 1)
    if mo.thread_idx().x == 0:
        part[0] = mo.float32(mo.cluster_rank())
    mo.cluster_sync()
    if mo.thread_idx().x == 0:
        y[mo.block_idx().x] = mo.map_shared_rank(part, 0)[0]
    mo.cluster_sync()


@mo.kernel
def meet(z, y):
    """Each block reads what the next one wrote."""
    block, first = mo.block_idx().x, mo.thread_idx().x == 0
    if first:
        y[block] = mo.float32(block)
    mo.grid_sync()
    if first:
        z[block] = y[(block + 1) % mo.grid_dim().x]


@mo.kernel
def follows(y):
    """What the launch before left, and one more."""
    mo.griddepcontrol_wait()
    if mo.thread_idx().x == 0:
        y[mo.block_idx().x] += 1
