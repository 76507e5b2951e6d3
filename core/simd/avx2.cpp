#define KNOLL_ISA avx2
#define KNOLL_ISA_NAME "avx2"
#include "simd/body-inl.hpp"
