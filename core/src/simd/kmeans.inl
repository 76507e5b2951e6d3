// Kernels of kmeans, written over lanes; simd_kmeans.hpp is their table.

static constexpr KMeansKernels kmeans_kernels = {};
