// Numbers of PTX: narrow floats and integers to and from double, cvt, arithmetic of 16-bit floats.
//
//   double to_double(Type type, uint64_t bits);                       what a register of this type holds, exactly
//   uint64_t from_double(Type, double, Rounding, bool satfinite, bool relu);     one rounding
//   Type type_named(const char*); int bits_of(Type); bool is_float(Type);
//   uint32_t cvt(Type to, Type from, uint64_t bits, Rounding, bool satfinite, bool relu);   f16 bf16 tf32 e4m3 e5m2 f32
//   uint32_t cvt_pair_f32(Type to, float upper, float lower, Rounding, bool satfinite, bool relu);
//       cvt.rn.f16x2.f32 d, upper, lower
//   uint32_t cvt_pair(Type to, Type from, uint32_t pair, Rounding, bool satfinite, bool relu);
//       cvt.rn.f16x2.e4m3x2 d, pair
//   uint32_t cvt_pack(Type to, int32_t a, int32_t b, uint32_t c);     cvt.pack.sat.<to>.s32.b32 d, a, b, c
//   enum class Half { add, sub, mul, fma, min, max, min_nan, max_nan, neg, abs };
//   uint16_t half(Half, Type, uint16_t a, uint16_t b, uint16_t c, bool sat, bool relu);    f16 or bf16, rounded once
//   uint32_t half2(Half, Type, uint32_t a, uint32_t b, uint32_t c, bool sat, bool relu);   both halves
//
// tf32 is held as its 32-bit register: the low 13 bits are zero in results, and read as zero.
// NaN is the canonical one: 0x7fff (f16, bf16), 0x7f (e4m3, e5m2), 0x7fffffff (f32, tf32).
// Source: PTX ISA, "Alternate Floating-Point Data Formats", cvt, cvt.pack, "Half Precision Floating-Point Instructions".
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

namespace ptx {

[[noreturn]] inline void refuse(const std::string& words) { throw std::runtime_error(words); }

enum class Type : uint8_t { f16, bf16, tf32, f32, f64, e4m3, e5m2, s8, u8, s4, u4, b1, s32, u32, s64, u64 };
enum class Rounding : uint8_t { rn, rz, rm, rp, rna };

inline Type type_named(const std::string& name) {
    static const char* const names[] = {"f16", "bf16", "tf32", "f32", "f64", "e4m3", "e5m2", "s8",
                                        "u8",  "s4",   "u4",   "b1",  "s32", "u32",  "s64",  "u64"};
    for (int i = 0; i < 16; ++i)
        if (name == names[i]) return Type(i);
    refuse("no type of tensor instructions: " + name);
}

inline int bits_of(Type type) {
    static const int bits[] = {16, 16, 32, 32, 64, 8, 8, 8, 8, 4, 4, 1, 32, 32, 64, 64};
    return bits[int(type)];
}

inline bool is_float(Type type) { return int(type) <= int(Type::e5m2); }

inline float float_of(uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}

inline uint32_t bits_of_float(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    return bits;
}

inline double double_of(uint64_t bits) {
    double x;
    std::memcpy(&x, &bits, 8);
    return x;
}

inline uint64_t bits_of_double(double x) {
    uint64_t bits;
    std::memcpy(&bits, &x, 8);
    return bits;
}

// A binary format: sign, exponent, mantissa.  e4m3 has no infinities, and one NaN of each sign.
struct Format {
    int exponent, mantissa;
    uint32_t largest, nan;
    bool infinities;
    int bias() const { return (1 << (exponent - 1)) - 1; }
    int width() const { return 1 + exponent + mantissa; }
};

inline const Format& format_of(Type type) {
    static const Format f16{5, 10, 0x7bff, 0x7fff, true}, bf16{8, 7, 0x7f7f, 0x7fff, true};
    static const Format tf32{8, 10, 0x3fbff, 0x3ffff, true}, f32{8, 23, 0x7f7fffff, 0x7fffffff, true};
    static const Format e4m3{4, 3, 0x7e, 0x7f, false}, e5m2{5, 2, 0x7b, 0x7f, true};
    switch (type) {
        case Type::f16: return f16;
        case Type::bf16: return bf16;
        case Type::tf32: return tf32;
        case Type::f32: return f32;
        case Type::e4m3: return e4m3;
        case Type::e5m2: return e5m2;
        default: refuse("no float of 32 bits or less");
    }
}

inline double decode(const Format& format, uint32_t bits) {
    const uint32_t mantissa = bits & ((1u << format.mantissa) - 1);
    const uint32_t exponent = bits >> format.mantissa & ((1u << format.exponent) - 1);
    const double sign = bits >> (format.width() - 1) & 1 ? -1.0 : 1.0;
    const uint32_t magnitude = bits & ((1u << (format.width() - 1)) - 1);
    if (magnitude > format.largest) {
        const bool infinite = format.infinities && mantissa == 0;
        return infinite ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    }
    if (exponent == 0) return sign * std::ldexp(double(mantissa), 1 - format.bias() - format.mantissa);
    return sign * std::ldexp(double(mantissa | 1u << format.mantissa), int(exponent) - format.bias() - format.mantissa);
}

// A sign extended, or not, of the lowest bits.
inline int64_t integer_of(Type type, uint64_t bits) {
    switch (type) {
        case Type::s8: return int8_t(bits);
        case Type::u8: return uint8_t(bits);
        case Type::s4: return int64_t(bits << 60) >> 60;
        case Type::u4: return int64_t(bits & 15);
        case Type::b1: return int64_t(bits & 1);
        case Type::s32: return int32_t(bits);
        case Type::u32: return uint32_t(bits);
        default: return int64_t(bits);
    }
}

// The formats that half of a float holds, without its ldexp: most numbers of a product are of these.
inline double half_to_double(uint32_t bits) {
    const uint32_t sign = (bits & 0x8000) << 16, magnitude = bits & 0x7fff;
    if (magnitude >= 0x7c00) return float_of(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    if (magnitude < 0x400) return (sign ? -1.0 : 1.0) * magnitude * 0x1p-24;
    return float_of(sign | ((magnitude << 13) + (112u << 23)));
}

inline double e4m3_to_double(uint32_t bits) {
    static const auto table = [] {
        std::array<double, 256> found;
        for (uint32_t i = 0; i < 256; ++i) found[i] = decode(format_of(Type::e4m3), i);
        return found;
    }();
    return table[bits & 0xff];
}

inline double to_double(Type type, uint64_t bits) {
    switch (type) {
        case Type::f64: return double_of(bits);
        case Type::f32: return float_of(uint32_t(bits));
        case Type::tf32: return float_of(uint32_t(bits) & ~0x1fffu);
        case Type::bf16: return float_of(uint32_t(bits) << 16);
        case Type::f16: return half_to_double(uint32_t(bits));
        case Type::e5m2: return half_to_double(uint32_t(bits) << 8);
        case Type::e4m3: return e4m3_to_double(uint32_t(bits));
        default: return double(integer_of(type, bits));
    }
}

// The whole number of units in the last place that a scaled magnitude rounds to.
inline double rounded(double scaled, bool negative, Rounding rounding) {
    const double below = std::floor(scaled), rest = scaled - below;
    switch (rounding) {
        case Rounding::rn: return below + (rest > 0.5 || (rest == 0.5 && std::fmod(below, 2) == 1));
        case Rounding::rna: return below + (rest >= 0.5);
        case Rounding::rm: return below + (negative && rest > 0);
        case Rounding::rp: return below + (!negative && rest > 0);
        default: return below;
    }
}

inline uint32_t encode(const Format& format, double x, Rounding rounding, bool satfinite) {
    if (std::isnan(x)) return format.nan;
    const bool negative = std::signbit(x);
    const uint32_t sign = uint32_t(negative) << (format.width() - 1);
    const double magnitude = std::fabs(x);
    const uint32_t past = format.infinities ? format.largest + 1 : format.nan;
    if (std::isinf(x)) return sign | (satfinite ? format.largest : past);
    if (magnitude == 0) return sign;
    const int exponent = std::max(std::ilogb(magnitude), 1 - format.bias());
    const double units = rounded(std::ldexp(magnitude, format.mantissa - exponent), negative, rounding);
    // Where units are 2^mantissa or more the exponent's field becomes one more by itself.
    const double bits = std::ldexp(double(exponent + format.bias() - 1), format.mantissa) + units;
    if (bits <= format.largest) return sign | uint32_t(bits);
    const bool towards_zero = rounding == Rounding::rz || (rounding == Rounding::rm && !negative) ||
                              (rounding == Rounding::rp && negative);
    return sign | (satfinite || towards_zero ? format.largest : past);
}

inline uint64_t from_double(Type type, double x, Rounding rounding = Rounding::rn, bool satfinite = false,
                            bool relu = false) {
    if (relu && !std::isnan(x) && std::signbit(x)) x = 0;
    if (type == Type::f64) return bits_of_double(x);
    if (!is_float(type)) refuse("from_double makes floats");
    const uint32_t bits = encode(format_of(type), x, rounding, satfinite);
    return type == Type::tf32 ? bits << 13 | (bits == format_of(type).nan ? 0x1fff : 0) : bits;
}

// --- cvt -------------------------------------------------------------------------------------------------------------

inline uint32_t cvt(Type to, Type from, uint64_t bits, Rounding rounding = Rounding::rn, bool satfinite = false,
                    bool relu = false) {
    return uint32_t(from_double(to, to_double(from, bits), rounding, satfinite, relu));
}

inline uint32_t cvt_pair_f32(Type to, float upper, float lower, Rounding rounding = Rounding::rn,
                             bool satfinite = false, bool relu = false) {
    const uint32_t high = uint32_t(from_double(to, upper, rounding, satfinite, relu));
    return high << bits_of(to) | uint32_t(from_double(to, lower, rounding, satfinite, relu));
}

inline uint32_t cvt_pair(Type to, Type from, uint32_t pair, Rounding rounding = Rounding::rn, bool satfinite = false,
                         bool relu = false) {
    const uint32_t mask = (1u << bits_of(from)) - 1;
    const uint32_t high = cvt(to, from, pair >> bits_of(from) & mask, rounding, satfinite, relu);
    return high << bits_of(to) | cvt(to, from, pair & mask, rounding, satfinite, relu);
}

inline uint32_t cvt_pack(Type to, int32_t a, int32_t b, uint32_t c) {
    if (to != Type::s8 && to != Type::u8) refuse("cvt.pack with three operands makes bytes here");
    const int32_t least = to == Type::s8 ? -128 : 0, most = to == Type::s8 ? 127 : 255;
    const auto clamped = [&](int32_t x) { return uint32_t(x < least ? least : x > most ? most : x) & 0xff; };
    return c << 16 | clamped(a) << 8 | clamped(b);
}

// --- 16-bit floats ---------------------------------------------------------------------------------------------------

enum class Half : uint8_t { add, sub, mul, fma, min, max, min_nan, max_nan, neg, abs };

// a + b as a double whose last bit is sticky, so that rounding it to 24 bits or less is one rounding of the sum.
// The sum and its error are exact: TwoSum, in doubles of a small range.
inline double sum_to_odd(double a, double b) {
    const double sum = a + b;
    if (!std::isfinite(sum)) return sum;
    const double other = sum - a, error = (a - (sum - other)) + (b - other);
    if (error == 0 || (bits_of_double(sum) & 1)) return sum;
    return std::nextafter(sum, error > 0 ? std::numeric_limits<double>::infinity()
                                         : -std::numeric_limits<double>::infinity());
}

inline uint16_t least_or_most(Type type, uint16_t a, uint16_t b, bool least, bool keeps_nan) {
    const double x = to_double(type, a), y = to_double(type, b);
    if (std::isnan(x) && std::isnan(y)) return uint16_t(format_of(type).nan);
    if (std::isnan(x) || std::isnan(y)) return keeps_nan ? uint16_t(format_of(type).nan) : std::isnan(x) ? b : a;
    const bool first = x < y || (x == y && (a >> 15) >= (b >> 15));     // -0 is below +0
    return first == least ? a : b;
}

inline uint16_t half(Half what, Type type, uint16_t a, uint16_t b = 0, uint16_t c = 0, bool sat = false,
                     bool relu = false) {
    if (type != Type::f16 && type != Type::bf16) refuse("half: f16 or bf16");
    const double x = to_double(type, a), y = to_double(type, b), z = to_double(type, c);
    double exact = 0;
    switch (what) {
        case Half::neg: return a ^ 0x8000;
        case Half::abs: return a & 0x7fff;
        case Half::min: return least_or_most(type, a, b, true, false);
        case Half::max: return least_or_most(type, a, b, false, false);
        case Half::min_nan: return least_or_most(type, a, b, true, true);
        case Half::max_nan: return least_or_most(type, a, b, false, true);
        case Half::add: exact = sum_to_odd(x, y); break;
        case Half::sub: exact = sum_to_odd(x, -y); break;
        case Half::mul: exact = x * y; break;
        case Half::fma: exact = sum_to_odd(x * y, z); break;
    }
    if (sat) exact = std::isnan(exact) || exact <= 0 ? 0 : std::min(exact, 1.0);
    return uint16_t(from_double(type, exact, Rounding::rn, false, relu));
}

inline uint32_t half2(Half what, Type type, uint32_t a, uint32_t b = 0, uint32_t c = 0, bool sat = false,
                      bool relu = false) {
    const uint32_t high = half(what, type, a >> 16, b >> 16, c >> 16, sat, relu);
    return high << 16 | half(what, type, uint16_t(a), uint16_t(b), uint16_t(c), sat, relu);
}

}  // namespace ptx
