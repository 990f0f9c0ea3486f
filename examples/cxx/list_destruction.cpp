// The bounded destruction of a long list. Dropping the head of a list of shared pointers destroys every node at once:
// time without a bound, and one stack frame for each node. Here a node hands its successor to a queue instead of
// destroying it, and each period takes a stated number of nodes from there: the longest step does not depend on the
// list's length.
#include <cstdio>

#include "rtmalloc/memory_pool.hpp"

namespace {

struct Node;
using NodePointer = rtm::RtSharedPtr<Node>;

// Heads of lists that wait for their destruction; one thread's. Waiting lists hang together by their nodes' own links,
// so it needs no memory.
class DeferredRelease {
 public:
  // Takes over one owner of a list. O(1).
  void defer(NodePointer list);
  // Ends at most `count` nodes that nobody else owns; gives how many it ended. O(count).
  long run(long count);
  bool empty() const { return !waiting_; }

 private:
  NodePointer waiting_;  // the first node's list; further lists by `also_waiting`
};

struct Node {
  long value;
  NodePointer next;
  NodePointer also_waiting;  // used by DeferredRelease only, once the node is the head of a waiting list
};

void DeferredRelease::defer(NodePointer list) {
  if (!list || list.use_count() > 1) return;  // others own it: they will defer or drop it
  list->also_waiting = std::move(waiting_);
  waiting_ = std::move(list);
}

long DeferredRelease::run(long count) {
  long ended = 0;
  while (ended < count && waiting_) {
    NodePointer node = std::move(waiting_);
    waiting_ = std::move(node->also_waiting);
    NodePointer next = std::move(node->next);
    node.reset();  // ends this node alone: it has no links any more
    ++ended;
    defer(std::move(next));
  }
  return ended;
}

}  // namespace

int main() {
  constexpr long length = 200000, per_period = 100;
  rtm::RtMemoryPool<Node> pool(length, true, "nodes");
  DeferredRelease deferred;
  NodePointer head;
  for (long i = 0; i < length; ++i) head = pool.sharedPtrAlloc(Node{i, std::move(head), {}});
  NodePointer kept = head;  // somebody still reads the second half
  for (long i = 0; i < length / 2; ++i) kept = kept->next;

  deferred.defer(std::move(head));
  long periods = 0, longest = 0;
  while (!deferred.empty()) {
    const long ended = deferred.run(per_period);
    longest = ended > longest ? ended : longest;
    ++periods;
  }
  const bool second_half_lives = pool.statistics().in_use == length / 2 && kept->value == length / 2 - 1;
  deferred.defer(std::move(kept));
  while (!deferred.empty()) ++periods, deferred.run(per_period);
  std::printf("%ld nodes ended in %ld periods of at most %ld nodes; %zu left\n", length, periods, longest,
              pool.statistics().in_use);
  return second_half_lives && longest == per_period && pool.statistics().in_use == 0 ? 0 : 1;
}
