#include "common/processors.hpp"

namespace knoll {

#ifdef __linux__

Processors::Processors() { CPU_ZERO(&taken_); }

bool Processors::take() {
  const int here = sched_getcpu();
  if (here < 0 || here >= CPU_SETSIZE) return true;  // not known: then nothing is done about it
  const bool first = !CPU_ISSET(here, &taken_);
  CPU_SET(here, &taken_);
  return first;
}

void Processors::step_aside() const {
  cpu_set_t allowed, others;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  CPU_AND(&others, &allowed, &taken_);
  CPU_XOR(&others, &allowed, &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
  (void)sched_setaffinity(0, sizeof allowed, &allowed);  // it has moved; from there it may go where it could before
}

#else

Processors::Processors() = default;
bool Processors::take() { return true; }
void Processors::step_aside() const {}

#endif

}  // namespace knoll
