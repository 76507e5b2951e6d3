// x86-64 with AVX2 and FMA: compiled with -mavx2 -mfma, chosen at load where the processor has both.
#define KNOLL_ISA avx2
#define KNOLL_ISA_NAME "avx2"
#include "simd/body-inl.hpp"
