// An audio callback on std::pmr with a sealed heap: everything that it builds and drops, containers of changing sizes
// included, lives in a static array of which the heap is made. No callback makes a system call, and memory can run out
// only here, where it is seen and survived; this program counts both.
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "rtmalloc/heap.hpp"
#include "rtmalloc/memory_resource.hpp"

namespace {

constexpr std::size_t frames = 64;  // of one callback
alignas(rtm::Heap::alignment) std::byte memory[96 << 10];

// A note with an echo line of its own, as long as the note wants it.
struct Voice {
  std::pmr::vector<float> echo;
  double phase, step;  // radians, radians per frame
  int frames_left;
};

class Synthesizer {
 public:
  explicit Synthesizer(rtm::Heap &heap) : resource_(heap), voices_(&resource_) {}

  // False: no memory for a further voice. Nothing is lost.
  bool start(int key, std::size_t echo, int length) noexcept {
    try {
      voices_.insert_or_assign(key, Voice{std::pmr::vector<float>(echo, &resource_), 0, 0.01 * (1 + key % 50), length});
      return true;
    } catch (const std::bad_alloc &) {
      return false;
    }
  }

  // The callback: real-time.
  float render() noexcept {
    float loudest = 0;
    for (std::size_t i = 0; i < frames; ++i) {
      float mix = 0;
      for (auto &[key, voice] : voices_) {
        float &echo = voice.echo[static_cast<std::size_t>(voice.frames_left) % voice.echo.size()];
        echo = 0.5f * echo + 0.02f * static_cast<float>(std::sin(voice.phase += voice.step));
        mix += echo;
        --voice.frames_left;
      }
      loudest = std::fmax(loudest, std::fabs(mix));
    }
    for (auto voice = voices_.begin(); voice != voices_.end();)
      voice = voice->second.frames_left > static_cast<int>(frames) ? std::next(voice) : voices_.erase(voice);
    return loudest;
  }

 private:
  rtm::memory_resource resource_;
  std::pmr::map<int, Voice> voices_;
};

unsigned long long system_calls() {
  struct rtm_stats stats;
  rtm_stats(&stats);
  return stats.system_calls;
}

}  // namespace

int main() {
  rtm::Heap heap(memory, sizeof memory);
  long started = 0, refused = 0;
  float loudest = 0;
  const auto before = system_calls();
  {
    Synthesizer synthesizer(heap);
    for (int callback = 0; callback < 20000; ++callback) {
      ++(synthesizer.start(callback, 100 + static_cast<std::size_t>(callback) * 37 % 2500, 200 + callback % 1500)
             ? started
             : refused);
      loudest = std::fmax(loudest, synthesizer.render());
    }
  }
  const auto calls = system_calls() - before;
  const std::size_t left = heap.usage().blocks;
  std::printf(
      "%ld voices started, %ld refused, loudest %.2f; system calls of the allocator: %llu; blocks left: %zu; "
      "overhead of the heap: %zu of %zu bytes\n",
      started, refused, static_cast<double>(loudest), calls, left, rtm_heap_overhead(sizeof memory), sizeof memory);
  return calls == 0 && left == 0 && started > 10000 && refused > 0 && loudest > 0 ? 0 : 1;
}
