// Tensor instructions and bulk copies as translated kernels call them; ``tensor.hpp`` says what they compute.
//
// A product of a warpgroup is made when it is issued, and its operands in shared memory are compared with what they are
// when it is waited for.  Copies happen at some time before what they complete.
#pragma once
#include "machine.hpp"

namespace emu {
void ldmatrix(Thread&, int line, int count, bool transposed, u64 address, u32* out);
void stmatrix(Thread&, int line, int count, bool transposed, u64 address, const u32* in);
u32 movmatrix(Thread&, int line, u32 value);
void mma(Thread&, int line, const char* opcode, const u32* a, const u32* b, const u32* c, u32* d);

struct Product {                                        // what a wgmma says beside its registers
    u64 a_descriptor, b_descriptor;
    bool scale_d;
    int scale_a, scale_b;
    bool transposed_a, transposed_b;
};
void wgmma(Thread&, int line, const char* opcode, u32* d, const u32* a, const Product&);
void wgmma_commit(Thread&, int line);
void wgmma_wait(Thread&, int line, int pending);

struct Box {                                            // what a tensor copy says; offsets: of im2col, or null
    int rank;
    u64 map;
    const s32* coordinates;
    const u16* offsets;
};
void tensor_load(Thread&, int line, u64 to, const Box&, u64 barrier, u32 blocks);       // blocks: 0, or of a multicast
void tensor_store(Thread&, int line, const Box&, u64 from, const char* reduction);      // "" or "add", ...
void bulk_load(Thread&, int line, u64 to, u64 from, u32 size, u64 barrier, u32 blocks);
void bulk_send(Thread&, int line, u64 to, u64 from, u32 size, u64 barrier);
void bulk_store(Thread&, int line, u64 to, u64 from, u32 size, const char* reduction, const char* type);
void bulk_commit(Thread&);
void bulk_wait(Thread&, int line, int pending, bool only_reads);
void async_store(Thread&, int line, u64 to, const u8* data, u32 size, u64 barrier);
void async_reduce(Thread&, int line, u64 to, const u8* data, const char* reduction, const char* type, u64 barrier);
void check_map(Thread&, int line, u64 map);
void map_replace(Thread&, int line, u8* where, const char* field, u32 ord, u64 value);
}  // namespace emu
