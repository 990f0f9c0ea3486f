// area_size.h says what and why.
#include "area_size.h"

#include "block.h"

double area_size_fails_below_itself(double block) { return block; }

double area_size_fails_below_power(double block) {
  double power = 1;
  while (power < block) power *= 2;
  return power;
}

size_t area_size_coalescing(size_t live, size_t largest, size_t control, double (*fails_below)(double block)) {
  const double unit = ALIGNMENT;
  if (live > REQUEST_MOST || largest > REQUEST_MOST) return SIZE_MAX;
  double L = (double)((live + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  double most = (double)((largest + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  if (L < unit) L = unit;
  if (most > L) most = L;
  if (most < unit) most = unit;
  // fails_below may have steps, so that the worst m is not at a fixed place: at most 64 steps of an eighth of an
  // octave and the end; each is taken with the largest fails_below of its interval, [m, next].
  double need = 0;
  for (double m = unit, next; m <= most; m = next) {
    next = m * 1.125 > m + unit ? m * 1.125 : m + unit;
    double top = next < most ? next : most, others = L - m, k = others / unit;
    double block = top + unit < BLOCK_SMALLEST ? BLOCK_SMALLEST : top + unit;
    double bound = others + k * BLOCK_SMALLEST + (k + 1) * (fails_below(block) - unit) + unit;
    if (bound > need) need = bound;
  }
  need += (double)control + 4 * ALIGNMENT;
  if (need > (double)REQUEST_MOST) return SIZE_MAX;
  return ((size_t)need + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
}
