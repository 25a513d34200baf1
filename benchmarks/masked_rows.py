"""RMSNorm of rows that begin at any element, in several ways: which of them keeps the bandwidth of whole rows?

``out`` and ``x`` are the rows in one piece, (rows * n).  ``rms_norm`` of masked_kernels.py is the first way; these are
the others.  All take as many threads as vectors of 16 bytes, and rows by turns, so that a block's rows begin alike.

    edges       whole vectors from the first multiple of 16 bytes in a row; before and after it, one element a thread
    granules    the vectors that a row touches, read whole; what belongs to its neighbours counts as zero
    staged      the whole vectors by bulk copies into shared memory, some rows ahead; edges as above
"""

import moye as mo


@mo.kernel
def edges(out, x, weight, eps, width: mo.Constexpr, granule: mo.Constexpr, rounds: mo.Constexpr,
          at_once: mo.Constexpr, resident: mo.Constexpr):
    """Vectors from the first multiple of ``granule`` elements; ``at_once`` rows are on their way together."""
    mo.min_blocks(resident)
    tid, threads, n = mo.thread_idx().x, mo.block_dim().x, mo.size(weight)
    rows, step = mo.size(x) // n, mo.grid_dim().x
    scratch = mo.shared_array(mo.float32, (at_once, (threads + 31) // 32))
    start = mo.block_idx().x * n
    head = mo.min(-start % granule, n)                          # elements in front of the first vector
    body = (n - head) // granule * granule                      # elements of whole vectors
    column = tid if tid < head else tid + body                  # this thread's element of the edges
    has_edge = column < n
    edge_weight = weight[column].to(mo.float32) if has_edge else mo.float32(0)
    mine = []
    for j in mo.static_range(rounds):
        v = j * threads + tid
        has = v * width < body
        w = mo.fragment((width,), weight.dtype)
        mo.copyto(w, mo.tile(mo.with_lead(weight, -head), (width,), (v,), ragged=True), pred=has, zero_fill=True)
        mine.append((v, has, w))
    for first in mo.range(mo.block_idx().x, rows, at_once * step):
        held = []
        for k in mo.static_range(at_once):
            row = first + k * step
            begin = (row * n + granule - 1) // granule * (granule // width)
            there = row < rows
            vectors = [mo.fragment((width,), x.dtype) for _ in mo.static_range(rounds)]
            for (v, has, _), r in zip(mine, vectors, strict=True):
                mo.copyto(r, mo.tile(x, (width,), (begin + v,), ragged=True), pred=has & there, zero_fill=True)
            e = x[row * n + column].to(mo.float32) if has_edge & there else mo.float32(0)
            held.append((row, begin, there, vectors, e))
        sums = []
        for _, _, _, vectors, e in held:
            total = e * e
            for r in vectors:
                f = r.to(mo.float32)
                total += (f * f).reduce("add")
            sums.append(total)
        for k in mo.static_range(at_once):
            row, begin, there, vectors, e = held[k]
            scale = mo.rsqrt(mo.block_reduce(sums[k], scratch[k, None], "add") / n + eps)
            for (v, has, w), r in zip(mine, vectors, strict=True):
                scaled = r.to(mo.float32) * scale * w.to(mo.float32)
                mo.copyto(mo.tile(out, (width,), (begin + v,), ragged=True), scaled.to(out.dtype), pred=has & there)
            if has_edge & there:
                out[row * n + column] = e * scale * edge_weight
        mo.sync_threads()                                       # scratch is used again


@mo.kernel
def granules(out, x, weight, eps, width: mo.Constexpr, rounds: mo.Constexpr, resident: mo.Constexpr):
    """Every vector that a row touches is read whole.  All rows together are whole vectors: nothing beyond is read."""
    mo.min_blocks(resident)
    mo.assume(mo.size(x) % width == 0)
    tid, threads, n = mo.thread_idx().x, mo.block_dim().x, mo.size(weight)
    rows, step = mo.size(x) // n, mo.grid_dim().x
    scratch = mo.shared_array(mo.float32, (threads + 31) // 32)
    lead = mo.block_idx().x * n % width
    columns, gW = mo.with_lead(mo.identity_tensor((n,)), lead), mo.with_lead(weight, lead)
    touched = (lead + n + width - 1) // width
    mine = []
    for j in mo.static_range(rounds):
        v = j * threads + tid
        inside = mo.inside(mo.tile(columns, (width,), (v,), ragged=True), (n,))
        w = mo.fragment((width,), weight.dtype)
        mo.copyto(w, mo.tile(gW, (width,), (v,), ragged=True), pred=inside, zero_fill=True)
        mine.append((v, v < touched, (v == 0) | (v == touched - 1), inside, w))
    for row in mo.range(mo.block_idx().x, rows, step):
        begin = row * n // width
        vectors = [mo.fragment((width,), x.dtype) for _ in mo.static_range(rounds)]
        for (v, has, _, _, _), r in zip(mine, vectors, strict=True):
            mo.copyto(r, mo.tile(x, (width,), (begin + v,), ragged=True), pred=has, zero_fill=True)
        total = mo.float32(0)
        for (v, _, edge, _, _), r in zip(mine, vectors, strict=True):
            if edge:
                for k in mo.static_range(width):
                    at = v * width + k - lead
                    if (at < 0) | (at >= n):
                        r[k] = 0
            f = r.to(mo.float32)
            total += (f * f).reduce("add")
        scale = mo.rsqrt(mo.block_reduce(total, scratch, "add") / n + eps)
        for (v, _, _, inside, w), r in zip(mine, vectors, strict=True):
            scaled = r.to(mo.float32) * scale * w.to(mo.float32)
            mo.copyto(mo.tile(out, (width,), (begin + v,), ragged=True), scaled.to(out.dtype), pred=inside)
        mo.sync_threads()                                       # scratch is used again


@mo.kernel
def staged(out, x, weight, eps, width: mo.Constexpr, capacity: mo.Constexpr, stages: mo.Constexpr,
           rounds: mo.Constexpr, resident: mo.Constexpr):
    """The whole vectors of ``stages`` rows are on their way to shared memory, by one thread's bulk copies."""
    mo.min_blocks(resident)
    tid, threads, n = mo.thread_idx().x, mo.block_dim().x, mo.size(weight)
    rows, step = mo.size(x) // n, mo.grid_dim().x
    scratch, full = mo.shared_array(mo.float32, (threads + 31) // 32), mo.mbarrier_array(stages)
    sX = mo.shared_array(x.dtype, (capacity, stages))
    head = mo.min(-(mo.block_idx().x * n) % width, n)           # elements in front of the first vector
    body = (n - head) // width * width                          # elements of whole vectors
    column = tid if tid < head else tid + body                  # this thread's element of the edges
    has_edge = column < n
    edge_weight = weight[column].to(mo.float32) if has_edge else mo.float32(0)
    mine = []
    for j in mo.static_range(rounds):
        v = j * threads + tid
        has = v * width < body
        w = mo.fragment((width,), weight.dtype)
        mo.copyto(w, mo.tile(mo.with_lead(weight, -head), (width,), (v,), ragged=True), pred=has, zero_fill=True)
        mine.append((v, has, w))
    if tid == 0:
        for s in mo.static_range(stages):
            mo.mbarrier_init(full, s, 1)
        mo.fence_mbarrier_init()
    mo.sync_threads()
    if tid == 0:
        for s in mo.static_range(stages):
            row = mo.block_idx().x + s * step
            if row < rows:
                mo.mbarrier_arrive_expect_tx(full, s, body * (x.dtype.bits // 8))
                gX = mo.tile(mo.with_lead(x, -((row * n + width - 1) // width * width)), (capacity,), (0,), ragged=True)
                mo.copyto(mo.BulkCopy(), sX[:, s], gX, barrier=(full, s), size=body)
    slot, phase = mo.int32(0), mo.int32(0)
    e = x[mo.block_idx().x * n + column].to(mo.float32) if has_edge & (mo.block_idx().x < rows) else mo.float32(0)
    for row in mo.range(mo.block_idx().x, rows, step):
        begin = (row * n + width - 1) // width
        following = x[(row + step) * n + column].to(mo.float32) if has_edge & (row + step < rows) else mo.float32(0)
        mo.mbarrier_wait(full, slot, phase)
        vectors = [mo.fragment((width,), x.dtype) for _ in mo.static_range(rounds)]
        for (v, has, _), r in zip(mine, vectors, strict=True):
            mo.copyto(r, mo.tile(sX[:, slot], (width,), (v,), ragged=True), pred=has, zero_fill=True)
        total = e * e
        for r in vectors:
            f = r.to(mo.float32)
            total += (f * f).reduce("add")
        scale = mo.rsqrt(mo.block_reduce(total, scratch, "add") / n + eps)      # all have read the stage by then
        ahead = row + stages * step
        if (tid == 0) & (ahead < rows):
            mo.mbarrier_arrive_expect_tx(full, slot, body * (x.dtype.bits // 8))
            gX = mo.tile(mo.with_lead(x, -((ahead * n + width - 1) // width * width)), (capacity,), (0,), ragged=True)
            mo.copyto(mo.BulkCopy(), sX[:, slot], gX, barrier=(full, slot), size=body)
        for (v, has, w), r in zip(mine, vectors, strict=True):
            scaled = r.to(mo.float32) * scale * w.to(mo.float32)
            mo.copyto(mo.tile(out, (width,), (begin + v,), ragged=True), scaled.to(out.dtype), pred=has)
        if has_edge:
            out[row * n + column] = e * scale * edge_weight
        e = following
        slot += 1
        if slot == stages:
            slot, phase = mo.int32(0), phase ^ 1


def rows_threads(columns, width, most=256):
    """(threads, rounds) for the vectors of a row: whole warps, ``most`` threads or few more."""
    vectors = max(1, -(-columns // width))
    rounds = max(1, round(vectors / most))
    return 32 * -(-vectors // (32 * rounds)), rounds


def grid(x, granule, resident):
    """Blocks of a persistent launch, a multiple of ``granule``: then all rows of a block begin alike."""
    return max(granule, resident * mo.multiprocessors(x) // granule * granule)


def launch_edges(out, x, weight, eps=1e-6, granule=None, at_once=1, resident=4):
    width = 128 // mo.describe(x).dtype.bits
    granule = granule or width
    threads, rounds = rows_threads(weight.shape[0] // granule * granule, width)
    kernel = edges[grid(x, granule, resident), max(threads, 32 * -(-2 * granule // 32))]
    kernel(out.reshape(-1), x.reshape(-1), weight, eps, width, granule, rounds, at_once, resident)


def launch_granules(out, x, weight, eps=1e-6, resident=4):
    width = 128 // mo.describe(x).dtype.bits
    threads, rounds = rows_threads(x.shape[1] + (2 * width - 2 if x.shape[1] % width else 0), width)
    kernel = granules[grid(x, width, resident), threads]
    kernel(out.reshape(-1), x.reshape(-1), weight, eps, width, rounds, resident)


def launch_staged(out, x, weight, eps=1e-6, stages=3, resident=4):
    width = 128 // mo.describe(x).dtype.bits
    threads, rounds = rows_threads(weight.shape[0] // width * width, width)
    capacity = threads * rounds * width
    kernel = staged[grid(x, width, resident), threads]
    kernel(out.reshape(-1), x.reshape(-1), weight, eps, width, capacity, stages, rounds, resident)
