// Kernels of index, written over lanes; simd_index.hpp is their table.

static constexpr IndexKernels index_kernels = {};
