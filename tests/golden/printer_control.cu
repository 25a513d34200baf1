// control
//   block (64, 1, 1)

extern "C" __global__ void __launch_bounds__(64) control(const int n, int* __restrict__ out) {
    int total = 0;
    for (int i = 0; i < n; ++i) {
        total += i;
    }
    #pragma unroll
    for (int i = 0; i < n; i += 2) {
        total += i;
    }
    #pragma unroll 1
    for (int i = n; i > 0; --i) {
        total += i;
    }
    #pragma unroll 4
    for (int i = n; i > 0; i -= 3) {
        total += i;
    }
    int i = 0;
    {
        while (i < n) {
            {
                i += 1;
                while (true) {
                    total *= 3;
                    if (total < 10) {
                        goto continue_2;
                    }
                    if (total < 20) {
                        goto break_3;
                    }
                    if (total < 30) {
                        continue;
                    }
                    if (total < 40) {
                        goto leave_1;
                    }
                    if (total < 50) {
                        return;
                    } else if (total < 60) {
                        break;
                    } else {
                        i += 5;
                    }
                }
                out[1] = total * total;
            } continue_2:;
        } break_3:;
        out[2] = i;
    } leave_1:;
    out[0] = total;
}
