// Memory: bounds, other blocks of the cluster, asynchronous copies of threads, mbarriers, special registers.
//
// Source: PTX ISA, Data Movement and Conversion Instructions; mbarrier; Async Proxy; Special Registers.
#include <algorithm>
#include <cstring>

#include "inside.hpp"

namespace emu {
namespace {
using ull = unsigned long long;
constexpr u64 MAGIC = 0x6d62617272696572;
constexpr s64 MOST_BYTES = (1 << 20) - 1;
}  // namespace

void find_global(u64 address, unsigned size, Site& site) {
    for (const Range& range : machine->ranges)
        if (address >= range.low && address + size <= range.high) {
            site.launch = epoch, site.range = range;
            return;
        }
    u64 nearest = 0;
    for (const Range& range : machine->ranges)
        if (range.low <= address && range.low >= nearest) nearest = range.low;
    fault(site.line, "out of bounds: %u bytes at global address %#llx, %lld bytes after the start of the array before it",
          size, (ull)address, nearest ? (long long)(address - nearest) : -1);
}

void clash(u64 address, Access access, int line) {
    if (access == CONSTANT_READ)
        fault(line, "ld.global.nc of address %#llx, which this launch has written", (ull)address);
    for (const Range& range : machine->ranges)
        if (address >= range.low && address < range.high && !range.writable)
            fault(line, "a write to address %#llx of an array that is only read", (ull)address);
    fault(line, "a write to address %#llx, which this launch has read by ld.global.nc", (ull)address);
}

// ---- shared memory -------------------------------------------------------------------------------------------------

BlockState& block_of(Thread& t, u32 address, int line) {
    const u32 rank = address >> RANK_BITS;
    if (!rank) return state_of(t);
    auto& blocks = t.block->cluster->blocks;
    if (rank > blocks.size()) fault(line, "shared::cluster address %#x is of no block of the cluster", address);
    BlockState& b = *blocks[rank - 1];
    if (!b.alive) fault(line, "shared::cluster address %#x is of a block that has ended", address);
    return b;
}

u8* shared_elsewhere(Thread& t, u32 address, unsigned size, int line) {
    BlockState& b = block_of(t, address, line);
    const u32 at = (address & ((1u << RANK_BITS) - 1)) - SHARED_START;
    if (at >= b.block.shared_size || at + size > b.block.shared_size)
        fault(line, "out of bounds: %u bytes at shared::cluster address %#x", size, address);
    return b.block.shared + at;
}

u32 mapa(Thread& t, int line, u32 address, u32 rank) {
    if (rank >= t.block->cluster->blocks.size())
        fault(line, "mapa to block %u of a cluster of %zu", rank, t.block->cluster->blocks.size());
    return (address & ((1u << RANK_BITS) - 1)) | (rank + 1) << RANK_BITS;
}

void proxy_fence(Thread& t, int) { fiber_of(t).fenced = clock_now++; }

void async_reads(BlockState& b, const u8* from, u64 size, const Fiber& issuer, int line) {
    const u64 first = u64(from - b.block.shared), last = first + size - 1;
    for (u64 i = first / 4; i <= last / 4; ++i) {
        const u32 when = b.stamps[i];
        if (when > b.fibers[b.writers[i]]->fenced && when > issuer.fenced)
            fault(line, "the async proxy reads shared address %#llx, which thread %u wrote without fence.proxy.async since",
                  (ull)(SHARED_START + 4 * i), b.writers[i]);
    }
}

// ---- cp.async ------------------------------------------------------------------------------------------------------

namespace {
void perform(const Copy& copy) {
    std::memcpy(copy.to, copy.from, copy.read);
    std::memset(copy.to + copy.read, 0, copy.size - copy.read);
    ++changes;
}
void perform(std::vector<Copy>& copies) {
    for (const Copy& copy : copies) perform(copy);
    copies.clear();
}
}  // namespace

void cp_async(Thread& t, Site& site, u64 shared, u64 global, unsigned size, unsigned read) {
    if (read > size) fault(site.line, "cp.async reads %u bytes of %u", read, size);
    aligned(global, size, site.line);
    const u8* from = nullptr;
    if (read) {
        aligned(global, size, site.line);
        if (site.launch != epoch || global < site.range.low || global + read > site.range.high)
            find_global(global, read, site);
        from = reinterpret_cast<const u8*>(global);
    }
    const Copy copy{shared_at(t, shared, size, site.line, WRITE), from, size, read};
    if (machine->draw(8)) {
        std::memset(copy.to, 0xff, size);               // nobody may look before the copy is complete
        fiber_of(t).open.push_back(copy);
    } else {
        perform(copy);
    }
}

void cp_async_commit(Thread& t) {
    Fiber& fiber = fiber_of(t);
    fiber.groups.emplace_back(std::move(fiber.open));
    fiber.open.clear();
}

void finish_copies(Fiber& fiber, size_t pending) {
    while (fiber.groups.size() > pending) {
        perform(fiber.groups.front());
        fiber.groups.erase(fiber.groups.begin());
    }
}

void cp_async_wait(Thread& t, int, int pending) {
    Fiber& fiber = fiber_of(t);
    finish_copies(fiber, pending < 0 ? 0 : size_t(pending));
    if (pending < 0) perform(fiber.open);
}

void cp_async_arrive(Thread& t, int line, u32 barrier, bool counted) {
    Fiber& fiber = fiber_of(t);
    BlockState& b = state_of(t);
    auto copies = std::make_shared<std::vector<Copy>>();
    for (auto& group : fiber.groups) copies->insert(copies->end(), group.begin(), group.end()), group.clear();
    copies->insert(copies->end(), fiber.open.begin(), fiber.open.end());
    fiber.open.clear();
    if (counted) barrier_step(b, barrier, line, 0, 0), b.mbarriers.at(barrier).pending += 1;
    machine->later([&b, copies, barrier, line] {
        perform(*copies);
        barrier_step(b, barrier, line, 1, 0);
    });
}

// ---- mbarriers -----------------------------------------------------------------------------------------------------

namespace {
u32 inside(u64 address) { return u32(address) & ((1u << RANK_BITS) - 1); }

Mbarrier& barrier_at(BlockState& b, u32 at, int line) {
    const auto found = b.mbarriers.find(at);
    if (found == b.mbarriers.end()) fault(line, "there is no mbarrier at shared address %#x", at);
    if (get<u64>(b.block.shared + at - SHARED_START) != (MAGIC ^ at))
        fault(line, "the mbarrier at shared address %#x was overwritten", at);
    return found->second;
}
}  // namespace

void mbarrier_init(Thread& t, int line, u64 address, u32 count) {
    const u32 at = u32(address);
    if (!count || count > u32(MOST_BYTES)) fault(line, "mbarrier.init of count %u", count);
    u8* word = shared_at(t, address, 8, line, WRITE);
    BlockState& b = state_of(t);
    const auto found = b.mbarriers.find(at);
    if (found != b.mbarriers.end() && get<u64>(word) == (MAGIC ^ at))
        fault(line, "mbarrier.init of a live mbarrier at %#x", at);
    put<u64>(word, MAGIC ^ at);
    b.mbarriers[at] = Mbarrier{count, count, 0, 0, clock_now, t.rank};
}

void mbarrier_inval(Thread& t, int line, u64 address) {
    BlockState& b = state_of(t);
    barrier_at(b, u32(address), line);
    b.mbarriers.erase(u32(address));
    put<u64>(shared_at(t, address, 8, line, WRITE), ~u64(0));
}

void barrier_step(BlockState& b, u32 address, int line, s64 arrivals, s64 bytes) {
    const u32 at = inside(address);
    Mbarrier& m = barrier_at(b, at, line);
    m.pending -= arrivals, m.bytes += bytes;
    if (m.pending < 0) fault(line, "an arrival too many at the mbarrier at %#x of count %u", at, m.count);
    if (m.bytes > MOST_BYTES || m.bytes < -MOST_BYTES)
        fault(line, "the mbarrier at %#x expects %lld bytes", at, (long long)m.bytes);
    if (!m.pending && !m.bytes) m.pending = m.count, ++m.phase;
    ++changes;
}

u64 mbarrier_arrive(Thread& t, int line, u64 address, u32 count, bool) {
    BlockState& b = block_of(t, u32(address), line);
    const u64 state = barrier_at(b, inside(address), line).phase;
    barrier_step(b, u32(address), line, count, 0);
    return state;
}

void mbarrier_expect(Thread& t, int line, u64 address, u32 bytes, bool) {
    BlockState& b = block_of(t, u32(address), line);
    Mbarrier& m = barrier_at(b, inside(address), line);
    m.bytes += bytes;                                   // the phase cannot end here: an arrival is still to come
    if (m.bytes > MOST_BYTES) fault(line, "an mbarrier expects %lld bytes", (long long)m.bytes);
}

void mbarrier_complete(Thread& t, int line, u64 address, u32 bytes) {
    barrier_step(block_of(t, u32(address), line), u32(address), line, 0, -s64(bytes));
}

bool mbarrier_test(Thread& t, int line, u64 address, u32 parity, bool by_parity, u64 state, bool may_wait) {
    shared_at(t, address, 8, line, READ);
    const u32 phase = barrier_at(state_of(t), u32(address), line).phase;
    const bool done = by_parity ? (phase & 1) != (parity & 1) : phase != state;
    if (done) return true;
    t.line = line;
    fiber_of(t).waits_for = std::string(may_wait ? "mbarrier.try_wait" : "mbarrier.test_wait") + " at address " +
                            std::to_string(address) + " for phase " + std::to_string(phase);
    yield_to_scheduler(fiber_of(t), State::POLLS);
    return false;
}

// ---- special registers ---------------------------------------------------------------------------------------------

u32 special(Thread& t, const char* name) {
    const Block& b = *t.block;
    const Shape& s = *b.shape;
    const auto is = [name](const char* other) { return !std::strcmp(name, other); };
    const char axis = name[std::strlen(name) - 1];
    const u32 i = axis == 'y' ? 1 : axis == 'z' ? 2 : 0;
    const u32 rank = b.cluster_rank, *c = s.cluster, place[3] = {rank % c[0], rank / c[0] % c[1], rank / c[0] / c[1]};
    if (!std::strncmp(name, "cluster_ctaid.", 14)) return place[i];
    if (!std::strncmp(name, "cluster_nctaid.", 15)) return c[i];
    if (!std::strncmp(name, "clusterid.", 10)) return b.ctaid[i] / c[i];
    if (!std::strncmp(name, "nclusterid.", 11)) return s.grid[i] / c[i];
    if (is("cluster_ctarank")) return rank;
    if (is("cluster_nctarank")) return c[0] * c[1] * c[2];
    if (is("is_explicit_cluster")) return c[0] * c[1] * c[2] > 1;
    if (is("laneid")) return t.lane;
    if (is("warpid")) return t.rank / 32;
    if (is("nwarpid")) return u32(state_of(t).warps.size());
    if (is("smid")) return (b.ctaid[0] * 7 + b.ctaid[1] * 3) % s.multiprocessors;
    if (is("nsmid")) return s.multiprocessors;
    if (is("lanemask_eq")) return 1u << t.lane;
    if (is("lanemask_lt")) return (1u << t.lane) - 1;
    if (is("lanemask_le")) return (2u << t.lane) - 1;
    if (is("lanemask_ge")) return ~((1u << t.lane) - 1);
    if (is("lanemask_gt")) return ~((2u << t.lane) - 1);
    if (is("dynamic_smem_size")) return s.dynamic_size;
    if (is("total_smem_size")) return s.dynamic_size + s.static_size;
    if (is("envreg1")) return u32(s.workspace >> 32);
    if (is("envreg2")) return u32(s.workspace);
    return clock_now;                                   // the clocks: they go forward
}
}  // namespace emu
