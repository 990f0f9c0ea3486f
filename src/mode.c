// See mode.h.
#define _GNU_SOURCE
#include "mode.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arena.h"
#include "message.h"
#include "options.h"
#include "os/module.h"
#include "os/pin.h"
#include "plan.h"
#include "prepare.h"
#include "prepared.h"
#include "process.h"
#include "profile.h"
#include "record.h"
#include "rehearse.h"
#include "rtmalloc.h"
#include "secure/secure.h"
#include "segment.h"

static bool loading;
static struct {
  struct os_lock lock;
  enum mode mode;
  _Atomic bool sealed;
  struct stores *all;
  struct late *late;
  _Atomic uint64_t misses[RTM_MISS_KINDS];
  uint64_t calls_at_seal;
  size_t held;     // bytes made ready by loading
  size_t reserve;  // of these, more than the recorded run needed
  uint64_t load_us;
} state;
bool rtm_mode_watches;

enum mode mode_now(void) { return state.mode; }
bool mode_is_loading(void) { return loading; }
bool mode_is_sealed(void) { return atomic_load_explicit(&state.sealed, memory_order_relaxed); }
static const char *const mode_names[] = {"general", "seg", "pag"};
size_t mode_prepared_bytes(void) { return state.held; }
size_t mode_reserve_bytes(void) { return state.reserve; }
uint64_t mode_load_us(void) { return state.load_us; }
const char *mode_name(void) { return mode_names[state.mode]; }

static uint64_t system_calls(void) {
  struct rtm_stats stats;
  rtm_stats(&stats);
  return stats.system_calls;
}
uint64_t mode_calls_since_seal(void) { return mode_is_sealed() ? system_calls() - state.calls_at_seal : 0; }

// ---- misses ----

static const char *const miss_names[RTM_MISS_KINDS] = {"page", "span", "huge", "thread"};

static unsigned miss_kind(size_t size) {
  return size <= BLOCK_MAX                                      ? RTM_MISS_PAGE
         : size <= (size_t)MEDIUM_GRANULES_MAX << GRANULE_SHIFT ? RTM_MISS_SPAN
                                                                : RTM_MISS_HUGE;
}

static void tell(unsigned kind, size_t size) {
  char line[160];
  struct text text = {line, sizeof line, 0};
  text_add(&text, "rtmalloc: miss: ");
  text_add(&text, miss_names[kind]);
  if (kind == RTM_MISS_THREAD) {
    text_add(&text, ": a thread started that the profile has no heap for\n");
  } else {
    text_add(&text, " of ");
    text_add_number(&text, size);
    text_add(&text, " bytes: the profile has fewer of them; record again with this load\n");
  }
  os_write(2, line, text.length);
}

// True if the operation is to be served.
static bool missed(unsigned kind, size_t size) {
  atomic_fetch_add_explicit(&state.misses[kind], 1, memory_order_relaxed);
  if (!mode_is_sealed() || rtm_options.on_miss == MISS_COUNT) return true;
  if (rtm_options.on_miss == MISS_NULL) return kind == RTM_MISS_THREAD;
  tell(kind, size);
  if (rtm_options.on_miss == MISS_ABORT) os_abort();
  return true;
}

RTM_COLD bool mode_miss(struct heap *heap, size_t size) {
  heap->stores->misses[size <= BLOCK_MAX ? size_class(size) : size <= BIN_SIZE_MAX ? bin_of_large(size) : 0]++;
  return missed(miss_kind(size), size);
}

RTM_COLD bool mode_miss_memory(const struct heap *heap, size_t size) {
  // What a prepared heap has no store for was counted there; this may be the general heap beside it.
  if (loading || (rtm_heap->stores && rtm_heap != heap)) return true;
  return missed(miss_kind(size), size);
}

uint64_t rtm_misses(void) {
  uint64_t sum = 0;
  for (unsigned kind = 0; kind < RTM_MISS_KINDS; kind++) sum += rtm_misses_of(kind);
  return sum;
}
uint64_t rtm_misses_of(enum rtm_miss kind) {
  return (unsigned)kind < RTM_MISS_KINDS ? atomic_load_explicit(&state.misses[kind], memory_order_relaxed) : 0;
}

// ---- prepared heaps ----

// The start routine of a thread whose module was not there when the profile was loaded, and may be opened later. The
// heaps know it by the address of this entry.
struct late {
  char module[PROFILE_MODULE];
  uint64_t offset;
  _Atomic uintptr_t routine;  // 0: not seen yet
  struct late *next;
};

static struct late *late_find(const char *module, uint64_t offset) {
  struct late *late = state.late;
  while (late && (late->offset != offset || strcmp(late->module, module) != 0)) late = late->next;
  return late;
}

// 0: no memory.
static uintptr_t late_routine(const struct profile_record *thread) {
  struct late *late = late_find(thread->module, thread->offset);
  if (late) return (uintptr_t)late;
  late = arena_metadata(sizeof *late);
  if (!late) return 0;
  memcpy(late->module, thread->module, sizeof late->module);
  late->offset = thread->offset;
  late->next = state.late;
  state.late = late;
  return (uintptr_t)late;
}

// Modules that have been opened since. At the seal, so that their threads' starts need not ask for names.
static void late_look(void) {
  uintptr_t base;
  for (struct late *late = state.late; late; late = late->next)
    if (os_module_base(late->module, sizeof late->module, &base))
      atomic_store_explicit(&late->routine, base + late->offset, memory_order_relaxed);
}

// A routine that is in no heap's table: is it one of these? A search, as long as there are such routines.
static RTM_NOINLINE struct heap *take_late_routine(uintptr_t routine) {
  for (struct late *late = state.late; late; late = late->next)
    if (atomic_load_explicit(&late->routine, memory_order_relaxed) == routine) return prepared_take((uintptr_t)late);
  char module[PROFILE_MODULE];
  uint64_t offset;
  if (!os_module_of(routine, module, sizeof module, &offset)) return NULL;
  struct late *late = late_find(module, offset);
  if (!late) return NULL;
  atomic_store_explicit(&late->routine, routine, memory_order_relaxed);
  return prepared_take((uintptr_t)late);
}

// The thread's start routine in this process, or what stands for it; false if there is no memory.
static bool find_routine(const struct profile_record *thread, uintptr_t *routine) {
  uintptr_t base = 0;
  if (!thread->module[0] || os_module_base(thread->module, sizeof thread->module, &base))
    *routine = base + thread->offset;  // the main thread: 0
  else
    *routine = late_routine(thread);
  return *routine || !thread->module[0];
}

static bool has_prepared(void) { return state.mode != MODE_GENERAL && state.all; }

struct heap *mode_offer_heap(uintptr_t routine) {
  if (!has_prepared()) return NULL;
  struct heap *heap = prepared_take(routine);
  return RTM_UNLIKELY(!heap) && state.late ? take_late_routine(routine) : heap;
}

struct heap *mode_take_heap(uintptr_t routine) {
  struct heap *heap = mode_offer_heap(routine);
  if (RTM_UNLIKELY(!heap) && has_prepared()) missed(RTM_MISS_THREAD, 0);
  return heap;
}

struct heap *mode_take_other(const struct heap *heap, unsigned bin) { return prepared_take_other(heap->stores, bin); }

void mode_leave_heap(struct heap *heap) { prepared_leave(heap->stores); }

void mode_adapt(struct heap *heap) {
  if (state.mode != MODE_GENERAL) segment_keep_all(heap);
  if (state.mode == MODE_PAG && !state.all) heap->unusual = heap->keeps_class_pages = true;
}

// ---- loading and sealing ----

static void warn_limit(void) {
  message_warn_number("RLIMIT_MEMLOCK", os_pin_limit(),
                      "the memory is in place but may not be locked: raise this limit (ulimit -l unlimited, or memlock "
                      "in /etc/security/limits.conf, or CAP_IPC_LOCK); the run goes on");
}

static const char *load(const char *path, enum mode mode) {
  struct profile profile;
  if (has_prepared()) return "a profile is loaded already; one process has one";
  if (mode_is_sealed()) return "the process is sealed; rtm_unseal first";
  if (SECURE_VARIANT && mode == MODE_SEG && (span_guard() || rtm_secure.features & SECURE_ALONE))
    return "guards behind pages, or blocks that stand alone, are on: set RTMALLOC_MODE, which switches them off";
  const char *wrong = profile_read(path, &profile);
  if (wrong) return wrong;
  uint64_t before = os_clock_us();
  wrong = profile_level(&profile) ? NULL : prepared_no_memory;
  uint64_t reserve = 0, chunks = !wrong && mode == MODE_SEG ? plan_share(&profile, &reserve) : 0;
  if (!wrong && mode == MODE_PAG && !plan_common(&profile)) wrong = prepared_no_memory;
  if (!wrong) wrong = prepare_check(&profile, mode, chunks);
  if (wrong) {
    profile_drop(&profile);
    return wrong;
  }
  loading = true;
  struct made made = {.permitted = os_pin_library()};
  // The null span, which lists end with, is no heap's.
  if (!os_pin(span_at(0), SPAN_SIZE)) made.permitted = false;
  wrong = prepare(&profile, mode, chunks, find_routine, &made);
  size_t index_bytes = 0;
  if (!wrong && made.all) wrong = prepared_index(made.all, &index_bytes, &made.permitted);
  loading = false;
  profile_drop(&profile);
  if (wrong) return wrong;  // what was made stays unused: the program goes on without the profile
  arena_set_purge(PURGE_NEVER);
  state.all = made.all;
  state.held = made.bytes + index_bytes;
  state.reserve = made.reserve + reserve;
  state.mode = mode;
  rtm_mode_watches = true;
  state.load_us = os_clock_us() - before;
  if (!made.permitted) warn_limit();
  if (process_key_is_late())
    message_warn("profile", path,
                 "other libraries made 32 thread keys before rtmalloc made its own: a thread's start allocates, and "
                 "takes more instructions than `rtmalloc bound` proves; make fewer before main; the run goes on");
  return NULL;
}

static bool parse_mode(const char *name, enum mode *mode) {
  for (unsigned m = 0; m < sizeof mode_names / sizeof *mode_names; m++)
    if (strcmp(name, mode_names[m]) == 0) {
      *mode = (enum mode)m;
      return true;
    }
  return false;
}

int rtm_load_profile(const char *path, const char *name) {
  enum mode mode;
  if (!path || !name || !parse_mode(name, &mode) || mode == MODE_GENERAL) {
    message_warn("rtm_load_profile: mode", name ? name : "(null)", "expected \"seg\" or \"pag\", and a file");
    return EINVAL;
  }
  heap_of_thread();
  os_lock_acquire(&state.lock);
  const char *wrong = load(path, mode);
  os_lock_release(&state.lock);
  if (wrong) {
    message_warn("profile", path, wrong);
    return mode_is_sealed() || state.all ? EBUSY : EINVAL;
  }
  // As where a profile is loaded at the start: a report tells of misses then, and the fast paths stay.
  rtm_options.count = rtm_options.verbose;
  // Threads that have begun keep their heaps, which the profile does not know.
  atomic_fetch_add_explicit(&state.misses[RTM_MISS_THREAD], heap_keep_from_now(), memory_order_relaxed);
  heap_begin_prepared();
  rehearse();
  return 0;
}

int rtm_save_profile(const char *path) {
  if (!path || !*path) {
    message_warn("rtm_save_profile", path ? path : "(null)", "expected a file name");
    return EINVAL;
  }
  if (!rtm_options.record[0]) {
    message_warn("profile", path, "nothing was recorded: start the program with RTMALLOC_RECORD=file");
    return ENODATA;
  }
  os_lock_acquire(&state.lock);
  const char *wrong = record_save(path);
  os_lock_release(&state.lock);
  if (!wrong) return 0;
  message_warn("profile", path, wrong);
  return EIO;
}

int rtm_seal(void) {
  os_lock_acquire(&state.lock);
  const char *wrong = NULL;
  if (state.mode == MODE_GENERAL)
    wrong = "the mode is general: load a profile first (rtm_load_profile, or RTMALLOC_PROFILE and RTMALLOC_MODE)";
  else if (mode_is_sealed())
    wrong = "the process is sealed already";
  else {
    late_look();
    state.calls_at_seal = system_calls();
    atomic_store_explicit(&state.sealed, true, memory_order_seq_cst);
  }
  os_lock_release(&state.lock);
  if (!wrong) {
    rehearse();
    return 0;
  }
  message_warn("rtm_seal", mode_name(), wrong);
  return state.mode == MODE_GENERAL ? EINVAL : EALREADY;
}

int rtm_rehearse(void) {
  const struct heap *heap = heap_of_thread();
  if (heap && heap->stores) {
    rehearse();
    return 0;
  }
  message_warn("rtm_rehearse", mode_name(),
               "this thread has no prepared heap: load a profile that has one for it (rtmalloc profile show)");
  return EINVAL;
}

int rtm_unseal(void) {
  os_lock_acquire(&state.lock);
  bool was = atomic_exchange_explicit(&state.sealed, false, memory_order_seq_cst);
  os_lock_release(&state.lock);
  return was ? 0 : EALREADY;
}

// ---- the start ----

static void on_record_signal(int number) {
  (void)number;
  int saved = errno;
  const char *wrong = record_save(rtm_options.record);
  if (wrong) message_warn("RTMALLOC_RECORD", rtm_options.record, wrong);
  errno = saved;
}

void mode_start(void) {
  const struct options *o = &rtm_options;
  if (o->record[0] && o->record_signal) {
    struct sigaction action = {.sa_handler = on_record_signal, .sa_flags = SA_RESTART};
    sigaction(o->record_signal, &action, NULL);
  }
  if (o->profile[0] && o->mode == MODE_GENERAL) {
    message_warn("RTMALLOC_PROFILE", o->profile, "it is left out, as RTMALLOC_MODE is not seg or pag");
  } else if (o->profile[0]) {
    const char *wrong = load(o->profile, (enum mode)o->mode);
    if (wrong) message_warn("RTMALLOC_PROFILE", o->profile, wrong);
  }
  if (o->mode != MODE_GENERAL && !state.all) {
    state.mode = (enum mode)o->mode;
    rtm_mode_watches = true;
    arena_keep();
  }
  if (o->seal) rtm_seal();
}

__attribute__((destructor)) static void save_at_exit(void) {
  if (!rtm_options.record[0]) return;
  const char *wrong = record_save(rtm_options.record);
  if (wrong) message_warn("RTMALLOC_RECORD", rtm_options.record, wrong);
}
