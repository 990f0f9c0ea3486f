// Hint trees: whatever is raised is found, whoever is stopped where, while spans come and go and the trees grow.
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "owner_steps.h"
#include "rtmalloc.h"
#include "test.h"

static struct hints *hints;
static struct span *spans;  // not of the window: a hint tree only keeps their addresses
// What a remote free leaves before it raises the hint.
static _Atomic uint64_t *freed;

enum { CLASS = 7, OTHER_CLASS = 20, STEPS_OF_A_RAISE = 4, GROUP_SPANS = HINT_FANOUT * HINT_FANOUT };

static void start(uint32_t most) {
  rtm_free(rtm_malloc(1));  // the arena gives the nodes
  hints = aligned_alloc(64, bits_round_up(sizeof *hints, 64));
  memset(hints, 0, sizeof *hints);
  spans = aligned_alloc(SPAN_SIZE, (size_t)most * SPAN_SIZE);
  memset(spans, 0, (size_t)most * SPAN_SIZE);
  freed = calloc(most, sizeof *freed);
  // Every heap has the shared leaves' group; here no span gets a place in it by itself.
  CHECK(hint_add_leaf(hints, 0));
  hints->rich = hints->class[0].group;
  hints->class[0].vacant = NULL;
}

static void attach(uint32_t i) { CHECK(hint_attach(hints, CLASS, &spans[i])); }

static void raise_hint(uint32_t i) {
  atomic_fetch_add_explicit(&freed[i], 1, memory_order_seq_cst);
  hint_raise(spans[i].hint, spans[i].hint_bit);
}

// What the owner does with a hint: how many blocks it led to.
static uint64_t look_at(struct span *span) {
  return span ? atomic_exchange_explicit(&freed[span - spans], 0, memory_order_acq_rel) : 0;
}
static struct span *take_any(void) {
  hint_find_any(hints);
  return hint_take_found(hints);
}
static uint64_t look(void) { return look_at(take_any()); }
// Of one class: the span stays where it is found, and its bit is cleared by itself.
static struct span *take_of(unsigned class) {
  struct hint_leaf *leaf;
  uint64_t bits = hint_peek(hints, class, &leaf);
  if (!bits) return NULL;
  hint_lower(&leaf->word, bits & -bits);
  return leaf->span[bits_lowest(bits)];
}
static bool is_pending(void) { return hints->stash_bits | hint_pending(hints); }

// Takes until nothing is pending; each take either finds a span or clears a word.
static uint64_t drain(void) {
  uint64_t found = 0;
  for (uint64_t steps = 0; is_pending(); steps++) {
    found += look_at(take_any());
    CHECK(steps < 1u << 24);
  }
  return found;
}

static void check_nothing_lost(uint32_t count) {
  for (uint32_t i = 0; i < count; i++) CHECK_EQUAL(atomic_load(&freed[i]), 0);
  uint32_t places[SPAN_MEDIUM + 1] = {0};
  for (uint32_t i = 0; i < hints->groups; i++) {
    struct hint_group *group = hints->group[i];
    CHECK_EQUAL(atomic_load(&group->word.bits), 0);
    for (uint32_t l = 0; l < group->leaves; l++) {
      CHECK_EQUAL(atomic_load(&group->leaf[l]->word.bits), 0);
      places[group->class] += (uint32_t)__builtin_popcountll(group->leaf[l]->vacant);
    }
  }
  for (unsigned class = 0; class <= SPAN_MEDIUM; class ++) CHECK_EQUAL(hints->class[class].places, places[class]);
}

static void raise_each_of(uint32_t count, uint32_t groups) {
  start(count);
  for (uint32_t i = 0; i < count; i++) attach(i);
  CHECK_EQUAL(hints->groups, 1 + groups);
  CHECK(!is_pending());
  for (uint32_t i = 0; i < count; i++) {
    uint32_t scattered = (uint32_t)((uint64_t)i * 7919 % count);
    raise_hint(scattered);
    CHECK(is_pending());
    if (i % 3 == 0) CHECK_EQUAL(drain(), i ? 3 : 1);
  }
  drain();
  check_nothing_lost(count);
}

TEST(one_span) { raise_each_of(1, 1); }
TEST(one_full_leaf) { raise_each_of(HINT_FANOUT, 1); }
TEST(two_leaves) { raise_each_of(HINT_FANOUT + 1, 1); }
TEST(one_full_group) { raise_each_of(GROUP_SPANS, 1); }
TEST(two_groups) { raise_each_of(GROUP_SPANS + 1, 2); }
TEST(groups_under_two_words_of_the_top) { raise_each_of(HINT_FANOUT * GROUP_SPANS + 1, HINT_FANOUT + 1); }

// Groups are shared out among the classes; when the last is full, so is the tree, and nothing is broken.
TEST(the_last_place) {
  start(2);
  CHECK(hint_attach(hints, OTHER_CLASS, &spans[1]));
  for (uint32_t i = 0; i < (HINT_GROUPS_MOST - 2) * GROUP_SPANS; i++) attach(0);
  CHECK(!hint_attach(hints, CLASS, &spans[0]));
  CHECK(hint_attach(hints, OTHER_CLASS, &spans[0]));
  raise_hint(0);
  raise_hint(1);
  CHECK_EQUAL(drain(), 2);
  hint_detach(&spans[0]);
  CHECK(hint_attach(hints, OTHER_CLASS, &spans[0]));
}

// Some words of the top are looked at in every call, the others in turn: whatever is busy, the rest is found.
static void find_both(uint32_t busy, uint32_t other, uint32_t one_of) {
  enum { MOST = 4 * HINT_TOPS + 8 };
  for (unsigned round = 0; round < 100; round++) {
    raise_hint(busy);
    raise_hint(other);
    uint32_t looks = 0, busy_found = 0;
    while (atomic_load(&freed[other])) {
      CHECK(++looks <= MOST);
      look();
      if (atomic_load(&freed[busy])) continue;
      busy_found++;
      raise_hint(busy);
    }
    CHECK((busy_found + 1) * one_of >= looks);
    drain();
  }
}
TEST(far_words_and_near_ones_take_turns) {
  enum { GROUPS = 300 };
  start(GROUPS * GROUP_SPANS);
  for (uint32_t i = 0; i < GROUPS * GROUP_SPANS; i++) attach(i);
  CHECK(hints->groups > HINT_TOPS_USUAL * HINT_FANOUT);
  find_both(0, GROUPS * GROUP_SPANS - 1, 4);
  find_both(GROUPS * GROUP_SPANS - 1, 0, 4 * HINT_TOPS);
  find_both(GROUPS * GROUP_SPANS - 1, 200 * GROUP_SPANS, 4 * HINT_TOPS);
  find_both(200 * GROUP_SPANS, 210 * GROUP_SPANS, 4 * HINT_TOPS);
  find_both(210 * GROUP_SPANS, 200 * GROUP_SPANS, 4 * HINT_TOPS);
  check_nothing_lost(GROUPS * GROUP_SPANS);
}

// A class with more groups than one call looks at is found by the next calls.
TEST(each_of_many_groups_is_found_by_its_class) {
  enum { GROUPS = 20 };
  start(GROUPS * GROUP_SPANS);
  for (uint32_t i = 0; i < GROUPS * GROUP_SPANS; i++) attach(i);
  for (uint32_t i = 0; i < GROUPS * GROUP_SPANS; i += 997) {
    raise_hint(i);
    uint64_t found = 0;
    for (uint32_t calls = 0; calls < GROUPS && !found; calls++) found = look();
    CHECK_EQUAL(found, 1);
    CHECK(!is_pending());
  }
}

TEST(a_class_gets_no_spans_of_another) {
  start(2);
  attach(0);
  CHECK(hint_attach(hints, OTHER_CLASS, &spans[1]));
  raise_hint(0);
  raise_hint(1);
  CHECK(take_of(CLASS) == &spans[0]);
  CHECK(!take_of(CLASS));
  CHECK(take_of(OTHER_CLASS) == &spans[1]);
  CHECK(!is_pending());
}

// Nobody waits behind a class that is always busy.
TEST(classes_take_turns) {
  start(SPAN_MEDIUM + 1);
  for (unsigned class = 1; class <= SPAN_MEDIUM; class++) CHECK(hint_attach(hints, class, &spans[class]));
  for (unsigned class = 1; class <= SPAN_MEDIUM; class++) raise_hint(class);
  uint64_t found = 0;
  for (unsigned turn = 0; turn < SPAN_MEDIUM; turn++) {
    struct span *span = take_any();
    found += span ? look_at(span) : look_at(hint_take_medium(hints));
    raise_hint(1);
  }
  CHECK(found >= SPAN_MEDIUM);
  for (unsigned class = 2; class <= SPAN_MEDIUM; class++) CHECK_EQUAL(atomic_load(&freed[class]), 0);
}

// In the leaves that all classes share nobody waits behind spans that are always busy, there or in other classes.
TEST(spans_in_shared_leaves_take_turns) {
  enum { SHARED = 3 * HINT_FANOUT, BUSY = 10 };
  start(SHARED + SPAN_MEDIUM);
  for (uint32_t i = 0; i < SHARED; i++) CHECK(hint_attach(hints, 0, &spans[i]));
  for (unsigned class = 1; class < SPAN_MEDIUM; class++) CHECK(hint_add_leaf(hints, class));
  for (unsigned class = 1; class < SPAN_MEDIUM; class++) CHECK(hint_attach(hints, class, &spans[SHARED + class]));
  for (uint32_t i = 0; i < SHARED; i++) raise_hint(i);
  for (unsigned turn = 0; turn < 3 * SHARED; turn++) {
    look();
    for (uint32_t i = 0; i < BUSY; i++) raise_hint(i);
    for (unsigned class = 1; class < SPAN_MEDIUM; class++) raise_hint(SHARED + class);
  }
  for (uint32_t i = BUSY; i < SHARED; i++) CHECK_EQUAL(atomic_load(&freed[i]), 0);
}

// A class whose page came back whole has a fourth of the searches, and the others theirs.
TEST(what_comes_back_whole_does_not_wait_for_a_round) {
  enum { RICH = 40, OLD = 7, FIRST = SPAN_MEDIUM };
  start(FIRST + RICH);
  for (unsigned class = 1; class < SPAN_MEDIUM; class++) CHECK(hint_attach(hints, class, &spans[class]));
  for (uint32_t i = 0; i < RICH; i++) CHECK(hint_attach(hints, OLD, &spans[FIRST + i]));
  for (unsigned class = 1; class < SPAN_MEDIUM; class++) raise_hint(class);
  for (uint32_t i = 0; i < RICH; i++) raise_hint(FIRST + i);
  hint_found_empty(hints, &spans[FIRST]);
  for (unsigned turn = 0; turn < 4 * RICH; turn++) {
    look();
    for (unsigned class = 1; class < 10; class++)
      if (class != OLD) raise_hint(class);
  }
  for (uint32_t i = 0; i < RICH; i++) CHECK_EQUAL(atomic_load(&freed[FIRST + i]), 0);
  for (unsigned class = 10; class < SPAN_MEDIUM; class++) CHECK_EQUAL(atomic_load(&freed[class]), 0);
}

// Medium blocks' bits are taken a word at a time; what a thread leaves behind is found again.
TEST(the_stash_holds_a_word) {
  start(40);
  for (uint32_t i = 0; i < 40; i++) CHECK(hint_attach(hints, SPAN_MEDIUM, &spans[i]));
  for (uint32_t i = 0; i < 40; i++) raise_hint(i);
  for (uint32_t i = 0; i < 10; i++) {
    CHECK_EQUAL(look_at(hint_take_medium(hints)), 1);
    CHECK_EQUAL(bits_count(hints->stash_bits), 39 - i);
  }
  CHECK(is_pending());
  hint_empty_stash(hints);
  CHECK_EQUAL(hints->stash_bits, 0);
  CHECK(is_pending());
  for (uint32_t i = 0; i < 30; i++) CHECK_EQUAL(look_at(hint_take_medium(hints)), 1);
  CHECK(!hint_take_medium(hints));
  while (is_pending()) CHECK(!take_any());  // the bits above, which are cleared late
}

TEST(each_place_is_given_once_and_given_again) {
  enum { COUNT = 300 };
  start(COUNT);
  struct random random = test_random(0);
  bool attached[COUNT] = {false};
  uint32_t now = 0, peak = 0;
  uint64_t operations = test_operations(20000);
  for (uint64_t step = 0; step < operations; step++) {
    uint32_t i = (uint32_t)random_below(&random, COUNT);
    if (attached[i])
      hint_detach(&spans[i]), now--;
    else
      attach(i), now++;
    attached[i] = !attached[i];
    if (now > peak) peak = now;
    if (step % 256) continue;
    for (uint32_t a = 0; a < COUNT; a++) {
      if (!attached[a]) continue;
      struct hint_leaf *leaf = (struct hint_leaf *)spans[a].hint;
      CHECK(leaf->span[bits_lowest(spans[a].hint_bit)] == &spans[a]);
      CHECK(!(leaf->vacant & spans[a].hint_bit));
    }
  }
  // No leaf is added while another has room.
  CHECK_EQUAL(hints->groups, 2);
  CHECK_EQUAL(hints->group[1]->leaves, (peak + HINT_FANOUT - 1) / HINT_FANOUT);
}

TEST(a_late_bit_of_a_detached_span_is_harmless) {
  start(2);
  attach(0);
  struct span late = spans[0];
  hint_detach(&spans[0]);
  hint_raise(late.hint, late.hint_bit);
  CHECK_EQUAL(drain(), 0);
  attach(1);  // takes the same place
  CHECK(spans[1].hint == late.hint && spans[1].hint_bit == late.hint_bit);
  hint_raise(late.hint, late.hint_bit);
  CHECK_EQUAL(drain(), 0);
  raise_hint(1);
  CHECK_EQUAL(drain(), 1);
}

TEST(a_lowered_hint_is_gone_at_every_level) {
  start(5000);
  for (uint32_t i = 0; i < 5000; i++) attach(i);
  raise_hint(4999);
  CHECK(is_pending());
  hint_lower(spans[4999].hint, spans[4999].hint_bit);
  CHECK(!is_pending());
  // But not those beside it.
  raise_hint(4998);
  raise_hint(4999);
  hint_lower(spans[4999].hint, spans[4999].hint_bit);
  CHECK(is_pending());
  atomic_store(&freed[4999], 0);
  CHECK_EQUAL(drain(), 1);
  check_nothing_lost(5000);
}

// ---- a thread that is stopped half-way: the raise, cut into its steps ----

// Step 0 frees the block, each later one raises a level.
struct raiser {
  uint32_t span;
  unsigned step;
};

static bool raiser_step(struct raiser *raiser) {
  const struct span *span = &spans[raiser->span];
  struct hint_word *group = span->hint->parent;
  switch (raiser->step++) {
    case 0: atomic_fetch_add(&freed[raiser->span], 1); return true;
    case 1: hint_raise_level(span->hint, span->hint_bit); return true;
    case 2: hint_raise_level(group, span->hint->parent_bit); return true;
    case 3: hint_raise_level(group->parent, group->parent_bit); return true;
    default: return false;
  }
}

static void raiser_finish(struct raiser *raiser) {
  while (raiser_step(raiser)) {
  }
}

TEST(a_stopped_thread_hides_no_block_but_its_own) {
  enum { COUNT = GROUP_SPANS + 64 };
  start(COUNT);
  for (uint32_t i = 0; i < COUNT; i++) attach(i);
  // The same span, the same leaf, the same group, another one.
  static const uint32_t others[] = {100, 101, 200, COUNT - 1};
  for (unsigned stopped = 0; stopped <= STEPS_OF_A_RAISE; stopped++)
    for (unsigned settled = 0; settled < 2; settled++)
      for (unsigned o = 0; o < sizeof others / sizeof others[0]; o++) {
        struct raiser late = {.span = 100}, other = {.span = others[o]};
        for (unsigned i = 0; i < stopped; i++) raiser_step(&late);
        if (settled) drain();
        raiser_finish(&other);
        CHECK(drain() >= 1);
        CHECK_EQUAL(atomic_load(&freed[others[o]]), 0);
        if (stopped == STEPS_OF_A_RAISE) CHECK_EQUAL(atomic_load(&freed[100]), 0);
        raiser_finish(&late);
        drain();
        check_nothing_lost(COUNT);
      }
}

// Two threads and the owner, in every order of their steps. Who moves next is read from `order`, two bits a step.
static void run_in_order(uint64_t order, unsigned steps, uint32_t span_a, uint32_t span_b) {
  struct raiser a = {.span = span_a}, b = {.span = span_b};
  for (unsigned i = 0; i < steps; i++, order /= 3) {
    if (order % 3 == 0)
      look();
    else
      raiser_step(order % 3 == 1 ? &a : &b);
  }
  raiser_finish(&a);
  raiser_finish(&b);
  drain();
  CHECK_EQUAL(atomic_load(&freed[span_a]), 0);
  CHECK_EQUAL(atomic_load(&freed[span_b]), 0);
}

TEST(nothing_is_lost_in_any_order_of_steps) {
  enum { STEPS = 10 };
  start(200);
  for (uint32_t i = 0; i < 200; i++) attach(i);
  drain();
  uint64_t orders = 1;
  for (unsigned i = 0; i < STEPS; i++) orders *= 3;
  uint64_t stride = test_operations(orders) < orders ? orders / (1 + test_operations(orders)) : 1;
  for (uint64_t order = 0; order < orders; order += stride) {
    run_in_order(order, STEPS, 3, 3);
    run_in_order(order, STEPS, 3, 4);
    run_in_order(order, STEPS, 3, 150);
  }
}

// The other way round: the owner is stopped before each of its atomic operations, and the raiser goes on.
static struct raiser intruder;
static bool watching;
static unsigned owner_steps, intrude_at, intruder_steps;

static void before_owner_step(void) {
  if (!watching || owner_steps++ != intrude_at) return;
  watching = false;  // the raiser's own steps pass here too
  for (unsigned i = 0; i < intruder_steps; i++) raiser_step(&intruder);
  watching = true;
}

static void look_while_another_raises(bool any) {
  owner_steps = 0;
  watching = true;
  look_at(any ? take_any() : take_of(CLASS));
  watching = false;
}

TEST(a_raise_between_any_two_steps_of_a_take_is_not_lost) {
  enum { COUNT = GROUP_SPANS + 1, OWNER_STEPS_MOST = 30 };
  start(COUNT);
  for (uint32_t i = 0; i < COUNT; i++) attach(i);
  static const uint32_t others[] = {3, 4, 70, COUNT - 1};
  for (unsigned any = 0; any < 2; any++)
    for (unsigned o = 0; o < sizeof others / sizeof others[0]; o++)
      for (unsigned before = 0; before <= STEPS_OF_A_RAISE; before++)
        for (intruder_steps = 1; intruder_steps <= STEPS_OF_A_RAISE; intruder_steps++) {
          for (intrude_at = 0; intrude_at < OWNER_STEPS_MOST; intrude_at++) {
            intruder = (struct raiser){.span = others[o]};
            for (unsigned i = 0; i < before; i++) raiser_step(&intruder);
            raise_hint(3);
            look_while_another_raises(any);
            CHECK(owner_steps < OWNER_STEPS_MOST);
            raiser_finish(&intruder);
            drain();
            check_nothing_lost(COUNT);
          }
        }
}

// ---- threads ----

enum { RAISERS = 3, SPANS_MOST = 9000 };
static _Atomic uint32_t published;
static _Atomic uint64_t raised, running;
static uint64_t raises_each;

static void *raiser_thread(void *stream) {
  struct random random = test_random((uintptr_t)stream);
  for (uint64_t i = 0; i < raises_each; i++) {
    uint32_t count = atomic_load_explicit(&published, memory_order_acquire);
    raise_hint((uint32_t)random_below(&random, count));
    if (i % 64 == 0) sched_yield();
  }
  atomic_fetch_add(&raised, raises_each);
  atomic_fetch_sub(&running, 1);
  return NULL;
}

TEST(threads_raise_while_the_owner_takes_and_the_tree_grows) {
  start(SPANS_MOST);
  raises_each = test_operations(50000);
  attach(0);
  atomic_store(&published, 1);
  atomic_store(&running, RAISERS);
  pthread_t threads[RAISERS];
  for (uintptr_t i = 0; i < RAISERS; i++) pthread_create(&threads[i], NULL, raiser_thread, (void *)(i + 1));
  uint64_t found = 0;
  uint32_t count = 1;
  while (atomic_load(&running)) {
    found += look() + look_at(take_any());
    if (count < SPANS_MOST) {
      attach(count);
      atomic_store_explicit(&published, ++count, memory_order_release);
    }
    // The way of a page that looks at itself, without having been led there.
    uint32_t own = count / 2;
    hint_lower(spans[own].hint, spans[own].hint_bit);
    found += look_at(&spans[own]);
  }
  for (unsigned i = 0; i < RAISERS; i++) pthread_join(threads[i], NULL);
  found += drain();
  CHECK_EQUAL(found, atomic_load(&raised));
  check_nothing_lost(count);
}
