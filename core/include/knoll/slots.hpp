// Scratch space that outlives a chunk: a body takes a slot, works in it, gives it back; there are never more slots than
// bodies at work. What is kept in slots must not depend on who had which one: integer sums, or scratch.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace knoll {

template <class S>
class Slots {
 public:
  template <class Make>
  explicit Slots(Make&& make) : make_(std::forward<Make>(make)) {}

  // Takes a slot for the life of this object.
  class Loan {
   public:
    explicit Loan(Slots& home) : home_(home), slot_(home.take()) {}
    ~Loan() { home_.give_back(std::move(slot_)); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    S& operator*() const { return *slot_; }
    S* operator->() const { return slot_.get(); }

   private:
    Slots& home_;
    std::unique_ptr<S> slot_;
  };

  // body(S&) for every slot; nobody may be at work.
  template <class F>
  void for_each(F&& body) {
    for (auto& slot : free_) body(*slot);
  }

 private:
  std::unique_ptr<S> take() {
    {
      std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        auto slot = std::move(free_.back());
        free_.pop_back();
        return slot;
      }
    }
    auto slot = make_();
    std::lock_guard lock(mutex_);
    ++made_;
    free_.reserve(made_);  // giving back must not throw
    return slot;
  }
  void give_back(std::unique_ptr<S> slot) noexcept {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(slot));
  }

  std::function<std::unique_ptr<S>()> make_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<S>> free_;
  size_t made_ = 0;
};

}  // namespace knoll
