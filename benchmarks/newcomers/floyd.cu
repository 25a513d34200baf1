extern "C" __global__ void __launch_bounds__(256)
floyd(float* __restrict__ distance, int k, int n) {
    int j = blockIdx.x * 256 + threadIdx.x, first = blockIdx.y * 8, last = min(first + 8, n);
    if (j >= n || j == k) return;
    float onward = distance[(long long)k * n + j];
    float* __restrict__ row = distance + (long long)first * n;
    for (int i = first; i < last; i++, row += n)
        if (i != k) row[j] = fminf(row[j], row[k] + onward);
}
