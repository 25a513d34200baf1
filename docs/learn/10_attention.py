# %% [markdown]
# # 10. Attention in steps
#
# `softmax(Q @ K.T) @ V`, for one head. Each step computes the same, and we count what each asks of the memory. Sizes
# are small: 128 queries, 256 keys, 64 numbers each.

# %%
import numpy as np

import moye as mo

rng = np.random.default_rng(0)
S, T, D = 128, 256, 64                                  # queries, keys, numbers of a head
Q, K, V = (rng.standard_normal((rows, D)).astype(np.float16) for rows in (S, T, T))
scale = D ** -0.5
scores = scale * Q.astype(np.float64) @ K.T.astype(np.float64)
weights = np.exp(scores - scores.max(axis=1, keepdims=True))
exact = weights / weights.sum(axis=1, keepdims=True) @ V.astype(np.float64)


def sheet(name, report, O):
    """One line: whether it is clean and right, and what it asks of the memory."""
    lines = report.counters()["lines"]
    sectors = sum(line.get("sectors", 0) for line in lines)
    shared = sum(line["wavefronts"] for line in lines if line["space"] == "shared")
    right = np.abs(O.astype(np.float64) - exact).max() < 2e-3
    print(f"{name}: {report.verdict}, right: {right}; {sectors} sectors, {shared} wavefronts")

# %% [markdown]
# ## Step 1: a row of scores in shared memory
#
# A block for each query. It computes all scores of its row, then the maximum, the sum, and the product with V: the
# softmax of the textbook.

# %%
@mo.kernel
def rows(O, Q, K, V, scale, keys: mo.Constexpr):
    row, tid = mo.block_idx().x, mo.thread_idx().x
    score = mo.shared_array(mo.float32, keys)
    scratch = mo.shared_array(mo.float32, 2)                # one number for each warp
    top = mo.float32(-float("inf"))
    for j in mo.range(tid, keys, 64):
        dot = mo.float32(0)
        for d in range(mo.size(Q, 1)):
            dot += mo.float32(Q[row, d]) * mo.float32(K[j, d])
        score[j] = dot * scale
        top = mo.max(top, dot * scale)
    top = mo.block_reduce(top, scratch, "max")
    total = mo.float32(0)
    for j in mo.range(tid, keys, 64):
        score[j] = mo.exp(score[j] - top)
        total += score[j]
    mo.sync_threads()                                       # scratch is used again, and all scores are there
    total = mo.block_reduce(total, scratch, "add")
    value = mo.float32(0)
    for j in range(keys):
        value += score[j] * mo.float32(V[j, tid])
    O[row, tid] = mo.float16(value / total)


O = np.zeros((S, D), np.float16)
report = mo.check(rows)[S, 64](O, Q, K, V, scale, T)
sheet("a row at a time", report, O)

# %% [markdown]
# All of K and V is read for each query. And a row must fit into shared memory.
#
# ## Step 2: the online softmax
#
# The maximum need not be known in advance. Keep a running maximum and a running sum. Where a larger maximum comes, what
# was summed so far is too large by a known factor, and is scaled down. In NumPy:

# %%
top, total, value = -np.inf, 0.0, np.zeros(D)
for tile in range(0, T, 64):
    part = scores[0, tile:tile + 64]
    highest = max(top, part.max())
    factor = np.exp(top - highest)
    weight = np.exp(part - highest)
    total = total * factor + weight.sum()
    value = value * factor + weight @ V[tile:tile + 64].astype(np.float64)
    top = highest
print("the same:", np.allclose(value / total, exact[0]))

# %% [markdown]
# So keys come in tiles, and no row of scores is ever whole. Now 64 queries share each tile of K and V in shared memory.
# Here a thread has a query, its sum of 64 numbers in registers.

# %%
@mo.kernel
def online(O, Q, K, V, scale):
    tid = mo.thread_idx().x
    sK, sV = mo.shared_array(K.dtype, (64, 64)), mo.shared_array(V.dtype, (64, 64))         # (keys, D)
    gQ, gO = mo.tile(Q, (64, 64), (mo.block_idx().x, 0)), mo.tile(O, (64, 64), (mo.block_idx().x, 0))
    gK, gV = mo.tile(K, (64, 64), (None, 0)), mo.tile(V, (64, 64), (None, 0))               # (keys, D, k)
    q, value = mo.fragment((64,), mo.float32), mo.fragment((64,), mo.float32)
    for d in mo.static_range(64):
        q[d] = mo.float32(gQ[tid, d])
    value.fill(0)
    top, total = mo.float32(-float("inf")), mo.float32(0)
    for k in range(mo.size(gK, 2)):
        for i in range(64):
            sK[i, tid], sV[i, tid] = gK[i, tid, k], gV[i, tid, k]
        mo.sync_threads()
        for j in range(64):
            dot = mo.float32(0)
            for d in mo.static_range(64):
                dot += q[d] * mo.float32(sK[j, d])
            highest = mo.max(top, dot * scale)
            factor, weight = mo.exp(top - highest), mo.exp(dot * scale - highest)
            total = total * factor + weight
            for d in mo.static_range(64):
                value[d] = value[d] * factor + weight * mo.float32(sV[j, d])
            top = highest
        mo.sync_threads()
    for d in mo.static_range(64):
        gO[tid, d] = mo.float16(value[d] / total)


O.fill(0)
report = mo.check(online)[S // 64, 64](O, Q, K, V, scale)
sheet("online", report, O)

# %% [markdown]
# Far fewer sectors. But each multiply-add reads a number from shared memory.
#
# ## Step 3: tensor cores
#
# The two products are matrix products: 64 queries by 64 keys, and 64 queries by 64 numbers. Between them stands the
# softmax, on the accumulators of the first product, in registers. Three helpers know how accumulators lie:
#
# * `mo.mn_view(acc, mma)` shows a thread's accumulators as (rows, columns).
# * `mo.row_reduce(acc, "max", mma)` folds each row, over the lanes that share it.
# * `mo.accumulators_as_A(acc, mma, mma)` shows them as the left operand of the next product. Nothing moves.

# %%
@mo.kernel
def tensor_cores(O, Q, K, V, scale, smem, copy, read_K, read_V, mma):
    tid = mo.thread_idx().x
    sK, sV = mo.shared_array(K.dtype, smem), mo.shared_array(V.dtype, smem)                 # (keys, D)
    sVt = sV.with_layout(mo.select(smem, 1, 0))                                             # (D, keys), the same memory
    gQ, gO = mo.tile(Q, (64, 64), (mo.block_idx().x, 0)), mo.tile(O, (64, 64), (mo.block_idx().x, 0))
    gK, gV = mo.tile(K, (64, 64), (None, 0)), mo.tile(V, (64, 64), (None, 0))               # (keys, D, k)
    thr_mma, thr_copy = mma.get_slice(tid), copy.get_slice(tid)
    thr_K, thr_V = read_K.get_slice(tid), read_V.get_slice(tid)
    rQ = thr_mma.make_fragment_A(thr_mma.partition_A(gQ))                                   # (MMA, MMA_M, MMA_K)
    mo.copyto(rQ, thr_mma.partition_A(gQ))
    rK, rV = thr_mma.partition_fragment_B(sK), thr_mma.partition_fragment_B(sVt)            # (MMA, MMA_N, MMA_K)
    out, s = mma.partition_fragment_C((64, 64)), mma.partition_fragment_C((64, 64))         # (MMA, MMA_M, MMA_N)
    out_rows, s_rows = mo.mn_view(out, mma), mo.mn_view(s, mma)                             # (rows, columns)
    top, total = mo.fragment((2,), mo.float32), mo.fragment((2,), mo.float32)               # of this thread's rows
    out.fill(0)
    top.fill(-float("inf"))
    total.fill(0)
    for k in range(mo.size(gK, 2)):
        mo.copyto(copy, thr_copy.partition_D(sK), thr_copy.partition_S(gK[:, :, k]))
        mo.copyto(copy, thr_copy.partition_D(sV), thr_copy.partition_S(gV[:, :, k]))
        mo.sync_threads()
        mo.copyto(read_K, thr_K.retile_D(rK), thr_K.partition_S(sK))                        # ldmatrix
        mo.copyto(read_V, thr_V.retile_D(rV), thr_V.partition_S(sVt))                       # ldmatrix, transposed
        s.fill(0)
        mo.gemm(mma, rQ, rK, s)                                                             # scores
        found = mo.row_reduce(s, "max", mma)
        for i in mo.static_range(2):
            highest = mo.max(top[i], found[i] * scale)
            factor = mo.exp(top[i] - highest)
            s_rows[i, :] = mo.exp(s_rows[i, :] * scale - highest)                           # weights
            out_rows[i, :] = out_rows[i, :] * factor
            total[i] = total[i] * factor
            top[i] = highest
        found = mo.row_reduce(s, "add", mma)
        for i in mo.static_range(2):
            total[i] = total[i] + found[i]
        mo.gemm(mma, mo.accumulators_as_A(s.to(mo.float16), mma, mma), rV, out)
        mo.sync_threads()                                                                   # the tiles have been read
    for i in mo.static_range(2):
        out_rows[i, :] = out_rows[i, :] / total[i]
    mo.copyto(thr_mma.partition_C(gO), out.to(mo.float16))


mma = mo.make_tiled_mma(mo.mma.SM80_16x8x16_F32F16F16F32_TN, mo.make_layout((4, 1)), (64, 16, 16))    # a warp: 16 rows
smem = mo.tile_to_shape(mo.smem_layout_atom(mo.float16, "k"), (64, 64))
wide = mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.float16)
copy = mo.make_tiled_copy(wide, mo.make_layout((16, 8), (8, 1)), mo.make_layout((1, 8)))
read_K = mo.make_tiled_copy_B(mo.CopyAtom(mo.LdMatrix(4), mo.float16), mma)
read_V = mo.make_tiled_copy_B(mo.CopyAtom(mo.LdMatrix(4, transpose=True), mo.float16), mma)
O.fill(0)
report = mo.check(tensor_cores)[S // 64, 128](O, Q, K, V, scale, smem, copy, read_K, read_V, mma)
sheet("tensor cores", report, O)

# %% [markdown]
# K and V come in copies of 16 bytes now. Of the wavefronts a fortieth is left: `ldmatrix` reads a number once for many
# products.
#
# ## What is left
#
# * The copies of the next tile should run beside the products of this one: [chapter 7](07_pipelining.md), or TMA and a
#   warp that loads, [chapter 9](09_wgmma.md).
# * On Hopper, `wgmma` computes the next tile's scores while the softmax of this one runs.
# * A causal mask skips the tiles above the diagonal, and compares indices in the tile on it.
#
# [Attention](../attention.md#built-in-steps) goes on from here: six more steps, to a kernel with roles that is built
# like the library's, with pictures of what runs beside what.
#
# ## What you have now
#
# * A running maximum and sum: the softmax without its row.
# * Two products that share their accumulators, and the three helpers for what is between.
#
# **Try:** add a causal mask to step 3. Which tiles can a block skip? Use `thr_mma.partition_C(mo.identity_tensor((64,
# 64)))` to know which element each accumulator is.
#
# [Puzzles 35 to 37](../puzzles.md) go with this chapter: `moye puzzles start 35`.
#
# Next: [clusters](11_clusters.md).
