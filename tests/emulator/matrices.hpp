// Matrices in the registers of a warp: ldmatrix, stmatrix, movmatrix, mma.sync.
//
//   void ldmatrix(int num, bool trans, const uint8_t* const row[32], uint32_t out[32][4]);        .b16, .x1 .x2 .x4
//   void stmatrix(int num, bool trans, uint8_t* const row[32], const uint32_t in[32][4]);
//       row[i]: where the address of lane i points to, 16 bytes; only the first 8 num lanes' are used
//   void movmatrix(const uint32_t in[32], uint32_t out[32]);                                      .trans .m8n8 .b16
//   Mma parse_mma(const std::string& opcode);     "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
//   int words(const Mma&, char operand);          32-bit words of 'a', 'b', 'c' or 'd' that a lane holds
//   void mma(const Mma&, const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* d);   each [32][words];
//       d may be c.  An f64 register is two words, the low one first.
//
// Arithmetic of mma: products are exact.  A sum with floats of 32 and 16 bits is made in double, in the order of k and
// with c first, and rounded once to the type of d (to nearest even); the hardware keeps fewer bits and truncates, so
// compare with a tolerance.  f64: a fused multiply-add for each k, in order.  Integers: exact, then wrapped to 32 bits
// or, with .satfinite, clamped.  b1: ones of a ^ b or a & b.
// Source: PTX ISA, ldmatrix, stmatrix, movmatrix, "Matrix Fragments for mma.m8n8k4" ... "mma.m16n8k256".
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "numbers.hpp"

namespace ptx {

// --- 8x8 matrices of 16-bit elements ---------------------------------------------------------------------------------

// Lane t holds elements 2 (t % 4) and the next of row t / 4; with .trans, of column t / 4.
inline void ldmatrix(int num, bool trans, const uint8_t* const row[32], uint32_t out[32][4]) {
    if (num != 1 && num != 2 && num != 4) refuse("ldmatrix: .x1, .x2 or .x4");
    for (int matrix = 0; matrix < num; ++matrix)
        for (int lane = 0; lane < 32; ++lane) {
            uint32_t word = 0;
            for (int i = 0; i < 2; ++i) {
                const int outer = lane / 4, inner = lane % 4 * 2 + i;
                const uint8_t* from = row[8 * matrix + (trans ? inner : outer)] + 2 * (trans ? outer : inner);
                uint16_t element;
                std::memcpy(&element, from, 2);
                word |= uint32_t(element) << 16 * i;
            }
            out[lane][matrix] = word;
        }
}

inline void stmatrix(int num, bool trans, uint8_t* const row[32], const uint32_t in[32][4]) {
    if (num != 1 && num != 2 && num != 4) refuse("stmatrix: .x1, .x2 or .x4");
    for (int matrix = 0; matrix < num; ++matrix)
        for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < 2; ++i) {
                const int outer = lane / 4, inner = lane % 4 * 2 + i;
                const uint16_t element = uint16_t(in[lane][matrix] >> 16 * i);
                std::memcpy(row[8 * matrix + (trans ? inner : outer)] + 2 * (trans ? outer : inner), &element, 2);
            }
}

inline void movmatrix(const uint32_t in[32], uint32_t out[32]) {
    uint16_t matrix[8][8];
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 2; ++i) matrix[lane / 4][lane % 4 * 2 + i] = uint16_t(in[lane] >> 16 * i);
    for (int lane = 0; lane < 32; ++lane) {
        const int column = lane / 4, row = lane % 4 * 2;
        out[lane] = uint32_t(matrix[row][column]) | uint32_t(matrix[row + 1][column]) << 16;
    }
}

// --- mma.sync --------------------------------------------------------------------------------------------------------

enum class Product : uint8_t { multiply, exclusive_or, conjunction };

struct Mma {
    int m = 0, n = 0, k = 0;
    bool a_column = false, b_row = false;                   // .col of A, .row of B: m8n8k4 of f16 alone
    Type d = Type::f32, a = Type::f16, b = Type::f16, c = Type::f32;
    bool satfinite = false;
    Product product = Product::multiply;

    bool quad_pairs() const { return m == 8 && k == 4 && a == Type::f16; }
};

inline std::vector<std::string> parts_of(const std::string& opcode) {
    std::vector<std::string> parts(1);
    for (char letter : opcode) {
        if (letter == '.') parts.emplace_back();
        else if (letter != ' ') parts.back() += letter;
    }
    return parts;
}

// "m16n8k16" as three numbers.
inline void parse_shape(const std::string& shape, int& m, int& n, int& k) {
    if (std::sscanf(shape.c_str(), "m%dn%dk%d", &m, &n, &k) != 3) refuse("no shape of a product: " + shape);
}

inline void require_form(const Mma& mma, const std::string& opcode) {
    const int a = bits_of(mma.a), k = mma.k;
    bool known = mma.n == 8 && a == bits_of(mma.b) && is_float(mma.a) == is_float(mma.b);
    if (mma.quad_pairs()) known = known && (mma.d == mma.c) && (mma.d == Type::f16 || mma.d == Type::f32);
    else {
        // A of m8 is one 32-bit word of each lane along k (or a double); of m16, one or two of them.
        const int step = a == 64 ? 4 : 128 / a;
        const bool four = a == 64 && mma.m == 16 && k == 4 * step;
        known = known && !mma.a_column && !mma.b_row;
        known = known && ((mma.m == 8 && k == step && (a < 16 || a == 64)) ||
                          (mma.m == 16 && (k == step || k == 2 * step || four)));
        if (mma.a == Type::e4m3 || mma.a == Type::e5m2) known = known && (mma.d == Type::f32 || mma.d == Type::f16);
        else if (!is_float(mma.a)) known = known && mma.d == Type::s32;
        else if (mma.a == Type::f64) known = known && mma.d == Type::f64;
        else known = known && mma.a == mma.b && (mma.d == Type::f32 || (mma.a == Type::f16 && mma.d == Type::f16));
        known = known && mma.c == mma.d;
    }
    known = known && (!mma.satfinite || (!is_float(mma.a) && mma.a != Type::b1));
    known = known && ((mma.a == Type::b1) == (mma.product != Product::multiply));
    if (!known) refuse("no such instruction: " + opcode);
}

inline Mma parse_mma(const std::string& opcode) {
    const std::vector<std::string> parts = parts_of(opcode);
    if (parts.size() < 10 || parts[0] != "mma" || parts[1] != "sync" || parts[2] != "aligned")
        refuse("no mma.sync: " + opcode);
    Mma mma;
    parse_shape(parts[3], mma.m, mma.n, mma.k);
    mma.a_column = parts[4] == "col";
    mma.b_row = parts[5] == "row";
    size_t at = 6;
    if (parts[at] == "satfinite") mma.satfinite = true, ++at;
    if (parts.size() < at + 4) refuse("no mma.sync: " + opcode);
    mma.d = type_named(parts[at]), mma.a = type_named(parts[at + 1]);
    mma.b = type_named(parts[at + 2]), mma.c = type_named(parts[at + 3]);
    at += 4;
    if (at + 2 == parts.size() && parts[at + 1] == "popc")
        mma.product = parts[at] == "xor" ? Product::exclusive_or : Product::conjunction;
    else if (at != parts.size()) refuse("no mma.sync: " + opcode);
    require_form(mma, opcode);
    return mma;
}

inline int words(const Mma& mma, char operand) {
    if (mma.quad_pairs()) return operand == 'a' || operand == 'b' ? 2 : mma.d == Type::f16 ? 4 : 8;
    if (operand == 'a') return mma.m * mma.k * bits_of(mma.a) / 1024;
    if (operand == 'b') return mma.n * mma.k * bits_of(mma.b) / 1024;
    return mma.m * mma.n * bits_of(mma.d) / 1024;
}

// An element of so many bits among the words of a lane.
inline uint64_t element_of(const uint32_t* lane, int bits, int i) {
    if (bits == 64) return lane[2 * i] | uint64_t(lane[2 * i + 1]) << 32;
    const int each = 32 / bits;
    return lane[i / each] >> i % each * bits & (bits == 32 ? ~0u : (1u << bits) - 1);
}

inline void set_element(uint32_t* lane, int bits, int i, uint64_t element) {
    if (bits == 64) {
        lane[2 * i] = uint32_t(element), lane[2 * i + 1] = uint32_t(element >> 32);
        return;
    }
    const int each = 32 / bits, shift = i % each * bits;
    const uint32_t mask = bits == 32 ? ~0u : ((1u << bits) - 1) << shift;
    lane[i / each] = (lane[i / each] & ~mask) | (uint32_t(element) << shift & mask);
}

struct Place {
    int row, column;
};

// Element i of lane's A (rows of m), or of B transposed (rows of n): registers go over rows g and g + 8, then along k.
inline Place fragment_place(int rows, int bits, int lane, int i) {
    const int each = bits >= 32 ? 1 : 32 / bits, word = i / each;
    const int halves = rows == 16 ? 2 : 1;
    return {lane / 4 + 8 * (word % halves), lane % 4 * each + i % each + word / halves * 4 * each};
}

inline Place accumulator_place(int lane, int i) { return {lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2}; }

// The places of mma.m8n8k4 of f16.  Lanes 4q to 4q + 3 and 16 more make one of four products.
inline Place quad_pair_place(const Mma& mma, char operand, int lane, int i) {
    const int low = lane % 4, high = lane < 16 ? 0 : 4;
    if (operand == 'a') return mma.a_column ? Place{i % 4 + high, low} : Place{low + high, i};
    if (operand == 'b') return mma.b_row ? Place{low, i + high} : Place{i, low + high};       // (k, n)
    if (mma.d == Type::f16) return {low + high, i};
    return {(lane & 1) + (i & 2) + high, (i & 4) + (lane & 2) + (i & 1)};
}

inline uint64_t rounded_sum(Type type, double sum) {
    return type == Type::f32 ? bits_of_float(float(sum)) : from_double(type, sum);
}

inline void mma_quad_pairs(const Mma& mma, const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* d) {
    const int own = words(mma, 'd'), bits = bits_of(mma.d);
    for (int q = 0; q < 4; ++q) {
        double left[8][4], right[4][8], sum[8][8];
        for (int t = 0; t < 8; ++t) {
            const int lane = 4 * q + t % 4 + t / 4 * 16;
            for (int i = 0; i < 4; ++i) {
                const Place x = quad_pair_place(mma, 'a', lane, i), y = quad_pair_place(mma, 'b', lane, i);
                left[x.row][x.column] = to_double(mma.a, element_of(a + lane * 2, 16, i));
                right[y.row][y.column] = to_double(mma.b, element_of(b + lane * 2, 16, i));
            }
            for (int i = 0; i < 8; ++i) {
                const Place z = quad_pair_place(mma, 'c', lane, i);
                sum[z.row][z.column] = to_double(mma.c, element_of(c + lane * own, bits, i));
            }
        }
        for (int row = 0; row < 8; ++row)
            for (int column = 0; column < 8; ++column)
                for (int k = 0; k < 4; ++k) sum[row][column] += left[row][k] * right[k][column];
        for (int t = 0; t < 8; ++t) {
            const int lane = 4 * q + t % 4 + t / 4 * 16;
            for (int i = 0; i < 8; ++i) {
                const Place z = quad_pair_place(mma, 'c', lane, i);
                set_element(d + lane * own, bits, i, rounded_sum(mma.d, sum[z.row][z.column]));
            }
        }
    }
}

// a (m, k) and b (n, k), both with k fastest, of one kind of number; c and d (m, n).
inline double dot(const Mma& mma, const double* a, const double* b, double c) {
    if (mma.a == Type::f64)
        for (int k = 0; k < mma.k; ++k) c = std::fma(a[k], b[k], c);
    else
        for (int k = 0; k < mma.k; ++k) c += a[k] * b[k];
    return c;
}

inline uint32_t dot(const Mma& mma, const int64_t* a, const int64_t* b, int64_t c) {
    for (int k = 0; k < mma.k; ++k)
        c += mma.product == Product::multiply     ? a[k] * b[k]
             : mma.product == Product::exclusive_or ? a[k] ^ b[k]
                                                    : a[k] & b[k];
    if (mma.satfinite) c = c > INT32_MAX ? INT32_MAX : c < INT32_MIN ? INT32_MIN : c;
    return uint32_t(c);
}

template <typename Number>
inline std::vector<Number> gathered(Type type, int rows, int k, int words_of_lane, const uint32_t* registers) {
    std::vector<Number> matrix(size_t(rows) * k);
    const int bits = bits_of(type), count = rows * k / 32;
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < count; ++i) {
            const Place at = fragment_place(rows, bits, lane, i);
            const uint64_t element = element_of(registers + lane * words_of_lane, bits, i);
            matrix[size_t(at.row) * k + at.column] =
                is_float(type) ? Number(to_double(type, element)) : Number(integer_of(type, element));
        }
    return matrix;
}

inline void mma(const Mma& mma, const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* d) {
    if (mma.quad_pairs()) return mma_quad_pairs(mma, a, b, c, d);
    const int own = words(mma, 'd'), bits = bits_of(mma.d), k = mma.k;
    const int count = mma.m * mma.n / 32;
    if (is_float(mma.a)) {
        const std::vector<double> left = gathered<double>(mma.a, mma.m, k, words(mma, 'a'), a);
        const std::vector<double> right = gathered<double>(mma.b, mma.n, k, words(mma, 'b'), b);
        for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < count; ++i) {
                const Place at = accumulator_place(lane, i);
                const double before = to_double(mma.c, element_of(c + lane * own, bits, i));
                const double sum = dot(mma, &left[size_t(at.row) * k], &right[size_t(at.column) * k], before);
                set_element(d + lane * own, bits, i, rounded_sum(mma.d, sum));
            }
        return;
    }
    const std::vector<int64_t> left = gathered<int64_t>(mma.a, mma.m, k, words(mma, 'a'), a);
    const std::vector<int64_t> right = gathered<int64_t>(mma.b, mma.n, k, words(mma, 'b'), b);
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < count; ++i) {
            const Place at = accumulator_place(lane, i);
            const int64_t before = int32_t(element_of(c + lane * own, 32, i));
            d[lane * own + i] = dot(mma, &left[size_t(at.row) * k], &right[size_t(at.column) * k], before);
        }
}

}  // namespace ptx
