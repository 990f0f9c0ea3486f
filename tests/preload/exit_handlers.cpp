// Exit handlers and destructors of static objects allocate, free what others allocated, and see
// their blocks unchanged; other threads still run meanwhile.
#include "check.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

static std::vector<std::string> *never_freed;
static void *from_main;
static std::atomic<int> running{0};

struct Global {
    std::vector<std::string> lines{200, std::string(100, 'g')};
    ~Global() {
        CHECK(lines[199][99] == 'g');
        lines.assign(300, std::string(3000, 'd'));
        never_freed = new std::vector<std::string>(100, std::string(100, 'n'));
    }
};
static Global global;

static void handler() {
    CHECK(mark_holds(from_main, 5000), "main's block was overwritten");
    free(from_main);
    for (size_t size = 1; size < 4 * MIB; size *= 3) {
        void *block = malloc(size);
        CHECK(block != nullptr);
        mark_fill(block, size);
        block = realloc(block, 2 * size);
        CHECK(block != nullptr);
        free(block);
    }
}

__attribute__((destructor(101))) static void last_destructor() {
    CHECK(never_freed != nullptr && (*never_freed)[99][99] == 'n');
    free(malloc(100));
    delete never_freed;
}

static void hammer() {
    running++;
    for (size_t size = 1;; size = size * 5 % 9973 + 1) {
        void *block = malloc(size);
        CHECK(block != nullptr);
        mark_fill(block, size);
        CHECK(mark_holds(block, size));
        free(block);
    }
}

int main() {
    CHECK(atexit(handler) == 0);
    from_main = malloc(5000);
    CHECK(from_main != nullptr);
    mark_fill(from_main, 5000);
    for (int i = 0; i < 3; i++) std::thread(hammer).detach();
    while (running < 3) std::this_thread::yield();
    exit(0);
}
