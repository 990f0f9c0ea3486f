// Every size from 0 to 70,000: aligned to 16, usable at least as large as asked, writable to the
// end of what is usable, and not overlapping its neighbours.
#include "check.h"

#include <malloc.h>

enum { MOST = 70000, KEPT = 64 };

int main(void) {
    unsigned char *kept[KEPT] = {NULL};
    size_t usable[KEPT] = {0};
    CHECK(malloc_usable_size(NULL) == 0);
    for (size_t size = 0; size <= MOST; size++) {
        size_t slot = size % KEPT;
        CHECK(kept[slot] == NULL || mark_holds(kept[slot], usable[slot]), "a block of %zu bytes was overwritten",
              size - KEPT);
        free(kept[slot]);
        kept[slot] = malloc(size);
        CHECK(kept[slot] != NULL, "size %zu", size);
        CHECK((uintptr_t)kept[slot] % 16 == 0, "malloc(%zu) gave %p", size, (void *)kept[slot]);
        usable[slot] = malloc_usable_size(kept[slot]);
        CHECK(usable[slot] >= size, "%zu usable of %zu", usable[slot], size);
        mark_fill(kept[slot], usable[slot]);
    }
    for (int i = 0; i < KEPT; i++) {
        CHECK(mark_holds(kept[i], usable[i]), "a block was overwritten");
        free(kept[i]);
    }
    return 0;
}
