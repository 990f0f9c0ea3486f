// The secure variant's features and keys, and what it asks of the system. See secure.h.
#include "secure.h"

#include <string.h>
#include <sys/mman.h>

#include "../message.h"
#include "../os/os.h"
#include "../os/syscall.h"

uint32_t rtm_span_guard;
_Thread_local uint64_t rtm_secure_turn __attribute__((tls_model("initial-exec")));

enum {
  DEFAULT = SECURE_GUARDS | SECURE_RANDOM | SECURE_PLACEMENT,
  ALL = DEFAULT | SECURE_CANARIES | SECURE_ZERO | SECURE_QUARANTINE,
  FENCED = ALL | SECURE_GUARD_PAGES | SECURE_ALONE,
  CANARY_BYTES = 8,
  GAP_BYTES = 64,
};

// The first request comes before the features are known: it is padded for all of them.
struct secure rtm_secure = {.pad = CANARY_BYTES + GAP_BYTES};

static const struct {
  const char *name;
  uint32_t features;
} names[] = {
    {"default", DEFAULT},
    {"all", ALL},
    {"none", 0},
    {"guards", SECURE_GUARDS},
    {"random", SECURE_RANDOM},
    {"placement", SECURE_PLACEMENT},
    {"canaries", SECURE_CANARIES},
    {"gaps", SECURE_GAPS},
    {"zero", SECURE_ZERO},
    {"quarantine", SECURE_QUARANTINE},
    {"guard-pages", SECURE_GUARD_PAGES},
    {"alone", SECURE_ALONE},
    {"fenced", FENCED},
};

static bool parse(const char *value, uint32_t *features) {
  *features = 0;
  for (const char *at = value;; at++) {
    size_t length = strcspn(at, ","), i = 0, count = sizeof names / sizeof *names;
    while (i < count && (strlen(names[i].name) != length || strncmp(names[i].name, at, length) != 0)) i++;
    if (i == count) return false;
    *features |= names[i].features;
    at += length;
    if (!*at) return true;
  }
}

// Kernels without getrandom, and a pool that is not filled yet: what little differs from run to run.
static void weak_keys(void) {
  uint64_t seed = os_clock_us() ^ (uintptr_t)&seed;
  for (unsigned i = 0; i < 4; i++)
    rtm_secure.key[i] = (seed += UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
}

static void make_keys(void) {
  enum { WITHOUT_WAITING = 1 };
  long got = os_syscall(SYS_getrandom, (long)rtm_secure.key, sizeof rtm_secure.key, WITHOUT_WAITING, 0, 0, 0);
  if (got != (long)sizeof rtm_secure.key) weak_keys();
  rtm_secure.key[3] = (rtm_secure.key[3] & ~UINT64_C(7)) | 5;  // the longest period of a product modulo 2^64
}

void secure_start(const char *value, bool real_time) {
  make_keys();
  rtm_secure.features = DEFAULT;
  if (value && *value && !parse(value, &rtm_secure.features)) {
    message_warn("RTMALLOC_SECURE", value,
                 "expected default, all, fenced, none, or some of guards, random, placement, canaries, gaps, zero, "
                 "quarantine, guard-pages and alone with commas between; all is taken");
    rtm_secure.features = ALL;
  }
  // Each such guard is a system call, which the modes for real time promise not to make; and they prepare pages.
  if (real_time) rtm_secure.features &= ~(uint32_t)(SECURE_GUARD_PAGES | SECURE_ALONE);
  rtm_secure.pad =
      (rtm_secure.features & SECURE_CANARIES ? CANARY_BYTES : 0) + (rtm_secure.features & SECURE_GAPS ? GAP_BYTES : 0);
  rtm_span_guard = rtm_secure.features & SECURE_GUARD_PAGES ? 1 : 0;
  // Blocks that are longer than asked for, and those that stand alone, are made by secure_malloc.
  bool plain = !rtm_secure.pad && !(rtm_secure.features & SECURE_ALONE);
  rtm_secure.fast_size = plain ? BLOCK_MAX + 1 : 0;
  rtm_secure_turn = rtm_secure.key[0];
}

uintptr_t secure_shift(uintptr_t room) {
  if (!(rtm_secure.features & SECURE_PLACEMENT)) return 0;
  return (rtm_secure.key[1] ^ rtm_secure.key[2] >> 7) % (room >> SEGMENT_SHIFT) << SEGMENT_SHIFT;
}

// ---- access to memory ----

static bool protect(uintptr_t address, size_t bytes, int access) {
  atomic_fetch_add_explicit(&rtm_os_counts.map, 1, memory_order_relaxed);
  return !os_failed(os_syscall(SYS_mprotect, (long)address, (long)bytes, access, 0, 0, 0));
}

void *secure_map_guarded(size_t bytes) {
  if (!(rtm_secure.features & SECURE_GUARDS)) return os_map(bytes);
  // Without access at first: where memory is locked, the guards are never in memory.
  atomic_fetch_add_explicit(&rtm_os_counts.map, 1, memory_order_relaxed);
  long got = os_syscall(SYS_mmap, 0, (long)(bytes + 2 * GRANULE_SIZE), PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (os_failed(got)) return NULL;
  uintptr_t inner = (uintptr_t)got + GRANULE_SIZE;
  if (protect(inner, bytes, PROT_READ | PROT_WRITE)) return (void *)inner;
  os_unmap((uintptr_t)got, bytes + 2 * GRANULE_SIZE);
  return NULL;
}

bool secure_deny(char *granule) { return protect((uintptr_t)granule, GRANULE_SIZE, PROT_NONE); }
bool secure_permit(char *granule) { return protect((uintptr_t)granule, GRANULE_SIZE, PROT_READ | PROT_WRITE); }

static char *guard_of(const struct span *span) {
  return span->start + ((uintptr_t)(span->length - 1) << GRANULE_SHIFT);
}

// Where the system refuses (it limits the number of mappings), the granule stays, unused.
void secure_guard(const struct span *span) {
  if (rtm_span_guard) secure_deny(guard_of(span));
}
void secure_unguard(const struct span *span) {
  if (rtm_span_guard) secure_permit(guard_of(span));
}
void secure_unguard_segment(uint32_t segment) {
  if (!rtm_span_guard) return;
  uintptr_t start = (uintptr_t)granule_address((size_t)segment * SEGMENT_GRANULES);
  protect(start, (size_t)segment_at(segment)->mapped << GRANULE_SHIFT, PROT_READ | PROT_WRITE);
}
