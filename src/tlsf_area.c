// See tlsf_area.h.
#include "tlsf_area.h"

#include "../algorithms/tlsf.c"
