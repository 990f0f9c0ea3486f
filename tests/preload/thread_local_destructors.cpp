// C++ thread_local objects allocate and free in their destructors, hand blocks to main, and free
// blocks that main allocated, while their thread ends.
#include "check.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

enum { THREADS = 200 };
static void *from_main[THREADS];    // allocated by main, freed by the thread's destructor
static void *from_thread[THREADS];  // allocated by the thread's destructor, freed by main

struct Early {  // constructed first, so destroyed last
    size_t index = 0;
    std::vector<std::string> lines;
    ~Early() {
        lines.clear();
        lines.resize(30, std::string(3000, 'e'));
        CHECK(mark_holds(from_main[index], 100 + index), "main's block was overwritten");
        free(from_main[index]);
        from_thread[index] = malloc(200 + index);
        CHECK(from_thread[index] != nullptr);
        mark_fill(from_thread[index], 200 + index);
    }
};
static thread_local Early early;

struct Late {
    std::unique_ptr<std::string> text = std::make_unique<std::string>(40000, 'l');
    ~Late() {
        early.lines.push_back(*text);
        text = std::make_unique<std::string>(70000, 'm');
    }
};
static thread_local Late late;

static void body(size_t index) {
    early.index = index;
    early.lines.assign(10, std::string(index * 10 + 1, 'x'));
    CHECK(late.text->size() == 40000);
}

int main() {
    for (size_t round = 0; round < THREADS; round += 8) {
        std::vector<std::thread> threads;
        for (size_t i = round; i < round + 8; i++) {
            from_main[i] = malloc(100 + i);
            CHECK(from_main[i] != nullptr);
            mark_fill(from_main[i], 100 + i);
            threads.emplace_back(body, i);
        }
        for (auto &thread : threads) thread.join();
    }
    for (size_t i = 0; i < THREADS; i++) {
        CHECK(mark_holds(from_thread[i], 200 + i), "thread %zu's last block was overwritten", i);
        free(from_thread[i]);
    }
    return 0;
}
