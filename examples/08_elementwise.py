"""Arithmetic on register tensors: in place and out of place, with scalars, tensors and math functions.

A fragment is a tensor in a thread's registers.  `a + b` makes a new one; `a[...] = ...` and `a += ...` write into it;
modes of size 1 and scalars are repeated.  Python's operators, `mo.exp` and its like work element by element.
"""

import numpy as np

import moye as mo

BM, BN = 64, 32
THREADS = mo.make_layout((32, 4))


@mo.kernel
def gelu_kernel(out, x, scale):
    """out = scale * x * (1 + tanh(0.79788456 * (x + 0.044715 x^3))) / 2, out of place."""
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x
    tXgX = mo.parallelize(mo.tile(x, (BM, BN), (bx, by)), THREADS, tid)         # (2, 8)
    tOgO = mo.parallelize(mo.tile(out, (BM, BN), (bx, by)), THREADS, tid)       # (2, 8)
    a = mo.make_fragment_like(tXgX)                                             # (2, 8)
    mo.copyto(a, tXgX)
    inner = 0.79788456 * (a + 0.044715 * a**3)                                  # (2, 8), new registers
    mo.copyto(tOgO, scale * a * (1 + mo.tanh(inner)) / 2)


@mo.kernel
def in_place_kernel(x, bias):
    """x = max(exp(-|x|) * 2 + bias, 1), in place; bias has one value per row."""
    bx, by, _ = mo.block_idx()
    tid = mo.thread_idx().x
    tXgX = mo.parallelize(mo.tile(x, (BM, BN), (bx, by)), THREADS, tid)         # (2, 8)
    column = mo.tile(bias, (BM, 1), (bx, 0))                                    # (BM, 1)
    tBgB = mo.parallelize(column, mo.make_layout((32, 1)), tid % 32)            # (2, 1)
    a = mo.make_fragment_like(tXgX)                                             # (2, 8)
    b = mo.make_fragment_like(tBgB)                                             # (2, 1)
    mo.copyto(a, tXgX)
    mo.copyto(b, tBgB)
    a[...] = mo.exp(-abs(a))
    a *= 2
    a += b                                                                      # repeated along mode 1
    a[...] = mo.max(a, 1)
    mo.copyto(tXgX, a)


def gelu(out, x, scale, kernel=gelu_kernel):
    return kernel[(x.shape[0] // BM, x.shape[1] // BN), mo.size(THREADS)](out, x, scale)


def in_place(x, bias, kernel=in_place_kernel):
    return kernel[(x.shape[0] // BM, x.shape[1] // BN), mo.size(THREADS)](x, bias)


def main(M=256, N=256):
    rng = np.random.default_rng(0)
    data, bias = rng.standard_normal((M, N), np.float32), rng.standard_normal((M, 1), np.float32)
    wide = data.astype(np.float64)

    out = mo.testing.array(np.full((M, N), np.nan, np.float32), order="F")
    gelu(out, mo.testing.array(data, order="F"), 1.5)
    expected = 1.5 * wide * (1 + np.tanh(0.79788456 * (wide + 0.044715 * wide**3))) / 2
    error = np.linalg.norm(mo.testing.host(out) - expected) / np.linalg.norm(expected)
    assert error < 1e-6, f"gelu: relative error {error:.1e}"
    print(f"gelu of {M}x{N}: relative error {error:.1e} against float64")

    x = mo.testing.array(data, order="F")
    in_place(x, mo.testing.array(bias, order="F"))
    expected = np.maximum(np.exp(-abs(wide)) * 2 + bias, 1)
    error = np.linalg.norm(mo.testing.host(x) - expected) / np.linalg.norm(expected)
    assert error < 1e-6, f"in place: relative error {error:.1e}"
    print(f"max(2 exp(-|x|) + bias, 1) in place on {M}x{N}: relative error {error:.1e} against float64")


if __name__ == "__main__":
    main()
