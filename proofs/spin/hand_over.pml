/* A heap changes hands: its thread leaves it, threads that free into the orphan claim it for a call, a new thread adopts
 * it, and leaves it too. src/heap.c (heap_leave, adopt, heap_claim), src/remote.c (remote_free_unowned), alloc_trim.
 *
 * FREERS threads each free one block of the heap, and MORE others one that its later owners hand out. They read the heap's state relaxed, so they may see an old value:
 * here they take either path at any time, whatever the state.
 *
 * Held: one thread at most is inside the heap; no block is handed out twice or lost; whatever waits in the orphan at the
 * end is found by the next that claims or adopts it.
 */
#include "hints.pml"
#ifndef FREERS
#define FREERS 2
#endif
#ifndef MORE
#define MORE 1
#endif

mtype = { OWNED, ORPHAN, CLAIMED };
mtype state = OWNED;
byte inside; /* threads that use what is the owner's alone */
byte finished, more = MORE;

inline enter() { d_step { inside++; assert(inside == 1) } }
inline leave() { inside-- }

/* heap_claim; the answer is in `claimed` */
inline heap_claim() {
#if BROKEN == CLAIM_BLIND
  if
  :: state == ORPHAN -> state = CLAIMED; claimed = true
  :: else -> claimed = false
  fi
#else
  atomic {
    if
    :: state == ORPHAN -> state = CLAIMED; claimed = true
    :: else -> claimed = false
    fi
  }
#endif
}

inline local_free(given) {
  d_step {
    assert(inside == 1);
    assert(held & (1 << given));
    held = held & ~(1 << given);
    mine = mine | (1 << given)
  }
#ifdef MEDIUM
  release(SPAN_OF(given))
#endif
}

inline unclaim() { atomic { leave(); state = ORPHAN } }

inline claimed_collect() {
#if BROKEN == UNCLAIM_FIRST
  atomic { state = ORPHAN; leave() };
  remote_collect()
#else
  remote_collect();
  unclaim()
#endif
}

proctype freer(byte block) {
  byte h, before, bits, place, w, span;
  bool settled, claimed;
  if
  :: true -> remote_mark(block) /* the heap looks owned */
  :: true ->                    /* remote_free_unowned */
     heap_claim();
     if
     :: claimed ->
        enter();
        local_free(block);
        if
        :: HINT_ANY -> claimed_collect()
        :: else -> unclaim()
        fi
     :: else -> remote_mark(block)
     fi;
     if
     :: top -> /* hint_pending: the stash, and what was found, are the owner's */
        heap_claim();
        if
        :: claimed -> enter(); claimed_collect()
        :: else
        fi
     :: else
     fi
  fi;
  finished++
}

inline heap_leave() {
#if BROKEN == LEAVE_EARLY
  state = ORPHAN;
#endif
  empty_stash();
#if BROKEN == LEAVE_EARLY
  leave()
#else
  atomic { leave(); state = ORPHAN }
#endif
}

/* What a thread does while it has the heap: collects, or not; hands out a block, which another thread frees. */
inline work() {
  do
  :: HINT_ANY -> remote_collect()
  :: more && mine ->
     atomic {
       select(span : 0 .. BLOCKS - 1);
       if
       :: mine & (1 << span) ->
#ifdef MEDIUM
          attach(span);
#endif
          assert(!(held & (1 << span)));
          held = held | (1 << span);
          mine = mine & ~(1 << span);
          more--;
          run freer(span)
       :: else
       fi;
       span = 0; place = 0
     }
  :: true -> break
  od
}

/* The first owner, and one that adopts the heap later if it can. */
active proctype owner() {
  byte h, before, bits, place, w, span, block;
  bool settled;
  atomic {
    do
    :: span < SPANS -> hint[span] = NONE; attach(span); span++
    :: else -> break
    od;
    held = (1 << FREERS) - 1;
    mine = ALL & ~held;
    do
    :: block < FREERS -> run freer(block); block++
    :: else -> break
    od;
    span = 0; place = 0; block = 0;
    enter()
  }
  work();
  heap_leave()
}

active proctype adopter() {
  byte h, before, bits, place, w, span;
  bool settled;
  if
  :: atomic {
#if BROKEN == ADOPT_CLAIMED
       state == ORPHAN || state == CLAIMED -> state = OWNED;
#else
       state == ORPHAN -> state = OWNED;
#endif
       enter()
     };
     work();
     heap_leave()
  :: true
  fi;
  /* Any later thread that adopts the heap or trims: sees all. */
  atomic { finished == FREERS + MORE - more && state == ORPHAN -> state = CLAIMED; enter() };
  collect_all();
  assert(mine == ALL && !held)
}
