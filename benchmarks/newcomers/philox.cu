extern "C" __global__ void __launch_bounds__(256)
philox(float* __restrict__ out, long long seed) {
    int i = blockIdx.x * 256 + threadIdx.x;
    unsigned c0 = i, c1 = 0, c2 = 0, c3 = 0, k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        unsigned long long a = (unsigned long long)0xD2511F53u * c0, b = (unsigned long long)0xCD9E8D57u * c2;
        unsigned n0 = (unsigned)(b >> 32) ^ c1 ^ k0, n2 = (unsigned)(a >> 32) ^ c3 ^ k1;
        c1 = (unsigned)b;
        c3 = (unsigned)a;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    unsigned words[4] = {c0, c1, c2, c3};
    float r[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        int s = (int)words[j];
        r[j] = (float)(s < 0 ? -s - 1 : s) * 4.6566127342e-10f;
    }
    ((float4*)out)[i] = make_float4(r[0], r[1], r[2], r[3]);
}
