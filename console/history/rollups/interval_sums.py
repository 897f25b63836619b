"""What episodes and blocks contribute to the rollups of minutes: recorded time, and the number that began. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from console.history.rollups.blocks import Block, Bounds
from console.history.rollups.episodes import Episode
from console.history.rollups.recorded_time import RecordedTime
from console.history.rollups.rows import Key, Row, row_of_minute, with_rates
from console.history.storage.durations import HOUR, MINUTE
from console.history.storage.layout import OF_INTERVALS

#: Positions within `OF_INTERVALS`: of the time, and of the number.
_POSITIONS: Mapping[type, tuple[int, int]] = {Episode: (0, 1), Block: (2, 3)}

Interval = Episode | Block


def keys_of(interval: Interval) -> list[Key]:
    """Return the keys of the rollups of queues and producers that an interval contributes to."""
    host, queue = interval.virtualhost, interval.queue
    if queue is None:
        return []
    keys: list[Key] = [("queue", host, queue, queue)]
    if isinstance(interval, Block):
        keys.append(("producer", host, interval.label, queue))
    return keys


def sums_of_minute(intervals: Iterable[Interval], recorded: RecordedTime, at: int) -> dict[Key, list[int]]:
    """Return the values of `OF_INTERVALS` in the minute from `at` on."""
    end = at + MINUTE
    whole = recorded.between(at, end)
    sums: dict[Key, list[int]] = {}
    for interval in intervals:
        if interval.start >= end or (interval.end is not None and interval.end < at):
            continue
        if interval.start <= at and (interval.end is None or interval.end >= end):
            time = whole
        else:
            time = recorded.between(max(interval.start, at), end if interval.end is None else min(interval.end, end))
        number = int(interval.start >= at)
        if time or number:
            of_time, of_number = _POSITIONS[type(interval)]
            for key in keys_of(interval):
                mine = sums.setdefault(key, [0, 0, 0, 0])
                mine[of_time] += time
                mine[of_number] += number
    return sums


def corrections(
    interval: Interval, former: Bounds | None, recorded: RecordedTime, since: int, until: int
) -> dict[tuple[Key, int], list[int]]:
    """Return by how much the minutes between `since` and `until`, by key and start, change by an interval that had the
    bounds `former`, or is new."""
    end = until if interval.end is None else min(interval.end, until)
    if former is None:
        first, last, sign = interval.start, end, 1
    else:
        old = until if former[1] is None else min(former[1], until)
        first, last, sign = min(old, end), max(old, end), 1 if end > old else -1
    first = max(first, since)
    found: dict[tuple[Key, int], list[int]] = {}
    of_time, of_number = _POSITIONS[type(interval)]
    keys = keys_of(interval)
    keys += [("virtualhost", key[1], key[1], None) for key in keys if key[0] == "queue"]
    if former is None and since <= interval.start < until:
        for key in keys:
            found.setdefault((key, interval.start // MINUTE * MINUTE), [0, 0, 0, 0])[of_number] += 1
    for part_from, part_to in recorded.parts(first, last):
        for slot in range(part_from // MINUTE * MINUTE, part_to, MINUTE):
            time = min(part_to, slot + MINUTE) - max(part_from, slot)
            for key in keys:
                found.setdefault((key, slot), [0, 0, 0, 0])[of_time] += sign * time
    return found


def correction_row(table: str, key: Key, at: int, changes: Iterable[int], recorded: RecordedTime) -> Row:
    """Return a correction: the key and time of a row of `table`, the slot's recorded time, and by how much the columns
    `OF_INTERVALS` change."""
    step = MINUTE if table == "minutes" else HOUR
    return {
        "table": table,
        "kind": key[0],
        "virtualhost": key[1],
        "name": key[2],
        "queue": key[3],
        "at": at,
        "watched_ms": recorded.between(at, at + step),
        **dict(zip(OF_INTERVALS, changes, strict=True)),
    }


def corrected(broker: str, rows: Iterable[Mapping[str, Any]], corrections: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return rows of one table with its corrections applied. A correction without a row makes one."""
    found = {(row["kind"], row["virtualhost"], row["name"], row["queue"], row["at"]): dict(row) for row in rows}
    for change in corrections:
        key: Key = (change["kind"], change["virtualhost"], change["name"], change["queue"])
        at = change["at"]
        row = found.get((*key, at))
        if row is None:
            row = found[*key, at] = with_rates(row_of_minute(broker, at, change["watched_ms"], key, None))
        for column in OF_INTERVALS:
            row[column] += change[column]
    return list(found.values())
