# seed=7446 grid=2 block=64
# crash: IndexError in the simulator, where a warp folds a value that all of its threads share, in one block of two
import moye as mo


@mo.kernel
def fuzz_7446(o_i8):
    gid = mo.block_idx().x * 64 + mo.thread_idx().x
    scratch = mo.shared_array(mo.int8, 2)
    if -mo.block_idx().x == -1:
        o_i8[gid, 0] = mo.block_reduce(mo.int8(7), scratch, "max")
        o_i8[gid, 1] = mo.warp_reduce(mo.int8(1), "add").to(mo.int8)
