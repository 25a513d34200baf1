extern "C" __global__ void __launch_bounds__(256)
saxpy(float* __restrict__ y, const float* __restrict__ x, float a, int n) {
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
        y[i] = a * x[i] + y[i];
}
