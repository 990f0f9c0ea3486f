// The allocators by name. A new one is a file of its own and a line here.
#include <string.h>

#include "best_fit.h"
#include "binary_buddy.h"
#include "dlmalloc_272.h"
#include "dlmalloc_283.h"
#include "first_fit.h"
#include "half_fit.h"
#include "next_fit.h"
#include "tlsf_algorithm.h"

static const struct algorithm *const all[] = {
    &algorithm_first_fit,    &algorithm_best_fit,     &algorithm_next_fit,
    &algorithm_binary_buddy, &algorithm_dlmalloc_272, &algorithm_dlmalloc_283,
    &algorithm_half_fit,     &algorithm_tlsf,         NULL,
};

const struct algorithm *const *algorithms_all(void) { return all; }

const struct algorithm *algorithms_find(const char *name) {
  for (size_t i = 0; all[i]; i++) {
    if (strcmp(all[i]->name, name) == 0) return all[i];
  }
  return NULL;
}
