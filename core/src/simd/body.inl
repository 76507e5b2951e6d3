// Every kernel of src/simd, compiled once per instruction set: KNOLL_ISA names the namespace.
// Only C headers and intrinsics here: an inline function of the C++ library, compiled with wider instructions, could be
// picked by the linker for the whole program. `make check` looks for such leaks in the object file.
#include <stdint.h>
#ifdef __FMA__
#include <immintrin.h>
#endif

#include "knoll/simd_table.hpp"

namespace knoll::KNOLL_ISA {

#include "lanes.inl"  // first: the others are written over lanes

#include "exp.inl"
#include "finite.inl"
#include "tile.inl"

#include "climb.inl"
#include "index.inl"
#include "kernels.inl"
#include "kmeans.inl"
#include "mixture.inl"
#include "pairs.inl"
#include "seeding.inl"

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
    .root_sums = root_sums,
    .kmeans = kmeans_kernels,
    .mixture = mixture_kernels,
    .index = index_kernels,
    .climb = climb_kernels,
    .pairs = pair_kernels,
    .seeding = seeding_kernels,
    .gram = gram_kernels,
};

}  // namespace knoll::KNOLL_ISA
