"""Queries agree with a search through all rows, at random moments between recording, landing, runs and restarts.

The recorder's files and rollups are the real ones. The run is a stand-in without Spark that commits the oracle's rows
in the pipeline's order, one table after the other, so that a query meets tables of different runs.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from console.history.query import blocked, episode_list
from console.history.query.series import series
from console.history.record.fresh_rollups import FreshRollups
from console.history.record.position import Position
from console.history.record.recorded_files import RecordedFiles
from console.history.storage.commits import DeltaFolder
from console.history.storage.event_rows import table
from console.history.storage.fresh import RAW
from console.history.storage.landing import SCHEMAS, Landing
from console.history.storage.landing_keys import KEYS
from console.history.storage.landing_names import landed_id, rolled_id, sequence_of
from console.history.storage.queue_key import QueueKey
from console.history.storage.reader import Reader
from console.history.storage.table_versions import rolled_until
from tests.history.delta import DAY, HOUR, MINUTE, rows_of
from tests.history.rollups.oracle import Oracle
from tests.history.rollups.random_histories import START, RandomHistory, Row, random_history

BROKER, SEEDS = "b", 3
ROLLUPS = {"minutes": MINUTE, "hours": HOUR}
COMPARED = ("watched_ms", "known_ms", "overfull_ms", "episodes", "blocked_ms", "blocks", "messages_max", "messages_in")


class Interleaved:
    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.url = str(folder)
        self.landing = Landing(self.url)
        self.now = 0.0
        self.received: dict[str, list[Row]] = {kind: [] for kind in RAW}
        self.tail: dict[str, list[Row]] = {kind: [] for kind in RAW}
        self.stored: dict[str, list[Row]] = {kind: [] for kind in RAW}  # of the tables
        self.sequences = dict.fromkeys(RAW, 0)
        self.rolled: dict[str, tuple[int, list[Row]]] = {name: (0, []) for name in ROLLUPS}  # T, and the rows before
        self.run: Iterator[None] = iter(())
        self.coming = self.split(random_history(self.chance, BROKER, 40))
        self.reader = Reader(self.url)
        self.start()

    def split(self, history: RandomHistory) -> Iterator[dict[str, list[Row]]]:
        """Yield what a recorder receives, samples and events with the coverage of their time."""
        given: dict[str, list[Row]] = {"events": history.events, "samples": history.samples}
        done = {"events": 0, "samples": 0}
        for cover in history.coverage:
            batch: dict[str, list[Row]] = {"coverage": [cover]}
            for kind, rows in given.items():
                end = sum(row["at"] < cover["until"] for row in rows)
                batch[kind], done[kind] = rows[done[kind] : end], max(end, done[kind])
            yield batch

    # -- the recorder ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a recorder; the one before it was killed."""
        self.files = RecordedFiles(self.landing, BROKER, steady=lambda: self.now)
        self.files.restore()
        self.fresh = FreshRollups(
            self.files,
            rolled_until=lambda: rolled_until(self.url, BROKER),
            share=1e9,
            least=0.0,
            steady=lambda: self.now,
        )
        self.fresh.restore()
        self.tail = {kind: [] for kind in RAW}

    def receive(self) -> None:
        batch = next(self.coming, None)
        if batch is None:
            return
        for kind, rows in batch.items():
            self.received[kind] += rows
            self.tail[kind] += rows
        empty = dict.fromkeys(SCHEMAS["samples"].names)
        self.fresh.take([empty | row for row in batch["samples"]], batch["events"], batch["coverage"])
        self.publish()

    def publish(self) -> None:
        self.now += 1
        tails = {kind: table(kind, rows) for kind, rows in self.tail.items() if rows}
        self.files.publish(tails, self.position, 0, self.fresh.files())

    @property
    def position(self) -> Position | None:
        """The last event; the next recorder finds it in the name of the landing file."""
        events = self.received["events"]
        return Position("r", events[-1]["number"], events[-1]["at"], "") if events else None

    def land(self) -> None:
        kinds = [kind for kind in RAW if self.tail[kind]]
        # Without a state a recorder does not know what began before the rows that it finds.
        has_state = self.files.private("state.json") is not None
        dies_before = self.chance.choice([*kinds, "publishing", *["never"] * 6] if has_state else ["never"])
        for kind in kinds:
            if kind == dies_before:
                return self.start()
            position = self.position if kind == "events" else None
            self.files.land(kind, table(kind, self.tail[kind]), position)
            self.tail[kind] = []
        self.files.remember()
        if dies_before == "publishing":
            return self.start()
        self.publish()
        if not any(self.tail.values()):
            self.fresh.store_state()
        return None

    def wait(self) -> None:
        self.now += self.chance.choice((1, 59, 70, 200))

    # -- the pipeline ---------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Commit the next table of the current run, or begin one."""
        if next(self.run, self) is self:
            self.run = self.next_run()

    def next_run(self) -> Iterator[None]:
        names = {kind: self.landing.names(kind) for kind in RAW}
        for kind in RAW:
            new = [name for name in names[kind] if (sequence_of(name) or 0) > self.sequences[kind]]
            if new:
                rows = [self.landing.read(kind, name) for name in new]
                self.sequences[kind] = max(sequence_of(name) or 0 for name in new)
                folder = DeltaFolder(self.url, kind)
                added = [file for each in rows for file in folder.write_file(each)]
                folder.commit(added, versions={landed_id(kind, BROKER): self.sequences[kind]})
                keys = {tuple(row[column] for column in KEYS[kind]) for each in rows for row in _in_ms(each)}
                known = [row for row in self.received[kind] if tuple(row[column] for column in KEYS[kind]) in keys]
                self.stored[kind] += known
                yield
        oracle = oracle_of(self.stored)
        if oracle is None:
            return
        until = max(oracle.covered // HOUR * HOUR, self.rolled["minutes"][0])
        found = {"minutes": oracle.minutes(), "hours": oracle.hours()}
        for name, rows in found.items():
            before = [row for row in rows if row["at"] < until]
            self.replace(name, before, {rolled_id(BROKER): until})
            self.rolled[name] = until, before
            yield
        self.replace("days", [], {rolled_id(BROKER): until})
        for name, rows in (("holds", oracle.holds), ("episodes", oracle.episodes())):
            yield
            self.replace(name, rows, {})

    def replace(self, name: str, rows: Sequence[Row], versions: Mapping[str, int]) -> None:
        folder = DeltaFolder(self.url, name)
        folder.commit(folder.write_file(rows_of(name, rows)) if rows else (), folder.files(), versions)

    def sweep(self) -> None:
        """Remove landing files that are processed and in the recorder's state, as those of two hours ago are."""
        state = json.loads(self.files.private("state.json") or b"{}")
        for kind, sequence in state.get("sequences", {}).items():
            for name in self.landing.names(kind):
                if (sequence_of(name) or 0) < min(sequence, self.sequences[kind] + 1):
                    self.landing.remove(kind, name)

    # -- what queries return --------------------------------------------------------------------------------------

    def check(self) -> None:
        for kind in RAW:
            found = self.keys(kind, self.reader.rows(f"SELECT * FROM {{{kind}}}", optional=RAW))
            assert sorted(found) == sorted(self.keys(kind, self.received[kind])), kind
        oracle = oracle_of(self.received)
        if oracle is None:
            return
        wanted = {"minutes": oracle.minutes(), "hours": oracle.hours()}
        for name, rows in wanted.items():
            until, before = self.rolled[name]
            wanted[name] = before + [row for row in rows if row["at"] >= until]
            self.same(name, wanted[name])
        begin, end = START - DAY, oracle.covered + 1
        for measure, column in blocked.MEASURES.items():
            found = blocked.top(self.reader, "queues", begin, end, now=end, measure=measure, most=100)
            sums: dict[tuple[str, str], int] = {}
            for row in wanted["hours"]:
                if row["kind"] == "queue" and row[column]:
                    key = row["virtualhost"], row["name"]
                    sums[key] = sums.get(key, 0) + row[column]
            assert {(row["virtualhost"], row["name"]): row[column] for row in found["rows"]} == sums, measure
        self.check_series(wanted["minutes"], oracle)
        self.check_intervals(oracle, begin, end)

    def same(self, name: str, wanted: Sequence[Row]) -> None:
        columns = ", ".join(COMPARED)
        rows = self.reader.rows(
            f'SELECT kind, virtualhost, name, queue, epoch_ms("at") AS t, {columns} FROM {{{name}}}'
        )
        found = sorted(repr(tuple(row.values())) for row in rows)
        keys = ("kind", "virtualhost", "name", "queue", "at", *COMPARED)
        assert found == sorted(repr(tuple(row[key] for key in keys)) for row in wanted), name

    def check_series(self, minutes: Sequence[Row], oracle: Oracle) -> None:
        end = oracle.covered // MINUTE * MINUTE + MINUTE
        begin = end - 20 * MINUTE
        for host, queue in {(row["virtualhost"], row["name"]) for row in minutes if row["kind"] == "queue"}:
            found = series(self.reader, QueueKey(BROKER, host, queue), begin, end, resolution="minute", now=end)
            rows = [row for row in minutes if (row["kind"], row["virtualhost"], row["name"]) == ("queue", host, queue)]
            by_time = {row["at"]: row for row in rows}
            for name in ("overfull_ms", "blocked_ms", "messages_max"):
                assert found[name] == [by_time.get(at, {}).get(name) for at in found["at"]], name

    def check_intervals(self, oracle: Oracle, begin: int, end: int) -> None:
        query = episode_list.EpisodeQuery(begin, end, end)
        count, rows = episode_list.page(self.reader, query, 1, 500)
        columns = ("id", "start", "end", "stop_messages", "released_by")
        wanted = [
            row for row in oracle.episodes() if row["start"] < end and (row["end"] is None or row["end"] >= begin)
        ]
        assert count == len(rows)
        assert sorted(repr([row[name] for name in columns]) for row in rows) == sorted(
            repr([row[name] for name in columns]) for row in wanted
        )
        holds = self.reader.rows(
            'SELECT virtualhost, queue, producer, epoch_ms("start") AS s, epoch_ms("end") AS e FROM {holds}'
        )
        names = ("virtualhost", "queue", "producer", "start", "end")
        assert sorted(repr(list(row.values())) for row in holds) == sorted(
            repr([row[name] for name in names]) for row in oracle.holds
        )

    @staticmethod
    def keys(kind: str, rows: Sequence[Row]) -> list[str]:
        """Return the rows' keys; times are ms, or timestamps."""
        return [repr([_ms(row[column]) for column in KEYS[kind]]) for row in rows]


def oracle_of(rows: Mapping[str, list[Row]]) -> Oracle | None:
    """Return the oracle of these rows; None without recorded time."""
    if not any(row["followed"] for row in rows["coverage"]):
        return None
    return Oracle(RandomHistory(BROKER, rows["samples"], rows["events"], rows["coverage"]))


def _ms(value: Any) -> Any:
    return round(value.timestamp() * 1000) if hasattr(value, "timestamp") else value


def _in_ms(rows: Any) -> list[Row]:
    return [{name: _ms(value) for name, value in row.items()} for row in rows.to_pylist()]


@pytest.fixture(autouse=True)
def _always_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.history.storage.table_versions.FRESH_SECONDS", 0)


@pytest.mark.domain("fresh alone")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_queries_agree_with_all_rows_at_any_moment(tmp_path: Path, seed: int) -> None:
    world = Interleaved(tmp_path, seed)
    actions: list[Callable[[], None]] = [world.receive] * 6 + [world.land] * 4 + [world.step] * 5
    actions += [world.wait, world.start, world.sweep]
    world.receive()
    world.land()
    for _ in range(30):
        world.chance.choice(actions)()
        if world.chance.random() < 0.3:
            world.check()
    for _ in range(3):
        world.receive()
        world.check()
