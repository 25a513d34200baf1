extern "C" __global__ void __launch_bounds__(256)
depthwise(float* __restrict__ out, const float* __restrict__ x, const float* __restrict__ weights, int images,
          int channels, int rows, int columns) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= images * channels * rows * columns) return;
    int line = i / columns, column = i - line * columns;
    int plane = line / rows, row = line - plane * rows;
    int channel = plane % channels;
    const float* __restrict__ source = x + i;
    const float* __restrict__ w = weights + channel * 9;
    float total = 0;
#pragma unroll
    for (int r = 0; r < 3; r++)
#pragma unroll
        for (int s = 0; s < 3; s++)
            if ((unsigned)(row + r - 1) < (unsigned)rows && (unsigned)(column + s - 1) < (unsigned)columns)
                total += source[(r - 1) * columns + s - 1] * w[3 * r + s];
    out[i] = total;
}
