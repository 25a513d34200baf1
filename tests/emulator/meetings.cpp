// Where threads meet: votes and shuffles of a warp, barriers of a block and of a cluster.
//
// Source: PTX ISA, Parallel Synchronization and Communication Instructions.
#include <cstring>

#include "inside.hpp"

namespace emu {
bool Party::same(const Party& other, bool by_line) const {
    return here && !counted && !std::strcmp(key, other.key) && mask == other.mask && (!by_line || line == other.line);
}

namespace {
void come(Thread& t, int line, const char* key, u32 mask, void* facts) {
    if (!(mask >> t.lane & 1)) fault(line, "%s: lane %u is not in its own mask %#x", key, t.lane, mask);
    t.line = line;
    Party& party = t.warp->parties[t.lane];
    party.here = true, party.counted = false;
    party.key = key, party.mask = mask, party.line = line, party.facts = facts;
}

bool complete(const Thread& t, u32 needed, bool aligned) {
    const Party& mine = t.warp->parties[t.lane];
    for (u32 i = 0; i < 32; ++i)
        if (needed >> i & 1 && !t.warp->parties[i].same(mine, aligned)) return false;
    return true;
}

void release(Warp& warp, u32 lanes) {
    for (u32 i = 0; i < 32; ++i)
        if (lanes >> i & 1) {
            warp.parties[i].here = false;
            machine->wake(*warp.lanes[i]);
        }
}
}  // namespace

void meet(Thread& t, int line, const char* key, u32 mask, bool aligned, void* facts, Together together) {
    come(t, line, key, mask, facts);
    Warp& warp = *t.warp;
    Party& mine = warp.parties[t.lane];
    while (mine.here) {
        const u32 needed = mask & warp.alive;
        if (complete(t, needed, aligned)) {
            together(warp.parties, needed);
            release(warp, needed);
        } else {
            block_until_woken(t, line, key);
        }
    }
}

void meet_warpgroup(Thread& t, int line, const char* key, void* facts, TogetherAsGroup together) {
    BlockState& b = state_of(t);
    Warpgroup& group = b.warpgroups[t.rank / 128];
    const u32 first = t.rank / 128 * 128;
    if (first + 128 > b.fibers.size()) fault(line, "%s in a warpgroup of fewer than 128 threads", key);
    Party& mine = group.parties[t.rank % 128];
    mine = Party{true, false, key, ~0u, line, facts};
    for (const Party& other : group.parties)
        if (!other.same(mine, true)) {
            while (mine.here) block_until_woken(t, line, key);
            return;
        }
    together(t, group.parties);
    for (u32 i = 0; i < 128; ++i) {
        group.parties[i].here = false;
        machine->wake(*b.fibers[first + i]);
    }
}

// ---- of a warp -----------------------------------------------------------------------------------------------------

namespace {
struct Facts {
    u64 value = 0;
    u32 lane = 0, clamp = 0, mask = 0, result = 0;
    int kind = 0;
    bool flag = false;
};
Facts& facts_of(Party& p) { return *static_cast<Facts*>(p.facts); }

void together_shfl(std::array<Party, 32>& lanes, u32 here) {
    for (u32 i = 0; i < 32; ++i) {
        if (!(here >> i & 1)) continue;
        Facts& f = facts_of(lanes[i]);
        const u32 segment = (f.clamp >> 8) & 31, clamp = f.clamp & 31, by = f.lane & 31;
        const u32 most = (i & segment) | (clamp & ~segment), least = i & segment;
        s32 from = 0;
        f.flag = false;
        switch (f.kind) {
            case 'u': from = s32(i) - s32(by), f.flag = from >= s32(most); break;
            case 'd': from = s32(i + by), f.flag = from <= s32(most); break;
            case 'b': from = s32(i ^ by), f.flag = from <= s32(most); break;
            default: from = s32(least | (by & ~segment)), f.flag = from <= s32(most);
        }
        if (!f.flag) from = s32(i);
        if (!(here >> from & 1))
            fault(lanes[i].line, "shfl: lane %u reads lane %d, which is not in the mask %#x or has exited", i, from, f.mask);
        f.result = u32(facts_of(lanes[u32(from)]).value);
    }
}

void together_vote(std::array<Party, 32>& lanes, u32 here) {
    u32 ballot = 0;
    for (u32 i = 0; i < 32; ++i)
        if (here >> i & 1 && facts_of(lanes[i]).flag) ballot |= 1u << i;
    for (u32 i = 0; i < 32; ++i) {
        if (!(here >> i & 1)) continue;
        Facts& f = facts_of(lanes[i]);
        f.result = f.kind == 'a' ? ballot == here : f.kind == 'y' ? ballot != 0
                 : f.kind == 'u' ? ballot == 0 || ballot == here : ballot;
    }
}

void together_match(std::array<Party, 32>& lanes, u32 here) {
    for (u32 i = 0; i < 32; ++i) {
        if (!(here >> i & 1)) continue;
        Facts& f = facts_of(lanes[i]);
        u32 equal = 0;
        for (u32 j = 0; j < 32; ++j)
            if (here >> j & 1 && facts_of(lanes[j]).value == f.value) equal |= 1u << j;
        f.flag = equal == here;
        f.result = f.kind == 'a' ? (f.flag ? here : 0) : equal;
    }
}

u32 combine(int kind, u32 a, u32 b) {
    switch (kind) {
        case RED_ADD: return a + b;
        case RED_MIN: return u32(std::min(s32(a), s32(b)));
        case RED_MAX: return u32(std::max(s32(a), s32(b)));
        case RED_UMIN: return std::min(a, b);
        case RED_UMAX: return std::max(a, b);
        case RED_AND: return a & b;
        case RED_OR: return a | b;
        default: return a ^ b;
    }
}

void together_redux(std::array<Party, 32>& lanes, u32 here) {
    bool first = true;
    u32 sum = 0;
    for (u32 i = 0; i < 32; ++i)
        if (here >> i & 1) {
            Facts& f = facts_of(lanes[i]);
            sum = first ? u32(f.value) : combine(f.kind, sum, u32(f.value));
            first = false;
        }
    for (u32 i = 0; i < 32; ++i)
        if (here >> i & 1) facts_of(lanes[i]).result = sum;
}

void together_elect(std::array<Party, 32>& lanes, u32 here) {
    // The ISA does not say which; the same for the same mask, and another one for another launch.
    u32 leader = 0;
    for (u32 i = 0, skip = u32(epoch * 7) % u32(std::popcount(here)); i < 32; ++i)
        if (here >> i & 1 && !skip--) leader = i;
    for (u32 i = 0; i < 32; ++i)
        if (here >> i & 1) facts_of(lanes[i]).result = leader, facts_of(lanes[i]).flag = i == leader;
}

void together_nothing(std::array<Party, 32>&, u32) {}
}  // namespace

u32 shfl(Thread& t, int line, char mode, u32 value, u32 lane, u32 clamp, u32 mask, bool* inside) {
    static const char* const keys[] = {"shfl.up", "shfl.down", "shfl.bfly", "shfl.idx"};
    Facts f;
    f.value = value, f.lane = lane, f.clamp = clamp, f.kind = mode, f.mask = mask;
    meet(t, line, keys[mode == 'u' ? 0 : mode == 'd' ? 1 : mode == 'b' ? 2 : 3], mask, false, &f, together_shfl);
    if (inside) *inside = f.flag;
    return f.result;
}

u32 vote(Thread& t, int line, char kind, bool value, u32 mask) {
    Facts f;
    f.flag = value, f.kind = kind;
    const char* key = kind == 'a' ? "vote.all" : kind == 'y' ? "vote.any" : kind == 'u' ? "vote.uni" : "vote.ballot";
    meet(t, line, key, mask, false, &f, together_vote);
    return f.result;
}

u32 match_any(Thread& t, int line, u64 value, u32 mask) {
    Facts f;
    f.value = value;
    meet(t, line, "match.any", mask, false, &f, together_match);
    return f.result;
}

u32 match_all(Thread& t, int line, u64 value, u32 mask, bool* all) {
    Facts f;
    f.value = value, f.kind = 'a';
    meet(t, line, "match.all", mask, false, &f, together_match);
    if (all) *all = f.flag;
    return f.result;
}

u32 redux(Thread& t, int line, int kind, u32 value, u32 mask) {
    Facts f;
    f.value = value, f.kind = kind;
    meet(t, line, "redux", mask, false, &f, together_redux);
    return f.result;
}

u32 elect(Thread& t, int line, u32 mask, bool* leader) {
    Facts f;
    meet(t, line, "elect", mask, false, &f, together_elect);
    if (leader) *leader = f.flag;
    return f.result;
}

void warp_sync(Thread& t, int line, u32 mask) {
    meet(t, line, "bar.warp.sync", mask, false, nullptr, together_nothing);
}

// Lanes converge only where they must: any set that holds the lane itself is right, so each is alone.
u32 active_mask(Thread& t) { return 1u << t.lane; }

// ---- of a block ----------------------------------------------------------------------------------------------------

namespace {
bool full(const BlockState& b, const Barrier& barrier) {
    if (!barrier.units) return false;
    return barrier.count ? barrier.units >= barrier.count : barrier.lanes >= b.alive;
}

void open_if_full(BlockState& b, Barrier& barrier, int line) {
    if (!full(b, barrier)) return;
    if (barrier.count && barrier.units > barrier.count)
        fault(line, "%u threads came to a barrier of %u", barrier.units, barrier.count);
    for (Fiber* fiber : barrier.waiting) {
        Party& party = fiber->thread.warp->parties[fiber->thread.lane];
        if (party.facts) {
            Facts& f = facts_of(party);
            f.result = f.kind == 'p' ? barrier.ones : f.kind == 'a' ? barrier.all : barrier.any;
        }
        party.here = false;
        machine->wake(*fiber);
    }
    barrier = Barrier{};
    ++changes;
}

void arrive(BlockState& b, Barrier& barrier, Fiber& fiber, u32 units, bool waits) {
    barrier.lanes += 1, barrier.units += units;
    Party& party = fiber.thread.warp->parties[fiber.thread.lane];
    if (party.facts) {
        const bool flag = facts_of(party).flag;
        barrier.any |= flag, barrier.all &= flag, barrier.ones += flag;
    }
    if (waits) {
        party.counted = true;
        barrier.waiting.push_back(&fiber);
    } else {
        party.here = false;
        machine->wake(fiber);
    }
}

struct At {
    u32 number, threads;
    bool waits, aligned;
};

void arrive_as_warp(Thread& t, Barrier& barrier, const At& at) {
    Warp& warp = *t.warp;
    const u32 lanes = at.aligned ? warp.alive : 1u << t.lane;
    u32 rest = at.aligned ? 32 : 1;
    for (u32 i = 0; i < 32; ++i)
        if (lanes >> i & 1) {
            arrive(state_of(t), barrier, *warp.lanes[i], rest, at.waits);
            rest = 0;
        }
}

void come_to_barrier(Thread& t, int line, const char* key, const At& at, Facts* facts) {
    BlockState& b = state_of(t);
    if (at.number >= 16) fault(line, "there is no barrier %u", at.number);
    if (at.threads % 32 || at.threads > (b.fibers.size() + 31) / 32 * 32)
        fault(line, "barrier %u cannot count %u of %zu threads", at.number, at.threads, b.fibers.size());
    come(t, line, key, 1u << t.lane, facts);
    Party& mine = t.warp->parties[t.lane];
    mine.mask = at.number | at.threads << 8;
    while (mine.here) {
        if (!mine.counted && (!at.aligned || complete(t, t.warp->alive, true))) {
            Barrier& barrier = b.barriers[at.number];
            if (barrier.units && barrier.count != at.threads)
                fault(line, "barrier %u counts %u threads for some, and %u for this one", at.number, barrier.count,
                      at.threads);
            barrier.count = at.threads;
            arrive_as_warp(t, barrier, at);
            open_if_full(b, barrier, line);
        }
        if (mine.here) block_until_woken(t, line, std::string(key) + " " + std::to_string(at.number));
    }
}
}  // namespace

void block_barrier(Thread& t, int line, u32 number, u32 threads, bool waits, bool aligned) {
    come_to_barrier(t, line, waits ? "bar.sync" : "bar.arrive", At{number, threads, waits, aligned}, nullptr);
}

u32 block_reduce(Thread& t, int line, char kind, u32 number, u32 threads, bool value) {
    Facts f;
    f.flag = value, f.kind = kind;
    come_to_barrier(t, line, "bar.red", At{number, threads, true, true}, &f);
    return f.result;
}

// ---- of a cluster --------------------------------------------------------------------------------------------------

namespace {
void next_phase_if_full(Cluster& cluster) {
    if (!cluster.arrived || cluster.arrived < cluster.alive) return;
    cluster.arrived = 0, ++cluster.phase, ++changes;
    for (Fiber* fiber : cluster.waiting) machine->wake(*fiber);
    cluster.waiting.clear();
}
}  // namespace

void cluster_arrive(Thread& t, int line, bool) {
    Fiber& fiber = fiber_of(t);
    if (fiber.cluster_arrived) fault(line, "barrier.cluster.arrive twice, with no barrier.cluster.wait between");
    Cluster& cluster = *t.block->cluster;
    fiber.cluster_arrived = true, fiber.cluster_phase = cluster.phase;
    ++cluster.arrived;
    next_phase_if_full(cluster);
}

void cluster_wait(Thread& t, int line, bool) {
    Fiber& fiber = fiber_of(t);
    if (!fiber.cluster_arrived) fault(line, "barrier.cluster.wait without barrier.cluster.arrive");
    Cluster& cluster = *t.block->cluster;
    while (cluster.phase == fiber.cluster_phase) {
        cluster.waiting.push_back(&fiber);
        block_until_woken(t, line, "barrier.cluster.wait");
    }
    fiber.cluster_arrived = false;
}

// ---- a thread's end ------------------------------------------------------------------------------------------------

namespace {
void require_read(const BlockState& b) {
    for (const auto& fiber : b.fibers) {
        std::vector<Stores> groups = fiber->store_groups;
        groups.push_back(fiber->open_stores);
        for (const Stores& group : groups)
            for (const auto& store : group)
                if (store->step < 1)
                    fault(fiber->thread.line, "the block ends, and a bulk copy of %s out of its shared memory need not "
                          "have read it", place(fiber->thread).c_str());
    }
}
}  // namespace

void thread_exits(Fiber& fiber) {
    Thread& t = fiber.thread;
    BlockState& b = state_of(t);
    Cluster& cluster = *t.block->cluster;
    finish_copies(fiber, 0);
    t.warp->alive &= ~(1u << t.lane);
    for (Fiber* other : t.warp->lanes)
        if (other && other != &fiber) machine->wake(*other);
    --b.alive, --cluster.alive;
    if (fiber.cluster_arrived && cluster.phase == fiber.cluster_phase) --cluster.arrived;
    next_phase_if_full(cluster);
    for (Barrier& barrier : b.barriers)
        if (b.alive) open_if_full(b, barrier, t.line);
    if (!b.alive) require_read(b);
    ++changes;
}
}  // namespace emu
