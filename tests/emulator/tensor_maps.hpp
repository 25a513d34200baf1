// Tensor maps: what cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col take, in 128 bytes, and tensormap.replace.
//
//   struct alignas(64) TensorMap;                                 128 bytes that may be copied; made by
//   TensorMap encode_tiled(uint32_t type, uint32_t rank, uint64_t address, const uint64_t* sizes,
//                          const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
//                          uint32_t interleave, uint32_t swizzle, uint32_t promotion, uint32_t fill);
//   TensorMap encode_im2col(uint32_t type, uint32_t rank, uint64_t address, const uint64_t* sizes,
//                           const uint64_t* strides, const int* lower, const int* upper, uint32_t channels,
//                           uint32_t pixels, const uint32_t* element_strides, uint32_t interleave, uint32_t swizzle,
//                           uint32_t promotion, uint32_t fill);
//       numbers of the driver's enums; strides are rank - 1, in bytes
//   TensorMap map_at(const void* where);                          that of an instruction: aligned, and checked
//   void tensormap_replace(void* where, const std::string& field, uint32_t ord, uint64_t value);    "global_dim"
//   uint32_t box_bytes(const TensorMap&);                         what a load completes, inside of the tensor or not
//   enum DataType { UINT8, ... TFLOAT32_FTZ };  int element_bytes(int type);  Type number_type(int type);
//
// What the driver refuses is refused here; interleaved layouts are, too: nothing uses them.
// Source: CUDA driver API, "Tensor Map Object Management"; PTX ISA, "Tensors", tensormap.replace.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "numbers.hpp"

namespace ptx {

enum DataType {
    UINT8, UINT16, UINT32, INT32, UINT64, INT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16, FLOAT32_FTZ, TFLOAT32,
    TFLOAT32_FTZ
};

struct alignas(64) TensorMap {
    uint64_t address;
    uint64_t strides[4];                // of dimensions 1 to 4, in bytes
    uint32_t last[5];                   // sizes less 1
    uint16_t box[5];
    int16_t lower[3], upper[3];         // of the pixels' dimensions, in im2col mode
    uint16_t channels, pixels;
    uint8_t element_strides[5], type, rank, interleave, swizzle, promotion, fill, im2col;
    uint32_t made;                      // a mark

    int64_t size(int d) const { return int64_t(last[d]) + 1; }
};
static_assert(sizeof(TensorMap) == 128, "a tensor map has 128 bytes");

constexpr uint32_t MAP_MADE = 0x70617374;

inline int element_bytes(int type) {
    static const int bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    if (type < 0 || type > TFLOAT32_FTZ) refuse("a tensor map of type " + std::to_string(type));
    return bytes[type];
}

inline bool is_float_map(int type) { return type >= FLOAT16; }

inline Type number_type(int type) {
    static const Type types[] = {Type::u8,  Type::u8,  Type::u32, Type::s32, Type::u64, Type::s64, Type::f16,
                                 Type::f32, Type::f64, Type::bf16, Type::f32, Type::f32, Type::f32};
    if (type == UINT8 || type == UINT16) refuse("no reduction of bytes or of 16-bit integers");
    return types[type];
}

inline uint32_t span_of(const TensorMap& map) {
    static const uint32_t spans[] = {0, 32, 64, 128};
    return spans[map.swizzle];
}

// The elements of a box along a dimension of a tiled map: every element_stride-th, but for the first dimension.
inline uint32_t box_count(const TensorMap& map, int d) {
    return d ? (map.box[d] + map.element_strides[d] - 1u) / map.element_strides[d] : map.box[0];
}

inline uint32_t row_bytes(const TensorMap& map) {
    return uint32_t(map.im2col ? map.channels : map.box[0]) * element_bytes(map.type);
}

inline uint32_t box_bytes(const TensorMap& map) {
    uint32_t rows = map.im2col ? map.pixels : 1;
    for (int d = 1; !map.im2col && d < map.rank; ++d) rows *= box_count(map, d);
    return rows * row_bytes(map);
}

// --- what must hold --------------------------------------------------------------------------------------------------

inline void must(bool holds, const std::string& words) {
    if (!holds) refuse("tensor map: " + words);
}

inline void require_dimensions(const TensorMap& map) {
    must(map.address % 16 == 0, "the address " + std::to_string(map.address) + " is no multiple of 16");
    for (int d = 0; d + 1 < map.rank; ++d)
        must(map.strides[d] % 16 == 0 && map.strides[d] < 1ull << 40,
             "stride " + std::to_string(map.strides[d]) + " is no multiple of 16 bytes below 2^40");
    for (int d = 0; d < map.rank; ++d)
        must(map.element_strides[d] >= 1 && map.element_strides[d] <= 8,
             "an element stride of " + std::to_string(map.element_strides[d]));
}

inline void require_window(const TensorMap& map) {
    const int limit = map.rank == 3 ? 1 << 15 : map.rank == 4 ? 1 << 7 : 1 << 4;
    must(map.rank >= 3, "im2col mode has 3 to 5 dimensions");
    must(map.channels >= 1 && map.channels <= 256, std::to_string(map.channels) + " channels of a pixel");
    must(map.pixels >= 1 && map.pixels <= 1024, std::to_string(map.pixels) + " pixels of a column");
    for (int d = 0; d < map.rank - 2; ++d)
        must(map.lower[d] >= -limit && map.lower[d] < limit && map.upper[d] >= -limit && map.upper[d] < limit,
             "corners " + std::to_string(map.lower[d]) + " and " + std::to_string(map.upper[d]));
}

inline void require_valid(const TensorMap& map) {
    must(map.made == MAP_MADE, "there is none at this address");
    must(map.rank >= 1 && map.rank <= 5, "rank " + std::to_string(map.rank));
    element_bytes(map.type);
    must(map.interleave == 0, "interleaved layouts are not emulated");
    must(map.swizzle <= 3 && map.promotion <= 3 && map.fill <= 1, "a swizzle, promotion or fill that there is not");
    must(!map.fill || is_float_map(map.type), "NaN fills tensors of floats alone");
    require_dimensions(map);
    if (map.im2col) require_window(map);
    for (int d = 0; !map.im2col && d < map.rank; ++d)
        must(map.box[d] >= 1 && map.box[d] <= 256, "a box of " + std::to_string(map.box[d]) + " elements");
    must(row_bytes(map) % 16 == 0, "rows of " + std::to_string(row_bytes(map)) + " bytes are no multiple of 16");
    must(!map.swizzle || row_bytes(map) <= span_of(map),
         "rows of " + std::to_string(row_bytes(map)) + " bytes do not fit the swizzle of " +
             std::to_string(span_of(map)));
    // How far rows lie apart that are shorter than their swizzle is not written down anywhere: better no guess.
    must(!map.swizzle || row_bytes(map) == span_of(map) || box_bytes(map) == row_bytes(map),
         "several rows shorter than their swizzle are not emulated");
}

// --- encoding --------------------------------------------------------------------------------------------------------

inline TensorMap encode_tensor(uint32_t type, uint32_t rank, uint64_t address, const uint64_t* sizes,
                               const uint64_t* strides, const uint32_t* element_strides, uint32_t interleave,
                               uint32_t swizzle, uint32_t promotion, uint32_t fill) {
    TensorMap map{};
    must(rank >= 1 && rank <= 5, "rank " + std::to_string(rank));
    must(type <= 12 && interleave <= 2 && swizzle <= 3 && promotion <= 3 && fill <= 1, "an enum out of its range");
    map.address = address, map.made = MAP_MADE;
    map.type = uint8_t(type), map.rank = uint8_t(rank), map.interleave = uint8_t(interleave);
    map.swizzle = uint8_t(swizzle), map.promotion = uint8_t(promotion), map.fill = uint8_t(fill);
    for (uint32_t d = 0; d < rank; ++d) {
        must(sizes[d] >= 1 && sizes[d] <= 1ull << 32, "an extent of " + std::to_string(sizes[d]));
        must(element_strides[d] >= 1 && element_strides[d] <= 8,
             "an element stride of " + std::to_string(element_strides[d]));
        map.last[d] = uint32_t(sizes[d] - 1), map.element_strides[d] = uint8_t(element_strides[d]);
        if (d) map.strides[d - 1] = strides[d - 1];
    }
    return map;
}

inline TensorMap encode_tiled(uint32_t type, uint32_t rank, uint64_t address, const uint64_t* sizes,
                              const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
                              uint32_t interleave, uint32_t swizzle, uint32_t promotion, uint32_t fill) {
    TensorMap map = encode_tensor(type, rank, address, sizes, strides, element_strides, interleave, swizzle, promotion,
                                  fill);
    for (uint32_t d = 0; d < rank; ++d) {
        must(box[d] >= 1 && box[d] <= 256, "a box of " + std::to_string(box[d]) + " elements");
        map.box[d] = uint16_t(box[d]);
    }
    require_valid(map);
    return map;
}

inline TensorMap encode_im2col(uint32_t type, uint32_t rank, uint64_t address, const uint64_t* sizes,
                               const uint64_t* strides, const int* lower, const int* upper, uint32_t channels,
                               uint32_t pixels, const uint32_t* element_strides, uint32_t interleave, uint32_t swizzle,
                               uint32_t promotion, uint32_t fill) {
    TensorMap map = encode_tensor(type, rank, address, sizes, strides, element_strides, interleave, swizzle, promotion,
                                  fill);
    must(rank >= 3, "im2col mode has 3 to 5 dimensions");
    map.im2col = 1;
    must(channels <= 256 && pixels <= 1024, "more than 256 channels or 1024 pixels");
    map.channels = uint16_t(channels), map.pixels = uint16_t(pixels);
    for (uint32_t d = 0; d + 2 < rank; ++d) {
        must(lower[d] == int16_t(lower[d]) && upper[d] == int16_t(upper[d]), "a corner beyond 16 bits");
        map.lower[d] = int16_t(lower[d]), map.upper[d] = int16_t(upper[d]);
    }
    require_valid(map);
    return map;
}

// --- as instructions see it ------------------------------------------------------------------------------------------

inline TensorMap map_at(const void* where) {
    must(reinterpret_cast<uintptr_t>(where) % 64 == 0, "its address is no multiple of 64");
    TensorMap map;
    std::memcpy(&map, where, sizeof map);
    require_valid(map);
    return map;
}

// The numbers of .elemtype are not those of the driver: .f32.ftz comes before .f64, and .bf16 after it.
inline uint8_t replaced_type(uint64_t value) {
    static const uint8_t types[] = {UINT8,   UINT16,  UINT32,      INT32,   UINT64,   INT64,    FLOAT16,
                                    FLOAT32, FLOAT32_FTZ, FLOAT64, BFLOAT16, TFLOAT32, TFLOAT32_FTZ};
    must(value <= 12, "elemtype " + std::to_string(value));
    return types[value];
}

// tensormap.replace.tile: one field; whether the map is whole is seen when it is used.
inline void tensormap_replace(void* where, const std::string& field, uint32_t ord, uint64_t value) {
    must(reinterpret_cast<uintptr_t>(where) % 64 == 0, "its address is no multiple of 64");
    TensorMap map;
    std::memcpy(&map, where, sizeof map);
    must(map.made == MAP_MADE, "there is none at this address");
    must(!map.im2col, "tensormap.replace.tile of a map in im2col mode");
    must(ord < (field == "global_stride" ? 4u : 5u), field + " of dimension " + std::to_string(ord));
    if (field == "global_address") map.address = value;
    else if (field == "global_stride") map.strides[ord] = value;
    else {
        must(value >> 32 == 0, field + " beyond 32 bits");
        const bool small = field == "global_dim" || field == "box_dim" || value <= 8 || field == "elemtype";
        must(small && (field != "box_dim" || value <= 256), field + " of " + std::to_string(value));
        if (field == "rank") map.rank = uint8_t(value + 1);
        else if (field == "global_dim") must(value > 0, "an extent of 0"), map.last[ord] = uint32_t(value - 1);
        else if (field == "box_dim") map.box[ord] = uint16_t(value);
        else if (field == "element_stride") map.element_strides[ord] = uint8_t(value);
        else if (field == "elemtype") map.type = replaced_type(value);
        else if (field == "interleave_layout") map.interleave = uint8_t(value);
        else if (field == "swizzle_mode") map.swizzle = uint8_t(value);
        else if (field == "fill_mode") map.fill = uint8_t(value);
        else refuse("tensormap.replace: no field " + field);
    }
    std::memcpy(where, &map, sizeof map);
}

}  // namespace ptx
