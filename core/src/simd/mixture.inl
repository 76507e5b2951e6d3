// Kernels of mixture, written over lanes; simd_mixture.hpp is their table.

static constexpr MixtureKernels mixture_kernels = {};
