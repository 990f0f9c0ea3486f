// Fuzzing over sequences of operations: the input is read as operations, four bytes each, which are done for real and in
// a shadow (tests/unit/shadow.h). At the end of each input all blocks are freed and nothing may be held.
//
//   byte 0   low 4 bits: what (enum operation_kind, or in another thread); high 4 bits: alignment
//   byte 1   slot
//   byte 2,3 size: 5 bits of exponent, 11 of mantissa: up to 32 MiB, and each size up to 2047
#include <pthread.h>

#include "rtmalloc.h"
#include "shadow.h"

static struct shadow shadow = {.bytes_most = (size_t)128 << 20};

static struct operation read_operation(const uint8_t *bytes) {
  unsigned packed = bytes[2] | (unsigned)bytes[3] << 8, exponent = packed >> 11, mantissa = packed & 0x7ff;
  return (struct operation){
      .kind = bytes[0] % 16,
      .slot = bytes[1],
      .size = (size_t)mantissa << (exponent % 15),
      .alignment_log = 4 + bytes[0] / 16 * 3 / 2,  // 16 to 64 MiB
  };
}

// The thread exits at once: the blocks of another are freed remotely, and its own become an orphan's.
static void *apply(void *operation) {
  shadow_apply(&shadow, *(struct operation *)operation);
  return NULL;
}

static void apply_in_another_thread(struct operation operation) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, apply, &operation) == 0);
  pthread_join(thread, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  for (size_t at = 0; at + 4 <= size; at += 4) {
    struct operation operation = read_operation(data + at);
    if (operation.kind > OPERATION_KINDS) {
      operation.kind = operation.kind % 2 ? OPERATION_MALLOC : OPERATION_FREE;
      apply_in_another_thread(operation);
    } else {
      shadow_apply(&shadow, operation);
    }
  }
  CHECK_SOUND(rtm_check());
  shadow_free_all(&shadow);
  rtm_trim();
  CHECK_SOUND(rtm_check());
  struct rtm_stats stats;
  rtm_stats(&stats);
  CHECK_EQUAL(stats.in_use, 0);
  return 0;
}
