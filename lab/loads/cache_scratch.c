// cache_scratch: passive false sharing. Each thread gets one small object from the main thread, frees it, and then
// allocates and writes objects of the same size. An allocator that gives a thread the very block that it freed may
// leave two threads writing to neighbours in one cache line.
// E. Berger et al.: Hoard: a scalable memory allocator for multithreaded applications. ASPLOS 2000, section 5.2.
// cache_scratch [scale] [threads]: scale multiplies the objects (1.2 million, dealt to the threads, each written 1000
// times).
#include "false_sharing.h"

int main(int argc, char **argv) { return false_sharing_main(argc, argv, "cache_scratch", true); }
