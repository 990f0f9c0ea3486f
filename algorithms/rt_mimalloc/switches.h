// Each change of the paper's Table V is a switch of its own; a setting is a row of them. They are read here only.
//
// RT_MIMALLOC_SETTING   original | seg | pag, default original: mimalloc 1.7.9 as section V describes it
// and single ones, which win over the setting:
// RT_MIMALLOC_FREE_SEGMENTS    0 | 1           does an empty segment go back?              (mi_segment_free)
// RT_MIMALLOC_FREE_PAGES       all | not-huge | none   which empty pages go back to it?    (_mi_page_free)
// RT_MIMALLOC_EXTEND           proportional | two | whole                                  (mi_page_free_list_extend)
// RT_MIMALLOC_FIND             linear | bitmap                                             (mi_segment_find_free)
// RT_MIMALLOC_DIRECT           entries | pointer                                           (pages_direct)
// RT_MIMALLOC_COLLECT_RETIRED  0 | 1                                                       (_mi_heap_collect_retired)
// RT_MIMALLOC_PREPARE          nothing | segments | pages   what a profile holds
// and RT_MIMALLOC_LOAD=file, RT_MIMALLOC_SAVE=file: load_profile at the start, save_profile at exit.
//
// Built with RTMI_FIXED (original, seg or pag) the switches are constants, and cost nothing.
#ifndef RT_MIMALLOC_SWITCHES_H
#define RT_MIMALLOC_SWITCHES_H

#include <stdbool.h>

enum rtmi_free_pages { FREE_ALL, FREE_NOT_HUGE, FREE_NONE };
enum rtmi_extend { EXTEND_PROPORTIONAL, EXTEND_TWO, EXTEND_WHOLE };
enum rtmi_find { FIND_LINEAR, FIND_BITMAP };
enum rtmi_direct { DIRECT_ENTRIES, DIRECT_POINTER };
enum rtmi_prepare { PREPARE_NOTHING, PREPARE_SEGMENTS, PREPARE_PAGES };

struct rtmi_switches {
  int free_segments;  // 0 or 1
  int free_pages;     // enum rtmi_free_pages, and so on
  int extend;
  int find;
  int direct;
  int collect_retired;  // 0 or 1
  int prepare;
};

// Table V. pag needs no search in a segment once its profile is loaded; before, it takes seg's.
#define RTMI_SETTING_original \
  { 1, FREE_ALL, EXTEND_PROPORTIONAL, FIND_LINEAR, DIRECT_ENTRIES, 1, PREPARE_NOTHING }
#define RTMI_SETTING_seg \
  { 0, FREE_NOT_HUGE, EXTEND_TWO, FIND_BITMAP, DIRECT_POINTER, 0, PREPARE_SEGMENTS }
#define RTMI_SETTING_pag \
  { 0, FREE_NONE, EXTEND_WHOLE, FIND_BITMAP, DIRECT_POINTER, 0, PREPARE_PAGES }

#ifdef RTMI_FIXED
#define RTMI_PASTE(a, b) a##b
#define RTMI_SETTING(name) RTMI_PASTE(RTMI_SETTING_, name)
static const struct rtmi_switches rtmi_switches = RTMI_SETTING(RTMI_FIXED);
// For initializers, which take no field of a structure.
enum { RTMI_POINTERS_original = 0, RTMI_POINTERS_seg = 1, RTMI_POINTERS_pag = 1 };
#define RTMI_POINTERS(name) RTMI_PASTE(RTMI_POINTERS_, name)
enum { RTMI_STARTS_WITH_POINTERS = RTMI_POINTERS(RTMI_FIXED) };
#else
extern struct rtmi_switches rtmi_switches;
enum { RTMI_STARTS_WITH_POINTERS = 0 };
#endif

// Reads the environment. Before that the switches are those of `original`. A value that is not understood ends the
// program with a message and status 2.
void rtmi_read_switches(void);

#endif
