// Profiles: section VI.A. Above page.h and segment.h; called by heap.c. load_profile and save_profile: rt_mimalloc.h.
#ifndef RT_MIMALLOC_PROFILE_H
#define RT_MIMALLOC_PROFILE_H

#include "structure.h"

// Makes what the loaded profile says, if one is loaded: as much as there is memory for.
void rtmi_profile_prepare(struct heap *heap);

#endif
