"""Write a generated history to the landing folder, as recorders do. `fleet.py` generates the figures.

Samples are a minute apart in the most recent days and an hour apart before; a recorder's would be a second apart, which
takes too long to generate. Events are complete: every episode, blocked producer, stop and edit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from brokers.model import object_name
from console.history.generate.fleet import MINUTES, OVERFULL, Crossing, Day, Edit, Fleet, Stop
from console.history.storage.durations import HOUR, MINUTE
from console.history.storage.event_rows import Row, table
from console.history.storage.landing import MAX_ROWS, SCHEMAS, Landing
from console.history.storage.landing_names import part

Array = npt.NDArray[Any]
Progress = Callable[[int, int], None]

_HOSTS = ("shop", "payments", "telemetry", "default")
_WORDS = ("orders", "invoices", "mail", "stock", "prices", "audit", "images", "alerts", "clicks", "ledger")
_REGIONS = ("eu", "us", "asia", "latam")
_CLIENTS = ("web-shop", "mobile-app", "gateway", "batch", "sensor-hub")
_STATES = ("NORMAL", "OVERFULL", "STOPPED", "OVERFULL_STOPPED")
_EVENTS = 100_000  # of one file, about


@dataclass(frozen=True, slots=True)
class Plan:
    """What to generate. `until`: end of the history; `days`: its length, of which the last day may be partial;
    `fine_days`: the last days with a sample per minute."""

    queues: int
    days: int
    seed: int
    until: datetime
    fine_days: int = 7
    broker: str = "made"

    @property
    def run(self) -> str:
        return f"made-{self.seed}"


@dataclass(slots=True)
class Made:
    """Numbers of published rows."""

    events: int = 0
    samples: int = 0
    episodes: int = 0


class AlreadyMade(Exception):
    """The folder already has a generated history of that broker."""


def make_history(landing: Landing, plan: Plan, progress: Progress = lambda done, days: None) -> Made:
    """Publish the history of a plan. An interrupted one continues: rows of published files are generated again, since
    each day depends on the days before, but not published again. Raises AlreadyMade, LandingError."""
    journal = _Journal(landing, plan)
    fleet = Fleet(plan.queues, plan.seed)
    writer = _Writer(landing, plan, fleet, journal)
    today = plan.until.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for n in range(plan.days):
        at = today - timedelta(days=plan.days - 1 - n)
        writer.day(at, fleet.day(at.weekday()), fine=n >= plan.days - plan.fine_days)
        progress(n + 1, plan.days)
    writer.flush()
    journal.complete()
    return writer.made


def interrupted(landing: Landing, plan: Plan) -> datetime | None:
    """Return the end of an interrupted history of the same options, whatever its end; None if there is none. Raises
    LandingError."""
    state = _Journal.read(landing, plan)
    if state is None or "published" not in state or state["plan"] != _options(plan):
        return None
    return datetime.fromtimestamp(state["until"] / 1000, UTC)


def _options(plan: Plan) -> dict[str, int]:
    return {"queues": plan.queues, "days": plan.days, "seed": plan.seed, "fine_days": plan.fine_days}


class _Journal:
    """The file that says which rows of a history have been published, since the pipeline removes processed files.
    Without `published` the history is complete."""

    def __init__(self, landing: Landing, plan: Plan) -> None:
        self._landing, self._plan = landing, plan
        self._published = {"events": 0, "samples": 0}
        state = self.read(landing, plan)
        if state is None:
            self._write()
            return
        if "published" not in state:
            raise AlreadyMade(
                f"{landing.root} has a generated history of {plan.broker} already: give another --broker, or another"
                " folder"
            )
        if state["plan"] != _options(plan) or state["until"] != _ms(plan.until):
            raise AlreadyMade(
                f"{landing.root} has an interrupted history of {plan.broker} with other options ({state['plan']}):"
                " repeat these to continue it, or give another --broker, or another folder"
            )
        self._published = state["published"]

    @staticmethod
    def _path(plan: Plan) -> str:
        return f"recorder/made~{part(plan.broker)}.json"

    @staticmethod
    def read(landing: Landing, plan: Plan) -> dict[str, Any] | None:
        content = landing.get(_Journal._path(plan))
        return None if content is None else json.loads(content)

    def has(self, kind: str, offset: int) -> bool:
        """Return whether the file with the row of this offset has been published."""
        return offset < self._published[kind]

    def published(self, kind: str, rows: int) -> None:
        """Record that the first `rows` rows of a kind have been published."""
        self._published[kind] = rows
        self._write()

    def complete(self) -> None:
        self._landing.put(self._path(self._plan), json.dumps({"plan": _options(self._plan)}).encode())

    def _write(self) -> None:
        state = {"plan": _options(self._plan), "until": _ms(self._plan.until), "published": self._published}
        self._landing.put(self._path(self._plan), json.dumps(state).encode())


class _Writer:
    """Buffers rows in order of time, and publishes them in files of bounded size."""

    def __init__(self, landing: Landing, plan: Plan, fleet: Fleet, journal: _Journal) -> None:
        self.made = Made()
        self._landing, self._plan, self._fleet, self._journal = landing, plan, fleet, journal
        self._end = _ms(plan.until)
        self._facts = _Facts(plan, fleet)
        self._samples = _Samples(plan, fleet, self._facts)
        self._events: list[Row] = []
        self._tables: list[pa.Table] = []
        self._coverage: list[Row] = []
        self._number = 0

    def day(self, at: datetime, day: Day, *, fine: bool) -> None:
        start = _ms(at)
        rows = [row for row in self._facts.of_day(start, at, day) if row["at"] < self._end]
        for row in sorted(rows, key=lambda row: row["at"]):
            self._number += 1
            self._events.append({**row, "number": self._number, "sequence": self._number})
            self.made.episodes += row["kind"] == "queue-overfull"
        recorded = self._recorded(start)
        minutes = np.flatnonzero(recorded)
        samples = self._samples.of_day(start, day, minutes if fine else minutes[(minutes + 1) % 60 == 0])
        if samples is not None:
            self._tables.append(samples)
        if len(self._events) >= _EVENTS:
            self._publish_events()
        if sum(len(t) for t in self._tables) >= MAX_ROWS:
            self._publish_samples()

    def _recorded(self, start: int) -> Array:
        """Return the recorded minutes: there are gaps without samples and coverage."""
        recorded = np.ones(MINUTES, bool)
        chance = self._fleet.chance
        if chance.random() < 0.02:
            begin = int(chance.integers(0, MINUTES - 200))
            recorded[begin : begin + int(chance.integers(5, 180))] = False
        recorded[max(0, min(MINUTES, (self._end - start) // MINUTE)) :] = False
        edges = np.flatnonzero(np.diff(np.concatenate([[0], recorded.astype(int), [0]])))
        for begin, end in edges.reshape(-1, 2).tolist():
            row = {**self._facts.common(start + begin * MINUTE), "until": start + end * MINUTE, "followed": True}
            self._coverage.append(row)
        return recorded

    def flush(self) -> None:
        self._publish_events()
        self._publish_samples()
        if self._coverage:
            self._landing.publish("coverage", table("coverage", self._coverage), self._name(0))

    def _publish_events(self) -> None:
        if self._events:
            if not self._journal.has("events", self.made.events):
                self._landing.publish("events", table("events", self._events), self._name(self.made.events))
                self._journal.published("events", self.made.events + len(self._events))
            self.made.events += len(self._events)
            self._events = []

    def _publish_samples(self) -> None:
        rows = pa.concat_tables(self._tables) if self._tables else SCHEMAS["samples"].empty_table()
        for offset in range(0, len(rows), MAX_ROWS):
            taken = rows.slice(offset, MAX_ROWS)
            if not self._journal.has("samples", self.made.samples):
                self._landing.publish("samples", taken, self._name(self.made.samples))
                self._journal.published("samples", self.made.samples + len(taken))
            self.made.samples += len(taken)
        self._tables = []

    def _name(self, offset: int) -> str:
        return f"made~{part(self._plan.broker)}~{part(self._plan.run)}~{offset:012}"


class _Facts:
    """Generates the events of a day."""

    def __init__(self, plan: Plan, fleet: Fleet) -> None:
        self._plan, self._fleet = plan, fleet
        each = len(_WORDS) * len(_REGIONS)
        self.hosts = [_HOSTS[n // each % len(_HOSTS)] for n in range(plan.queues)]
        self.names = [f"{_WORDS[n % 10]}.{_REGIONS[n // 10 % 4]}.{n // each:03}" for n in range(plan.queues)]
        self._began: dict[int, int] = {}  # queue -> when it became overfull, ms

    def common(self, at: int) -> dict[str, Any]:
        return {"broker": self._plan.broker, "run": self._plan.run, "at": at, "source": "made"}

    def of_day(self, start: int, at: datetime, day: Day) -> list[Row]:
        rows: list[Row] = []
        for crossing in sorted(day.crossings, key=lambda c: c.second):
            rows += self._crossing(start, crossing, day)
        for stop in day.stops:
            rows += [self._stop(start + stop.begin * MINUTE, q, stop, "producers-stopped") for q in stop.queues]
            rows += [self._stop(start + stop.end * MINUTE, q, stop, "producers-started") for q in stop.queues]
        rows += [self._edit(start + edit.minute * MINUTE, edit) for edit in day.edits]
        if at.day == 2:  # maintenance: the broker restarts once a month
            text = "[broker] BRK-1004 : Ready : 127.0.0.1:5672"
            rows.append(self._row(start + 4 * HOUR, "broker-ready", "type=Broker", text=text))
        return rows

    def _row(self, at: int, kind: str, name: str, **values: Any) -> Row:
        return {**self.common(at), "kind": kind, "object": name, "object_type": name[5:].partition(",")[0], **values}

    def _of_queue(self, queue: int) -> str:
        return str(object_name("Queue", virtualhost=self.hosts[queue], name=self.names[queue]))

    def _crossing(self, start: int, crossing: Crossing, day: Day) -> list[Row]:
        """Return the event of the queue, and one for each of its producers."""
        fleet, queue = self._fleet, crossing.queue
        at = start + round(crossing.second * 1000)
        minute = min(int(crossing.second // 60), MINUTES - 1)
        host, name = self.hosts[queue], self.names[queue]
        size, producers, depth = int(fleet.message_bytes[queue]), int(fleet.producers[queue]), round(crossing.depth)
        began = crossing.kind == OVERFULL
        level = int((day.capacity if began else day.resume)[queue, minute])
        level_bytes, level_messages = (level * size, 0) if fleet.by_bytes[queue] else (0, level)
        if began:
            self._began[queue], lasted = at, None
            which, code, word, capacity = "stop", "QUE-1003", "Overfull", "Capacity"
        else:
            lasted = at - self._began.pop(queue, at)
            which, code, word, capacity = "resume", "QUE-1004", "Underfull", "Resume Capacity"
        shared = {
            "virtualhost": host,
            "queue": name,
            "state": "OVERFULL" if began else "NORMAL",
            "depth_messages": depth,
            "depth_bytes": depth * size,
            "blocked_producers": producers if began else 0,
            "lasted_ms": lasted,
        }
        levels = {f"{which}_bytes": level_bytes, f"{which}_messages": level_messages}
        text = (
            f"[vh(/{host})/qu({name})] {code} : {word} : Size : {depth * size:,} bytes, {capacity} : {level_bytes:,},"
            f" Messages : {depth:,}, Message Capacity : {level_messages:,}"
        )
        rows = [self._row(at, f"queue-{word.lower()}", self._of_queue(queue), **shared, **levels, text=text)]
        for n in range(producers):
            rows.append(self._producer(at, queue, n, shared, blocked=began))
        return rows

    def _producer(self, at: int, queue: int, n: int, shared: Mapping[str, Any], *, blocked: bool) -> Row:
        host, name, number = self.hosts[queue], self.names[queue], queue * 10 + n
        client = f"{_CLIENTS[number % 5]}@10.0.{queue // 200 % 256}.{queue % 200 + 1}:{40_000 + number % 20_000}"
        connection = f"con:{number}({client}/{host})"
        words = f"CHN-1005 : Flow Control Enforced (Queue {name})" if blocked else "CHN-1006 : Flow Control Removed"
        return self._row(
            at,
            "producer-blocked" if blocked else "producer-released",
            str(object_name("Producer", virtualhost=host, id=number)),
            **shared,
            connection=connection,
            channel="ch:0",
            client=client,
            link=f"{name}-sender-{n}",
            reasons=[f"queue-overfull:{name}"] if blocked else None,
            text=f"[{connection}/ch:0] {words}",
        )

    def _stop(self, at: int, queue: int, stop: Stop, kind: str) -> Row:
        verb, code = ("Stopped", "HGT-1001") if kind == "producers-stopped" else ("Started", "HGT-1002")
        producers = int(self._fleet.producers[queue])
        scope = f"queue {self.hosts[queue]}/{self.names[queue]}"
        return self._row(
            at,
            kind,
            self._of_queue(queue),
            virtualhost=self.hosts[queue],
            queue=self.names[queue],
            actor=stop.actor,
            reason=stop.reason,
            scope=scope,
            queues=1,
            producers=producers,
            text=f"[broker] {code} : Producers {verb} : Scope : {scope}, By : {stop.actor}, Reason : {stop.reason},"
            f" Queues : 1, Producers : {producers:,}",
        )

    def _edit(self, at: int, edit: Edit) -> Row:
        host, name = self.hosts[edit.queue], self.names[edit.queue]
        by_bytes = bool(self._fleet.by_bytes[edit.queue])
        attribute = "capacity_bytes" if by_bytes else "capacity_messages"
        size = int(self._fleet.message_bytes[edit.queue]) if by_bytes else 1
        before, after = edit.before * size, edit.after * size
        return self._row(
            at,
            "policy-changed",
            self._of_queue(edit.queue),
            virtualhost=host,
            queue=name,
            actor=edit.actor,
            before=json.dumps({attribute: before}),
            after=json.dumps({attribute: after}),
            text=f"[vh(/{host})/qu({name})] HGT-1003 : Policy Changed : {attribute} {before} -> {after}",
        )


class _Samples:
    """Generates the samples of a day; counters continue from day to day."""

    def __init__(self, plan: Plan, fleet: Fleet, facts: _Facts) -> None:
        self._plan, self._fleet, self._facts = plan, fleet, facts
        self._enqueued, self._dequeued = np.zeros(plan.queues), np.zeros(plan.queues)

    def of_day(self, start: int, day: Day, minutes: Array) -> pa.Table | None:
        """Return a row for every queue at the end of each of the minutes."""
        fleet, count = self._fleet, self._plan.queues
        enqueued = self._enqueued[:, None] + np.cumsum(day.came, axis=1)
        dequeued = self._dequeued[:, None] + np.cumsum(day.went, axis=1)
        self._enqueued, self._dequeued = enqueued[:, -1].copy(), dequeued[:, -1].copy()
        rows = len(minutes) * count
        if not rows:
            return None

        def by_minute(values: Array) -> Array:
            return values[:, minutes].T.ravel()

        def by_queue(values: Array) -> Array:
            return np.broadcast_to(values, (len(minutes), count)).ravel()

        depth, size, by_bytes = by_minute(day.depth), by_queue(fleet.message_bytes), by_queue(fleet.by_bytes)
        overfull, stopped = by_minute(day.overfull), by_minute(day.stopped)
        producers = by_queue(fleet.producers)
        capacity, resume = by_minute(day.capacity), by_minute(day.resume)
        numbers = np.tile(np.arange(count, dtype=np.int32), len(minutes))
        columns = {
            "broker": _repeated(self._plan.broker, rows),
            "run": _repeated(self._plan.run, rows),
            "at": pa.array(np.repeat(start + (minutes + 1) * MINUTE, count), pa.timestamp("ms", tz="UTC")),
            "virtualhost": _coded(numbers, self._facts.hosts),
            "queue": _coded(numbers, self._facts.names),
            "state": _coded(overfull.astype(np.int32) + 2 * stopped.astype(np.int32), _STATES),
            "depth_messages": _whole(depth),
            "depth_bytes": _whole(np.rint(depth) * size),
            "unacknowledged_messages": _whole(np.minimum(depth, 10)),
            "producers": _whole(producers),
            "blocked_producers": _whole(np.where(overfull | stopped, producers, 0)),
            "draining_producers": _whole(np.zeros(rows)),
            "consumers": _whole(by_queue(fleet.consumers)),
            "rate_in": pa.array(np.round(by_minute(day.came) / 60, 1)),
            "rate_out": pa.array(np.round(by_minute(day.went) / 60, 1)),
            "enqueued_messages": _whole(by_minute(enqueued)),
            "dequeued_messages": _whole(by_minute(dequeued)),
            "whole": pa.array(np.ones(rows, bool)),
            "source": _repeated("made", rows),
        }
        for name, level in (("capacity", capacity), ("stop", capacity), ("resume", resume)):
            columns[f"{name}_bytes"] = _whole(np.where(by_bytes, level * size, 0))
            columns[f"{name}_messages"] = _whole(np.where(by_bytes, 0, level))
        schema = SCHEMAS["samples"]
        arrays = [columns[f.name] if f.name in columns else pa.nulls(rows, f.type) for f in schema]
        return pa.Table.from_arrays(arrays, schema=schema)


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _whole(values: Array) -> pa.Array:
    return pa.array(np.rint(values).astype(np.int64))


def _repeated(text: str, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), rows)


def _coded(codes: Array, names: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(names, pa.string())).cast(pa.string())
