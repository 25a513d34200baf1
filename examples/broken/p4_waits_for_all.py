"""A pipeline of three stages that waits for all of its copies in every step: class P4.

It also waits for the copies of the next step, which nobody reads yet. Nothing is left to overlap with the sums.

The report:

P4: cp_async_wait(0) waits for all of the 2 groups of copies in flight, but the newest of them is not read before the next wait
  examples/broken/p4_waits_for_all.py:35 in sum_kernel
    mo.cp_async_wait(0)                                                 # step k has arrived
    ^^^^^^^^^^^^^^^^^^^
hint: cp_async_wait(1), and a commit in every step, also where there is nothing to copy
"""

# ruff: noqa: E501

import numpy as np

import moye as mo

STAGES = 3


@mo.kernel
def sum_kernel(y, x, copy):
    tid = mo.thread_idx().x
    stages = mo.shared_array(mo.float32, mo.make_layout((128, STAGES)))     # (128, STAGES)
    thr = copy.get_slice(tid)
    tXgX, tXsX = thr.partition_S(x), thr.partition_D(stages)                # (CPY, 1, k), (CPY, 1, STAGES)
    steps = mo.size(x, 1)
    total = mo.float32(0)
    for s in mo.static_range(STAGES - 1):
        mo.copyto(copy, tXsX[:, :, s], tXgX[:, :, s])
        mo.cp_async_commit()
    for k in range(steps):
        mo.cp_async_wait(0)                                                 # step k has arrived
        mo.sync_threads()                                                   # for all threads; step k - 1 is read
        if k + STAGES - 1 < steps:
            mo.copyto(copy, tXsX[:, :, (k + STAGES - 1) % STAGES], tXgX[:, :, k + STAGES - 1])
        mo.cp_async_commit()
        total += stages[127 - tid, k % STAGES]
    y[tid] = total


def row_sums(y, x, kernel=sum_kernel):
    atom = mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32)
    copy = mo.make_tiled_copy(atom, mo.make_layout((128, 1)), mo.make_layout((1, 1)))
    return kernel[1, 128](y, x, copy)


def main(steps=8):
    x = np.asfortranarray(np.random.default_rng(0).standard_normal((128, steps), np.float32))
    report = row_sums(np.zeros(128, np.float32), x, mo.check(sum_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
