// Scratch objects that outlive a chunk: a body leases one, works in it and returns it; there are never more objects
// than bodies running at once. Which body gets which object varies, so only order-free sums and scratch may be kept in
// them.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace knoll {

template <class S>
class ScratchPool {
 public:
  template <class Make>
  explicit ScratchPool(Make&& make) : make_(std::forward<Make>(make)) {}

  // Holds a scratch object for its own lifetime.
  class Lease {
   public:
    explicit Lease(ScratchPool& pool) : pool_(pool), object_(pool.take()) {}
    ~Lease() { pool_.put_back(std::move(object_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    S& operator*() const { return *object_; }
    S* operator->() const { return object_.get(); }

   private:
    ScratchPool& pool_;
    std::unique_ptr<S> object_;
  };

  // body(S&) for every object; none may be leased.
  template <class F>
  void for_each(F&& body) {
    for (auto& object : free_) body(*object);
  }

 private:
  // The object is made outside of the lock: making one may take long, and may throw.
  std::unique_ptr<S> take() {
    {
      std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        auto object = std::move(free_.back());
        free_.pop_back();
        return object;
      }
    }
    auto object = make_();
    std::lock_guard lock(mutex_);
    ++made_;
    free_.reserve(made_);  // put_back must not throw
    return object;
  }
  // Called from a destructor, also while an exception passes.
  void put_back(std::unique_ptr<S> object) noexcept {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(object));
  }

  std::function<std::unique_ptr<S>()> make_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<S>> free_;
  size_t made_ = 0;
};

}  // namespace knoll
