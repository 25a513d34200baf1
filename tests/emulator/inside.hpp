// The machine's own parts: fibers, the scheduler, blocks and clusters while they run.
//
// All fibers belong to one thread of the host, so that nothing here needs a lock.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "machine.hpp"

namespace emu {
using Body = void (*)(Thread&);

enum class State { READY, WAITS, POLLS, GONE };

struct Copy {                                           // one cp.async
    u8* to;
    const u8* from;
    unsigned size, read;
};

struct Store {                                          // one bulk copy out of shared memory: two steps
    std::function<void()> reads, writes;
    int step = 0;
    void go(int until) {
        if (step < 1 && until >= 1) step = 1, reads();
        if (step < 2 && until >= 2) step = 2, writes();
    }
};
using Stores = std::vector<std::shared_ptr<Store>>;

struct Fiber {                                          // what the scheduler knows of a thread
    Thread thread;
    State state = State::READY;
    void* top = nullptr;
    u8* stack = nullptr;
    std::string waits_for;
    std::vector<Copy> open;                             // of cp.async
    std::vector<std::vector<Copy>> groups;
    Stores open_stores;
    std::vector<Stores> store_groups;
    u32 fenced = 0;                                     // when it last ran fence.proxy.async
    u32 cluster_phase = 0;
    bool cluster_arrived = false;
};
inline Fiber& fiber_of(Thread& t) { return *static_cast<Fiber*>(t.more); }

struct Party {                                          // one lane that waits for the others of its warp
    bool here = false, counted = false;
    const char* key = "";
    u32 mask = 0;
    int line = 0;
    void* facts = nullptr;
    bool same(const Party& other, bool by_line) const;
};

struct Warp {
    std::array<Fiber*, 32> lanes{};
    u32 alive = 0;
    std::array<Party, 32> parties;
};

struct Barrier {                                        // bar.sync and its kin
    u32 lanes = 0, units = 0, count = 0;                // units: of warps that came together, 32 each
    std::vector<Fiber*> waiting;
    bool any = false, all = true;
    u32 ones = 0;
};

struct Warpgroup {                                      // four warps that multiply together
    std::array<Party, 128> parties;
    std::vector<std::shared_ptr<void>> open;
    std::vector<std::vector<std::shared_ptr<void>>> groups;
};

struct BlockState {
    Block block{};
    std::vector<u8> memory;
    std::vector<u32> stamps;
    std::vector<u16> writers;
    std::vector<std::unique_ptr<Fiber>> fibers;
    std::vector<Warp> warps;
    std::vector<Warpgroup> warpgroups;
    std::array<Barrier, 16> barriers;
    u32 alive = 0;
};
inline BlockState& state_of(Block& b) { return *static_cast<BlockState*>(b.more); }
inline BlockState& state_of(Thread& t) { return state_of(*t.block); }

struct Cluster {
    std::vector<std::unique_ptr<BlockState>> blocks;
    u32 alive = 0, arrived = 0, phase = 0;
    std::vector<Fiber*> waiting;
};

struct Fault : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Machine {
    Shape shape{};
    Body body = nullptr;
    std::mt19937 random;
    std::vector<Range> ranges;
    std::vector<std::unique_ptr<Cluster>> clusters;     // those that run
    std::vector<u64> coming;                            // numbers of clusters that have not begun
    u64 resident = 1;                                   // how many may run at once
    std::vector<Fiber*> ready, polling;
    std::vector<std::function<void()>> engine;          // what asynchronous units have yet to do
    std::vector<u8*> free_stacks;
    Fiber* current = nullptr;
    void* main = nullptr;
    std::string error;
    u64 executed = 0, switches = 0, most = 0;
    u32 seen_changes = 0, idle_rounds = 0;

    u32 draw(u32 below) { return below < 2 ? 0 : random() % below; }
    void later(std::function<void()> task);             // done at some time, or when nobody can go on
    void wake(Fiber&);
    void run();

  private:
    void begin_cluster();
    void begin_block(Cluster&, u64 first, u32 rank);
    void switch_to(Fiber&);
    bool unblock();
    void end_clusters();
    void finish_engine(u32 how_many);
    std::string deadlock() const;
};
extern Machine* machine;

void yield_to_scheduler(Fiber&, State);
void block_until_woken(Thread&, int line, std::string what);
void thread_exits(Fiber&);
// Lanes of a warp wait for each other; the last to come does ``together`` for the lanes of a mask.
using Together = void (*)(std::array<Party, 32>&, u32);
void meet(Thread&, int line, const char* key, u32 mask, bool aligned, void* facts, Together);
using TogetherAsGroup = void (*)(Thread&, std::array<Party, 128>&);
void meet_warpgroup(Thread&, int line, const char* key, void* facts, TogetherAsGroup);
std::string place(const Thread&);
BlockState& block_of(Thread&, u32 address, int line);   // that a shared::cluster address lies in
void barrier_step(BlockState&, u32 address, int line, s64 arrivals, s64 bytes);
void finish_copies(Fiber&, size_t pending);
void async_reads(BlockState&, const u8* from, u64 size, const Fiber& issuer, int line);
}  // namespace emu
