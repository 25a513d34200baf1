# seed=3020097 grid=1 block=64
# missed: an overflow of constants that the remainder made disappear
import moye as mo


@mo.kernel
def fuzz_3020097(o_i32):
    gid = mo.block_idx().x
    _u8_3, i32_6 = (gid, 13 * mo.int32(2147483646) % 1001)
    o_i32[gid, 6] = i32_6
