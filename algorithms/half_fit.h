// Half-fit (Ogasawara 1995); the contract is struct algorithm (algorithm.h), the policy is described in half_fit.c.
#ifndef ALGORITHMS_HALF_FIT_H
#define ALGORITHMS_HALF_FIT_H

#include "algorithm.h"

extern const struct algorithm algorithm_half_fit;

#endif
