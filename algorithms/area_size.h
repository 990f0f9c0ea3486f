// How large an area must be, for allocators that coalesce before they fail. Used by all but binary buddy and TLSF
// (which has the same formula in its own file, to stand alone).
#ifndef ALGORITHMS_AREA_SIZE_H
#define ALGORITHMS_AREA_SIZE_H

#include <stddef.h>

// Bytes for init, as struct algorithm's area_size says, where a request whose whole block is b fails only if every
// free block is shorter than fails_below(b), a non-decreasing function. With A the alignment, S the smallest block, L
// = live, and the largest over all m <= largest:
//   (L - m) + k S + (k + 1) (fails_below(m + A) - A) + A + control, where k = (L - m) / A
// Proof: at the failure the other live requests sum to at most L - m, so that there are at most k of them. Each takes
// at most S more than its rounded request (header, and a rest too small to split off). No two free blocks are
// neighbours, so that there are at most k + 1, each at least one alignment unit shorter than fails_below(m + A).
// Source: this proof. It is of the order of what TLSF 2008, section 5.3, quotes of Robson (1977) for best fit: live *
// (largest - 2), in units.
size_t area_size_coalescing(size_t live, size_t largest, size_t control, double (*fails_below)(double block));

// For policies that find any free block that suffices.
double area_size_fails_below_itself(double block);
// For Half-fit: only lists of which every block suffices are looked at, so that the next power of two is what counts.
double area_size_fails_below_power(double block);

#endif
