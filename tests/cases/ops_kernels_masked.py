"""Copies under predicates of single elements, for ``CASES``: one wide access where all hold and the address allows it.

In: nothing.  Out: cases in ``CASES``: vectors of a ragged array, rows at every alignment, from memory to memory.
"""

from __future__ import annotations

import numpy as np

import moye as mo
from moye import dtypes as dt
from ops_kernels import THREADS, add, numpy_of, poison, values

ROWS = 9


@mo.kernel
def filled_kernel(kept, out, x, width: mo.Constexpr, other):
    """Where x has no more elements: out, which is longer, gets ``other``, and kept stays."""
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    gX, gK, cX = (mo.tile(t, (width,), (i,), ragged=True) for t in (x, kept, mo.identity_tensor(mo.shape(x))))
    inside = mo.elem_less(cX, mo.shape(x))
    held = mo.make_fragment_like(gX)
    mo.copyto(held, gX, pred=inside, other=other)
    mo.copyto(gK, held, pred=inside)
    mo.copyto(mo.tile(out, (width,), (i,)), held)


@mo.kernel
def rows_kernel(direct, out, x, width: mo.Constexpr):
    """Every row in vectors that begin at addresses of whole vectors, whatever the row begins at."""
    row, tid = mo.block_idx().x, mo.thread_idx().x
    n = mo.size(x, 1)
    lead = mo.misalignment(x[row, None])
    gX, gO, gD, cX = (mo.with_lead(t, lead) for t in (x[row, None], out[row, None], direct[row, None],
                                                      mo.identity_tensor((n,))))
    for i in mo.range(tid, mo.ceil_div(n + lead, width), THREADS):
        tX, tO, tD, tC = (mo.tile(t, (width,), (i,), ragged=True) for t in (gX, gO, gD, cX))
        inside = mo.inside(tC, (n,))
        held = mo.make_fragment_like(tX)
        mo.copyto(held, tX, pred=inside, zero_fill=True)
        mo.copyto(tO, held, pred=inside)
        mo.copyto(tD, tX, pred=inside)


@mo.kernel
def staged_kernel(out, x, width: mo.Constexpr, other):
    """Through shared memory, four vectors a thread; the second thread's begin between two multiples of their bytes."""
    tid = mo.thread_idx().x
    n, shift = mo.size(x, 0), mo.block_idx().x % 2
    staged = mo.shared_array(x.dtype, 4 * width * THREADS + 1)
    gX, cX = (mo.parallelize(mo.tile(t, (4 * width * THREADS,), (mo.block_idx().x // 2,), ragged=True),
                             mo.make_layout(THREADS), tid) for t in (x, mo.identity_tensor(mo.shape(x))))
    gO = mo.parallelize(mo.tile(out, (4 * width * THREADS,), (mo.block_idx().x // 2,), ragged=True),
                        mo.make_layout(THREADS), tid)
    inside = mo.elem_less(cX, (n,))
    mine = mo.tile(mo.domain_offset((shift,), staged), (4 * width,), (tid,), ragged=True)
    held = mo.make_fragment_like(mine)
    mo.copyto(held, gX, pred=inside, other=other)
    always = mo.fragment((4 * width,), mo.bool)
    always.fill(True)
    mo.copyto(mine, held, pred=always)
    mo.sync_threads()
    again = mo.make_fragment_like(mine)
    mo.copyto(again, mine, pred=always, zero_fill=True)
    if shift == 1:
        mo.copyto(gO, again, pred=inside)


def _filled(args):
    _, out, x, _, other = args
    whole = np.full_like(out, other)
    whole[: len(x)] = x
    return {0: x.copy(), 1: whole}


for _d in (dt.uint8, dt.float16, dt.bfloat16, dt.int32, dt.float32, dt.float64):
    _w = 128 // _d.bits
    add(f"masked-filled-{_d}", filled_kernel, lambda rng, n, d=_d, w=_w: [
        poison(n, d), poison(-(-n // (w * THREADS)) * w * THREADS, d), values(rng, n, d), w, numpy_of(d).type(7)],
        _filled, grid=lambda n, w=_w: -(-n // (w * THREADS)), sizes=(4096, 2101))
    add(f"masked-rows-{_d}", rows_kernel, lambda rng, n, d=_d, w=_w: [
        poison((ROWS, n), d), poison((ROWS, n), d), values(rng, ROWS * n, d).reshape(ROWS, n), w],
        lambda args: {0: args[2].copy(), 1: args[2].copy()}, grid=lambda n: ROWS, sizes=(256, 201, 3))
    add(f"masked-staged-{_d}", staged_kernel, lambda rng, n, d=_d, w=_w: [
        poison(n, d), values(rng, n, d), w, 1], lambda args: {0: args[1].copy()},
        grid=lambda n, w=_w: 2 * -(-n // (4 * w * THREADS)), sizes=(2101,))
