// plan.h: what replay.c plays: a trace whose blocks are numbered. Written by rtlab/replay/plan.py for this machine only.
//
//     header | thread[threads] | window[windows] (uint32, operations of each) | padding to 8 | operation[operations]
#ifndef RTLAB_PLAN_H
#define RTLAB_PLAN_H

#include <stdint.h>

enum { PLAN_MAGIC = 0x4e414c50, PLAN_VERSION = 1 };
enum plan_kind { PLAN_MALLOC = 1, PLAN_CALLOC, PLAN_ALIGNED, PLAN_FREE, PLAN_RESIZE };

struct plan_header {
  uint32_t magic, version;
  uint64_t threads, windows, blocks, operations;
};
struct plan_thread {
  uint64_t first, count;  // its operations
};
struct plan_operation {
  uint64_t size;
  uint32_t block;   // taken, or freed
  uint32_t old;     // PLAN_RESIZE: the block that it was
  uint32_t window;  // which part of the trace: see replay.c
  uint8_t kind, alignment;  // alignment: log2
  uint8_t unused[2];
};
_Static_assert(sizeof(struct plan_header) == 40 && sizeof(struct plan_operation) == 24, "plan.py packs these");

#endif
