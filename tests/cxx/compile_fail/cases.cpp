// Mistakes that the compiler must refuse, with a message that says what is wrong: one a CASE, 0 is the one without any.
// CMakeLists.txt has the message that each must give.
#include <list>
#include <string>

#include "rtmalloc/allocate_shared.hpp"
#include "rtmalloc/allocator.hpp"
#include "rtmalloc/memory_pool.hpp"
#include "rtmalloc/node_pool.hpp"
#include "rtmalloc/unique_ptr.hpp"

struct Abstract {
  virtual void work() = 0;
  virtual ~Abstract() = default;
};
struct ThrowingEnd {
  ~ThrowingEnd() noexcept(false) {}
};
class HiddenEnd {
  ~HiddenEnd() = default;
};
struct NeedsInt {
  explicit NeedsInt(int) {}
};
struct Base {
  virtual ~Base() = default;
};
struct Derived : Base {};
struct Incomplete;
Incomplete *incomplete();

int main() {
#if CASE == 0
  rtm::RtMemoryPool<int> pool(1, "fine");
  rtm::RtSharedPtr<int> pointer = pool.sharedPtrAlloc();
#elif CASE == 1
  rtm::RtMemoryPool<int &> pool(1);
#elif CASE == 2
  rtm::RtMemoryPool<void> pool(1);
#elif CASE == 3
  rtm::RtMemoryPool<int[4]> pool(1);
#elif CASE == 4
  rtm::RtMemoryPool<const int> pool(1);
#elif CASE == 5
  rtm::RtMemoryPool<Abstract> pool(1);
#elif CASE == 6
  rtm::RtMemoryPool<ThrowingEnd> pool(1);
#elif CASE == 7
  rtm::RtMemoryPool<HiddenEnd> pool(1);
#elif CASE == 8
  rtm::RtMemoryPool<NeedsInt> pool(1);
  pool.acquire();
#elif CASE == 9   // returned to a pool of another type
  rtm::RtMemoryPool<Base> bases(1);
  rtm::RtMemoryPool<Derived> deriveds(1);
  bases.release(deriveds.acquire());
#elif CASE == 10  // a copy would return objects to the wrong pool
  rtm::RtMemoryPool<int> pool(1);
  rtm::RtMemoryPool<int> copy = pool;
#elif CASE == 11  // the paper's constructor with a pool of another type
  rtm::RtMemoryPool<int> ints(1);
  rtm::RtMemoryPool<long> longs(1);
  int *object = ints.acquire();
  rtm::RtSharedPtr<int> pointer(object, ints.count_of(object), &longs);
#elif CASE == 12  // an empty deleter cannot find a derived object's start
  rtm::RtMemoryPool<Derived> pool(1);
  rtm::unique_ptr<Base> pointer = rtm::make_unique(pool);
#elif CASE == 13
  rtm::RtSharedPtr<Derived> pointer = rtm::RtSharedPtr<Base>();
#elif CASE == 14
  rtm::RtSharedPtr<int> pointer = new int;  // explicit only
#elif CASE == 15
  rtm::RtSharedPtr<int[]> array(new int[3]);
  return *array;
#elif CASE == 16
  rtm::NodePool<std::list<int> > nodes(10);
#elif CASE == 17
  rtm::allocator<const int> allocator;
#elif CASE == 18
  rtm::RtSharedPtr<Incomplete> pointer(incomplete());
#elif CASE == 19
  rtm::RtMemoryPool<int> pool(1, 2.5);  // neither a mode nor a name
#endif
}
