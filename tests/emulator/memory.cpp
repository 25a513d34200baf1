// Memory: bounds, other blocks of the cluster, asynchronous copies of threads, mbarriers, special registers.
//
// Source: PTX ISA, Data Movement and Conversion Instructions; mbarrier; Async Proxy; Special Registers.
#include <algorithm>
#include <cstring>

#include "inside.hpp"
#include "tensor.hpp"

namespace emu {
namespace {
using ull = unsigned long long;
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

void misaligned(u64 address, unsigned size, int line) {
    fault(line, "misaligned: %u bytes at address %#llx", size, (ull)address);
}

void note_global(u64 address, unsigned size, const Site& site, Access access) {
    const Range& range = site.range;
    if (access != CONSTANT_READ && !range.writable) clash(address, access, site.line);
    const u8 mark = access == CONSTANT_READ ? 1 : 2;
    u8* marks = range.marks + (address - range.low);
    for (unsigned i = 0; i < size; i += 2) {            // wider elements lie at even addresses
        if (marks[i] & (3 - mark)) clash(address, access, site.line);
        marks[i] |= mark;
    }
    if (access == WRITE) ++changes;
}

// ---- shared memory -------------------------------------------------------------------------------------------------

void outside_shared(Thread& t, u64 address, unsigned size, int line) {
    fault(line, "out of bounds: %u bytes at shared address %#llx, and the block has %u bytes from %#x on", size,
          (ull)address, t.block->shared_size, SHARED_START);
}

void note_shared(Thread& t, u64 at, unsigned size) {
    Block& b = *t.block;
    for (u64 i = at / 4; i <= (at + size - 1) / 4; ++i) b.stamps[i] = clock_now, b.writers[i] = u16(t.rank);
    ++changes;
}

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

// ---- mbarriers -----------------------------------------------------------------------------------------------------

namespace {
// The word of a barrier; an error of ``mbarriers.hpp`` is a fault with its line.
template <class F> auto with_barrier(BlockState& b, u64 address, int line, F f) {
    const u32 at = u32(address) & ((1u << RANK_BITS) - 1);
    aligned(at, 8, line);
    if (at < SHARED_START || at + 8 > SHARED_START + b.block.shared_size)
        fault(line, "out of bounds: an mbarrier at shared address %#x", at);
    u8* p = b.block.shared + (at - SHARED_START);
    try {
        u64 word = get<u64>(p);
        if constexpr (std::is_void_v<decltype(f(word))>) {
            f(word);
            put<u64>(p, word);
        } else {
            const auto result = f(word);
            put<u64>(p, word);
            return result;
        }
    } catch (const std::runtime_error& error) {
        fault(line, "the mbarrier at shared address %#x: %s", at, error.what());
    }
}
}  // namespace

void mbarrier_init(Thread& t, int line, u64 address, u32 count) {
    shared_at(t, address, 8, line, WRITE);
    with_barrier(state_of(t), address, line, [=](u64& word) { ptx::mbarrier_init(word, count); });
}

void mbarrier_inval(Thread& t, int line, u64 address) {
    shared_at(t, address, 8, line, WRITE);
    with_barrier(state_of(t), address, line, [](u64& word) { ptx::mbarrier_inval(word); });
}

void barrier_step(BlockState& b, u32 address, int line, s64 arrivals, s64 bytes) {
    if (!b.alive) fault(line, "an arrival at an mbarrier of a block that has ended");
    with_barrier(b, address, line, [=](u64& word) {
        if (bytes) ptx::mbarrier_complete_tx(word, u32(-bytes));
        if (arrivals) ptx::mbarrier_arrive(word, u32(arrivals));
    });
    ++changes;
}

u64 mbarrier_arrive(Thread& t, int line, u64 address, u32 count, bool) {
    ++changes;
    return with_barrier(block_of(t, u32(address), line), address, line,
                        [=](u64& word) { return ptx::mbarrier_arrive(word, count); });
}

void mbarrier_expect(Thread& t, int line, u64 address, u32 bytes, bool) {
    with_barrier(block_of(t, u32(address), line), address, line,
                 [=](u64& word) { ptx::mbarrier_expect_tx(word, bytes); });
}

void mbarrier_complete(Thread& t, int line, u64 address, u32 bytes) {
    barrier_step(block_of(t, u32(address), line), u32(address), line, 0, -s64(bytes));
}

bool mbarrier_test(Thread& t, int line, u64 address, u32 parity, bool by_parity, u64 state, bool may_wait) {
    shared_at(t, address, 8, line, READ);
    const bool done = with_barrier(state_of(t), address, line, [=](u64& word) {
        return by_parity ? ptx::mbarrier_test_parity(word, parity) : ptx::mbarrier_test(word, state);
    });
    if (done) return true;
    t.line = line;
    fiber_of(t).waits_for = std::string(may_wait ? "mbarrier.try_wait" : "mbarrier.test_wait") + " at shared address " +
                            std::to_string(address) + (by_parity ? " for parity " + std::to_string(parity) : "");
    yield_to_scheduler(fiber_of(t), State::POLLS);
    return false;
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
    if (counted) with_barrier(b, barrier, line, [](u64& word) { ptx::mbarrier_cp_async_begin(word); });
    machine->later([&b, copies, barrier, line] {
        perform(*copies);
        barrier_step(b, barrier, line, 1, 0);
    });
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
