// The headers as C functions, for tests through ctypes.  A function returns 0, or 1 and then ptx_failure() has words.
#include <string>

#include "tensor.hpp"

namespace {

thread_local std::string failure;

template <typename Action>
int guarded(Action action) {
    try {
        action();
        return 0;
    } catch (const std::exception& error) {
        failure = error.what();
        return 1;
    }
}

ptx::Rounding rounding_named(const std::string& name) {
    const char* const names[] = {"rn", "rz", "rm", "rp", "rna"};
    for (int i = 0; i < 5; ++i)
        if (name == names[i]) return ptx::Rounding(i);
    ptx::refuse("no rounding: " + name);
}

}  // namespace

extern "C" {

const char* ptx_failure() { return failure.c_str(); }

// --- numbers ---

int ptx_to_double(const char* type, const uint64_t* bits, double* x, int64_t count) {
    return guarded([&] {
        for (int64_t i = 0; i < count; ++i) x[i] = ptx::to_double(ptx::type_named(type), bits[i]);
    });
}

int ptx_cvt(const char* to, const char* from, const char* rounding, int satfinite, int relu, const uint64_t* x,
            uint32_t* y, int64_t count) {
    return guarded([&] {
        for (int64_t i = 0; i < count; ++i)
            y[i] = ptx::cvt(ptx::type_named(to), ptx::type_named(from), x[i], rounding_named(rounding), satfinite, relu);
    });
}

int ptx_cvt_pair_f32(const char* to, float upper, float lower, int satfinite, uint32_t* y) {
    return guarded([&] { *y = ptx::cvt_pair_f32(ptx::type_named(to), upper, lower, ptx::Rounding::rn, satfinite); });
}

int ptx_cvt_pair(const char* to, const char* from, uint32_t x, int satfinite, uint32_t* y) {
    return guarded([&] {
        *y = ptx::cvt_pair(ptx::type_named(to), ptx::type_named(from), x, ptx::Rounding::rn, satfinite);
    });
}

int ptx_cvt_pack(const char* to, int32_t a, int32_t b, uint32_t c, uint32_t* y) {
    return guarded([&] { *y = ptx::cvt_pack(ptx::type_named(to), a, b, c); });
}

int ptx_half2(int what, const char* type, const uint32_t* a, const uint32_t* b, const uint32_t* c, int sat, int relu,
              uint32_t* y, int64_t count) {
    return guarded([&] {
        for (int64_t i = 0; i < count; ++i)
            y[i] = ptx::half2(ptx::Half(what), ptx::type_named(type), a[i], b[i], c[i], sat, relu);
    });
}

// --- matrices ---

int ptx_ldmatrix(int num, int trans, const uint8_t* memory, const uint32_t* offsets, uint32_t* out) {
    return guarded([&] {
        const uint8_t* row[32];
        for (int lane = 0; lane < 32; ++lane) row[lane] = memory + offsets[lane];
        ptx::ldmatrix(num, trans, row, reinterpret_cast<uint32_t(*)[4]>(out));
    });
}

int ptx_stmatrix(int num, int trans, uint8_t* memory, const uint32_t* offsets, const uint32_t* in) {
    return guarded([&] {
        uint8_t* row[32];
        for (int lane = 0; lane < 32; ++lane) row[lane] = memory + offsets[lane];
        ptx::stmatrix(num, trans, row, reinterpret_cast<const uint32_t(*)[4]>(in));
    });
}

int ptx_movmatrix(const uint32_t* in, uint32_t* out) {
    return guarded([&] { ptx::movmatrix(in, out); });
}

int ptx_mma_words(const char* opcode, char operand, int* count) {
    return guarded([&] { *count = ptx::words(ptx::parse_mma(opcode), operand); });
}

int ptx_mma(const char* opcode, const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* d) {
    return guarded([&] { ptx::mma(ptx::parse_mma(opcode), a, b, c, d); });
}

// --- wgmma ---

int ptx_wgmma(const char* opcode, uint8_t* memory, uint32_t base, uint32_t size, uint32_t* d, const uint32_t* a,
              uint64_t a_descriptor, uint64_t b_descriptor, int scale_d, int scale_a, int scale_b, int trans_a,
              int trans_b) {
    return guarded([&] {
        ptx::wgmma(ptx::parse_wgmma(opcode), {memory, base, size}, d, a, a_descriptor, b_descriptor, scale_d, scale_a,
                   scale_b, trans_a, trans_b);
    });
}

int ptx_wgmma_words(const char* opcode, char operand, int* count) {
    return guarded([&] { *count = ptx::words(ptx::parse_wgmma(opcode), operand); });
}

// The address of every element (rows, k) of a matrix that a descriptor describes.
int ptx_matrix_addresses(uint64_t descriptor, int k_major, int bytes, int rows, int k, uint32_t* addresses) {
    return guarded([&] {
        const ptx::Descriptor matrix = ptx::parse_descriptor(descriptor);
        ptx::require_within_span(matrix, (k_major ? k : rows) * bytes, "the matrix");
        for (int mn = 0; mn < rows; ++mn)
            for (int i = 0; i < k; ++i) *addresses++ = ptx::matrix_address(matrix, k_major, bytes, mn, i);
    });
}

// --- mbarriers ---

int ptx_mbarrier(const char* what, uint64_t* barrier, uint32_t number, uint64_t state, uint64_t* result) {
    const std::string name = what;
    return guarded([&] {
        if (name == "init") ptx::mbarrier_init(*barrier, number);
        else if (name == "inval") ptx::mbarrier_inval(*barrier);
        else if (name == "arrive") *result = ptx::mbarrier_arrive(*barrier, number);
        else if (name == "arrive.noComplete") *result = ptx::mbarrier_arrive(*barrier, number, true);
        else if (name == "arrive_drop") *result = ptx::mbarrier_arrive_drop(*barrier, number);
        else if (name == "arrive.expect_tx") *result = ptx::mbarrier_arrive_expect_tx(*barrier, number);
        else if (name == "expect_tx") ptx::mbarrier_expect_tx(*barrier, number);
        else if (name == "complete_tx") ptx::mbarrier_complete_tx(*barrier, number);
        else if (name == "cp_async_begin") ptx::mbarrier_cp_async_begin(*barrier);
        else if (name == "test") *result = ptx::mbarrier_test(*barrier, state);
        else if (name == "test_parity") *result = ptx::mbarrier_test_parity(*barrier, number);
        else if (name == "pending_count") *result = ptx::mbarrier_pending_count(state);
        else ptx::refuse("no such function: " + name);
    });
}

// --- tensor maps ---

int ptx_encode_tiled(void* map, uint32_t type, uint32_t rank, uint64_t address, const uint64_t* sizes,
                     const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
                     uint32_t interleave, uint32_t swizzle, uint32_t promotion, uint32_t fill) {
    return guarded([&] {
        const ptx::TensorMap made = ptx::encode_tiled(type, rank, address, sizes, strides, box, element_strides,
                                                      interleave, swizzle, promotion, fill);
        std::memcpy(map, &made, sizeof made);
    });
}

int ptx_encode_im2col(void* map, uint32_t type, uint32_t rank, uint64_t address, const uint64_t* sizes,
                      const uint64_t* strides, const int* lower, const int* upper, uint32_t channels, uint32_t pixels,
                      const uint32_t* element_strides, uint32_t interleave, uint32_t swizzle, uint32_t promotion,
                      uint32_t fill) {
    return guarded([&] {
        const ptx::TensorMap made =
            ptx::encode_im2col(type, rank, address, sizes, strides, lower, upper, channels, pixels, element_strides,
                               interleave, swizzle, promotion, fill);
        std::memcpy(map, &made, sizeof made);
    });
}

int ptx_tensormap_replace(void* map, const char* field, uint32_t ord, uint64_t value) {
    return guarded([&] { ptx::tensormap_replace(map, field, ord, value); });
}

// --- tensor copies; the blocks of a multicast lie one after the other in memory ---

int ptx_tma_load(const void* map, int rank, const int32_t* coordinates, const uint16_t* offsets, uint8_t* memory,
                 uint32_t base, uint32_t size, int count, uint32_t address, uint32_t* bytes) {
    return guarded([&] {
        std::vector<ptx::Shared> blocks;
        for (int i = 0; i < count; ++i) blocks.push_back({memory + size_t(i) * size, base, size});
        *bytes = ptx::tma_load(ptx::map_at(map), rank, coordinates, offsets, blocks.data(), count, address);
    });
}

int ptx_tma_store(const char* by, const void* map, int rank, const int32_t* coordinates, uint8_t* memory,
                  uint32_t base, uint32_t size, uint32_t address) {
    const std::string name = by;
    return guarded([&] {
        const ptx::Shared shared{memory, base, size};
        if (name.empty()) ptx::tma_store(ptx::map_at(map), rank, coordinates, shared, address);
        else ptx::tma_reduce(ptx::reduction_named(name), ptx::map_at(map), rank, coordinates, shared, address);
    });
}

// --- runs of bytes ---

int ptx_bulk(const char* what, const char* type, uint8_t* global, uint8_t* memory, uint32_t base, uint32_t size,
             uint32_t address, uint32_t bytes, int count) {
    const std::string name = what;
    return guarded([&] {
        std::vector<ptx::Shared> blocks;
        for (int i = 0; i < count; ++i) blocks.push_back({memory + size_t(i) * size, base, size});
        if (name == "load") ptx::bulk_load(global, blocks.data(), count, address, bytes);
        else if (name == "store") ptx::bulk_store(global, blocks[0], address, bytes);
        else if (name == "send") ptx::bulk_send(blocks[0], address, blocks[1], address + bytes, bytes);
        else ptx::bulk_reduce(ptx::reduction_named(name), ptx::type_named(type), global, blocks[0], address, bytes);
    });
}

}  // extern "C"
