"""The published rollups of a recorder: those of the rows that it has taken, across closed minutes, restarts, errors."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from console.history.record.fresh_rollups import FreshRollups
from console.history.record.recorded_files import RecordedFiles
from console.history.rollups.broker import BrokerRollups
from console.history.storage.durations import HOUR, MINUTE
from console.history.storage.event_rows import table
from console.history.storage.fresh import GRACE_SECONDS, FreshFile
from console.history.storage.fresh_rows import as_rows, rows_of
from console.history.storage.landing import SCHEMAS, Landing, LandingError
from tests.history.delta import coverage, event, sample

BEGIN = 1_773_500_400_000 // HOUR * HOUR + 50 * MINUTE
STEP = 10_000

Batch = tuple[list[Any], list[Any], list[Any]]


class FullDisk(Landing):
    full = False

    def put(self, path: str, content: bytes, *, durable: bool = True) -> None:
        if self.full:
            raise LandingError("no room")
        super().put(path, content, durable=durable)


@pytest.fixture
def landing(tmp_path: Path) -> FullDisk:
    return FullDisk(str(tmp_path))


def batches(minutes: int, seed: int = 3) -> list[Batch]:
    """Return what a recorder receives every 10 s: three queues, one of which becomes overfull and underfull."""
    chance = random.Random(seed)
    found: list[Batch] = []
    number = 0
    empty = dict.fromkeys(SCHEMAS["samples"].names)
    for at in range(BEGIN, BEGIN + minutes * MINUTE, STEP):
        samples = [
            empty
            | sample(at + 1, chance.randrange(100), queue, enqueued_messages=(at - BEGIN) // 100, dequeued_messages=0)
            for queue in ("a", "b", "c")
        ]
        events = []
        if chance.random() < 0.2:
            number += 1
            kind, state = (("queue-overfull", "OVERFULL"), ("queue-underfull", "NORMAL"))[number % 2 - 1]
            of_queue = {"queue": "a", "state": state, "depth_messages": 900, "object_type": "Queue"}
            events.append(event(at + 2, kind, number, **of_queue))
        found.append((samples, events, [coverage(at, at + STEP)]))
    return found


def rollups_of(given: Sequence[Batch]) -> Mapping[str, list[Any]]:
    """Return the rows of all kinds from the pure functions alone."""
    rollups = BrokerRollups("local")
    found: dict[str, list[Any]] = {"minutes": [], "hours": []}
    for batch in given:
        closed = rollups.take(*batch)
        assert not closed.corrections
        found["minutes"] += closed.minutes
        found["hours"] += closed.hours
    found["minutes"] += rollups.open_minutes()
    found["hours"] += rollups.open_hours()
    return found | {"episodes": rollups.episodes(), "holds": rollups.holds()}


def opened(landing: Landing, **more: Any) -> tuple[RecordedFiles, FreshRollups]:
    files = RecordedFiles(landing, "local")
    files.restore()
    fresh = FreshRollups(files, **({"rolled_until": lambda: None, "least": 0.0, "share": 1e9} | more))
    fresh.restore()
    return files, fresh


def land(files: RecordedFiles, batch: Batch) -> None:
    for kind, rows in zip(("samples", "events", "coverage"), batch, strict=True):
        if rows:
            files.land(kind, table(kind, rows))
    files.remember()


def record(files: RecordedFiles, fresh: FreshRollups, given: Sequence[Batch]) -> None:
    """Take each batch, and land ten at once."""
    for first in range(0, len(given), 10):
        some = given[first : first + 10]
        land(files, tuple([row for batch in some for row in batch[kind]] for kind in range(3)))  # type: ignore[arg-type]
        for batch in some:
            fresh.take(*batch)


def published(files: RecordedFiles, listed: Mapping[str, Sequence[FreshFile]]) -> Mapping[str, list[Any]]:
    return {name: [row for file in found for row in as_rows(files.read(file))] for name, found in listed.items()}


def same(found: Mapping[str, list[Any]], wanted: Mapping[str, list[Any]]) -> None:
    for name, rows in wanted.items():
        assert sorted(map(str, found.get(name, []))) == sorted(map(str, as_rows(rows_of(name, rows)))), name


@pytest.mark.parametrize("restarted", [False, True])
def test_rollups_go_on_after_a_clock_that_was_ahead_by_a_year_was_set_back(landing: FullDisk, restarted: bool) -> None:
    """Otherwise nothing is published for a year, and everything that is received is buffered."""
    files, fresh = opened(landing)
    given = batches(20)
    for batch in given[:60]:
        fresh.take(*batch)
    ahead = BEGIN + 365 * 24 * HOUR
    fresh.take([], [], [coverage(ahead, ahead + STEP)])
    fresh.files()
    if restarted:
        fresh.store_state()
        files, fresh = opened(landing)
        assert fresh.covered == ahead + STEP
    for batch in given[60:]:
        fresh.take(*batch)
    assert not fresh._rollups.waiting
    same(published(files, fresh.files()), rollups_of(given[60:]))


def test_rows_whose_time_is_never_covered_are_buffered_up_to_a_limit(landing: FullDisk) -> None:
    """Such as those of a broker that sends samples, but whose queues cannot be read."""
    _, fresh = opened(landing, most_uncovered=100)
    given = batches(20)
    for samples, events, _coverage in given[:100]:
        fresh.take(samples, events, [])
        assert fresh._rollups.waiting <= 100
    for batch in given[100:]:
        fresh.take(*batch)
    assert fresh.files()["minutes"]


def test_published_rows_are_the_rollups_of_what_was_taken_in_few_files(landing: FullDisk) -> None:
    files, fresh = opened(landing)
    given = batches(95)
    for number, batch in enumerate(given):
        fresh.take(*batch)
        if number % 50 == 0:
            same(published(files, fresh.files()), rollups_of(given[: number + 1]))
    listed = fresh.files()
    same(published(files, listed), rollups_of(given))
    assert len(listed["minutes"]) <= 15
    assert len(listed["hours"]) == 3
    assert rollups_of(given)["episodes"]


@pytest.mark.domain("fresh resumed")
@pytest.mark.parametrize("lost", ["nothing", "the state", "a file of the state", "its content"])
def test_next_recorder_continues_with_what_has_landed_since_the_state(
    landing: FullDisk, lost: str, tmp_path: Path
) -> None:
    files, fresh = opened(landing)
    given = batches(25)  # 15 minutes of it in the second hour
    record(files, fresh, given[:100])
    fresh.store_state()
    files.publish({}, None, 0, fresh.files())
    record(files, fresh, given[100:])  # landed, but not in the state
    folder = tmp_path / "recorder" / "local"
    if lost == "the state":
        (folder / "state.json").unlink()
    elif lost == "a file of the state":
        (folder / json.loads((folder / "state.json").read_text())["closed"]["minutes"][0]["file"]).unlink()
    elif lost == "its content":  # by a power failure
        for each in json.loads((folder / "state.json").read_text())["closed"]["minutes"]:
            (folder / each["file"]).write_bytes(b"")
    files, fresh = opened(landing)
    found = published(files, fresh.files())
    wanted = rollups_of(given)
    if lost == "nothing":
        same(found, wanted)
    else:  # the present hour is known; not what began before it
        hour = (BEGIN // HOUR + 1) * HOUR
        for name in ("minutes", "hours"):
            rows = [(row["at"], row["name"]) for row in wanted[name] if row["at"] >= hour]
            assert sorted((row["at"], row["name"]) for row in found[name]) == sorted(rows), name


def test_rows_that_the_tables_have_are_published_for_the_grace_period(landing: FullDisk) -> None:
    now, until = 0.0, None
    _, fresh = opened(landing, rolled_until=lambda: until, steady=lambda: now)
    for batch in batches(95):
        fresh.take(*batch)
    first = BEGIN // HOUR * HOUR
    hours = [first + n * HOUR for n in range(3)]
    assert [file.first for file in fresh.files()["hours"]] == hours
    until = first + 2 * HOUR
    now += 61
    assert [file.first for file in fresh.files()["hours"]] == hours
    now += GRACE_SECONDS + 1
    listed = fresh.files()
    assert [file.first for file in listed["hours"]] == hours[2:]
    assert min(file.first for file in listed["minutes"]) == until


def test_full_disk_loses_no_rollup(landing: FullDisk) -> None:
    files, fresh = opened(landing)
    given = batches(20)
    for number, batch in enumerate(given):
        landing.full = 20 < number < 80
        try:
            fresh.take(*batch)
            fresh.files()
        except LandingError:
            assert landing.full
    same(published(files, fresh.files()), rollups_of(given))


def test_publishing_takes_a_share_of_a_processor_at_most(landing: FullDisk) -> None:
    now = 0.0
    _, fresh = opened(landing, steady=lambda: now, share=1e-9, least=1.0)
    given = batches(1)
    published_files = []
    for batch in given[:4]:
        now += 2
        fresh.take(*batch)
        published_files.append(fresh.files()["minutes"])
    # The first may take long without an effect; two of three that took longer than that share of an hour have one.
    assert published_files[0] != published_files[1]
    assert published_files[2] == published_files[3]


@pytest.mark.domain("fresh resumed")
def test_files_that_the_state_names_remain_until_the_next_state(landing: FullDisk) -> None:
    """Minutes are merged meanwhile, and the files of single minutes are no longer listed."""
    now = 0.0
    files = RecordedFiles(landing, "local", steady=lambda: now)
    files.restore()
    fresh = FreshRollups(files, rolled_until=lambda: None, least=0.0, share=1e9, steady=lambda: now)
    fresh.restore()
    given = batches(16)
    for number, batch in enumerate(given):
        now += 60
        land(files, batch)
        fresh.take(*batch)
        if number % 6 == 0 or number > 45:
            files.publish({}, None, 0, fresh.files())
        if number == 45:
            fresh.store_state()
    named = {each["file"] for each in json.loads(files.private("state.json") or b"")["closed"]["minutes"]}
    listed = {file.file for file in fresh.files()["minutes"]}
    assert len(named - listed) > 1
    files, fresh = opened(landing)
    same(published(files, fresh.files()), rollups_of(given))
    for _ in range(3):
        now += 2 * GRACE_SECONDS
        fresh.store_state()
        files.publish({}, None, 0, fresh.files())


@pytest.mark.domain("fresh resumed")
@pytest.mark.parametrize("kind", ["events", "samples"])
def test_state_is_not_continued_without_the_rows_that_landed_after_it(landing: FullDisk, kind: str) -> None:
    files, fresh = opened(landing)
    given = batches(12)
    for number, batch in enumerate(given):
        if number >= 55:
            land(files, batch)
        fresh.take(*batch)
        if number == 65:
            fresh.store_state()
    # The recorder starts again after the pipeline has processed and removed the older files.
    removed = landing.names(kind)[: -5 if kind == "samples" else -1]
    for name in removed:
        landing.remove(kind, name)
    files, fresh = opened(landing)
    hour = (BEGIN // HOUR + 1) * HOUR
    found = published(files, fresh.files())
    assert found["minutes"]
    assert min(row["at"] for row in found["minutes"]) >= hour


def test_rollups_wait_for_a_full_disk_up_to_a_limit(landing: FullDisk) -> None:
    _, fresh = opened(landing, most_waiting=40)
    landing.full = True
    given = batches(40)
    for batch in given:
        fresh.take(*batch)
        assert sum(len(rows) for _, rows in fresh._waiting) <= 40
    landing.full = False
    minutes = {row["at"] for row in published(fresh._files, fresh.files())["minutes"]}
    assert max(minutes) == BEGIN + 39 * MINUTE
    assert BEGIN not in minutes


def test_cost_of_corrections_is_in_proportion_to_their_number(landing: FullDisk) -> None:
    """After a restart of the broker, the episodes of all its queues may go on."""
    compared = 0

    class Correction(dict[str, Any]):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return super().__eq__(other)

        __hash__ = None  # type: ignore[assignment]

    _, fresh = opened(landing)
    for batch in batches(5):
        fresh.take(*batch)
    fresh.files()
    changes = {"overfull_ms": 1, "episodes": 0, "blocked_ms": 0, "blocks": 0, "watched_ms": 0}
    fresh._correct(
        [
            Correction(
                table="minutes", kind="queue", virtualhost="default", name=f"q{n}", queue=f"q{n}", at=BEGIN, **changes
            )
            for n in range(500)
        ]
    )
    assert compared == 0
    assert sum(row["overfull_ms"] == 1 for row in published(fresh._files, fresh.files())["minutes"]) == 500


def test_tables_with_rows_of_the_future_end_no_publication_of_the_present_hour(landing: FullDisk) -> None:
    now = [0.0]
    given = batches(25)
    files, fresh = opened(landing, rolled_until=lambda: BEGIN + 1000 * HOUR, steady=lambda: now[0])
    record(files, fresh, given)
    fresh.files()
    now[0] += 2 * GRACE_SECONDS
    found = published(files, fresh.files())
    present = (BEGIN + 25 * MINUTE) // HOUR * HOUR
    wanted = {row["at"] for row in rollups_of(given)["minutes"] if row["at"] >= present}
    assert {row["at"] for row in found["minutes"]} == wanted
    assert len(wanted) == 15
