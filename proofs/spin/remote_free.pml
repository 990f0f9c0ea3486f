/* Remote frees to a heap whose thread lives: FREERS threads free blocks that the owner hands out, again and again.
 * The owner may do any of its steps at any time, in any order; what src/page.c and src/medium.c choose is among these.
 *
 *   MORE       how many blocks the owner hands out after the first, one for each freeing thread
 *   RELEASES   how many spans it may release (their places are then another's)
 *   STOPPED    thread 0 may be stopped anywhere for ever: the owner does not wait for it
 *   LIVE       for the formula `seen`: the owner collects for ever
 *
 * Held: no block is handed out twice or freed into a wrong place (assertions); when the threads have returned, the
 * owner finds every block that they have freed, whatever the stopped thread hides; nobody waits for ever.
 */
#include "hints.pml"
#ifndef FREERS
#define FREERS 2
#endif
#ifndef MORE
#define MORE 1
#endif
#ifndef RELEASES
#define RELEASES 0
#endif

#define EMPTY 254
byte box[FREERS];    /* the block for thread t to free next; EMPTY; NONE: no more */
bool returned[FREERS];
short of_stopped;    /* blocks that thread 0 had */

proctype freer(byte t) {
  byte block, h, before;
end:
  do
  :: box[t] == NONE -> break
  :: box[t] < EMPTY ->
     atomic { block = box[t]; box[t] = EMPTY };
     remote_mark(block);
     block = 0
  od;
  returned[t] = true
}

inline hand_out(given, to) {
  assert(!(held & (1 << given)));
  held = held | (1 << given);
  mine = mine & ~(1 << given);
  box[to] = given;
#ifdef STOPPED
  if
  :: to == 0 -> of_stopped = of_stopped | (1 << given)
  :: else -> of_stopped = of_stopped & ~(1 << given)
  fi
#endif
}

active proctype owner() {
  byte block, t, bits, place, w, h, before, span;
  bool settled;
  byte more = MORE, releases = RELEASES;
  atomic {
    mine = ALL;
    do
    :: span < SPANS -> hint[span] = NONE; attach(span); span++
    :: else -> break
    od;
    /* Each thread has its block; which one matters only by its place. */
    do
    :: t < FREERS -> hand_out(t, t); run freer(t); t++
    :: else -> break
    od;
    span = 0; place = 0; t = 0
  }
#ifdef LIVE
  do
  :: HINT_ANY -> remote_collect()
  :: t < FREERS && box[t] == EMPTY -> box[t] = NONE; t++
  :: else /* it has something else to do, and comes again */
  od
#else
  do
  :: more && mine -> /* malloc */
     atomic {
       select(block : 0 .. BLOCKS - 1);
       select(t : 0 .. FREERS - 1);
       if
       :: !(mine & (1 << block)) || box[t] != EMPTY
#ifdef MEDIUM
       :: else ->
          if
          :: hint[SPAN_OF(block)] == NONE -> attach(SPAN_OF(block))
          :: else
          fi;
#else
       :: else ->
          if
          :: hint[SPAN_OF(block)] == NONE -> goto skipped /* its page was released, and waits to be made again */
          :: else
          fi;
#endif
          hand_out(block, t);
          more--
       fi;
skipped:
       block = 0; t = 0; place = 0
     }
  :: HINT_ANY -> remote_collect()
#ifndef MEDIUM
  :: true -> /* the current page, whose hint stays and leads to nothing later (take_further), or is lowered before */
     select(span : 0 .. SPANS - 1);
     if
     :: hint[span] == NONE
     :: else ->
#if BROKEN == CLEAR_AFTER
        collect(span);
        hint_lower(span)
#else
        if
        :: true
        :: hint_lower(span)
        fi;
        collect(span)
#endif
     fi;
     span = 0; settled = false
  :: true -> /* a bit that came late is cleared, and its place looked at once more (take_past_late) */
     select(span : 0 .. SPANS - 1);
     if
     :: hint[span] == NONE
     :: else ->
        hint_lower(span);
#if BROKEN != LATE_LOST
        w = 0;
        do
        :: w < WORDS && !remote[span * WORDS + w] -> w++
        :: w < WORDS && remote[span * WORDS + w] -> hint_raise(hint[span]); break
        :: else -> break
        od;
        w = 0; before = 0
#endif
     fi;
     span = 0; settled = false
  :: true -> /* one of its blocks */
     select(span : 0 .. SPANS - 1);
     if
     :: hint[span] == NONE
     :: else -> take_one(span)
     fi;
     span = 0
  :: releases -> /* an empty page goes */
     atomic {
       select(span : 0 .. SPANS - 1);
       if
       :: hint[span] != NONE && (mine & BLOCKS_OF(span)) == BLOCKS_OF(span) -> release(span); releases--
       :: else
       fi;
       span = 0; w = 0
     }
  :: releases < RELEASES -> /* and another is made, perhaps in the same place */
     atomic {
       select(span : 0 .. SPANS - 1);
       if
       :: hint[span] == NONE -> attach(span)
       :: else
       fi;
       span = 0; place = 0
     }
#endif
  :: true -> break
  od;
  do
  :: t < FREERS ->
#ifdef STOPPED
     if
     :: t == 0
     :: t -> atomic { box[t] == EMPTY -> box[t] = NONE }; returned[t]
     fi;
#else
     atomic { box[t] == EMPTY -> box[t] = NONE };
     returned[t];
#endif
     t++
  :: else -> break
  od;
  collect_all();
  /* The owner has seen every free. */
  assert(((mine | of_stopped) & ALL) == ALL);
#ifndef STOPPED
  assert(!held);
#endif
#endif
}

#ifdef LIVE
ltl seen { <>[] (mine == ALL) }
#endif
