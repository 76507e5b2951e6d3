// Other machines: the compiler chooses the instructions for lanes, fma as a product and a sum.
#define KNOLL_ISA portable
#define KNOLL_ISA_NAME "portable"
#include "simd/body-inl.hpp"
