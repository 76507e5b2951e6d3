// One pool of threads per process. Callers bring a job of numbered chunks and work on it themselves; idle workers join
// in. Nobody spins; concurrent callers share the workers; a child of fork() finds a fresh, empty pool.
#pragma once

#include <cstdint>

#include "common/run.hpp"

namespace knoll {

// Calls body(context, chunk) for chunk = 0 … chunks−1, each once, on at most run.threads threads (the caller is one of
// them). The first exception (by chunk number among those that ran) is rethrown here; run.cancel makes it throw
// Cancelled. A call from inside a body runs on the thread it is made from.
void pool_run(int64_t chunks, Run run, void (*body)(void* context, int64_t chunk), void* context);

// How many worker threads exist now (callers not counted): for tests and for show_build.
int pool_workers();

}  // namespace knoll
