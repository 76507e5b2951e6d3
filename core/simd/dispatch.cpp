// Which table of kernels is used. All tables have the same order of additions, since lanes are 32 bytes everywhere;
// they differ in fused operations, which every error bound allows for. So labels are equal on all of them.
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "simd/kernels.hpp"

namespace knoll {

#if KNOLL_X86
namespace baseline {
extern const Kernels table;
}
namespace avx2 {
extern const Kernels table;
}
#else
namespace portable {
extern const Kernels table;
}
#endif

// FMA is tested beside AVX2: a virtual machine may hide one of them.
std::vector<const Kernels*> all_kernels() {
#if KNOLL_X86
  std::vector<const Kernels*> all{&baseline::table};
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) all.push_back(&avx2::table);
  return all;
#else
  return {&portable::table};
#endif
}

// An unknown name is an error and not a fallback: who forces a table compares results.
static const Kernels& choose() {
  const auto all = all_kernels();
  const char* forced = std::getenv("KNOLL_ISA");
  if (forced == nullptr || *forced == '\0') return *all.back();
  std::string known;
  for (const Kernels* k : all) {
    if (std::string(k->name) == forced) return *k;
    known += std::string(known.empty() ? "" : ", ") + k->name;
  }
  throw std::runtime_error("KNOLL_ISA is " + std::string(forced) +
                           ", but this build on this machine can run only: " + known);
}

const Kernels& kernels() {
  // Chosen once; the initialisation of a local static is safe against threads.
  static const Kernels& chosen = choose();
  return chosen;
}

}  // namespace knoll
