// The malloc that the program runs with (LD_PRELOAD), as one of the papers' allocators, so that rtmalloc stands in
// their tables. Layer: lab/paper, below session.h.
//
// Its memory used is that of all granules in use, as rtm_stats says (a page counts whole), and what it has touched
// beside blocks, its own tables. A malloc without rtm_stats has none.
#ifndef PAPER_PROCESS_MALLOC_H
#define PAPER_PROCESS_MALLOC_H

#include <stdint.h>

#include "algorithm.h"

// Named 'malloc'. There is one heap, the process's; `init` gives it whatever the memory.
extern const struct algorithm algorithm_process_malloc;

// Bytes.
struct process_memory {
  size_t in_use;   // pages, medium and huge blocks
  size_t reserve;  // free, held, and not part of what is used
};
bool process_has_stats(void);
struct process_memory process_memory_now(void);
size_t process_usable_size(void *block);

// Bytes of anonymous memory that are resident outside of [low, high), where blocks are: the malloc's tables, and what
// the program itself has mapped without a name. O(pages); exits if the kernel does not say.
size_t process_metadata(const void *low, const void *high);

#endif
