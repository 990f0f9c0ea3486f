// Preloaded behind the allocator, and so started before it: makes more thread keys than glibc has at hand.
#include <pthread.h>

__attribute__((constructor)) static void make(void) {
  pthread_key_t key;
  for (int i = 0; i < 40; i++) pthread_key_create(&key, NULL);
}
