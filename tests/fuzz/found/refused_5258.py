# seed=5258 grid=1 block=32
# refused: a variable that the arms of an if carry and the loop then overwrites
import moye as mo


@mo.kernel
def fuzz_5258(a_f64, o_bool, n):
    gid = mo.block_idx().x * 32 + mo.thread_idx().x
    f64_2 = a_f64[gid]
    bool_3 = n <= gid
    for i_4 in range(1, n, 2):
        if f64_2 <= 0.25 < a_f64[n]:
            if bool_3:
                o_bool[gid, 1] = True
            else:
                bool_3 = f64_2 > i_4
        elif bool_3:
            o_bool[gid, 1] = False
        bool_3 = mo.isinf(f64_2)
    o_bool[gid, 0] = bool_3
