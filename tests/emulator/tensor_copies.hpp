// Copies by the asynchronous units: boxes of tensors by TMA, and runs of bytes.
//
//   uint32_t tma_load(const TensorMap&, int rank, const int32_t* coordinates, const uint16_t* offsets,
//                     const Shared* blocks, int count, uint32_t address);
//       rank: of the instruction (.2d); offsets: of .im2col (rank - 2 of them), else nullptr; blocks: one, or those of
//       a multicast, each written at the same address; returns the bytes that complete on the barrier of each
//   void tma_store(const TensorMap&, int rank, const int32_t* coordinates, const Shared&, uint32_t address);
//   void tma_reduce(Reduction, const TensorMap&, int rank, const int32_t* coordinates, const Shared&, uint32_t address);
//   uint32_t bulk_load(const uint8_t* source, const Shared* blocks, int count, uint32_t address, uint32_t bytes);
//   void bulk_store(uint8_t* target, const Shared&, uint32_t address, uint32_t bytes);
//   uint32_t bulk_send(const Shared& from, uint32_t source, const Shared& to, uint32_t target, uint32_t bytes);
//   void bulk_reduce(Reduction, Type, uint8_t* target, const Shared&, uint32_t address, uint32_t bytes);
//   enum class Reduction { add, min, max, inc, dec, conjunction, disjunction, exclusive_or };
//   Reduction reduction_named(const std::string&);                "add" "min" "max" "inc" "dec" "and" "or" "xor"
//   void reduce_element(Reduction, Type, uint8_t* memory, const uint8_t* operand);
//
// Coordinates are signed.  Elements outside of the tensor are filled on loads (zero, or the NaN of all ones), and left
// out of stores and reductions, whose boxes must not begin before the tensor.  A tfloat32 map rounds to nearest even on
// loads.  Sums of floats keep subnormals.
// Source: PTX ISA, cp.async.bulk, cp.reduce.async.bulk and their .tensor forms; "Tensors"; CUDA C++ Programming Guide,
// "Tensor Memory Access".
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "shared.hpp"
#include "tensor_maps.hpp"

namespace ptx {

// --- reductions ------------------------------------------------------------------------------------------------------

enum class Reduction : uint8_t { add, min, max, inc, dec, conjunction, disjunction, exclusive_or };

inline Reduction reduction_named(const std::string& name) {
    static const char* const names[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
    for (int i = 0; i < 8; ++i)
        if (name == names[i]) return Reduction(i);
    refuse("no reduction: " + name);
}

template <typename Number>
inline Number number_at(const uint8_t* memory) {
    Number x;
    std::memcpy(&x, memory, sizeof x);
    return x;
}

template <typename Word, typename Number>
inline Word combined(Reduction by, Word old, Word x) {
    switch (by) {
        case Reduction::add: return old + x;
        case Reduction::min: return Number(x) < Number(old) ? x : old;
        case Reduction::max: return Number(x) > Number(old) ? x : old;
        case Reduction::inc: return old >= x ? 0 : old + 1;
        case Reduction::dec: return old == 0 || old > x ? x : old - 1;
        case Reduction::conjunction: return old & x;
        case Reduction::disjunction: return old | x;
        default: return old ^ x;
    }
}

template <typename Word, typename Number>
inline void combine_at(Reduction by, uint8_t* memory, const uint8_t* operand) {
    const Word word = combined<Word, Number>(by, number_at<Word>(memory), number_at<Word>(operand));
    std::memcpy(memory, &word, sizeof word);
}

inline void require_reduction(Reduction by, Type type) {
    const bool whole = type == Type::u32 || type == Type::s32 || type == Type::u64 || type == Type::s64;
    const bool half = type == Type::f16 || type == Type::bf16;
    bool known = whole;
    if (by == Reduction::add) known = whole || half || type == Type::f32 || type == Type::f64;
    else if (by == Reduction::min || by == Reduction::max) known = whole || half;
    else if (by == Reduction::inc || by == Reduction::dec) known = type == Type::u32;
    if (!known) refuse("no such reduction of this type");
}

inline void reduce_element(Reduction by, Type type, uint8_t* memory, const uint8_t* operand) {
    require_reduction(by, type);
    if (type == Type::f16 || type == Type::bf16) {
        const Half what = by == Reduction::add ? Half::add : by == Reduction::min ? Half::min : Half::max;
        const uint16_t sum = half(what, type, number_at<uint16_t>(memory), number_at<uint16_t>(operand));
        std::memcpy(memory, &sum, 2);
    } else if (type == Type::f32) {
        const float sum = number_at<float>(memory) + number_at<float>(operand);
        std::memcpy(memory, &sum, 4);
    } else if (type == Type::f64) {
        const double sum = number_at<double>(memory) + number_at<double>(operand);
        std::memcpy(memory, &sum, 8);
    } else if (type == Type::u32) combine_at<uint32_t, uint32_t>(by, memory, operand);
    else if (type == Type::s32) combine_at<uint32_t, int32_t>(by, memory, operand);
    else if (type == Type::u64) combine_at<uint64_t, uint64_t>(by, memory, operand);
    else combine_at<uint64_t, int64_t>(by, memory, operand);
}

// --- the rows of a box -----------------------------------------------------------------------------------------------

// A row of a box: its first element's address in global memory, whether any of it exists, and which elements do.
struct Row {
    uint64_t address;
    int64_t first, past;
};

inline Row row_at(const TensorMap& map, int64_t first, const int64_t* others, uint32_t count) {
    const int bytes = element_bytes(map.type);
    Row row{map.address + uint64_t(first * bytes), std::max<int64_t>(0, -first),
            std::min<int64_t>(count, map.size(0) - first)};
    for (int d = 1; d < map.rank; ++d) {
        row.address += uint64_t(others[d]) * map.strides[d - 1];
        if (others[d] < 0 || others[d] >= map.size(d)) row.past = 0;
    }
    row.past = std::max(row.past, row.first);
    return row;
}

template <typename Action>
inline void each_tile_row(const TensorMap& map, const int32_t* coordinates, Action action) {
    int64_t at[5] = {}, index[5] = {};
    for (int d = 0; d < map.rank; ++d) at[d] = coordinates[d];
    for (uint32_t offset = 0; offset < box_bytes(map); offset += row_bytes(map)) {
        action(offset, row_at(map, at[0], at, map.box[0]));
        for (int d = 1; d < map.rank; ++d) {
            at[d] += map.element_strides[d];
            if (++index[d] < box_count(map, d)) break;
            index[d] = 0, at[d] = coordinates[d];
        }
    }
}

// Pixels one after the other, within the bounding box of each image; an offset moves all of them.
template <typename Action>
inline void each_pixel(const TensorMap& map, const int32_t* coordinates, const uint16_t* offsets, Action action) {
    int64_t at[5] = {}, moved[5] = {};
    const int images = map.rank - 1;
    for (int d = 0; d < map.rank; ++d) at[d] = coordinates[d];
    for (uint32_t pixel = 0; pixel < map.pixels; ++pixel) {
        for (int d = 1; d < images; ++d) moved[d] = at[d] + offsets[d - 1];
        moved[images] = at[images];
        action(pixel * row_bytes(map), row_at(map, at[0], moved, map.channels));
        int d = 1;
        for (; d < images; ++d) {
            at[d] += map.element_strides[d];
            if (at[d] < map.size(d) + map.upper[d - 1]) break;
            at[d] = map.lower[d - 1];
        }
        if (d == images) ++at[images];
    }
}

inline void require_offsets(const TensorMap& map, const uint16_t* offsets) {
    const int most = map.rank == 3 ? 65535 : map.rank == 4 ? 255 : 31;
    for (int d = 0; d < map.rank - 2; ++d)
        if (offsets[d] > most) refuse("tensor copy: an im2col offset of " + std::to_string(offsets[d]));
}

template <typename Action>
inline void each_row(const TensorMap& map, int rank, const int32_t* coordinates, const uint16_t* offsets,
                     uint32_t address, Action action) {
    require_valid(map);
    if (rank != map.rank)
        refuse("tensor copy: " + std::to_string(rank) + " coordinates of a map of rank " + std::to_string(map.rank));
    if (bool(map.im2col) != (offsets != nullptr)) refuse("tensor copy: .tile and .im2col are not those of the map");
    if (address % 128) refuse("tensor copy: the shared address " + std::to_string(address) + " is no multiple of 128");
    if (!map.im2col) return each_tile_row(map, coordinates, action);
    require_offsets(map, offsets);
    each_pixel(map, coordinates, offsets, action);
}

// --- tensor copies ---------------------------------------------------------------------------------------------------

// What an element becomes on its way to shared memory.
inline void converted(const TensorMap& map, uint8_t* element) {
    if (map.type < FLOAT32_FTZ) return;
    float x = number_at<float>(element);
    if (map.type != TFLOAT32 && std::fabs(x) < std::numeric_limits<float>::min()) x = std::copysign(0.0f, x);
    const uint32_t bits = map.type == FLOAT32_FTZ ? bits_of_float(x) : uint32_t(from_double(Type::tf32, x));
    std::memcpy(element, &bits, 4);
}

// A whole row of global memory, with what fills the rest.
inline void gather(const TensorMap& map, const Row& row, uint8_t* to) {
    const int bytes = element_bytes(map.type);
    for (uint32_t i = 0, count = row_bytes(map) / bytes; i < count; ++i) {
        uint8_t* const element = to + i * bytes;
        if (i >= row.first && i < row.past) {
            std::memcpy(element, reinterpret_cast<const uint8_t*>(row.address + i * bytes), bytes);
            converted(map, element);
        } else {
            std::memset(element, map.fill ? 0xff : 0, bytes);
            if (map.fill) element[bytes - 1] = 0x7f;
        }
    }
}

// The 16 bytes of a row after the other, where its swizzle puts them.
template <typename Action>
inline void each_part(const TensorMap& map, const Shared& shared, uint32_t address, Action action) {
    for (uint32_t part = 0; part < row_bytes(map); part += 16)
        action(part, shared.at(swizzled(address + part, span_of(map)), 16));
}

inline uint32_t tma_load(const TensorMap& map, int rank, const int32_t* coordinates, const uint16_t* offsets,
                         const Shared* blocks, int count, uint32_t address) {
    std::string line(row_bytes(map), 0);
    uint8_t* const data = reinterpret_cast<uint8_t*>(&line[0]);
    each_row(map, rank, coordinates, offsets, address, [&](uint32_t offset, const Row& row) {
        gather(map, row, data);
        for (int block = 0; block < count; ++block)
            each_part(map, blocks[block], address + offset,
                      [&](uint32_t part, uint8_t* place) { std::memcpy(place, data + part, 16); });
    });
    return box_bytes(map);
}

// Each element of a box that exists: (global memory, shared memory).
template <typename Action>
inline void each_element(const TensorMap& map, int rank, const int32_t* coordinates, const Shared& shared,
                         uint32_t address, Action action) {
    const uint32_t bytes = element_bytes(map.type);
    for (int d = 0; d < rank; ++d)
        if (coordinates[d] < 0)
            refuse("tensor copy: a box that is written begins at coordinate " + std::to_string(coordinates[d]));
    each_row(map, rank, coordinates, nullptr, address, [&](uint32_t offset, const Row& row) {
        each_part(map, shared, address + offset, [&](uint32_t part, const uint8_t* place) {
            for (uint32_t at = 0; at < 16; at += bytes) {
                const int64_t i = (part + at) / bytes;
                if (i >= row.first && i < row.past)
                    action(reinterpret_cast<uint8_t*>(row.address + uint64_t(i) * bytes), place + at);
            }
        });
    });
}

inline void tma_store(const TensorMap& map, int rank, const int32_t* coordinates, const Shared& shared,
                      uint32_t address) {
    const int bytes = element_bytes(map.type);
    each_element(map, rank, coordinates, shared, address,
                 [&](uint8_t* to, const uint8_t* from) { std::memcpy(to, from, bytes); });
}

inline void tma_reduce(Reduction by, const TensorMap& map, int rank, const int32_t* coordinates, const Shared& shared,
                       uint32_t address) {
    const Type type = number_type(map.type);
    require_reduction(by, type);
    if (by == Reduction::add && (type == Type::f64 || type == Type::s64))
        refuse("cp.reduce.async.bulk.tensor has no sums of this type");
    each_element(map, rank, coordinates, shared, address,
                 [&](uint8_t* to, const uint8_t* from) { reduce_element(by, type, to, from); });
}

// --- runs of bytes ---------------------------------------------------------------------------------------------------

inline void require_run(uint64_t a, uint64_t b, uint32_t bytes) {
    if (a % 16 || b % 16 || bytes % 16)
        refuse("bulk copy: addresses " + std::to_string(a) + " and " + std::to_string(b) + " and " +
               std::to_string(bytes) + " bytes are not all multiples of 16");
}

inline uint32_t bulk_load(const uint8_t* source, const Shared* blocks, int count, uint32_t address, uint32_t bytes) {
    require_run(reinterpret_cast<uintptr_t>(source), address, bytes);
    for (int block = 0; block < count; ++block) std::memcpy(blocks[block].at(address, bytes), source, bytes);
    return bytes;
}

inline void bulk_store(uint8_t* target, const Shared& shared, uint32_t address, uint32_t bytes) {
    require_run(reinterpret_cast<uintptr_t>(target), address, bytes);
    std::memcpy(target, shared.at(address, bytes), bytes);
}

inline uint32_t bulk_send(const Shared& from, uint32_t source, const Shared& to, uint32_t target, uint32_t bytes) {
    require_run(source, target, bytes);
    std::memmove(to.at(target, bytes), from.at(source, bytes), bytes);
    return bytes;
}

inline void bulk_reduce(Reduction by, Type type, uint8_t* target, const Shared& shared, uint32_t address,
                        uint32_t bytes) {
    require_run(reinterpret_cast<uintptr_t>(target), address, bytes);
    const uint8_t* const source = shared.at(address, bytes);
    const uint32_t each = bits_of(type) / 8;
    for (uint32_t at = 0; at < bytes; at += each) reduce_element(by, type, target + at, source + at);
}

}  // namespace ptx
