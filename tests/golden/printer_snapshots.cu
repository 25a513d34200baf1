// snapshots
//   block (64, 1, 1)

extern "C" __global__ void __launch_bounds__(64) snapshots(int* out, const int* __restrict__ A, const int n) {
    int x = 1;
    int y = 2;
    const int x_1 = x;
    x = n;
    out[0] = x_1;
    const int y_next = x;
    x = y;
    y = y_next;
    const int x_2 = x;
    if (n < 3) {
        x = n + 1;
    }
    out[1] = x_2 + x;
    const int x_3 = x;
    for (int i = 0; i < n; ++i) {
        out[i + 2] = x_3;
        x *= 2;
    }
    const int t0 = out[7];
    out[7] = A[0] + 1;
    out[8] = t0;
    const int t1 = out[9];
    __syncthreads();
    out[10] = t1;
    if (n < 9) {
        const int t2 = x + out[11];
        x = 5;
        out[12] = t2;
    }
    out[13] = x;
}
