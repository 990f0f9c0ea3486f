// The whole allocation interface comes from the preloaded library, named by RTM_EXPECTED_LIBRARY:
// every function of the malloc family and every operator new and delete. Without this the other
// tests would pass on the system's malloc when the library is missing.
#include "check.h"

#include <dlfcn.h>

static void *const library_default = nullptr;  // RTLD_DEFAULT

static const char *const names[] = {
    "malloc", "calloc", "realloc", "reallocarray", "free", "free_sized", "free_aligned_sized", "aligned_alloc",
    "posix_memalign", "memalign", "valloc", "pvalloc", "malloc_usable_size", "malloc_trim", "mallinfo2",
    "_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t",
    "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t", "_ZnamSt11align_val_tRKSt9nothrow_t",
    "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm", "_ZdlPvRKSt9nothrow_t", "_ZdaPvRKSt9nothrow_t",
    "_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t", "_ZdlPvmSt11align_val_t", "_ZdaPvmSt11align_val_t",
    "_ZdlPvSt11align_val_tRKSt9nothrow_t", "_ZdaPvSt11align_val_tRKSt9nothrow_t",
};

int main() {
    const char *expected = getenv("RTM_EXPECTED_LIBRARY");
    CHECK(expected != nullptr, "set RTM_EXPECTED_LIBRARY to the library's path");
    char *expected_path = realpath(expected, nullptr);
    CHECK(expected_path != nullptr, "no such library: %s", expected);
    bool missing = false;
    for (const char *name : names) {
        void *symbol = dlsym(library_default, name);
        Dl_info from = {};
        if (symbol != nullptr) dladdr(symbol, &from);
        char *path = from.dli_fname != nullptr ? realpath(from.dli_fname, nullptr) : nullptr;
        if (path == nullptr || strcmp(path, expected_path) != 0) {
            dprintf(2, "%s comes from %s, expected %s\n", name, path != nullptr ? path : "nowhere", expected_path);
            missing = true;
        }
        free(path);
    }
    free(expected_path);
    return missing ? 1 : 0;
}
