// Linked with librtmalloc-override.o first: malloc is the program's own, for libc's calls too.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int from_libc(const char *name, void *symbol) {
    Dl_info from;
    if (symbol == NULL || dladdr(symbol, &from) == 0 || strstr(from.dli_fname, "libc.so") == NULL) return 0;
    fprintf(stderr, "%s comes from %s, not from librtmalloc-override.o\n", name, from.dli_fname);
    return 1;
}

int main(void) {
    static const char *const names[] = {"malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign",
                                        "malloc_usable_size", "reallocarray", "memalign"};
    int wrong = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) wrong += from_libc(names[i], dlsym(RTLD_DEFAULT, names[i]));
    wrong += from_libc("malloc, as linked", (void *)(uintptr_t)malloc);
    char *copied = strdup("allocated within libc");
    wrong += copied == NULL || malloc_usable_size(copied) < strlen(copied) + 1;
    free(copied);
    char *line = NULL;
    size_t room = 0;
    FILE *self = fopen("/proc/self/maps", "r");
    wrong += self == NULL || getline(&line, &room, self) <= 0;
    free(line);
    if (self != NULL) fclose(self);
    return wrong != 0;
}
