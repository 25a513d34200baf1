"""A pipeline with one stage more than fits into the shared memory of a block.

Eight stages of 32 KB are 256 KB, and no device lets a block have more than 227: class B10.

The report:

B10: ring_kernel needs 262144 bytes of shared memory per block (ring 262144); no device has more than 232448
  examples/broken/b10_too_much_shared_memory.py:23 in ring_kernel
    ring = mo.shared_array(X.dtype, mo.make_layout((8192, stages)))
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: use smaller tiles or fewer stages
"""


import numpy as np

import moye as mo


@mo.kernel
def ring_kernel(Y, X, stages: mo.Constexpr):
    tid = mo.thread_idx().x
    ring = mo.shared_array(X.dtype, mo.make_layout((8192, stages)))
    for s in mo.static_range(stages):
        ring[tid, s] = X[tid, s]
    for s in mo.static_range(stages):
        Y[tid, s] = ring[tid, s]


def through_ring(Y, X, kernel=ring_kernel):
    stages = 8
    return kernel[1, 128](Y, X, stages)


def main():
    X = np.ones((128, 8), np.float32)
    Y = np.zeros_like(X)
    report = through_ring(Y, X, mo.check(ring_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
