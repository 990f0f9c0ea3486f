/* The hint tree of one heap, its spans and what other threads have freed: src/hint.[ch], and the parts of src/remote.[ch],
 * src/page.c and src/medium.c that touch what several threads share. Included by remote_free.pml and hand_over.pml.
 *
 * One statement is one access to shared memory; all accesses are in one order that everybody agrees on, which is what
 * sequentially consistent atomics promise. What only the owner touches costs no step. Sizes are the smallest at which
 * each race exists: 2 bits a word, 1 top word, the three levels of the tree.
 *
 *   top      bit g: group g             at[place]       span + 1; 0: vacant
 *   grp[g]   bit l: leaf 2 * g + l      hint[span]      its place; NONE: the span is free
 *   leaf[l]  bit s: place 2 * l + s     remote[n]    bit b: block 2 * word + b was freed by another thread
 *
 * A span has WORDS words of remote frees, of BITS blocks each. Sets of blocks are bit masks: `held` by the program,
 * `mine` the owner's (free list, private, or in a released span); what is in neither is in `remote`.
 *
 * BROKEN is one of the mistakes below; 0, or not defined: as the code does it.
 */
#define HINT_FIRST 1        /* the hint is raised before the block's bit is set */
#define CLEAR_AFTER 2       /* the owner clears the hint after collecting */
#define NO_RECHECK 3        /* the owner clears a bit and does not look below again */
#define ONLY_IF_EMPTY 4     /* the upper bits are set only by who finds the word below empty (trap 2) */
#define LOOK_AND_ZERO 5     /* collecting reads a word and then stores 0, in two steps */
#define FORGET_WORDS 6      /* one word is taken, and the hint is not raised for the others */
#define PLACE_AFTER 7       /* the span's place is read after the block was given away (trap 3) */
#define FORGET_DETACH 8     /* a released span stays in its place */
#define CLAIM_BLIND 9       /* the state is read, found to be orphan, and stored: no compare-and-swap */
#define LEAVE_EARLY 10      /* the heap is an orphan before its thread has left it */
#define ADOPT_CLAIMED 11    /* a new thread adopts an orphan that another has claimed */
#define STASH_LOST 12       /* the thread leaves with hints in its own stash, which the heap forgets */
#define UNCLAIM_FIRST 13    /* the claim is given back before the work is done */
#define STAYS_IN_LIST 14    /* an adopted heap is not taken out of the list */
#define LEAVE_UNLOCKED 15   /* a leaving thread changes the list without the lock */
#define GROUP_ONLY 16       /* the freeing thread raises the group only if it raised the leaf itself */
#define FOUND_LOST 17       /* the thread leaves with a place that a search has found, which the heap forgets */
#define NO_SECOND_LOOK 18   /* the owner takes one block, clears the hint, and does not look for others */
#define LATE_LOST 19        /* the owner finds nothing, clears the hint as late, and does not look once more */

#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef SPANS
#define SPANS 2
#endif
#ifndef WORDS
#define WORDS 1
#endif
#ifndef BITS
#define BITS 1
#endif
#ifndef LEAVES
#define LEAVES 2
#endif
#define GROUPS ((LEAVES + 1) / 2)
#define PLACES (2 * LEAVES)
#define BLOCKS (SPANS * WORDS * BITS)
#define ALL ((1 << BLOCKS) - 1)
#define NONE 255

#define SPAN_OF(block) ((block) / (WORDS * BITS))
#define WORD_OF(block) ((block) / BITS)
#define BIT_OF(block) (1 << ((block) % BITS))
#define BLOCKS_OF(span) (((1 << (WORDS * BITS)) - 1) << ((span) * WORDS * BITS))
#define LOWEST(bits) (((bits) & 1) -> 0 : 1)

byte top;
byte grp[GROUPS];
byte leaf[LEAVES];
byte remote[SPANS * WORDS];
byte hint[SPANS];   /* read by whoever holds a block of the span, which keeps it as it is */
byte at[PLACES];    /* from here on: the owner's */
byte stash_leaf, stash_bits;
byte found;         /* a place where a search has led, + 1; 0: none */
short mine;
short held;         /* nobody's: what the program may use, to be compared with what it is given */

/* hint_attach: the lowest vacant place. */
inline attach(which) {
  d_step {
    assert(hint[which] == NONE);
    place = 0;
    do
    :: place < PLACES && at[place] -> place++
    :: else -> break
    od;
    assert(place < PLACES);
    at[place] = which + 1;
    hint[which] = place
  }
}

/* page_release, medium release: no block of the span is anybody's; the next use relies on its remote words being 0. */
inline release(which) {
  d_step {
    assert((mine & BLOCKS_OF(which)) == BLOCKS_OF(which));
    w = 0;
    do
    :: w < WORDS -> assert(remote[which * WORDS + w] == 0); w++
    :: else -> break
    od;
#if BROKEN != FORGET_DETACH
    at[hint[which]] = 0;
#endif
    hint[which] = NONE
  }
}

/* ---- any thread ---- */

inline raise_level(word, mask) {
  if
  :: word & (mask)
  :: else -> word = word | (mask)
  fi
}

inline hint_raise(where) {
#if BROKEN == ONLY_IF_EMPTY
  atomic { before = leaf[(where) / 2]; leaf[(where) / 2] = leaf[(where) / 2] | (1 << ((where) % 2)) };
  if
  :: before == 0 ->
     atomic { before = grp[(where) / 4]; grp[(where) / 4] = grp[(where) / 4] | (1 << ((where) / 2 % 2)) };
     if
     :: before == 0 -> top = top | (1 << ((where) / 4))
     :: else
     fi
  :: else
  fi
#elif BROKEN == GROUP_ONLY
  if
  :: leaf[(where) / 2] & (1 << ((where) % 2))
  :: else ->
     leaf[(where) / 2] = leaf[(where) / 2] | (1 << ((where) % 2));
     raise_level(grp[(where) / 4], 1 << ((where) / 2 % 2));
     raise_level(top, 1 << ((where) / 4))
  fi
#else
  raise_level(leaf[(where) / 2], 1 << ((where) % 2));
  raise_level(grp[(where) / 4], 1 << ((where) / 2 % 2));
  raise_level(top, 1 << ((where) / 4))
#endif
}

/* remote_mark */
inline remote_mark(given) {
  h = hint[SPAN_OF(given)];
#if BROKEN == HINT_FIRST
  hint_raise(h);
#endif
  d_step { /* fetch_add: one step that also shows whether the bit was set */
    assert(held & (1 << given));
    assert(!(remote[WORD_OF(given)] & BIT_OF(given)));
    held = held & ~(1 << given);
    remote[WORD_OF(given)] = remote[WORD_OF(given)] | BIT_OF(given)
  };
#if BROKEN == PLACE_AFTER
  h = hint[SPAN_OF(given)];
  assert(h != NONE); /* what else lies there would be followed as a pointer */
#endif
#if BROKEN != HINT_FIRST
  hint_raise(h);
#endif
  h = 0;
  before = 0
}

/* ---- the owner ---- */

/* settle_level: `settled` if the bit above was cleared and stays so. */
inline settle_level(word, parent, mask) {
  settled = false;
  if
  :: word
  :: else ->
     parent = parent & ~(mask);
#if BROKEN == NO_RECHECK
     settled = true
#else
     if
     :: word -> parent = parent | (mask)
     :: else -> settled = true
     fi
#endif
  fi
}

inline settle_above(l) {
  settle_level(leaf[l], grp[l / 2], 1 << (l % 2));
  if
  :: settled -> settle_level(grp[l / 2], top, 1 << (l / 2))
  :: else
  fi
}

inline lower(where) {
  leaf[(where) / 2] = leaf[(where) / 2] & ~(1 << ((where) % 2));
  settle_above((where) / 2)
}

/* hint_lower */
inline hint_lower(which) {
  if
  :: leaf[hint[which] / 2] & (1 << (hint[which] % 2)) -> lower(hint[which])
  :: else
  fi
}

inline take_over(n) {
#if BROKEN == LOOK_AND_ZERO
  bits = remote[n];
  d_step {
    remote[n] = 0;
#else
  d_step { /* exchange */
    bits = remote[n];
    remote[n] = 0;
#endif
    assert(!(mine & (bits << ((n) * BITS))));
    mine = mine | (bits << ((n) * BITS));
    bits = 0
  }
}

/* collect: the first word that has anything; the hint again if others have. */
inline collect(which) {
  w = 0;
  do
  :: w < WORDS ->
     if
     :: remote[(which) * WORDS + w] ->
        take_over((which) * WORDS + w);
#if WORDS > 1 && BROKEN != FORGET_WORDS
        w = 0;
        do
        :: w < WORDS && !remote[(which) * WORDS + w] -> w++
        :: w < WORDS && remote[(which) * WORDS + w] -> /* take_remote; or leave_more: looked at once more */
           if
           :: !found -> found = hint[which] + 1
           :: true -> hint_raise(hint[which])
           fi;
           break
        :: w == WORDS -> break
        od;
#endif
        break
     :: else -> w++
     fi
  :: else -> break
  od;
  w = 0
}

/* take_remote_and_collect: one block of a page is taken; the hint goes where no other was seen. */
inline take_one(which) {
  w = 0;
  do
  :: w < WORDS && !remote[(which) * WORDS + w] -> w++
  :: w < WORDS && remote[(which) * WORDS + w] ->
     d_step {
       bits = remote[(which) * WORDS + w];
       before = bits & (bits - 1);
       bits = bits ^ before;
       remote[(which) * WORDS + w] = remote[(which) * WORDS + w] & ~bits;
       assert(!(mine & (bits << (((which) * WORDS + w) * BITS))));
       mine = mine | (bits << (((which) * WORDS + w) * BITS));
       bits = 0
     };
     w++;
     do
     :: w < WORDS && !before -> before = remote[(which) * WORDS + w]; w++
     :: else -> break
     od;
     if
     :: before
     :: !before ->
        lower(hint[which]);
#if BROKEN != NO_SECOND_LOOK
        w = 0;
        do
        :: w < WORDS && !remote[(which) * WORDS + w] -> w++
        :: w < WORDS && remote[(which) * WORDS + w] -> hint_raise(hint[which]); break
        :: w == WORDS -> break
        od
#endif
     fi;
     before = 0;
     break
  :: w == WORDS -> break
  od;
  settled = false;
  w = 0
}

/* find_below: where its bit was cleared the place is `found`, and looked at now or in a later operation */
inline find_below(g) {
  bits = grp[g];
  if
  :: bits == 0 -> settle_level(grp[g], top, 1 << g)
  :: else ->
     place = 2 * g + LOWEST(bits);
     bits = leaf[place];
     if
     :: bits == 0 -> settle_above(place)
     :: else ->
        place = 2 * place + LOWEST(bits);
        found = place + 1;
#if BROKEN != CLEAR_AFTER
        lower(place)
#endif
     fi
  fi;
  bits = 0;
  place = 0;
  settled = false
}

/* hint_take_found and page_collect_any */
inline take_found() {
  d_step { place = found - 1; found = 0 };
  if
  :: at[place] -> assert(hint[at[place] - 1] == place); collect((at[place] - 1))
  :: else /* a late bit of a span that is gone */
  fi;
#if BROKEN == CLEAR_AFTER
  lower(place);
  settled = false;
#endif
  place = 0
}

/* stash_below: medium blocks, one block a span; the bits of a leaf are taken at once and looked at one by one. */
inline stash_below(g) {
  bits = grp[g];
  settled = true;
  if
  :: bits ->
     place = 2 * g + LOWEST(bits);
     d_step { stash_leaf = place; stash_bits = leaf[place]; leaf[place] = 0 };
     settle_level(leaf[place], grp[g], 1 << (place % 2))
  :: else
  fi;
  if
  :: settled -> settle_level(grp[g], top, 1 << g)
  :: else
  fi;
  bits = 0;
  place = 0;
  settled = false
}

/* hint_take_medium, take_remote, medium_collect */
inline take_stashed() {
  d_step {
    place = 2 * stash_leaf + LOWEST(stash_bits);
    stash_bits = stash_bits & (stash_bits - 1);
    span = at[place]
  };
  if
  :: span == 0 /* a late bit */
  :: span && !remote[span - 1]
  :: span && remote[span - 1] ->
     remote[span - 1] = 0;
     d_step { assert(!(mine & (1 << (span - 1)))); mine = mine | (1 << (span - 1)) };
     release((span - 1))
  fi;
  span = 0;
  place = 0;
  w = 0
}

inline empty_stash() {
  do
  :: stash_bits ->
#if BROKEN != STASH_LOST
     hint_raise((2 * stash_leaf + LOWEST(stash_bits)));
#endif
     stash_bits = stash_bits & (stash_bits - 1)
  :: else -> break
  od;
  if
  :: found ->
#if BROKEN != FOUND_LOST
     hint_raise((found - 1));
#endif
     found = 0
  :: else
  fi
}

#define HINT_ANY (top || stash_bits || found)

/* hint_find_any and remote_collect_piece. Which group comes first does not matter here: any. */
inline remote_collect() {
#ifdef MEDIUM
  if
  :: stash_bits -> take_stashed()
  :: !stash_bits && (top & 1) -> stash_below(0)
#if GROUPS > 1
  :: !stash_bits && (top & 2) -> stash_below(1)
#endif
  :: !stash_bits && !top
  fi
#else
  if
  :: found -> take_found()
  :: !found && (top & 1) -> find_below(0)
#if GROUPS > 1
  :: !found && (top & 2) -> find_below(1)
#endif
  :: !found && !top
  fi
#endif
}

/* remote_collect_all */
inline collect_all() {
  do
  :: HINT_ANY -> remote_collect()
  :: else -> break
  od
}
