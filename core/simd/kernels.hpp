// The kernels that exist once per instruction set, behind one table that is chosen when the library is loaded.
//
// The bodies are in the *-inl.hpp files, written over lanes (simd/lanes-inl.hpp) and compiled by baseline.cpp, avx2.cpp
// or portable.cpp, each in a namespace of its own. KNOLL_ISA=baseline|avx2|portable in the environment forces a table.
#pragma once

#include <vector>

#include "simd/table.hpp"

namespace knoll {

const Kernels& kernels();                   // the chosen table
std::vector<const Kernels*> all_kernels();  // those that this machine can run, the fastest last

}  // namespace knoll
