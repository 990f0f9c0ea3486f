"""Allocates as Python programs do: JSON, SQLite, threads, big integers, exceptions. Prints only what
does not depend on time or addresses. Argument: a scale, 1 for the smallest."""

import hashlib
import json
import random
import re
import sqlite3
import sys
import threading

scale = int(sys.argv[1])


def json_round_trip() -> str:
    source = random.Random(1)
    rows = [
        {"id": i, "name": "n" * source.randrange(200), "values": [source.random() for _ in range(20)]}
        for i in range(2000 * scale)
    ]
    text = json.dumps(rows, sort_keys=True)
    assert json.loads(text) == rows
    return hashlib.sha256(text.encode()).hexdigest()


def sqlite_queries() -> list[tuple]:
    with sqlite3.connect(":memory:") as database:
        database.execute("create table words (word text, size integer)")
        source = random.Random(2)
        words = ["".join(source.choices("abcdef", k=source.randrange(1, 60))) for _ in range(10000 * scale)]
        database.executemany("insert into words values (?, ?)", ((word, len(word)) for word in words))
        database.execute("create index by_size on words (size, word)")
        query = "select size, count(*), min(word), max(word) from words group by size order by size"
        return database.execute(query).fetchall()


def work_of_thread(index: int, results: list) -> None:
    source = random.Random(index)
    live: list[bytes] = []
    digest = hashlib.sha256()
    for _ in range(5000 * scale):
        live.append(bytes([source.randrange(256)]) * int(source.paretovariate(0.7) % 100000))
        if len(live) > 200:
            digest.update(live.pop(source.randrange(len(live))))
    results[index] = digest.hexdigest()


def threads() -> list[str]:
    results: list = [None] * 8
    running = [threading.Thread(target=work_of_thread, args=(i, results)) for i in range(8)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return results


def errors_and_numbers() -> tuple[int, int, int]:
    caught = 0
    for i in range(1000 * scale):
        try:
            json.loads("[" * (i % 50) + "}")
        except json.JSONDecodeError:
            caught += 1
    words = re.findall(r"\b(\w)(\w*)\b", "the quick brown fox " * 1000 * scale)
    return caught, len(words), (3 ** (20000 * scale)).bit_length()


print(json_round_trip())
print(sqlite_queries())
print(*threads(), sep="\n")
print(errors_and_numbers())
