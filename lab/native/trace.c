// librtmalloc-trace.so: preloaded before an allocator, writes down every allocation of a process. Started by
// `rtmalloc trace record`; the file's form is in trace_format.h.
//
//     RTTRACE_OUT=/tmp/t RTTRACE_ROOT=$$ LD_PRELOAD="librtmalloc-trace.so allocator.so" exec program
//
// RTTRACE_OUT: the file. RTTRACE_ROOT: the process that writes to it; others write to RTTRACE_OUT.PID if
// RTTRACE_CHILDREN=1, else nothing. RTTRACE_LIMIT: most bytes of a file.
//
// Each thread writes to a chunk of the file that it has mapped, so a crash loses nothing that was written. The usual call
// costs a time stamp and three stores; when the chunk is full, the thread takes the next one under a lock.

#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "ticks.h"
#include "trace_format.h"

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#else
enum { MACHINE = EM_AARCH64 };
#endif

#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define OWN_NAME "librtmalloc-trace.so"

// ---- One thread's place ---------------------------------------------------------------------------------------------

struct place {
  struct trace_record *next, *end;            // where the next record goes; both NULL before the first
  void *chunk;                                // as it is mapped
  size_t bytes;
};
static __thread struct place place;
static __thread uint32_t thread_number;       // 0: none yet
static __thread uint32_t thread_turns;        // THREAD records written so far

static __attribute__((noinline, cold)) bool more_room(void);

// Stamps of releases are taken before the call. A later store of the call cannot be seen before the counter was read, as
// stores become visible in program order after everything before them (x86-64); aarch64 has its isb.
static inline uint64_t stamp_of(enum trace_operation operation, uint64_t alignment, uint64_t ticks) {
  const uint64_t power = alignment == 0 ? 0 : 63u - (unsigned)__builtin_clzll(alignment);
  return ticks << TRACE_TICKS_SHIFT | power << TRACE_ALIGNMENT_SHIFT | operation;
}

static uint64_t start_ticks;

#if defined(__x86_64__)
// rdtscp waits until what comes before it has been done, which is what an allocation's stamp needs; no fence after it.
static inline uint64_t stamp_ticks(void) {
  unsigned processor;
  return __rdtscp(&processor) - start_ticks;
}
#else
static inline uint64_t stamp_ticks(void) { return ticks_before() - start_ticks; }
#endif

static inline void record(enum trace_operation operation, uint64_t alignment, const void *address, size_t size) {
  if (UNLIKELY(place.next == place.end) && !more_room()) { return; }
  struct trace_record *const here = place.next++;
  const uint64_t ticks = stamp_ticks();
  here->address = (uint64_t)(uintptr_t)address;
  here->size = size;
  __atomic_store_n(&here->stamp, stamp_of(operation, alignment, ticks), __ATOMIC_RELEASE);  // last: see trace_format.h
}

// ---- Around each call -----------------------------------------------------------------------------------------------

#define FRONT_ALLOCATE(kind, bytes, alignment, call)                                      \
  __attribute__((cleanup(leave))) unsigned outer_depth = depth;                           \
  if (UNLIKELY(outer_depth > 0)) { return (call); }                                       \
  depth = 1;                                                                              \
  void *const block = (call);                                                             \
  record(TRACE_##kind, (alignment), block, (bytes));                                      \
  return block

#define FRONT_RESIZE(old, bytes, call)                                                    \
  __attribute__((cleanup(leave))) unsigned outer_depth = depth;                           \
  if (UNLIKELY(outer_depth > 0)) { return (call); }                                       \
  depth = 1;                                                                              \
  if ((old) != NULL) { record(TRACE_RESIZE_FROM, 0, (old), 0); }                          \
  void *const block = (call);                                                             \
  record((old) != NULL ? TRACE_RESIZE_TO : TRACE_MALLOC, 0, block, (bytes));              \
  return block

#define FRONT_RELEASE(block, call)                                                        \
  __attribute__((cleanup(leave))) unsigned outer_depth = depth;                           \
  if (outer_depth == 0) {                                                                 \
    depth = 1;                                                                            \
    record(TRACE_FREE, 0, (block), 0);                                                    \
  }                                                                                       \
  (call)

#define FRONT_NAME OWN_NAME
#include "malloc_front.h"

// ---- The file -------------------------------------------------------------------------------------------------------

// A thread's first chunk is small, as there may be many threads; each further one is four times larger, to 4 MiB. All
// are multiples of every page size of Linux.
enum { FIRST_CHUNK = 64 * 1024, LARGEST_CHUNK = 4 * 1024 * 1024, SPARES = 64 };
enum { CALIBRATION_NS = 2 * 1000 * 1000 };

static struct {
  enum { UNTRIED, RECORDING, OFF } state;     // read without the lock: a hint
  struct trace_header *header;                // mapped; NULL if this process is not recorded
  char path[4096];
  dev_t device;                               // of the file, as a program may close or replace whatever it likes
  ino_t inode;
  uint64_t limit;                             // bytes; 0: none
  struct place spares[SPARES];                // what threads that have ended left over
  unsigned spare_count;
} file;
static pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER;  // over `file` and the header's `used`
static _Atomic uint32_t threads;
static pthread_key_t thread_key;
extern char **environ;

static void complain(const char *what, int error) {
  char text[4400];
  const int length = snprintf(text, sizeof text, OWN_NAME ": %s: %s (%s)\n", what, strerrordesc_np(error), file.path);
  (void)!write(STDERR_FILENO, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

// Opens the file again: nothing stays open that the program could close. -1 and errno if it is not the same file.
static int open_again(void) {
  const int handle = open(file.path, O_RDWR | O_CLOEXEC);
  if (handle < 0) { return -1; }
  struct stat now;
  if (fstat(handle, &now) == 0 && now.st_dev == file.device && now.st_ino == file.inode) { return handle; }
  close(handle);
  errno = ESTALE;
  return -1;
}

// Maps `bytes` of the file from `at` on, which are there afterwards; NULL and errno if not.
static void *extend(int handle, uint64_t at, size_t bytes) {
  errno = posix_fallocate(handle, (off_t)at, (off_t)bytes);  // so that a full disk is seen here and not as SIGBUS
  if (errno != 0) { return NULL; }
  void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, handle, (off_t)at);
  if (mapped == MAP_FAILED) { return NULL; }
  (void)madvise(mapped, bytes, MADV_POPULATE_WRITE);  // one call for its page faults; before Linux 5.14 they come singly
  return mapped;
}

// A new chunk at the end of the file; false and errno if there is none. Under the lock.
static bool take_chunk(struct place *taken, size_t bytes) {
  const uint64_t at = file.header->used;
  if (file.limit != 0 && at + bytes > file.limit) {
    errno = EFBIG;
    return false;
  }
  const int handle = open_again();
  if (handle < 0) { return false; }
  struct trace_record *const first = extend(handle, at, bytes);
  const int error = errno;
  close(handle);
  errno = error;
  if (first == NULL) { return false; }
  first->address = bytes;
  first->stamp = TRACE_CHUNK;
  *taken = (struct place){first + 1, first + bytes / sizeof *first, first, bytes};
  __atomic_store_n(&file.header->used, at + bytes, __ATOMIC_RELEASE);
  return true;
}

static bool is_set(const char *name) {
  const char *value = getenv(name);
  return value != NULL && strcmp(value, "1") == 0;
}

static void write_command(char *target) {
  const int handle = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (handle < 0) { return; }
  (void)!read(handle, target, TRACE_HEADER_BYTES - TRACE_COMMAND_AT);
  close(handle);
}

static uint64_t ticks_per_second(uint64_t ticks, uint64_t ns) {
  return (uint64_t)((double)ticks * 1e9 / (double)ns);
}

// The header of this process's file. False, after a word on stderr, if it cannot be made.
static bool make_file(bool forked) {
  const int handle = open(file.path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  struct stat made;
  struct trace_header *header = NULL;
  if (handle >= 0 && fstat(handle, &made) == 0) { header = extend(handle, 0, TRACE_HEADER_BYTES); }
  if (header == NULL) {
    complain("the trace cannot be written", errno);
    if (handle >= 0) { close(handle); }
    return false;
  }
  close(handle);
  file.device = made.st_dev;
  file.inode = made.st_ino;
  *header = (struct trace_header){.version = TRACE_VERSION, .header_bytes = TRACE_HEADER_BYTES,
                                  .record_bytes = sizeof(struct trace_record), .machine = MACHINE,
                                  .byte_order = TRACE_BYTE_ORDER, .process = (uint32_t)getpid(),
                                  .parent = (uint32_t)getppid(), .forked = forked, .date = (uint64_t)time(NULL),
                                  .used = TRACE_HEADER_BYTES};
  write_command((char *)header + TRACE_COMMAND_AT);
  const uint64_t ns = now_ns();
  const uint64_t ticks = ticks_after();
  uint64_t passed;
  while ((passed = now_ns() - ns) < CALIBRATION_NS) {}
  header->ticks_per_second = ticks_per_second(ticks_after() - ticks, passed);
  header->start_ns = ns;
  header->start_ticks = start_ticks = ticks;
  memcpy(header->magic, TRACE_MAGIC, sizeof header->magic);  // last: now it is a trace
  file.header = header;
  return true;
}

// Is this process to be recorded, and where? Under the lock, once for each process.
static void begin(bool forked) {
  file.state = OFF;
  const char *out = getenv("RTTRACE_OUT"), *root = getenv("RTTRACE_ROOT"), *limit = getenv("RTTRACE_LIMIT");
  if (out == NULL || *out == '\0') { return; }
  const bool is_root = root != NULL && strtol(root, NULL, 10) == (long)getpid();
  if (!is_root && !is_set("RTTRACE_CHILDREN")) { return; }
  const int length = is_root ? snprintf(file.path, sizeof file.path, "%s", out)
                             : snprintf(file.path, sizeof file.path, "%s.%d", out, (int)getpid());
  if (length < 0 || (size_t)length >= sizeof file.path) { return; }
  file.limit = limit == NULL ? 0 : strtoull(limit, NULL, 10);
  if (make_file(forked)) { file.state = RECORDING; }
}

static void end_recording(int error) {
  file.header->end_ticks = ticks_after();
  file.header->end_ns = now_ns();
  __atomic_store_n(&file.header->stopped, (uint32_t)error, __ATOMIC_RELEASE);
  __atomic_store_n(&file.state, OFF, __ATOMIC_RELEASE);
  complain("the trace ends here, the program goes on", error);
}

// Room for a thread that begins, or whose chunk is full; without, its place is empty.
static struct place next_place(void) {
  struct place taken = {0};
  pthread_mutex_lock(&file_lock);
  if (file.state == UNTRIED && environ != NULL) { begin(false); }
  if (file.state == RECORDING) {
    const size_t bytes = place.bytes == 0 ? FIRST_CHUNK : place.bytes < LARGEST_CHUNK ? place.bytes * 4 : LARGEST_CHUNK;
    if (place.chunk == NULL && file.spare_count > 0) {
      taken = file.spares[--file.spare_count];
    } else if (!take_chunk(&taken, bytes)) {
      end_recording(errno);
    }
  }
  pthread_mutex_unlock(&file_lock);
  return taken;
}

// A thread that begins, or whose chunk is full, gets room and says who it is. False if nothing is recorded any more.
static bool more_room(void) {
  if (__atomic_load_n(&file.state, __ATOMIC_ACQUIRE) == OFF) {
    if (file.header != NULL) { __atomic_fetch_add(&file.header->dropped, 1, __ATOMIC_RELAXED); }
    return false;
  }
  const int saved = errno;
  const struct place taken = next_place();
  if (place.chunk != NULL) { munmap(place.chunk, place.bytes); }
  const bool fresh = place.chunk == NULL;
  place = taken;
  if (taken.next != NULL) {
    if (thread_number == 0) { thread_number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1; }
    if (fresh) { pthread_setspecific(thread_key, &place); }
    struct trace_record *const here = place.next++;
    here->address = thread_turns++;
    here->size = thread_number;
    __atomic_store_n(&here->stamp, stamp_of(TRACE_THREAD, 0, stamp_ticks()), __ATOMIC_RELEASE);
  }
  errno = saved;
  return place.next != place.end;
}

// ---- Threads, forks, the end ----------------------------------------------------------------------------------------

// The next thread goes on where this one stops. If another destructor allocates after this one, it runs again.
static void thread_ends(void *unused) {
  (void)unused;
  struct place left = place;
  place = (struct place){0};
  if (left.chunk == NULL) { return; }
  pthread_mutex_lock(&file_lock);
  const bool kept = left.end - left.next > 2 && file.spare_count < SPARES;  // room for THREAD and something
  if (kept) { file.spares[file.spare_count++] = left; }
  pthread_mutex_unlock(&file_lock);
  if (!kept) { munmap(left.chunk, left.bytes); }
}

static void before_fork(void) { pthread_mutex_lock(&file_lock); }
static void after_fork(void) { pthread_mutex_unlock(&file_lock); }

// The chunks are the parent's: the child writes to a file of its own, or not at all.
static void in_child(void) {
  pthread_mutex_init(&file_lock, NULL);
  place = (struct place){0};
  thread_number = thread_turns = 0;
  threads = 0;
  file.spare_count = 0;
  if (file.header != NULL) { munmap(file.header, TRACE_HEADER_BYTES); }
  file.header = NULL;
  begin(true);
}

static __attribute__((constructor)) void prepare(void) {
  depth++;
  (void)ready();
  pthread_key_create(&thread_key, thread_ends);
  pthread_atfork(before_fork, after_fork, in_child);
  depth--;
}

static __attribute__((destructor)) void process_ends(void) {
  if (file.header == NULL) { return; }
  struct trace_header *const header = file.header;
  if (header->stopped == 0) {
    header->end_ns = now_ns();
    header->end_ticks = ticks_after();
    if (header->end_ns - header->start_ns > CALIBRATION_NS) {
      header->ticks_per_second =
          ticks_per_second(header->end_ticks - header->start_ticks, header->end_ns - header->start_ns);
    }
  }
  header->exited = 1;
}
