// rtm::RtSharedPtr and rtm::RtWeakPtr by one thread: what std::shared_ptr does, in both modes. Each test that says
// "as the standard's" runs the same on std::shared_ptr.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <unordered_set>
#include <vector>

#include "rtmalloc/allocator.hpp"
#include "rtmalloc/atomic_shared_ptr.hpp"
#include "rtmalloc/memory_pool.hpp"
#include "rtmalloc/unique_ptr.hpp"

namespace {

using rtm::RtMemoryPool;
using rtm::RtSharedPtr;
using rtm::RtWeakPtr;

// With template arguments given, C++17 finds ours by argument only where some template of the name is visible.
using std::const_pointer_cast;
using std::dynamic_pointer_cast;
using std::static_pointer_cast;

struct Base {
  static inline int alive = 0;
  int value;
  explicit Base(int given = 0) : value(given) { ++alive; }
  Base(const Base &) = delete;
  virtual ~Base() { --alive; }
};
struct Derived : Base {
  using Base::Base;
};
struct Other : Base {};

// ---- the same body on the standard's pointers and on ours, in both modes ----

struct StandardHeap {
  template <typename T>
  using Shared = std::shared_ptr<T>;
  template <typename T>
  using Weak = std::weak_ptr<T>;
  Shared<Derived> make(int value) { return std::make_shared<Derived>(value); }
};
struct OursHeap {
  template <typename T>
  using Shared = RtSharedPtr<T>;
  template <typename T>
  using Weak = RtWeakPtr<T>;
  Shared<Derived> make(int value) { return rtm::make_shared<Derived>(value); }
};
struct OursByPointer : OursHeap {
  Shared<Derived> make(int value) { return Shared<Derived>(new Derived(value)); }
};
struct OursPool : OursHeap {
  RtMemoryPool<Derived> pool{20, "derived"};
  Shared<Derived> make(int value) { return pool.sharedPtrAlloc(value); }
};
struct OursPoolByConstructor : OursPool {
  Shared<Derived> make(int value) {
    Derived *object = pool.acquire(value);
    return Shared<Derived>(object, pool.count_of(object), &pool);
  }
};

template <typename Kind>
class AsTheStandards : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(Base::alive, 0); }
  Kind kind;
};
using Kinds = testing::Types<StandardHeap, OursHeap, OursByPointer, OursPool, OursPoolByConstructor>;
TYPED_TEST_SUITE(AsTheStandards, Kinds, );

TYPED_TEST(AsTheStandards, counting_through_copies_moves_and_assignments) {
  auto a = this->kind.make(1);
  EXPECT_EQ(a.use_count(), 1);
  auto b = a;
  EXPECT_EQ(a.use_count(), 2);
  auto c = std::move(b);
  EXPECT_EQ(a.use_count(), 2);
  EXPECT_FALSE(b);
  EXPECT_EQ(b.use_count(), 0);
  b = c;
  EXPECT_EQ(a.use_count(), 3);
  auto &self = b;
  b = self;
  EXPECT_EQ(a.use_count(), 3);
  b = this->kind.make(2);
  EXPECT_EQ(a.use_count(), 2);
  EXPECT_EQ(b->value, 2);
  b = std::move(c);
  EXPECT_EQ(Base::alive, 1);
  b.reset();
  a.reset();
  EXPECT_EQ(Base::alive, 0);
}

TYPED_TEST(AsTheStandards, conversion_to_base_and_back) {
  using BasePointer = typename TypeParam::template Shared<Base>;
  auto derived = this->kind.make(3);
  BasePointer base = derived;
  EXPECT_EQ(base.use_count(), 2);
  EXPECT_EQ(base->value, 3);
  EXPECT_TRUE(base == derived);
  EXPECT_EQ(dynamic_pointer_cast<Derived>(base), derived);
  EXPECT_EQ(static_pointer_cast<Derived>(base), derived);
  EXPECT_EQ(dynamic_pointer_cast<Other>(base), nullptr);
  EXPECT_EQ(base.use_count(), 2);
  const typename TypeParam::template Shared<const Base> constant = base;
  EXPECT_EQ(const_pointer_cast<Base>(constant), base);
  typename TypeParam::template Shared<const void> untyped = derived;
  EXPECT_EQ(static_pointer_cast<const Base>(untyped), base);
  base = std::move(derived);
  EXPECT_FALSE(derived);
}

TYPED_TEST(AsTheStandards, aliasing_keeps_the_owner_alive) {
  typename TypeParam::template Shared<int> alias;
  {
    auto owner = this->kind.make(5);
    alias = typename TypeParam::template Shared<int>(owner, &owner->value);
    EXPECT_FALSE(alias.owner_before(owner));
    EXPECT_FALSE(owner.owner_before(alias));
  }
  EXPECT_EQ(Base::alive, 1);
  EXPECT_EQ(*alias, 5);
  EXPECT_EQ(alias.use_count(), 1);
  alias.reset();
  EXPECT_EQ(Base::alive, 0);
  // Without an owner: an address, nothing else.
  int local = 0;
  typename TypeParam::template Shared<int> bare(typename TypeParam::template Shared<int>(), &local);
  EXPECT_TRUE(bare);
  EXPECT_EQ(bare.use_count(), 0);
}

TYPED_TEST(AsTheStandards, weak_pointers_see_the_object_while_it_lives) {
  using Shared = typename TypeParam::template Shared<Derived>;
  using Weak = typename TypeParam::template Weak<Derived>;
  Weak weak;
  EXPECT_TRUE(weak.expired());
  EXPECT_FALSE(weak.lock());
  {
    auto owner = this->kind.make(6);
    weak = owner;
    EXPECT_EQ(weak.use_count(), 1);
    EXPECT_EQ(weak.lock()->value, 6);
    Weak copy = weak;
    Weak moved = std::move(copy);
    EXPECT_TRUE(copy.expired());
    typename TypeParam::template Weak<Base> to_base = moved;
    EXPECT_EQ(to_base.lock(), owner);
    EXPECT_EQ(Shared(weak), owner);
  }
  EXPECT_EQ(Base::alive, 0);
  EXPECT_TRUE(weak.expired());
  EXPECT_FALSE(weak.lock());
  EXPECT_THROW(Shared{weak}, std::bad_weak_ptr);
  typename TypeParam::template Weak<Base> to_base = weak;
  EXPECT_TRUE(to_base.expired());
}

TYPED_TEST(AsTheStandards, comparison_hashing_and_order) {
  using Shared = typename TypeParam::template Shared<Derived>;
  auto a = this->kind.make(1), b = this->kind.make(2);
  Shared none, copy = a;
  EXPECT_TRUE(a == copy && a != b && none == nullptr && nullptr != a && a > nullptr && nullptr <= none);
  EXPECT_EQ(a < b, a.get() < b.get());
  EXPECT_EQ(a >= b, a.get() >= b.get());
  EXPECT_EQ(std::hash<Shared>()(a), std::hash<Derived *>()(a.get()));
  std::unordered_set<Shared> hashed = {a, b, copy};
  EXPECT_EQ(hashed.size(), 2u);
  std::set<Shared> ordered = {a, b, copy, none};
  EXPECT_EQ(ordered.size(), 3u);
  using Weak = typename TypeParam::template Weak<Derived>;
  std::set<Weak, std::owner_less<Weak>> owners = {Weak(a), Weak(b), Weak(copy)};
  EXPECT_EQ(owners.size(), 2u);
  std::set<Shared, std::owner_less<>> any_owner = {a, b, copy};
  EXPECT_EQ(any_owner.size(), 2u);
  std::ostringstream ours, plain;
  ours << a;
  plain << a.get();
  EXPECT_EQ(ours.str(), plain.str());
}

TYPED_TEST(AsTheStandards, swap_reset_and_truth) {
  auto a = this->kind.make(1), b = this->kind.make(2);
  swap(a, b);
  EXPECT_EQ(a->value, 2);
  a.swap(b);
  EXPECT_EQ((*a).value, 1);
  b.reset(new Derived(3));
  EXPECT_EQ(b->value, 3);
  EXPECT_EQ(Base::alive, 2);
  EXPECT_TRUE(static_cast<bool>(b));
  a = nullptr;
  EXPECT_FALSE(static_cast<bool>(a));
}

TYPED_TEST(AsTheStandards, atomic_functions) {
  using Shared = typename TypeParam::template Shared<Derived>;
  Shared place = this->kind.make(1), expected = this->kind.make(2);
  const Shared first = place;
  EXPECT_EQ(atomic_load(&place), first);
  EXPECT_FALSE(atomic_compare_exchange_strong(&place, &expected, this->kind.make(3)));
  EXPECT_EQ(expected, first);
  EXPECT_TRUE(atomic_compare_exchange_strong(&place, &expected, this->kind.make(4)));
  EXPECT_EQ(place->value, 4);
  EXPECT_EQ(atomic_exchange(&place, this->kind.make(5))->value, 4);
  atomic_store(&place, Shared());
  EXPECT_FALSE(place);
  EXPECT_EQ(first.use_count(), 2);
}

// ---- of the two modes ----

TEST(SharedPtr, the_last_owner_returns_the_object_to_its_pool) {
  RtMemoryPool<Derived> pool(1, "one");
  for (int i = 0; i < 3; ++i) {
    RtSharedPtr<Base> pointer = pool.sharedPtrAlloc(i);
    ASSERT_TRUE(pointer);
    EXPECT_TRUE(pointer.pooled());
    EXPECT_EQ(pool.statistics().in_use, 1u);
    EXPECT_FALSE(pool.sharedPtrAlloc(0));
  }
  EXPECT_EQ(pool.statistics().in_use, 0u);
  EXPECT_EQ(Base::alive, 0);
  EXPECT_FALSE(rtm::make_shared<Derived>(1).pooled());
}

TEST(SharedPtr, a_weak_pointer_keeps_the_block_but_not_the_object) {
  RtMemoryPool<Derived> pool(1);
  RtWeakPtr<Derived> weak = pool.sharedPtrAlloc(1);
  EXPECT_EQ(Base::alive, 0);
  EXPECT_FALSE(pool.sharedPtrAlloc(2));
  weak.reset();
  EXPECT_TRUE(pool.sharedPtrAlloc(3));
}

TEST(SharedPtr, custom_deleters_and_allocators_are_used_and_found) {
  struct Deleter {
    int *calls;
    void operator()(Derived *p) const {
      ++*calls;
      delete p;
    }
    void operator()(std::nullptr_t) const { *calls += 100; }
  };
  int calls = 0;
  {
    RtSharedPtr<Base> a(new Derived(1), Deleter{&calls});
    RtSharedPtr<Base> b = a;
    EXPECT_NE(rtm::get_deleter<Deleter>(b), nullptr);
    EXPECT_EQ(rtm::get_deleter<Deleter>(b)->calls, &calls);
    EXPECT_EQ(rtm::get_deleter<std::default_delete<Derived>>(b), nullptr);
    RtSharedPtr<Base> c(new Derived(2), Deleter{&calls}, rtm::allocator<int>());
    RtSharedPtr<Derived> d(nullptr, Deleter{&calls});
    EXPECT_FALSE(d);
    EXPECT_EQ(d.use_count(), 1);
    c.reset(new Derived(3), Deleter{&calls});
    EXPECT_EQ(calls, 1);
  }
  EXPECT_EQ(calls, 103);
  EXPECT_EQ(Base::alive, 0);
}

template <typename T>
struct NoMemory {
  using value_type = T;
  NoMemory() = default;
  template <typename U>
  NoMemory(const NoMemory<U> &) {}
  T *allocate(std::size_t) { throw std::bad_alloc(); }
  void deallocate(T *, std::size_t) {}
};

TEST(SharedPtr, without_memory_for_the_count_the_object_is_deleted_and_the_exception_passed_on) {
  EXPECT_THROW(RtSharedPtr<Base>(
                   new Derived(1), [](Derived *p) { delete p; }, NoMemory<int>()),
               std::bad_alloc);
  EXPECT_EQ(Base::alive, 0);
}

TEST(SharedPtr, from_unique_pointers) {
  RtSharedPtr<Base> from_standard = std::make_unique<Derived>(1);
  EXPECT_EQ(from_standard->value, 1);
  std::unique_ptr<Derived> none;
  EXPECT_EQ(RtSharedPtr<Base>(std::move(none)).use_count(), 0);
  RtMemoryPool<Derived> pool(1);
  RtSharedPtr<Base> from_pool = rtm::make_unique(pool, 2);
  EXPECT_TRUE(from_pool.pooled());
  EXPECT_EQ(from_pool.use_count(), 1);
  from_pool = std::make_unique<Derived>(3);
  EXPECT_EQ(pool.statistics().in_use, 0u);
  auto deleter = [](Derived *p) { delete p; };
  std::unique_ptr<Derived, decltype(deleter) &> by_reference(new Derived(4), deleter);
  from_pool = std::move(by_reference);
  EXPECT_EQ(from_pool->value, 4);
  from_pool.reset();
  from_standard.reset();
  EXPECT_EQ(Base::alive, 0);
}

TEST(SharedPtr, arrays) {
  RtSharedPtr<Base[]> unbounded(new Base[3]);
  RtSharedPtr<Base[3]> bounded(new Base[3]);
  EXPECT_EQ(Base::alive, 6);
  unbounded[2].value = 8;
  EXPECT_EQ(unbounded.get()[2].value, 8);
  RtSharedPtr<Base[]> from_bounded = bounded;
  RtSharedPtr<const Base[]> constant = unbounded;
  EXPECT_EQ(constant[2].value, 8);
  auto made = rtm::make_shared<int[]>(5);
  EXPECT_EQ(made[4], 0);
  unbounded.reset();
  bounded.reset();
  from_bounded.reset();
  constant.reset();
  EXPECT_EQ(Base::alive, 0);
}

TEST(SharedPtr, deduction) {
  RtMemoryPool<int> pool(1);
  int *object = pool.acquire(1);
  RtSharedPtr real_time(object, pool.count_of(object), &pool);
  static_assert(std::is_same_v<decltype(real_time), RtSharedPtr<int>>);
  RtWeakPtr weak(real_time);
  RtSharedPtr strong(weak);
  EXPECT_EQ(*strong, 1);
}

struct Self : rtm::enable_shared_from_this<Self> {
  int value = 1;
};
struct DerivedSelf : Self {};

TEST(SharedPtr, objects_find_their_owner_in_both_modes) {
  Self nobody;
  EXPECT_THROW(nobody.shared_from_this(), std::bad_weak_ptr);
  EXPECT_TRUE(nobody.weak_from_this().expired());
  RtMemoryPool<DerivedSelf> pool(2);
  DerivedSelf *raw = pool.acquire();
  EXPECT_TRUE(raw->weak_from_this().expired());
  const std::vector<RtSharedPtr<Self>> owners = {RtSharedPtr<Self>(new Self), rtm::make_shared<Self>(),
                                                 rtm::make_shared<DerivedSelf>(), pool.sharedPtrAlloc(),
                                                 RtSharedPtr<Self>(raw, pool.count_of(raw), &pool)};
  for (const auto &owner : owners) {
    RtSharedPtr<Self> again = owner->shared_from_this();
    EXPECT_EQ(again, owner);
    EXPECT_EQ(owner.use_count(), 2);
    const Self &constant = *owner;
    EXPECT_EQ(constant.shared_from_this(), owner);
    EXPECT_EQ(constant.weak_from_this().lock(), owner);
  }
}

TEST(SharedPtr, a_pooled_object_that_knows_its_owner_returns_its_block) {
  RtMemoryPool<DerivedSelf> pool(1);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(pool.sharedPtrAlloc());
  EXPECT_EQ(pool.statistics().in_use, 0u);
}

TEST(SharedPtr, standard_atomic_of_a_pointer) {
  RtMemoryPool<int> pool(4);
  std::atomic<RtSharedPtr<int>> place(pool.sharedPtrAlloc(1));
  EXPECT_FALSE(place.is_lock_free());
  RtSharedPtr<int> seen = place.load();
  EXPECT_EQ(*seen, 1);
  RtSharedPtr<int> wrong = pool.sharedPtrAlloc(2);
  EXPECT_FALSE(place.compare_exchange_strong(wrong, nullptr));
  EXPECT_EQ(wrong, seen);
  EXPECT_TRUE(place.compare_exchange_weak(wrong, pool.sharedPtrAlloc(3)));
  EXPECT_EQ(*place.exchange(nullptr), 3);
  place = seen;
  RtSharedPtr<int> converted = place;
  EXPECT_EQ(converted, seen);
}

TEST(SharedPtr, an_object_may_own_others_of_its_pool) {
  struct Node {
    RtSharedPtr<Node> next;
  };
  RtMemoryPool<Node> pool(50);
  RtSharedPtr<Node> head;
  for (int i = 0; i < 50; ++i) {
    auto node = pool.sharedPtrAlloc();
    node->next = std::move(head);
    head = std::move(node);
  }
  EXPECT_EQ(pool.statistics().in_use, 50u);
  head.reset();
  EXPECT_EQ(pool.statistics().in_use, 0u);
}

TEST(SharedPtr, is_two_words) { EXPECT_EQ(sizeof(RtSharedPtr<int>), 2 * sizeof(void *)); }

}  // namespace
