// TLSF over a caller's memory is that of algorithms/: compiled into the library under names of its own, as a program
// may link libalgorithms.a too. Include it last: from here on these names stand for others. Layer: bottom. Called by
// area.
#ifndef RTM_TLSF_AREA_H
#define RTM_TLSF_AREA_H

#define tlsf rtm_area_tlsf
#define tlsf_config_default rtm_tlsf_config_default
#define tlsf_init rtm_tlsf_init
#define tlsf_overhead rtm_tlsf_overhead
#define tlsf_add_area rtm_tlsf_add_area
#define tlsf_malloc rtm_tlsf_malloc
#define tlsf_free rtm_tlsf_free
#define tlsf_realloc rtm_tlsf_realloc
#define tlsf_aligned_alloc rtm_tlsf_aligned_alloc
#define tlsf_usable_size rtm_tlsf_usable_size
#define tlsf_usage rtm_tlsf_usage
#define tlsf_visit rtm_tlsf_visit
#define tlsf_check rtm_tlsf_check
#define tlsf_area_size rtm_tlsf_area_size
#define tlsf_mapping_insert rtm_tlsf_mapping_insert
#define tlsf_mapping_search rtm_tlsf_mapping_search
#define tlsf_generic_ffs rtm_tlsf_generic_ffs
#define tlsf_generic_fls rtm_tlsf_generic_fls

#include "../algorithms/tlsf.h"

#endif
