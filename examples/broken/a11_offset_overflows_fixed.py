"""a11_offset_overflows.py with the position in 64 bits.
"""

import numpy as np

import moye as mo


@mo.kernel
def mark_kernel(ring, stride):
    bx, _, _ = mo.block_idx()
    position = bx.to(mo.int64) * stride                        # in the stream that the ring holds the end of
    ring[position % 4099] = 1.0


def mark(ring, blocks, kernel=mark_kernel):
    return kernel[blocks, 1](ring, (1 << 24) + 1)


def main(blocks=160):
    ring = np.zeros(4099, np.float32)
    report = mark(ring, blocks, mo.check(mark_kernel))
    print(report)
    return report


if __name__ == "__main__":
    main()
