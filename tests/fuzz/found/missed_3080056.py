# seed=3080056 grid=3 block=32
# missed: ['A11'] in a launch that is told clean
import moye as mo


@mo.kernel
def fuzz_3080056(o_i32):
    gid = mo.block_idx().x
    o_i32[gid, 2] = gid * 2147483646 % 7
