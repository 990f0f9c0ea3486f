// First fit; the contract is struct algorithm (algorithm.h), the policy is described in first_fit.c.
#ifndef ALGORITHMS_FIRST_FIT_H
#define ALGORITHMS_FIRST_FIT_H

#include "algorithm.h"

extern const struct algorithm algorithm_first_fit;

#endif
