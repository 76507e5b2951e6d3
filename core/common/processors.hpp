// Threads that work together should not begin on one processor.
//
// A guest system takes a processor that its host lets idle for one that is busy, so it wakes a worker beside the thread
// that calls it, and there they share one processor for tens of milliseconds while another has nothing to do.
#pragma once

#ifdef __linux__
#include <sched.h>
#endif

namespace knoll {

// The processors on which the threads of a job began. Not guarded: its owner sees to that.
class Processors {
 public:
  Processors();
  bool take();              // this thread's processor; false where it was taken before
  void step_aside() const;  // moves this thread to one that is allowed and not taken, if there is one

#ifdef __linux__
 private:
  cpu_set_t taken_;
#endif
};

}  // namespace knoll
