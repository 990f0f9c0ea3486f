// A mutex that lends its holder the priority of whoever waits: the only kind that a real-time thread may share with
// others, as a low-priority holder is then run until it lets go.
//
// Layer: over nothing. Used by pool_core.hpp (the mutex mode) and atomic_shared_ptr.hpp.
#ifndef RTMALLOC_PRIORITY_MUTEX_HPP
#define RTMALLOC_PRIORITY_MUTEX_HPP

#include <pthread.h>

#include <system_error>

namespace rtm::detail {

// Works with std::lock_guard. Throws std::system_error if the system refuses to make it.
class PriorityMutex {
 public:
  PriorityMutex() {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    const int error = pthread_mutex_init(&mutex_, &attributes);
    pthread_mutexattr_destroy(&attributes);
    if (error) throw std::system_error(error, std::generic_category(), "rtmalloc: a mutex with priority inheritance");
  }
  ~PriorityMutex() { pthread_mutex_destroy(&mutex_); }
  PriorityMutex(const PriorityMutex &) = delete;
  PriorityMutex &operator=(const PriorityMutex &) = delete;

  void lock() noexcept { pthread_mutex_lock(&mutex_); }
  void unlock() noexcept { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_;
};

}  // namespace rtm::detail

#endif  // RTMALLOC_PRIORITY_MUTEX_HPP
