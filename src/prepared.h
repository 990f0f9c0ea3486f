// The prepared heaps that wait for a thread, found by its start routine in constant time. Layer: above store. Called by
// mode.
//
// Start routine to its group: a table of buckets of four, with a multiplier chosen at load so that none overflows. In
// the group, a tree of bits says which heaps have no thread:
//
//     level 0   a bit for each heap
//     level l   a bit for each word of level l - 1;  level 2 is one word: 64^3 heaps of a routine at most
//
// Who starts a thread goes down the tree and clears the heap's bit (store_take_shared). No loop and no lock, unless
// other threads of the routine were three times a moment ahead. If nothing was found, all words are looked at: no bit
// is set, or a thread is just leaving its heap, or taking one.
#ifndef RTM_PREPARED_H
#define RTM_PREPARED_H

#include "store.h"

// Why loading fails, also where it is not this that fails.
RTM_HIDDEN extern const char prepared_no_memory[];
// Builds the table from the list (by `next`), and locks it; *bytes: what that takes. NULL, or why it failed. At load.
const char *prepared_index(struct stores *all, size_t *bytes, bool *permitted);
// The heap that has been waiting with the lowest number, as far as other threads leave it; NULL: none waits. O(1).
struct heap *prepared_take(uintptr_t routine);
// Another one of the same routine that waits, and was made with blocks of the bin; NULL: none of the first 64 that
// wait. O(heaps / 64).
struct heap *prepared_take_other(const struct stores *than, unsigned bin);
// Its thread has exited. O(1), wait-free.
void prepared_leave(struct stores *stores);

#endif
