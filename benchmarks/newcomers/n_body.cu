extern "C" __global__ void __launch_bounds__(256)
n_body(float* __restrict__ out, const float4* __restrict__ bodies, float softening, int n) {
    __shared__ float4 tile[256];
    int tid = threadIdx.x, i = blockIdx.x * 256 + tid;
    float4 me = bodies[i];
    float ax = 0, ay = 0, az = 0;
    for (int first = 0; first < n; first += 256) {
        tile[tid] = bodies[first + tid];
        __syncthreads();
        for (int j = 0; j < 256; j++) {
            float4 other = tile[j];
            float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
            float force = other.w * inverse * inverse * inverse;
            ax += force * dx;
            ay += force * dy;
            az += force * dz;
        }
        __syncthreads();
    }
    out[3 * i] = ax;
    out[3 * i + 1] = ay;
    out[3 * i + 2] = az;
}
