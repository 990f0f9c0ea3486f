"""What Python programs do with memory: JSON, sqlite, dictionaries, strings and threads. Run with PYTHONMALLOC=malloc.

    python3 python_work.py ROUNDS

Prints one checksum, the same each time.
"""

import hashlib
import json
import random
import sqlite3
import sys
import threading
import zlib


def documents(random_numbers: random.Random, count: int) -> list[dict]:
    return [
        {
            "id": i,
            "name": f"user-{random_numbers.randrange(10**6)}",
            "tags": [f"tag{random_numbers.randrange(50)}" for _ in range(random_numbers.randrange(8))],
            "scores": [random_numbers.random() for _ in range(random_numbers.randrange(12))],
            "nested": {"a": {"b": [i, str(i), None, True]}},
        }
        for i in range(count)
    ]


def json_work(random_numbers: random.Random) -> str:
    text = json.dumps(documents(random_numbers, 2500), sort_keys=True)
    return text + json.dumps(json.loads(text), indent=1)


def dictionary_work(random_numbers: random.Random) -> str:
    words: dict[str, list[int]] = {}
    for i in range(30000):
        words.setdefault(f"w{random_numbers.randrange(5000)}", []).append(i)
    for word in list(words)[::2]:
        del words[word]
    return repr(sorted((word, len(places)) for word, places in words.items()))


def sqlite_work(random_numbers: random.Random) -> str:
    database = sqlite3.connect(":memory:")
    database.execute("create table items (id integer primary key, name text, size integer)")
    rows = [(f"item {random_numbers.randrange(10**9)}", random_numbers.randrange(10**4)) for _ in range(8000)]
    database.executemany("insert into items (name, size) values (?, ?)", rows)
    database.execute("create index by_name on items (name)")
    answer = database.execute("select size / 100, count(*), max(name) from items group by 1 order by 1").fetchall()
    database.close()
    return repr(answer)


def bytes_work(random_numbers: random.Random) -> str:
    block = random_numbers.randbytes(200_000) + b"rtmalloc " * 40_000
    return str(zlib.crc32(zlib.decompress(zlib.compress(block, 3))))


def work(seed: int, rounds: int, results: dict[int, str]) -> None:
    random_numbers = random.Random(seed)
    digest = hashlib.sha256()
    for _ in range(rounds):
        for part in (json_work, dictionary_work, sqlite_work, bytes_work):
            digest.update(part(random_numbers).encode())
    results[seed] = digest.hexdigest()


def main() -> None:
    rounds = int(sys.argv[1])
    results: dict[int, str] = {}
    threads = [threading.Thread(target=work, args=(seed, rounds, results)) for seed in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    all_results = " ".join(results[seed] for seed in sorted(results))
    print("python: checksum", hashlib.sha256(all_results.encode()).hexdigest()[:16])


main()
