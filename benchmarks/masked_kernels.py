"""A sum of vectors and RMSNorm of any length, as a user writes them: one way for whole vectors and the ragged rest.

Accesses are 16 bytes wide wherever the predicate holds for all of them and the address allows it.  Rows of 4097 begin
at every alignment, so their vectors are counted from the multiple of 16 bytes in front of the row (``mo.with_lead``).
"""

import moye as mo


@mo.kernel
def add(out, a, b, width: mo.Constexpr, each: mo.Constexpr):
    """out = a + b: every thread has ``each`` vectors of ``width``."""
    first, threads = mo.block_idx().x * each, mo.block_dim().x
    coordinates = mo.identity_tensor(mo.shape(a))
    sums = []
    for j in mo.static_range(each):
        at = ((first + j) * threads + mo.thread_idx().x,)
        gA, gB, gO, cA = (mo.tile(t, (width,), at, ragged=True) for t in (a, b, out, coordinates))     # (width)
        inside = mo.elem_less(cA, mo.shape(a))
        rA, rB = mo.make_fragment_like(gA), mo.make_fragment_like(gB)                                   # (width)
        mo.copyto(rA, gA, pred=inside, zero_fill=True)
        mo.copyto(rB, gB, pred=inside, zero_fill=True)
        sums.append((gO, rA, rB, inside))
    for gO, rA, rB, inside in sums:
        mo.copyto(gO, rA + rB, pred=inside)


@mo.kernel
def add_whole(out, a, b, width: mo.Constexpr, each: mo.Constexpr):
    """The same without a predicate, for whole tiles alone."""
    first, threads = mo.block_idx().x * each, mo.block_dim().x
    sums = []
    for j in mo.static_range(each):
        at = ((first + j) * threads + mo.thread_idx().x,)
        gA, gB, gO = (mo.tile(t, (width,), at) for t in (a, b, out))                                    # (width)
        rA, rB = mo.make_fragment_like(gA), mo.make_fragment_like(gB)                                   # (width)
        mo.copyto(rA, gA)
        mo.copyto(rB, gB)
        sums.append((gO, rA, rB))
    for gO, rA, rB in sums:
        mo.copyto(gO, rA + rB)


@mo.kernel
def rms_norm(out, x, weight, eps, width: mo.Constexpr, rounds: mo.Constexpr, resident: mo.Constexpr):
    """out = x / sqrt(mean(x^2) + eps) * weight by rows; blocks take rows in turns, threads ``rounds`` vectors each.

    A multiple of 8 blocks: then all rows of a block begin at one alignment, and its weights stay in registers.
    """
    mo.min_blocks(resident)
    tid, threads, n = mo.thread_idx().x, mo.block_dim().x, mo.size(x, 1)
    scratch = mo.shared_array(mo.float32, (threads + 31) // 32)
    lead = mo.misalignment(x[mo.block_idx().x, None])
    columns, gW = mo.with_lead(mo.identity_tensor((n,)), lead), mo.with_lead(weight, lead)
    mine = []
    for j in mo.static_range(rounds):
        at = (j * threads + tid,)
        inside = mo.inside(mo.tile(columns, (width,), at, ragged=True), (n,))
        w = mo.fragment((width,), weight.dtype)
        mo.copyto(w, mo.tile(gW, (width,), at, ragged=True), pred=inside, zero_fill=True)
        mine.append((at, inside, w, mo.fragment((width,), x.dtype)))
    for row in mo.range(mo.block_idx().x, mo.size(x, 0), mo.grid_dim().x):
        gX, gO = mo.with_lead(x[row, None], lead), mo.with_lead(out[row, None], lead)
        total = mo.float32(0)
        for at, inside, _, held in mine:
            mo.copyto(held, mo.tile(gX, (width,), at, ragged=True), pred=inside, zero_fill=True)
        for _, _, _, held in mine:
            f = held.to(mo.float32)
            total += (f * f).reduce("add")
        mean = mo.block_reduce(total, scratch, "add") / n
        scale = mo.rsqrt(mean + eps)
        for at, inside, w, held in mine:
            scaled = held.to(mo.float32) * scale * w.to(mo.float32)
            mo.copyto(mo.tile(gO, (width,), at, ragged=True), scaled.to(out.dtype), pred=inside)
        mo.sync_threads()                               # scratch is used again


@mo.kernel
def rms_norm_whole(out, x, weight, eps, width: mo.Constexpr, rounds: mo.Constexpr, resident: mo.Constexpr):
    """The same without a predicate, for rows of whole tiles that begin at multiples of 16 bytes."""
    mo.min_blocks(resident)
    tid, threads, n = mo.thread_idx().x, mo.block_dim().x, mo.size(x, 1)
    scratch = mo.shared_array(mo.float32, (threads + 31) // 32)
    mine = []
    for j in mo.static_range(rounds):
        at = (j * threads + tid,)
        w = mo.fragment((width,), weight.dtype)
        mo.copyto(w, mo.tile(weight, (width,), at))
        mine.append((at, w, mo.fragment((width,), x.dtype)))
    for row in mo.range(mo.block_idx().x, mo.size(x, 0), mo.grid_dim().x):
        gX, gO = x[row, None], out[row, None]
        total = mo.float32(0)
        for at, _, held in mine:
            mo.copyto(held, mo.tile(gX, (width,), at))
        for _, _, held in mine:
            f = held.to(mo.float32)
            total += (f * f).reduce("add")
        mean = mo.block_reduce(total, scratch, "add") / n
        scale = mo.rsqrt(mean + eps)
        for at, w, held in mine:
            scaled = held.to(mo.float32) * scale * w.to(mo.float32)
            mo.copyto(mo.tile(gO, (width,), at), scaled.to(out.dtype))
        mo.sync_threads()                               # scratch is used again


def launch_add(out, a, b, kernel=add, threads=256, each=2):
    width = 128 // mo.describe(a).dtype.bits
    blocks = -(-a.shape[0] // (width * threads * each))
    kernel[blocks, threads](out, a, b, width, each)


def rows_plan(columns, bits):
    """(width, threads, rounds): as few vectors as cover a row wherever it begins, about 256 threads."""
    width = 128 // bits
    vectors = -(-columns // width) + (columns % width != 0)
    rounds = max(1, round(vectors / 256))
    return width, 32 * -(-vectors // (32 * rounds)), rounds


def launch_rms_norm(out, x, weight, eps=1e-6, kernel=rms_norm, resident=3):
    """``resident``: blocks that a multiprocessor holds at once, which bounds the registers of a thread."""
    width, threads, rounds = rows_plan(x.shape[1], mo.describe(x).dtype.bits)
    grid = max(8, resident * mo.multiprocessors(x) // 8 * 8)
    kernel[grid, threads](out, x, weight, eps, width, rounds, resident)
