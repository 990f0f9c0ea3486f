// The worst cases of TLSF 2008, section 6.1, counted by lab/steps' stepcount: malloc of each size from one large free
// block, and free of a block between two free ones, each the only one of its list. For lib*-single.so.
#include "load.h"

static void one_size(size_t size, size_t neighbour) {
  char *before = marked_malloc(neighbour), *middle = marked_malloc(size), *behind = marked_malloc(2 * neighbour + 64);
  char *last = marked_malloc(16);
  if (!before || !middle || !behind || !last) load_fail("no memory for %zu bytes", size);
  marked_free(before, neighbour);
  marked_free(behind, 2 * neighbour + 64);
  marked_free(middle, size);
  marked_free(last, 16);
}

int main(int count, char **arguments) {
  uint64_t seed = 1;
  const struct load_option options[] = {{"seed", &seed, "changes nothing", false}};
  (void)count;
  LOAD_OPTIONS(arguments, options);
  marks_open();
  marked_free(marked_malloc(1), 1); /* makes the heap */
  marks_start();
  for (size_t size = 1; size < 1 << 20; size += size / 5 + 1)
    for (size_t neighbour = 100; neighbour < 1 << 19; neighbour *= 7) one_size(size, neighbour);
  return 0;
}
