"""The double-buffered matrix product of MoYe's manual, C = A * B^T in float32, at its own size.

While one stage of shared memory is multiplied, the next tile of A and B is copied into the other; within a tile, the
operands of the next k are loaded into registers before the products of this one.  `make demo` runs this file.
"""

import time
from pathlib import Path

import numpy as np

import moye as mo


@mo.kernel
def matmul_kernel(A, sA_layout, copy_A, B, sB_layout, copy_B, C, mma_C):
    bM, bN, bK = mo.size(sA_layout, 0), mo.size(sB_layout, 0), mo.size(sB_layout, 1)
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x

    sA = mo.shared_array(A.dtype, sA_layout)            # (bM, bK, 2)
    sB = mo.shared_array(B.dtype, sB_layout)            # (bN, bK, 2)
    gA = mo.tile(A, (bM, bK), (bx, None))               # (bM, bK, k)
    gB = mo.tile(B, (bN, bK), (by, None))               # (bN, bK, k)
    gC = mo.tile(C, (bM, bN), (bx, by))                 # (bM, bN)

    thr_copy_A = copy_A.get_slice(tid)
    tAgA = thr_copy_A.partition_S(gA)                   # (CPY, CPY_M, CPY_K, k)
    tAsA = thr_copy_A.partition_D(sA)                   # (CPY, CPY_M, CPY_K, 2)
    thr_copy_B = copy_B.get_slice(tid)
    tBgB = thr_copy_B.partition_S(gB)                   # (CPY, CPY_N, CPY_K, k)
    tBsB = thr_copy_B.partition_D(sB)                   # (CPY, CPY_N, CPY_K, 2)
    mo.copyto(copy_A, tAsA[:, :, :, 0], tAgA[:, :, :, 0])
    mo.copyto(copy_B, tBsB[:, :, :, 0], tBgB[:, :, :, 0])

    thr_mma = mma_C.get_slice(tid)
    tCsA = thr_mma.partition_A(sA)                      # (MMA, MMA_M, MMA_K, 2)
    tCsB = thr_mma.partition_B(sB)                      # (MMA, MMA_N, MMA_K, 2)
    tCgC = thr_mma.partition_C(gC)                      # (MMA, MMA_M, MMA_N)
    tCrA = thr_mma.make_fragment_A(tCsA[:, :, :, 0])    # (MMA, MMA_M, MMA_K)
    tCrB = thr_mma.make_fragment_B(tCsB[:, :, :, 0])    # (MMA, MMA_N, MMA_K)
    tCrC = thr_mma.make_fragment_C(tCgC)                # (MMA, MMA_M, MMA_N)
    tCrC.fill(0)
    mo.cp_async_wait()
    mo.sync_threads()
    smem_read, smem_write = 0, 1
    tCsA_p = tCsA[:, :, :, smem_read]                   # (MMA, MMA_M, MMA_K)
    tCsB_p = tCsB[:, :, :, smem_read]                   # (MMA, MMA_N, MMA_K)
    mo.copyto(tCrA[:, :, 0], tCsA_p[:, :, 0])
    mo.copyto(tCrB[:, :, 0], tCsB_p[:, :, 0])
    k_tile_max, k_block_max = mo.size(tAgA, 3), mo.size(tCrA, 2)
    for k_tile in range(k_tile_max):                    # a loop of the kernel
        for k_block in mo.static_range(k_block_max):    # unrolled while tracing
            k_block_next = k_block + 1
            if k_block == k_block_max - 1:
                mo.cp_async_wait()
                mo.sync_threads()
                tCsA_p = tCsA[:, :, :, smem_read]
                tCsB_p = tCsB[:, :, :, smem_read]
                k_block_next = 0
            mo.copyto(tCrA[:, :, k_block_next], tCsA_p[:, :, k_block_next])
            mo.copyto(tCrB[:, :, k_block_next], tCsB_p[:, :, k_block_next])
            if k_block == 0 and k_tile < k_tile_max - 1:
                mo.copyto(copy_A, tAsA[:, :, :, smem_write], tAgA[:, :, :, k_tile + 1])
                mo.copyto(copy_B, tBsB[:, :, :, smem_write], tBgB[:, :, :, k_tile + 1])
                smem_read, smem_write = smem_write, smem_read
            mo.gemm(mma_C, tCrC, tCrA[:, :, k_block], tCrB[:, :, k_block], tCrC)
    mo.copyto(tCgC, tCrC)


BM, BN, BK = 128, 128, 8
S_LAYOUT = mo.make_layout((BM, BK, 2), (1, BM + 2, (BM + 2) * BK))
COPY = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.float64, cache="always"), mo.float32),
                          mo.make_layout((32, 8)), mo.make_layout((2, 1)))
MMA = mo.make_tiled_mma(mo.UniversalFMA(mo.float32), mo.make_layout((32, 8)))


def matmul(A, B, C, kernel=matmul_kernel):
    grid = (mo.ceil_div(A.shape[0], BM), mo.ceil_div(B.shape[0], BN))
    return kernel[grid, mo.size(MMA)](A, S_LAYOUT, COPY, B, S_LAYOUT, COPY, C, MMA)


def on_gpu(A, B, C):
    us = 1000 * mo.testing.do_bench(lambda: matmul(A, B, C), return_mode="median")
    return (f"{mo.testing.device()}, {us:.0f} us a launch",
            "tiles divide the extents, blocks lie inside, pointers and strides are aligned")


def in_simulator(A, B, C):
    try:
        from rich.progress import Progress
    except ImportError:
        with mo.testing.progress(lambda done, total: print(f"\r{done}/{total} blocks", end="\n" * (done == total))):
            report = matmul(A, B, C, mo.check(matmul_kernel))
    else:
        with Progress() as bar:
            task = bar.add_task("simulating", total=None)
            with mo.testing.progress(lambda done, total: bar.update(task, completed=done, total=total)):
                report = matmul(A, B, C, mo.check(matmul_kernel))
    assert report.ok, str(report)
    return "the simulator", ", ".join(report.checked) + ": no violation"


def main(M=2048, N=2048, K=256, out=Path("out")):
    rng = np.random.default_rng(0)
    A, B = (np.asfortranarray(rng.standard_normal((n, K), np.float32)) for n in (M, N))
    arrays = [mo.testing.array(x, order="F") for x in (A, B, np.full((M, N), np.nan, np.float32))]
    start = time.perf_counter()
    where, checks = on_gpu(*arrays) if mo.testing.device() else in_simulator(*arrays)
    C, seconds = mo.testing.host(arrays[2]), time.perf_counter() - start
    expected = A.astype(np.float64) @ B.T.astype(np.float64)
    error = np.linalg.norm(C - expected) / np.linalg.norm(expected)
    assert error < 1e-5, f"relative error {error:.1e}"
    print(f"C ({M}x{N}) = A ({M}x{K}) * B ({N}x{K})^T, float32, column-major\n"
          f"ran on:   {where}; {seconds:.1f} s in all\n"
          f"error:    largest {abs(C - expected).max():.1e}, relative (Frobenius) {error:.1e}, against float64 NumPy\n"
          f"checked:  {checks}")
    try:
        program = matmul_kernel.compile(A, S_LAYOUT, COPY, B, S_LAYOUT, COPY, C, MMA, block=mo.size(MMA))
    except mo.CompileError as reason:
        return print(f"CUDA:     not compiled here: {reason}")
    out.mkdir(exist_ok=True)
    (out / "matmul_double_buffered.cu").write_text(program.source)
    print(f"CUDA:     {out}/matmul_double_buffered.cu ({program.registers} registers, {program.spills} bytes spilled)")


if __name__ == "__main__":
    main()
