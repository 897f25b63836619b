"""Our broker with messages in RocksDB (`rocksdict`) instead of SQLite: a measurement, not a store to use.

`python bench/rocksdb_broker.py broker --port ...`, in a checkout whose store has runs. Like the SQLite store it writes
a group atomically and synced, runs as one value each, removals of parts of a run as its state, and finds runs through
an index without bodies, here a column family. Moves, dropped queues, transactions and a full disk are left out.
"""

from __future__ import annotations

import os
import sys
from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Any

sys.path.insert(0, os.getcwd())

from rocksdict import (
    ColumnFamily,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from brokers.server import virtualhost_stores
from brokers.server.message_groups import COLUMNS, Group, Written
from brokers.server.message_runs import parts_of, split
from brokers.server.message_store import MessageStore

KEY = Struct(">QQ").pack
UNKEY = Struct(">QQ").unpack


def options() -> Options:
    chosen = Options(raw_mode=True)
    chosen.create_if_missing(True)
    chosen.create_missing_column_families(True)
    chosen.set_compression_type(DBCompressionType.none())
    chosen.set_write_buffer_size(64 << 20)
    chosen.set_max_write_buffer_number(3)
    chosen.set_max_total_wal_size(128 << 20)
    chosen.set_paranoid_checks(True)
    chosen.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    chosen.set_keep_log_file_num(2)
    return chosen


class RocksStore(MessageStore):
    """The buffers of the SQLite store, written to RocksDB."""

    def __init__(self, path: Path, *, durable: bool = True, reserve_bytes: int = 0) -> None:
        super().__init__(path, durable=durable, reserve_bytes=1 << 20)  # for the stamp, which is not measured
        self._rocks = Rdict(str(path.with_suffix(".rocksdb")), options(), {"index": options()})
        self._index: ColumnFamily = self._rocks.get_column_family_handle("index")
        self._index_rows = self._rocks.get_column_family("index")
        self._synced = WriteOptions()
        self._synced.sync = durable
        self._counts: dict[tuple[int, int], int] = {}
        self._gone: dict[tuple[int, int], int] = {}
        self._firsts: dict[int, list[int]] = {}

    def write(self, group: Group) -> Written:
        joined: dict[int, list[tuple[int, list[bytes]]]] = {}
        for at in range(0, len(group.rows), COLUMNS):
            queue, number, _, body, *_ = group.rows[at : at + COLUMNS]
            group.runs.append((queue, number, [body]))  # type: ignore[arg-type, list-item]
        for queue, first, bodies in group.runs:
            of_queue = joined.setdefault(queue, [])
            if of_queue and of_queue[-1][0] + len(of_queue[-1][1]) == first:
                of_queue[-1][1].extend(bodies)
            else:
                of_queue.append((first, list(bodies)))
        batch = WriteBatch(raw_mode=True)
        messages = 0
        for queue, runs in joined.items():
            for first, bodies in runs:
                for start, part in split(first, bodies):
                    messages += len(part)
                    self._put(batch, queue, start, part)
        for queue, numbers in group.changes.removed.items():
            self._remove(batch, queue, sorted(numbers))
        self._rocks.write(batch, self._synced)
        self.writer.done_bytes += group.disk_bytes
        return Written(group.ticket, messages, None, True, False, {})

    def _put(self, batch: Any, queue: int, first: int, bodies: Sequence[bytes]) -> None:
        parts, key = parts_of(bodies), KEY(queue, first)
        batch.put(key, b"".join(bodies))
        batch.put(key, parts, self._index)
        self._counts[queue, first] = len(bodies)
        insort(self._firsts.setdefault(queue, []), first)

    def _remove(self, batch: Any, queue: int, numbers: list[int]) -> None:
        firsts = self._firsts[queue]
        at = 0
        while at < len(numbers):
            place = bisect_right(firsts, numbers[at]) - 1
            first = firsts[place]
            count, gone = self._counts[queue, first], self._gone.get((queue, first), 0)
            end = first + count
            start = at
            while at < len(numbers) and numbers[at] < end:
                at += 1
            low, high = numbers[start] - first, numbers[at - 1] - first
            if high - low + 1 == at - start:
                gone |= (1 << high + 1) - (1 << low)
            else:
                for number in numbers[start:at]:
                    gone |= 1 << number - first
            if gone == (1 << count) - 1:
                batch.delete(KEY(queue, first))
                batch.delete(KEY(queue, first), self._index)
                batch.delete(b"s" + KEY(queue, first), self._index)
                del firsts[place], self._counts[queue, first]
                self._gone.pop((queue, first), None)
            else:
                batch.put(b"s" + KEY(queue, first), gone.to_bytes((count + 7) // 8, "little"), self._index)
                self._gone[queue, first] = gone

    def load(self, queue: int, numbers: Sequence[int]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        firsts = self._firsts[queue]
        key, bodies = -1, b""
        sizes: Sequence[int] = ()
        for number in numbers:
            first = firsts[bisect_right(firsts, number) - 1]
            if first != key:
                key = first
                count = self._counts[queue, first]
                sizes = Struct(f"<{2 * count}I").unpack(self._index_rows[KEY(queue, first)])[:count]
                bodies = self._rocks[KEY(queue, first)]
            begin = sum(sizes[: number - first])
            found[number] = bodies[begin : begin + sizes[number - first]]
        return found

    def recover(self) -> Iterator[tuple[int, int, int, int, int]]:
        for key, parts in self._index_rows.items():
            if len(key) == 16:
                queue, first = UNKEY(key)
                count = len(parts) // 8
                self._counts[queue, first] = count
                self._firsts.setdefault(queue, []).append(first)
                for number, size in enumerate(Struct(f"<{2 * count}I").unpack(parts)[:count], first):
                    yield queue, number, size, 0, 0

    def close(self) -> None:
        self._rocks.close()
        super().close()


if __name__ == "__main__":
    virtualhost_stores.ReadableStore = RocksStore  # type: ignore[assignment, misc]
    from brokers.server.main import main

    sys.exit(main(sys.argv[2:]))
