// A plugin that allocates wherever a plugin can: in its constructors, in its functions, in
// thread_local objects and in its destructors. Loaded and unloaded by plugin_load.cpp.
#include "check.h"

#include <string>
#include <vector>

struct Global {
    std::vector<std::string> lines{100, std::string(100, 'l')};
    ~Global() {
        CHECK(lines[99][99] == 'l');
        lines.assign(100, std::string(1000, 'm'));
    }
};
static Global made_at_load;
static char *raw_block;

__attribute__((constructor)) static void at_load() {
    raw_block = static_cast<char *>(malloc(3000));
    CHECK(raw_block != nullptr);
    mark_fill(raw_block, 3000);
}

__attribute__((destructor)) static void at_unload() {
    CHECK(mark_holds(raw_block, 3000), "the constructor's block was overwritten");
    free(raw_block);
    std::vector<std::string> made_at_unload(100, std::string(200, 'u'));
    CHECK(made_at_unload[99][199] == 'u');
}

struct PerThread {
    std::vector<std::string> lines;
    PerThread() : lines(50, std::string(500, 't')) {}
    ~PerThread() {
        CHECK(lines[49][499] == 't');
        lines.assign(20, std::string(5000, 'd'));  // allocates and frees while the thread ends
    }
};
static thread_local PerThread per_thread;

// Returns a block of `size` marked bytes that the caller frees, maybe after the plugin is gone.
extern "C" void *plugin_work(size_t size) {
    per_thread.lines.push_back(std::string(1000, 't'));
    per_thread.lines.erase(per_thread.lines.begin());
    void *block = malloc(size);
    CHECK(block != nullptr);
    mark_fill(block, size);
    return block;
}
