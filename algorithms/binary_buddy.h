// Binary buddy (Knuth, The Art of Computer Programming, vol. 1, 2.5; comparison of 2006, section 2; Peterson and
// Norman 1977); the contract is struct algorithm (algorithm.h), the structure is described in binary_buddy.c.
//
// area_size, where A is the alignment, L = live, U the smallest block, 2^K U the block of `largest`, M = L max(2, U /
// A) the live blocks' sum, as no block is more than twice its request but the smallest:
//     (K + 1) M + 3 * 2^K U + control
// Proof. Call an aligned slot of 2^k units touched if some of it is in use, and let s(k) be the most memory that ever
// is in touched slots of 2^k in which only smaller blocks live. It grows only when a block of order j < k is cut out
// of a wholly free slot. As the smallest free block that suffices is taken, no free block of orders j to k - 1 exists
// then: the touched slots consist of touched slots of order j and blocks of orders j to k - 1. Hence s(k) <= max over
// j < k of s(j) + M + 2^k U, s(0) = 0, and s(k) <= k M + 2^(k + 1) U. When a request of order k fails, every slot of
// order k is touched or lies across the area's end: area < s(k) + M + 2^k U. Compare Robson (1974), for whom M (1 + K
// / 2) is what no allocator can do without.
#ifndef ALGORITHMS_BINARY_BUDDY_H
#define ALGORITHMS_BINARY_BUDDY_H

#include "algorithm.h"

extern const struct algorithm algorithm_binary_buddy;

#endif
