"""Every step requests the next tile. The last step does too, because a copy too many is simpler than a condition.

That copy is still in flight when its stage is used again to turn the result round: class B9.

The report:

B9: staged(0, 0) of block (0, 0, 0) is written while a copy into it is in flight: thread 0 has no cp_async_wait() between its asynchronous copy at line 35 and its write at line 37
  examples/broken/b9_reused_in_flight.py:35 in reversed_sum_kernel
    mo.copyto(atom, mine[:, :, (k + 1) % 2], theirs[:, :, (k + 1) % tiles])
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/b9_reused_in_flight.py:37 in reversed_sum_kernel
    staged[tid, tiles % 2] = total
    ^^^^^^^^^^^^^^^^^^^^^^
hint: cp_async_wait() and then sync_threads() before the memory is used again
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def reversed_sum_kernel(x, y, atom):
    tid = mo.thread_idx().x
    staged = mo.shared_array(mo.float32, (128, 2))      # (tile, stage)
    gX = mo.tile(x, (128,), (None,))                    # (tile, tiles)
    tiles, total = mo.size(gX, 1), 0.0
    mine = mo.tile(staged, (1, 1), (tid, None))         # (1, 1, stages)
    theirs = mo.tile(gX, (1, 1), (tid, None))           # (1, 1, tiles)
    mo.copyto(atom, mine[:, :, 0], theirs[:, :, 0])
    for k in range(tiles):
        mo.cp_async_wait()
        mo.copyto(atom, mine[:, :, (k + 1) % 2], theirs[:, :, (k + 1) % tiles])
        total += staged[tid, k % 2]
    staged[tid, tiles % 2] = total
    mo.sync_threads()
    y[tid] = staged[127 - tid, tiles % 2]


def reversed_sum(x, y, kernel=reversed_sum_kernel):
    return kernel[1, 128](x, y, mo.CopyAtom(mo.CpAsync(mo.float32), mo.float32))


def main(tiles=4):
    x, y = np.arange(128 * tiles, dtype=np.float32), np.zeros(128, np.float32)
    report = reversed_sum(x, y, mo.check(reversed_sum_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
