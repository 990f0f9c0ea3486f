/* The trees of an extent, src/extent.c: threads free, the owner takes a word at each level, from the top down, each after
 * the bit above it was cleared, and looks at the blocks of what it found. Each access to shared memory is one step.
 *
 * SPANS spans, each alone in its leaf or (TOGETHER) all in one; FREERS threads, each frees one block of any span.
 * Held: when the threads have returned, the owner goes on until nothing is set, and then has every block; no block comes
 * back twice. STOPPED: thread 0 may be anywhere, for ever; all other blocks come back.
 *
 * Mistakes that are rejected: LEAF_FIRST, GROUP_FIRST (a word is taken before the bit above it is cleared), HINT_FIRST (a
 * hint is raised before the block's bit is set), LOOK_FIRST (the blocks are looked at before the leaf's word is taken).
 */
#define LEAF_FIRST 1
#define GROUP_FIRST 2
#define HINT_FIRST 3
#define LOOK_FIRST 4
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef SPANS
#define SPANS 2
#endif
#ifndef FREERS
#define FREERS 3
#endif
#ifdef TOGETHER
#define LEAF(span) 0
#define PLACE(span) (1 << (span))
#else
#define LEAF(span) (span)
#define PLACE(span) 1
#endif

byte remote[SPANS];     /* a bit for each thread: its block of that span */
byte leaf[SPANS], group; /* words */
bit top;
byte mine, done; /* bits of threads */

inline raise(s) {
  if
  :: leaf[LEAF(s)] & PLACE(s) -> skip
  :: !(leaf[LEAF(s)] & PLACE(s)) -> leaf[LEAF(s)] = leaf[LEAF(s)] | PLACE(s)
  fi;
  if
  :: group & (1 << LEAF(s)) -> skip
  :: !(group & (1 << LEAF(s))) -> group = group | (1 << LEAF(s))
  fi;
  if
  :: top -> skip
  :: !top -> top = 1
  fi
}

proctype freer(byte self) {
  byte s;
  if
  :: s = 0
  :: s = SPANS - 1
  fi;
#if BROKEN == HINT_FIRST
  raise(s);
  remote[s] = remote[s] | (1 << self);
#else
  remote[s] = remote[s] | (1 << self);
  raise(s);
#endif
  done = done | (1 << self)
}

inline collect(s) {
  d_step {
    got = remote[s];
    remote[s] = 0;
    assert(!(got & mine));
    mine = mine | got;
    got = 0
  }
}

/* One operation of the owner. */
inline operation() {
  if
  :: bits -> /* look at the first span that was found */
     if
     :: (bits & 1) -> bits = bits & ~1; at = 0
     :: else -> bits = bits & ~2; at = 1
     fi;
#ifndef TOGETHER
     at = which;
#endif
#if BROKEN != LOOK_FIRST
     collect(at)
#endif
  :: !bits && leaves ->
     if
     :: (leaves & 1) -> which = 0
     :: else -> which = 1
     fi;
     leaves = leaves & ~(1 << which);
#if BROKEN == LOOK_FIRST
     collect(which);
#endif
#if BROKEN != LEAF_FIRST
     d_step { bits = leaf[which]; leaf[which] = 0 }
#else
     bits = early[which]; early[which] = 0
#endif
  :: !bits && !leaves && top ->
#if BROKEN == GROUP_FIRST
     d_step { leaves = group; group = 0 };
     top = 0
#elif BROKEN == LEAF_FIRST
     d_step { early[0] = leaf[0]; leaf[0] = 0; early[SPANS - 1] = early[SPANS - 1] | leaf[SPANS - 1]; leaf[SPANS - 1] = 0 };
     top = 0;
     d_step { leaves = group; group = 0 }
#else
     top = 0;
     d_step { leaves = group; group = 0 }
#endif
  fi
}

#ifdef STOPPED
#define MUST ((1 << FREERS) - 2)
#else
#define MUST ((1 << FREERS) - 1)
#endif

active proctype owner() {
  byte bits, leaves, which, at, got;
#if BROKEN == LEAF_FIRST
  byte early[SPANS];
#endif
  atomic {
    byte i = 0;
    do
    :: i < FREERS -> run freer(i); i++
    :: else -> break
    od
  }
  do
  :: bits || leaves || top -> operation()
  :: (done & MUST) == MUST && !bits && !leaves && !top -> break
  od;
  assert((mine & MUST) == MUST)
}
