// CUDA on the host: one fiber for each thread of a block, barriers and warp operations where all have come.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#define __device__
#define __forceinline__ inline
#define __global__
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __restrict__ __restrict
#define __grid_constant__

struct Index { unsigned x, y, z; };
static Index threadIdx, blockIdx, blockDim, gridDim;

// --- vectors ---
#define VECTOR(T, name) \
    struct alignas(sizeof(T) * 2) name##2 { T x, y; }; \
    struct alignas(sizeof(T) * 4 > 16 ? 16 : sizeof(T) * 4) name##4 { T x, y, z, w; }; \
    static inline name##2 make_##name##2(T x, T y) { return {x, y}; } \
    static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
VECTOR(signed char, char) VECTOR(unsigned char, uchar) VECTOR(short, short) VECTOR(unsigned short, ushort)
VECTOR(int, int) VECTOR(unsigned, uint) VECTOR(float, float) VECTOR(long long, longlong)
VECTOR(unsigned long long, ulonglong) VECTOR(double, double)

// --- bits ---
template <class To, class From> static inline To bits_of(From x) { To y; memcpy(&y, &x, sizeof y); return y; }
static inline float __int_as_float(int x) { return bits_of<float>(x); }
static inline float __uint_as_float(unsigned x) { return bits_of<float>(x); }
static inline int __float_as_int(float x) { return bits_of<int>(x); }
static inline unsigned __float_as_uint(float x) { return bits_of<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return bits_of<double>(x); }
static inline long long __double_as_longlong(double x) { return bits_of<long long>(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
static inline int __clzll(unsigned long long x) { return x ? __builtin_clzll(x) : 64; }

// --- min and max, as CUDA overloads them ---
#define EXTREMA(A, B, R) \
    static inline R min(A a, B b) { return (R)a < (R)b ? (R)a : (R)b; } \
    static inline R max(A a, B b) { return (R)a > (R)b ? (R)a : (R)b; }
EXTREMA(int, int, int) EXTREMA(unsigned, unsigned, unsigned) EXTREMA(int, unsigned, unsigned)
EXTREMA(unsigned, int, unsigned) EXTREMA(long long, long long, long long)
EXTREMA(unsigned long long, unsigned long long, unsigned long long)
EXTREMA(long long, unsigned long long, unsigned long long) EXTREMA(unsigned long long, long long, unsigned long long)
EXTREMA(float, float, float) EXTREMA(double, double, double)

// --- conversions: what does not fit saturates; a NaN is 0, of a double or to 64 bits the top bit alone (PTX ISA) ---
template <class T, class F> static inline T saturated(F x) {
    const T top = (T)1 << (sizeof(T) * 8 - 1), low = (T)(-1) < 0 ? top : 0, high = ~low;
    return x != x ? (sizeof(T) == 8 || sizeof(F) == 8 ? top : 0) : (long double)x <= (long double)low ? low : (long double)x >= (long double)high ? high : (T)x;
}
static inline int __float2int_rz(float x) { return saturated<int>(x); }
static inline unsigned __float2uint_rz(float x) { return saturated<unsigned>(x); }
static inline long long __float2ll_rz(float x) { return saturated<long long>(x); }
static inline unsigned long long __float2ull_rz(float x) { return saturated<unsigned long long>(x); }
static inline int __double2int_rz(double x) { return saturated<int>(x); }
static inline unsigned __double2uint_rz(double x) { return saturated<unsigned>(x); }
static inline long long __double2ll_rz(double x) { return saturated<long long>(x); }
static inline unsigned long long __double2ull_rz(double x) { return saturated<unsigned long long>(x); }
template <class T> static inline float toward_zero(T x) {
    float y = (float)x;
    if (fabs((double)y) > fabs((double)x) || (sizeof(T) == 8 && (long double)fabsl((long double)y) >
        fabsl((long double)x))) y = nextafterf(y, 0.0f);
    return y;
}
static inline float __double2float_rz(double x) { return toward_zero(x); }
static inline float __ll2float_rz(long long x) { return toward_zero(x); }
static inline float __ull2float_rz(unsigned long long x) { return toward_zero(x); }
static inline unsigned short half_bits(float x) { return bits_of<unsigned short>((_Float16)x); }
static inline float half_value(unsigned short x) { return (float)bits_of<_Float16>(x); }
static inline unsigned short brain_bits(float x) {
    unsigned u = bits_of<unsigned>(x);
    if (x != x) return 0x7fff;
    return (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

// --- threads ---
enum { RUNS, AT_BARRIER, AT_WARP, DONE };
struct Fiber { ucontext_t context; int state; };
static Fiber fibers[1024];
static ucontext_t scheduler;
static int current, fiber_count;
static unsigned long long warp_values[1024];
static char* stacks;
static void (*entry)(void**);
static void** entry_arguments;

static void wait_for(int state) {
    fibers[current].state = state;
    swapcontext(&fibers[current].context, &scheduler);
}
static inline void __syncthreads() { wait_for(AT_BARRIER); }
static inline void __syncwarp(unsigned mask = 0xffffffffu) { wait_for(AT_WARP); }
template <class T> static T exchanged(T x, int source) {
    const int first = current / 32 * 32;
    memcpy(&warp_values[current], &x, sizeof x);
    wait_for(AT_WARP);
    T y;
    memcpy(&y, &warp_values[first + source], sizeof y);
    wait_for(AT_WARP);
    return y;
}
static inline int segment(int there, int width) {
    const int lane = current % 32, first = lane / width * width;
    return there >= first && there < first + width ? there : lane;
}
template <class T> static T __shfl_sync(unsigned, T x, int from, int width = 32) {
    return exchanged(x, current % 32 / width * width + (from & (width - 1)));
}
template <class T> static T __shfl_up_sync(unsigned, T x, unsigned by, int width = 32) {
    return exchanged(x, segment(current % 32 - (int)by, width));
}
template <class T> static T __shfl_down_sync(unsigned, T x, unsigned by, int width = 32) {
    return exchanged(x, segment(current % 32 + (int)by, width));
}
template <class T> static T __shfl_xor_sync(unsigned, T x, int lanes, int width = 32) {
    return exchanged(x, segment(current % 32 ^ lanes, width));
}
static unsigned __ballot_sync(unsigned, int on) {
    const int first = current / 32 * 32;
    warp_values[current] = on != 0;
    wait_for(AT_WARP);
    unsigned found = 0;
    for (int i = 0; i < 32; ++i)
        if (fibers[first + i].state != DONE) found |= (unsigned)warp_values[first + i] << i;
    wait_for(AT_WARP);
    return found;
}
static int __any_sync(unsigned mask, int on) { return __ballot_sync(mask, on) != 0; }
static int __all_sync(unsigned mask, int on) { return __ballot_sync(mask, !on) == 0; }
template <class T, class F> static T folded(T x, F fold) {
    const int first = current / 32 * 32;
    warp_values[current] = 0;
    memcpy(&warp_values[current], &x, sizeof x);
    wait_for(AT_WARP);
    bool any = false;
    T found{};
    for (int i = 0; i < 32; ++i)
        if (fibers[first + i].state != DONE) {
            T value;
            memcpy(&value, &warp_values[first + i], sizeof value);
            found = any ? fold(found, value) : value;
            any = true;
        }
    wait_for(AT_WARP);
    return found;
}
template <class T> static T __reduce_add_sync(unsigned, T x) {
    return folded(x, [](T a, T b) { return (T)((unsigned)a + (unsigned)b); });
}
template <class T> static T __reduce_min_sync(unsigned, T x) { return folded(x, [](T a, T b) { return a < b ? a : b; }); }
template <class T> static T __reduce_max_sync(unsigned, T x) { return folded(x, [](T a, T b) { return a > b ? a : b; }); }
static unsigned __reduce_and_sync(unsigned, unsigned x) {
    return folded(x, [](unsigned a, unsigned b) { return a & b; });
}
static unsigned __reduce_or_sync(unsigned, unsigned x) {
    return folded(x, [](unsigned a, unsigned b) { return a | b; });
}
static unsigned __reduce_xor_sync(unsigned, unsigned x) {
    return folded(x, [](unsigned a, unsigned b) { return a ^ b; });
}
template <class T> static unsigned __match_any_sync(unsigned, T x) {
    const int first = current / 32 * 32;
    warp_values[current] = 0;
    memcpy(&warp_values[current], &x, sizeof x);
    wait_for(AT_WARP);
    unsigned found = 0;
    for (int i = 0; i < 32; ++i)
        if (fibers[first + i].state != DONE && warp_values[first + i] == warp_values[current]) found |= 1u << i;
    wait_for(AT_WARP);
    return found;
}
template <class T> static unsigned __match_all_sync(unsigned mask, T x, int* every) {
    const unsigned same = __match_any_sync(mask, x), there = __ballot_sync(mask, 1);
    *every = same == there;
    return *every ? there : 0;
}

static void start() {
    entry(entry_arguments);
    fibers[current].state = DONE;
    swapcontext(&fibers[current].context, &scheduler);
}
static bool released(int first, int last, int state) {
    bool any = false;
    for (int i = first; i < last; ++i)
        if (fibers[i].state == state) any = true;
        else if (fibers[i].state != DONE) return false;
    if (any)
        for (int i = first; i < last; ++i)
            if (fibers[i].state == state) fibers[i].state = RUNS;
    return any;
}
// Runs one block; 0 if all threads ended, 1 after a deadlock.
static int run_block(int threads) {
    const int size = 1 << 16;
    if (!stacks) stacks = (char*)malloc((size_t)size * 1024);
    for (int i = 0; i < threads; ++i) {
        getcontext(&fibers[i].context);
        fibers[i].context.uc_stack.ss_sp = stacks + (size_t)size * i;
        fibers[i].context.uc_stack.ss_size = size;
        fibers[i].context.uc_link = &scheduler;
        makecontext(&fibers[i].context, start, 0);
        fibers[i].state = RUNS;
    }
    for (;;) {
        bool moved = false, left = false;
        for (int i = 0; i < threads; ++i)
            if (fibers[i].state == RUNS) {
                current = i;
                threadIdx.x = i;
                swapcontext(&scheduler, &fibers[i].context);
                moved = true;
            }
        for (int first = 0; first < threads; first += 32)
            moved |= released(first, first + 32 < threads ? first + 32 : threads, AT_WARP);
        moved |= released(0, threads, AT_BARRIER);
        for (int i = 0; i < threads; ++i) left |= fibers[i].state != DONE;
        if (!left) return 0;
        if (!moved) return 1;
    }
}
extern "C" int launch(void (*kernel)(void**), void** arguments, int grid, int block) {
    entry = kernel, entry_arguments = arguments;
    gridDim = {(unsigned)grid, 1, 1}, blockDim = {(unsigned)block, 1, 1};
    for (int b = 0; b < grid; ++b) {
        blockIdx = {(unsigned)b, 0, 0};
        if (run_block(block)) return 1;
    }
    return 0;
}
