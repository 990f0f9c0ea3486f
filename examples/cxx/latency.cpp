// The paper's test (Shen, Hamal, Ganzenmüller 2011, section 4.3): a high-priority thread acquires blocks while a noise
// thread hammers the heap with blocks of changing size. The time of each acquisition, in cycles.
//
//   latency --source pool                 10^5 acquisitions, 5 runs
//   latency --source malloc               the same from the heap: the paper's test case B
//   latency --source pool --long          10^9 acquisitions; hours
//   latency --source pool --out pool.csv  the histogram: cycles_from,cycles_to,voted,all
//
// Voting: the same load runs 5 times and the fastest time of each acquisition counts, so that interrupts of the
// machine, which hit another acquisition in each run, drop out. Both are shown. Loads longer than 10^6 are voted on in
// batches of 10^6, each of which starts with nothing held.
#include <pthread.h>
#include <rtmalloc.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
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
// The fences keep the timed instructions between the two readings.
std::uint64_t now_before() {
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

// ---- where blocks come from: each has a handle, acquire and give_back ----

struct Object {
  char content[100];
};
constexpr std::size_t most_held = 64;

template <rtm::PoolMode mode>
struct FromPool {
  using Handle = Object *;
  rtm::RtMemoryPool<Object> pool{most_held, mode, "objects"};
  void start_thread() { pool.own(); }
  Handle acquire() { return pool.acquire(); }
  void give_back(Handle &handle) { pool.release(handle); }
};
struct FromSharedPointers {
  using Handle = rtm::RtSharedPtr<Object>;
  rtm::RtMemoryPool<Object> pool{most_held, true, "objects"};
  void start_thread() { pool.own(); }
  Handle acquire() { return pool.sharedPtrAlloc(); }
  void give_back(Handle &handle) { handle.reset(); }
};
struct FromMakeShared {
  using Handle = std::shared_ptr<Object>;
  void start_thread() {}
  Handle acquire() { return std::make_shared<Object>(); }
  void give_back(Handle &handle) { handle.reset(); }
};
struct FromMalloc {
  using Handle = void *;
  void start_thread() {}
  Handle acquire() { return std::malloc(sizeof(Object)); }
  void give_back(Handle &handle) { std::free(handle); }
};
struct FromRtmalloc {
  using Handle = void *;
  void start_thread() {}
  Handle acquire() { return rtm_malloc(sizeof(Object)); }
  void give_back(Handle &handle) { rtm_free(handle); }
};

// ---- the two threads ----

struct Options {
  std::string source = "pool", out;
  std::uint64_t count = 100000;
  int runs = 5;
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
void make_noise(const std::atomic<bool> &done, bool on_rtmalloc) {
  std::vector<void *> held(1000);
  Random random{88172645463325252u};
  while (!done.load(std::memory_order_relaxed)) {
    void *&slot = held[random.next() % held.size()];
    const std::size_t bytes = std::size_t{8} << (random.next() % 16);
    if (on_rtmalloc) {
      rtm_free(slot);
      slot = rtm_malloc(bytes);
    } else {
      std::free(slot);
      slot = std::malloc(bytes);
    }
    if (slot) std::memset(slot, 1, std::min<std::size_t>(bytes, 64));
  }
  for (void *block : held) on_rtmalloc ? rtm_free(block) : std::free(block);
}

struct Result {
  Histogram voted, all;
};

template <typename Source>
void measure(Source &source, const Options &options, Result &result) {
  constexpr std::uint64_t most_in_batch = 1000000;
  const std::size_t batch = std::min(options.count, most_in_batch);
  std::vector<std::uint32_t> best(batch);
  std::vector<typename Source::Handle> held(most_held);
  source.start_thread();
  for (std::uint64_t done = 0; done < options.count; done += batch) {
    const std::size_t count = std::min<std::uint64_t>(batch, options.count - done);
    std::fill(best.begin(), best.end(), UINT32_MAX);
    for (int run = 0; run < options.runs; ++run) {
      Random random{2463534242u + done};
      for (std::size_t i = 0; i < count; ++i) {
        auto &slot = held[random.next() % most_held];
        source.give_back(slot);
        slot = nullptr;
        const std::uint64_t before = now_before();
        slot = source.acquire();
        const std::uint64_t cycles = now_after() - before;
        result.all.add(cycles);
        best[i] = static_cast<std::uint32_t>(std::min<std::uint64_t>(best[i], cycles));
      }
      for (auto &slot : held) {
        source.give_back(slot);
        slot = nullptr;
      }
    }
    for (std::size_t i = 0; i < count; ++i) result.voted.add(best[i]);
  }
}

// What the system allows: real-time priority, locked memory. Without them the times hold the system's own noise.
void become_real_time() {
  sched_param parameter{};
  parameter.sched_priority = 80;
  const bool priority = pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter) == 0;
  std::printf("priority: %s\n", priority ? "SCHED_FIFO 80" : "ordinary (SCHED_FIFO is not permitted)");
}

template <typename Source>
Result run(const Options &options, bool noise_on_rtmalloc) {
  Source source;
  Result result;
  std::atomic<bool> done{false};
  std::thread noise;
  if (options.noise) noise = std::thread([&] { make_noise(done, noise_on_rtmalloc); });
  std::thread measuring([&] {
    become_real_time();
    measure(source, options, result);
  });
  measuring.join();
  done = true;
  if (noise.joinable()) noise.join();
  return result;
}

Result run_named(const Options &options) {
  if (options.source == "pool") return run<FromPool<rtm::PoolMode::owner>>(options, false);
  if (options.source == "shared_pool") return run<FromPool<rtm::PoolMode::lock_free>>(options, false);
  if (options.source == "mutex_pool") return run<FromPool<rtm::PoolMode::mutex>>(options, false);
  if (options.source == "shared_ptr") return run<FromSharedPointers>(options, false);
  if (options.source == "make_shared") return run<FromMakeShared>(options, false);
  if (options.source == "malloc") return run<FromMalloc>(options, false);
  if (options.source == "rtmalloc") return run<FromRtmalloc>(options, true);
  throw std::invalid_argument("--source " + options.source +
                              ": expected pool, shared_pool, mutex_pool, shared_ptr, make_shared, malloc or rtmalloc");
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
    else if (option == "--out")
      options.out = value();
    else if (option == "--quiet")
      options.noise = false;
    else
      throw std::invalid_argument(option + ": expected --source, --count, --long, --runs, --out or --quiet");
  }
  if (options.count == 0 || options.runs < 1) throw std::invalid_argument("--count and --runs must be at least 1");
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
                   static_cast<unsigned long long>(Histogram::from(i + 1) - 1),
                   static_cast<unsigned long long>(result.voted.count(i)),
                   static_cast<unsigned long long>(result.all.count(i)));
  std::fclose(file);
}

}  // namespace

int main(int argc, char **argv) try {
  const Options options = parse(argc, argv);
  std::printf("memory: %s\n", mlockall(MCL_CURRENT | MCL_FUTURE) == 0 ? "locked" : "not locked (not permitted)");
  const Result result = run_named(options);
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
