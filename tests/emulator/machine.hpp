// What a translated kernel sees of the machine that runs it: its thread, memory, and places where threads meet.
//
// Addresses: shared memory is a window of 32 bits, in which this block's begins at 1024 and block ``rank`` of the
// cluster is found at (rank + 1) << 24.  Generic addresses are those of the host, except for two windows above.
// Source: PTX ISA, State Spaces; Generic Addressing; Memory Consistency Model.
#pragma once
#include "scalars.hpp"

namespace emu {
struct Thread;
struct Block;
struct Warp;

constexpr u32 SHARED_START = 1024, RANK_BITS = 24;
constexpr u64 SHARED_WINDOW = u64(0xf1) << 48, LOCAL_WINDOW = u64(0xf2) << 48, WINDOW_MASK = ~u64(0) << 48;

enum Access { READ, WRITE, CONSTANT_READ, ATOMIC };

// Memory that a launch may touch.  ``marks`` has a byte for each byte: 1 was read as a constant, 2 was written.
struct Range {
    u64 low, high;
    u8* marks;
    bool writable;
};

// One memory instruction, and the range that it touched last.
struct Site {
    int line;
    u64 launch = 0;
    Range range{};
};

struct Thread {
    u32 tid[3];
    u32 lane, rank;                                     // rank: its number in the block
    Block* block;
    Warp* warp;
    u8* local;
    u32 local_size;
    int fuel;
    int line;                                           // where it waits
    u64 executed;
    void* more;                                         // what the scheduler keeps
};

// Local memory of a function, while it runs.
struct Depot {
    Thread& t;
    u8* before;
    u32 size;
    Depot(Thread& t_, u8* memory, u32 bytes) : t(t_), before(t_.local), size(t_.local_size) {
        std::memset(memory, 0xff, bytes);
        t.local = memory, t.local_size = bytes;
    }
    ~Depot() { t.local = before, t.local_size = size; }
};

// What all threads of a block see alike.
struct Block {
    u32 ctaid[3], cluster_rank;
    u8* shared;                                         // of shared address SHARED_START
    u32 shared_size;
    struct Shape* shape;
    struct Cluster* cluster;
    void* more;
    u32* stamps;                                        // by 4 bytes: when the generic proxy wrote last, and who
    u16* writers;
};

struct Shape {
    u32 grid[3], block[3], cluster[3];
    u32 dynamic_size, static_size, multiprocessors;
    const u8* params;
    u64 workspace;                                      // of a cooperative launch
    u64 launch;
};

extern u64 epoch;                                       // the number of this launch
extern u32 changes;                                     // counts what others may see: a thread that polls looks again
extern u32 clock_now;

[[noreturn]] void fault(int line, const char* format, ...) __attribute__((format(printf, 2, 3)));
void pause(Thread&);                                    // let others run
void poll(Thread&, int line);                           // the same, in a loop that waits for others
[[noreturn]] void leave(Thread&);

void find_global(u64 address, unsigned size, Site&);
u8* shared_elsewhere(Thread&, u32 address, unsigned size, int line);

inline void again(Thread& t) {                          // a jump backwards
    if (--t.fuel < 0) pause(t);
}

[[noreturn]] void misaligned(u64 address, unsigned size, int line);
inline void aligned(u64 address, unsigned size, int line) {
    if (address & (size - 1)) misaligned(address, size, line);
}

void clash(u64 address, Access, int line);
void note_global(u64 address, unsigned size, const Site&, Access);
void note_shared(Thread&, u64 at, unsigned size);
[[noreturn]] void outside_shared(Thread&, u64 address, unsigned size, int line);

inline u8* global_at(u64 address, unsigned size, Site& site, Access access) {
    aligned(address, size, site.line);
    if (site.launch != epoch || address < site.range.low || address + size > site.range.high)
        find_global(address, size, site);
    if (access != READ) note_global(address, size, site, access);
    return reinterpret_cast<u8*>(address);
}

inline u8* shared_at(Thread& t, u64 address, unsigned size, int line, Access access) {
    aligned(address, size, line);
    Block& b = *t.block;
    const u64 at = address - SHARED_START;
    if (at >= b.shared_size || at + size > b.shared_size)
        outside_shared(t, address, size, line);
    if (access != READ) note_shared(t, at, size);
    return b.shared + at;
}

inline u8* cluster_at(Thread& t, u64 address, unsigned size, int line, Access access) {
    if (address >> RANK_BITS == 0) return shared_at(t, address, size, line, access);
    aligned(address, size, line);
    if (access != READ) ++changes;
    return shared_elsewhere(t, u32(address), size, line);
}

inline u8* local_at(Thread& t, u64 address, unsigned size, int line) {
    aligned(address, size, line);
    if (address >= t.local_size || address + size > t.local_size)
        fault(line, "out of bounds: %u bytes at local address %#llx of %u bytes", size, (unsigned long long)address,
              t.local_size);
    return t.local + address;
}

inline u8* generic_at(Thread& t, u64 address, unsigned size, Site& site, Access access) {
    const u64 window = address & WINDOW_MASK;
    if (window == SHARED_WINDOW) return cluster_at(t, address & ~WINDOW_MASK, size, site.line, access);
    if (window == LOCAL_WINDOW) return local_at(t, address & ~WINDOW_MASK, size, site.line);
    return global_at(address, size, site, access);
}

template <class T> inline T get(const u8* p) {
    T x;
    std::memcpy(&x, p, sizeof x);
    return x;
}
template <class T, class V> inline void put(u8* p, V value) {
    const T x = T(value);
    std::memcpy(p, &x, sizeof x);
}

// ---- atomics: one thread of the host runs all, so that each is one step --------------------------------------------

template <class T> inline T atomic_inc(T old, T top) { return old >= top ? 0 : old + 1; }
template <class T> inline T atomic_dec(T old, T top) { return old == 0 || old > top ? top : old - 1; }

// ---- where threads meet --------------------------------------------------------------------------------------------

u32 shfl(Thread&, int line, char mode, u32 value, u32 lane, u32 clamp, u32 mask, bool* inside);
u32 vote(Thread&, int line, char kind, bool value, u32 mask);       // 'a'll, 'y' any, 'u'ni, 'b'allot
u32 match_any(Thread&, int line, u64 value, u32 mask);
u32 match_all(Thread&, int line, u64 value, u32 mask, bool* all);
u32 redux(Thread&, int line, int kind, u32 value, u32 mask);        // see the kinds of ``Redux``
enum Redux { RED_ADD, RED_MIN, RED_MAX, RED_UMIN, RED_UMAX, RED_AND, RED_OR, RED_XOR };
u32 elect(Thread&, int line, u32 mask, bool* leader);
void warp_sync(Thread&, int line, u32 mask);
u32 active_mask(Thread&);
void block_barrier(Thread&, int line, u32 number, u32 threads, bool waits, bool aligned);
u32 block_reduce(Thread&, int line, char kind, u32 number, u32 threads, bool value);
void cluster_arrive(Thread&, int line, bool releases);
void cluster_wait(Thread&, int line, bool acquires);
void proxy_fence(Thread&, int line);

// ---- asynchronous copies -------------------------------------------------------------------------------------------

void cp_async(Thread&, Site&, u64 shared, u64 global, unsigned size, unsigned read);
void cp_async_commit(Thread&);
void cp_async_wait(Thread&, int line, int pending);     // -1: all, also of the open group
void cp_async_arrive(Thread&, int line, u32 barrier, bool counted);

// ---- mbarriers -----------------------------------------------------------------------------------------------------

void mbarrier_init(Thread&, int line, u64 address, u32 count);
void mbarrier_inval(Thread&, int line, u64 address);
u64 mbarrier_arrive(Thread&, int line, u64 address, u32 count, bool remote);
void mbarrier_expect(Thread&, int line, u64 address, u32 bytes, bool remote);
void mbarrier_complete(Thread&, int line, u64 address, u32 bytes);
bool mbarrier_test(Thread&, int line, u64 address, u32 parity, bool by_parity, u64 state, bool may_wait);

// ---- the rest ------------------------------------------------------------------------------------------------------

u32 special(Thread&, const char* name);
u32 mapa(Thread&, int line, u32 address, u32 rank);
inline u32 threads_of(Thread& t) { return t.block->shape->block[0] * t.block->shape->block[1] * t.block->shape->block[2]; }
}  // namespace emu
