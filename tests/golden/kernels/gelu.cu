// gelu_kernel
//   out: float32 (out_0,out_1):(1,out_s1), 16-byte aligned
//   x: float32 (x_0,x_1):(1,x_s1), 16-byte aligned
//   block (128, 1, 1)

extern "C" __global__ void __launch_bounds__(128)
gelu_kernel(float* __restrict__ out, const int out_s1,
            const float* __restrict__ x, const int x_s1,
            const float scale) {
    // 08_elementwise.py:18  bx, by, _ = mo.block_idx()
    const int by = blockIdx.y;
    // 08_elementwise.py:19  tid = mo.thread_idx().x
    const int tx = threadIdx.x;
    // 08_elementwise.py:20  tXgX = mo.parallelize(mo.tile(x, (BM, BN), (bx, by)), THREADS, tid)  # (2, 8)
    const int bx_times_64 = (int)blockIdx.x * 64;
    const int tx_mod_32 = tx % 32;
    const int tx_div_32 = tx / 32;
    // 08_elementwise.py:22  a = mo.make_fragment_like(tXgX)  # (2, 8)
    float a[16];
    // 08_elementwise.py:23  mo.copyto(a, tXgX)
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            a[i + 2 * j] = x[bx_times_64 + by * x_s1 * 32 + tx_mod_32 + tx_div_32 * x_s1 + 32 * i + j * x_s1 * 4];
        }
    }
    // 08_elementwise.py:25  mo.copyto(tOgO, scale * a * (1 + mo.tanh(inner)) / 2)
    float frag9[16];
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
        const float a_i = a[i];
        frag9[i] = scale * a_i * (tanhf((a_i + a_i * a_i * a_i * 0.044715f) * 0.7978846f) + 1.0f) / 2.0f;
    }
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            out[bx_times_64 + by * out_s1 * 32 + tx_mod_32 + tx_div_32 * out_s1 + 32 * i + j * out_s1 * 4] = frag9[i + 2 * j];
        }
    }
}
