// TLSF (tlsf.h is the contract; section numbers are the paper's). In order: bits, blocks, lists, the operations of
// section 5, what they are for (malloc, free, realloc, aligned_alloc), areas, checks and sizes.
#include "tlsf.h"

#include <string.h>

#ifdef TLSF_GENERIC_BITS
#define GENERIC_BITS TLSF_GENERIC_BITS
#else
#define GENERIC_BITS 0
#endif

// ---- bits (section 5, Appendix A) ----

int tlsf_generic_ffs(uint32_t word) {
  int position = 1;
  if (!word) return 0;
  if (!(word & 0xffff)) word >>= 16, position += 16;
  if (!(word & 0xff)) word >>= 8, position += 8;
  if (!(word & 0xf)) word >>= 4, position += 4;
  if (!(word & 3)) word >>= 2, position += 2;
  if (!(word & 1)) position += 1;
  return position;
}

int tlsf_generic_fls(uint32_t word) {
  int position = 32;
  if (!word) return 0;
  if (!(word & 0xffff0000u)) word <<= 16, position -= 16;
  if (!(word & 0xff000000u)) word <<= 8, position -= 8;
  if (!(word & 0xf0000000u)) word <<= 4, position -= 4;
  if (!(word & 0xc0000000u)) word <<= 2, position -= 2;
  if (!(word & 0x80000000u)) position -= 1;
  return position;
}

// Positions from 0; the word is not 0.
#if GENERIC_BITS || !defined(__GNUC__)
static inline unsigned lowest_bit(uint32_t word) { return (unsigned)tlsf_generic_ffs(word) - 1; }
static inline unsigned highest_bit(size_t size) {
  uint32_t high = (uint32_t)((uint64_t)size >> 32);
  return (unsigned)(high ? 32 + tlsf_generic_fls(high) : tlsf_generic_fls((uint32_t)size)) - 1;
}
#else
static inline unsigned lowest_bit(uint32_t word) { return (unsigned)__builtin_ctz(word); }
static inline unsigned highest_bit(size_t size) { return 63u ^ (unsigned)__builtin_clzll(size); }
#endif

// ---- blocks ----
//
//   header | what the holder uses              | header | ...      a live block
//   header | next | prev | ...        | footer | header | ...      a free block
//          ^ struct block *: what malloc returns, a multiple of ALIGNMENT
//
// Header: size | flags; the size is that of header and rest, a multiple of ALIGNMENT. The footer repeats the size, so
// that the next block finds a free block's start (boundary tags). The last header of an area is live and has size 0.
// Equations:   next_physical(b) == b + size(b)
//              next_physical(b)'s PREVIOUS_FREE == b's FREE, and then footer(b) == size(b)
//              no two neighbours are free
#if TLSF_HEADER == 4
typedef uint32_t word;
#elif TLSF_HEADER == 8
typedef uint64_t word;
#else
#error "TLSF_HEADER is 4 or 8"
#endif

struct block {
  struct block *next, *prev;  // of its list, if the block is free
};

enum {
  HEADER = TLSF_HEADER,
  ALIGNMENT = TLSF_ALIGNMENT,
  FREE = 1,
  PREVIOUS_FREE = 2,
  FLAGS = FREE | PREVIOUS_FREE,
  // Header, links and footer of a free block.
  SMALLEST = (2 * HEADER + (int)sizeof(struct block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT,
};
_Static_assert(ALIGNMENT == 8 || ALIGNMENT == 16, "sizes leave their lowest bits to the flags");
_Static_assert(ALIGNMENT % _Alignof(struct block) == 0 && ALIGNMENT >= HEADER, "links and headers are aligned");

// The steps of section 6, whose instructions the paper counts: whoever wants to count them here keeps them apart.
#ifndef TLSF_STEP
#define TLSF_STEP static inline
#endif

static inline word *header_of(const struct block *b) { return (word *)b - 1; }
static inline size_t size_of(const struct block *b) { return *header_of(b) & ~(word)FLAGS; }
static inline bool is_free(const struct block *b) { return *header_of(b) & FREE; }
static inline bool is_previous_free(const struct block *b) { return *header_of(b) & PREVIOUS_FREE; }
static inline struct block *block_at(const struct block *b, size_t offset) {
  return (struct block *)((char *)(uintptr_t)b + offset);
}
static inline word footer_before(const struct block *b) { return ((const word *)b)[-2]; }
static inline struct block *next_physical(const struct block *b) { return block_at(b, size_of(b)); }
TLSF_STEP struct block *previous_physical(const struct block *b) {
  return (struct block *)((char *)(uintptr_t)b - footer_before(b));
}

// The previous block of a block that is made free is live, or it would have been joined.
static inline void make_free(struct block *b, size_t size) {
  struct block *next = block_at(b, size);
  *header_of(b) = (word)size | FREE;
  ((word *)next)[-2] = (word)size;
  *header_of(next) |= PREVIOUS_FREE;
}

// ---- lists (sections 4.1 and 5.1) ----
//
// Row 0 is the special case: a list for each size below SMALL, which is 128 bytes, or less where a fixed second level
// has too few columns. Row f > 0 and column s, which is a multiple of `step` = COLUMNS / 2^J: with i = f - 1 +
// SMALL_LOG2,
//     [2^i + s 2^(i - COLUMN_BITS), 2^i + (s + step) 2^(i - COLUMN_BITS))
// A J below COLUMN_BITS leaves columns empty: shifts and indices are constants, and J costs one `and`. Bit f of
// `first` is set if and only if second[f] != 0; bit s of second[f] if and only if list (f, s) is not empty.
#ifdef TLSF_SECOND_LEVEL
#define COLUMN_BITS TLSF_SECOND_LEVEL
#else
#define COLUMN_BITS 5
#endif
_Static_assert(COLUMN_BITS >= 1 && COLUMN_BITS <= 5, "the second level's bitmap is a word of 32 bits");

enum {
  ROWS = 31,  // the bit behind the last row's must exist, and stays 0
  COLUMNS = 1 << COLUMN_BITS,
  SMALL = ALIGNMENT << COLUMN_BITS < 128 ? ALIGNMENT << COLUMN_BITS : 128,  // bytes
  SMALL_LOG2 = (SMALL >= 32) + (SMALL >= 64) + (SMALL >= 128) + 4,
};
_Static_assert(SMALL == 1 << SMALL_LOG2, "and SMALL is at least 16, as ALIGNMENT is at least 8");

struct area {
  struct area *older;
  struct block *start, *end;  // its first block, and the one of size 0 behind its last
};

struct tlsf {
  uint32_t first;
  uint32_t second[ROWS + 1];
  size_t request_most;  // bytes: larger requests have no list
  size_t step;          // COLUMNS / 2^J
  char *reached;        // the highest end of any live block so far
  uint8_t rows;
  uint8_t split;  // enum tlsf_split
  size_t largest_area;
  struct area *areas;
  struct block end;      // every list ends in it: unlinking needs no branch. Its `prev` is written and never read
  struct block *head[];  // [rows * COLUMNS]
};

#ifdef TLSF_SECOND_LEVEL
static inline size_t step_of(const struct tlsf *heap) { return (void)heap, 1; }
#else
static inline size_t step_of(const struct tlsf *heap) { return heap->step; }
#endif

// The paper's functions as they are written there.
struct tlsf_list tlsf_mapping_insert(unsigned bits, size_t size) {
  unsigned first = highest_bit(size);
  return (struct tlsf_list){first, (unsigned)(size >> (first - bits)) - (1u << bits)};
}
struct tlsf_list tlsf_mapping_search(unsigned bits, size_t size, size_t *rounded) {
  size_t width = (size_t)1 << (highest_bit(size) - bits);
  *rounded = (size + width - 1) & ~(width - 1);
  return tlsf_mapping_insert(bits, *rounded);
}

// The same, as a list's number: row * COLUMNS + column. size >> (i - COLUMN_BITS) is COLUMNS + column, so that row f
// begins with (f - 1) * COLUMNS, and what rounding carries goes to the next row by itself: one search for the highest
// bit serves both.
static inline unsigned list_number(unsigned log2, size_t columns) {
  return (log2 - SMALL_LOG2) * COLUMNS + (unsigned)columns;
}
TLSF_STEP unsigned mapping_insert(const struct tlsf *heap, size_t size) {
  if (size < SMALL) return (unsigned)(size / ALIGNMENT);
  unsigned log2 = highest_bit(size);
  return list_number(log2, (size >> (log2 - COLUMN_BITS)) & (0 - step_of(heap)));
}
// The first list of which every block suffices for *size, which is raised to its shortest. Small lists hold one size
// each.
TLSF_STEP unsigned mapping_search(const struct tlsf *heap, size_t *size) {
  if (*size < SMALL) return (unsigned)(*size / ALIGNMENT);
  unsigned log2 = highest_bit(*size), shift = log2 - COLUMN_BITS;
  size_t columns = ((*size + (step_of(heap) << shift) - 1) >> shift) & (0 - step_of(heap));
  *size = columns << shift;
  return list_number(log2, columns);
}

static inline void clear_bits(struct tlsf *heap, unsigned row, unsigned column) {
  if (!(heap->second[row] &= ~(1u << column))) heap->first &= ~(1u << row);
}

TLSF_STEP void insert_block(struct tlsf *heap, struct block *b, unsigned list) {
  unsigned row = list / COLUMNS;
  struct block **head = &heap->head[list], *old = *head;
  *head = b;
  old->prev = b;
  b->next = old;
  b->prev = &heap->end;
  heap->second[row] |= 1u << list % COLUMNS;
  heap->first |= 1u << row;
}

TLSF_STEP void remove_block(struct tlsf *heap, struct block *b) {
  struct block *next = b->next, *prev = b->prev;
  next->prev = prev;
  if (prev != &heap->end) {
    prev->next = next;
    return;
  }
  unsigned list = mapping_insert(heap, size_of(b));
  heap->head[list] = next;
  if (next == &heap->end) clear_bits(heap, list / COLUMNS, list % COLUMNS);
}

// Section 5: the first block of the first list at or behind `*list` that is not empty, and that list; NULL: none.
TLSF_STEP struct block *find_suitable_block(const struct tlsf *heap, unsigned *list) {
  unsigned row = *list / COLUMNS, column = *list % COLUMNS;
  uint32_t lists = heap->second[row] & (~0u << column);
  if (!lists) {
    uint32_t rows = heap->first & (~1u << row);
    if (!rows) return NULL;
    row = lowest_bit(rows);
    lists = heap->second[row];
  }
  *list = row * COLUMNS + lowest_bit(lists);
  return heap->head[*list];
}

TLSF_STEP void remove_head(struct tlsf *heap, const struct block *b, unsigned list) {
  struct block *next = b->next;
  heap->head[list] = next;
  next->prev = &heap->end;
  if (next == &heap->end) clear_bits(heap, list / COLUMNS, list % COLUMNS);
}

static inline struct block *take_suitable_block(struct tlsf *heap, unsigned list) {
  struct block *b = find_suitable_block(heap, &list);
  if (b) remove_head(heap, b, list);
  return b;
}

// ---- the operations ----

// The whole block that a request needs. The request is at most request_most.
static inline size_t block_size(size_t request) {
  size_t size = (request + HEADER + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
  return size < SMALLEST ? SMALLEST : size;
}

// The size by the heap's split policy.
static inline size_t split_size(const struct tlsf *heap, size_t size, size_t rounded) {
  return heap->split == TLSF_ROUND_UP ? rounded : size;
}

// What is behind the first `size` of `whole` bytes, as a free block in no list.
TLSF_STEP struct block *split(const struct block *b, size_t size, size_t whole) {
  struct block *rest = block_at(b, size);
  make_free(rest, whole - size);
  return rest;
}

// Hands out `size` of the `whole` bytes at `b`, which is in no list; what is left over becomes a free block. The block
// behind `b` is live, and marked PREVIOUS_FREE or not. `previous` is b's own flag: PREVIOUS_FREE or 0.
static inline void *use_block(struct tlsf *heap, struct block *b, size_t whole, size_t size, word previous) {
  struct block *rest;
  if (whole - size >= SMALLEST) {
    rest = split(b, size, whole);
    insert_block(heap, rest, mapping_insert(heap, whole - size));
  } else {
    size = whole;
    rest = block_at(b, whole);
    *header_of(rest) &= ~(word)PREVIOUS_FREE;
  }
  *header_of(b) = (word)size | previous;
  char *end = (char *)rest - HEADER;
  if (end > heap->reached) heap->reached = end;
  return b;
}

// O(1): at most 2 bitmap searches, one removal, one insertion.
void *tlsf_malloc(struct tlsf *heap, size_t request) {
  if (request > heap->request_most) return NULL;
  size_t size = block_size(request), rounded = size;
  struct block *b = take_suitable_block(heap, mapping_search(heap, &rounded));
  if (!b) return NULL;
  // A free block's predecessor is live.
  return use_block(heap, b, size_of(b), split_size(heap, size, rounded), 0);
}

// O(1): at most 2 removals, one insertion.
bool tlsf_free(struct tlsf *heap, void *address) {
  struct block *b = address;
  if (!b) return true;
  if ((uintptr_t)b % ALIGNMENT) return false;
  word header = *header_of(b);
  // A block that was joined with the one before keeps its flag in the middle of it, until that is handed out.
  if (header & FREE) return false;
  size_t size = header & ~(word)FLAGS;
  struct block *next = block_at(b, size);
  *header_of(b) = header | FREE;
  if (header & PREVIOUS_FREE) {
    b = previous_physical(b);
    remove_block(heap, b);
    size += size_of(b);
  }
  if (is_free(next)) {
    remove_block(heap, next);
    size += size_of(next);
  }
  make_free(b, size);
  insert_block(heap, b, mapping_insert(heap, size));
  return true;
}

void *tlsf_realloc(struct tlsf *heap, void *address, size_t request) {
  struct block *b = address;
  if (!b) return tlsf_malloc(heap, request);
  if (request > heap->request_most) return NULL;
  size_t old = size_of(b), size = block_size(request);
  struct block *next = next_physical(b);
  size_t whole = old + (is_free(next) ? size_of(next) : 0);
  if (size > whole) {
    void *moved = tlsf_malloc(heap, request);
    if (!moved) return NULL;
    memcpy(moved, b, old - HEADER);
    tlsf_free(heap, b);
    return moved;
  }
  size_t rounded = size;
  mapping_search(heap, &rounded);
  size_t wanted = split_size(heap, size, rounded);
  if (wanted > whole) wanted = whole;
  // Nothing to give back and nothing to take: the block stays as it is.
  if (size <= old && (wanted >= old || (whole == old && old - wanted < SMALLEST))) return b;
  if (whole > old) remove_block(heap, next);
  return use_block(heap, b, whole, wanted, *header_of(b) & PREVIOUS_FREE);
}

void *tlsf_aligned_alloc(struct tlsf *heap, size_t alignment, size_t request) {
  if (alignment == 0 || (alignment & (alignment - 1))) return NULL;
  if (alignment <= ALIGNMENT) return tlsf_malloc(heap, request);
  if (request > heap->request_most || alignment > heap->request_most - request) return NULL;
  size_t size = block_size(request), needed = size + alignment + SMALLEST;
  if (needed > heap->request_most) return NULL;
  struct block *b = take_suitable_block(heap, mapping_search(heap, &needed));
  if (!b) return NULL;
  size_t whole = size_of(b), gap = (0 - (uintptr_t)b) & (alignment - 1);
  if (gap && gap < SMALLEST) gap += (SMALLEST - gap + alignment - 1) & ~(alignment - 1);
  if (gap) {
    struct block *front = b;
    b = block_at(front, gap);
    *header_of(b) = (word)(whole - gap);
    make_free(front, gap);
    insert_block(heap, front, mapping_insert(heap, gap));
  }
  whole -= gap;
  size_t rounded = size;
  mapping_search(heap, &rounded);
  size_t wanted = split_size(heap, size, rounded);
  return use_block(heap, b, whole, wanted < whole ? wanted : whole, gap ? PREVIOUS_FREE : 0);
}

size_t tlsf_usable_size(const void *block) { return block ? size_of(block) - HEADER : 0; }

// ---- areas ----

struct tlsf_config tlsf_config_default(void) {
#ifdef TLSF_SECOND_LEVEL
  return (struct tlsf_config){TLSF_SECOND_LEVEL, TLSF_ROUND_UP, 0};
#else
  return (struct tlsf_config){5, TLSF_ROUND_UP, 0};
#endif
}

static size_t align_up(size_t value, size_t alignment) { return (value + alignment - 1) & ~(alignment - 1); }

// Rows for free blocks of up to `bytes`, and bytes of the heap's structure.
static unsigned rows_for(size_t bytes) { return bytes < SMALL ? 1 : highest_bit(bytes) - SMALL_LOG2 + 2; }
static size_t control_size(unsigned rows) {
  return sizeof(struct tlsf) + (size_t)rows * COLUMNS * sizeof(struct block *);
}

static bool config_is_possible(const struct tlsf_config *config) {
#ifdef TLSF_SECOND_LEVEL
  if (config->second_level_bits != TLSF_SECOND_LEVEL) return false;
#endif
  return config->second_level_bits >= 1 && config->second_level_bits <= 5 &&
         (config->split == TLSF_ROUND_UP || config->split == TLSF_EXACT);
}

bool tlsf_add_area(struct tlsf *heap, void *memory, size_t bytes) {
  uintptr_t from = (uintptr_t)memory, to;
  if (!memory || bytes > heap->largest_area || __builtin_add_overflow(from, bytes, &to)) return false;
  uintptr_t area = align_up(from, _Alignof(struct area));
  uintptr_t start = align_up(area + sizeof(struct area) + HEADER, ALIGNMENT);
  uintptr_t end = to & ~(uintptr_t)(ALIGNMENT - 1);
  if (start < from || end < start || end - start < SMALLEST) return false;
  struct area *record = (struct area *)area;
  *record = (struct area){heap->areas, (struct block *)start, (struct block *)end};
  heap->areas = record;
  *header_of(record->end) = 0;
  make_free(record->start, end - start);
  insert_block(heap, record->start, mapping_insert(heap, end - start));
  return true;
}

struct tlsf *tlsf_init(void *memory, size_t bytes, const struct tlsf_config *given) {
  struct tlsf_config config = given ? *given : tlsf_config_default();
  if (!memory || !config_is_possible(&config)) return NULL;
  if (config.largest_area < bytes) config.largest_area = bytes;
  unsigned rows = rows_for(config.largest_area);
  if (rows > ROWS || (HEADER == 4 && config.largest_area > UINT32_MAX)) return NULL;
  size_t skipped = align_up((uintptr_t)memory, _Alignof(struct tlsf)) - (uintptr_t)memory;
  size_t control = skipped + control_size(rows);
  if (bytes <= control) return NULL;
  struct tlsf *heap = (struct tlsf *)((char *)memory + skipped);
  memset(heap, 0, sizeof *heap);
  heap->split = (uint8_t)config.split;
  heap->rows = (uint8_t)rows;
  heap->step = COLUMNS >> config.second_level_bits;
  heap->largest_area = config.largest_area;
  // Rounding up a block of less than twice this stays in row `rows` at most, whose bitmap is 0.
  heap->request_most = (((size_t)1 << (SMALL_LOG2 + rows - 1)) - 1) - HEADER - ALIGNMENT;
  heap->end = (struct block){&heap->end, &heap->end};
  for (size_t i = 0; i < (size_t)rows * COLUMNS; i++) heap->head[i] = &heap->end;
  if (!tlsf_add_area(heap, (char *)memory + control, bytes - control)) return NULL;
  heap->reached = (char *)heap->areas->start - HEADER;
  return heap;
}

size_t tlsf_overhead(size_t bytes) {
  unsigned rows = rows_for(bytes);
  size_t area = align_up(control_size(rows), _Alignof(struct area));
  size_t start = align_up(area + sizeof(struct area) + HEADER, ALIGNMENT), end = bytes & ~(size_t)(ALIGNMENT - 1);
  return rows > ROWS || end < start || end - start < SMALLEST ? SIZE_MAX : bytes - (end - start);
}

// ---- usage, checks, sizes ----

struct tlsf_usage tlsf_usage(const struct tlsf *heap) {
  struct tlsf_usage usage = {.control = control_size(heap->rows)};
  for (const struct area *area = heap->areas; area; area = area->older) {
    char *from = (char *)area->start - HEADER, *to = (char *)area->end - HEADER;
    usage.control += sizeof *area + HEADER;
    usage.area += (size_t)(to - from);
    if (heap->reached > from) usage.reached += (size_t)((heap->reached < to ? heap->reached : to) - from);
    for (const struct block *b = area->start; b != area->end; b = next_physical(b)) {
      if (!is_free(b)) usage.live += size_of(b);
      if (is_free(b) && size_of(b) > usage.largest) usage.largest = size_of(b);
    }
  }
  return usage;
}

bool tlsf_visit(const struct tlsf *heap, bool (*visit)(void *block, size_t usable, void *argument), void *argument) {
  for (const struct area *area = heap->areas; area; area = area->older)
    for (struct block *b = area->start; b != area->end; b = next_physical(b))
      if (!is_free(b) && !visit(b, size_of(b) - HEADER, argument)) return false;
  return true;
}

static const char *check_area(const struct area *area, size_t *free_blocks) {
  const struct block *b = area->start, *free_before = NULL;
  for (;; b = next_physical(b)) {
    size_t size = size_of(b);
    if (is_previous_free(b) != (free_before != NULL)) return "a block is wrong about whether the one before it is free";
    if (free_before && footer_before(b) != size_of(free_before)) return "a free block's footer is not its size";
    if (b == area->end) return size || is_free(b) ? "an area's end has been overwritten" : NULL;
    if (size < SMALLEST || size % ALIGNMENT || size > (size_t)((char *)area->end - (char *)b))
      return "a block's size is impossible";
    if (free_before && is_free(b)) return "two neighbours are free";
    free_before = is_free(b) ? b : NULL;
    *free_blocks += is_free(b);
  }
}

static bool lies_in(const struct tlsf *heap, const struct block *b) {
  for (const struct area *area = heap->areas; area; area = area->older) {
    if (b >= area->start && b < area->end) return (uintptr_t)b % ALIGNMENT == 0;
  }
  return false;
}

// `*left`: free blocks that no list has shown yet.
static const char *check_list(const struct tlsf *heap, unsigned list, size_t *left) {
  const struct block *b = heap->head[list], *prev = &heap->end;
  uint32_t bit = heap->second[list / COLUMNS] >> list % COLUMNS & 1;
  if (bit != (b != &heap->end)) return "a bit is wrong about its list";
  for (; b != &heap->end; prev = b, b = b->next) {
    if (!lies_in(heap, b) || !is_free(b)) return "a list has something that is no free block";
    if ((*left)-- == 0) return "the lists have more blocks than are free";
    if (b->prev != prev) return "a list is not linked both ways";
    if (mapping_insert(heap, size_of(b)) != list) return "a free block is in the wrong list";
  }
  return NULL;
}

const char *tlsf_check(const struct tlsf *heap) {
  size_t free_blocks = 0;
  const char *wrong = NULL;
  if (!heap->areas) return "the heap has no area";
  for (const struct area *area = heap->areas; area && !wrong; area = area->older)
    wrong = check_area(area, &free_blocks);
  for (unsigned f = 0; f <= ROWS && !wrong; f++) {
    if (((heap->first >> f) & 1) != (heap->second[f] != 0)) wrong = "a bit of the first level is wrong about its row";
    if (f >= heap->rows && heap->second[f]) wrong = "a row that does not exist has a bit";
  }
  for (unsigned i = 0; i < (unsigned)heap->rows * COLUMNS && !wrong; i++) wrong = check_list(heap, i, &free_blocks);
  return wrong ? wrong : free_blocks ? "a free block is in no list" : NULL;
}

size_t tlsf_area_size(size_t live, size_t largest, const struct tlsf_config *given) {
  struct tlsf_config config = given ? *given : tlsf_config_default();
  double unit = ALIGNMENT, L = (double)align_up(live, ALIGNMENT), m = (double)align_up(largest, ALIGNMENT);
  if (!config_is_possible(&config)) return 0;
  if (live > SIZE_MAX / 2 || largest > SIZE_MAX / 2) return SIZE_MAX;
  if (L < unit) L = unit;
  if (m > L) m = L;
  double need = 0;
  // The bound turns near m == L / 2: a request of m leaves only L - m to the blocks that part the free ones.
  double turn = (double)align_up(live / 2, ALIGNMENT), tries[] = {m, m < turn ? m : turn};
  for (int i = 0; i < 2; i++) {
    double others = L - tries[i], k = others / unit;
    double bound = others + k * SMALLEST + (k + 1) * (tries[i] + SMALLEST - unit) + unit;
    if (bound > need) need = bound;
  }
  need *= 1 + 1.0 / (1u << config.second_level_bits);
  // Twice the area has at most one row more than the area; the rows are those of the whole memory given.
  need += (double)control_size(ROWS) + sizeof(struct area) + 4 * ALIGNMENT;
  return need < (double)SIZE_MAX / 4 ? align_up((size_t)need, ALIGNMENT) : SIZE_MAX;
}
