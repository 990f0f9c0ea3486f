// Every form of operator new and delete, called by name (new-expressions may be optimized away):
// alignment and contents hold, the new handler is called, impossible sizes throw or return null.
#include "check.h"

#include <cstddef>
#include <cstdint>
#include <new>

static const std::size_t sizes[] = {0, 1, 15, 16, 17, 100, 1000, 4096, 5000, 40000, 300000, 3000000, 20000000};
static const std::size_t alignments[] = {1, 8, 16, 32, 64, 256, 4096, 65536, 4194304};

static void use(void *block, std::size_t size, std::size_t alignment) {
    CHECK(block != nullptr, "size %zu, alignment %zu", size, alignment);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % alignment == 0, "%p for alignment %zu", block, alignment);
    mark_fill(block, size);
    CHECK(mark_holds(block, size));
}

static void plain(std::size_t size) {
    const std::nothrow_t &nothrow = std::nothrow;
    void *blocks[8];
    for (int i = 0; i < 4; i++) blocks[i] = i % 2 == 0 ? ::operator new(size) : ::operator new(size, nothrow);
    for (int i = 4; i < 8; i++) blocks[i] = i % 2 == 0 ? ::operator new[](size) : ::operator new[](size, nothrow);
    for (void *block : blocks) use(block, size, 16);
    for (void *block : blocks) CHECK(mark_holds(block, size), "blocks of %zu bytes overlap", size);
    ::operator delete(blocks[0]);
    ::operator delete(blocks[1], nothrow);
    ::operator delete(blocks[2], size);
    ::operator delete(blocks[3]);
    ::operator delete[](blocks[4]);
    ::operator delete[](blocks[5], nothrow);
    ::operator delete[](blocks[6], size);
    ::operator delete[](blocks[7]);
}

static void aligned(std::size_t size, std::size_t bytes) {
    const std::nothrow_t &nothrow = std::nothrow;
    const auto alignment = static_cast<std::align_val_t>(bytes);
    void *blocks[8];
    for (int i = 0; i < 4; i++)
        blocks[i] = i % 2 == 0 ? ::operator new(size, alignment) : ::operator new(size, alignment, nothrow);
    for (int i = 4; i < 8; i++)
        blocks[i] = i % 2 == 0 ? ::operator new[](size, alignment) : ::operator new[](size, alignment, nothrow);
    for (void *block : blocks) use(block, size, bytes);
    for (void *block : blocks) CHECK(mark_holds(block, size), "blocks of %zu bytes overlap", size);
    ::operator delete(blocks[0], alignment);
    ::operator delete(blocks[1], alignment, nothrow);
    ::operator delete(blocks[2], size, alignment);
    ::operator delete(blocks[3], alignment);
    ::operator delete[](blocks[4], alignment);
    ::operator delete[](blocks[5], alignment, nothrow);
    ::operator delete[](blocks[6], size, alignment);
    ::operator delete[](blocks[7], alignment);
}

static void deletes_of_null() {
    const std::nothrow_t &nothrow = std::nothrow;
    const auto alignment = std::align_val_t(64);
    ::operator delete(nullptr);
    ::operator delete[](nullptr);
    ::operator delete(nullptr, std::size_t(8));
    ::operator delete[](nullptr, std::size_t(8));
    ::operator delete(nullptr, nothrow);
    ::operator delete[](nullptr, nothrow);
    ::operator delete(nullptr, alignment);
    ::operator delete[](nullptr, alignment);
    ::operator delete(nullptr, std::size_t(8), alignment);
    ::operator delete[](nullptr, std::size_t(8), alignment);
}

template <typename Allocate>
static bool throws_bad_alloc(Allocate allocate) {
    try {
        allocate();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

static int handler_calls;

static void handler_that_gives_up() {
    if (++handler_calls == 3) std::set_new_handler(nullptr);
}

template <typename Allocate>
static void impossible(Allocate allocate, bool throwing, const char *form) {
    void *block = nullptr;
    std::set_new_handler(nullptr);
    CHECK(throws_bad_alloc([&] { block = allocate(); }) == throwing, "%s", form);
    CHECK(block == nullptr, "%s", form);
    handler_calls = 0;
    std::set_new_handler(handler_that_gives_up);
    CHECK(throws_bad_alloc([&] { block = allocate(); }) == throwing, "%s with a handler", form);
    CHECK(block == nullptr, "%s with a handler", form);
    CHECK(handler_calls == 3, "%s: the handler was called %d times, expected 3", form, handler_calls);
    std::set_new_handler([] { throw std::bad_alloc(); });  // what handlers are allowed to do
    CHECK(throws_bad_alloc([&] { block = allocate(); }) == throwing, "%s with a throwing handler", form);
    CHECK(block == nullptr, "%s with a throwing handler", form);
}

int main() {
    for (std::size_t size : sizes) {
        plain(size);
        for (std::size_t alignment : alignments) aligned(size, alignment);
    }
    deletes_of_null();
    volatile std::size_t most = SIZE_MAX / 2;  // volatile: the compiler would warn, and know
    const auto by64 = std::align_val_t(64);
    impossible([&] { return ::operator new(most); }, true, "new");
    impossible([&] { return ::operator new[](most); }, true, "new[]");
    impossible([&] { return ::operator new(most, std::nothrow); }, false, "new nothrow");
    impossible([&] { return ::operator new[](most, std::nothrow); }, false, "new[] nothrow");
    impossible([&] { return ::operator new(most, by64); }, true, "new aligned");
    impossible([&] { return ::operator new[](most, by64); }, true, "new[] aligned");
    impossible([&] { return ::operator new(most, by64, std::nothrow); }, false, "new aligned nothrow");
    impossible([&] { return ::operator new[](most, by64, std::nothrow); }, false, "new[] aligned nothrow");
    return 0;
}
