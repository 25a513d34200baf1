"""The padded tile of the reference, filled by asynchronous copies of 8 bytes.

Its second column begins at byte 132, which is no multiple of 8: class B4.

The report:

B4: CpAsync(float64, cache="always") needs addresses that are multiples of 8 bytes, but staged with layout ((2,1),1,2):((1,0),0,132) in staged of layout (32,8):(1,33) is misaligned: the stride 33 of staged is 132 bytes
  examples/broken/b4_misaligned_cp_async.py:26 in transpose_kernel
    mo.copyto(copy, thr_copy.partition_D(staged), thr_copy.partition_S(x))
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: pad by 2: a stride of 34 instead of 33
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def transpose_kernel(x, y, copy, tile):
    tid = mo.thread_idx().x
    staged = mo.shared_array(x.dtype, tile)             # (32, 8)
    thr_copy = copy.get_slice(tid)
    mo.copyto(copy, thr_copy.partition_D(staged), thr_copy.partition_S(x))
    mo.cp_async_wait()
    mo.sync_threads()
    for i in mo.static_range(4):
        y[tid % 8, tid // 8 + 8 * i] = staged[tid // 8 + 8 * i, tid % 8]


def transpose(x, y, kernel=transpose_kernel):
    tile = mo.make_layout((32, 8), (1, 33))
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.CpAsync(mo.float64), mo.float32),
                              mo.make_layout((16, 4)), mo.make_layout((2, 1)))
    return kernel[1, 64](x, y, copy, tile)


def main():
    x, y = np.asfortranarray(np.arange(256, dtype=np.float32).reshape(32, 8)), np.zeros((8, 32), np.float32)
    report = transpose(x, y, mo.check(transpose_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
