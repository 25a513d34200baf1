extern "C" __global__ void __launch_bounds__(128)
edit_distance(int* __restrict__ distance, const unsigned char* __restrict__ first,
              const unsigned char* __restrict__ second, int length) {
    __shared__ int rows[3][129];
    int tid = threadIdx.x;
    const unsigned char* __restrict__ a = first + (long long)blockIdx.x * length;
    const unsigned char* __restrict__ b = second + (long long)blockIdx.x * length;
    if (tid == 0) rows[0][0] = 0;
    __syncthreads();
    int now = 1, last = 0, before = 2;
    for (int d = 1; d <= 2 * length; d++) {
        for (int i = tid; i <= length; i += 128) {
            int j = d - i;
            if (j >= 0 && j <= length) {
                int best = max(i, j);
                if (i > 0 && j > 0)
                    best = min(rows[before][i - 1] + (a[i - 1] != b[j - 1]), min(rows[last][i - 1], rows[last][i]) + 1);
                rows[now][i] = best;
            }
        }
        __syncthreads();
        int next = before;
        before = last;
        last = now;
        now = next;
    }
    if (tid == 0) distance[blockIdx.x] = rows[last][length];
}
