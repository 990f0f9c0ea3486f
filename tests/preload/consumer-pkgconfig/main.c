// Calls rtmalloc by its own names, as an installed library.
#include <rtmalloc.h>

#include <stdio.h>
#include <string.h>

int main(void) {
    char *block = rtm_malloc(100);
    if (block == NULL || rtm_usable_size(block) < 100) {
        fputs("rtm_malloc(100) failed\n", stderr);
        return 1;
    }
    memset(block, 'x', 100);
    rtm_free(block);
    return rtm_version() == 0;
}
