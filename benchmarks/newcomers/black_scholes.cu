__device__ __forceinline__ float normal(float d) { return 0.5f * erfcf(-d * 0.7071067811865476f); }

extern "C" __global__ void __launch_bounds__(256)
black_scholes(float* __restrict__ call, float* __restrict__ put, const float* __restrict__ price,
              const float* __restrict__ strike, const float* __restrict__ years, float rate, float volatility, int n) {
    int stride = gridDim.x * 256;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += stride) {
        float s = price[i], k = strike[i], t = years[i], root = sqrtf(t);
        float d1 = (logf(s / k) + (rate + 0.5f * volatility * volatility) * t) / (volatility * root);
        float d2 = d1 - volatility * root, discounted = k * expf(-rate * t);
        call[i] = s * normal(d1) - discounted * normal(d2);
        put[i] = discounted * normal(-d2) - s * normal(-d1);
    }
}
