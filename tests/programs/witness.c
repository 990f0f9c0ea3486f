// Preloaded before the library under test: appends to the file RTM_WITNESS, for every process that
// starts, the file that its malloc comes from. So a test knows that the library really was in use,
// in the program and in each program that this one starts. RTLD_NEXT, because the address of malloc
// in a program that is not position-independent is that of the program's own jump to it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

__attribute__((constructor)) static void bear_witness(void) {
    const char *path = getenv("RTM_WITNESS");
    Dl_info from;
    void *symbol = dlsym(RTLD_NEXT, "malloc");
    if (path == NULL || symbol == NULL || dladdr(symbol, &from) == 0) return;
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0) return;
    struct iovec line[] = {{(void *)from.dli_fname, strlen(from.dli_fname)}, {(void *)"\n", 1}};
    ssize_t written = writev(file, line, 2);  // one call: lines of several processes do not mix
    (void)written;
    close(file);
}
