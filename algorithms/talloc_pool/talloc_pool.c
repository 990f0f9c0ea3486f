// The malloc family on pools of libtalloc's blocks, as the paper of RT-Mimalloc compares with (section VII):
//   LD_PRELOAD=libtalloc-pool-preload.so TALLOC_POOL_LOAD=file PROGRAM
// A list of free blocks for each block size of RT-Mimalloc. TALLOC_POOL_LOAD, a profile of RT-Mimalloc `pag`, fills
// them before main: a pool of libtalloc for each page, with as many blocks. A block is the first of its list; where
// that is empty, a new one of libtalloc. A free puts it back; nothing goes back to libtalloc. One lock around all
// lists: O(1), but for libtalloc's part. libtalloc gives no block of 256 MiB or more. Misuse is not seen.
//
// libtalloc itself calls malloc: then, and before the constructor below, glibc's serves. Its blocks have no mark.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <talloc.h>

#include "rt_mimalloc/profile_file.h"
#define MESSAGE_FROM "talloc-pool"
#include "rt_mimalloc/message.h"

#define EXPORT __attribute__((visibility("default")))

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

// Right before each block. In glibc's blocks the mark's place holds their length, which is never so large.
struct header {
  uint32_t class;   // of RT-Mimalloc's block sizes
  uint32_t offset;  // bytes from the place of an unaligned block to this one
  uint64_t mark;
};
enum { ALIGNMENT = 16 };
_Static_assert(sizeof(struct header) == ALIGNMENT, "the block behind it is aligned as libtalloc's are");
#define MARK UINT64_C(0x8a110cb10c4a110c)

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *lists[CLASSES];
static void *context;        // libtalloc's parent of all blocks
static atomic_bool started;  // release after the lists are filled, acquire before they are used
static __thread bool inside_talloc __attribute__((tls_model("initial-exec")));

static inline bool glibc_serves(void) { return inside_talloc || !atomic_load_explicit(&started, memory_order_acquire); }

static inline struct header *header_of(void *block) { return (struct header *)block - 1; }
static inline bool is_pooled(void *block) { return header_of(block)->mark == MARK; }

static void *out_of_memory(void) {
  errno = ENOMEM;
  return NULL;
}

// ---- the lists ----

static size_t chunk_bytes(unsigned class) { return sizeof(struct header) + class_bytes(class); }

static struct block *new_block(const void *parent, unsigned class) {
  inside_talloc = true;
  struct header *header = talloc_size(parent, chunk_bytes(class));
  inside_talloc = false;
  if (!header) return NULL;
  *header = (struct header){class, 0, MARK};
  return (struct block *)(header + 1);
}

static void give(struct block *block) {
  struct block **list = &lists[header_of(block)->class];
  block->next = *list;
  *list = block;
}

static void *pooled(size_t size) {
  if (size > CLASS_BYTES_MOST) return out_of_memory();
  unsigned class = class_of(size);
  pthread_mutex_lock(&pool_lock);
  struct block *block = lists[class];
  if (LIKELY(block))
    lists[class] = block->next;
  else
    block = new_block(context, class);
  pthread_mutex_unlock(&pool_lock);
  return LIKELY(block) ? block : out_of_memory();
}

// ---- the start: libtalloc's constructor has run, main has not begun ----

static void fill(const struct profile *profile) {
  static const size_t page_bytes[] = {[SMALL] = 1 << SMALL_PAGE_SHIFT, [MEDIUM] = SEGMENT_BYTES - HEADER_BYTES};
  for (unsigned class = 0; class < CLASSES; class ++) {
    enum kind kind = kind_of(class_bytes(class));
    size_t blocks = kind == HUGE ? 1 : page_bytes[kind] / class_bytes(class);
    for (uint32_t page = 0; page < profile->pages[class]; page++) {
      const void *pool = talloc_pooled_object(context, char, (unsigned)blocks, blocks *chunk_bytes(class));
      if (!pool) break;  // as much as there is memory for
      for (size_t i = 0; i < blocks; i++) {
        struct block *block = new_block(pool, class);
        if (block) give(block);
      }
    }
  }
}

static void load(const char *path) {
  char problem[PROFILE_PROBLEM_MOST];
  struct profile profile = {0};
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    RTMI_SAY("cannot read the profile '", path, "': ", strerror(errno), "; record it with librt-mimalloc-pag.so");
    _exit(2);
  }
  if (!rtmi_profile_read(file, PREPARE_PAGES, &profile, problem)) {
    RTMI_SAY("'", path, "' is no profile of RT-Mimalloc pag: ", problem);
    _exit(2);
  }
  close(file);
  fill(&profile);
}

static void lock(void) { pthread_mutex_lock(&pool_lock); }
static void unlock(void) { pthread_mutex_unlock(&pool_lock); }

__attribute__((constructor)) static void start(void) {
  context = talloc_named_const(NULL, 0, "pools of blocks");
  const char *path = getenv("TALLOC_POOL_LOAD");
  if (path) load(path);
  pthread_atfork(lock, unlock, unlock);
  atomic_store_explicit(&started, true, memory_order_release);
}

// ---- the family ----

EXPORT void *malloc(size_t size) { return glibc_serves() ? __libc_malloc(size) : pooled(size); }

EXPORT void free(void *block) {
  if (!block) return;
  if (!is_pooled(block)) {
    __libc_free(block);
    return;
  }
  struct block *start = (struct block *)((char *)block - header_of(block)->offset);
  pthread_mutex_lock(&pool_lock);
  give(start);
  pthread_mutex_unlock(&pool_lock);
}

EXPORT size_t malloc_usable_size(void *block) {
  if (!block) return 0;
  if (is_pooled(block)) return class_bytes(header_of(block)->class) - header_of(block)->offset;
  size_t (*of_glibc)(void *) = (size_t(*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
  return of_glibc(block);
}

EXPORT void *calloc(size_t count, size_t size) {
  if (glibc_serves()) return __libc_calloc(count, size);
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return out_of_memory();
  void *block = pooled(bytes);
  return block ? memset(block, 0, bytes) : NULL;
}

// In place if the block suffices and at most half of it would be lost, as RT-Mimalloc's.
EXPORT void *realloc(void *block, size_t size) {
  if (!block) return malloc(size);
  if (!is_pooled(block)) return __libc_realloc(block, size);
  if (size == 0) {
    free(block);
    return NULL;
  }
  size_t usable = malloc_usable_size(block);
  if (size <= usable && size >= usable / 2) return block;
  void *moved = malloc(size);
  if (!moved) return NULL;
  memcpy(moved, block, size < usable ? size : usable);
  free(block);
  return moved;
}

EXPORT void *reallocarray(void *block, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return out_of_memory();
  return realloc(block, bytes);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
  if (alignment == 0 || (alignment & (alignment - 1))) {
    errno = EINVAL;
    return NULL;
  }
  if (glibc_serves()) return __libc_memalign(alignment, size);
  if (alignment <= ALIGNMENT) return pooled(size);
  size_t bytes;
  if (alignment > UINT32_MAX || __builtin_add_overflow(size, alignment, &bytes)) return out_of_memory();
  char *start = pooled(bytes);
  if (!start) return NULL;
  uint32_t offset = (uint32_t)(-(uintptr_t)start & (alignment - 1));
  if (offset > 0) *header_of(start + offset) = (struct header){header_of(start)->class, offset, MARK};
  return start + offset;
}

#include "preload_aligned.h"
