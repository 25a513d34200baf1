extern "C" __global__ void __launch_bounds__(256)
adam(float* __restrict__ p, float* __restrict__ m, float* __restrict__ v, const float* __restrict__ g, float rate,
     float beta1, float beta2, float eps, float correction1, float correction2, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n / 4) return;
    float4 p4 = ((float4*)p)[i], m4 = ((float4*)m)[i], v4 = ((float4*)v)[i], g4 = ((const float4*)g)[i];
    float* pp = (float*)&p4;
    float* mm = (float*)&m4;
    float* vv = (float*)&v4;
    float* gg = (float*)&g4;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        mm[j] = beta1 * mm[j] + (1 - beta1) * gg[j];
        vv[j] = beta2 * vv[j] + (1 - beta2) * gg[j] * gg[j];
        pp[j] -= rate * (mm[j] / correction1) / (sqrtf(vv[j] / correction2) + eps);
    }
    ((float4*)p)[i] = p4;
    ((float4*)m)[i] = m4;
    ((float4*)v)[i] = v4;
}
