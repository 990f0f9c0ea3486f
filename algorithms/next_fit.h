// Next fit; the contract is struct algorithm (algorithm.h), the policy is described in next_fit.c.
#ifndef ALGORITHMS_NEXT_FIT_H
#define ALGORITHMS_NEXT_FIT_H

#include "algorithm.h"

extern const struct algorithm algorithm_next_fit;

#endif
