// larson: a server whose worker threads come and go, and leave their live objects to their successors.
// P. Larson, M. Krishnan: Memory allocation for long-running server applications. ISMM 1998 ("bleeding").
// larson [scale] [threads]: scale multiplies the number of worker threads started in all (600); threads is how many
// run at the same time.
#include "larson.h"

static void release(void *block, size_t) { ::operator delete(block); }

int main(int argc, char **argv) { return larson::run<release>(argc, argv, "larson"); }
