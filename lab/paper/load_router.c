// The load 'router': RT-Mimalloc's example of section VII-D. A packet that comes in is a request, and one that goes out
// a free; sizes are variable but bounded, 64 to 1518 bytes (Ethernet), mostly small or full. Each period some packets
// arrive, in bursts, and the output sends 4, the oldest first; a full queue of 256 drops what arrives. The paper gives
// no numbers: these are ours. Profile: ethernet.
#include <string.h>

#include "random.h"
#include "session.h"

enum { QUEUE = 256, SENT = 4, BURST_MOST = 64, SMALLEST = 64, LARGEST = 1518 };

static size_t packet_bytes(struct random_stream *random) {
  uint64_t kind = random_uniform(random, 1, 12);  // 7 : 1 : 4 of least, full and any
  return kind <= 7 ? SMALLEST : kind == 8 ? LARGEST : random_uniform(random, SMALLEST, LARGEST);
}

static void run(struct session *session) {
  if (strcmp(session->profile, "ethernet") != 0) session_fail(2, "no profile '%s': ethernet", session->profile);
  struct {
    void *block;
    size_t bytes;
  } queue[QUEUE];
  uint64_t first = 0, last = 0;  // of the packets in the queue; last is behind it
  struct random_stream random = {session->options.seed};
  while (session->mallocs < session->options.mallocs) {
    uint64_t arrive = random_uniform(&random, 0, 5);
    if (random_uniform(&random, 1, 50) == 1) arrive += random_uniform(&random, 1, BURST_MOST);
    for (; arrive && last - first < QUEUE && session->mallocs < session->options.mallocs; arrive--, last++) {
      queue[last % QUEUE].bytes = packet_bytes(&random);
      queue[last % QUEUE].block = session_malloc(session, queue[last % QUEUE].bytes);
    }
    for (int i = 0; i < SENT && first < last; i++, first++)
      session_free(session, queue[first % QUEUE].block, queue[first % QUEUE].bytes);
  }
}

int main(int count, char **arguments) {
  return session_main(count, arguments, &(struct load){"Profiles: ethernet", run});
}
