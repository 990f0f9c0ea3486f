// larson_sized: larson with C++14 sized deallocation, where the allocator is told the size of what it gets back.
// P. Larson, M. Krishnan: Memory allocation for long-running server applications. ISMM 1998; C++ proposal N3778.
// larson_sized [scale] [threads]: scale multiplies the number of worker threads started in all (600); threads is how
// many run at the same time.
#include "larson.h"

static void release(void *block, size_t bytes) { ::operator delete(block, bytes); }

int main(int argc, char **argv) { return larson::run<release>(argc, argv, "larson_sized"); }
