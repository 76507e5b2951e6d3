#define KNOLL_ISA portable
#define KNOLL_ISA_NAME "portable"
#include "body.inl"
