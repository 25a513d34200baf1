// mbarrier objects: 64 bits of shared memory, changed by one thread at a time.
//
//   void mbarrier_init(uint64_t& barrier, uint32_t count);        void mbarrier_inval(uint64_t& barrier);
//   uint64_t mbarrier_arrive(uint64_t& barrier, uint32_t count = 1, bool no_complete = false);       returns the state
//   uint64_t mbarrier_arrive_drop(uint64_t& barrier, uint32_t count = 1, bool no_complete = false);
//   uint64_t mbarrier_arrive_expect_tx(uint64_t& barrier, uint32_t bytes);
//   void mbarrier_expect_tx(uint64_t& barrier, uint32_t bytes);
//   void mbarrier_complete_tx(uint64_t& barrier, uint32_t bytes);
//   void mbarrier_cp_async_begin(uint64_t& barrier);              cp.async.mbarrier.arrive without .noinc, when issued;
//                                                                 its arrival later is mbarrier_arrive(barrier)
//   bool mbarrier_test(uint64_t barrier, uint64_t state);
//   bool mbarrier_test_parity(uint64_t barrier, uint32_t parity);
//   uint32_t mbarrier_pending_count(uint64_t state);
//
// A barrier of another block of the cluster is only another uint64_t.  Errors: a word that holds no barrier (of zeros
// and of ones, too), init of a barrier that was not invalidated, counts out of 1 to 2^20 - 1, more arrivals than are
// pending, a transaction count beyond 2^20 - 1 either way, and a parity that is neither 0 nor 1.
// The layout is this file's own: tx count (21 bits, signed), expected and pending count (20 each), phase (1), 0b10.
// Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
#pragma once

#include <cstdint>
#include <string>

#include "numbers.hpp"

namespace ptx {

constexpr uint32_t MBARRIER_MOST = (1u << 20) - 1;

struct Mbarrier {
    int32_t transactions;
    uint32_t expected, pending, phase;
};

inline uint64_t packed(const Mbarrier& barrier) {
    return 2ull << 62 | uint64_t(barrier.phase & 1) << 61 | uint64_t(barrier.pending) << 41 |
           uint64_t(barrier.expected) << 21 | (uint64_t(barrier.transactions) & 0x1fffff);
}

inline bool holds_mbarrier(uint64_t word) { return word >> 62 == 2; }

inline Mbarrier unpacked(uint64_t word, const char* instruction) {
    if (!holds_mbarrier(word)) refuse(std::string(instruction) + ": there is no mbarrier at this address");
    const int32_t transactions = int32_t(uint32_t(word & 0x1fffff) << 11) >> 11;
    return {transactions, uint32_t(word >> 21 & MBARRIER_MOST), uint32_t(word >> 41 & MBARRIER_MOST),
            uint32_t(word >> 61 & 1)};
}

inline void mbarrier_init(uint64_t& word, uint32_t count) {
    if (holds_mbarrier(word)) refuse("mbarrier.init: there is an mbarrier already, which was not invalidated");
    if (count < 1 || count > MBARRIER_MOST) refuse("mbarrier.init: count " + std::to_string(count));
    word = packed({0, count, count, 0});
}

inline void mbarrier_inval(uint64_t& word) {
    unpacked(word, "mbarrier.inval");
    word = 0x3fbadbadbadbadbaull;
}

// Store a barrier; where nothing is pending any more, in its next phase.
inline bool settle(uint64_t& word, Mbarrier barrier) {
    const bool complete = barrier.pending == 0 && barrier.transactions == 0;
    if (complete) barrier.pending = barrier.expected, barrier.phase ^= 1;
    word = packed(barrier);
    return complete;
}

inline void add_transactions(Mbarrier& barrier, int64_t bytes, const char* instruction) {
    const int64_t sum = barrier.transactions + bytes;
    if (sum > int64_t(MBARRIER_MOST) || sum < -int64_t(MBARRIER_MOST))
        refuse(std::string(instruction) + ": a transaction count of " + std::to_string(sum));
    barrier.transactions = int32_t(sum);
}

inline void take_arrivals(Mbarrier& barrier, uint32_t count, const char* instruction) {
    if (count < 1 || count > MBARRIER_MOST) refuse(std::string(instruction) + ": count " + std::to_string(count));
    if (count > barrier.pending)
        refuse(std::string(instruction) + ": " + std::to_string(count) + " arrivals where " +
               std::to_string(barrier.pending) + " are pending");
    barrier.pending -= count;
}

inline uint64_t arrive(uint64_t& word, uint32_t count, int64_t bytes, bool drop, bool no_complete,
                       const char* instruction) {
    const uint64_t state = word;
    Mbarrier barrier = unpacked(word, instruction);
    add_transactions(barrier, bytes, instruction);
    take_arrivals(barrier, count, instruction);
    if (drop) barrier.expected -= count;
    if (settle(word, barrier) && no_complete) refuse(std::string(instruction) + ".noComplete: the phase completes");
    return state;
}

inline uint64_t mbarrier_arrive(uint64_t& word, uint32_t count = 1, bool no_complete = false) {
    return arrive(word, count, 0, false, no_complete, "mbarrier.arrive");
}

inline uint64_t mbarrier_arrive_drop(uint64_t& word, uint32_t count = 1, bool no_complete = false) {
    return arrive(word, count, 0, true, no_complete, "mbarrier.arrive_drop");
}

inline uint64_t mbarrier_arrive_expect_tx(uint64_t& word, uint32_t bytes) {
    return arrive(word, 1, bytes, false, false, "mbarrier.arrive.expect_tx");
}

inline void mbarrier_expect_tx(uint64_t& word, uint32_t bytes) {
    Mbarrier barrier = unpacked(word, "mbarrier.expect_tx");
    add_transactions(barrier, bytes, "mbarrier.expect_tx");
    settle(word, barrier);
}

inline void mbarrier_complete_tx(uint64_t& word, uint32_t bytes) {
    Mbarrier barrier = unpacked(word, "complete_tx");
    add_transactions(barrier, -int64_t(bytes), "complete_tx");
    settle(word, barrier);
}

inline void mbarrier_cp_async_begin(uint64_t& word) {
    Mbarrier barrier = unpacked(word, "cp.async.mbarrier.arrive");
    if (barrier.pending == MBARRIER_MOST) refuse("cp.async.mbarrier.arrive: the pending count is at its largest");
    ++barrier.pending;
    word = packed(barrier);
}

// Whether the phase of a state has ended.  A state says only whether its phase was odd, as the ISA's does.
inline bool mbarrier_test(uint64_t word, uint64_t state) {
    return unpacked(word, "mbarrier.test_wait").phase != unpacked(state, "mbarrier.test_wait of this state").phase;
}

inline bool mbarrier_test_parity(uint64_t word, uint32_t parity) {
    if (parity > 1) refuse("mbarrier.test_wait.parity: parity " + std::to_string(parity));
    return unpacked(word, "mbarrier.test_wait.parity").phase != parity;
}

inline uint32_t mbarrier_pending_count(uint64_t state) {
    return unpacked(state, "mbarrier.pending_count").pending;
}

}  // namespace ptx
