/* The list of orphans: threads make, leave and adopt heaps while others claim orphans for a call. src/heap.c: adopt,
 * heap_new, heap_leave, heap_claim. The list is linked by next_orphan and changed under a lock; a claim takes no lock.
 *
 * Held: a heap has one user at most; in the end every heap that has no user is in the list, once, and the list ends;
 * there are never more heaps than THREADS and CLAIMS together: a thread makes a new heap only if each orphan was claimed
 * at the moment when it came to it.
 */
#include "hints.pml"
#define THREADS 3
#ifndef CLAIMS
#define CLAIMS 1
#endif
#define HEAPS (THREADS + CLAIMS)
#ifndef TURNS
#define TURNS 2
#endif

mtype = { UNMADE, OWNED, ORPHAN, CLAIMED };
mtype state[HEAPS] = UNMADE;
byte next_orphan[HEAPS] = NONE;
byte orphans = NONE;
bool lock;
byte users[HEAPS];
byte made, finished;

inline acquire() { atomic { !lock -> lock = true } }

inline adopt() {
  acquire();
  before = NONE;
  heap = orphans;
  do
  :: heap == NONE -> break
  :: heap != NONE ->
#if BROKEN == CLAIM_BLIND
     if
     :: state[heap] == ORPHAN ->
        state[heap] = OWNED;
#elif BROKEN == ADOPT_CLAIMED
     if
     :: atomic { state[heap] == ORPHAN || state[heap] == CLAIMED -> state[heap] = OWNED };
#else
     if
     :: atomic { state[heap] == ORPHAN -> state[heap] = OWNED };
#endif
        d_step { users[heap]++; assert(users[heap] == 1) };
#if BROKEN != STAYS_IN_LIST
        if
        :: before == NONE -> orphans = next_orphan[heap]
        :: else -> next_orphan[before] = next_orphan[heap]
        fi;
#endif
        break
     :: else -> before = heap; heap = next_orphan[heap]
     fi
  od;
  lock = false;
  before = NONE
}

inline heap_leave() {
#if BROKEN != LEAVE_UNLOCKED
  acquire();
#endif
  next_orphan[heap] = orphans;
  orphans = heap;
#if BROKEN != LEAVE_UNLOCKED
  lock = false;
#endif
  atomic { users[heap]--; state[heap] = ORPHAN }
}

active [THREADS] proctype thread() {
  byte heap = NONE, before = NONE, turns;
  do
  :: turns < TURNS ->
     adopt();
     if
     :: heap == NONE -> atomic { assert(made < HEAPS); heap = made; made++; state[heap] = OWNED; users[heap]++ }
     :: else
     fi;
     heap_leave();
     heap = NONE;
     turns++
  :: else -> break
  od;
  finished++
}

/* A thread that frees into orphans. */
active proctype claimer() {
  byte heap, claims;
  do
  :: claims < CLAIMS ->
     atomic {
       select(heap : 0 .. HEAPS - 1);
       if
       :: state[heap] == ORPHAN -> state[heap] = CLAIMED; users[heap]++; assert(users[heap] == 1)
       :: finished == THREADS -> goto done
       fi
     };
     atomic { users[heap]--; state[heap] = ORPHAN; claims++ }
  :: true -> break
  od;
done:
  finished++
}

active proctype census() {
  byte heap, listed;
  finished == THREADS + 1;
  d_step {
    heap = orphans;
    do
    :: heap != NONE && listed <= HEAPS -> assert(state[heap] == ORPHAN); listed++; heap = next_orphan[heap]
    :: else -> break
    od;
    assert(listed == made)
  }
}
