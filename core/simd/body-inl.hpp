// Every kernel (*-inl.hpp), compiled once per instruction set: KNOLL_ISA names the namespace.
// Only C headers and intrinsics here: an inline function of the C++ library, compiled with wider instructions, could be
// picked by the linker for the whole program. `make check` searches for such leaks in the object file.
#include <stdint.h>
#ifdef __FMA__
#include <immintrin.h>
#endif

#include "simd/table.hpp"

namespace knoll::KNOLL_ISA {

#include "simd/lanes-inl.hpp"  // first: the others are written over lanes

#include "simd/exp-inl.hpp"
#include "simd/finite-inl.hpp"
#include "simd/tile-inl.hpp"

#include "kernels/kernels-inl.hpp"
#include "kmeans/assign-inl.hpp"
#include "kmeans/seeding-inl.hpp"
#include "mixture/em_pass-inl.hpp"
#include "neighbors/ascent-inl.hpp"
#include "neighbors/gower-inl.hpp"
#include "neighbors/index-inl.hpp"
#include "neighbors/pair_filter-inl.hpp"
#include "tree/search-inl.hpp"

#include "hierarchy/ward-inl.hpp"  // over the lanes of neighbors/index-inl.hpp

// A constant has internal linkage by default; dispatch.cpp names it from another file.
extern const Kernels table;
const Kernels table = {
    .name = KNOLL_ISA_NAME,
    .exp = exp_array,
    .log = log_array,
    .finite_f64 = finite_f64,
    .finite_f32 = finite_f32,
    .center_rows_f64 = center_rows_f64,
    .center_rows_f32 = center_rows_f32,
    .tall_product = tall_product,
    .lower_product = lower_product,
    .whitened_norms = whitened_norms,
    .distance_tile = distance_tile,
    .distance_sums = distance_sums,
    .kmeans = kmeans_kernels,
    .mixture = mixture_kernels,
    .index = index_kernels,
    .ascent = ascent_kernels,
    .pairs = pair_kernels,
    .gower = gower_kernels,
    .seeding = seeding_kernels,
    .gram = gram_kernels,
    .tree = tree_kernels,
    .ward = ward_kernels,
};

}  // namespace knoll::KNOLL_ISA
