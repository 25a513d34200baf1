// Matrices of a warp and of a warpgroup: lanes meet, and ``tensor.hpp`` computes.
#include <unordered_map>

#include "inside.hpp"
#include "tensor.hpp"
#include "tensor_ops.hpp"

namespace emu {
namespace {
// An error of tensor.hpp as a fault with its line.
template <class F> auto told(int line, F f) {
    try {
        return f();
    } catch (const Fault&) {
        throw;
    } catch (const std::runtime_error& error) {
        fault(line, "%s", error.what());
    }
}

template <class T, T (*parse)(const std::string&)> const T& parsed(int line, const char* opcode) {
    static std::unordered_map<std::string, T> known;
    const auto found = known.find(opcode);
    return found != known.end() ? found->second
                                : known.emplace(opcode, told(line, [&] { return parse(opcode); })).first->second;
}

struct Matrix {                                         // a lane's part of ldmatrix and its kin
    Thread* thread;
    u8* row;
    u32* out;
    const u32* in;
    int count;
    bool transposed;
};
Matrix& matrix_of(Party& p) { return *static_cast<Matrix*>(p.facts); }

void require_warp(const Party& party, u32 here) {
    if (here != ~0u) fault(party.line, "%s: only the lanes %#x of the warp are there", party.key, here);
}

void together_load(std::array<Party, 32>& lanes, u32 here) {
    require_warp(lanes[0], here);
    const u8* rows[32];
    u32 out[32][4];
    for (int i = 0; i < 32; ++i) rows[i] = matrix_of(lanes[i]).row;
    const Matrix& m = matrix_of(lanes[0]);
    ptx::ldmatrix(m.count, m.transposed, rows, out);
    for (int i = 0; i < 32; ++i) std::memcpy(matrix_of(lanes[i]).out, out[i], size_t(4) * m.count);
}

void together_store(std::array<Party, 32>& lanes, u32 here) {
    require_warp(lanes[0], here);
    u8* rows[32];
    u32 in[32][4];
    const Matrix& m = matrix_of(lanes[0]);
    for (int i = 0; i < 32; ++i) {
        rows[i] = matrix_of(lanes[i]).row;
        std::memcpy(in[i], matrix_of(lanes[i]).in, size_t(4) * m.count);
    }
    ptx::stmatrix(m.count, m.transposed, rows, in);
}

void together_move(std::array<Party, 32>& lanes, u32 here) {
    require_warp(lanes[0], here);
    u32 in[32], out[32];
    for (int i = 0; i < 32; ++i) in[i] = *matrix_of(lanes[i]).in;
    ptx::movmatrix(in, out);
    for (int i = 0; i < 32; ++i) *matrix_of(lanes[i]).out = out[i];
}

// Lanes whose rows count have addresses that are checked; the others' are not looked at.
u8* row_at(Thread& t, int line, int count, u64 address, Access access) {
    return t.lane < u32(8 * count) ? shared_at(t, address, 16, line, access) : nullptr;
}

struct Operands {
    const u32 *a, *b, *c;
    u32* d;
};

void together_mma(std::array<Party, 32>& lanes, u32 here) {
    require_warp(lanes[0], here);
    const int line = lanes[0].line;
    const ptx::Mma& op = parsed<ptx::Mma, ptx::parse_mma>(line, lanes[0].key);
    u32 held[4][32 * 16];
    const char names[] = "abcd";
    size_t words[4];
    for (int n = 0; n < 4; ++n) words[n] = size_t(ptx::words(op, names[n]));
    for (size_t i = 0; i < 32; ++i) {
        const Operands& o = *static_cast<Operands*>(lanes[i].facts);
        const u32* from[] = {o.a, o.b, o.c};
        for (int n = 0; n < 3; ++n) std::memcpy(held[n] + i * words[n], from[n], 4 * words[n]);
    }
    told(line, [&] { ptx::mma(op, held[0], held[1], held[2], held[3]); });
    for (size_t i = 0; i < 32; ++i)
        std::memcpy(static_cast<Operands*>(lanes[i].facts)->d, held[3] + i * words[3], 4 * words[3]);
}
}  // namespace

void ldmatrix(Thread& t, int line, int count, bool transposed, u64 address, u32* out) {
    Matrix m{&t, row_at(t, line, count, address, READ), out, nullptr, count, transposed};
    meet(t, line, "ldmatrix", ~0u, true, &m, together_load);
}

void stmatrix(Thread& t, int line, int count, bool transposed, u64 address, const u32* in) {
    Matrix m{&t, row_at(t, line, count, address, WRITE), nullptr, in, count, transposed};
    meet(t, line, "stmatrix", ~0u, true, &m, together_store);
}

u32 movmatrix(Thread& t, int line, u32 value) {
    u32 out = 0;
    Matrix m{&t, nullptr, &out, &value, 1, true};
    meet(t, line, "movmatrix", ~0u, true, &m, together_move);
    return out;
}

void mma(Thread& t, int line, const char* opcode, const u32* a, const u32* b, const u32* c, u32* d) {
    Operands o{a, b, c, d};
    meet(t, line, opcode, ~0u, true, &o, together_mma);
}

// ---- of a warpgroup ------------------------------------------------------------------------------------------------

namespace {
struct Side {                                           // an operand in shared memory
    u64 descriptor;
    ptx::Type type;
    int extent, k;
    bool k_major;
    const char* name;
};

struct Pending {                                        // a product that has been issued
    int line;
    std::vector<Side> sides;
    std::vector<std::vector<double>> values;
};

struct Issue {
    u32* d;
    const u32* a;
    const Product* product;
    int pending;
};
Issue& issue_of(Party& p) { return *static_cast<Issue*>(p.facts); }

ptx::Shared memory_of(Thread& t) { return {t.block->shared, SHARED_START, t.block->shared_size}; }

std::vector<double> values_of(Thread& t, const Side& s) {
    return ptx::matrix_of(memory_of(t), s.descriptor, s.type, s.extent, s.k, s.k_major, s.name);
}

// All that a side reads was written by the async proxy, or fenced.
void require_fenced(Thread& t, int line, const Side& s) {
    const ptx::Descriptor descriptor = ptx::parse_descriptor(s.descriptor);
    const int bytes = ptx::bits_of(s.type) / 8, per = 16 / bytes;
    BlockState& b = state_of(t);
    for (int mn = 0; mn < s.extent; mn += s.k_major ? 1 : per)
        for (int k = 0; k < s.k; k += s.k_major ? per : 1) {
            const u32 at = ptx::matrix_address(descriptor, s.k_major, bytes, mn, k);
            async_reads(b, b.block.shared + (at - SHARED_START), 16, fiber_of(t), line);
        }
}

Warpgroup& group_of(Thread& t) { return state_of(t).warpgroups[t.rank / 128]; }

void together_wgmma(Thread& t, std::array<Party, 128>& lanes) {
    const int line = lanes[0].line;
    const ptx::Wgmma& op = parsed<ptx::Wgmma, ptx::parse_wgmma>(line, lanes[0].key);
    const Product& p = *issue_of(lanes[0]).product;
    for (Party& lane : lanes)
        if (std::memcmp(&p, issue_of(lane).product, sizeof p))
            fault(line, "wgmma: the threads of a warpgroup say different descriptors or scales");
    const size_t words = size_t(ptx::words(op, 'd'));
    std::vector<u32> d(128 * words), a(128 * 4);
    const bool in_registers = issue_of(lanes[0]).a != nullptr;
    for (size_t i = 0; i < 128; ++i) {
        std::memcpy(&d[i * words], issue_of(lanes[i]).d, 4 * words);
        if (in_registers) std::memcpy(&a[i * 4], issue_of(lanes[i]).a, 16);
    }
    auto pending = std::make_shared<Pending>();
    pending->line = line;
    if (!in_registers) pending->sides.push_back({p.a_descriptor, op.a, 64, op.k, !p.transposed_a, "A"});
    pending->sides.push_back({p.b_descriptor, op.b, op.n, op.k, !p.transposed_b, "B"});
    told(line, [&] {
        for (const Side& side : pending->sides) {
            pending->values.push_back(values_of(t, side));
            require_fenced(t, line, side);
        }
        ptx::wgmma(op, memory_of(t), d.data(), in_registers ? a.data() : nullptr, p.a_descriptor, p.b_descriptor,
                   p.scale_d, p.scale_a, p.scale_b, p.transposed_a, p.transposed_b);
    });
    group_of(t).open.push_back(pending);
    for (size_t i = 0; i < 128; ++i) std::memcpy(issue_of(lanes[i]).d, &d[i * words], 4 * words);
}

void together_commit(Thread& t, std::array<Party, 128>&) {
    Warpgroup& group = group_of(t);
    group.groups.emplace_back(std::move(group.open));
    group.open.clear();
}

// What a product read at its issue must still be there: the hardware reads it at any time until the wait.
void settle(Thread& t, int line, const Pending& pending) {
    for (size_t i = 0; i < pending.sides.size(); ++i) {
        const std::vector<double> now = values_of(t, pending.sides[i]);
        if (std::memcmp(now.data(), pending.values[i].data(), now.size() * sizeof(double)))
            fault(line, "shared memory of %s of the wgmma at line %d was written before this wait",
                  pending.sides[i].name, pending.line);
    }
}

void together_wait(Thread& t, std::array<Party, 128>& lanes) {
    Warpgroup& group = group_of(t);
    while (group.groups.size() > size_t(issue_of(lanes[0]).pending)) {
        for (const auto& pending : group.groups.front()) settle(t, lanes[0].line, *static_cast<Pending*>(pending.get()));
        group.groups.erase(group.groups.begin());
    }
}
}  // namespace

void wgmma(Thread& t, int line, const char* opcode, u32* d, const u32* a, const Product& product) {
    Issue issue{d, a, &product, 0};
    meet_warpgroup(t, line, opcode, &issue, together_wgmma);
}

void wgmma_commit(Thread& t, int line) {
    Issue issue{};
    meet_warpgroup(t, line, "wgmma.commit_group", &issue, together_commit);
}

void wgmma_wait(Thread& t, int line, int pending) {
    Issue issue{nullptr, nullptr, nullptr, pending};
    meet_warpgroup(t, line, "wgmma.wait_group", &issue, together_wait);
}
}  // namespace emu
