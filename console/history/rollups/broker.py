"""The rollups, episodes and blocks of one broker, from its landing rows as they are recorded. Pure.

`take` takes rows of SAMPLES, EVENTS and COVERAGE (`storage/landing.py`; times are ms). What is known is always known up
to `covered`, the end of the recorded time: rows from then on wait until coverage has passed them, since earlier ones
may arrive until then. So samples and events are taken before the coverage of their time. A row that arrives later than
that contributes to blocks, episodes and stops only, if nothing later is known of its queue; the pipeline puts the rest
right.

All rows given are rows of the tables of the same name (`storage/layout.py`), with times as ms: the rows that the
pipeline computes from the same landing rows, if it has all of them up to `covered`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from console.history.rollups.blocks import Block, Blocks, Bounds, Queue
from console.history.rollups.episodes import Episode, Episodes
from console.history.rollups.interval_sums import (
    Interval,
    correction_row,
    corrections,
    sums_of_minute,
)
from console.history.rollups.queue_minute import NOWHERE, QueueMinute
from console.history.rollups.recorded_time import RecordedTime, Span
from console.history.rollups.rows import HourSums, Key, Row, key_of, row_of_minute, rows_of_virtual_hosts
from console.history.rollups.stops import Stop, Stops
from console.history.storage.durations import HOUR, MINUTE

#: Of the format of snapshots: to be raised with every change of what they contain.
VERSION = 1

_STOPPED = ("STOPPED", "OVERFULL_STOPPED")
_VALUES = (
    "virtualhost",
    "queue",
    "state",
    "depth_messages",
    "depth_bytes",
    "blocked_producers",
    "producers",
    "enqueued_messages",
    "dequeued_messages",
    "capacity_messages",
    "stop_messages",
    "resume_messages",
    "capacity_bytes",
    "stop_bytes",
    "resume_bytes",
)
_SAMPLE = itemgetter(*_VALUES)
#: The columns that are used; events may lack any but the first three.
SAMPLE_COLUMNS = ("at", "whole", "overfull_since", *_VALUES)
EVENT_COLUMNS = (
    *("at", "sequence", "kind", "object", "virtualhost", "queue", "connection", "channel", "client", "link", "reasons"),
    *("state", "depth_messages", "depth_bytes", "blocked_producers", "stop_messages", "stop_bytes"),
    *("actor", "reason", "scope", "producers", "source"),
)
_AT = itemgetter("at")
_AT_SEQUENCE = itemgetter("at", "sequence")


class SnapshotError(Exception):
    """A snapshot cannot be used. The message is one line."""


@dataclass(slots=True)
class Closed:
    """What rows have closed. `minutes`, `hours`: complete rows, each given once. `corrections`: changes of minutes and
    hours that were given before, for `interval_sums.corrected`: an episode went on after a restart, or is reported
    after its minute was closed."""

    minutes: list[Row] = field(default_factory=list)
    hours: list[Row] = field(default_factory=list)
    corrections: list[Row] = field(default_factory=list)


class BrokerRollups:
    """`broker`: its slug, the column `broker` of all rows."""

    def __init__(self, broker: str) -> None:
        self.broker = broker
        self.late = 0  # samples and events that arrived after the coverage of their time
        self._recorded = RecordedTime()
        self._blocks = Blocks(self._recorded)
        self._episodes = Episodes(self._recorded)
        self._stops = Stops()
        self._samples: list[Mapping[str, Any]] = []
        self._events: list[Mapping[str, Any]] = []
        self._queues: dict[Queue, QueueMinute] = {}
        self._minute: int | None = None  # start of the open minute
        self._hours: dict[Key, HourSums] = {}  # the closed minutes of the open hour
        self._taken_until = 0  # rows before have been processed
        self._since = 0  # `forget`

    # -- taking -------------------------------------------------------------------------------------------------

    def take(
        self,
        samples: Iterable[Mapping[str, Any]] = (),
        events: Iterable[Mapping[str, Any]] = (),
        coverage: Iterable[Mapping[str, Any]] = (),
    ) -> Closed:
        """Take rows; return what the coverage among them has closed. Samples have all columns of SAMPLES."""
        self._samples.extend(samples)
        self._events.extend(events)
        for row in sorted(coverage, key=_AT):
            self._recorded.add(row)
        covered = self._recorded.covered
        closed = Closed()
        if covered is not None and covered > self._taken_until:
            samples, events = self._covered_rows(covered)
            self._follow_states(samples, events)
            self._correct(closed)
            late = [bisect_left(rows, self._taken_until, key=_AT) for rows in (samples, events)]
            self.late += sum(late)
            self._follow_values(samples[late[0] :], events[late[1] :], covered, closed)
            self._taken_until = covered
        return closed

    def _covered_rows(self, covered: int) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
        """Return the rows before that time, in order."""
        self._samples.sort(key=_AT)
        self._events.sort(key=_AT_SEQUENCE)
        many = bisect_left(self._samples, covered, key=_AT)
        samples, self._samples = self._samples[:many], self._samples[many:]
        many = bisect_left(self._events, covered, key=_AT)
        events, self._events = self._events[:many], self._events[many:]
        return samples, events

    def _follow_states(self, samples: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]]) -> None:
        """Find blocks, episodes and stops. Samples come before events of the same time."""
        whole = [row for row in samples if row["whole"]]
        blocks, episodes, stops = self._blocks, self._episodes, self._stops
        index, count = 0, len(whole)
        for event in events:
            at = event["at"]
            while index < count and whole[index]["at"] <= at:
                self._follow_whole(whole[index])
                index += 1
            blocks.take_event(event)
            episodes.take_event(event)
            stops.take_event(event)
        for row in whole[index:]:
            self._follow_whole(row)
        blocks.end_batch()
        episodes.end_batch()

    def _follow_whole(self, row: Mapping[str, Any]) -> None:
        self._episodes.take_whole(row)
        if row["blocked_producers"] == 0:
            self._blocks.free(row["at"], (row["virtualhost"], row["queue"]))

    def _correct(self, closed: Closed) -> None:
        """Correct closed minutes by intervals that have changed in the past."""
        changed: list[tuple[Interval, Bounds | None]] = [
            *self._episodes.changed.values(),
            *self._blocks.changed.values(),
        ]
        self._episodes.changed.clear()
        self._blocks.changed.clear()
        if self._minute is None:
            return
        hour = self._minute // HOUR * HOUR
        minutes: dict[tuple[Key, int], list[int]] = {}
        for interval, former in changed:
            for place, changes in corrections(interval, former, self._recorded, self._since, self._minute).items():
                mine = minutes.setdefault(place, [0, 0, 0, 0])
                mine[:] = map(sum, zip(mine, changes, strict=True))
        hours: dict[tuple[Key, int], list[int]] = {}
        for (key, at), changes in minutes.items():
            closed.corrections.append(correction_row("minutes", key, at, changes, self._recorded))
            if at >= hour:
                self._hours.setdefault(key, HourSums()).add(row_of_minute(self.broker, at, 0, key, None, changes))
            else:
                mine = hours.setdefault((key, at // HOUR * HOUR), [0, 0, 0, 0])
                mine[:] = map(sum, zip(mine, changes, strict=True))
        for (key, at), changes in hours.items():
            closed.corrections.append(correction_row("hours", key, at, changes, self._recorded))

    def _follow_values(
        self,
        samples: Sequence[Mapping[str, Any]],
        events: Sequence[Mapping[str, Any]],
        covered: int,
        closed: Closed,
    ) -> None:
        """Count the values of samples and events, and close all minutes before `covered`."""
        intervals = _Intervals(self._intervals())
        points = [row for row in events if row.get("queue") is not None and _has_depth(row)]
        if self._minute is None:
            firsts = [self._recorded.spans[0][0], *intervals.first()]
            firsts += [rows[0]["at"] for rows in (samples, points) if rows]
            self._minute = min(firsts) // MINUTE * MINUTE
        place = _Place(self._recorded.spans)
        index, count = 0, len(points)
        end = self._minute + MINUTE
        for row in samples:
            at = row["at"]
            while index < count and points[index]["at"] < at:
                end = self._follow_event(points[index], place, intervals, closed)
                index += 1
            if at >= end:
                end = self._close_until(at, intervals, closed)
            self._follow_sample(row, at, place)
        for row in points[index:]:
            self._follow_event(row, place, intervals, closed)
        self._close_until(covered, intervals, closed)

    def _follow_sample(self, row: Mapping[str, Any], at: int, place: _Place) -> None:
        """Count the values of a sample within the open minute."""
        host, name, state, messages, size, blocked, producers, enqueued, dequeued, *levels = _SAMPLE(row)
        queue = (host, name)
        mine = self._queues.get(queue)
        if mine is None:
            mine = self._queues[queue] = QueueMinute()
        elif mine.at == at:
            return  # a duplicate
        span = place.span if place.begin <= at <= place.end else place.find(at)
        if enqueued is not None or dequeued is not None:
            mine.count(at, span, enqueued, dequeued)
        known = tuple(levels) if levels[0] is not None or levels[1] is not None else None
        mine.take(at, span, (messages, size), state in _STOPPED, (blocked, producers), known)
        episodes = self._episodes.of_queue.get(queue)
        if episodes:
            for episode in episodes:
                episode.measure(at, messages, size)

    def _follow_event(self, row: Mapping[str, Any], place: _Place, intervals: _Intervals, closed: Closed) -> int:
        """Count the values of an event; return the end of the open minute."""
        at = row["at"]
        end = self._close_until(at, intervals, closed)
        get = row.get
        queue = (get("virtualhost"), get("queue"))
        depths = (get("depth_messages"), get("depth_bytes"))
        mine = self._queues.get(queue)
        if mine is None:
            mine = self._queues[queue] = QueueMinute()
        span = place.find(at) if get("source") != "log" else NOWHERE
        deleted = row["kind"] == "queue-deleted"
        stopped = not deleted and get("state") in _STOPPED
        mine.take(at, span, (None, None) if deleted else depths, stopped, (get("blocked_producers"), None), None)
        for episode in self._episodes.of_queue.get(queue, ()):
            episode.measure(at, *depths)
        return end

    # -- closing ------------------------------------------------------------------------------------------------

    def _close_until(self, at: int, intervals: _Intervals, closed: Closed) -> int:
        """Close all minutes that end until `at`; return the end of the open one."""
        assert self._minute is not None
        while self._minute + MINUTE <= at:
            end = self._minute + MINUTE
            rows = self._rows_of_minute(intervals.during(self._minute, end), end)
            closed.minutes += rows
            hours = self._hours
            for row in rows:
                key = key_of(row)
                sums = hours.get(key)
                if sums is None:
                    sums = hours[key] = HourSums()
                sums.add(row)
            following = self._following_minute(at, intervals)
            hour = self._minute // HOUR * HOUR
            if following // HOUR * HOUR != hour:
                closed.hours += self._rows_of_hour(hour, self._hours)
                self._hours = {}
            self._minute = following
        return self._minute + MINUTE

    def _following_minute(self, at: int, intervals: _Intervals) -> int:
        """Begin the next minute of which anything is known: return its start."""
        assert self._minute is not None
        end = self._minute + MINUTE
        if self._begin_minute_of_queues(end):
            return end
        following = [at, *intervals.first()]
        if intervals.any_after(end):
            recorded = self._recorded.first_after(end)
            following.append(at if recorded is None else recorded)
        return min(following) // MINUTE * MINUTE

    def _begin_minute_of_queues(self, at: int) -> bool:
        """Begin the minute from `at` on for all queues; return whether values of any may be valid in it."""
        last = self._recorded.spans[-1]
        goes_on, gone = False, []
        for key, mine in self._queues.items():
            mine.begin_minute(at)
            if mine.valid_after(at, last):
                goes_on = True
            elif not mine.matters_after(at, last):
                gone.append(key)
        for key in gone:
            del self._queues[key]
        return goes_on

    # -- rows ---------------------------------------------------------------------------------------------------

    @property
    def covered(self) -> int | None:
        """Up to when everything given is known, ms; None before the first coverage."""
        return self._recorded.covered

    def open_minutes(self) -> list[Row]:
        """Return the rows of the open minute as of `covered`."""
        if self._minute is None:
            return []
        return self._rows_of_minute(self._intervals(), self._taken_until)

    def open_hours(self, minutes: Sequence[Row] | None = None) -> list[Row]:
        """Return the rows of the open hour as of `covered`. `minutes`: what `open_minutes` has returned since the last
        `take`, if it has been called."""
        if self._minute is None:
            return []
        at = self._minute // HOUR * HOUR
        watched = self._recorded.between(at, at + HOUR)
        last = {key_of(row): row for row in (self.open_minutes() if minutes is None else minutes)}
        rows = [hour.row(self.broker, at, watched, key, last.pop(key, None)) for key, hour in self._hours.items()]
        new = HourSums()
        return rows + [new.row(self.broker, at, watched, key, row) for key, row in last.items()]

    def holds(self, since: int = 0) -> list[Row]:
        """Return the rows of ongoing blocks, and of those that ended at `since` or later."""
        return [block.row(self.broker) for block in self._blocks if block.end is None or block.end >= since]

    def episodes(self, since: int = 0) -> list[Row]:
        """Return the rows of ongoing episodes and stops, and of those that ended at `since` or later."""
        rows = [
            episode.row(self.broker, self._blocks.of_queue((episode.virtualhost, episode.queue)), self._recorded)
            for episode in self._episodes
            if episode.end is None or not episode.settled or episode.end >= since
        ]
        return rows + [stop.row(self.broker) for stop in self._stops if stop.end is None or stop.end >= since]

    def forget(self, before: int) -> None:
        """Forget what has ended before that time: neither given nor corrected any more."""
        self._since = max(self._since, before)
        self._episodes.forget(before)
        self._stops.forget(before)
        starts: dict[Queue, int] = {}
        for episode in self._episodes:
            queue: Queue = (episode.virtualhost, episode.queue)
            starts[queue] = min(episode.start, starts.get(queue, episode.start))
        self._blocks.forget(
            before,
            lambda block: (
                (start := starts.get((block.virtualhost, block.queue))) is not None and (block.end or 0) >= start
            ),
        )
        needed = [before, *starts.values(), *(block.start for block in self._blocks if block.end is None)]
        if self._minute is not None:
            needed.append(self._minute // HOUR * HOUR)
        self._recorded.forget(min(needed))

    def _intervals(self) -> list[Interval]:
        """Return the episodes and blocks that can contribute to the open minute or later ones."""
        first = self._minute
        both: list[Interval] = [*self._episodes, *self._blocks]
        if first is None:
            return both
        return [each for each in both if each.end is None or each.end >= first]

    def _rows_of_minute(self, intervals: Iterable[Interval], upto: int) -> list[Row]:
        """Return the rows of the open minute. `upto`: its end, or the covered time."""
        at = self._minute
        assert at is not None
        broker, watched = self.broker, self._recorded.between(at, at + MINUTE)
        sums = sums_of_minute(intervals, self._recorded, at)
        rows = []
        for (host, name), mine in self._queues.items():
            values = mine.values(upto)
            key = ("queue", host, name, name)
            if values is not None:
                rows.append(row_of_minute(broker, at, watched, key, values, sums.pop(key, (0, 0, 0, 0))))
        rows += [row_of_minute(broker, at, watched, key, None, mine) for key, mine in sums.items()]
        return rows + rows_of_virtual_hosts(rows)

    def _rows_of_hour(self, at: int, sums: Mapping[Key, HourSums]) -> list[Row]:
        watched = self._recorded.between(at, at + HOUR)
        return [hour.row(self.broker, at, watched, key) for key, hour in sums.items()]

    # -- state --------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """The number of samples and events whose time is not covered yet."""
        return len(self._samples) + len(self._events)

    def snapshot(self) -> dict[str, Any]:
        """Return the whole state, for JSON. It shares nothing with this object."""
        places = {id(span): index for index, span in enumerate(self._recorded.spans)}
        return {
            "version": VERSION,
            "broker": self.broker,
            "late": self.late,
            "minute": self._minute,
            "taken_until": self._taken_until,
            "since": self._since,
            "spans": [list(span) for span in self._recorded.spans],
            "queues": [[*queue, *mine.state(places)] for queue, mine in self._queues.items()],
            "hours": [[*key, *sums.state()] for key, sums in self._hours.items()],
            "blocks": [block.state() for block in self._blocks],
            "episodes": [episode.state() for episode in self._episodes],
            "stops": [stop.state() for stop in self._stops],
            "samples": [[row[name] for name in SAMPLE_COLUMNS] for row in self._samples],
            "events": [{name: row[name] for name in EVENT_COLUMNS if name in row} for row in self._events],
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> BrokerRollups:
        """Return an object with the state of a snapshot. Raises SnapshotError."""
        if state.get("version") != VERSION:
            raise SnapshotError(f"the snapshot has version {state.get('version')}, not {VERSION}")
        try:
            return cls._restored(state)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise SnapshotError(f"the snapshot is damaged: {error!r}") from error

    @classmethod
    def _restored(cls, state: Mapping[str, Any]) -> BrokerRollups:
        found = cls(state["broker"])
        found.late, found._minute = state["late"], state["minute"]
        found._taken_until, found._since = state["taken_until"], state["since"]
        spans = found._recorded.spans
        spans += [[begin, end] for begin, end in state["spans"]]
        for host, queue, *values in state["queues"]:
            found._queues[host, queue] = QueueMinute.restore(values, spans)
        for kind, host, name, queue, *values in state["hours"]:
            found._hours[kind, host, name, queue] = HourSums.restore(*values)
        for values in state["blocks"]:
            found._blocks.add(Block(*values))
        for values in state["episodes"]:
            found._episodes.add(Episode(*values))
        for values in state["stops"]:
            found._stops.add(Stop(*values))
        found._samples = [dict(zip(SAMPLE_COLUMNS, values, strict=True)) for values in state["samples"]]
        found._events = [dict(row) for row in state["events"]]
        return found


class _Intervals:
    """Episodes and blocks by minute, in order of time."""

    def __init__(self, intervals: Iterable[Interval]) -> None:
        self._later = sorted(intervals, key=lambda interval: interval.start, reverse=True)
        self._present: list[Interval] = []

    def during(self, at: int, end: int) -> Sequence[Interval]:
        """Return those that overlap or touch a minute. It is not before that of the last call."""
        while self._later and self._later[-1].start < end:
            self._present.append(self._later.pop())
        self._present = [each for each in self._present if each.end is None or each.end >= at]
        return self._present

    def any_after(self, at: int) -> bool:
        """Return whether one that has begun goes on after that time."""
        return any(each.end is None or each.end > at for each in self._present)

    def first(self) -> Sequence[int]:
        """Return the start of the first one that has not begun, if there is one."""
        return [each.start for each in self._later[-1:]]


class _Place:
    """The span of points in order of time."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._index = -1
        self.span, self.begin, self.end = NOWHERE, 0, -1

    def find(self, at: int) -> Span:
        """Return the span of a time that is before the end of the last span; NOWHERE if it was not recorded."""
        if self._index < 0:
            self._index = bisect_left(self._spans, at, key=itemgetter(1))
        while self._spans[self._index][1] < at:
            self._index += 1
        found = self._spans[self._index]
        if found[0] > at:
            return NOWHERE
        self.span, self.begin, self.end = found, found[0], found[1]
        return found


def _has_depth(row: Mapping[str, Any]) -> bool:
    return row.get("depth_messages") is not None or row.get("depth_bytes") is not None
