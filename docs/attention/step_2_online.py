"""Tiles and a running softmax, on ordinary cores

Keys and values come in tiles to shared memory, and a block of 64 queries shares them. The maximum of a row need not
be known in advance: where a larger one comes, what was summed so far is too large by a known factor, and is scaled
down. So scores stay in registers, 16 at a time, and there is one launch.
"""

import moye as mo
from trial import DIM, require, trial

ROWS, KEYS, CHUNK, LANES, THREADS = 64, 64, 16, 4, 256
"""Queries of a block, keys of a tile, keys whose scores are under way together, threads that share a query."""


@mo.jit
def numbers(X, row, lane):
    """The 32 numbers of a row that belong to a lane: vectors of 8, those of the four lanes side by side."""
    part = mo.fragment((8, DIM // 8 // LANES), X.dtype)
    for i in mo.static_range(mo.size(part, 1)):
        mo.copyto(mo.UniversalCopy(mo.uint128), part[:, i], mo.tile(X, (1, 8), (row, LANES * i + lane))[0, :])
    return part.to(mo.float32)


@mo.kernel
def online_kernel(O, Q, K, V, scale, copy):
    m, head, tid = mo.block_idx().x, mo.block_idx().y, mo.thread_idx().x
    lane, query = tid % LANES, tid // LANES
    sK, sV = (mo.shared_array(X.dtype, mo.make_layout((KEYS, DIM), (DIM, 1))) for X in (K, V))      # (KEYS, DIM)
    gK, gV = (mo.tile(X[head, :, :], (KEYS, DIM), (None, 0)) for X in (K, V))                       # (KEYS, DIM, n)
    gQ, gO = (mo.tile(X[head, :, :], (ROWS, DIM), (m, 0)) for X in (Q, O))                          # (ROWS, DIM)
    thr_copy = copy.get_slice(tid)
    q = numbers(gQ, query, lane)
    s, out = mo.fragment((CHUNK,), mo.float32), mo.make_fragment_like(q)
    out.fill(0)
    top, total = mo.float32(-float("inf")), mo.float32(0)
    for n in range(mo.size(gK, 2)):
        mo.copyto(copy, thr_copy.partition_D(sK), thr_copy.partition_S(gK[:, :, n]))
        mo.copyto(copy, thr_copy.partition_D(sV), thr_copy.partition_S(gV[:, :, n]))
        mo.sync_threads()                                               # the tile is there
        for first in range(0, KEYS, CHUNK):
            for j in mo.static_range(CHUNK):
                s[j] = mo.warp_reduce((q * numbers(sK, first + j, lane)).reduce("add"), "add", LANES) * scale
            highest = mo.max(top, s.reduce("max"))
            factor = mo.exp(top - highest)                              # 0 for the first keys
            s[...] = mo.exp(s - highest)
            total = total * factor + s.reduce("add")
            out[...] = out * factor
            for j in mo.static_range(CHUNK):
                out[...] = out + s[j] * numbers(sV, first + j, lane)
            top = highest
        mo.sync_threads()                                               # and has been read
    out[...] = out / total
    for i in mo.static_range(mo.size(out, 1)):
        mo.copyto(mo.UniversalCopy(mo.uint128), mo.tile(gO, (1, 8), (query, LANES * i + lane))[0, :],
                  out.to(O.dtype)[:, i])


def attention(out, q, k, v, run=lambda kernel: kernel):
    heads, queries, _ = require((out, q, k, v), (ROWS, KEYS))
    wide = mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.bfloat16)
    copy = mo.make_tiled_copy(wide, mo.make_layout((THREADS // 16, 16), (16, 1)), mo.make_layout((1, 8)))
    run(online_kernel)[(queries // ROWS, heads), THREADS](out, q, k, v, DIM ** -0.5, copy)


if __name__ == "__main__":
    trial(attention)
