// The body of larson.cc and larson_sized.cc, which differ only in how a block is returned.
//
// A chain is a row of threads, one after the other. Each inherits an array of live blocks, replaces random ones, starts
// its successor, hands it the whole array and ends: a successor frees blocks whose allocating thread is gone. Each
// chain has its own random stream, so what is requested does not depend on timing.
#ifndef RTMALLOC_LAB_LARSON_H
#define RTMALLOC_LAB_LARSON_H

#include "load.h"
#include <new>

namespace larson {

constexpr uint32_t min_bytes = 8, max_bytes = 1024;
constexpr uint32_t live_blocks = 5000;       // of each chain
constexpr uint32_t replaced_by_each = 20000; // by one thread of a chain

struct slot {
    void *block;
    uint32_t bytes;
};

struct chain {
    struct rng rng;
    uint64_t generations_left;
    uint64_t sum;         // of the cookies of all blocks freed
    bool has_predecessor;
    pthread_t predecessor, last;
    pthread_mutex_t lock;
    pthread_cond_t ended; // with `done`: the last thread of the chain has started and is about to end
    bool done;
    slot slots[live_blocks];
};

inline void fill(chain &c, slot &s) {
    s.bytes = rng_between(&c.rng, min_bytes, max_bytes);
    s.block = ::operator new(s.bytes, std::nothrow);
    if (s.block == nullptr) load_fail("out of memory, bytes requested", s.bytes);
    block_stamp(s.block, s.bytes, rng_next(&c.rng) >> 32);
}

// Release(block, bytes) returns the block to the allocator.
template <void (*Release)(void *, size_t)> void empty(chain &c, slot &s) {
    c.sum += block_check(s.block);
    Release(s.block, s.bytes);
}

template <void (*Release)(void *, size_t)> void *generation(void *job) {
    chain &c = *static_cast<chain *>(job);
    if (c.has_predecessor) load_join(c.predecessor); // it only had to start this thread: no wait worth the name
    for (uint32_t i = 0; i < replaced_by_each; i++) {
        slot &s = c.slots[rng_below(&c.rng, live_blocks)];
        empty<Release>(c, s);
        fill(c, s);
    }
    c.has_predecessor = true;
    c.predecessor = pthread_self();
    if (--c.generations_left > 0) {
        load_start(generation<Release>, &c); // from here on the chain belongs to the successor
        return nullptr;
    }
    pthread_mutex_lock(&c.lock);
    c.last = pthread_self();
    c.done = true;
    pthread_cond_signal(&c.ended);
    pthread_mutex_unlock(&c.lock);
    return nullptr;
}

template <void (*Release)(void *, size_t)> int run(int argc, char **argv, const char *name) {
    const struct load load = load_begin(argc, argv, name, 1);
    const uint64_t generations = load_scaled(&load, 600); // of all chains
    chain *chains = new chain[static_cast<size_t>(load.threads)]();
    for (int i = 0; i < load.threads; i++) {
        chain &c = chains[i];
        c.rng = rng_stream(static_cast<uint64_t>(i));
        c.generations_left = load_share(generations, load.threads, i);
        pthread_mutex_init(&c.lock, nullptr);
        pthread_cond_init(&c.ended, nullptr);
        for (slot &s : c.slots) fill(c, s);
        if (c.generations_left > 0) load_start(generation<Release>, &c);
    }
    uint64_t sum = 0;
    for (int i = 0; i < load.threads; i++) {
        chain &c = chains[i];
        if (load_share(generations, load.threads, i) > 0) {
            pthread_mutex_lock(&c.lock);
            while (!c.done) pthread_cond_wait(&c.ended, &c.lock);
            pthread_mutex_unlock(&c.lock);
            load_join(c.last);
        }
        for (slot &s : c.slots) empty<Release>(c, s);
        sum += c.sum;
        pthread_cond_destroy(&c.ended);
        pthread_mutex_destroy(&c.lock);
    }
    delete[] chains;
    return load_end(&load, sum);
}

} // namespace larson

#endif
