#define KNOLL_ISA baseline
#define KNOLL_ISA_NAME "baseline"
#include "body.inl"
