// Fibers, and who runs next: a launch from its first block to its last.
#include <sys/mman.h>

#include <cstdarg>
#include <cstdio>

#include "inside.hpp"

namespace emu {
u64 epoch = 0;
u32 changes = 0, clock_now = 1;
Machine* machine = nullptr;

namespace {
constexpr size_t STACK = 256 << 10, SLAB = 64;
constexpr int MOST_FUEL = 20000;
constexpr u32 IDLE_ROUNDS = 48;
}  // namespace

// void emu_switch(void** save, void* load): save what a call keeps, and go on where ``load`` was saved.
asm(R"(
    .text
    .globl emu_switch
    .hidden emu_switch
emu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");
extern "C" __attribute__((visibility("hidden"))) void emu_switch(void** save, void* load);

struct Exit {};

void fault(int line, const char* format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const std::string where = machine->current ? " in " + place(machine->current->thread) : "";
    throw Fault("PTX line " + std::to_string(line) + where + ": " + text);
}

std::string place(const Thread& t) {
    const u32* b = t.block->ctaid;
    char text[128];
    snprintf(text, sizeof text, "block (%u, %u, %u) thread (%u, %u, %u)", b[0], b[1], b[2], t.tid[0], t.tid[1], t.tid[2]);
    return text;
}

void leave(Thread&) { throw Exit(); }

namespace {
void entry() {
    Fiber& fiber = *machine->current;
    try {
        try {
            machine->body(fiber.thread);
        } catch (const Exit&) {
        }
        thread_exits(fiber);
    } catch (const std::exception& error) {
        if (machine->error.empty()) machine->error = error.what();
    }
    yield_to_scheduler(fiber, State::GONE);
    __builtin_trap();
}
}  // namespace

void yield_to_scheduler(Fiber& fiber, State state) {
    fiber.state = state;
    emu_switch(&fiber.top, machine->main);
}

void pause(Thread& t) {
    t.fuel = 1 + machine->draw(MOST_FUEL);
    yield_to_scheduler(fiber_of(t), State::READY);
}

void poll(Thread& t, int line) {
    t.line = line;
    fiber_of(t).waits_for = "what others do, in a loop";
    yield_to_scheduler(fiber_of(t), State::POLLS);
}

void block_until_woken(Thread& t, int line, std::string what) {
    t.line = line;
    fiber_of(t).waits_for = std::move(what);
    yield_to_scheduler(fiber_of(t), State::WAITS);
}

void Machine::wake(Fiber& fiber) {
    if (fiber.state != State::WAITS) return;
    fiber.state = State::READY;
    ready.push_back(&fiber);
}

void Machine::later(std::function<void()> task) { engine.push_back(std::move(task)); }

void Machine::switch_to(Fiber& fiber) {
    current = &fiber;
    ++switches, ++clock_now;
    emu_switch(&main, fiber.top);
    current = nullptr;
    if (!error.empty()) throw Fault(error);
    if (fiber.state == State::READY) ready.push_back(&fiber);
    if (fiber.state == State::POLLS) polling.push_back(&fiber);
    if (fiber.state == State::GONE) {
        executed += fiber.thread.executed;
        free_stacks.push_back(fiber.stack);
        fiber.stack = nullptr;
    }
}

// ---- blocks --------------------------------------------------------------------------------------------------------

namespace {
u8* stack_of(Machine& m) {
    if (m.free_stacks.empty()) {
        void* slab = mmap(nullptr, STACK * SLAB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (slab == MAP_FAILED) throw Fault("there is no memory for the stacks of so many threads");
        for (size_t i = 0; i < SLAB; ++i) m.free_stacks.push_back(static_cast<u8*>(slab) + i * STACK);
    }
    u8* stack = m.free_stacks.back();
    m.free_stacks.pop_back();
    return stack;
}

void prepare_fiber(Machine& m, Fiber& fiber) {
    fiber.stack = stack_of(m);
    auto** top = reinterpret_cast<void**>(fiber.stack + STACK - 64);
    *--top = nullptr;                                   // where ``entry`` would return to
    *--top = reinterpret_cast<void*>(&entry);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    fiber.top = top;
}
}  // namespace

void Machine::begin_block(Cluster& cluster, u64 first, u32 rank) {
    auto made = std::make_unique<BlockState>();
    BlockState& b = *made;
    const u32* c = shape.cluster;
    const u64 across[3] = {shape.grid[0] / c[0], shape.grid[1] / c[1], shape.grid[2] / c[2]};
    const u32 inside[3] = {rank % c[0], rank / c[0] % c[1], rank / c[0] / c[1]};
    const u64 number[3] = {first % across[0], first / across[0] % across[1], first / across[0] / across[1]};
    for (int i = 0; i < 3; ++i) b.block.ctaid[i] = u32(number[i] * c[i] + inside[i]);
    // NVRTC reads three words at a multiple of 16 bytes as four, and leaves the last: such a load may end behind them.
    const u32 size = (shape.static_size + shape.dynamic_size + 15) / 16 * 16;
    b.memory.assign(size + 2048, 0xff);                 // poison: NaN, -1
    b.stamps.assign(size / 4 + 4, 0);
    b.writers.assign(size / 4 + 4, 0);
    u8* at = b.memory.data();
    at += (SHARED_START - reinterpret_cast<u64>(at) % 1024) % 1024;
    b.block = Block{{b.block.ctaid[0], b.block.ctaid[1], b.block.ctaid[2]}, rank, at, size, &shape, &cluster, &b,
                    b.stamps.data(), b.writers.data()};
    const u32 threads = shape.block[0] * shape.block[1] * shape.block[2];
    b.alive = threads;
    b.warps.resize((threads + 31) / 32);
    b.warpgroups.resize((threads + 127) / 128);
    for (u32 i = 0; i < threads; ++i) {
        b.fibers.push_back(std::make_unique<Fiber>());
        Fiber& fiber = *b.fibers.back();
        const u32 x = shape.block[0], y = shape.block[1];
        fiber.thread = Thread{{i % x, i / x % y, i / x / y}, i % 32, i, &b.block, &b.warps[i / 32], nullptr, 0,
                              1 + int(draw(MOST_FUEL)), 0, 0, &fiber};
        b.warps[i / 32].lanes[i % 32] = &fiber;
        b.warps[i / 32].alive |= 1u << (i % 32);
        prepare_fiber(*this, fiber);
        ready.push_back(&fiber);
    }
    cluster.alive += threads;
    cluster.blocks.push_back(std::move(made));
}

void Machine::begin_cluster() {
    const size_t which = draw(u32(coming.size()));
    std::swap(coming[which], coming.back());
    const u64 first = coming.back();
    coming.pop_back();
    clusters.push_back(std::make_unique<Cluster>());
    for (u32 rank = 0; rank < shape.cluster[0] * shape.cluster[1] * shape.cluster[2]; ++rank)
        begin_block(*clusters.back(), first, rank);
}

void Machine::end_clusters() {
    for (size_t i = 0; i < clusters.size();) {
        if (clusters[i]->alive) {
            ++i;
            continue;
        }
        // What its threads left to asynchronous units may name its memory: all of it is done now.
        finish_engine(~0u);
        clusters.erase(clusters.begin() + long(i));
    }
}

// ---- who is next ---------------------------------------------------------------------------------------------------

void Machine::finish_engine(u32 how_many) {
    for (; how_many && !engine.empty(); --how_many) {
        std::swap(engine[draw(u32(engine.size()))], engine.back());
        auto task = std::move(engine.back());
        engine.pop_back();
        task();
        ++changes;
    }
}

// Nobody is ready: let those look again who poll, let units work, begin blocks; false if nothing helps.
bool Machine::unblock() {
    if (seen_changes != changes) seen_changes = changes, idle_rounds = 0;
    if (!polling.empty() && idle_rounds++ < IDLE_ROUNDS) {
        std::swap(ready, polling);
        return true;
    }
    idle_rounds = 0;
    if (!engine.empty()) {
        finish_engine(1 + draw(u32(engine.size())));
        return true;
    }
    if (!coming.empty() && clusters.size() < resident) {
        begin_cluster();
        return true;
    }
    return false;
}

void Machine::run() {
    const u32 at_once = 1 + draw(4);
    while (true) {
        while (!coming.empty() && clusters.size() < std::min<u64>(at_once, resident)) begin_cluster();
        if (clusters.empty()) break;
        if (ready.empty() && !unblock()) throw Fault(deadlock());
        if (ready.empty()) continue;
        if (!engine.empty() && !draw(64)) finish_engine(1);
        if (!polling.empty() && !draw(256)) ready.insert(ready.end(), polling.begin(), polling.end()), polling.clear();
        std::swap(ready[draw(u32(ready.size()))], ready.back());
        Fiber* next = ready.back();
        ready.pop_back();
        next->state = State::READY;
        switch_to(*next);
        if (next->state == State::GONE) end_clusters();
        if (most && switches > most) throw Fault("it does not end: " + deadlock());
    }
    finish_engine(~0u);                                 // also what these tasks leave to do
}

std::string Machine::deadlock() const {
    std::map<std::string, std::pair<int, std::string>> waits;
    for (const auto& cluster : clusters)
        for (const auto& block : cluster->blocks)
            for (const auto& fiber : block->fibers)
                if (fiber->state != State::GONE) {
                    auto& [count, first] = waits["PTX line " + std::to_string(fiber->thread.line) + ", " + fiber->waits_for];
                    if (!count++) first = place(fiber->thread);
                }
    std::string text = "deadlock:";
    for (const auto& [what, who] : waits)
        text += " " + std::to_string(who.first) + " threads wait at " + what + " (" + who.second + ");";
    return text;
}
}  // namespace emu

// ---- the door for Python -------------------------------------------------------------------------------------------

extern "C" {
struct EmuRange {
    uint64_t low, high, writable;
};
struct EmuLaunch {
    void* body;
    uint32_t grid[3], block[3], cluster[3], dynamic_size, static_size, multiprocessors, seed;
    uint64_t resident, most, workspace;
    const uint8_t* params;
    const EmuRange* ranges;
    uint64_t range_count;
    uint64_t executed, switches;                        // what comes back
    char* error;
    uint64_t error_size;
};

int emu_launch(EmuLaunch* l) {
    using namespace emu;
    static std::vector<u8*> stacks;
    auto m = std::make_unique<Machine>();
    Machine* before = machine;
    machine = m.get();
    m->free_stacks.swap(stacks);
    ++epoch;
    for (int i = 0; i < 3; ++i)
        m->shape.grid[i] = l->grid[i], m->shape.block[i] = l->block[i], m->shape.cluster[i] = l->cluster[i];
    m->shape.dynamic_size = l->dynamic_size, m->shape.static_size = l->static_size;
    m->shape.multiprocessors = l->multiprocessors;
    m->shape.params = l->params, m->shape.workspace = l->workspace;
    m->body = reinterpret_cast<Body>(l->body);
    m->random.seed(l->seed);
    m->resident = l->resident, m->most = l->most;
    std::vector<std::vector<u8>> marks;
    for (uint64_t i = 0; i < l->range_count; ++i) {
        const EmuRange& r = l->ranges[i];
        marks.emplace_back(r.high - r.low, u8(0));
        m->ranges.push_back(Range{r.low, r.high, marks.back().data(), r.writable != 0});
    }
    u64 blocks = 1;
    for (int i = 0; i < 3; ++i) blocks *= l->grid[i] / l->cluster[i];
    for (u64 i = 0; i < blocks; ++i) m->coming.push_back(blocks - 1 - i);
    int failed = 0;
    try {
        m->run();
    } catch (const std::exception& error) {
        snprintf(l->error, l->error_size, "%s", error.what());
        failed = 1;
    }
    l->executed = m->executed, l->switches = m->switches;
    for (auto& cluster : m->clusters)
        for (auto& block : cluster->blocks)
            for (auto& fiber : block->fibers)
                if (fiber->stack) m->free_stacks.push_back(fiber->stack);
    stacks.swap(m->free_stacks);
    machine = before;
    return failed;
}
}
