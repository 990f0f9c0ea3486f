// An audio callback on std::pmr: voices in a list whose nodes all come from a pool, mixing into a buffer that was
// reserved before. The callback starts and ends voices, which is node allocation, and never calls the heap: this
// program counts.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <new>
#include <vector>

#include "rtmalloc/node_pool.hpp"

namespace {
std::atomic<long> heap_calls{0};
}

#ifndef UNDER_SANITIZERS  // they bring their own
void *operator new(std::size_t bytes) {
  ++heap_calls;
  if (void *block = std::malloc(bytes ? bytes : 1)) return block;
  throw std::bad_alloc();
}
void operator delete(void *block) noexcept { std::free(block); }
void operator delete(void *block, std::size_t) noexcept { std::free(block); }
#endif

namespace {

constexpr std::size_t frames = 64;  // of one callback
constexpr std::size_t most_voices = 32;

struct Voice {
  double phase = 0, step = 0;  // radians, radians per frame
  int frames_left = 0;
};
using Voices = std::pmr::list<Voice>;

class Synthesizer {
 public:
  Synthesizer() : nodes_(most_voices, "voices", rtm::PoolMode::lock_free), voices_(nodes_.make_container()) {
    mix_.resize(frames);
  }

  // A new voice, or false: all are in use.
  bool start(double frequency, int length) {
    if (voices_.size() == most_voices) return false;
    voices_.push_back({0, frequency * 6.283185307 / 48000, length});
    return true;
  }

  // The callback: real-time.
  const std::pmr::vector<float> &render() {
    for (float &frame : mix_) frame = 0;
    for (auto voice = voices_.begin(); voice != voices_.end();) {
      for (std::size_t i = 0; i < frames && voice->frames_left > 0; ++i, --voice->frames_left) {
        mix_[i] += static_cast<float>(0.02 * std::sin(voice->phase));
        voice->phase += voice->step;
      }
      voice = voice->frames_left > 0 ? std::next(voice) : voices_.erase(voice);
    }
    return mix_;
  }

  std::size_t voices() const { return voices_.size(); }
  rtm::PoolStatistics statistics() { return nodes_.pool().statistics(); }

 private:
  rtm::NodePool<Voices> nodes_;
  Voices voices_;
  rtm::memory_resource heap_;  // rtmalloc's process heap
  std::pmr::vector<float> mix_{&heap_};
};

}  // namespace

int main() {
  Synthesizer synthesizer;
  const long before = heap_calls;
  long started = 0, refused = 0;
  float loudest = 0;
  for (int callback = 0; callback < 5000; ++callback) {
    for (int note = 0; note < 2; ++note)
      ++(synthesizer.start(220.0 + callback % 700, 500 + callback % 1000) ? started : refused);
    for (const float frame : synthesizer.render()) loudest = std::max(loudest, std::fabs(frame));
  }
  const long calls = heap_calls - before;
  std::printf("%ld voices started, %ld refused, %zu at most; loudest frame %.2f; heap calls: %ld\n", started, refused,
              synthesizer.statistics().peak_use, static_cast<double>(loudest), calls);
  return calls == 0 && started > 5000 && synthesizer.statistics().peak_use <= most_voices && loudest > 0 ? 0 : 1;
}
