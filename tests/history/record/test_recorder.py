"""The recorder with a broker in memory: stored events and samples, coverage, gaps."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from brokers.admin import Event, NotAllowed, Samples
from brokers.model import object_name
from brokers.testing import START, InMemoryBroker
from console.history.record.recorded_files import RecordedFiles
from console.history.record.recorder import Recorder, Timing
from console.history.rollups.broker import BrokerRollups
from console.history.storage.durations import HOUR
from console.history.storage.event_rows import table
from console.history.storage.fresh import GRACE_SECONDS, decode
from console.history.storage.landing import EVENTS, KEYS, Landing, LandingError
from console.history.storage.landing_names import sequence_of
from tests.console.standin import Connected

QUICK = Timing(
    publish=0.01, rotate=0.02, rotate_coverage=0.02, idle=0.02, retry_first=0.01, retry_most=0.05, answer=5, whole=60
)
BROKER = object_name("Broker")
ORDERS = object_name("Queue", virtualhost="default", name="orders")


class FullDisk(Landing):
    """A landing folder whose writes can be made to fail."""

    full = False

    def put(self, path: str, content: bytes, *, durable: bool = True) -> None:
        if self.full:
            raise LandingError("no room")
        super().put(path, content, durable=durable)


@pytest.fixture
def landing(tmp_path: Path) -> FullDisk:
    return FullDisk(str(tmp_path / "history"))


def clock_of(memory: InMemoryBroker) -> Callable[[], int]:
    """Return the broker's clock, which tests advance; no clock is set."""
    return lambda: memory.engine.turn.now


@asynccontextmanager
async def recording(memory: InMemoryBroker, landing: Landing, timing: Timing = QUICK) -> AsyncIterator[Recorder]:
    async def connect() -> Connected:
        return Connected(memory)

    recorder = Recorder("local", connect, landing, timing=timing, clock=clock_of(memory), steady=clock_of(memory))
    task = asyncio.create_task(recorder.run())
    try:
        yield recorder
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], Any], what: str, within: float = 10.0) -> Any:
    end = asyncio.get_running_loop().time() + within
    while not (found := condition()):
        assert asyncio.get_running_loop().time() < end, f"not within {within:g} s: {what}"
        await asyncio.sleep(0.005)
    return found


def tail(landing: Landing, kind: str) -> list[dict[str, Any]]:
    """Return the published rows that have not landed."""
    content = landing.get("recorder/local/published.json")
    found = None if content is None else decode(content).tail(kind)
    return [] if found is None else list(landing.read_rows(f"recorder/local/{found.file}").to_pylist())


def covering(at: int, until: int) -> dict[str, Any]:
    return {"broker": "local", "run": "r", "at": at, "until": until, "followed": True, "source": "recorder"}


def rows(landing: Landing, kind: str) -> list[dict[str, Any]]:
    return list(landing.read_all(kind).to_pylist())


def in_ms(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: _ms(v) if isinstance(v, datetime) else v for k, v in row.items()} for row in found]


def numbers(landing: Landing, run: str) -> list[int]:
    return sorted(row["number"] for row in rows(landing, "events") if row["run"] == run)


async def recorded(landing: Landing, memory: InMemoryBroker) -> None:
    """Check that all events up to now are stored once."""
    last = memory.engine.last_event
    await until(
        lambda: numbers(landing, memory.engine.journal)[-1:] == [last], f"event {last} of {memory.engine.journal}"
    )


async def looked(landing: Landing, memory: InMemoryBroker, since: int = 0) -> None:
    """Let time pass until coverage after `since` (ms) is stored."""

    def is_covered() -> bool:
        memory.advance(500, step=500)
        return any(row["followed"] and _ms(row["at"]) >= since for row in rows(landing, "coverage"))

    await until(is_covered, f"coverage after {since}")


async def facts(memory: InMemoryBroker, count: int = 5) -> None:
    for n in range(count):
        verb = "start-producers" if n % 2 else "stop-producers"
        await memory.call(BROKER, verb, {"reason": f"incident {n}", "actor": "anna"})


async def test_every_event_is_stored_once_with_its_attributes(landing: Landing) -> None:
    memory = InMemoryBroker()
    await memory.create(ORDERS, {"capacity_messages": 10, "flow_resume_messages": 5})
    async with recording(memory, landing):
        await recorded(landing, memory)
        memory.fill("orders", 11)
        consumer = memory.attach_consumer("orders")
        memory.consume(consumer, 11)
        await memory.call(ORDERS, "stop-producers", {"reason": "incident 7", "actor": "anna"})
        queue = await memory.read(ORDERS)
        await memory.update(ORDERS, {"capacity_messages": 20}, queue.version, actor="olga")
        await recorded(landing, memory)
    found = rows(landing, "events")
    assert [row["number"] for row in found] == list(range(1, memory.engine.last_event + 1))
    by_kind = {row["kind"]: row for row in reversed(found)}  # the first of each
    overfull = by_kind["queue-overfull"]
    assert (overfull["virtualhost"], overfull["queue"], overfull["state"]) == ("default", "orders", "OVERFULL")
    assert (overfull["depth_messages"], overfull["stop_messages"], overfull["stop_bytes"]) == (11, 10, 0)
    assert overfull["at"].timestamp() * 1000 == memory.engine.turn.now
    blocked = by_kind["producer-blocked"]
    assert (blocked["queue"], blocked["reasons"]) == ("orders", ["queue-overfull:orders"])
    assert blocked["connection"].startswith("con:")
    assert blocked["link"] == "sender"
    assert by_kind["queue-underfull"]["resume_messages"] == 5
    stopped = by_kind["producers-stopped"]
    assert (stopped["actor"], stopped["reason"], stopped["scope"]) == ("anna", "incident 7", "queue default/orders")
    edited = by_kind["policy-changed"]
    assert (json.loads(edited["before"]), json.loads(edited["after"]), edited["actor"]) == (
        {"capacity_messages": 10},
        {"capacity_messages": 20},
        "olga",
    )
    assert json.loads(edited["attributes"])["actor"] == "olga"


async def test_restarted_recorder_continues_with_the_next_event(landing: Landing) -> None:
    memory = InMemoryBroker()
    for _ in range(3):
        await facts(memory)
        async with recording(memory, landing):
            await facts(memory)
            await recorded(landing, memory)
    assert numbers(landing, memory.engine.journal) == list(range(1, memory.engine.last_event + 1))


@pytest.mark.parametrize("lost", ["the position", "the files", "the last position"])
async def test_position_is_restored_from_the_remaining_files(landing: Landing, lost: str) -> None:
    memory = InMemoryBroker()
    position = Path(landing.root) / "recorder" / "local" / "position.json"
    await facts(memory)
    async with recording(memory, landing):
        await recorded(landing, memory)
    before = position.read_bytes()
    await facts(memory)
    async with recording(memory, landing):
        await recorded(landing, memory)
    known = memory.engine.last_event
    match lost:
        case "the position":
            position.unlink()
        case "the last position":  # killed between publishing a file and storing the position
            position.write_bytes(before)
        case "the files":
            for name in landing.names("events"):
                (Path(landing.folder("events")) / name).unlink()
    await facts(memory)
    async with recording(memory, landing):
        await until(
            lambda: numbers(landing, memory.engine.journal)[-1:] == [memory.engine.last_event], "the last event"
        )
    first = known + 1 if lost == "the files" else 1
    assert numbers(landing, memory.engine.journal) == list(range(first, memory.engine.last_event + 1))


async def test_another_journal_is_a_new_run_from_its_first_event(landing: Landing) -> None:
    old, new = InMemoryBroker(), InMemoryBroker()
    for memory in (old, new):
        await facts(memory)
        async with recording(memory, landing):
            await recorded(landing, memory)
    assert numbers(landing, old.engine.journal) == list(range(1, old.engine.last_event + 1))
    assert numbers(landing, new.engine.journal) == list(range(-1, new.engine.last_event + 1))


@pytest.mark.parametrize("is_newer", [True, False], ids=["started later", "running for longer"])
async def test_another_journal_ends_what_the_earlier_broker_left_open(landing: Landing, is_newer: bool) -> None:
    """Nothing that the new broker sends is about the earlier one's queue and stop."""
    old = InMemoryBroker(now=START + HOUR)
    new = InMemoryBroker(now=START + (2 * HOUR if is_newer else 0))
    await old.create(ORDERS, {"capacity_messages": 2})
    old.fill("orders", 3)
    await old.call(BROKER, "stop-producers", {"reason": "incident", "actor": "anna"})
    async with recording(old, landing):
        await recorded(landing, old)
        await looked(landing, old)
    await facts(new, 2)
    if not is_newer:
        new.advance(2 * HOUR, step=1000)
    async with recording(new, landing):
        await recorded(landing, new)
        await looked(landing, new, since=new.engine.turn.time_of_day)

    rollups = BrokerRollups("local")
    rollups.take(*(in_ms(rows(landing, kind)) for kind in ("samples", "events", "coverage")))
    found = {row["kind"]: row for row in rollups.episodes()}
    overfull = found["overfull"]
    assert overfull["queue"] == "orders"
    assert overfull["released_by"] == "restart"
    ends = [row["until"] for row in rows(landing, "coverage") if row["run"] == old.engine.journal]
    assert overfull["end"] == _ms(max(ends))
    assert [row["ended_by"] for row in rollups.holds()] == ["broker-ready"]
    assert (found["stopped"]["end"] is None) == (not is_newer)


async def test_reused_numbers_of_a_journal_are_a_new_run_and_a_gap(landing: Landing) -> None:
    memory = InMemoryBroker()
    await facts(memory, 6)
    async with recording(memory, landing):
        await recorded(landing, memory)
    known = memory.engine.last_event
    # A power failure: the last two events are lost, and two others have reused their numbers.
    del memory._events[-2:]
    memory.engine.last_event -= 2
    memory.advance(1000)
    await facts(memory, 2)
    assert memory.engine.last_event == known
    async with recording(memory, landing):
        await looked(landing, memory)
        await facts(memory, 3)
        run = f"{memory.engine.journal}-1"
        await until(lambda: len(numbers(landing, run)) == 3, "the events after that")
    assert numbers(landing, run) == list(range(known + 1, known + 4))
    assert numbers(landing, memory.engine.journal) == list(range(1, known + 1))
    gaps = [row for row in rows(landing, "coverage") if not row["followed"]]
    assert ["reused their numbers" in gap["reason"] for gap in gaps] == [True]


async def test_events_deleted_by_the_broker_are_a_recorded_gap(
    landing: Landing, caplog: pytest.LogCaptureFixture
) -> None:
    memory = InMemoryBroker(keep=5)
    await facts(memory, 5)
    async with recording(memory, landing):
        await recorded(landing, memory)
    known = memory.engine.last_event
    memory.advance(5000)
    await facts(memory, 20)
    async with recording(memory, landing):
        await recorded(landing, memory)
        await until(lambda: any(not row["followed"] for row in rows(landing, "coverage")), "the gap is stored")
    last = memory.engine.last_event
    (gap,) = [row for row in rows(landing, "coverage") if not row["followed"]]
    assert (gap["first_missing"], gap["last_missing"]) == (known + 1, last - 5)
    assert gap["at"] < gap["until"]
    assert numbers(landing, memory.engine.journal)[-6:] == [known, *range(last - 4, last + 1)]
    assert "are lost" in caplog.text


async def test_first_recording_stores_the_whole_journal_without_a_gap(landing: Landing) -> None:
    memory = InMemoryBroker(keep=5)
    await facts(memory, 20)
    async with recording(memory, landing):
        await recorded(landing, memory)
        await looked(landing, memory)
    assert len(numbers(landing, memory.engine.journal)) == 5
    assert all(row["followed"] for row in rows(landing, "coverage"))


async def test_samples_have_levels_and_include_unchanged_queues_at_the_start(landing: Landing) -> None:
    memory = InMemoryBroker()
    await memory.create(ORDERS, {"capacity_messages": 100, "flow_resume_messages": "50%"})
    await memory.create(object_name("Queue", virtualhost="default", name="quiet"), {})
    async with recording(memory, landing):
        await until(lambda: {r["queue"] for r in rows(landing, "samples")} == {"orders", "quiet"}, "all queues")
        memory.fill("orders", 7)
        memory.advance(1000)
        memory.sample()
        await until(lambda: any(not r["whole"] for r in rows(landing, "samples")), "a sample")
    (sample,) = [r for r in rows(landing, "samples") if not r["whole"] and r["queue"] == "orders"]
    assert (sample["queue"], sample["depth_messages"], sample["enqueued_messages"]) == ("orders", 7, 7)
    assert (sample["capacity_messages"], sample["stop_messages"], sample["resume_messages"]) == (100, 100, 50)
    assert (sample["state"], sample["producers"], sample["rate_in"]) == ("NORMAL", 1, 7.0)
    assert sample["overfull_since"] is None
    assert sample["overfull_ms"] is None  # not in samples
    whole = {r["queue"]: r for r in rows(landing, "samples") if r["whole"]}
    assert whole["quiet"]["depth_messages"] == whole["quiet"]["overfull_ms"] == 0


async def test_coverage_grows_while_nothing_changes_and_not_while_disconnected(landing: Landing) -> None:
    memory = InMemoryBroker()
    await facts(memory, 1)
    async with recording(memory, landing) as recorder:
        for _ in range(3):
            await looked(landing, memory, memory.engine.turn.now)
        memory.disconnect()
        await until(lambda: recorder._followed_from is None, "it has noticed")
        memory.advance(3_600_000, step=60_000)
        back = memory.engine.turn.now
        memory.reconnect()
        await looked(landing, memory, back)
    covered = sorted((_ms(r["at"]), _ms(r["until"])) for r in rows(landing, "coverage"))
    gaps = [b[0] - a[1] for a, b in itertools.pairwise(covered) if b[0] != a[1]]
    assert len(gaps) == 1
    assert gaps[0] >= 3_600_000
    assert len(covered) >= 5


def newest(recorder: Recorder) -> int:
    """Return the depth in the newest buffered sample; 0 if there is none."""
    samples = recorder._unlanded.samples
    for rows in (samples.received, *reversed(list(samples._sealed))):
        if rows:
            return int(rows[-1]["depth_messages"])
    converted = list(samples._converted)
    return int(converted[-1]["depth_messages"][-1].as_py()) if converted else 0


async def test_full_disk_loses_no_event_and_lost_samples_are_a_gap(landing: FullDisk) -> None:
    memory = InMemoryBroker()
    await memory.create(ORDERS, {})
    producer = memory.attach_producer("orders")
    timing = Timing(
        publish=0.01, rotate=0.02, rotate_coverage=0.02, idle=0.02, retry_first=0.01, answer=5, rows=50, most_samples=20
    )
    async with recording(memory, landing, timing) as recorder:
        await looked(landing, memory)
        landing.full = True
        for n in range(200):
            memory.publish(producer)
            memory.advance(1000)
            memory.sample()
            # The clock must not overtake the samples: a recorder expects them within a second.
            await until(lambda n=n: newest(recorder) == n + 1, "the sample has come")
            if n % 20 == 0:
                await facts(memory, 20)
        await until(lambda: len(recorder._unlanded.samples) == 20, "the oldest samples are dropped")
        landing.full = False
        await recorded(landing, memory)
        await until(lambda: any(not r["followed"] for r in rows(landing, "coverage")), "the gap is stored")
        await until(lambda: len(rows(landing, "samples")) > 20, "the newest")
    assert numbers(landing, memory.engine.journal) == list(range(1, memory.engine.last_event + 1))
    holes = [(_ms(r["at"]), _ms(r["until"])) for r in rows(landing, "coverage") if not r["followed"]]
    followed = [(_ms(r["at"]), _ms(r["until"])) for r in rows(landing, "coverage") if r["followed"]]
    assert not any(a < until and at < b for a, b in holes for at, until in followed), (holes, followed)
    depths = sorted(r["depth_messages"] for r in rows(landing, "samples") if not r["whole"])
    assert depths[-20:] == list(range(181, 201))


def test_file_appears_complete_and_a_failed_write_leaves_nothing(landing: Landing, monkeypatch: Any) -> None:
    import os

    row = dict.fromkeys(EVENTS.names)
    row |= dict.fromkeys(("broker", "run", "kind", "source"), "x") | {"number": 1, "at": 0, "sequence": 1}
    good = pa.Table.from_pylist([row], EVENTS)
    landing.publish("events", good, "one")
    assert landing.read_all("events").num_rows == 1

    def refuse(*_: Any) -> None:
        assert landing.names("events") == ["one.parquet"]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(LandingError, match="No space left on device"):
        landing.publish("events", good, "two")
    assert sorted(p.name for p in Path(landing.folder("events")).iterdir()) == ["one.parquet"]


@pytest.mark.domain("fresh tail")
async def test_rows_are_published_in_a_tail_before_they_land(landing: FullDisk) -> None:
    memory = InMemoryBroker()
    await memory.create(ORDERS, {})
    await facts(memory)
    async with recording(memory, landing, replace(QUICK, rotate=3600)):
        await until(lambda: tail(landing, "events"), "events are published")
        await until(lambda: tail(landing, "samples"), "samples are published")
        assert not landing.names("events")
        memory.advance(2000)
        await until(lambda: tail(landing, "coverage"), "coverage is published")
    # At its end it lands everything.
    assert numbers(landing, memory.engine.journal) == list(range(1, memory.engine.last_event + 1))
    assert not tail(landing, "events")


@pytest.mark.domain("fresh tail")
@pytest.mark.parametrize("when", ["before landing", "after landing", "after the catalog", "between two kinds"])
async def test_tail_of_a_killed_recorder_lands_once(landing: FullDisk, tmp_path: Path, when: str) -> None:
    memory = InMemoryBroker()
    await memory.create(ORDERS, {})
    await facts(memory)
    slow = replace(QUICK, rotate=3600, rotate_coverage=3600)
    async with recording(memory, landing, slow):
        await until(lambda: len(tail(landing, "events")) == memory.engine.last_event, "events are published")
        memory.advance(2000)
        await until(lambda: tail(landing, "samples") and tail(landing, "coverage"), "all kinds are published")
        shutil.copytree(Path(landing.root) / "recorder", tmp_path / "tail")
    # The state of the folder as if the recorder had been killed.
    if when in ("before landing", "between two kinds"):
        for kind in ("events", "coverage") if when == "between two kinds" else ("events", "samples", "coverage"):
            for name in landing.names(kind):
                landing.remove(kind, name)
    if when != "after the catalog":
        shutil.rmtree(Path(landing.root) / "recorder")
        shutil.copytree(tmp_path / "tail", Path(landing.root) / "recorder")
    samples_before = len(rows(landing, "samples"))
    await facts(memory)
    async with recording(memory, landing):
        await recorded(landing, memory)
    assert numbers(landing, memory.engine.journal) == list(range(1, memory.engine.last_event + 1))
    stored = [row for row in rows(landing, "samples") if row["at"].timestamp() * 1000 < memory.engine.turn.now]
    assert len({(row["queue"], row["at"]) for row in stored}) == len(stored) >= max(samples_before, 1)
    covered = sorted((_ms(row["at"]), _ms(row["until"])) for row in rows(landing, "coverage"))
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(covered))


async def test_sequences_grow_across_restarts_and_a_clock_set_back(landing: FullDisk) -> None:
    files = RecordedFiles(landing, "local", clock=lambda: 5_000)
    files.restore()
    for _ in range(2):
        files.land("coverage", table("coverage", [covering(1, 2)]))
    files.remember()
    again = RecordedFiles(landing, "local", clock=lambda: 17)
    again.restore()
    again.land("coverage", table("coverage", [covering(2, 3)]))
    assert [sequence_of(name) for name in landing.names("coverage")] == [5_000, 5_001, 5_002]


async def test_recorder_that_lost_its_broker_writes_nothing(landing: FullDisk) -> None:
    files = RecordedFiles(landing, "local", may_write=lambda: False)
    with pytest.raises(LandingError, match="another process"):
        files.land("coverage", table("coverage", [covering(1, 2)]))
    with pytest.raises(LandingError, match="another process"):
        files.publish({}, None, 0)
    assert not landing.names("coverage")


async def test_files_that_the_catalog_no_longer_lists_are_removed_after_the_grace_period(landing: FullDisk) -> None:
    now = 100.0
    files = RecordedFiles(landing, "local", steady=lambda: now)
    files.restore()
    for _ in range(3):
        files.publish({"coverage": table("coverage", [covering(1, 2)])}, None, 2)
    folder = Path(landing.root) / "recorder" / "local"
    assert len(list(folder.glob("coverage~*"))) == 3
    now += GRACE_SECONDS + 1
    files.publish({"coverage": table("coverage", [covering(1, 3)])}, None, 3)
    # The one that this publication has replaced is still read.
    assert len(list(folder.glob("coverage~*"))) == 2


async def test_closed_hour_lands_at_once(landing: FullDisk) -> None:
    memory = InMemoryBroker()
    await memory.create(ORDERS, {})
    async with recording(memory, landing, replace(QUICK, rotate=3600, rotate_coverage=3600)) as recorder:
        await until(lambda: recorder._followed_from is not None and tail(landing, "samples"), "it records")
        memory.advance(3000)
        await until(lambda: tail(landing, "coverage"), "the open hour is covered")
        assert not landing.names("samples")
        end = (memory.engine.turn.now // HOUR + 1) * HOUR
        memory.advance(end + 62_000 - memory.engine.turn.now, step=60_000)
        await until(lambda: landing.names("samples") and landing.names("coverage"), "the closed hour has landed")
        assert max(_ms(row["until"]) for row in rows(landing, "coverage")) >= end


@pytest.mark.parametrize(("now", "seconds"), [(5 * HOUR - 3000, 4.5), (5 * HOUR + 1000, 0.5), (5 * HOUR + 1500, 3600)])
def test_idle_recorder_publishes_when_an_hour_closes(landing: FullDisk, now: int, seconds: float) -> None:
    async def connect() -> Connected:
        raise AssertionError("it does not run")

    recorder = Recorder("local", connect, landing, clock=lambda: now)
    assert recorder._seconds_to_next_hour() == seconds


async def test_position_in_files_of_the_previous_release_is_understood(landing: FullDisk) -> None:
    memory = InMemoryBroker()
    await facts(memory)
    async with recording(memory, landing):
        await recorded(landing, memory)
    known = memory.engine.last_event
    # As that release named its only file.
    folder = Path(landing.folder("events"))
    [found] = landing.names("events")
    (folder / found).rename(folder / f"recorder~local~{memory.engine.journal}~{1:019}-{known:019}.parquet")
    shutil.rmtree(Path(landing.root) / "recorder")
    await facts(memory)
    async with recording(memory, landing):
        await recorded(landing, memory)
    assert numbers(landing, memory.engine.journal) == list(range(1, memory.engine.last_event + 1))


class FirstFileMeanwhile:
    """A file system whose folder is created after its first check."""

    def __init__(self, landing: Landing) -> None:
        self.landing, self.files = landing, landing._files

    def get_file_info(self, selector: Any) -> Any:
        self.landing._files = self.files
        self.landing.publish("events", EVENTS.empty_table(), "first")
        raise FileNotFoundError(f"Cannot list directory '{selector.base_dir}'")


@pytest.mark.parametrize("look", [lambda landing: landing.names("events"), lambda landing: [*landing.landed()]])
def test_folder_created_during_a_check_is_read(landing: Any, look: Any) -> None:
    landing._files = FirstFileMeanwhile(landing)
    assert look(landing) in (["first.parquet"], [("events", "first.parquet")])


def test_key_columns_are_never_null() -> None:
    from console.history.storage.landing import SCHEMAS

    for kind, key in KEYS.items():
        assert all(not SCHEMAS[kind].field(column).nullable for column in key), kind


def _ms(at: Any) -> int:
    return round(at.timestamp() * 1000)


class HungDisk(FullDisk):
    """A landing folder whose writes wait, and then fail."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.hangs, self.waits, self.fails = threading.Event(), threading.Event(), threading.Event()

    def put(self, path: str, content: bytes, *, durable: bool = True) -> None:
        if self.hangs.is_set():
            self.waits.set()
            self.fails.wait()
            raise LandingError("no response")
        super().put(path, content, durable=durable)


async def test_recorder_ends_when_it_is_cancelled_during_a_write_that_fails(tmp_path: Path) -> None:
    """Otherwise a process that has lost one lease would wait without end, and lose the others."""
    memory, landing = InMemoryBroker(), HungDisk(str(tmp_path / "history"))

    async def connect() -> Connected:
        return Connected(memory)

    recorder = Recorder("local", connect, landing, timing=QUICK, clock=clock_of(memory), steady=clock_of(memory))
    task = asyncio.create_task(recorder.run())
    try:
        await facts(memory)
        await recorded(landing, memory)
        landing.hangs.set()
        await facts(memory)
        await until(landing.waits.is_set, "a write has begun")
        task.cancel()
        asyncio.get_running_loop().call_later(0.05, landing.fails.set)
        done, _ = await asyncio.wait([task], timeout=20)
        assert done
    finally:
        landing.fails.set()
        memory.disconnect()
        task.cancel()
        await asyncio.wait([task])


async def test_rows_are_buffered_once_while_the_folder_cannot_be_written(landing: FullDisk) -> None:
    memory = InMemoryBroker()
    await memory.create(ORDERS, {})
    producer = memory.attach_producer("orders")
    async with recording(memory, landing) as recorder:
        await looked(landing, memory)
        landing.full = True
        for n in range(30):
            memory.publish(producer)
            memory.advance(1000)
            memory.sample()
            await until(lambda n=n: newest(recorder) == n + 1, "the sample has come")
            await until(lambda: not recorder._unlanded.samples.received, "it was attempted")
            assert len(recorder._untaken) <= 2
        landing.full = False
        await recorded(landing, memory)


class Huge(Connected):
    """A connection to a broker that sends a capacity and a depth of more than 64 bits, as one written in another
    language can."""

    async def samples(self) -> AsyncIterator[Samples]:
        async for each in self._broker.samples():
            huge = {"effective_capacity_messages": 10**20}
            yield Samples(each.at, tuple((name, {**values, **huge}) for name, values in each.queues))

    async def events(self, after: int | None = None) -> AsyncIterator[Event]:
        async for each in self._broker.events(after):
            yield replace(each, attributes={**each.attributes, "depth_bytes": 10**20})


async def test_values_that_no_column_can_have_are_unknown_and_end_no_recording(landing: FullDisk) -> None:
    memory = InMemoryBroker()
    await memory.create(ORDERS, {})
    producer = memory.attach_producer("orders")

    async def connect() -> Connected:
        return Huge(memory)

    recorder = Recorder("local", connect, landing, timing=QUICK, clock=clock_of(memory), steady=clock_of(memory))
    task = asyncio.create_task(recorder.run())
    try:
        await until(lambda: recorder._followed_from is not None, "it is connected")
        for n in range(3):
            memory.publish(producer)
            memory.advance(1000)
            memory.sample()
            await until(lambda n=n: n + 1 in {row["depth_messages"] for row in rows(landing, "samples")}, "a sample")
        await facts(memory)
        await recorded(landing, memory)
        await looked(landing, memory)
        assert recorder._rollups is not None, "the rollups go on"
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=20)
        assert done
    finally:
        memory.disconnect()
        task.cancel()
        await asyncio.wait([task])
    changed = [row for row in rows(landing, "samples") if not row["whole"]]
    assert {row["capacity_messages"] for row in changed} == {None}
    assert {row["depth_bytes"] for row in rows(landing, "events")} == {None}


async def test_recorder_ends_when_its_last_rows_cannot_be_published_for_any_reason(
    landing: FullDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its process would wait for it without end, and lose the leases of the other brokers."""
    memory = InMemoryBroker()

    async def connect() -> Connected:
        return Connected(memory)

    def fail(*_: object) -> None:
        raise OverflowError("a fault of the recorder")

    recorder = Recorder("local", connect, landing, timing=QUICK, clock=clock_of(memory), steady=clock_of(memory))
    task = asyncio.create_task(recorder.run())
    try:
        await looked(landing, memory)
        monkeypatch.setattr(recorder, "_write", fail)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=20)
        assert done
    finally:
        memory.disconnect()
        task.cancel()
        await asyncio.wait([task])


async def test_time_by_which_a_clock_was_set_is_not_recorded_time(landing: FullDisk) -> None:
    """A machine that starts with a wrong time gets the right one later: the years between were not recorded."""
    memory = InMemoryBroker()
    begin, ahead = memory.engine.turn.now, [0]

    async def connect() -> Connected:
        return Connected(memory)

    def steady() -> int:
        return memory.engine.turn.now

    recorder = Recorder("local", connect, landing, timing=QUICK, clock=lambda: steady() + ahead[0], steady=steady)
    task = asyncio.create_task(recorder.run())
    try:
        await looked(landing, memory)
        for step in (365 * 24 * HOUR, 0):
            ahead[0] = step
            await looked(landing, memory, since=steady() + step)
    finally:
        task.cancel()
        await asyncio.wait([task])
    covered = [(_ms(row["at"]), _ms(row["until"])) for row in rows(landing, "coverage") if row["followed"]]
    assert sum(end - at for at, end in covered) <= steady() - begin, covered


async def test_broker_that_ends_each_connection_at_once_is_connected_to_ever_more_rarely(landing: FullDisk) -> None:
    """Each connection reads all queues: five a second would be a load on the broker, and as many rows."""
    memory, connected = InMemoryBroker(), list[float]()
    loop = asyncio.get_running_loop()

    class Refusing(Connected):
        def __init__(self, broker: InMemoryBroker) -> None:
            super().__init__(broker)
            self.read = self.refuse  # type: ignore[assignment]

        async def refuse(self, *_: object) -> None:
            raise NotAllowed("no permission any more")

    async def connect() -> Connected:
        connected.append(loop.time())
        return Refusing(memory)

    timing = Timing(retry_first=0.01, retry_most=5)
    task = asyncio.create_task(Recorder("local", connect, landing, timing=timing).run())
    try:
        await until(lambda: len(connected) == 7, "it has tried")
    finally:
        task.cancel()
        await asyncio.wait([task])
    assert connected[6] - connected[0] >= 0.01 + 0.02 + 0.04 + 0.08 + 0.16 + 0.32


async def test_recorder_that_cannot_begin_does_not_end(landing: FullDisk) -> None:
    """Its process records other brokers, too."""
    memory = InMemoryBroker()
    await facts(memory)
    content = {"position": {"journal": "x", "of_a_later_release": 1}, "sequences": {}}
    landing.put("recorder/local/position.json", json.dumps(content).encode())
    async with recording(memory, landing) as recorder:
        await until(lambda: "recording cannot begin" in recorder._trouble, "it has been attempted")
        landing.delete("recorder/local/position.json")
        await recorded(landing, memory)
