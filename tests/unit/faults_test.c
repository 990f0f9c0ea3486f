// Fault injection: each system call of src/os/os.h fails in turn, once or from then on for ever, over a whole run. What
// is asked for then is refused with ENOMEM or served; nothing is corrupted; once the system gives again, all is served,
// and all comes back. The calls are replaced by the linker (--wrap), so the library under test is the one that is built.
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "mode.h"
#include "options.h"
#include "os/os.h"
#include "rtmalloc.h"
#include "shadow.h"

#define MIB ((size_t)1 << 20)

static struct {
  _Atomic uint64_t calls;  // so far, of all threads
  uint64_t fail_at;        // the one that fails (1: the first; 0: none)
  bool for_ever;           // and all after it
  bool taken;              // os_map_at says that someone else has the addresses
  _Atomic size_t mapped;   // bytes that are mapped, as the allocator should know
} faults;

// The first calls come before main: only the environment can make one of them fail.
static const char fail_at_start[] = "RTM_TEST_FAIL_AT";

static bool fails(void) {
  uint64_t call = ++faults.calls;
  if (call == 1 && getenv(fail_at_start)) faults.fail_at = strtoull(getenv(fail_at_start), NULL, 10);
  return faults.fail_at && (call == faults.fail_at || (faults.for_ever && call > faults.fail_at));
}

bool __real_os_map_at(uintptr_t address, size_t bytes, bool *taken);
void *__real_os_map(size_t bytes);
void __real_os_unmap(uintptr_t address, size_t bytes);
#ifdef RTM_DEBUG
long __real_os_purge(uintptr_t address, size_t bytes);
#endif
bool __real_os_move(uintptr_t address, size_t bytes, uintptr_t target, size_t target_bytes);
bool __wrap_os_map_at(uintptr_t address, size_t bytes, bool *taken);
void *__wrap_os_map(size_t bytes);
void __wrap_os_unmap(uintptr_t address, size_t bytes);
bool __wrap_os_move(uintptr_t address, size_t bytes, uintptr_t target, size_t target_bytes);

bool __wrap_os_map_at(uintptr_t address, size_t bytes, bool *taken) {
  if (fails()) {
    *taken = faults.taken;
    return false;
  }
  if (!__real_os_map_at(address, bytes, taken)) return false;
  faults.mapped += bytes;
  return true;
}
void *__wrap_os_map(size_t bytes) {
  void *result = fails() ? NULL : __real_os_map(bytes);
  if (result) faults.mapped += bytes;
  return result;
}
#ifdef RTM_SECURE
void *__real_secure_map_guarded(size_t bytes);
void *__wrap_secure_map_guarded(size_t bytes);
void *__wrap_secure_map_guarded(size_t bytes) {
  void *result = fails() ? NULL : __real_secure_map_guarded(bytes);
  if (result) faults.mapped += bytes;
  return result;
}
#endif
void __wrap_os_unmap(uintptr_t address, size_t bytes) {
  faults.mapped -= bytes;
  __real_os_unmap(address, bytes);
}
#ifdef RTM_DEBUG  // else it is inlined
long __wrap_os_purge(uintptr_t address, size_t bytes);
long __wrap_os_purge(uintptr_t address, size_t bytes) { return fails() ? -EINVAL : __real_os_purge(address, bytes); }
#endif
bool __wrap_os_move(uintptr_t address, size_t bytes, uintptr_t target, size_t target_bytes) {
  if (fails() || !__real_os_move(address, bytes, target, target_bytes)) return false;
  faults.mapped -= bytes;  // the target was mapped before
  return true;
}

// ---- the run ----

// Two threads beside main, each with a shadow of its own; blocks go from one to another by the places.
enum { BESIDE = 2, PLACES = 8 };
static struct shadow shadow = {.bytes_most = 60 * MIB}, others[BESIDE];
static struct shadow_block *_Atomic places[PLACES];
static pthread_barrier_t all_have_heaps;  // so that a recorded run has as many as any other

static void apply_random(struct shadow *mine, struct random *random, size_t most) {
  shadow_apply(mine, shadow_random_operation(random, most));
  if (random_below(random, 4) == 0)
    shadow_exchange(mine, (unsigned)random_below(random, 100), &places[random_below(random, PLACES)]);
}

static void *beside(void *number) {
  struct random random = test_random(1 + (uintptr_t)number);
  rtm_free(rtm_malloc(1));
  pthread_barrier_wait(&all_have_heaps);
  for (unsigned i = 0; i < 120; i++) apply_random(&others[(uintptr_t)number], &random, MIB / 4);
  return NULL;
}

static void set_shadows(bool may_refuse) {
  shadow.may_refuse = may_refuse;
  for (unsigned i = 0; i < BESIDE; i++) {
    others[i].may_refuse = may_refuse;
    others[i].bytes_most = 8 * MIB;
  }
}

static void free_all(void) {
  for (unsigned i = 0; i < PLACES; i++) {
    shadow_free_all(&shadow);
    shadow_exchange(&shadow, 0, &places[i]);
  }
  shadow_free_all(&shadow);
  for (unsigned i = 0; i < BESIDE; i++) shadow_free_all(&others[i]);
}

static void *in_another_thread(void *argument) {
  (void)argument;
  for (unsigned i = 0; i < 20; i++)
    shadow_apply(&shadow, (struct operation){OPERATION_MALLOC, 200 + i, 100 * (size_t)i * i, 0});
  return NULL;
}

// Grows past a neighbour, so that pages are moved; shrinks; grows again.
static void resize_huge(void) {
  shadow_apply(&shadow, (struct operation){OPERATION_MALLOC, 250, 9 * MIB, 0});
  shadow_apply(&shadow, (struct operation){OPERATION_CALLOC, 251, 9 * MIB, 0});
  shadow_apply(&shadow, (struct operation){OPERATION_REALLOC, 250, 21 * MIB, 0});
  shadow_apply(&shadow, (struct operation){OPERATION_REALLOC, 250, 11 * MIB, 0});
  shadow_apply(&shadow, (struct operation){OPERATION_REALLOC, 251, 13 * MIB, 0});
  shadow_apply(&shadow, (struct operation){OPERATION_REALLOC, 251, 26 * MIB, 0});
  shadow_apply(&shadow, (struct operation){OPERATION_ALIGNED, 252, 5 * MIB, 25});
}

static void load(void) {
  struct random random = test_random(0);
  pthread_t threads[BESIDE];
  pthread_barrier_init(&all_have_heaps, NULL, BESIDE);
  for (uintptr_t i = 0; i < BESIDE; i++) CHECK_EQUAL(pthread_create(&threads[i], NULL, beside, (void *)i), 0);
  for (unsigned i = 0; i < 240; i++) {
    apply_random(&shadow, &random, i < 160 ? MIB : 8 * MIB);
    if (i % 80 == 40) {
      pthread_t thread;
      CHECK_EQUAL(pthread_create(&thread, NULL, in_another_thread, NULL), 0);
      pthread_join(thread, NULL);
    }
    if (i == 150) resize_huge();
    if (i % 50 == 0) CHECK_SOUND(rtm_check());
  }
  for (unsigned i = 0; i < BESIDE; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&all_have_heaps);
}

static void check_mapped(void) {
  struct rtm_stats stats;
  rtm_stats(&stats);
  // A profile's own contents are no memory of heaps.
  size_t profile = rtm_options.profile[0] ? faults.mapped - stats.mapped : 0;
  CHECK_EQUAL(stats.mapped, faults.mapped - profile);
  CHECK(profile <= MIB);
}

static void fail_then_recover(void) {
  set_shadows(true);
  load();
  CHECK_SOUND(rtm_check());
  check_mapped();
  // The system gives again: so does the allocator.
  faults.fail_at = 0;
  set_shadows(false);
  load();
  free_all();
  rtm_trim();
  CHECK_SOUND(rtm_check());
  check_mapped();
  struct rtm_stats stats;
  rtm_stats(&stats);
  // In the real-time modes pages stay with their classes.
  if (rtm_options.mode == MODE_GENERAL) CHECK_EQUAL(stats.in_use, 0);
}

// How many calls a run makes when none fails: shared with the child that counts.
static uint64_t *counted;

static void count_calls(void) {
  set_shadows(false);
  load();
  *counted = faults.calls;
}

static void each_in_turn(bool for_ever, bool taken) {
  counted = mmap(NULL, sizeof *counted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK_EQUAL(test_in_child(count_calls), 0);
  // A profile may cover the whole load: only its loading asks the system then. (Asked of the environment, as only the
  // child has read its options.)
  CHECK(*counted > (getenv("RTMALLOC_PROFILE") ? 6 : 20));
  // In short runs of the tests only some of the calls have their turn.
  uint64_t runs = test_operations(20 * *counted) / 20, stride = runs && runs < *counted ? *counted / runs : 1;
  faults.for_ever = for_ever;
  faults.taken = taken;
  for (faults.fail_at = 1; faults.fail_at <= *counted; faults.fail_at += stride) {
    int status = test_in_child(fail_then_recover);
    if (status) test_fail(__FILE__, __LINE__, "the run broke in which call %llu of %llu failed", (unsigned long long)faults.fail_at, (unsigned long long)*counted);
  }
}

#define START_CALL_FAILS(n)                      \
  TEST(call_##n##_of_the_start_fails) {          \
    test_needs_option(fail_at_start, #n);        \
    fail_then_recover();                         \
  }
START_CALL_FAILS(1)
START_CALL_FAILS(2)
START_CALL_FAILS(3)
START_CALL_FAILS(4)
START_CALL_FAILS(5)
START_CALL_FAILS(6)
START_CALL_FAILS(7)
START_CALL_FAILS(8)

// What a profile is recorded of, for the same tests in the real-time modes.
TEST(a_load_without_faults) {
  set_shadows(false);
  load();
  free_all();
}

TEST(each_call_fails_once) { each_in_turn(false, false); }
TEST(each_call_and_all_after_it_fail) { each_in_turn(true, false); }
TEST(each_mapping_finds_the_addresses_taken) { each_in_turn(false, true); }
