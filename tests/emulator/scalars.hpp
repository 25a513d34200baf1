// Scalar arithmetic as the PTX ISA says it; registers are unsigned words, and floats are their bits.
//
// Source: PTX ISA, Integer Arithmetic, Floating Point, Half Precision, Data Movement and Conversion (cvt, prmt).
// Approximate functions (ex2, lg2, rcp, sin, ...) are computed in double precision and rounded.
#pragma once
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace emu {
using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s8 = int8_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
using f32 = float;
using f64 = double;
__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 s128;

template <class To, class From> inline To bits(From x) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &x, sizeof to);
    return to;
}

// A register of any width read as a float, and back.
inline f32 F(u64 r) { return bits<f32>(u32(r)); }
inline f64 D(u64 r) { return bits<f64>(r); }
inline u32 R(f32 x) { return bits<u32>(x); }
inline u64 R(f64 x) { return bits<u64>(x); }

// ---- rounding ------------------------------------------------------------------------------------------------------

enum Rounding { RN, RZ, RM, RP, RNA };

struct Directed {                                       // the rounding of the processor, while this lives
    int before = std::fegetround();
    explicit Directed(Rounding mode) {
        static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD, FE_TONEAREST};
        std::fesetround(modes[mode]);
    }
    ~Directed() { std::fesetround(before); }
};

template <class T> inline T opaque(T x) {
    volatile T hidden = x;
    return hidden;
}

inline f32 flush(f32 x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.f, x) : x; }
inline f64 flush(f64 x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0., x) : x; }
inline f32 nan_of(f32 x) { return std::isnan(x) ? F(0x7fffffff) : x; }
inline f64 nan_of(f64 x) { return x; }

template <class T> inline T saturate(T x) { return std::isnan(x) ? T(0) : x < T(0) ? T(0) : x > T(1) ? T(1) : x; }

#define EMU_BINARY(name, expression)                                                                                   \
    template <class T> inline T name(T a, T b) { return nan_of(T(expression)); }                                       \
    template <Rounding mode, class T> inline T name(T a, T b) {                                                        \
        Directed held(mode);                                                                                           \
        a = opaque(a), b = opaque(b);                                                                                  \
        return nan_of(opaque(T(expression)));                                                                          \
    }
EMU_BINARY(xadd, a + b)
EMU_BINARY(xsub, a - b)
EMU_BINARY(xmul, a * b)
EMU_BINARY(xdiv, a / b)
#undef EMU_BINARY

template <class T> inline T xfma(T a, T b, T c) { return nan_of(std::fma(a, b, c)); }
template <Rounding mode, class T> inline T xfma(T a, T b, T c) {
    Directed held(mode);
    return nan_of(opaque(std::fma(opaque(a), opaque(b), opaque(c))));
}
template <class T> inline T xsqrt(T a) { return nan_of(std::sqrt(a)); }
template <Rounding mode, class T> inline T xsqrt(T a) {
    Directed held(mode);
    return nan_of(opaque(std::sqrt(opaque(a))));
}

// min and max return the operand that is a number; -0 is below +0.
template <class T> inline T fmin2(T a, T b) {
    if (std::isnan(a)) return nan_of(b);
    if (std::isnan(b)) return a;
    return a == b ? (std::signbit(a) ? a : b) : a < b ? a : b;
}
template <class T> inline T fmax2(T a, T b) {
    if (std::isnan(a)) return nan_of(b);
    if (std::isnan(b)) return a;
    return a == b ? (std::signbit(a) ? b : a) : a > b ? a : b;
}
template <class T> inline T fmin_nan(T a, T b) {
    return std::isnan(a) || std::isnan(b) ? nan_of(T(NAN)) : fmin2(a, b);
}
template <class T> inline T fmax_nan(T a, T b) {
    return std::isnan(a) || std::isnan(b) ? nan_of(T(NAN)) : fmax2(a, b);
}

// ---- approximations ------------------------------------------------------------------------------------------------

inline f32 ex2(f32 x) { return nan_of(f32(std::exp2(f64(x)))); }
inline f32 lg2(f32 x) { return nan_of(f32(std::log2(f64(x)))); }
inline f32 rcp(f32 x) { return nan_of(f32(1.0 / f64(x))); }
inline f64 rcp_gross(f64 x) { return D(R(1.0 / x) >> 32 << 32); }           // .approx.ftz.f64: the upper half of the bits
inline f32 rsqrt(f32 x) { return nan_of(f32(1.0 / std::sqrt(f64(x)))); }
inline f64 rsqrt(f64 x) { return 1.0 / std::sqrt(x); }
inline f64 rsqrt_gross(f64 x) { return D(R(rsqrt(x)) >> 32 << 32); }
inline f32 fsin(f32 x) { return nan_of(f32(std::sin(f64(x)))); }
inline f32 fcos(f32 x) { return nan_of(f32(std::cos(f64(x)))); }
inline f32 ftanh(f32 x) { return nan_of(f32(std::tanh(f64(x)))); }

// ---- narrow floats -------------------------------------------------------------------------------------------------

// exponent bits, mantissa bits, whether there is an infinity, the code of NaN without its sign.
struct Format {
    int exponent, mantissa;
    bool infinity;
    u32 nan;
    int bias() const { return (1 << (exponent - 1)) - 1; }
    int width() const { return 1 + exponent + mantissa; }
    u32 largest() const {
        u32 top = ((1u << exponent) - 1) << mantissa;
        return infinity ? top - 1 : nan ? nan - 1 : (1u << (exponent + mantissa)) - 1;
    }
};
constexpr Format HALF{5, 10, true, 0x7fff}, BRAIN{8, 7, true, 0x7fff}, TF32{8, 10, true, 0x3ffff};
constexpr Format E4M3{4, 3, false, 0x7f}, E5M2{5, 2, true, 0x7f}, E2M1{2, 1, false, 0}, E2M3{2, 3, false, 0};
constexpr Format E3M2{3, 2, false, 0};

inline f64 widen(u32 code, const Format& f) {
    const u32 top = (1u << f.exponent) - 1, e = (code >> f.mantissa) & top, m = code & ((1u << f.mantissa) - 1);
    const f64 sign = (code >> (f.exponent + f.mantissa)) & 1 ? -1.0 : 1.0;
    if (f.infinity && e == top) return m ? f64(NAN) : sign * f64(INFINITY);
    if (!f.infinity && f.nan && (code & ((1u << (f.exponent + f.mantissa)) - 1)) == f.nan) return f64(NAN);
    if (!e) return sign * std::ldexp(f64(m), 1 - f.bias() - f.mantissa);
    return sign * std::ldexp(f64(m | (1u << f.mantissa)), int(e) - f.bias() - f.mantissa);
}

inline f64 whole(f64 x, Rounding mode) {                // of a number that is not negative
    const f64 down = std::floor(x), rest = x - down;
    if (mode == RZ || mode == RM) return down;
    if (mode == RP) return rest > 0 ? down + 1 : down;
    if (rest != 0.5) return rest > 0.5 ? down + 1 : down;
    return mode == RNA || std::fmod(down, 2.0) != 0 ? down + 1 : down;
}

// The code of a number, rounded once; ``finite`` clamps to the largest number (.satfinite).
inline u32 narrow(f64 x, const Format& f, Rounding mode = RN, bool finite = false) {
    const u32 sign = std::signbit(x) ? 1u << (f.exponent + f.mantissa) : 0;
    if (std::isnan(x)) return f.nan ? f.nan : f.largest();
    const u32 infinity = ((1u << f.exponent) - 1) << f.mantissa;
    if (std::isinf(x)) return sign | (finite || !f.infinity ? f.largest() : infinity);
    if (x == 0) return sign;
    if (sign) mode = mode == RM ? RP : mode == RP ? RM : mode;
    int e;
    std::frexp(std::fabs(x), &e);                       // |x| is in [2^(e-1), 2^e)
    const int lowest = 1 - f.bias(), unit = (e - 1 < lowest ? lowest : e - 1) - f.mantissa;
    const f64 steps = whole(std::ldexp(std::fabs(x), -unit), mode);
    // Steps of a subnormal are its code, and a carry into the next binade is one, too.
    const u64 code = u64(steps) + (u64(unit + f.mantissa - lowest) << f.mantissa);
    if (code <= f.largest()) return sign | u32(code);
    const bool up = mode == RN || mode == RNA || mode == RP;
    return sign | (finite || !f.infinity || !up ? f.largest() : infinity);
}

inline f32 half(u64 r) { return f32(bits<_Float16>(u16(r))); }
inline f32 brain(u64 r) { return F(u32(u16(r)) << 16); }
inline u16 to_half(f64 x) { return u16(narrow(x, HALF)); }
inline u16 to_half(f32 x) { return std::isnan(x) ? 0x7fff : bits<u16>(_Float16(x)); }
inline u16 to_brain(f64 x) { return u16(narrow(x, BRAIN)); }
inline u16 to_brain(f32 x) {
    if (std::isnan(x)) return 0x7fff;
    const u32 r = R(x);
    return u16((r + 0x7fff + ((r >> 16) & 1)) >> 16);
}

// a * b + c with the sum rounded to odd, so that rounding it once more is exact.
inline f64 odd_fma(f64 a, f64 b, f64 c) {
    const f64 product = a * b, sum = product + c;       // the product of narrow numbers is exact
    if (!std::isfinite(sum)) return sum;
    const f64 other = sum - product, rest = (product - (sum - other)) + (c - other);
    if (rest == 0 || (bits<u64>(sum) & 1)) return sum;
    const bool away = (rest > 0) == (sum > 0);
    return bits<f64>(bits<u64>(sum) + (away ? 1 : -1));
}

template <f32 (*in)(u64), u16 (*out)(f32), u16 (*rounded)(f64)> struct Narrow {
    static u16 add(u16 a, u16 b) { return rounded(odd_fma(in(a), 1.0, in(b))); }
    static u16 sub(u16 a, u16 b) { return rounded(odd_fma(in(a), 1.0, -in(b))); }
    static u16 mul(u16 a, u16 b) { return rounded(f64(in(a)) * in(b)); }
    static u16 fma(u16 a, u16 b, u16 c) { return rounded(odd_fma(in(a), in(b), in(c))); }
    static u16 fma_relu(u16 a, u16 b, u16 c) { return max(fma(a, b, c), 0); }
    static u16 min(u16 a, u16 b) { return out(fmin2(in(a), in(b))); }
    static u16 max(u16 a, u16 b) { return out(fmax2(in(a), in(b))); }
    static u16 min_nan(u16 a, u16 b) { return out(fmin_nan(in(a), in(b))); }
    static u16 max_nan(u16 a, u16 b) { return out(fmax_nan(in(a), in(b))); }
    static u16 neg(u16 a) { return a ^ 0x8000; }
    static u16 abs(u16 a) { return a & 0x7fff; }
    static u16 ex2(u16 a) { return rounded(std::exp2(f64(in(a)))); }
    static u16 ex2_ftz(u16 a) { return out(flush(in(ex2(out(flush(in(a))))))); }
    static u16 tanh(u16 a) { return rounded(std::tanh(f64(in(a)))); }
};
using H = Narrow<half, to_half, to_half>;
using B = Narrow<brain, to_brain, to_brain>;

template <u16 (*op)(u16)> inline u32 pairwise(u32 a) { return op(u16(a)) | u32(op(u16(a >> 16))) << 16; }
template <u16 (*op)(u16, u16)> inline u32 pairwise(u32 a, u32 b) {
    return op(u16(a), u16(b)) | u32(op(u16(a >> 16), u16(b >> 16))) << 16;
}
template <u16 (*op)(u16, u16, u16)> inline u32 pairwise(u32 a, u32 b, u32 c) {
    return op(u16(a), u16(b), u16(c)) | u32(op(u16(a >> 16), u16(b >> 16), u16(c >> 16))) << 16;
}

// ---- conversions ---------------------------------------------------------------------------------------------------

inline f64 integral(f64 x, Rounding mode) {
    switch (mode) {
        case RZ: return std::trunc(x);
        case RM: return std::floor(x);
        case RP: return std::ceil(x);
        default: return std::nearbyint(x);
    }
}

// A float as an integer: clamped to its range; NaN becomes 0, or from f64 and to 64 bits the top bit alone.
template <class T> inline T to_integer(f64 x, Rounding mode, bool of_double) {
    constexpr bool negative = T(-1) < T(0);
    constexpr int width = sizeof(T) * 8;
    const T most = negative ? T((u64(1) << (width - 1)) - 1) : T(-1), least = negative ? T(u64(1) << (width - 1)) : T(0);
    if (std::isnan(x)) return width == 64 || of_double ? T(u64(1) << (width - 1)) : T(0);
    x = integral(x, mode);
    if (x >= std::ldexp(1.0, width - negative)) return most;
    if (x < (negative ? -std::ldexp(1.0, width - 1) : 0.0)) return least;
    return T(x);
}
template <class To, Rounding mode, class From> inline To from_integer(From x) {
    Directed held(mode);
    return opaque(To(opaque(x)));
}
template <class To, class From> inline To clamped(From x) {     // cvt.sat between integers
    constexpr bool negative = To(-1) < To(0);
    const s128 most = negative ? s128((u64(1) << (sizeof(To) * 8 - 1)) - 1) : s128(To(-1));
    const s128 least = negative ? -most - 1 : s128(0), wide = s128(x);
    return To(wide > most ? most : wide < least ? least : wide);
}
template <Rounding mode> inline f32 to_single(f64 x) {
    Directed held(mode);
    return nan_of(opaque(f32(opaque(x))));
}
inline f64 relu(f64 x) { return std::isnan(x) ? x : x > 0 ? x : 0.0; }

// ---- integers ------------------------------------------------------------------------------------------------------

template <class T> inline T idiv(T a, T b) {
    if (!b) return T(-1);                               // unspecified; all ones on hardware
    return T(-1) < T(0) && b == T(-1) ? T(0 - std::make_unsigned_t<T>(a)) : T(a / b);
}
template <class T> inline T irem(T a, T b) {
    if (!b) return a;
    return T(-1) < T(0) && b == T(-1) ? T(0) : T(a % b);
}
template <class T> inline T iabs(T a) { return a < 0 ? T(0 - std::make_unsigned_t<T>(a)) : a; }
template <class T> inline T shl(T a, u32 n) { return n >= sizeof(T) * 8 ? T(0) : T(a << n); }
template <class T> inline T shr(T a, u32 n) {
    constexpr u32 width = sizeof(T) * 8;
    return n >= width ? (T(-1) < T(0) && a < T(0) ? T(-1) : T(0)) : T(a >> n);
}
inline u32 shf_l(u32 a, u32 b, u32 n) { return n ? n >= 32 ? a : (b << n) | (a >> (32 - n)) : b; }
inline u32 shf_r(u32 a, u32 b, u32 n) { return n ? n >= 32 ? b : (b << (32 - n)) | (a >> n) : a; }
inline u32 limited(u32 n) { return n > 32 ? 32 : n; }

inline u32 mulhi(u32 a, u32 b) { return u32((u64(a) * b) >> 32); }
inline s32 mulhi(s32 a, s32 b) { return s32((s64(a) * b) >> 32); }
inline u64 mulhi(u64 a, u64 b) { return u64((u128(a) * b) >> 64); }
inline s64 mulhi(s64 a, s64 b) { return s64((s128(a) * b) >> 64); }
inline u16 mulhi(u16 a, u16 b) { return u16((u32(a) * b) >> 16); }
inline s16 mulhi(s16 a, s16 b) { return s16((s32(a) * b) >> 16); }

template <class T> inline u32 popc(T a) { return u32(std::popcount(a)); }
template <class T> inline u32 clz(T a) { return u32(std::countl_zero(a)); }
template <class T> inline u32 bfind(T a) {
    if constexpr (T(-1) < T(0)) {
        using U = std::make_unsigned_t<T>;
        return bfind(U(a < 0 ? ~a : a));
    } else {
        return a ? u32(sizeof(T) * 8 - 1 - clz(a)) : ~0u;
    }
}
template <class T> inline T brev(T a) {
    T r = 0;
    for (unsigned i = 0; i < sizeof(T) * 8; ++i) r |= T((a >> i) & 1) << (sizeof(T) * 8 - 1 - i);
    return r;
}
template <class T> inline T bfe(T a, u32 at, u32 length) {
    using U = std::make_unsigned_t<T>;
    constexpr u32 width = sizeof(T) * 8;
    at &= 0xff, length &= 0xff;
    const U sign = T(-1) < T(0) && length ? U(U(a) >> (at + length - 1 < width ? at + length - 1 : width - 1)) & 1 : 0;
    U r = 0;
    for (u32 i = 0; i < width; ++i) r |= U(i < length && at + i < width ? (U(a) >> (at + i)) & 1 : sign) << i;
    return T(r);
}
template <class T> inline T bfi(T a, T b, u32 at, u32 length) {
    at &= 0xff, length &= 0xff;
    for (u32 i = 0; i < length && at + i < sizeof(T) * 8; ++i)
        b = T((b & ~(T(1) << (at + i))) | (((a >> i) & 1) << (at + i)));
    return b;
}
inline u32 lop3(u32 a, u32 b, u32 c, u32 table) {
    u32 r = 0;
    for (u32 i = 0; i < 8; ++i)
        if (table >> i & 1) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return r;
}
inline u32 prmt(u32 a, u32 b, u32 selector) {
    const u64 both = a | u64(b) << 32;
    u32 r = 0;
    for (int i = 0; i < 4; ++i) {
        const u32 s = selector >> (4 * i);
        u32 byte = u32(both >> (8 * (s & 7))) & 0xff;
        if (s & 8) byte = byte & 0x80 ? 0xff : 0;
        r |= byte << (8 * i);
    }
    return r;
}
template <class A, class C> inline C dp4a(u32 a, u32 b, C c) {
    for (int i = 0; i < 4; ++i) c = C(u32(c) + u32(s32(A(a >> (8 * i))) * s32(A(b >> (8 * i)))));
    return c;
}

// Comparisons of floats: ordered ones are false, unordered ones true, if one of both is NaN.
template <class T> inline bool either_nan(T a, T b) { return std::isnan(a) || std::isnan(b); }
}  // namespace emu
