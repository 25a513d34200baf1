"""Two kernels for a program in C++: a saxpy, and a product of matrices whose rows are contiguous.

``moye build kernels.py -o build/kernels.c`` writes them as C, and CMakeLists.txt does so by itself.
"""

import numpy as np

import moye as mo

TILE = 16


@mo.kernel
def saxpy(y, x, a):
    """y = a x + y; each thread has one element."""
    i = mo.block_idx().x * mo.block_dim().x + mo.thread_idx().x
    if i < mo.size(x):
        y[i] = a * x[i] + y[i]


@mo.kernel
def product(C, A, B):
    """C = A B; each thread has one element, and a block loads tiles of A and B for all of its threads."""
    tx, ty, _ = mo.thread_idx()
    bx, by, _ = mo.block_idx()
    M, N, K = mo.size(C, 0), mo.size(C, 1), mo.size(A, 1)
    mo.assume(mo.size(A, 0) == M, "A has the rows of C")
    mo.assume(mo.size(B, 0) == K, "B has a row for each column of A")
    mo.assume(mo.size(B, 1) == N, "B has the columns of C")
    row, column = by * TILE + ty, bx * TILE + tx
    sA = mo.shared_array(mo.float32, mo.make_layout((TILE, TILE), (TILE, 1)))       # (TILE, TILE)
    sB = mo.shared_array(mo.float32, mo.make_layout((TILE, TILE), (TILE, 1)))       # (TILE, TILE)
    total = mo.float32(0)
    for k in mo.range(0, K, TILE):
        sA[ty, tx], sB[ty, tx] = 0.0, 0.0
        if (row < M) & (k + tx < K):
            sA[ty, tx] = A[row, k + tx]
        if (k + ty < K) & (column < N):
            sB[ty, tx] = B[k + ty, column]
        mo.sync_threads()
        for i in mo.static_range(TILE):
            total += sA[ty, i] * sB[i, tx]
        mo.sync_threads()
    if (row < M) & (column < N):
        C[row, column] = total


def vector():
    return mo.TensorLike(mo.float32, (1024,))


def rows():
    return mo.TensorLike(mo.float32, (95, 95), (95, 1), align=4)        # odd, so that rows may be of any length


EXPORTS = [
    mo.Export(saxpy, [mo.Specialisation(vector(), vector(), 2.0, block=256)], arch=("sm_80", "sm_90a"),
              grid=lambda x: mo.ceil_div(x.shape[0], 256)),
    mo.Export(product, [mo.Specialisation(rows(), rows(), rows(), block=(TILE, TILE))], arch=("sm_80", "sm_90a"),
              grid=lambda C: (mo.ceil_div(C.shape[1], TILE), mo.ceil_div(C.shape[0], TILE))),
]


def main(M=50, N=70, K=33):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((M, K), np.float32), rng.standard_normal((K, N), np.float32)
    C = mo.testing.array(np.full((M, N), np.nan, np.float32))
    grid = mo.ceil_div(N, TILE), mo.ceil_div(M, TILE)
    product[grid, (TILE, TILE)](C, mo.testing.array(A), mo.testing.array(B))
    error = np.abs(mo.testing.host(C) - A.astype(np.float64) @ B).max()
    assert error < 1e-4
    print(f"C ({M}x{N}) = A ({M}x{K}) B ({K}x{N}): largest error {error:.1e}")


if __name__ == "__main__":
    main()
