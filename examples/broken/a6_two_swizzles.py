"""A tile is written through a swizzled view and read through a plain one of the same memory: class A6, a lint.

Every access is in order, so no other check complains. But the values come from other places than they were put.

The report:

A6: byte 128 of smem was written through Sw<5,2,5> and is read through no swizzle: the reader finds another element there (swizzles in bytes)
  examples/broken/a6_two_swizzles.py:29 in copy_kernel
    mo.copyto(mo.parallelize(view, thr_layout, tid), mo.parallelize(src, thr_layout, tid))
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  examples/broken/a6_two_swizzles.py:31 in copy_kernel
    mo.copyto(mo.parallelize(dst, thr_layout, tid), mo.parallelize(smem, thr_layout, tid))
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: make the views that write smem and those that read it from one swizzled tensor
"""

# ruff: noqa: E501

import numpy as np

import moye as mo


@mo.kernel
def copy_kernel(dst, src, layout, swizzle, thr_layout):
    tid = mo.thread_idx().x
    smem = mo.shared_array(src.dtype, layout)                           # (32, 32)
    view = smem.with_layout(mo.ComposedLayout(swizzle, 0, layout))      # (32, 32)
    mo.copyto(mo.parallelize(view, thr_layout, tid), mo.parallelize(src, thr_layout, tid))
    mo.sync_threads()
    mo.copyto(mo.parallelize(dst, thr_layout, tid), mo.parallelize(smem, thr_layout, tid))


def copy(dst, src, kernel=copy_kernel):
    return kernel[1, 256](dst, src, mo.make_layout((32, 32)), mo.Swizzle(5, 0, 5), mo.make_layout((32, 8)))


def main():
    src = np.asfortranarray(np.arange(1024, dtype=np.float32).reshape(32, 32))
    report = copy(np.zeros((32, 32), np.float32, order="F"), src, mo.check(copy_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
