// Copies that the async proxy makes: of boxes of tensors and of runs of bytes, and st.async and its kin.
//
// At issue the destination in shared memory is poisoned, because it may be written from then on; the copy itself comes
// at some time before what it completes.  A store reads first and writes later.
// Source: PTX ISA, cp.async.bulk, cp.async.bulk.tensor, cp.reduce.async.bulk, st.async, red.async.
#include "inside.hpp"
#include "tensor.hpp"
#include "tensor_ops.hpp"

namespace emu {
namespace {
using ull = unsigned long long;

template <class F> auto told(int line, F f) {
    try {
        return f();
    } catch (const Fault&) {
        throw;
    } catch (const std::runtime_error& error) {
        fault(line, "%s", error.what());
    }
}

u32 inside(u64 address) { return u32(address) & ((1u << RANK_BITS) - 1); }

ptx::Shared memory_of(BlockState& b) { return {b.block.shared, SHARED_START, b.block.shared_size}; }

void require_alive(const BlockState& b, int line) {
    if (!b.alive) fault(line, "a bulk copy works on shared memory of a block that has ended");
}

// Global bytes that a copy touches must be those of an array.
void require_range(u64 address, u64 size, int line, bool writes) {
    for (const Range& range : machine->ranges)
        if (address >= range.low && address + size <= range.high) {
            if (writes && !range.writable) clash(address, WRITE, line);
            return;
        }
    fault(line, "out of bounds: a bulk copy of %llu bytes at global address %#llx", (ull)size, (ull)address);
}

ptx::TensorMap map_of(Thread& t, int line, const Box& box, bool writes) {
    Site site{line};
    const u8* at = generic_at(t, box.map, 1, site, READ);
    const ptx::TensorMap map = told(line, [&] { return ptx::map_at(at); });
    u64 size = u64(map.size(0)) * u64(ptx::element_bytes(map.type));
    for (int d = 1; d < map.rank; ++d) size += u64(map.size(d) - 1) * map.strides[d - 1];
    require_range(map.address, size, line, writes);
    return map;
}

// The blocks that a copy writes: those of a multicast, or the one that the address lies in.
std::vector<BlockState*> targets(Thread& t, int line, u64 to, u32 blocks) {
    if (!blocks) return {&block_of(t, u32(to), line)};
    std::vector<BlockState*> found;
    for (u32 rank = 0; rank < 16; ++rank)
        if (blocks >> rank & 1) found.push_back(&block_of(t, inside(to) | (rank + 1) << RANK_BITS, line));
    return found;
}

void forget_writers(BlockState& b, u32 at, u64 size) {
    for (u64 i = (at - SHARED_START) / 4; i <= (at - SHARED_START + size - 1) / 4; ++i) b.stamps[i] = 0;
}

void poison(const std::vector<BlockState*>& blocks, u32 at, u64 size, int line) {
    for (BlockState* b : blocks) {
        u8* p = told(line, [&] { return memory_of(*b).at(at, u32(size)); });
        std::memset(p, 0xff, size);
        forget_writers(*b, at, size);
    }
}

void later_complete(Thread& t, int line, std::vector<BlockState*> blocks, u64 barrier, bool multicast,
                    std::function<u32()> copy) {
    std::vector<BlockState*> signalled = multicast ? blocks : std::vector<BlockState*>{&block_of(t, u32(barrier), line)};
    machine->later([=] {
        for (BlockState* b : blocks) require_alive(*b, line);
        const u32 bytes = told(line, [&] { return copy(); });
        for (BlockState* b : signalled) barrier_step(*b, u32(barrier), line, 0, -s64(bytes));
    });
}

struct Coordinates {                                    // kept until the copy is made
    s32 along[5];
    u16 offsets[3];
    bool has_offsets;
    const u16* given() const { return has_offsets ? offsets : nullptr; }
};

Coordinates kept(const Box& box) {
    Coordinates c{};
    std::copy_n(box.coordinates, box.rank, c.along);
    c.has_offsets = box.offsets != nullptr;
    if (c.has_offsets) std::copy_n(box.offsets, box.rank - 2, c.offsets);
    return c;
}
}  // namespace

void tensor_load(Thread& t, int line, u64 to, const Box& box, u64 barrier, u32 blocks) {
    const ptx::TensorMap map = map_of(t, line, box, false);
    const std::vector<BlockState*> found = targets(t, line, to, blocks);
    const u32 at = inside(to);
    poison(found, at, ptx::box_bytes(map), line);
    const Coordinates c = kept(box);
    const int rank = box.rank;
    later_complete(t, line, found, barrier, blocks != 0, [=] {
        std::vector<ptx::Shared> memories;
        for (BlockState* b : found) memories.push_back(memory_of(*b));
        return ptx::tma_load(map, rank, c.along, c.given(), memories.data(), int(memories.size()), at);
    });
}

void bulk_load(Thread& t, int line, u64 to, u64 from, u32 size, u64 barrier, u32 blocks) {
    require_range(from, size, line, false);
    const std::vector<BlockState*> found = targets(t, line, to, blocks);
    const u32 at = inside(to);
    poison(found, at, size, line);
    later_complete(t, line, found, barrier, blocks != 0, [=] {
        std::vector<ptx::Shared> memories;
        for (BlockState* b : found) memories.push_back(memory_of(*b));
        return ptx::bulk_load(reinterpret_cast<const u8*>(from), memories.data(), int(memories.size()), at, size);
    });
}

void bulk_send(Thread& t, int line, u64 to, u64 from, u32 size, u64 barrier) {
    BlockState& source = state_of(t);
    const std::vector<BlockState*> found = targets(t, line, to, 0);
    const u32 at = inside(to), start = inside(from);
    const u8* bytes = told(line, [&] { return memory_of(source).at(start, size); });
    async_reads(source, bytes, size, fiber_of(t), line);
    poison(found, at, size, line);
    later_complete(t, line, found, barrier, false, [=, &source] {
        require_alive(source, line);
        return ptx::bulk_send(memory_of(source), start, memory_of(*found[0]), at, size);
    });
}

// ---- out of shared memory ------------------------------------------------------------------------------------------

namespace {
// A store in two steps: its bytes are read, and then ``write`` has them in memory of its own at the same address.
void store_later(Thread& t, int line, u32 from, u32 size, std::function<void(const ptx::Shared&)> write) {
    BlockState& b = state_of(t);
    const u8* bytes = told(line, [&] { return memory_of(b).at(from, size); });
    async_reads(b, bytes, size, fiber_of(t), line);
    auto store = std::make_shared<Store>();
    auto held = std::make_shared<std::vector<u8>>(size);
    store->reads = [&b, bytes, held, line] {
        require_alive(b, line);
        std::copy_n(bytes, held->size(), held->data());
    };
    store->writes = [=] { told(line, [&] { write(ptx::Shared{held->data(), from, size}); }); };
    fiber_of(t).open_stores.push_back(store);
    fiber_of(t).thread.line = line;
    machine->later([store] {
        store->go(1);
        machine->later([store] { store->go(2); });
    });
}
}  // namespace

void tensor_store(Thread& t, int line, const Box& box, u64 from, const char* reduction) {
    const ptx::TensorMap map = map_of(t, line, box, true);
    const Coordinates c = kept(box);
    const int rank = box.rank;
    const u32 at = inside(from);
    const std::string by = reduction;
    store_later(t, line, at, ptx::box_bytes(map), [=](const ptx::Shared& held) {
        if (by.empty()) ptx::tma_store(map, rank, c.along, held, at);
        else ptx::tma_reduce(ptx::reduction_named(by), map, rank, c.along, held, at);
    });
}

void bulk_store(Thread& t, int line, u64 to, u64 from, u32 size, const char* reduction, const char* type) {
    require_range(to, size, line, true);
    const u32 at = inside(from);
    const std::string by = reduction, of = type;
    store_later(t, line, at, size, [=](const ptx::Shared& held) {
        u8* target = reinterpret_cast<u8*>(to);
        if (by.empty()) ptx::bulk_store(target, held, at, size);
        else ptx::bulk_reduce(ptx::reduction_named(by), ptx::type_named(of), target, held, at, size);
    });
}

void bulk_commit(Thread& t) {
    Fiber& fiber = fiber_of(t);
    fiber.store_groups.emplace_back(std::move(fiber.open_stores));
    fiber.open_stores.clear();
}

void bulk_wait(Thread& t, int, int pending, bool only_reads) {
    auto& groups = fiber_of(t).store_groups;
    const size_t complete = groups.size() > size_t(pending) ? groups.size() - size_t(pending) : 0;
    for (size_t i = 0; i < complete; ++i)
        for (const auto& store : groups[i]) store->go(only_reads ? 1 : 2);
    if (!only_reads) groups.erase(groups.begin(), groups.begin() + long(complete));
    ++changes;
}

// ---- elements that threads send ------------------------------------------------------------------------------------

void async_store(Thread& t, int line, u64 to, const u8* data, u32 size, u64 barrier) {
    aligned(to, size, line);
    const std::vector<BlockState*> found = targets(t, line, to, 0);
    const std::vector<u8> held(data, data + size);
    const u32 at = inside(to);
    poison(found, at, size, line);
    later_complete(t, line, found, barrier, false, [=] {
        std::copy(held.begin(), held.end(), memory_of(*found[0]).at(at, size));
        return size;
    });
}

void async_reduce(Thread& t, int line, u64 to, const u8* data, const char* reduction, const char* type, u64 barrier) {
    const ptx::Type of = ptx::type_named(type);
    const u32 size = u32(ptx::bits_of(of) / 8), at = inside(to);
    aligned(to, size, line);
    const std::vector<BlockState*> found = targets(t, line, to, 0);
    const std::vector<u8> held(data, data + size);
    const std::string by = reduction;
    later_complete(t, line, found, barrier, false, [=] {
        ptx::reduce_element(ptx::reduction_named(by), of, memory_of(*found[0]).at(at, size), held.data());
        return size;
    });
}

// ---- tensor maps ---------------------------------------------------------------------------------------------------

void check_map(Thread& t, int line, u64 map) {
    Site site{line};
    const u8* at = generic_at(t, map, 1, site, READ);
    told(line, [&] { return ptx::map_at(at); });
}

void map_replace(Thread&, int line, u8* where, const char* field, u32 ord, u64 value) {
    told(line, [&] { ptx::tensormap_replace(where, field, ord, value); });
}
}  // namespace emu

// ---- the door for Python: cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col; 0, or the reason in ``error`` ---------

namespace {
int encoded(void* out, char* error, const std::function<ptx::TensorMap()>& make) {
    try {
        const ptx::TensorMap map = make();
        std::memcpy(out, &map, sizeof map);
        return 0;
    } catch (const std::exception& refused) {
        std::snprintf(error, 512, "%s", refused.what());
        return 1;
    }
}
}  // namespace

struct EmuMap {
    uint64_t address, sizes[5], strides[5];
    uint32_t type, rank, box[5], steps[5], interleave, swizzle, promotion, fill;
    int32_t lower[5], upper[5];
};

extern "C" int emu_encode_tiled(const EmuMap* m, void* out, char* error) {
    return encoded(out, error, [m] {
        return ptx::encode_tiled(m->type, m->rank, m->address, m->sizes, m->strides, m->box, m->steps, m->interleave,
                                 m->swizzle, m->promotion, m->fill);
    });
}

extern "C" int emu_encode_im2col(const EmuMap* m, void* out, char* error) {
    return encoded(out, error, [m] {
        return ptx::encode_im2col(m->type, m->rank, m->address, m->sizes, m->strides, m->lower, m->upper, m->box[0],
                                  m->box[1], m->steps, m->interleave, m->swizzle, m->promotion, m->fill);
    });
}
