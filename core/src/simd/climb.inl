// Kernels of climb, written over lanes; simd_climb.hpp is their table.

static constexpr ClimbKernels climb_kernels = {};
