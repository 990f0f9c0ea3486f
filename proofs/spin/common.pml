/* The tree of a common store, store_take_common in src/store.c: several threads take blocks, one each way down, and free
 * them. Each access to shared memory is one step. (The tree of waiting heaps, src/prepared.c, is the same.)
 *
 * WORDS words of BITS blocks, ONES words above them, one word on top; TAKERS threads take TAKES times, and free what they
 * have got or keep it; FREERS threads free one block each that is in use at the start.
 * Held: no block is handed out twice; when all have returned, each free block is found from the top.
 *
 * Mistakes that are rejected: NO_RAISE (who finds a word that is not empty trusts that the bit above it is set),
 * NO_RECHECK (a bit is cleared without a second look below), TAKE_BLIND (a block is taken whether its bit was set or not),
 * TOP_FIRST (who frees raises the upper bits before the lower ones).
 */
#define NO_RAISE 1
#define NO_RECHECK 2
#define TAKE_BLIND 3
#define TOP_FIRST 4
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef WORDS
#define WORDS 1
#endif
#ifndef ONES
#define ONES 1
#endif
#ifndef BITS
#define BITS 2
#endif
#ifndef TAKERS
#define TAKERS 2
#endif
#ifndef TAKES
#define TAKES 1
#endif
#ifndef FREERS
#define FREERS 1
#endif
#define PER (WORDS / ONES)

byte zero[WORDS], one[ONES], top;
byte used; /* bits of blocks */
byte returned;

#define ONE(word) (1 << ((word) % PER))
#define TOP(word) (1 << ((word) / PER))

/* The lowest bit of a word of two. */
#define LOWEST(bits) ((bits) & 1 -> 0 : 1)

inline raise_one(word) {
  if
  :: one[(word) / PER] & ONE(word) -> skip
  :: else -> one[(word) / PER] = one[(word) / PER] | ONE(word)
  fi
}

inline raise_top(word) {
  if
  :: top & TOP(word) -> skip
  :: else -> top = top | TOP(word)
  fi
}

inline give(block) {
  atomic {
    assert(used & (1 << (block)));
    used = used & ~(1 << (block));
#if BROKEN != TOP_FIRST
    assert(!(zero[(block) / BITS] & (1 << ((block) % BITS))));
    zero[(block) / BITS] = zero[(block) / BITS] | (1 << ((block) % BITS))
#endif
  };
#if BROKEN == TOP_FIRST
  raise_top((block) / BITS);
  raise_one((block) / BITS);
  zero[(block) / BITS] = zero[(block) / BITS] | (1 << ((block) % BITS))
#else
  raise_one((block) / BITS);
  raise_top((block) / BITS)
#endif
}

inline settle_one(word) {
  one[(word) / PER] = one[(word) / PER] & ~ONE(word);
#if BROKEN != NO_RECHECK
  bits = zero[word];
  if
  :: bits -> one[(word) / PER] = one[(word) / PER] | ONE(word)
  :: else
  fi
#endif
}

inline settle_top(word) {
  top = top & ~TOP(word);
  bits = one[(word) / PER];
  if
  :: bits -> top = top | TOP(word)
  :: else
  fi
}

/* One way down. `got`: a block, or NONE. */
#define NONE 255
inline take() {
  got = NONE;
  bits = top;
  if
  :: !bits -> goto nothing
  :: else -> group = LOWEST(bits)
  fi;
  bits = one[group];
  if
  :: !bits -> goto above
  :: else -> word = group * PER + LOWEST(bits)
  fi;
  bits = zero[word];
  if
  :: !bits
  :: else ->
    block = word * BITS + LOWEST(bits);
    atomic {
      if
#if BROKEN == TAKE_BLIND
      :: true ->
#else
      :: zero[word] & (1 << (block % BITS)) ->
#endif
        zero[word] = zero[word] & ~(1 << (block % BITS));
        assert(!(used & (1 << block)));
        used = used | (1 << block);
        got = block
      :: else
      fi
    }
  fi;
  bits = zero[word];
  if
  :: bits -> goto nothing
  :: else
  fi;
  settle_one(word);
above:
  bits = one[group];
  if
  :: bits ->
#if BROKEN != NO_RAISE
    raise_top(group * PER)
#else
    skip
#endif
  :: else -> settle_top(group * PER)
  fi;
nothing:
  skip
}

proctype taker() {
  byte bits, group, word, block, got, turn;
  for (turn : 1 .. TAKES) {
    take();
    if
    :: got != NONE -> give(got)
    :: true
    fi
  }
  atomic { returned++ }
}

proctype freer(byte block) {
  give(block);
  atomic { returned++ }
}

init {
  byte i;
  atomic {
    /* The first FREERS blocks are in use. */
    for (i : 0 .. WORDS * BITS - 1) {
      if
      :: i < FREERS -> used = used | (1 << i)
      :: else ->
        zero[i / BITS] = zero[i / BITS] | (1 << (i % BITS));
        one[i / BITS / PER] = one[i / BITS / PER] | ONE(i / BITS);
        top = top | TOP(i / BITS)
      fi
    }
    for (i : 1 .. TAKERS) { run taker() }
    i = 0;
    do
    :: i < FREERS -> run freer(i); i++
    :: else -> break
    od
  }
  returned == TAKERS + FREERS;
  for (i : 0 .. WORDS - 1) {
    /* A free block is found. */
    assert(!zero[i] || ((one[i / PER] & ONE(i)) && (top & TOP(i))))
  }
}
