extern "C" __global__ void __launch_bounds__(128)
embedding(float* __restrict__ out, const float* __restrict__ table, const long long* __restrict__ tokens, int columns) {
    const float4* __restrict__ source = (const float4*)(table + tokens[blockIdx.x] * columns);
    float4* __restrict__ target = (float4*)(out + (long long)blockIdx.x * columns);
    for (int k = threadIdx.x; k < columns / 4; k += 128) target[k] = source[k];
}
