// TLSF behind the common interface, with its defaults: J = 5, round-up split. tlsf.h has everything else.
#ifndef ALGORITHMS_TLSF_ALGORITHM_H
#define ALGORITHMS_TLSF_ALGORITHM_H

#include "algorithm.h"

extern const struct algorithm algorithm_tlsf;

#endif
