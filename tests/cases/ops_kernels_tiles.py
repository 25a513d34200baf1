"""The other half of ``ops_kernels.py``: tiles, threads together, debugging, control flow.

In: nothing.  Out: ``CASES``, with both halves in it.
"""

from __future__ import annotations

import numpy as np

import async_store_kernels
import mma_kernels
import moye as mo
import ops_kernels
import ops_kernels_bulk
import ops_kernels_edges
import ops_kernels_folds
import ops_kernels_halves
import ops_kernels_hopper
import ops_kernels_masked
import ops_kernels_peers
import ops_kernels_tma
import ops_kernels_wgmma
from moye import dtypes as dt
from moye.sim.values import scalars
from ops_kernels import (
    CASES,
    FULL,
    RAGGED,
    THREADS,
    TOLERANCE,
    add,
    integers,
    normal,
    poison,
    values,
)

__all__ = ["CASES", "CP_ASYNCS", "MMAS", "async_store_kernels", "mma_kernels", "ops_kernels", "ops_kernels_bulk",
           "ops_kernels_edges", "ops_kernels_folds", "ops_kernels_halves", "ops_kernels_hopper", "ops_kernels_masked",
           "ops_kernels_peers", "ops_kernels_tma", "ops_kernels_wgmma", "to_device", "to_host"]

# --- copies ----------------------------------------------------------------------------------------------------------


@mo.kernel
def copy_kernel(by_regs, by_smem, direct, src, atom, width: mo.Constexpr, limit):
    """Through every pair of memories, ``width`` elements a thread, by the threads below ``limit``."""
    tid = mo.thread_idx().x
    i = mo.block_idx().x * THREADS + tid
    gR, gS, gD, gX = (mo.tile(t, (width,), (i,)) for t in (by_regs, by_smem, direct, src))
    here = mo.tile(mo.shared_array(src.dtype, THREADS * width), (width,), (tid,))
    there = mo.tile(mo.shared_array(src.dtype, THREADS * width), (width,), (tid,))
    last = mo.tile(mo.shared_array(src.dtype, THREADS * width), (width,), (tid,))
    regs, more = mo.make_fragment_like(gX), mo.make_fragment_like(gX)
    mo.copyto(atom, regs, gX, pred=i < limit)
    mo.copyto(atom, gR, regs, pred=i < limit)
    mo.copyto(atom, gD, gX, pred=i < limit)
    mo.copyto(atom, here, gX, pred=i < limit)
    if i < limit:
        mo.copyto(atom, there, here)
        mo.copyto(atom, more, there)
        mo.copyto(atom, regs, more, pred=i >= 0)
        mo.copyto(atom, last, regs)
        mo.copyto(atom, gS, last)


@mo.kernel
def plain_copy_kernel(out, src, scratch):
    """Without an atom: predicates of an element each, a swizzled shared tensor, a conversion on the way."""
    tid = mo.thread_idx().x
    bx = mo.block_idx().x
    regs = mo.fragment((4,), src.dtype)
    inside = mo.fragment((4,), mo.bool)
    sX = mo.parallelize(mo.shared_array(out.dtype, scratch), mo.make_layout(THREADS), tid)
    gX = mo.parallelize(mo.tile(src, (4 * THREADS,), (bx,), ragged=True), mo.make_layout(THREADS), tid)
    gO = mo.parallelize(mo.tile(out, (4 * THREADS,), (bx,), ragged=True), mo.make_layout(THREADS), tid)
    for j in mo.static_range(4):
        inside[j] = (bx * 4 + j) * THREADS + tid < mo.size(src, 0)
    regs.fill(0)
    mo.copyto(regs, gX, pred=inside)
    mo.copyto(sX, regs)
    mo.copyto(gO, sX, pred=inside)


@mo.kernel
def cp_async_kernel(out, src, atom, width: mo.Constexpr, limit):
    """Two stages in flight, then a third that no group holds; every thread reads what its neighbour copied."""
    tid = mo.thread_idx().x
    i = mo.block_idx().x * THREADS + tid
    near = mo.block_idx().x * THREADS + (tid ^ 1)
    stages = mo.shared_array(src.dtype, mo.make_layout((THREADS * width, 3)))
    for stage in mo.static_range(3):
        s = mo.tile(stages[:, stage], (width,), (tid,))
        mo.copyto(atom, s, mo.tile(src[:, stage], (width,), (i,)), pred=i < limit)
        if stage < 2:
            mo.cp_async_commit()
    for stage in mo.static_range(3):
        if stage < 2:
            mo.cp_async_wait(1 - stage)
        else:
            mo.cp_async_wait()
        mo.sync_threads()
        s = mo.tile(stages[:, stage], (width,), (tid ^ 1,))
        mo.copyto(mo.tile(out[:, stage], (width,), (near,)), s, pred=near < limit)


def _limited(*places):
    def expected(args):
        *_, width, limit = args
        wanted = {p: args[p].copy() for p in places}
        for array in wanted.values():
            array[: width * limit] = args[-4][: width * limit]
        return wanted
    return expected


_WIDTHS = {1: mo.uint8, 2: mo.uint16, 4: mo.uint32, 8: mo.uint64, 16: mo.uint128}
CP_ASYNCS = (mo.CpAsync(mo.float32), mo.CpAsync(mo.float64), mo.CpAsync(mo.uint128),
             mo.CpAsync(mo.uint128, cache="global"))
for _size, _unit in _WIDTHS.items():
    for _d in (dt.uint8, dt.float16, dt.float32, dt.float64):
        _w = 8 * _size // _d.bits
        if _w:
            add(f"copy-{_d}-{_size}", copy_kernel, lambda rng, n, d=_d, w=_w, unit=_unit: [
                *(poison(n * w, d) for _ in range(3)), values(rng, n * w, d), mo.UniversalCopy(unit), w, n - 7],
                _limited(0, 1, 2), sizes=(FULL,))
for _name, _layout in (("compact", mo.make_layout(4 * THREADS)),
                       ("swizzled", mo.ComposedLayout(mo.Swizzle(2, 0, 3), 0, mo.make_layout(4 * THREADS)))):
    for _d in (dt.float32, dt.float64):
        add(f"masked-{_name}-{_d}", plain_copy_kernel, lambda rng, n, layout=_layout, d=_d: [
            poison(n, d), normal(rng, n), layout], lambda args: {0: args[1].astype(args[0].dtype)},
            grid=lambda n: -(-n // (4 * THREADS)), sizes=(512, RAGGED))
for _atom in CP_ASYNCS:
    _w = _atom.bits // 32
    add(f"cp-async-{_atom.cache}-{_atom.bytes}", cp_async_kernel, lambda rng, n, w=_w, atom=_atom: [
        np.asfortranarray(poison((n * w, 3), dt.float32)), np.asfortranarray(normal(rng, (n * w, 3))), atom, w, n - 6],
        _limited(0), sizes=(FULL,))

# --- tiles of registers ----------------------------------------------------------------------------------------------


M, N, K = 16, 24, 8


@mo.kernel
def gemm_kernel(D, A, B, C, mma, staged: mo.Constexpr):
    tid = mo.thread_idx().x
    threads, thr = mo.make_layout((8, 8)), mma.get_slice(tid)
    gA, gB = mo.tile(A, (M, K), (0, 0)), mo.tile(B, (N, K), (0, 0))
    tCgC = thr.partition_C(mo.tile(C, (M, N), (0, 0)))  # (MMA, MMA_M, MMA_N)
    tCgD = thr.partition_C(mo.tile(D, (M, N), (0, 0)))  # (MMA, MMA_M, MMA_N)
    c, d = thr.make_fragment_C(tCgC), thr.make_fragment_C(tCgD)
    mo.copyto(c, tCgC)
    if staged:                                          # from shared memory, C += A * B
        sA, sB = mo.shared_array(A.dtype, (M, K)), mo.shared_array(B.dtype, (N, K))
        mo.copyto(mo.parallelize(sA, threads, tid), mo.parallelize(gA, threads, tid))
        mo.copyto(mo.parallelize(sB, threads, tid), mo.parallelize(gB, threads, tid))
        mo.sync_threads()
        mo.gemm(mma, thr.partition_A(sA), thr.partition_B(sB), c)
        mo.copyto(tCgD, c)
    else:                                               # from registers, D = A * B + C
        tCgA, tCgB = thr.partition_A(gA), thr.partition_B(gB)
        a, b = thr.make_fragment_A(tCgA), thr.make_fragment_B(tCgB)
        mo.copyto(a, tCgA)
        mo.copyto(b, tCgB)
        mo.gemm(mma, d, a, b, c)
        mo.copyto(tCgD, d)


@mo.kernel
def map_kernel(out, x, y, kinds: mo.Constexpr):
    """Elementwise work on 6 elements a thread, with a repeated operand, and every fold of them."""
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    gX = mo.tile(x, (1, 6), (i, 0), ragged=True)
    if i < mo.size(x, 0):
        a, b = mo.fragment((2, 3), x.dtype), mo.fragment((2, 1), x.dtype)
        mo.copyto(a, gX.with_layout(mo.make_layout((2, 3), (1, 2))))
        b.fill(2)
        b[1, 0] = y[i]
        c = a * b + 3                                   # (2, 3), new registers
        c[...] = mo.where(c > a, c, a)
        c += 1
        wide = c.to(mo.float64)
        out[i, 0] = wide[1, 2] + wide[0, 0]
        for j in mo.static_range(len(kinds)):
            out[i, j + 1] = c.reduce(kinds[j])


MMAS = tuple(mo.UniversalFMA(*dtypes) for dtypes in (
    (mo.float32,), (mo.float64,), (mo.int32,), (mo.uint32,), (mo.int64,), (mo.float16,), (mo.bfloat16,),
    (mo.float16, mo.float16, mo.float32), (mo.bfloat16, mo.bfloat16, mo.float32)))


def _gemm_args(op, staged):
    def make(rng, n):
        tiled = mo.make_tiled_mma(op, mo.make_layout((8, 8)))
        shapes = ((op.a_dtype, (M, K)), (op.b_dtype, (N, K)), (op.c_dtype, (M, N)))
        return [poison((M, N), op.d_dtype), *(
            integers(rng, a * b, d, 50).reshape(a, b) if d.is_integer else normal(rng, a * b, d).reshape(a, b)
            for d, (a, b) in shapes), tiled, staged]
    return make


def _gemm_expected(args):
    wide = np.float64 if args[0].dtype.kind not in "iu" else args[0].dtype
    A, B, C = (x.astype(wide) for x in args[1:4])
    return {0: (A @ B.T + C).astype(args[0].dtype)}


def _mapped(args):
    out, x, y, kinds = args
    wanted = out.copy()
    b = np.stack([np.full_like(y, 2), y], 1)[:, None]
    a = x.reshape(-1, 3, 2)
    c = a * b + x.dtype.type(3)
    c = np.where(c > a, c, a) + x.dtype.type(1)
    wanted[:, 0] = c[:, 2, 1] + c[:, 0, 0]
    for j, kind in enumerate(kinds):
        fold = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
                "or": np.bitwise_or, "xor": np.bitwise_xor}[kind]
        wanted[:, j + 1] = fold.reduce(c.reshape(len(c), 6), axis=1)
    return {0: wanted}


for _op in MMAS:
    for _staged in (False, True):
        add(f"gemm-{_op}-{'staged' if _staged else 'registers'}", gemm_kernel, _gemm_args(_op, _staged), _gemm_expected,
            tolerance=0 if _op.d_dtype.is_integer else 10 * TOLERANCE[_op.d_dtype.name], sizes=(FULL,),
            grid=lambda n: 1)
for _d in (dt.int32, dt.int64, dt.uint32, dt.float32, dt.float64):
    _kinds = tuple(k for k in scalars.REDUCTIONS if _d.is_integer or k in ("add", "mul", "min", "max"))
    add(f"map-{_d}", map_kernel, lambda rng, n, d=_d, kinds=_kinds: [
        poison((n, len(kinds) + 1), d), values(rng, (n, 6), d) if d.is_float else integers(rng, (n, 6), d, 4),
        values(rng, n, d) if d.is_float else integers(rng, n, d, 4), kinds], _mapped,
        tolerance=0 if _d.is_integer else TOLERANCE[_d.name] * 5)

# --- threads together ------------------------------------------------------------------------------------------------


@mo.kernel
def barrier_kernel(out, x):
    """Shared memory across threads, in order of a block, of a warp, of half a warp, and of two roles."""
    tid = mo.thread_idx().x
    i = mo.block_idx().x * THREADS + tid
    cells = mo.shared_array(x.dtype, THREADS)
    cells[tid] = x[i]
    mo.sync_threads()
    out[i, 0] = cells[THREADS - 1 - tid]
    mo.sync_threads()
    cells[tid] = x[i] + 1
    mo.sync_warp()
    out[i, 1] = cells[tid ^ 17]
    mo.sync_warp()
    if mo.lane_idx() < 16:
        cells[tid] = x[i] + 2
        mo.sync_warp(0xFFFF)
        out[i, 2] = cells[tid ^ 9]
    else:
        out[i, 2] = 0
    mo.sync_threads()
    turn = 1 + mo.block_idx().x % 2
    if mo.warp_idx() == 0:                              # the first warp makes, the second one takes
        cells[tid + 32] = x[i] * 2
        mo.barrier_arrive(turn, THREADS)
        mo.barrier_sync(5, 32)
        out[i, 3] = 0
    else:
        mo.barrier_sync(turn, THREADS)
        out[i, 3] = cells[tid]


@mo.kernel
def shuffle_kernel(out, x, widths: mo.Constexpr):
    tid = mo.thread_idx().x
    i = mo.block_idx().x * THREADS + tid
    value = x[mo.min(i, mo.size(x, 0) - 1)]             # every lane takes part
    found = []
    for w in mo.static_range(len(widths)):
        width = widths[w]
        found.append(mo.shuffle_idx(value, tid * 7 + 3, width))
        found.append(mo.shuffle_up(value, 3, width))
        found.append(mo.shuffle_down(value, tid % 4, width))
        found.append(mo.shuffle_xor(value, min(5, width - 1), width))
        found.append(mo.shuffle_xor(value, 21, width))  # (reads earlier segments, not later ones)
        found.append(mo.shuffle_up(value, 33 + tid % 2 * 32, width))   # (modulo 32)
        found.append(mo.shuffle_down(value, -31 - tid % 2 * 32, width))
    if i < mo.size(x, 0):
        for j in mo.static_range(len(found)):
            out[i, j] = found[j]


@mo.kernel
def vote_kernel(out, x):
    tid = mo.thread_idx().x
    i = mo.block_idx().x * THREADS + tid
    value = x[mo.min(i, mo.size(x, 0) - 1)]
    bits, some, every = mo.ballot(value > 0), mo.vote_any(value > 900), mo.vote_all(value > -900)
    odd = mo.uint32(0)
    if tid % 2 == 1:
        odd = mo.ballot(value > 0, 0xAAAAAAAA)
        some = mo.vote_any(value > 950, 0xAAAAAAAA)
        value = mo.shuffle_xor(value, 2, mask=0xAAAAAAAA)
    if i < mo.size(x, 0):
        out[i, 0] = bits
        out[i, 1] = odd
        out[i, 2] = some
        out[i, 3] = every
        out[i, 4] = value.bitcast(mo.uint32)


def _shuffled(args):
    _, x, widths = args
    lane = np.arange(-(-len(x) // THREADS) * THREADS)
    value, found = x[np.minimum(lane, len(x) - 1)], []
    for width in widths:
        inside, start = lane % width, lane // width * width
        for target in (((lane % THREADS) * 7 + 3) % width, inside - 3, inside + lane % 4, inside ^ min(5, width - 1),
                       (lane ^ 21) - start, inside - 1, inside + 1):
            earlier = (target >= 0) | (target == (lane ^ 21) - start)
            found.append(value[np.where(earlier & (target < width), start + target, lane)])
    return {0: np.stack(found, 1)[: len(x)]}


def _voted(args):
    _, x = args
    lane = np.arange(-(-len(x) // THREADS) * THREADS)
    value, odd = x[np.minimum(lane, len(x) - 1)], lane % 2 == 1
    warps = value.reshape(-1, 32)

    def ballot(yes):
        return np.repeat((yes.reshape(-1, 32) * (1 << np.arange(32, dtype=np.int64))).sum(1), 32)

    some = np.repeat((warps > 900).any(1), 32)
    some = np.where(odd, np.repeat((warps[:, 1::2] > 950).any(1), 32), some)
    found = (ballot(value > 0), np.where(odd, ballot((value > 0) & odd), 0), some,
             np.repeat((warps > -900).all(1), 32), np.where(odd, value[lane ^ 2], value).view(np.uint32))
    return {0: np.stack(found, 1)[: len(x)].astype(np.uint32)}


def _barriers(args):
    _, x = args
    x, lane = x.reshape(-1, THREADS), np.arange(THREADS)
    low = lane % 32 < 16
    found = (x[:, ::-1], x[:, lane ^ 17] + 1, np.where(low, x[:, lane ^ 9] + 2, 0),
             np.where(lane < 32, 0, x[:, lane % 32] * 2))
    return {0: np.stack(found, 2).reshape(-1, 4)}


add("barriers", barrier_kernel, lambda rng, n: [poison((n, 4), dt.int32), integers(rng, n, dt.int32)], _barriers,
    sizes=(FULL,))
for _d in (dt.int8, dt.float16, dt.bfloat16, dt.int32, dt.uint32, dt.float32, dt.int64, dt.float64):
    add(f"shuffle-{_d}", shuffle_kernel, lambda rng, n, d=_d: [poison((n, 42), d), values(rng, n, d),
                                                               (1, 2, 4, 8, 16, 32)], _shuffled)
add("votes", vote_kernel, lambda rng, n: [poison((n, 5), dt.uint32), integers(rng, n, dt.int32)], _voted)

# --- control flow and debugging --------------------------------------------------------------------------------------


@mo.jit
def collatz(x, most):
    """Steps to 1, or -1 if there are more than ``most``; left from inside of a loop."""
    if x < 1:
        return 0
    steps = 0
    while x != 1:
        if steps >= most:
            return -1
        x = x // 2 if x % 2 == 0 else 3 * x + 1
        steps += 1
    return steps


@mo.kernel
def control_kernel(out, x, n):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    if i >= mo.size(x, 0):
        return
    value = x[i]
    down = 0
    for k in range(n, -n, -3):                          # a negative step, of any count
        down = 2 * down % 1009 + k
    out[i, 0] = down
    unrolled = 0
    for k in mo.range(7, unroll=True):
        unrolled += k * value
    for k in mo.range(7, unroll=False):
        unrolled -= value // (k + 1)
    for k in mo.range(value % 11, unroll=4):
        unrolled += k * k
    out[i, 1] = unrolled
    jumps = 0
    for k in range(value % 13):
        if (value + k) % 5 == 0:
            continue
        if k > 7:
            break
        jumps += k + 1
    out[i, 2] = jumps
    rest = value
    while True:                                         # left by break, gone on by continue
        rest -= 7
        if rest % 3 == 0:
            continue
        if rest < 0:
            break
        jumps += 1
    out[i, 3] = jumps * 1000 + rest % 100
    out[i, 4] = collatz(value, 60)
    first, second = value, n
    for _ in range(value % 4):
        first, second = second, first + 1               # at the same time
    out[i, 5] = first - second
    strided = 0
    for k in range(value % 3, mo.size(x, 0), mo.grid_dim().x * 7):
        strided += k                                    # a step that is the same for all
    for k in range(0, 12, mo.max(value % 5, 1)):        # one of this thread's own
        if k == 9:
            continue
        strided = 3 * strided % 1009 + k
    out[i, 6] = strided


@mo.kernel
def debug_kernel(out, x, n):
    i = mo.block_idx().x * THREADS + mo.thread_idx().x
    mo.assume(n >= 0, "n is a count")
    if i < mo.size(x, 0):
        regs = mo.fragment((3,), x.dtype)
        regs.fill(x[i])
        assert regs[0] == x[i], "a fill fills"
        mo.assume(i < n, "n is the extent")
        mo.inspect("filled", regs=regs, i=i)
        if i < 2:
            print("x =", x[i], regs[1] > 0, i, "100%")
        out[i] = regs[2]


def _collatz(x, most):
    if x < 1:
        return 0
    steps = 0
    while x != 1:
        if steps >= most:
            return -1
        x, steps = (x // 2 if x % 2 == 0 else 3 * x + 1), steps + 1
    return steps


def _controlled(args):
    _, xs, n = args
    rows, grid = [], -(-len(xs) // THREADS)
    for x in xs.tolist():
        down = jumps = 0
        for k in range(n, -n, -3):
            down = 2 * down % 1009 + k
        unrolled = sum(k * x - x // (k + 1) for k in range(7)) + sum(k * k for k in range(x % 11))
        for k in range(x % 13):
            if (x + k) % 5 and k > 7:
                break
            jumps += k + 1 if (x + k) % 5 else 0
        before, rest = jumps, x
        while True:
            rest -= 7
            if rest % 3 == 0:
                continue
            if rest < 0:
                break
            jumps += 1
        first, second = x, n
        for _ in range(x % 4):
            first, second = second, first + 1
        strided = sum(range(x % 3, len(xs), 7 * grid))
        for k in range(0, 12, max(x % 5, 1)):
            strided = strided if k == 9 else 3 * strided % 1009 + k
        rows.append((down, unrolled, before, jumps * 1000 + rest % 100, _collatz(x, 60), first - second, strided))
    return {0: np.array(rows, np.int32)}


add("control", control_kernel, lambda rng, n: [poison((n, 7), dt.int32), integers(rng, n, dt.int32), 17], _controlled)
add("debug", debug_kernel, lambda rng, n: [poison(n, dt.int32), integers(rng, n, dt.int32), n],
    lambda args: {0: args[1]})

# --- GPU -------------------------------------------------------------------------------------------------------------


def to_device(x):
    """A torch tensor of the same bits, shape and strides; other arguments as they are."""
    if isinstance(x, tuple) and x and isinstance(x[0], np.ndarray):
        return tuple(to_device(y) for y in x)
    if isinstance(x, mo.TmaCopy):
        return mo.TmaCopy(x.op, to_device(x.array), *x.key[1:])
    if not isinstance(x, np.ndarray):
        return x
    columns = x.ndim == 2 and x.flags.f_contiguous and not x.flags.c_contiguous
    rows = np.ascontiguousarray(x.T if columns else x)
    import torch
    octets = torch.from_numpy(rows.reshape(-1).view(np.uint8).copy()).cuda()
    dtype = getattr(torch, str(x.dtype))
    made = (octets.view(dtype) if rows.size else torch.empty(0, dtype=dtype, device="cuda")).reshape(rows.shape)
    return made.T if columns else made


def to_host(x, like):
    """What the device tensor holds, with the dtype of ``like``."""
    if isinstance(like, tuple) and like and isinstance(like[0], np.ndarray):
        return tuple(to_host(a, b) for a, b in zip(x, like, strict=True))
    if isinstance(like, mo.TmaCopy):
        return mo.TmaCopy(like.op, to_host(x.array, like.array), *like.key[1:])
    if not isinstance(like, np.ndarray):
        return x
    import torch
    columns = like.ndim == 2 and like.flags.f_contiguous and not like.flags.c_contiguous
    rows = x.T if columns else x
    found = rows.contiguous().reshape(-1).view(torch.uint8).cpu().numpy().view(like.dtype).reshape(rows.shape)
    return found.T if columns else found
