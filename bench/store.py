"""Comparison of message stores: the journal that the broker uses, SQLite row by row, LMDB and RocksDB.

`uv run --with lmdb,rocksdict python bench/store.py [FOLDER]` prints one table, candidates in turns within one run.
FOLDER must be on the disk that matters; nothing else should be running. What is measured, with messages of 1 KiB:
- cpu, rate, written: puts and removals (a FIFO queue of 1,000) in groups of 20 and of 200, each group with its fsync;
- loop: an asyncio loop that is busy all the time, while 20,000 messages/s are committed beside it, by a thread: turns
  of the loop per second (against the same loop alone), the time from the put to being safe;
- recover: 1,000,000 messages in 50 queues, without their bodies; used: asking how many bytes are in use.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import socket
import sqlite3
import statistics
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

sys.path.insert(0, str(Path(__file__).parent.parent))

from brokers.server.journal.journal_store import JournalStore

BODY = os.urandom(1024)
DEPTH = 1000
Key = tuple[int, int]


class Candidate(Protocol):
    def __init__(self, path: Path) -> None: ...
    def buffer(self, puts: list[Key], removed: list[Key]) -> None:
        """In the loop."""

    def take(self) -> None:
        """In the loop: take the buffered messages as the next group."""

    def write(self) -> None:
        """In the thread: write the group."""

    def commit(self, puts: list[Key], removed: list[Key]) -> None: ...
    def used(self) -> int: ...
    def recover(self) -> Iterable[object]: ...
    def close(self) -> None: ...


class AsShipped:
    def __init__(self, path: Path) -> None:
        self.store = JournalStore(path)

    def buffer(self, puts: list[Key], removed: list[Key]) -> None:
        for queue, number in puts:
            self.store.put(queue, number, BODY)
        for queue, number in removed:
            self.store.remove(queue, number)

    def take(self) -> None:
        self.groups = [self.store.take()]
        while self.store.pending:
            self.groups.append(self.store.take())

    def write(self) -> None:
        for group in self.groups:
            assert self.store.write(group).fault is None

    def commit(self, puts: list[Key], removed: list[Key]) -> None:
        self.buffer(puts, removed)
        self.take()
        self.write()

    def used(self) -> int:
        return self.store.used_bytes

    def recover(self) -> Iterable[object]:
        return self.store.recover()

    def close(self) -> None:
        self.store.close()


class Buffered:
    """The loop's buffer for a candidate that writes whole groups."""

    def __init__(self) -> None:
        self.puts: list[Key] = []
        self.removed: list[Key] = []

    def buffer(self, puts: list[Key], removed: list[Key]) -> None:
        self.puts += puts
        self.removed += removed

    def take(self) -> None:
        self.taken = self.puts, self.removed
        self.puts, self.removed = [], []

    def write(self) -> None:
        self.commit(*self.taken)

    def commit(self, puts: list[Key], removed: list[Key]) -> None:
        raise NotImplementedError


class RowByRow(Buffered):
    """The plain way: a primary key of queue and number in one integer, and executemany."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=OFF", "cache_size=-16384"):
            self.db.execute(f"PRAGMA {pragma}")
        self.db.execute(
            "CREATE TABLE IF NOT EXISTS message (id INTEGER PRIMARY KEY, size INTEGER NOT NULL, body BLOB NOT NULL)"
        )
        self.db.execute("CREATE INDEX IF NOT EXISTS message_size ON message (id, size)")

    def commit(self, puts: list[Key], removed: list[Key]) -> None:
        self.db.execute("BEGIN")
        self.db.executemany("INSERT INTO message VALUES (?, ?, ?)", [(q << 40 | n, len(BODY), BODY) for q, n in puts])
        self.db.executemany("DELETE FROM message WHERE id = ?", [(q << 40 | n,) for q, n in removed])
        self.db.execute("COMMIT")

    def used(self) -> int:
        pages, free, size = (
            int(self.db.execute(f"PRAGMA {what}").fetchone()[0])
            for what in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size

    def recover(self) -> Iterable[object]:
        return self.db.execute("SELECT id, size FROM message INDEXED BY message_size ORDER BY id")

    def close(self) -> None:
        self.db.close()


class Lmdb(Buffered):
    """A database of bodies and one of sizes, keys in big-endian order."""

    key = struct.Struct(">IQ").pack

    def __init__(self, path: Path) -> None:
        import lmdb

        super().__init__()
        self.env = lmdb.open(str(path), map_size=8 << 30, max_dbs=2)
        self.bodies, self.sizes = self.env.open_db(b"body"), self.env.open_db(b"size")

    def commit(self, puts: list[Key], removed: list[Key]) -> None:
        keys, size = [self.key(q, n) for q, n in puts], len(BODY).to_bytes(4, "big")
        with self.env.begin(write=True) as change:
            change.cursor(self.bodies).putmulti([(k, BODY) for k in keys])
            change.cursor(self.sizes).putmulti([(k, size) for k in keys])
            for queue, number in removed:
                change.delete(self.key(queue, number), db=self.bodies)
                change.delete(self.key(queue, number), db=self.sizes)

    def used(self) -> int:
        with self.env.begin() as look:
            stats = [look.stat(self.bodies), look.stat(self.sizes)]
        return sum((s["branch_pages"] + s["leaf_pages"] + s["overflow_pages"]) * s["psize"] for s in stats)

    def recover(self) -> Iterable[object]:
        with self.env.begin() as look:
            for key, size in look.cursor(self.sizes):
                yield struct.unpack(">IQ", key), int.from_bytes(size, "big")

    def close(self) -> None:
        self.env.close()


class RocksDb(Buffered):
    """A key for each message, its size in a column family of its own; removals without gaps are ranges."""

    key = struct.Struct(">QQ").pack

    def __init__(self, path: Path) -> None:
        import rocksdict as rocks

        super().__init__()
        options = rocks.Options(raw_mode=True)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        options.set_compression_type(rocks.DBCompressionType.none())
        self.db = rocks.Rdict(str(path), options, {"size": options})
        self.sizes, self.handle = self.db.get_column_family("size"), self.db.get_column_family_handle("size")
        self.batch = rocks.WriteBatch
        self.synced = rocks.WriteOptions()
        self.synced.sync = True

    def commit(self, puts: list[Key], removed: list[Key]) -> None:
        batch, size = self.batch(raw_mode=True), len(BODY).to_bytes(4, "big")
        for queue, number in puts:
            key = self.key(queue, number)
            batch.put(key, BODY)
            batch.put(key, size, self.handle)
        if removed:
            first, last = self.key(*removed[0]), self.key(removed[-1][0], removed[-1][1] + 1)
            batch.delete_range(first, last)
            batch.delete_range(first, last, self.handle)
        self.db.write(batch, self.synced)

    def used(self) -> int:
        return self.db.property_int_value("rocksdb.estimate-live-data-size") or 0

    def recover(self) -> Iterable[object]:
        for key, size in self.sizes.items():
            yield struct.unpack(">QQ", key), int.from_bytes(size, "big")

    def close(self) -> None:
        self.sizes.close()
        self.db.close()
        del self.handle  # until then the files are locked


class Bench:
    def __init__(self, folder: Path, make: type[Candidate]) -> None:
        self.folder, self.make = folder, make

    def fresh(self) -> Candidate:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        return self.make(self.folder / "store")

    def groups(self, size: int, total: int) -> tuple[float, float, float]:
        """Return (CPU in us per message, messages/s, bytes written per message)."""
        store, number = self.fresh(), 0
        cpu, began, written = time.process_time(), time.perf_counter(), blocks()
        while number < total:
            puts = [(1, n) for n in range(number, number + size)]
            store.commit(puts, [(1, n - DEPTH) for _, n in puts] if number >= DEPTH else [])
            number += size
        spent = time.perf_counter() - began
        store.close()
        return (time.process_time() - cpu) / number * 1e6, number / spent, (blocks() - written) * 512 / number

    def loop(self, seconds: float = 3, rate: int = 20_000) -> tuple[float, float, float]:
        """Return (turns/s of the busy loop, median and p99 of ms from a put to its confirmation)."""
        store = self.fresh()
        gathering: list[float] = []  # when each message of the next group was put
        waits: list[float] = []
        written: list[float] | None = None  # the same of the group that is being written
        ready, done, over = threading.Event(), threading.Event(), False

        def write() -> None:
            while not over:
                if ready.wait(0.05) and not over:
                    ready.clear()
                    store.write()
                    done.set()

        def more(passed: float, sent: int, now: float) -> int:
            """Run in each turn, like the broker and `commit.py`."""
            nonlocal gathering, written
            due = int(passed * rate)
            store.buffer([(1, n) for n in range(sent, due)], [(1, n - DEPTH) for n in range(max(sent, DEPTH), due)])
            gathering += [now] * (due - sent)
            if written is not None and done.is_set():
                waits.extend((now - put) * 1000 for put in written)
                written = None
            if written is None and gathering:
                written, gathering = gathering, []
                store.take()
                done.clear()
                ready.set()
            return due

        thread = threading.Thread(target=write)
        thread.start()
        turns = asyncio.run(busy(seconds, more))
        over = True
        ready.set()
        thread.join()
        store.close()
        return turns / seconds, statistics.median(waits), sorted(waits)[len(waits) * 99 // 100]

    def recover(self, total: int = 1_000_000) -> tuple[float, float, float, float]:
        """Return (seconds, MB of memory, MB in use on disk, us to read that size)."""
        store = self.fresh()
        for first in range(0, total, 5000):
            store.commit([(k // 100, n) for k, n in enumerate(range(first, first + 5000))], [])
        store.close()
        memory, began = resident(), time.perf_counter()
        store = self.make(self.folder / "store")
        assert sum(1 for _ in store.recover()) == total
        spent, memory = time.perf_counter() - began, resident() - memory
        began = time.perf_counter()
        used = store.used()
        looked_up = time.perf_counter() - began
        store.close()
        return spent, memory / 1e6, used / 1e6, looked_up * 1e6


async def busy(seconds: float, more: Callable[[float, int, float], int]) -> int:
    """Turns like the engine's: some Python, and some socket calls."""
    left, right = socket.socketpair()
    turns, sent, began = 0, 0, time.perf_counter()
    while (passed := (now := time.perf_counter()) - began) < seconds:
        left.send(b"x" * 1000)
        right.recv(2000)
        for _ in range(4000):
            pass
        turns += 1
        sent = more(passed, sent, now)
        await asyncio.sleep(0)  # a turn of the loop, in which the writer thread may report
    left.close()
    right.close()
    return turns


def blocks() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_oublock


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


CANDIDATES: dict[str, type[Candidate]] = {
    "SQLite row by row": RowByRow,
    "journal": AsShipped,
    "LMDB": Lmdb,
    "RocksDB": RocksDb,
}


def main() -> None:
    folder = Path(tempfile.mkdtemp(dir=sys.argv[1] if len(sys.argv) > 1 else None))
    benches = {name: Bench(folder / "b", make) for name, make in CANDIDATES.items()}
    print(f"{'':20}{'group':>6} {'cpu us':>7} {'msg/s':>9} {'bytes written':>14}")
    for size in (20, 200):
        for name, bench in benches.items():
            rounds = [bench.groups(size, 300 * size) for _ in range(3)]
            cpu, rate, written = (statistics.median(column) for column in zip(*rounds, strict=True))
            print(f"{name:20}{size:>6} {cpu:7.1f} {rate:9,.0f} {written:14,.0f}", flush=True)
    print(f"\n{'':20}{'turns/s':>8} {'alone':>8} {'safe p50 ms':>12} {'p99':>8}")
    rounds_of = {
        name: [(*b.loop(), asyncio.run(busy(1, lambda *_: 0))) for _ in range(3)] for name, b in benches.items()
    }
    for name, loops in rounds_of.items():
        turns, middle, slow, alone = (statistics.median(column) for column in zip(*loops, strict=True))
        print(f"{name:20}{turns:8,.0f} {alone:8,.0f} {middle:12.1f} {slow:8.1f}", flush=True)
    print(f"\n{'':20}{'recover s':>10} {'memory MB':>10} {'used MB':>8} {'ask us':>7}")
    for name, bench in benches.items():
        spent, memory, used, looked_up = bench.recover()
        print(f"{name:20}{spent:10.2f} {memory:10.0f} {used:8,.0f} {looked_up:7.0f}", flush=True)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
