"""Ways to write a matrix whose rows begin inside of the 32 bytes that memory writes at once: GB/s on the GPU.

    python benchmarks/sectors.py [rows]

bfloat16 of 12800 columns (rows begin at lines of 128 bytes), 12816 (at sectors of 32) and 12808 (inside of them).  The
kernels only write: boxes of TMA, runs of whole rows of a tile (bulk copies), vectors of 16 bytes.  Interleaved, L2
flushed, medians; every matrix is written before it is timed, and has no poison left.
"""

import sys

import torch

import moye as mo
from moye.testing import interleave

BOXES = ((128, 192, 64, False), (128, 192, 64, True), (128, 192, 32, False), (128, 128, 64, False))
RUNS = ((128, 128), (128, 192), (128, 256))
BLOCKS, ROUNDS = 264, 7


@mo.jit
def fill(smem):
    """Something in all of a tile, by 128 threads; then TMA and bulk copies see it."""
    words = mo.recast(smem.with_layout(mo.make_layout(mo.cosize(smem.layout))), mo.uint32)
    for i in range(mo.thread_idx().x, mo.size(words), 128):
        words[i] = mo.uint32(0x3f803f80) + mo.uint32(i)
    mo.fence_proxy_async()
    mo.sync_threads()


@mo.kernel
def write_boxes(tma, tiles, down: mo.Constexpr, tile: mo.Constexpr, columns: mo.Constexpr):
    """Boxes of 64 rows, two on their way; tiles along the rows of the matrix, or ``down`` its columns."""
    bM, bN = tile
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k", columns * 2), tile)
    smem = mo.shared_array(mo.bfloat16, layout)
    fill(smem)
    if mo.thread_idx().x == 0:
        for t in range(mo.block_idx().x, tiles[0] * tiles[1], mo.grid_dim().x):
            m, n = (t % tiles[0], t // tiles[0]) if down else (t // tiles[1], t % tiles[1])
            for i in mo.static_range(bM // 64):
                for c in mo.static_range(bN // columns):
                    place = m * (bM // 64) + i, n * (bN // columns) + c
                    mo.copyto(tma, mo.tile(tma.tensor, (64, columns), place, ragged=True),
                              mo.tile(smem, (64, columns), (i, c)))
                    mo.tma_store_arrive()
                    mo.tma_store_wait(1)
        mo.tma_store_wait(0)


@mo.kernel
def write_runs(C, tiles, tile: mo.Constexpr):
    """A thread copies its row of a tile as one run."""
    bM, bN = tile
    smem = mo.shared_array(mo.bfloat16, mo.make_layout(tile, (bN + 8, 1)))
    tid, (M, N) = mo.thread_idx().x, mo.shape(C)
    fill(smem)
    mo.assume(mo.stride(C)[0] % 8 == 0)
    for t in range(mo.block_idx().x, tiles[0] * tiles[1], mo.grid_dim().x):
        m, n = t // tiles[1], t % tiles[1]
        left = mo.min(N - n * bN, bN)
        mo.assume(left % 8 == 0)
        if m * bM + tid < M:
            mo.copyto(mo.BulkCopy(), mo.tile(C[m * bM + tid, None], (bN,), (n,), ragged=True), smem[tid, None],
                      size=left)
        mo.tma_store_arrive()
        mo.tma_store_wait(1)
    mo.tma_store_wait(0)


@mo.kernel
def write_vectors(C, tiles, tile: mo.Constexpr):
    """Threads side by side have vectors side by side."""
    bM, bN = tile
    tid, (M, N), parts = mo.thread_idx().x, mo.shape(C), bN // 8
    mo.assume(N % 8 == 0)
    mo.assume(mo.stride(C)[0] % 8 == 0)
    values = mo.fragment(8, mo.bfloat16)
    values.fill(1)
    for t in range(mo.block_idx().x, tiles[0] * tiles[1], mo.grid_dim().x):
        m, n = t // tiles[1], t % tiles[1]
        for i in mo.static_range(bM * parts // 128):
            row, part = m * bM + (tid + i * 128) // parts, n * parts + (tid + i * 128) % parts
            if (row < M) & (part * 8 < N):
                mo.copyto(mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.bfloat16),
                          mo.tile(C[row, None], (8,), (part,)), values)


def tiles_of(C, bM, bN):
    return -(-C.shape[0] // bM), -(-C.shape[1] // bN)


def boxes(C, bM, bN, columns, down):
    layout = mo.tile_to_shape(mo.smem_layout_atom(mo.bfloat16, "k", columns * 2), (64, columns))
    tma = mo.make_tma_copy(mo.TmaStore(), C, layout)
    return lambda: write_boxes[BLOCKS, 128](tma, tiles_of(C, bM, bN), down, (bM, bN), columns)


def ways(C):
    found = {f"{bM}x{bN} in boxes of {columns} columns{', down' if down else ''}": boxes(C, bM, bN, columns, down)
             for bM, bN, columns, down in BOXES}
    for tile in RUNS:
        name, given = f"{tile[0]}x{tile[1]}", (C, tiles_of(C, *tile), tile)
        found[f"{name} in runs"] = lambda given=given: write_runs[BLOCKS, 128](*given)
        found[f"{name} in vectors"] = lambda given=given: write_vectors[4 * BLOCKS, 128](*given)
    return {**found, "torch fill_": lambda: C.fill_(1.0)}


def main(rows):
    print(f"{torch.cuda.get_device_name()}, {rows} rows, GB/s")
    for columns in (12800, 12816, 12808):
        C = torch.empty(rows, columns, device="cuda", dtype=torch.bfloat16)
        works = ways(C)
        for name, work in works.items():
            C.view(torch.int16).fill_(-21555)           # what no kernel writes everywhere
            work()
            assert not bool((C.view(torch.int16) == -21555).all(dim=1).any()), f"{name} leaves rows out"
        ms = interleave(works, ROUNDS, warmup=1)
        print(f"{columns} columns")
        for name, taken in ms.items():
            print(f"  {name:40} {2e-6 * rows * columns / taken:6.0f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8192)
