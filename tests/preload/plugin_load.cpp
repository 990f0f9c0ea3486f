// A plugin that allocates everywhere is loaded, used by a thread and unloaded, a hundred times.
// Its blocks outlive it. The argument is the plugin's path.
#include "check.h"

#include <dlfcn.h>

#include <thread>

int main(int argc, char **argv) {
    CHECK(argc == 2, "usage: plugin_load PLUGIN");
    for (size_t round = 0; round < 100; round++) {
        void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        CHECK(plugin != nullptr, "%s", dlerror());
        auto work = reinterpret_cast<void *(*)(size_t)>(dlsym(plugin, "plugin_work"));
        CHECK(work != nullptr, "%s", dlerror());
        size_t size = 1 + round * 997;
        void *from_thread = nullptr;
        std::thread([&] { from_thread = work(size); }).join();
        void *from_main = round == 0 ? work(size) : nullptr;  // main's thread_local keeps one load alive
        dlclose(plugin);
        CHECK(mark_holds(from_thread, size), "round %zu: the plugin's block was overwritten", round);
        CHECK(from_main == nullptr || mark_holds(from_main, size));
        free(from_thread);
        free(from_main);
    }
    return 0;
}
