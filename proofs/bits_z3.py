#!/usr/bin/env python3
"""Proves what has 2^64 inputs: the functions of src/bits.h, and the bit tricks of src/remote.h, hint.c and page.c.

  python3 proofs/bits_z3.py [libproofs_bits.so]

Each function is written once more below, over numbers and over z3's bit vectors alike. z3 shows that no input breaks
the property; with the library (built from src/bits.h), the transcription is compared with the C on edges and a hundred
thousand random inputs. Exit status 77 if z3 is missing.
"""

from __future__ import annotations

import ctypes
import random
import sys

try:
    import z3
except ImportError:
    print("z3 is missing: run make lab, and use .venv/bin/python")
    sys.exit(77)

MASK = (1 << 64) - 1


def shift_right(word, by):
    return word >> by if isinstance(word, int) else z3.LShR(word, by)


def wrap(word):
    return word & MASK if isinstance(word, int) else word


def bits_count(word):
    word = wrap(word - (shift_right(word, 1) & 0x5555555555555555))
    word = (word & 0x3333333333333333) + (shift_right(word, 2) & 0x3333333333333333)
    word = (word + shift_right(word, 4)) & 0x0F0F0F0F0F0F0F0F
    return shift_right(wrap(word * 0x0101010101010101), 56)


def bits_round_up(value, alignment):
    return wrap(value + alignment - 1) & wrap(~(alignment - 1))


def is_power_of_two(value):
    """Of a bit vector, as src/bits.h tests it."""
    return z3.And(value != 0, value & (value - 1) == 0)


def sum_of_bits(word):
    return z3.Sum([z3.ZeroExt(63, z3.Extract(i, i, word)) for i in range(64)])


def holds(name: str, claim) -> None:
    solver = z3.Solver()
    solver.add(z3.Not(claim))
    answer = solver.check()
    if answer != z3.unsat:
        sys.exit(f"not proven ({answer}): {name}\n{solver.model() if answer == z3.sat else ''}")
    print(f"holds: {name}")


def prove() -> None:
    word, bit, value, alignment = (z3.BitVec(name, 64) for name in ("word", "bit", "value", "alignment"))
    # In steps, as the function goes: pairs, fours, bytes, the sum; each from the one before.
    holds("bits_count is the number of set bits", bits_count(word) == sum_of_bits(word))
    one_of = z3.Or([bit == 1 << i for i in range(64)])
    holds("bits_is_power_of_two finds the 64 powers and nothing else", is_power_of_two(bit) == one_of)
    rounded = bits_round_up(value, alignment)
    fits = z3.And(is_power_of_two(alignment), z3.ULE(value, value + alignment - 1))
    holds("bits_round_up gives a multiple", z3.Implies(fits, rounded & (alignment - 1) == 0))
    holds("bits_round_up is not below", z3.Implies(fits, z3.ULE(value, rounded)))
    holds("bits_round_up is less than one alignment above", z3.Implies(fits, z3.ULT(rounded - value, alignment)))
    # remote_mark adds the block's bit.
    clear = z3.And(one_of, word & bit == 0)
    holds("adding a bit that is clear is setting it", z3.Implies(clear, word + bit == word | bit))
    # hint.c, page.c: word & -word, word & (word - 1).
    lowest = word & -word
    holds(
        "word & -word is one bit of the word",
        z3.Implies(word != 0, z3.And(is_power_of_two(lowest), word & lowest == lowest)),
    )
    holds("and none is below it", z3.Implies(word != 0, word & (lowest - 1) == 0))
    holds("word & (word - 1) is the word without it", word & (word - 1) == word & ~lowest)
    # check.c, segment.h: (-at) & (alignment - 1) is the way to the next multiple.
    skip = -value & (alignment - 1)
    holds(
        "-at & (alignment - 1) leads to the next multiple",
        z3.Implies(is_power_of_two(alignment), z3.And((value + skip) & (alignment - 1) == 0, z3.ULT(skip, alignment))),
    )


def compare(path: str) -> None:
    library = ctypes.CDLL(path)
    number = ctypes.c_uint64
    library.shared_count.argtypes = [number]
    library.shared_is_power_of_two.argtypes, library.shared_is_power_of_two.restype = [number], ctypes.c_bool
    library.shared_round_up.argtypes, library.shared_round_up.restype = [number, number], number
    edges = [0, MASK, *(1 << i for i in range(64)), *((1 << i) - 1 for i in range(64))]
    generator = random.Random(1)
    words = edges + [generator.getrandbits(64) & generator.getrandbits(64) for _ in range(100_000)]
    for word in words:
        assert library.shared_count(word) == bits_count(word) == word.bit_count(), hex(word)
        assert library.shared_is_power_of_two(word) == (word.bit_count() == 1), hex(word)
        alignment = 1 << generator.randrange(64)
        assert library.shared_round_up(word, alignment) == bits_round_up(word, alignment), (hex(word), alignment)
    print(f"the C agrees on {len(words)} words")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        compare(sys.argv[1])
    prove()
