// A program without Python that launches the kernels of kernels.py: a saxpy and a product, compared with the host.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <random>
#include <vector>

#include "device.hpp"
#include "kernels.h"

static std::vector<float> drawn(std::int64_t count, unsigned seed)
{
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float &value : values) {
        value = normal(generator);
    }
    return values;
}

static bool told(const char *what, double error, double most)
{
    std::printf("%s: largest error %.1e%s\n", what, error, error <= most ? "" : ", which is too large");
    return error <= most;
}

static bool saxpy_is_right(std::int64_t n)
{
    const std::vector<float> x = drawn(n, 1), y = drawn(n, 2);
    const device::Floats there_x(x), there_y(y);
    const std::int64_t shape[] = {n}, strides[] = {1};
    if (int code = saxpy(there_y.data(), shape, strides, there_x.data(), shape, strides, 2.5f, nullptr)) {
        std::printf("%s\n", saxpy_error_string(code));
        return false;
    }
    const std::vector<float> found = there_y.host();
    double error = 0;
    for (std::size_t i = 0; i < x.size(); i++) {
        error = std::fmax(error, std::fabs(found[i] - (2.5 * x[i] + y[i])));
    }
    return told("saxpy", error, 1e-5);
}

static bool product_is_right(std::int64_t M, std::int64_t N, std::int64_t K)
{
    const std::vector<float> A = drawn(M * K, 3), B = drawn(K * N, 4);
    const device::Floats there_A(A), there_B(B), there_C(std::vector<float>(static_cast<std::size_t>(M * N), NAN));
    const std::int64_t shape_C[] = {M, N}, strides_C[] = {N, 1}, shape_A[] = {M, K}, strides_A[] = {K, 1},
                       shape_B[] = {K, N}, strides_B[] = {N, 1};
    if (int code = product(there_C.data(), shape_C, strides_C, there_A.data(), shape_A, strides_A, there_B.data(),
                           shape_B, strides_B, nullptr)) {
        std::printf("%s\n", product_error_string(code));
        return false;
    }
    const std::vector<float> found = there_C.host();
    double error = 0;
    for (std::int64_t i = 0; i < M; i++) {
        for (std::int64_t j = 0; j < N; j++) {
            double exact = 0;
            for (std::int64_t k = 0; k < K; k++) {
                exact += double(A[std::size_t(i * K + k)]) * B[std::size_t(k * N + j)];
            }
            error = std::fmax(error, std::fabs(found[std::size_t(i * N + j)] - exact));
        }
    }
    return told("product", error, 1e-3);
}

// What the kernels were not compiled for is refused before anything runs.
static bool refusals_are_told()
{
    const device::Floats x(drawn(64, 5));
    const std::int64_t shape[] = {32}, strides[] = {1};
    const int code = saxpy(x.data(), shape, strides, x.data() + 1, shape, strides, 1.0f, nullptr);
    std::printf("refused: %s\n", saxpy_error_string(code));
    return code > 0;
}

int main()
try {
    device::use(0);
    const bool right = saxpy_is_right(100003) & product_is_right(201, 173, 97) & refusals_are_told();
    return right ? 0 : 1;
} catch (const std::exception &error) {
    std::printf("%s\n", error.what());
    return 1;
}
