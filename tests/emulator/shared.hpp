// Shared memory of a block as the instructions see it, and the swizzles of its addresses.
//
//   struct Shared { uint8_t* data; uint32_t base, size; uint8_t* at(uint32_t address, uint32_t bytes) const; };
//       data[0] is at address base of the window; at() throws where the bytes are not all inside
//   uint32_t swizzled(uint32_t address, uint32_t span);       span: 0, 32, 64 or 128 bytes
//
// Source: PTX ISA, "Swizzling Modes", "Shared Memory Matrix Layout".
#pragma once

#include <cstdint>
#include <string>

#include "numbers.hpp"

namespace ptx {

struct Shared {
    uint8_t* data;
    uint32_t base, size;

    uint8_t* at(uint32_t address, uint32_t bytes) const {
        if (address < base || bytes > size || address - base > size - bytes)
            refuse("shared memory: " + std::to_string(bytes) + " bytes at address " + std::to_string(address) +
                   " are not within " + std::to_string(size) + " bytes at " + std::to_string(base));
        return data + (address - base);
    }
};

// Which 16 bytes of a row of `span` bytes hold a part: the part's number, exclusive or of that of 128 bytes of address.
inline uint32_t swizzled(uint32_t address, uint32_t span) {
    switch (span) {
        case 0: return address;
        case 32: return address ^ (address >> 7 & 1) << 4;
        case 64: return address ^ (address >> 7 & 3) << 4;
        case 128: return address ^ (address >> 7 & 7) << 4;
        default: refuse("a swizzle spans 0, 32, 64 or 128 bytes");
    }
}

}  // namespace ptx
