// Which of a page's free blocks are handed out next, in which order. See secure.h.
#include "secure.h"

enum { PLACE_BITS = 6, NUMBER_BITS = SECURE_NUMBER_BITS };
#define EACH_BYTE UINT64_C(0x0101010101010101)

// A word of the page's free blocks, of which there is one: the first from a random one on.
RTM_INLINE unsigned pick_word(const struct span *page, uint64_t random) {
  _Static_assert(REMOTE_WORDS == 4, "four words");
  unsigned w = (unsigned)(random >> 62);
  if (page->private[w]) return w;
  if (page->private[w ^ 1]) return w ^ 1;
  return page->private[w ^ 2] ? w ^ 2 : w ^ 3;
}

// The word turns by a random number of places before each pick of its lowest bit; `turn`: by how many in all. A
// number's place is kept modulo 64 only at the end, for all numbers at once.
RTM_INLINE void *deal(struct span *page, unsigned most) {
  uint64_t random = secure_random(page);
  unsigned w = pick_word(page, random);
  unsigned turn = (unsigned)random;
  uint64_t bits = bits_rotate_right(page->private[w], turn);
  unsigned first = turn + bits_lowest(bits);
  bits &= bits - 1;
  uint64_t deck = 0;
  unsigned width = 0;
  for (most = NUMBER_BITS * (most - 1); width < most && bits; width += NUMBER_BITS) {
    random >>= PLACE_BITS;
    unsigned places = (unsigned)random;
    bits = bits_rotate_right(bits, places);
    turn += places;
    deck = deck >> NUMBER_BITS | (uint64_t)(turn + bits_lowest(bits)) << (64 - NUMBER_BITS);
    bits &= bits - 1;
  }
  deck = deck >> NUMBER_BITS >> (64 - NUMBER_BITS - width);
  uint64_t above = UINT64_C(1) << width;
  page->deck = (((deck & 63 * EACH_BYTE) | w * 64 * EACH_BYTE) & (above - 1)) | above;
  if (!bits && !(page->private[w ^ 1] | page->private[w ^ 2] | page->private[w ^ 3]))
    page->flags &= (uint8_t)~PAGE_COLLECTED;
  return secure_hand_out(page, w * 64 + first % 64, rtm_shape[page->kind].block_size);
}

void *secure_deal(struct span *page, unsigned most) { return deal(page, most); }
void *secure_deal_one(struct span *page) { return deal(page, 1); }

bool secure_deck_is_right(const struct span *page) {
  uint64_t others[REMOTE_WORDS], any = 0;
  for (unsigned w = 0; w < REMOTE_WORDS; w++) others[w] = page->private[w];
  for (uint64_t deck = page->deck; deck > 1; deck >>= NUMBER_BITS) {
    uint8_t number = (uint8_t)deck;
    if (!(others[number / 64] >> (number % 64) & 1)) return false;
    others[number / 64] &= ~(UINT64_C(1) << (number % 64));
  }
  for (unsigned w = 0; w < REMOTE_WORDS; w++) any |= others[w];
  return (any != 0) == ((page->flags & PAGE_COLLECTED) != 0);
}
