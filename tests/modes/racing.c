// Four threads of one routine, of which one needs 6 MiB and the others little: which one it is says the argument. With a
// second one: two threads, of which the second starts when the first has all that it needs, and needs a hundred times as much; and
// the first asks for a block of ODD bytes before.
//
//   racing WHICH [ODD]
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, BLOCKS = 6000, PASSED = 16 };

static pthread_barrier_t together;
static void *_Atomic passed[PASSED];  // from whoever has much to whoever has little, to be freed

static void free_what_others_had(void) {
  for (unsigned i = 0; i < PASSED; i++) free(atomic_exchange(&passed[i], NULL));
}

static void need(unsigned blocks) {
  char **block = calloc(BLOCKS, sizeof *block);
  uint32_t random = 1;
  for (unsigned round = 0; round < 4; round++) {
    for (unsigned i = 0; i < blocks; i++) {
      random = random * 1103515245 + 12345;
      size_t size = random / 65536 % 2000 + 24 + (i % 500 == 0 ? 60000 : 0);
      block[i] = malloc(size);
      if (!block[i]) abort();
      memset(block[i], (char)i, size);
      if (i % 16 == 7) free(atomic_exchange(&passed[i / 16 % PASSED], malloc(size)));
    }
    for (unsigned i = 0; i < blocks; i++) {
      if (block[i][0] != (char)i || block[i][23] != (char)i) abort();
      free(block[i]);
    }
  }
  free(block);
}

static void *run(void *has_much) {
  pthread_barrier_wait(&together);
  if (!has_much)
    for (unsigned i = 0; i < 2000; i++) free_what_others_had();
  need(has_much ? BLOCKS : 20);
  pthread_barrier_wait(&together);
  free_what_others_had();
  return NULL;
}

enum { FEW = 100, MANY = 100 * FEW };
static size_t odd;

static void *run_in_turn(void *is_first) {
  unsigned count = is_first ? FEW : MANY;
  void **block = calloc(MANY, sizeof *block);
  for (unsigned i = 0; i < count; i++)
    if (!(block[i] = malloc(100))) abort();
  if (is_first) {
    if (odd) free(malloc(odd));
    pthread_barrier_wait(&together);  // the other one starts,
    pthread_barrier_wait(&together);  // and has ended
  }
  for (unsigned i = 0; i < count; i++) free(block[i]);
  free(block);
  return NULL;
}

static int two_in_turn(size_t bytes) {
  pthread_t first, second;
  odd = bytes;
  pthread_barrier_init(&together, NULL, 2);
  if (pthread_create(&first, NULL, run_in_turn, &odd)) abort();
  pthread_barrier_wait(&together);
  if (pthread_create(&second, NULL, run_in_turn, NULL)) abort();
  pthread_join(second, NULL);
  pthread_barrier_wait(&together);
  pthread_join(first, NULL);
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 2) return two_in_turn((size_t)atoll(argv[2]));
  int which = argc > 1 ? atoi(argv[1]) : 0;
  pthread_t threads[THREADS];
  pthread_barrier_init(&together, NULL, THREADS);
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, run, i == which ? &threads[i] : NULL)) abort();
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  return 0;
}
