// The random numbers of the loads: SplitMix64 (Steele, Lea and Flood 2014), one stream for each purpose.
//
// Layer: lab/paper, below the loads.
#ifndef PAPER_RANDOM_H
#define PAPER_RANDOM_H

#include <math.h>
#include <stdint.h>

struct random_stream {
  uint64_t state;  // the seed at first
};

static inline uint64_t random_bits(struct random_stream *stream) {
  uint64_t z = stream->state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// In [least, most], both included.
static inline uint64_t random_uniform(struct random_stream *stream, uint64_t least, uint64_t most) {
  return least + (uint64_t)(((unsigned __int128)random_bits(stream) * (most - least + 1)) >> 64);
}

// In (0, 1].
static inline double random_unit(struct random_stream *stream) {
  return ((double)(random_bits(stream) >> 11) + 1) * 0x1p-53;
}

static inline double random_normal(struct random_stream *stream, double mean, double deviation) {
  double radius = sqrt(-2 * log(random_unit(stream)));  // Box and Muller 1958
  return mean + deviation * radius * cos(6.283185307179586 * random_unit(stream));
}

#endif
