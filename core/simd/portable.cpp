#define KNOLL_ISA portable
#define KNOLL_ISA_NAME "portable"
#include "simd/body-inl.hpp"
