"""Queries combine the tables up to T with what the recorders publish, without Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from console.history.query import blocked, catalog, episode_list
from console.history.query.series import series
from console.history.query.visibility import as_visible
from console.history.record.recorded_files import RecordedFiles
from console.history.storage.event_rows import table
from console.history.storage.fresh_rows import rows_of
from console.history.storage.landing import Landing
from console.history.storage.landing_names import landed_id, rolled_id
from console.history.storage.queue_key import QueueKey
from console.history.storage.reader import HistoryBroken, NothingRecorded, Reader
from console.permissions.rights import Grant, Rights, Role
from tests.history.delta import DAY, HOUR, MINUTE, coverage, episode, event, rollup, sample, write

T = 1_773_500_400_000 // HOUR * HOUR
QUEUE = QueueKey("local", "default", "orders")


@pytest.fixture(autouse=True)
def _always_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.history.storage.table_versions.FRESH_SECONDS", 0)


@pytest.fixture(params=["", "file://"], ids=["folder", "url"])
def opened(request: pytest.FixtureRequest) -> Callable[[object], Reader]:
    return lambda folder: Reader(f"{request.param}{folder}")


class Recording:
    """A recorder's files, written by hand."""

    def __init__(self, url: object, broker: str = "local") -> None:
        self.files = RecordedFiles(Landing(str(url)), broker)
        self.files.restore()
        self.broker = broker

    def publish(self, rollups: Mapping[str, Sequence[Mapping[str, Any]]] | None = None, **tails: Any) -> None:
        fresh = {kind: [self.files.store(kind, rows_of(kind, rows))] for kind, rows in (rollups or {}).items() if rows}
        self.files.publish({kind: self.table(kind, rows) for kind, rows in tails.items()}, None, T, fresh)

    def land(self, kind: str, rows: Sequence[Mapping[str, Any]]) -> int:
        self.files.land(kind, self.table(kind, rows))
        return self.files.last_sequence(kind)

    def table(self, kind: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        return table(kind, [{**row, "broker": self.broker} for row in rows])


def test_recorder_that_has_published_nothing_but_its_start_is_known_to_record(tmp_path: Path, opened: Any) -> None:
    assert not opened(tmp_path).is_published()
    Recording(tmp_path).publish(samples=[sample(T + 1000, 5)])
    assert opened(tmp_path).is_published()


def ats(reader: Reader, name: str, **given: Any) -> list[int]:
    return [row["t"] for row in reader.rows(f'SELECT epoch_ms("at") AS t FROM {{{name}}} ORDER BY t', **given)]


@pytest.mark.domain("fresh alone")
def test_history_without_a_table_is_read_from_the_recorder_alone(tmp_path: Path, opened: Any) -> None:
    with pytest.raises(NothingRecorded):
        catalog.brokers(opened(tmp_path))
    recording = Recording(tmp_path)
    recording.land("samples", [sample(T + 1000, 5)])
    recording.publish(
        {
            "minutes": [rollup(T, messages_mean=5.0, overfull_ms=900)],
            "hours": [rollup(T, messages_mean=5.0, messages_p95=6.0, overfull_ms=900)],
            "episodes": [episode(T + 1000, None)],
        },
        samples=[sample(T + 2000, 6)],
        coverage=[coverage(T, T + 3000)],
        events=[event(T + 1000, "queue-overfull", 1, queue="orders", state="OVERFULL", depth_messages=9)],
    )
    reader = opened(tmp_path)
    [broker] = catalog.brokers(reader)
    assert (broker["broker"], broker["first"], broker["last"]) == ("local", T, T + 3000)
    raw = series(reader, QUEUE, T, T + 5000, now=T + 4000)
    assert dict(zip(raw["at"], raw["messages"], strict=True)).items() >= {T + 2000: 6}.items()
    assert 9 in raw["messages"]
    for resolution in ("minute", "hour", "day"):
        rolled = series(reader, QUEUE, T, T + MINUTE, resolution=resolution, now=T + 4000)
        assert rolled["overfull_ms"] == [900], resolution
    assert blocked.top(reader, "queues", T, T + HOUR, now=T + 4000, measure="overfull")["rows"][0]["overfull_ms"] == 900
    count, _ = episode_list.page(reader, episode_list.EpisodeQuery(T, T + HOUR, T + 5000), 1, 10)
    assert count == 1
    [queue] = catalog.queues(reader)
    assert queue["name"] == "orders"


def test_rollups_come_from_the_table_before_its_time_and_from_the_recorder_after_it(
    tmp_path: Path, opened: Any
) -> None:
    write(str(tmp_path), "minutes", [rollup(T - MINUTE, known_ms=1)], {rolled_id("local"): T})
    recording = Recording(tmp_path)
    recording.publish(
        {"minutes": [rollup(T - MINUTE, known_ms=2), rollup(T, known_ms=2), rollup(T + MINUTE, known_ms=2)]}
    )
    reader = opened(tmp_path)

    def found() -> list[tuple[int, int]]:
        rows = reader.rows('SELECT epoch_ms("at") AS t, known_ms AS k FROM {minutes} ORDER BY t', begin=T - HOUR)
        return [(row["t"] - T, row["k"]) for row in rows]

    assert found() == [(-MINUTE, 1), (0, 2), (MINUTE, 2)]
    write(str(tmp_path), "minutes", [rollup(T, known_ms=1)], {rolled_id("local"): T + MINUTE})
    assert found() == [(-MINUTE, 1), (0, 1), (MINUTE, 2)]
    assert ats(reader, "minutes", begin=T + DAY) == []
    assert ats(reader, "minutes", where={"broker": "other"}, end=T - DAY) == []


def test_rows_with_a_future_time_in_the_tables_do_not_hide_what_the_recorder_has(tmp_path: Path, opened: Any) -> None:
    """Recorded while the clock was ahead, or imported with a wrong time zone: the tables state rollups up to then."""
    url, later = str(tmp_path), T + 30 * DAY
    for name, step in (("minutes", MINUTE), ("hours", HOUR)):
        stored = [rollup(T - step, known_ms=1), rollup(T, known_ms=1), rollup(later, known_ms=1)]
        write(url, name, stored, {rolled_id("local"): later + HOUR, rolled_id("other"): T})
        other = [rollup(T - step, known_ms=3, broker="other")]
        write(url, name, other)
    of_local = {
        name: [rollup(T, known_ms=2), rollup(T + step, known_ms=2)]
        for name, step in (("minutes", MINUTE), ("hours", HOUR))
    }
    Recording(tmp_path).publish(of_local)
    fresh = [rollup(T - MINUTE, known_ms=4, broker="other"), rollup(T, known_ms=4, broker="other")]
    Recording(tmp_path, "other").publish({"minutes": fresh})
    reader = opened(tmp_path)

    def found(name: str, broker: str) -> list[tuple[int, int]]:
        rows = reader.rows(
            f'SELECT epoch_ms("at") AS t, known_ms AS k FROM {{{name}}} WHERE broker = $broker ORDER BY t',
            {"broker": broker},
            begin=T - DAY,
        )
        return [(row["t"] - T, row["k"]) for row in rows]

    assert found("minutes", "local") == [(-MINUTE, 1), (0, 1), (MINUTE, 2), (30 * DAY, 1)]
    assert found("hours", "local") == [(-HOUR, 1), (0, 1), (HOUR, 2), (30 * DAY, 1)]
    assert found("minutes", "other") == [(-MINUTE, 3), (0, 4)]


def test_table_that_does_not_state_its_time_is_complete_up_to_its_newest_row(tmp_path: Path, opened: Any) -> None:
    url = str(tmp_path)
    write(url, "minutes", [rollup(T - MINUTE), rollup(T), rollup(T + HOUR, broker="other")])
    write(url, "samples", [sample(T + 1000, 1)])
    recording = Recording(tmp_path)
    recording.land("samples", [sample(T + 1000, 1), sample(T + 2000, 2)])
    recording.publish({"minutes": [rollup(T), rollup(T + MINUTE)]})
    reader = opened(tmp_path)
    assert ats(reader, "minutes", where={"broker": "local"}) == [T - MINUTE, T, T + MINUTE]
    assert ats(reader, "samples") == [T + 1000, T + 2000]


def test_raw_rows_are_in_the_table_or_in_a_landing_file_or_in_the_tail(tmp_path: Path, opened: Any) -> None:
    url = str(tmp_path)
    recording = Recording(tmp_path)
    reader = opened(tmp_path)
    recording.publish(samples=[sample(T, 1)])
    assert ats(reader, "samples") == [T]
    first = recording.land("samples", [sample(T, 1)])  # the tail is still published
    assert ats(reader, "samples") == [T]
    recording.publish(samples=[sample(T + 1000, 2)])
    assert ats(reader, "samples") == [T, T + 1000]
    write(url, "samples", [sample(T, 1)], {landed_id("samples", "local"): first})
    assert ats(reader, "samples") == [T, T + 1000]
    second = recording.land("samples", [sample(T + 1000, 2)])
    assert second > first
    write(url, "samples", [sample(T + 1000, 2)], {landed_id("samples", "local"): second})
    assert ats(reader, "samples") == [T, T + 1000]
    recording.publish(samples=[sample(T + 2000, 3), sample(T + 2000, 3)])
    assert ats(reader, "samples") == [T, T + 1000, T + 2000]
    assert ats(reader, "samples", begin=T + DAY) == []


def test_brokers_are_combined_each_with_its_own_time(tmp_path: Path, opened: Any) -> None:
    url = str(tmp_path)
    write(url, "hours", [rollup(T - HOUR)], {rolled_id("local"): T})
    write(url, "hours", [rollup(T - 2 * HOUR, broker="it's")], {rolled_id("it's"): T - HOUR})
    for broker in ("local", "it's"):
        Recording(tmp_path, broker).publish({"hours": [rollup(T - HOUR, broker=broker), rollup(T, broker=broker)]})
    rows = opened(tmp_path).rows('SELECT broker, epoch_ms("at") AS t FROM {hours} ORDER BY broker, t')
    assert [(row["broker"], (row["t"] - T) // HOUR) for row in rows] == [
        ("it's", -2),
        ("it's", -1),
        ("it's", 0),
        ("local", -1),
        ("local", 0),
    ]


def test_todays_row_is_the_tables_combined_with_the_hours_since(tmp_path: Path, opened: Any) -> None:
    today = T // DAY * DAY
    since = today + 10 * HOUR
    stored = rollup(
        today,
        known_ms=3000,
        watched_ms=4000,
        messages_mean=10.0,
        messages_p95=17.0,
        messages_max=30,
        messages_in=300,
        capacity_messages=100,
        episodes=1,
    )
    fresh = [
        rollup(
            since + n * HOUR,
            known_ms=1000,
            watched_ms=1000,
            messages_mean=20.0 + n,
            messages_p95=99.0,
            messages_max=40 - n,
            messages_in=50,
            capacity_messages=200 + n,
            episodes=2,
        )
        for n in range(2)
    ]
    only_fresh = rollup(since, "new", messages_mean=1.0, messages_p95=2.0)
    write(str(tmp_path), "days", [rollup(today - DAY, known_ms=7), stored], {rolled_id("local"): since})
    before = rollup(since - HOUR, known_ms=500)  # in the table's row already
    Recording(tmp_path).publish({"hours": [before, *fresh, only_fresh]})
    rows = opened(tmp_path).rows('SELECT *, epoch_ms("at") AS t FROM {days} ORDER BY t, name')
    assert [(row["t"], row["name"]) for row in rows] == [(today - DAY, "orders"), (today, "new"), (today, "orders")]
    assert rows[0]["known_ms"] == 7
    mine = rows[2]
    assert (mine["known_ms"], mine["watched_ms"], mine["messages_in"], mine["episodes"]) == (5000, 6000, 400, 5)
    assert (mine["messages_max"], mine["messages_p95"], mine["capacity_messages"]) == (40, 17.0, 201)
    assert mine["messages_mean"] == pytest.approx((10 * 3 + 20 + 21) / 5)
    assert mine["rate_in"] == pytest.approx(400 / 5)
    assert (rows[1]["messages_mean"], rows[1]["messages_p95"], rows[1]["queue"]) == (1.0, 2.0, "new")


def test_recorders_episodes_and_blocks_replace_the_tables_and_peaks_never_fall(tmp_path: Path, opened: Any) -> None:
    url = str(tmp_path)
    hold = {"broker": "local", "virtualhost": None, "queue": "q", "producer": "p", "start": T}
    write(url, "episodes", [episode(T - HOUR, T - MINUTE), episode(T, None, peak_messages=5000)])
    write(url, "holds", [hold, {**hold, "producer": "other"}])
    ended = episode(T, T + 9000, peak_messages=100, peak_bytes=None)
    Recording(tmp_path).publish(
        {"episodes": [ended, episode(T + MINUTE, None)], "holds": [{**hold, "end": T + 5000, "ended_by": "seen"}]}
    )
    reader = opened(tmp_path)
    rows = reader.rows('SELECT *, epoch_ms("end") AS e FROM {episodes} ORDER BY start')
    assert [row["e"] for row in rows] == [T - MINUTE, T + 9000, None]
    assert (rows[1]["peak_messages"], rows[1]["peak_bytes"]) == (5000, 512_512)
    holds = reader.rows("SELECT producer, ended_by FROM {holds} ORDER BY producer")
    assert holds == [{"producer": "other", "ended_by": None}, {"producer": "p", "ended_by": "seen"}]


@pytest.mark.domain("fresh visibility")
def test_fresh_rows_are_visible_to_those_with_permission_only(tmp_path: Path, opened: Any) -> None:
    for broker in ("local", "other"):
        recording = Recording(tmp_path, broker)
        rows = [rollup(T, name, broker=broker, virtualhost=host) for name, host in (("a", "vh"), ("b", "secret"))]
        recording.land("samples", [sample(T, 1, "a", virtualhost="vh"), sample(T, 1, "b", virtualhost="secret")])
        recording.publish(
            {
                "minutes": rows,
                "hours": rows,
                "episodes": [episode(T, None, "b", broker=broker, virtualhost="secret")],
                "holds": [{"broker": broker, "virtualhost": "secret", "queue": "b", "producer": "p", "start": T}],
            },
            samples=[sample(T + 1, 1, "a", virtualhost="vh"), sample(T + 1, 1, "b", virtualhost="secret")],
            events=[event(T, "queue-overfull", 1, queue="b", virtualhost="secret", object_type="Queue")],
            coverage=[coverage(T, T + 5)],
        )
    reader = as_visible(opened(tmp_path), Rights((Grant(Role.VIEWER, broker="local", virtualhost="vh"),)))
    for name in ("minutes", "hours", "days", "samples"):
        found = reader.rows(f"SELECT DISTINCT broker, virtualhost FROM {{{name}}}")
        assert found == [{"broker": "local", "virtualhost": "vh"}], name
    for name in ("episodes", "holds", "events"):
        assert reader.rows(f"SELECT * FROM {{{name}}}") == [], name
    assert {row["broker"] for row in reader.rows("SELECT * FROM {coverage}")} == {"local"}


def test_damaged_catalog_is_an_error_message(tmp_path: Path, opened: Any) -> None:
    Recording(tmp_path).publish()
    (tmp_path / "recorder" / "local" / "published.json").write_text('{"format": 99}')
    with pytest.raises(HistoryBroken, match="format is 99"):
        opened(tmp_path).rows("SELECT * FROM {minutes}")


@pytest.mark.parametrize("content", [b"", b"\0" * 40, b'{"format": 1, "bro'])
def test_catalog_lost_by_a_power_failure_leaves_the_tables_and_the_other_brokers(
    tmp_path: Path, opened: Any, content: bytes
) -> None:
    write(str(tmp_path), "minutes", [rollup(T - MINUTE)], {rolled_id("local"): T})
    Recording(tmp_path).publish({"minutes": [rollup(T)]})
    Recording(tmp_path, "other").publish({"minutes": [rollup(T, broker="other")]})
    (tmp_path / "recorder" / "local" / "published.json").write_bytes(content)
    assert ats(opened(tmp_path), "minutes") == [T - MINUTE, T]


def _steps(url: str) -> Iterator[None]:
    """The steps of a recorder, and of a pipeline that takes what has landed after every third file."""
    recording = Recording(url)
    samples: list[Any] = []
    landed: list[Any] = []
    rolled = number = 0

    def publish() -> None:
        minutes = [rollup(T + n * MINUTE) for n in range(max(0, number - 30), number)]
        recording.publish({"minutes": minutes}, samples=samples)

    for round_ in range(12):
        for _ in range(2):
            number += 1
            samples.append(sample(T + number, number))
            publish()
            yield
        sequence = recording.land("samples", samples)
        landed, samples = landed + samples, []
        yield
        publish()
        yield
        if round_ % 3 == 2:
            write(url, "samples", landed, {landed_id("samples", "local"): sequence})
            landed = []
            yield
            minutes = [rollup(T + n * MINUTE) for n in range(rolled, number - 2)]
            rolled = number - 2
            write(url, "minutes", minutes, {rolled_id("local"): T + rolled * MINUTE})
            yield


@pytest.mark.domain("fresh once")
def test_queries_see_each_row_once_while_the_recorder_lands_and_the_pipeline_commits(tmp_path: Path) -> None:
    reader = Reader(str(tmp_path))
    ended = threading.Event()
    trouble: list[BaseException] = []
    counts: list[int] = []

    def work() -> None:
        try:
            for _ in _steps(str(tmp_path)):
                pass
        except BaseException as error:  # raised in the test's own thread
            trouble.append(error)
        finally:
            ended.set()

    working = threading.Thread(target=work)
    working.start()
    is_last = False
    while not is_last:
        is_last = ended.is_set()
        try:
            samples, minutes = ats(reader, "samples"), ats(reader, "minutes")
        except NothingRecorded:
            continue
        assert samples == [T + n + 1 for n in range(len(samples))]
        assert minutes == [T + n * MINUTE for n in range(len(minutes))]
        counts.append(len(samples))
    working.join()
    assert not trouble, trouble
    assert counts[-1] == 24
    assert counts == sorted(counts)
