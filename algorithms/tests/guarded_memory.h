// What the tests share: memory with guards around it, and blocks whose contents are known.
#ifndef ALGORITHMS_TESTS_GUARDED_MEMORY_H
#define ALGORITHMS_TESTS_GUARDED_MEMORY_H

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "algorithm.h"

// `bytes` that begin `skew` bytes behind a multiple of 4096, with 64 guard bytes on both sides.
class Memory {
 public:
  explicit Memory(size_t bytes, size_t skew = 0) : bytes_(bytes), store_(bytes + 3 * 4096) {
    uintptr_t at = reinterpret_cast<uintptr_t>(store_.data());
    start_ = store_.data() + ((4096 - at % 4096) % 4096 + 4096 + skew);
    memset(start_ - 64, 0xa5, 64);
    memset(start_ + bytes, 0xa5, 64);
  }
  char *start() { return start_; }
  size_t size() const { return bytes_; }
  bool guards_hold() const {
    for (int i = 1; i <= 64; i++) {
      if (uint8_t(start_[-i]) != 0xa5 || uint8_t(start_[bytes_ + i - 1]) != 0xa5) return false;
    }
    return true;
  }
  bool has(const void *p, size_t n) const {
    const char *c = static_cast<const char *>(p);
    return c >= start_ && c + n <= start_ + bytes_;
  }

 private:
  size_t bytes_;
  std::vector<char> store_;
  char *start_;
};

struct Held {
  char *address;
  size_t size;
  uint8_t seed;
};

inline void fill(const Held &h) {
  for (size_t i = 0; i < h.size; i++) h.address[i] = char(h.seed + 31 * i);
}
inline bool intact(const Held &h, size_t upto) {
  for (size_t i = 0; i < upto; i++) {
    if (h.address[i] != char(h.seed + 31 * i)) return false;
  }
  return true;
}

inline size_t counted(size_t request) {
  size_t unit = ALGORITHM_ALIGNMENT;
  return request ? (request + unit - 1) / unit * unit : unit;
}

#endif
