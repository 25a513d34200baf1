// Tensor instructions of sm_90a for an emulator of PTX: pure functions on arrays, namespace ptx.  Each header has its
// signatures at its top.  Wrong use is a std::runtime_error with words.  Functions do their effect at once: when an
// asynchronous one happens is for the caller to decide.
#pragma once

#include "matrices.hpp"
#include "mbarriers.hpp"
#include "numbers.hpp"
#include "shared.hpp"
#include "tensor_copies.hpp"
#include "tensor_maps.hpp"
#include "wgmma.hpp"
