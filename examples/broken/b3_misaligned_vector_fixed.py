"""b3_misaligned_vector.py with columns padded by four elements, 16 bytes.  It is clean.
"""

import numpy as np

import moye as mo


@mo.kernel
def transpose_kernel(x, y, copy, tile):
    tid = mo.thread_idx().x
    staged = mo.shared_array(x.dtype, tile)             # (32, 8)
    thr_copy = copy.get_slice(tid)
    mo.copyto(copy, thr_copy.partition_D(staged), thr_copy.partition_S(x))
    mo.sync_threads()
    for i in mo.static_range(4):
        y[tid % 8, tid // 8 + 8 * i] = staged[tid // 8 + 8 * i, tid % 8]


def transpose(x, y, kernel=transpose_kernel):
    tile = mo.make_layout((32, 8), (1, 36))
    copy = mo.make_tiled_copy(mo.CopyAtom(mo.UniversalCopy(mo.uint128), mo.float32),
                              mo.make_layout((8, 8)), mo.make_layout((4, 1)))
    return kernel[1, 64](x, y, copy, tile)


def main():
    x, y = np.asfortranarray(np.arange(256, dtype=np.float32).reshape(32, 8)), np.zeros((8, 32), np.float32)
    report = transpose(x, y, mo.check(transpose_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
