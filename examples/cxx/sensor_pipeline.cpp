// A sensor pipeline on pools: a sampling thread makes readings in its own thread-local pool, a filter thread works on
// them, a logger keeps the notable ones. Each stage drops what it does not pass on; the reading goes back to the
// sampler's pool from whichever thread was the last, without a lock, without the heap.
#include <cmath>
#include <cstdio>
#include <thread>

#include "rtmalloc/unique_ptr.hpp"
#include "spsc_ring.hpp"

namespace {

struct Reading {
  long time;  // sample number
  double values[8];
  double mean = 0;
};
using ReadingPointer = rtm::unique_ptr<Reading>;
using Ring = SpscRing<ReadingPointer, 64>;

constexpr long samples = 20000;

struct Sampler {
  rtm::RtMemoryPool<Reading> &pool;
  Ring &to_filter;
  long dropped = 0;

  void run() {
    pool.own();  // made by main, used from here on
    for (long time = 0; time < samples; ++time) {
      ReadingPointer reading = rtm::make_unique(pool, Reading{time, {}});
      if (!reading) {  // all are on their way: bounded memory means dropping, not waiting
        ++dropped;
        std::this_thread::yield();
        continue;
      }
      for (int i = 0; i < 8; ++i) reading->values[i] = std::sin(0.01 * static_cast<double>(time) + i);
      while (!to_filter.push(reading)) std::this_thread::yield();
    }
    ReadingPointer end;
    while (!to_filter.push(end)) std::this_thread::yield();
  }
};

void filter(Ring &from_sampler, Ring &to_logger, long &seen) {
  for (;;) {
    ReadingPointer reading;
    while (!from_sampler.pop(reading)) std::this_thread::yield();
    const bool end = !reading;
    if (!end) {
      ++seen;
      for (const double value : reading->values) reading->mean += value / 8;
      if (std::fabs(reading->mean) < 0.1) continue;  // not notable: back to the pool from here
    }
    while (!to_logger.push(reading)) std::this_thread::yield();
    if (end) return;
  }
}

}  // namespace

int main() {
  rtm::RtMemoryPool<Reading> pool(100, true, "readings");
  Ring to_filter, to_logger;
  Sampler sampler{pool, to_filter};
  long seen = 0, notable = 0, last_time = -1;
  bool in_order = true;
  std::thread sampling([&] { sampler.run(); });
  std::thread filtering([&] { filter(to_filter, to_logger, seen); });
  for (;;) {
    ReadingPointer reading;
    while (!to_logger.pop(reading)) std::this_thread::yield();
    if (!reading) break;
    ++notable;
    in_order = in_order && reading->time > last_time;
    last_time = reading->time;
  }
  sampling.join();
  filtering.join();
  const auto statistics = pool.statistics();
  std::printf("%ld samples, %ld dropped, %ld notable; pool: %zu of %zu at most, %zu out now\n", seen, sampler.dropped,
              notable, statistics.peak_use, statistics.capacity, statistics.in_use);
  return seen + sampler.dropped == samples && in_order && notable > 0 && statistics.in_use == 0 ? 0 : 1;
}
