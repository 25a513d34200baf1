"""C = A B of row-major float32 of any extents: 64 x 64 a block through shared memory, 4 x 4 a thread, plain loops."""

import numpy as np

import moye as mo


@mo.kernel
def kernel(C, A, B):
    M, K = mo.shape(A)
    N = mo.size(B, 1)
    tid = mo.thread_idx().x
    row, column = mo.block_idx().y * 64, mo.block_idx().x * 64
    sA = mo.shared_array(mo.float32, mo.make_layout((64, 16), (1, 68)))
    sB = mo.shared_array(mo.float32, mo.make_layout((16, 64), (64, 1)))
    acc = mo.fragment((4, 4), mo.float32)
    acc.fill(0)
    a, b = mo.fragment((4,), mo.float32), mo.fragment((4,), mo.float32)
    ty, tx = tid // 16, tid % 16
    for k0 in mo.range(0, K, 16):
        for r in mo.static_range(4):
            i, k = tid // 16 + 16 * r, tid % 16
            sA[i, k] = A[row + i, k0 + k] if row + i < M and k0 + k < K else 0.0
            k, j = tid // 64 + 4 * r, tid % 64
            sB[k, j] = B[k0 + k, column + j] if k0 + k < K and column + j < N else 0.0
        mo.sync_threads()
        for k in mo.static_range(16):
            mo.copyto(a, mo.tile(sA[:, k], (4,), (ty,)))
            mo.copyto(b, mo.tile(sB[k, :], (4,), (tx,)))
            for i in mo.static_range(4):
                for j in mo.static_range(4):
                    acc[i, j] += a[i] * b[j]
        mo.sync_threads()
    for i in mo.static_range(4):
        for j in mo.static_range(4):
            if row + 4 * ty + i < M and column + 4 * tx + j < N:
                C[row + 4 * ty + i, column + 4 * tx + j] = acc[i, j]


def case(small):
    M, N, K = (70, 66, 40) if small else (2000, 2100, 1000)
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((M, K), np.float32), rng.standard_normal((K, N), np.float32)
    C = np.full((M, N), np.nan, np.float32)
    return {"arguments": (C, A, B), "outputs": (0,), "twin": (C, A, B, M, N, K),
            "grid": (mo.ceil_div(N, 64), mo.ceil_div(M, 64)), "block": 256,
            "expected": lambda: (A.astype(float) @ B.astype(float),)}
