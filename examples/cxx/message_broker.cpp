// A message broker: publishers make messages in one shared pool, each subscriber gets a shared pointer to the same
// message, and the last to drop it returns it. No thread knows who is last; nobody copies a message or calls the heap.
#include <atomic>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "rtmalloc/memory_pool.hpp"
#include "spsc_ring.hpp"

namespace {

struct Message {
  int publisher;
  long number;
  char text[100];
};
using MessagePointer = rtm::RtSharedPtr<const Message>;

constexpr int publishers = 2, subscribers = 3;
constexpr long messages_each = 5000;

// One ring for each pair, as a ring has one thread at each end.
struct Broker {
  rtm::RtMemoryPool<Message> pool{64, "messages"};
  SpscRing<MessagePointer, 32> rings[publishers][subscribers];

  void publish(int publisher) {
    for (long number = 0; number < messages_each; ++number) {
      rtm::RtSharedPtr<Message> message;
      while (!(message = pool.sharedPtrAlloc(Message{publisher, number, ""})))
        std::this_thread::yield();  // back pressure: subscribers hold all
      std::snprintf(message->text, sizeof message->text, "message %ld of %d", number, publisher);
      for (auto &ring : rings[publisher]) {
        MessagePointer copy = message;
        while (!ring.push(copy)) std::this_thread::yield();
      }
    }
  }

  // How many messages came in order.
  long subscribe(int subscriber) {
    long next[publishers] = {}, good = 0;
    while (good < publishers * messages_each) {
      bool idle = true;
      for (int publisher = 0; publisher < publishers; ++publisher) {
        MessagePointer message;
        if (!rings[publisher][subscriber].pop(message)) continue;
        idle = false;
        if (message->publisher != publisher || message->number != next[publisher]++) return good;
        ++good;
      }
      if (idle) std::this_thread::yield();
    }
    return good;
  }
};

}  // namespace

int main() {
  const auto broker = std::make_unique<Broker>();
  std::vector<std::thread> threads;
  std::atomic<long> received{0};
  for (int s = 0; s < subscribers; ++s) threads.emplace_back([&, s] { received += broker->subscribe(s); });
  for (int p = 0; p < publishers; ++p) threads.emplace_back([&, p] { broker->publish(p); });
  for (auto &thread : threads) thread.join();
  const auto statistics = broker->pool.statistics();
  std::printf("%ld messages received; pool: %zu of %zu at most, %zu refusals, %zu out now\n", received.load(),
              statistics.peak_use, statistics.capacity, statistics.failures, statistics.in_use);
  return received == long{publishers} * subscribers * messages_each && statistics.in_use == 0 ? 0 : 1;
}
