// area_size: no load whose live requests stay within (live, largest) ever fails in an area of that size; and the bound
// says something: much smaller areas do fail.
#include <algorithm>

#include "guarded_memory.h"

namespace {

struct Bound {
  size_t live, largest;
};

// Plays loads within the bound on one heap; false as soon as a request fails.
class Load {
 public:
  Load(const algorithm &a, Memory &memory, Bound bound) : a_(a), bound_(bound) {
    heap_ = a.init(memory.start(), memory.size());
  }
  bool is_possible() const { return heap_ != nullptr; }

  // False: failed. Requests that would pass the bound are left out.
  bool get(size_t size) {
    if (size > bound_.largest || live_ + counted(size) > bound_.live) return true;
    char *p = static_cast<char *>(a_.malloc(heap_, size));
    if (!p) return false;
    live_ += counted(size);
    held_.push_back({p, size, 0});
    return true;
  }
  void free_at(size_t i) {
    live_ -= counted(held_[i].size);
    a_.free(heap_, held_[i].address);
    held_[i] = held_.back();
    held_.pop_back();
  }
  std::vector<Held> &held() { return held_; }
  size_t room() const { return bound_.live - live_; }
  const char *check() const { return a_.check(heap_); }

 private:
  const algorithm &a_;
  Bound bound_;
  void *heap_;
  size_t live_ = 0;
  std::vector<Held> held_;
};

// Robson's way to force fragmentation: fill with blocks of one size, keep one of two, that lie `apart`, go on with the
// double. `slack` below the power of two keeps headers from passing it.
bool doubling(Load &load, Bound bound, size_t slack) {
  for (size_t size = 32; size - slack <= bound.largest; size *= 2) {
    while (load.room() >= counted(size - slack)) {
      if (!load.get(size - slack)) return false;
    }
    auto &held = load.held();
    std::sort(held.begin(), held.end(), [](const Held &x, const Held &y) { return x.address < y.address; });
    // Keep one block in each slot of twice the size.
    uintptr_t slot = UINTPTR_MAX;
    std::vector<char *> drop;
    for (const Held &h : held) {
      uintptr_t its = reinterpret_cast<uintptr_t>(h.address) / (2 * size);
      if (its == slot) drop.push_back(h.address);
      slot = its;
    }
    for (char *p : drop) {
      for (size_t i = 0; i < held.size(); i++) {
        if (held[i].address == p) {
          load.free_at(i);
          break;
        }
      }
    }
  }
  return true;
}

// Small blocks between large ones: the large ones are freed and asked for again a little larger each time.
bool creeping(Load &load, Bound bound) {
  for (size_t size = bound.largest / 4; size <= bound.largest; size += ALGORITHM_ALIGNMENT) {
    while (load.room() >= counted(size) + ALGORITHM_ALIGNMENT) {
      if (!load.get(size) || !load.get(1)) return false;
    }
    for (size_t i = load.held().size(); i-- > 0;) {
      if (load.held()[i].size > 1) load.free_at(i);
    }
    // Small ones must not fill all: drop some, so that large ones fit in.
    for (size_t i = load.held().size(); i-- > 0 && load.room() < bound.live / 2;) load.free_at(i);
  }
  return true;
}

bool random_load(Load &load, Bound bound, uint64_t seed, int steps) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < steps; i++) {
    size_t size = size_t(random() % 8 ? random() % (bound.largest / 8 + 1) : random() % (bound.largest + 1));
    if (random() % 16 == 0) size = bound.largest;
    while (load.room() < counted(size)) load.free_at(random() % load.held().size());
    if (!load.get(size)) return false;
    if (random() % 3 == 0 && !load.held().empty()) load.free_at(random() % load.held().size());
  }
  return true;
}

// All loads in areas of `part` of area_size.
bool all_loads_fit(const algorithm &a, Bound bound, double part) {
  size_t bytes = size_t(double(a.area_size(bound.live, bound.largest)) * part);
  for (int which = 0; which < 7; which++) {
    Memory memory(bytes, 1 + size_t(which));
    Load load(a, memory, bound);
    if (!load.is_possible()) return false;
    bool fits = which < 3    ? doubling(load, bound,
                                     which == 0   ? 0
                                        : which == 1 ? ALGORITHM_HEADER
                                                     : 16)
                : which == 3 ? creeping(load, bound)
                             : random_load(load, bound, uint64_t(which), 6000);
    EXPECT_STREQ(load.check(), nullptr);
    if (!fits) return false;
  }
  return true;
}

class AreaSize : public ::testing::TestWithParam<const algorithm *> {};

TEST_P(AreaSize, suffices_for_every_load) {
  const algorithm &a = *GetParam();
  for (Bound bound : {Bound{16, 16}, Bound{112, 100}, Bound{1000, 1}, Bound{4096, 64}, Bound{8192, 8192},
                      Bound{65536, 1024}, Bound{65536, 3000}, Bound{50000, 20000}}) {
    EXPECT_TRUE(all_loads_fit(a, bound, 1)) << bound.live << " " << bound.largest;
  }
}

TEST_P(AreaSize, one_block_of_each_size_fits) {
  const algorithm &a = *GetParam();
  for (size_t size = 0; size < 5000; size += size < 300 ? 1 : 61) {
    for (size_t skew : {0, 1, 15}) {
      Memory memory(a.area_size(size, size), skew);
      void *heap = a.init(memory.start(), memory.size());
      ASSERT_NE(heap, nullptr) << size;
      EXPECT_NE(a.malloc(heap, size), nullptr) << size;
    }
  }
}

TEST_P(AreaSize, rises_and_says_when_it_cannot_be_expressed) {
  const algorithm &a = *GetParam();
  size_t last = 0;
  for (size_t live = 1024; live < 1 << 24; live *= 2) {
    size_t now = a.area_size(live, 512);
    EXPECT_GT(now, last);
    EXPECT_GE(a.area_size(live, 1024), now);
    EXPECT_GT(now, live);
    last = now;
  }
  EXPECT_EQ(a.area_size(SIZE_MAX, 100), SIZE_MAX);
  EXPECT_EQ(a.area_size(SIZE_MAX, SIZE_MAX), SIZE_MAX);
}

// An area of the live memory alone is too small for all of them.
TEST_P(AreaSize, an_area_as_large_as_live_memory_fails) {
  const algorithm &a = *GetParam();
  Bound bound{65536, 3000};
  EXPECT_FALSE(all_loads_fit(a, bound, 65536.0 / double(a.area_size(bound.live, bound.largest))));
}

// Robson's load needs M (1 + K / 2), here 4.5 times M, in a buddy system.
TEST(AreaSizeOfBinaryBuddy, is_of_the_order_of_what_the_doubling_load_needs) {
  const algorithm &a = *algorithms_find("binary-buddy");
  Bound bound{65536, 4096 - ALGORITHM_HEADER};
  EXPECT_TRUE(all_loads_fit(a, bound, 1));
  EXPECT_FALSE(all_loads_fit(a, bound, 3 * 65536.0 / double(a.area_size(bound.live, bound.largest))));
}

std::vector<const algorithm *> all() {
  std::vector<const algorithm *> list;
  for (const algorithm *const *a = algorithms_all(); *a; a++) list.push_back(*a);
  return list;
}

INSTANTIATE_TEST_SUITE_P(all, AreaSize, ::testing::ValuesIn(all()), [](const auto &info) {
  std::string name = info.param->name;
  for (char &c : name) {
    if (!isalnum(c)) c = '_';
  }
  return name;
});

}  // namespace
