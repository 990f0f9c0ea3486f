// cache_thrash: active false sharing. Threads that own nothing allocate, write and free small objects: an allocator
// that cuts one cache line into blocks for several threads makes them fight for the line.
// E. Berger et al.: Hoard: a scalable memory allocator for multithreaded applications. ASPLOS 2000, section 5.2.
// cache_thrash [scale] [threads]: scale multiplies the objects (1.2 million, dealt to the threads, each written 1000
// times).
#include "false_sharing.h"

int main(int argc, char **argv) { return false_sharing_main(argc, argv, "cache_thrash", false); }
