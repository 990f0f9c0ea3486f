// The functions of src/bits.h with names that bits_z3.py can call, to compare them with its own transcription.
#include "bits.h"

unsigned shared_count(uint64_t word) { return bits_count(word); }
bool shared_is_power_of_two(uint64_t value) { return bits_is_power_of_two(value); }
uint64_t shared_round_up(uint64_t value, uint64_t alignment) { return bits_round_up(value, alignment); }
