#define KNOLL_ISA baseline
#define KNOLL_ISA_NAME "baseline"
#include "simd/body-inl.hpp"
