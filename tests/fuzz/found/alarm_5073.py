# seed=5073 grid=1 block=32
# alarm: B1 of a loop that never runs: its bounds are known when the kernel runs, and their facts contradict each other
import moye as mo


@mo.kernel
def fuzz_5073(a_u64, o_u64, n):
    gid = mo.block_idx().x * 32 + mo.thread_idx().x
    o_u64[gid, 1] = 3
    for i_6 in range(-1, mo.min(mo.max(n, -9), -1), -2):
        o_u64[gid, 0] = a_u64[min(i_6, 2) % 64]
