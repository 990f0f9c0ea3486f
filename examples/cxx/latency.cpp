// The paper's test (Shen, Hamal, Ganzenmüller 2011, section 4.3): a high-priority thread acquires objects while a noise
// thread hammers the heap with blocks of changing size. The time of each acquisition, in cycles.
//
//   latency --source pool                                10^6 acquisitions, 5 runs
//   latency --source malloc                              the same from the heap: the paper's test case B
//   LD_PRELOAD=libmimalloc.so latency --source malloc    from another heap, which the noise is on too
//   latency --source nothing                             the timer alone: what the machine adds
//   latency --source pool --long                         10^9 acquisitions, some minutes
//   latency --source pool --out pool.csv                 the histogram: cycles_from,cycles_to,voted,all
//
// `rtlab paper pool` runs all sources on all heaps and draws the paper's figures 7 and 8.
//
// The load: bursts of 1 to 100 acquisitions (--held 1000: to 1000, more than the first cache holds), then all of the
// burst are returned; after 5000 the thread sleeps for a moment, as periodic threads do (and as the kernel wants of
// real-time threads). Only acquisitions are timed.
//
// Voting: the same load runs 5 times and the fastest time of each acquisition counts, so that interrupts of the
// machine, which hit another acquisition in each run, drop out. Both are shown. Loads longer than 10^6 are voted on in
// batches of 10^6, each of which starts with nothing held.
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include <ctime>
#endif

#include "rtmalloc/memory_pool.hpp"

namespace {

// ---- time ----

#if defined(__x86_64__)
// The fences keep the timed instructions between the two readings, and the stores before them out of their way.
std::uint64_t now_before() {
  _mm_mfence();
  _mm_lfence();
  const std::uint64_t time = __rdtsc();
  _mm_lfence();
  return time;
}
std::uint64_t now_after() {
  unsigned processor;
  const std::uint64_t time = __rdtscp(&processor);
  _mm_lfence();
  return time;
}
constexpr const char *unit = "cycles";
#else
std::uint64_t now_before() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1000000000u + static_cast<std::uint64_t>(time.tv_nsec);
}
std::uint64_t now_after() { return now_before(); }
constexpr const char *unit = "nanoseconds";
#endif

// Exact below 1024, then 64 steps a doubling.
class Histogram {
 public:
  void add(std::uint64_t value) {
    ++counts_[bucket(value)];
    ++total_;
    longest_ = std::max(longest_, value);
  }
  std::uint64_t total() const { return total_; }
  std::uint64_t longest() const { return longest_; }

  // The end of the bucket in which this share of the values is reached.
  std::uint64_t percentile(double percent) const {
    const auto wanted = static_cast<std::uint64_t>(percent / 100 * static_cast<double>(total_) + 0.999999);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < buckets; ++i)
      if ((seen += counts_[i]) >= wanted) return std::min(from(i + 1) - 1, longest_);
    return longest_;
  }
  double percent_up_to(std::uint64_t value) const {
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i <= bucket(value); ++i) seen += counts_[i];
    return 100.0 * static_cast<double>(seen) / static_cast<double>(total_);
  }

  static constexpr std::size_t buckets = 1024 + 64 * 50;
  static std::uint64_t from(std::size_t bucket) {
    if (bucket < 1024) return bucket;
    const std::size_t doubling = (bucket - 1024) / 64, step = (bucket - 1024) % 64;
    return (std::uint64_t{64} + step) << (doubling + 4);
  }
  std::uint64_t count(std::size_t bucket) const { return counts_[bucket]; }

 private:
  static std::size_t bucket(std::uint64_t value) {
    if (value < 1024) return value;
    const auto doubling = static_cast<std::size_t>(63 - __builtin_clzll(value)) - 10;
    return std::min(buckets - 1, 1024 + doubling * 64 + ((value >> (doubling + 4)) - 64));
  }
  std::vector<std::uint64_t> counts_ = std::vector<std::uint64_t>(buckets);
  std::uint64_t total_ = 0, longest_ = 0;
};

// ---- where objects come from: each has a handle, acquire and give_back ----

struct Object {
  Object() {}  // writes nothing: acquisition alone is timed
  char content[100];
};

template <rtm::PoolMode mode>
struct FromPool {
  using Handle = Object *;
  rtm::RtMemoryPool<Object> pool;
  explicit FromPool(int most_held) : pool(most_held, mode, "objects") {}
  void start_thread() { pool.own(); }
  Handle acquire() { return pool.acquire(); }
  void give_back(Handle &handle) { pool.release(handle); }
};
struct FromSharedPointers {
  using Handle = rtm::RtSharedPtr<Object>;
  rtm::RtMemoryPool<Object> pool;
  explicit FromSharedPointers(int most_held) : pool(most_held, true, "objects") {}
  void start_thread() { pool.own(); }
  Handle acquire() { return pool.sharedPtrAlloc(); }
  void give_back(Handle &handle) { handle.reset(); }
};
struct FromMakeShared {
  using Handle = std::shared_ptr<Object>;
  explicit FromMakeShared(int) {}
  void start_thread() {}
  Handle acquire() { return std::make_shared<Object>(); }
  void give_back(Handle &handle) { handle.reset(); }
};
struct FromMalloc {
  using Handle = void *;
  explicit FromMalloc(int) {}
  void start_thread() {}
  Handle acquire() { return std::malloc(sizeof(Object)); }
  void give_back(Handle &handle) { std::free(handle); }
};
struct FromNothing {
  using Handle = void *;
  explicit FromNothing(int) {}
  void start_thread() {}
  Handle acquire() { return nullptr; }
  void give_back(Handle &) {}
};

// ---- the two threads ----

struct Options {
  std::string source = "pool", out;
  std::uint64_t count = 1000000;
  int runs = 5, held = 100;
  bool noise = true;
};

// The same numbers in each run.
struct Random {
  std::uint64_t state;
  std::uint64_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  }
};

// Allocates and frees blocks of 8 bytes to 256 KiB, small ones more often, with up to 1000 held.
void make_noise(const std::atomic<bool> &done) {
  std::vector<void *> held(1000);
  Random random{88172645463325252u};
  while (!done.load(std::memory_order_relaxed)) {
    void *&slot = held[random.next() % held.size()];
    const std::size_t bytes = std::size_t{8} << (random.next() % 16);
    std::free(slot);
    slot = std::malloc(bytes);
    if (slot) std::memset(slot, 1, std::min<std::size_t>(bytes, 64));
  }
  for (void *block : held) std::free(block);
}

struct Result {
  Histogram voted, all;
};

template <typename Source>
void measure(Source &source, const Options &options, Result &result) {
  constexpr std::uint64_t most_in_batch = 1000000;
  constexpr std::size_t between_sleeps = 5000;
  const std::size_t batch = std::min(options.count, most_in_batch);
  std::vector<std::uint32_t> best(batch);
  std::vector<typename Source::Handle> held(static_cast<std::size_t>(options.held));
  source.start_thread();
  std::size_t since_sleep = 0;
  for (std::uint64_t done = 0; done < options.count; done += batch) {
    const std::size_t count = std::min<std::uint64_t>(batch, options.count - done);
    std::fill(best.begin(), best.end(), UINT32_MAX);
    for (int run = 0; run < options.runs; ++run) {
      Random random{2463534242u + done};
      for (std::size_t i = 0; i < count;) {
        const std::size_t burst = std::min<std::size_t>(count - i, 1 + random.next() % held.size());
        for (std::size_t slot = 0; slot < burst; ++slot, ++i) {
          const std::uint64_t before = now_before();
          held[slot] = source.acquire();
          const std::uint64_t cycles = now_after() - before;
          result.all.add(cycles);
          best[i] = static_cast<std::uint32_t>(std::min<std::uint64_t>(best[i], cycles));
        }
        for (std::size_t slot = 0; slot < burst; ++slot) {
          source.give_back(held[slot]);
          held[slot] = nullptr;
        }
        since_sleep += burst;
        if (since_sleep >= between_sleeps) {
          std::this_thread::sleep_for(std::chrono::microseconds(50));
          since_sleep = 0;
        }
      }
    }
    for (std::size_t i = 0; i < count; ++i) result.voted.add(best[i]);
  }
}

// What the system allows: real-time priority, and a processor of its own if there are two. Without them the times hold
// the system's own noise.
void become_real_time() {
  sched_param parameter{};
  parameter.sched_priority = 80;
  const bool priority = pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter) == 0;
  std::printf("priority: %s\n", priority ? "SCHED_FIFO 80" : "ordinary (SCHED_FIFO is not permitted)");
}

// The measuring thread takes the first processor that the process may use, the noise the others.
void take_processors(bool noise) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  int first = 0;
  while (!CPU_ISSET(first, &allowed)) ++first;
  if (noise) {
    CPU_CLR(first, &allowed);
  } else {
    CPU_ZERO(&allowed);
    CPU_SET(first, &allowed);
  }
  sched_setaffinity(0, sizeof allowed, &allowed);
}

template <typename Source>
Result run(const Options &options) {
  Source source(options.held);
  Result result;
  std::atomic<bool> done{false};
  std::thread noise;
  if (options.noise) {
    noise = std::thread([&] {
      take_processors(true);
      make_noise(done);
    });
  }
  std::thread measuring([&] {
    take_processors(false);
    become_real_time();
    measure(source, options, result);
  });
  measuring.join();
  done = true;
  if (noise.joinable()) noise.join();
  return result;
}

Result run_named(const Options &options) {
  if (options.source == "nothing") return run<FromNothing>(options);
  if (options.source == "pool") return run<FromPool<rtm::PoolMode::owner>>(options);
  if (options.source == "shared_pool") return run<FromPool<rtm::PoolMode::lock_free>>(options);
  if (options.source == "mutex_pool") return run<FromPool<rtm::PoolMode::mutex>>(options);
  if (options.source == "shared_ptr") return run<FromSharedPointers>(options);
  if (options.source == "make_shared") return run<FromMakeShared>(options);
  if (options.source == "malloc") return run<FromMalloc>(options);
  throw std::invalid_argument("--source " + options.source +
                              ": expected nothing, pool, shared_pool, mutex_pool, shared_ptr, make_shared or malloc");
}

// ---- the program ----

Options parse(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto value = [&]() -> std::string {
      if (++i == argc) throw std::invalid_argument(option + " needs a value");
      return argv[i];
    };
    if (option == "--source")
      options.source = value();
    else if (option == "--count")
      options.count = std::stoull(value());
    else if (option == "--long")
      options.count = 1000000000;
    else if (option == "--runs")
      options.runs = std::stoi(value());
    else if (option == "--held")
      options.held = std::stoi(value());
    else if (option == "--out")
      options.out = value();
    else if (option == "--quiet")
      options.noise = false;
    else
      throw std::invalid_argument(option + ": expected --source, --count, --long, --runs, --held, --out or --quiet");
  }
  if (options.count == 0 || options.runs < 1 || options.held < 1)
    throw std::invalid_argument("--count, --runs and --held must be at least 1");
  return options;
}

void print_row(const char *name, const Histogram &histogram) {
  const std::uint64_t median = histogram.percentile(50);
  std::printf("%-6s %11llu %8llu %8llu %8llu %8llu %10llu %10.4f %%\n", name,
              static_cast<unsigned long long>(histogram.total()), static_cast<unsigned long long>(median),
              static_cast<unsigned long long>(histogram.percentile(99)),
              static_cast<unsigned long long>(histogram.percentile(99.9)),
              static_cast<unsigned long long>(histogram.percentile(99.999)),
              static_cast<unsigned long long>(histogram.longest()), histogram.percent_up_to(2 * median));
}

void write_csv(const std::string &path, const Result &result) {
  std::FILE *file = std::fopen(path.c_str(), "w");
  if (!file) throw std::runtime_error("cannot write " + path);
  std::fprintf(file, "cycles_from,cycles_to,voted,all\n");
  for (std::size_t i = 0; i < Histogram::buckets; ++i)
    if (result.voted.count(i) || result.all.count(i))
      std::fprintf(file, "%llu,%llu,%llu,%llu\n", static_cast<unsigned long long>(Histogram::from(i)),
                   static_cast<unsigned long long>(std::min(Histogram::from(i + 1) - 1, result.all.longest())),
                   static_cast<unsigned long long>(result.voted.count(i)),
                   static_cast<unsigned long long>(result.all.count(i)));
  std::fclose(file);
}

}  // namespace

int main(int argc, char **argv) try {
  const Options options = parse(argc, argv);
  std::printf("memory: %s\n", mlockall(MCL_CURRENT | MCL_FUTURE) == 0 ? "locked" : "not locked (not permitted)");
  const auto began = std::chrono::steady_clock::now();
  const std::uint64_t first = now_before();
  const Result result = run_named(options);
  const double taken = static_cast<double>(now_after() - first);
  const double microseconds =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count();
  std::printf("clock: %.1f %s in a microsecond\n", taken / microseconds, unit);
  std::printf("source: %s; times of one acquisition in %s\n", options.source.c_str(), unit);
  std::printf("       acquisitions   median      99%%    99.9%%  99.999%%    longest  within 2x median\n");
  print_row("voted", result.voted);
  print_row("all", result.all);
  if (!options.out.empty()) write_csv(options.out, result);
  return 0;
} catch (const std::exception &error) {
  std::fprintf(stderr, "latency: %s\n", error.what());
  return 2;
}
