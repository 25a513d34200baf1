# seed=5001 grid=1 block=32
# crash: UnboundLocalError in the simulator's generator, where a bounds check stood before any elementwise operation
import moye as mo


@mo.kernel
def fuzz_5001(a_i32, o_i32, n):
    gid = mo.block_idx().x * 32 + mo.thread_idx().x
    v = a_i32[gid ^ n]
    r = mo.fragment((4,), mo.int32)
    r.fill(a_i32[n])
    r[...] = r % 7
    o_i32[gid, 0] = r[2]
    o_i32[gid, 1] = mo.shuffle_xor(v, 3)
