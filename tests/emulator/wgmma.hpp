// wgmma.mma_async of a warpgroup: products of matrices in shared memory.
//
//   Wgmma parse_wgmma(const std::string& opcode);     "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"
//   int words(const Wgmma&, char operand);            32-bit words of 'd' or 'a' (in registers) that a thread holds
//   void wgmma(const Wgmma&, const Shared&, uint32_t* d, const uint32_t* a, uint64_t a_descriptor,
//              uint64_t b_descriptor, bool scale_d, int scale_a, int scale_b, bool trans_a, bool trans_b);
//       d [128][words], a [128][4] or nullptr: then a_descriptor counts.  d = a b + (scale_d ? d : 0)
//   Descriptor parse_descriptor(uint64_t);
//   uint32_t matrix_address(const Descriptor&, bool k_major, int bytes, int mn, int k);    of an element
//
// Sums are made in double, with what d holds first and then in the order of k, and rounded once to the type of d; the
// hardware keeps fewer bits, so compare with a tolerance.  s32: exact, then wrapped, or clamped with .satfinite.
// The base offset of a descriptor is taken from the 128-byte row that an address lies in, as the ISA's formula for it
// says; every kernel seen has 0.
// Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions": "Register Fragments", "Shared Memory Matrix
// Layout", "Strides", "Matrix Descriptor Format".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "matrices.hpp"
#include "shared.hpp"

namespace ptx {

struct Wgmma {
    int n = 0, k = 0;
    Type d = Type::f32, a = Type::f16, b = Type::f16;
    bool satfinite = false;
};

inline Wgmma parse_wgmma(const std::string& opcode) {
    const std::vector<std::string> parts = parts_of(opcode);
    if (parts.size() < 8 || parts[0] != "wgmma" || parts[1] != "mma_async" || parts[3] != "aligned")
        refuse("no wgmma.mma_async: " + opcode);
    Wgmma found;
    int m = 0;
    parse_shape(parts[4], m, found.n, found.k);
    std::vector<Type> types;
    for (size_t i = 5; i < parts.size(); ++i) {
        if (parts[i] == "satfinite") found.satfinite = true;
        else types.push_back(type_named(parts[i]));
    }
    if (types.size() != 3) refuse("no wgmma.mma_async: " + opcode);
    found.d = types[0], found.a = types[1], found.b = types[2];
    const bool narrow = bits_of(found.a) == 8, integers = !is_float(found.a), wide = found.n % 16 == 0 || found.n == 24;
    bool known = m == 64 && found.n >= 8 && found.n <= 256 && found.n % 8 == 0 && found.k == 256 / bits_of(found.a);
    known = known && bits_of(found.a) == bits_of(found.b) && integers == !is_float(found.b);
    known = known && bits_of(found.a) >= 8 && bits_of(found.a) <= 32 && (!integers || narrow);
    known = known && (narrow || found.a == found.b) && (integers || !found.satfinite);
    if (integers) known = known && found.d == Type::s32 && (wide || found.n == 8);
    else if (narrow || found.a == Type::f16) known = known && (found.d == Type::f16 || found.d == Type::f32);
    else known = known && found.d == Type::f32 && (found.a == Type::bf16 || found.a == Type::tf32);
    if (!known) refuse("no such instruction: " + opcode);
    return found;
}

inline int words(const Wgmma& wgmma, char operand) {
    return operand == 'a' ? 4 : wgmma.n * bits_of(wgmma.d) / 64;
}

// --- matrices in shared memory ---------------------------------------------------------------------------------------

struct Descriptor {
    uint32_t start = 0, leading = 0, stride = 0, base_offset = 0, span = 0;     // bytes, but for the base offset
};

inline Descriptor parse_descriptor(uint64_t bits) {
    static const uint32_t spans[] = {0, 128, 64, 32};
    if (bits & 0x3ff1c000c000c000ull) refuse("a matrix descriptor with reserved bits set");
    const auto offset = [&](int at) { return uint32_t(bits >> at & 0x3fff) << 4; };
    return {offset(0), offset(16), offset(32), uint32_t(bits >> 49 & 7), spans[bits >> 62]};
}

// The address of element (mn, k).  A core matrix is 8 rows of 16 bytes, or of `span` bytes that are swizzled.
inline uint32_t matrix_address(const Descriptor& matrix, bool k_major, int bytes, int mn, int k) {
    const uint32_t along = uint32_t(k_major ? k : mn) * bytes, across = uint32_t(k_major ? mn : k);
    uint32_t address = matrix.start;
    if (matrix.span) {
        const uint32_t row = along / matrix.span;           // along K an instruction stays within one row
        address += across % 8 * matrix.span + across / 8 * matrix.stride + row * matrix.leading + along % matrix.span;
    } else if (k_major) {
        address += across % 8 * 16 + across / 8 * matrix.stride + along / 16 * matrix.leading + along % 16;
    } else {
        address += across % 8 * 16 + across / 8 * matrix.leading + along / 16 * matrix.stride + along % 16;
    }
    const uint32_t phase = matrix.base_offset << 7;
    return swizzled(address - phase, matrix.span) + phase;
}

// Rows of a swizzled matrix may begin within their span, where the rest holds what an instruction reads.
inline void require_within_span(const Descriptor& matrix, int along_bytes, const char* name) {
    if (!matrix.span) return;
    const uint32_t begins = matrix.start % matrix.span;
    if (begins && begins + std::min(uint32_t(along_bytes), matrix.span) > matrix.span)
        refuse(std::string("wgmma: the rows of ") + name + " begin at byte " + std::to_string(begins) + " of their " +
               std::to_string(matrix.span) + "-byte swizzle and do not end within it");
}

template <Type type, typename Word>
inline void decode_run(const uint8_t* part, double* to, size_t apart) {
    Word words[16 / sizeof(Word)];
    std::memcpy(words, part, 16);
    for (size_t i = 0; i < 16 / sizeof(Word); ++i) to[i * apart] = to_double(type, words[i]);
}

using DecodeRun = void (*)(const uint8_t*, double*, size_t);

inline DecodeRun decoder_of(Type type) {
    switch (type) {
        case Type::f16: return decode_run<Type::f16, uint16_t>;
        case Type::bf16: return decode_run<Type::bf16, uint16_t>;
        case Type::tf32: return decode_run<Type::tf32, uint32_t>;
        case Type::e4m3: return decode_run<Type::e4m3, uint8_t>;
        case Type::e5m2: return decode_run<Type::e5m2, uint8_t>;
        case Type::s8: return decode_run<Type::s8, uint8_t>;
        default: return decode_run<Type::u8, uint8_t>;
    }
}

// All elements of A (64, k) or B (n, k), k fastest, 16 bytes at a time: these lie together.
inline std::vector<double> matrix_of(const Shared& shared, uint64_t bits, Type type, int rows, int k, bool k_major,
                                     const char* name) {
    const Descriptor matrix = parse_descriptor(bits);
    const int bytes = bits_of(type) / 8, each = 16 / bytes;
    require_within_span(matrix, (k_major ? k : rows) * bytes, name);
    const DecodeRun decode_part = decoder_of(type);
    std::vector<double> found(size_t(rows) * k);
    for (int mn = 0; mn < rows; mn += k_major ? 1 : each)
        for (int i = 0; i < k; i += k_major ? each : 1)
            decode_part(shared.at(matrix_address(matrix, k_major, bytes, mn, i), 16), &found[size_t(mn) * k + i],
                        k_major ? 1 : size_t(k));
    return found;
}

// --- the product -----------------------------------------------------------------------------------------------------

// A in registers: each warp has 16 rows, as mma.m16n8k(256 / bits) has them.
inline std::vector<double> fragments_of(const Wgmma& wgmma, const uint32_t* a) {
    std::vector<double> found(size_t(64) * wgmma.k);
    const int bits = bits_of(wgmma.a), count = 128 / bits;
    for (int thread = 0; thread < 128; ++thread)
        for (int i = 0; i < count; ++i) {
            const Place at = fragment_place(16, bits, thread % 32, i);
            found[size_t(thread / 32 * 16 + at.row) * wgmma.k + at.column] =
                to_double(wgmma.a, element_of(a + thread * 4, bits, i));
        }
    return found;
}

// Each accumulator of each thread: action(thread, register element, its place in (64, n)).  Four of them are columns 2 t
// and 2 t + 1 of row g and of row g + 8 of a warp's 16; the next four are 8 columns further.
template <typename Action>
inline void each_accumulator(int n, Action action) {
    for (int thread = 0; thread < 128; ++thread) {
        const int row = thread / 32 * 16 + thread % 32 / 4, first = row * n + thread % 4 * 2;
        for (int i = 0; i < n / 2; i += 4) {
            const int at = first + 2 * i;
            action(thread, i, at), action(thread, i + 1, at + 1);
            action(thread, i + 2, at + 8 * n), action(thread, i + 3, at + 8 * n + 1);
        }
    }
}

// sum (64, n) += a (64, k) b (k, n), in the order of k; k is a multiple of 4.  Fused or not is the same: products are
// exact.
#if defined(__x86_64__)
__attribute__((optimize("O3"), target_clones("arch=haswell", "default")))
#else
__attribute__((optimize("O3")))
#endif
inline void multiply(int n, int k, const double* __restrict__ a, const double* __restrict__ b,
                     double* __restrict__ sum) {
    for (int row = 0; row < 64; ++row)
        for (int i = 0; i < k; i += 4) {
            const double* const left = a + row * k + i;
            const double* const right = b + i * n;
            double* const to = sum + row * n;
            for (int column = 0; column < n; ++column)
                to[column] = (((to[column] + left[0] * right[column]) + left[1] * right[n + column]) +
                              left[2] * right[2 * n + column]) + left[3] * right[3 * n + column];
        }
}

inline uint32_t accumulator_bits(const Wgmma& wgmma, double sum) {
    if (wgmma.d != Type::s32) return uint32_t(rounded_sum(wgmma.d, sum));
    if (wgmma.satfinite) sum = std::min(std::max(sum, double(INT32_MIN)), double(INT32_MAX));
    return uint32_t(int64_t(sum));
}

inline void wgmma(const Wgmma& op, const Shared& shared, uint32_t* d, const uint32_t* a, uint64_t a_descriptor,
                  uint64_t b_descriptor, bool scale_d, int scale_a = 1, int scale_b = 1, bool trans_a = false,
                  bool trans_b = false) {
    if ((trans_a || trans_b) && bits_of(op.a) != 16) refuse("wgmma: only matrices of 16-bit elements are transposed");
    if (scale_a * scale_a != 1 || scale_b * scale_b != 1) refuse("wgmma: imm-scale is 1 or -1");
    if (a && trans_a) refuse("wgmma: A in registers is not transposed");
    const int n = op.n, k = op.k, own = words(op, 'd'), bits = bits_of(op.d);
    const std::vector<double> left =
        a ? fragments_of(op, a) : matrix_of(shared, a_descriptor, op.a, 64, k, !trans_a, "A");
    const std::vector<double> rows = matrix_of(shared, b_descriptor, op.b, n, k, !trans_b, "B");
    std::vector<double> right(size_t(k) * n), sum(size_t(64) * n);
    for (int column = 0; column < n; ++column)
        for (int i = 0; i < k; ++i) right[size_t(i) * n + column] = rows[size_t(column) * k + i] * (scale_a * scale_b);
    if (scale_d)
        each_accumulator(n, [&](int thread, int i, int at) {
            sum[at] = bits == 32 ? to_double(op.d, d[thread * own + i])
                                 : half_to_double(element_of(d + thread * own, 16, i));
        });
    multiply(n, k, left.data(), right.data(), sum.data());
    each_accumulator(n, [&](int thread, int i, int at) {
        if (op.d == Type::f32) d[thread * own + i] = bits_of_float(float(sum[at]));
        else set_element(d + thread * own, bits, i, accumulator_bits(op, sum[at]));
    });
}

}  // namespace ptx
