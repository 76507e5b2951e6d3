// Every x86-64: SSE2, vectors in two halves, fma as a product and a sum.
#define KNOLL_ISA baseline
#define KNOLL_ISA_NAME "baseline"
#include "simd/body-inl.hpp"
