// Best fit; the contract is struct algorithm (algorithm.h), the policy is described in best_fit.c.
#ifndef ALGORITHMS_BEST_FIT_H
#define ALGORITHMS_BEST_FIT_H

#include "algorithm.h"

extern const struct algorithm algorithm_best_fit;

#endif
