// rlsf (yvt), a TLSF in Rust: the crate is the product itself. foreign_rlsf.rs makes its operations callable.
#include "foreign.h"

bool rlsf_init(void *memory, size_t bytes);
void *rlsf_malloc(void *heap, size_t size);
void *rlsf_aligned_alloc(void *heap, size_t alignment, size_t size);
bool rlsf_free(void *heap, void *block);
void *rlsf_realloc(void *heap, void *block, size_t size);
size_t rlsf_usable_size(const void *heap, const void *block);
size_t rlsf_control(void);

enum { HEAP_ALIGNMENT = 64 };

// The bytes stand before the heap: rlsf has no word for them.
static void *heap_init(void *memory, size_t bytes) {
  char *base = foreign_align(memory, &bytes, HEAP_ALIGNMENT, HEAP_ALIGNMENT);
  if (!base) return NULL;
  memcpy(base, &bytes, sizeof bytes);
  return rlsf_init(base + HEAP_ALIGNMENT, bytes - HEAP_ALIGNMENT) ? base + HEAP_ALIGNMENT : NULL;
}

static void *heap_aligned_alloc(void *heap, size_t alignment, size_t size) {
  bool power_of_two = alignment && !(alignment & (alignment - 1));
  return power_of_two ? rlsf_aligned_alloc(heap, alignment, size) : NULL;
}

static struct algorithm_usage heap_usage(const void *heap) {
  size_t bytes;
  memcpy(&bytes, (const char *)heap - HEAP_ALIGNMENT, sizeof bytes);
  size_t control = HEAP_ALIGNMENT + rlsf_control();
  return (struct algorithm_usage){.control = control, .area = bytes - control, .reached = bytes - control};
}

const struct algorithm algorithm_foreign = {
    "rlsf",
    "rlsf: TLSF in Rust, 32 lists a power of two (the crate itself)",
    "malloc O(1), free O(1)",
    heap_init,
    rlsf_malloc,
    rlsf_free,
    rlsf_realloc,
    heap_aligned_alloc,
    rlsf_usable_size,
    foreign_no_check,
    heap_usage,
    foreign_area_size,
};
