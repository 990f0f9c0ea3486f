// trace_format.h: the file that librtmalloc-trace.so writes. docs/traces.md explains it; the reader is
// tools/rtmalloc/rtmalloc_tools/trace/trace_format.py, which must hold the same numbers.
//
//     header (4096 bytes) | chunk | chunk | ...
//
// A chunk is a range that one thread at a time writes to: 24-byte records, zero where nothing is written yet. Its first
// record says how long it is; a THREAD record says whose records follow. All numbers are little-endian.
#ifndef TRACE_FORMAT_H
#define TRACE_FORMAT_H

#include <stdint.h>

#define TRACE_MAGIC "RTMTRACE"
enum { TRACE_VERSION = 1, TRACE_BYTE_ORDER = 0x01020304 };
enum { TRACE_HEADER_BYTES = 4096, TRACE_COMMAND_AT = 1024 };

// What a record tells, with its two words. A block's address is its name from its allocation to its free.
enum trace_operation {
  TRACE_CHUNK = 1,    // address: bytes of the chunk; size: 0
  TRACE_THREAD,       // address: how often this thread has said so before; size: its number, from 1
  TRACE_MALLOC,       // address (0: no memory), size; operator new too
  TRACE_CALLOC,       // address, size: the product
  TRACE_ALIGNED,      // address, size; the alignment is in the stamp
  TRACE_FREE,         // address; operator delete too
  TRACE_RESIZE_FROM,  // address: realloc is called with it; the same thread's next record is RESIZE_TO
  TRACE_RESIZE_TO,    // address (0: no memory, or size 0), size
};

// 24 bytes. stamp: ticks since the header's start_ticks << 12 | log2 of the alignment << 6 | operation. It is written
// last: 0 means that there is no record yet. A release is stamped before the call and an allocation after it, so that of
// two threads that had the same address one after the other, the first one's free has the earlier stamp.
struct trace_record {
  uint64_t stamp, address, size;
};
enum { TRACE_TICKS_SHIFT = 12, TRACE_ALIGNMENT_SHIFT = 6, TRACE_OPERATION_MASK = 63 };

struct trace_header {
  char magic[8];
  uint32_t version, header_bytes, record_bytes;
  uint32_t machine;           // ELF's e_machine: 62 x86-64, 183 aarch64
  uint32_t byte_order;
  uint32_t process, parent;   // pids
  uint32_t exited;            // 1 once the exit handlers have run
  uint32_t stopped;           // errno that ended the recording early; 0: none
  uint32_t forked;            // 1: the process began by fork, blocks of its parent may be freed
  uint64_t ticks_per_second;  // the larger the file, the better known: see end_ticks
  uint64_t start_ticks, start_ns, end_ticks, end_ns;  // the counter and CLOCK_MONOTONIC_RAW at the start, at the end
  uint64_t date;              // CLOCK_REALTIME at the start, seconds
  uint64_t used;              // bytes of the file that hold chunks, the header included
  uint64_t dropped;           // calls that were not recorded, since `stopped`
  // Written by `rtmalloc trace record` when the process is gone.
  uint32_t finished;          // 1: the fields below hold
  int32_t status;             // exit status; -n: ended by signal n
  uint32_t chunks_crc;        // CRC-32 of the bytes from header_bytes to used
  uint32_t header_crc;        // CRC-32 of the header with this field 0
};
_Static_assert(sizeof(struct trace_header) == 128, "the reader unpacks 128 bytes");
_Static_assert(sizeof(struct trace_record) == 24, "the reader unpacks 24 bytes");
// At TRACE_COMMAND_AT: the command line, words ended by 0, cut to what fits.

#endif
