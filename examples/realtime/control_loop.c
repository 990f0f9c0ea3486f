// A periodic control loop, as a robot or audio program has it: each millisecond it reads sensors, keeps a history,
// sends messages to worker threads and logs, all with malloc; beside it a noisy neighbour allocates without a pause.
//
//   control_loop [PERIODS]      default 2000
//
// It knows nothing of rtmalloc. Half of the periods are a warm-up; for the other half it prints the deadlines missed,
// the longest allocation, and the page faults of the loop's own thread.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum {
  WORKERS = 2,
  RING = 64,
  HISTORY = 256,
  PERIOD_NS = 1000000,
  NOISE_SLOTS = 512,
  LOG_LINES = 128,
  FRAME_EVERY = 50
};

struct message {
  uint64_t number;
  size_t count;
  double values[];
};

// One producer, one consumer.
struct ring {
  _Alignas(64) _Atomic size_t put;
  _Alignas(64) _Atomic size_t taken;
  struct message *items[RING];
};

static struct ring rings[WORKERS];
static _Atomic bool done;
static uint64_t longest_ns;  // of the loop's allocations

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

// malloc, with its time.
static void *timed_malloc(size_t size) {
  uint64_t before = now();
  void *block = malloc(size);
  uint64_t took = now() - before;
  if (took > longest_ns) longest_ns = took;
  if (!block) {
    fprintf(stderr, "control_loop: out of memory\n");
    exit(1);
  }
  return block;
}

// Takes messages and frees them: every message dies in another thread than it was made in.
static void *work(void *argument) {
  struct ring *ring = argument;
  double sum = 0;
  while (!done) {
    size_t taken = ring->taken;
    if (taken == ring->put) {
      struct timespec pause = {0, PERIOD_NS / 4};
      nanosleep(&pause, NULL);
      continue;
    }
    struct message *message = ring->items[taken % RING];
    for (size_t i = 0; i < message->count; i++) sum += message->values[i];
    free(message);
    ring->taken = taken + 1;
  }
  return sum < 0 ? argument : NULL;
}

// The neighbour: random sizes, no pause.
static void *make_noise(void *unused) {
  (void)unused;
  static void *slots[NOISE_SLOTS];
  uint32_t random = 1;
  while (!done) {
    random = random * 1664525u + 1013904223u;
    unsigned slot = (random >> 8) % NOISE_SLOTS;
    free(slots[slot]);
    slots[slot] = malloc(16 + (random >> 16) % 4096);
    if (slots[slot]) memset(slots[slot], 1, 16);
  }
  for (unsigned slot = 0; slot < NOISE_SLOTS; slot++) free(slots[slot]);
  return NULL;
}

// Most messages are small; each FRAME_EVERY periods one is a camera's frame of 256 KiB to 1 MiB.
static void send(struct ring *ring, uint64_t number) {
  size_t count = number % FRAME_EVERY ? 8 + number % 7 * 16 : 32768 + number / FRAME_EVERY % 13 * 8192, put = ring->put;
  if (put - ring->taken == RING) return;  // the worker is behind: this message is dropped
  struct message *message = timed_malloc(sizeof *message + count * sizeof *message->values);
  message->number = number;
  message->count = count;
  for (size_t i = 0; i < count; i++) message->values[i] = (double)(number + i);
  ring->items[put % RING] = message;
  ring->put = put + 1;
}

// The history: a list of samples, of which the oldest goes.
struct sample {
  struct sample *next;
  double values[6];
};
struct history {
  struct sample *first, **last;
  size_t length;
};

static void remember(struct history *history, uint64_t number) {
  struct sample *sample = timed_malloc(sizeof *sample);
  for (unsigned i = 0; i < 6; i++) sample->values[i] = (double)(number * i);
  sample->next = NULL;
  *history->last = sample;
  history->last = &sample->next;
  if (++history->length <= HISTORY) return;
  struct sample *oldest = history->first;
  history->first = oldest->next;
  free(oldest);
  history->length--;
}

static void log_line(char *lines[LOG_LINES], uint64_t number) {
  char text[160];
  int length = snprintf(text, sizeof text, "period %llu: %.*s", (unsigned long long)number, (int)(number % 90),
                        "all sensors within their limits, no message was dropped, and the loop goes on as planned");
  char *line = timed_malloc((size_t)length + 1);
  memcpy(line, text, (size_t)length + 1);
  free(lines[number % LOG_LINES]);
  lines[number % LOG_LINES] = line;
}

static long faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

int main(int count, char **arguments) {
  uint64_t periods = count > 1 ? strtoull(arguments[1], NULL, 10) : 2000;
  if (!periods || count > 2) {
    fprintf(stderr, "usage: control_loop [PERIODS]\n");
    return 2;
  }
  pthread_t workers[WORKERS], neighbour;
  struct sched_param priority = {.sched_priority = 80};
  struct history history = {.last = &history.first};
  static char *lines[LOG_LINES];
  for (unsigned i = 0; i < WORKERS; i++) pthread_create(&workers[i], NULL, work, &rings[i]);
  pthread_create(&neighbour, NULL, make_noise, NULL);
  bool fifo = sched_setscheduler(0, SCHED_FIFO, &priority) == 0;

  uint64_t missed = 0, latest = 0, start = now();
  long faults_before = 0;
  for (uint64_t number = 0; number < periods; number++) {
    if (number == periods / 2) {
      longest_ns = missed = latest = 0;
      faults_before = faults();
    }
    uint64_t due = start + number * PERIOD_NS;
    struct timespec until = {(time_t)(due / 1000000000), (long)(due % 1000000000)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    for (unsigned i = 0; i < WORKERS; i++) send(&rings[i], number);
    remember(&history, number);
    log_line(lines, number);
    uint64_t late = now() - due;
    if (late > latest) latest = late;
    missed += late > PERIOD_NS;
  }
  long loop_faults = faults() - faults_before;
  done = true;
  for (unsigned i = 0; i < WORKERS; i++) pthread_join(workers[i], NULL);
  pthread_join(neighbour, NULL);
  printf("scheduler %s\nperiods %llu\nmissed %llu\nlatest_us %.1f\nlongest_allocation_us %.2f\nfaults %ld\n",
         fifo ? "SCHED_FIFO" : "normal (SCHED_FIFO is not permitted)", (unsigned long long)(periods - periods / 2),
         (unsigned long long)missed, (double)latest / 1000, (double)longest_ns / 1000, loop_faults);
  return 0;
}
