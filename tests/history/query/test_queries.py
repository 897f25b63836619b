"""Queries over tables that Spark has written return the figures that the pipeline has computed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from console.history.query import blocked, catalog, episode_list, incident
from console.history.query.series import series
from console.history.storage.layout import table_url
from console.history.storage.queue_key import QueueKey
from console.history.storage.reader import HistoryBroken, Reader, moment
from console.history.storage.tables import landing_schema
from tests.history.conftest import History
from tests.history.delta import DAY, episode, rollup, write
from tests.history.rows import NOON, Story, land, table

START = round(NOON.timestamp() * 1000)
QUEUE = QueueKey("b", "default", "q")


@pytest.fixture(params=["", "file://"], ids=["folder", "url"])
def opened(request: pytest.FixtureRequest) -> Callable[[str], Reader]:
    """Return a reader of a folder, given by path or by URL; for a URL, as of an object store, pyarrow reads the
    files."""
    return lambda folder: Reader(f"{request.param}{folder}")


def at(seconds: float) -> int:
    return START + round(seconds * 1000)


def processed(history: History) -> Reader:
    """Three recorded minutes: filling up, overfull from 60 to 90 s with one blocked producer, empty."""
    story = Story().watch(0, 180)
    for second in range(0, 180, 5):
        overfull = 60 <= second < 90
        story.sample(
            second,
            11 if overfull else second // 10,
            state="OVERFULL" if overfull else "NORMAL",
            whole=second == 0,
            capacity_messages=10,
            stop_messages=10,
            resume_messages=8,
            enqueued_messages=second * 2,
            dequeued_messages=second,
        )
    story.overfull(60).blocked(60.5).released(89.5).underfull(90)
    story.event(100, "producers-stopped", scope="virtualhost default q", actor="ada", reason="maintenance", producers=1)
    story.event(110, "producers-started", scope="virtualhost default q", actor="ada")
    land(history.url, story.rows)
    history.run()
    return Reader(history.url)


@pytest.mark.timeout(600)  # it may have to start Spark
def test_queries_return_the_figures_of_the_pipeline(history: History) -> None:
    reader = processed(history)
    now = at(600)
    [one] = catalog.brokers(reader)
    assert (one["broker"], one["first"], one["last"]) == ("b", START, at(180))

    raw = series(reader, QUEUE, START, at(240), now=now)
    assert raw["resolution"] == "raw"
    assert raw["unwatched"] == [(at(180), at(240))]
    depth: dict[int, Any] = dict(zip(raw["at"], raw["messages"], strict=True))
    assert depth[at(65)] == 11
    assert raw["messages"][-1] is None  # unknown after the end of the recording

    minutes = series(reader, QUEUE, START, at(240), resolution="minute", now=now)
    assert minutes["at"] == [at(0), at(60), at(120), at(180)]
    assert minutes["overfull_ms"][:3] == [0, 30_000, 0]
    assert minutes["messages"][3] is None
    assert minutes["capacity_messages"][:3] == [10, 10, 10]

    top = blocked.top(reader, "queues", START, at(240), now=now)
    assert [(row["name"], row["overfull_ms"], row["blocked_ms"]) for row in top["rows"]] == [("q", 30_000, 29_000)]
    [producer] = blocked.top(reader, "producers", START, at(240), now=now)["rows"]
    assert (producer["queues"], producer["blocked_ms"]) == ("q", 29_000)
    heat = blocked.heat(reader, START, at(240), now=now)
    assert heat["values"] == [[0, 29_000, 0, None]]

    count, episodes = episode_list.page(reader, episode_list.EpisodeQuery(START, at(240), now, sort="start"), 1, 10)
    assert [(each["kind"], each["start"], each["duration_ms"]) for each in episodes] == [
        ("overfull", at(60), 30_000),
        ("stopped", at(100), 10_000),
    ]
    assert count == 2
    happened = incident.page(reader, incident.EventQuery(START, at(240), "b", "default", "q"), 1, 10)
    assert [event["kind"] for event in happened["events"]] == [
        "queue-overfull",
        "producer-blocked",
        "producer-released",
        "queue-underfull",
        "producers-stopped",
        "producers-started",
    ]


def test_reader_of_an_open_table_returns_new_rows(
    tmp_path: Path, opened: Callable[[str], Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.history.storage.table_versions.FRESH_SECONDS", 0)
    url = str(tmp_path)
    reader = opened(url)
    assert not reader.is_stored("episodes")
    for number in (1, 2):
        write(url, "episodes", [episode(at(number), at(number + 1))])
        assert episode_list.page(reader, episode_list.EpisodeQuery(START, at(60), at(60)), 1, 10)[0] == number


@pytest.mark.parametrize("remaining", [(), (3,)], ids=["no file is left", "some files are left"])
def test_reader_refreshes_the_files_if_one_was_removed(
    remaining: tuple[int, ...], tmp_path: Path, opened: Callable[[str], Reader]
) -> None:
    url = str(tmp_path)
    for second in (3, 1, 2):
        write(url, "episodes", [episode(at(second), at(second + 1))])
    wanted = episode_list.EpisodeQuery(START, at(60), at(60))
    reader = opened(url)
    assert episode_list.page(reader, wanted, 1, 10)[0] == 3
    table = DeltaTable(table_url(url, "episodes"))
    table.delete("duration_ms > 0" if not remaining else f"start <> '{moment(at(remaining[0])).isoformat()}'")
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert episode_list.page(reader, wanted, 1, 10)[0] == len(remaining)


def test_only_files_of_the_requested_days_are_opened(tmp_path: Path, opened: Callable[[str], Reader]) -> None:
    url = str(tmp_path)
    for day in range(3):
        write(url, "minutes", [rollup(START + day * DAY, messages_mean=float(day))])
    spoiled = [path for path in (tmp_path / "tables" / "minutes").rglob("*.parquet") if "2026-03-14" not in str(path)]
    assert len(spoiled) == 2
    for path in spoiled:
        path.write_bytes(b"broken")
    reader = opened(url)
    found = series(reader, QueueKey("local", "default", "orders"), START, at(120), resolution="minute", now=at(600))
    assert found["messages"] == [0.0, None]
    with pytest.raises(HistoryBroken, match="cannot be read"):
        reader.rows("SELECT count(*) AS n FROM {minutes}")


def test_rows_for_an_export_are_returned_in_batches(tmp_path: Path, opened: Callable[[str], Reader]) -> None:
    write(str(tmp_path), "episodes", [episode(at(n), at(n + 1)) for n in range(50)])
    parts = opened(str(tmp_path)).batches("SELECT * FROM {episodes} ORDER BY start", rows=20)
    assert parts.read_all()["start"].to_pylist() == [moment(at(n)) for n in range(50)]


@pytest.mark.timeout(600)
def test_files_written_by_spark_have_the_bounds_for_their_selection(history: History) -> None:
    for broker in ("a", "z"):
        story = Story(broker).watch(0, 60).sample(0, 1).sample(30, 2)
        rows = history.tables.spark.createDataFrame(table("samples", story.rows["samples"]), landing_schema("samples"))
        history.tables.append("samples", rows, expected=2)
    paths = sorted(Path(table_url(history.url, "samples")).rglob("*.parquet"))
    assert len(paths) == 2
    for path in paths:
        footer = pq.read_metadata(path)
        moment = footer.row_group(0).column(footer.schema.names.index("at"))
        assert (moment.physical_type, moment.statistics.has_min_max) == ("INT64", True)
        assert (moment.statistics.min, moment.statistics.max) == (NOON, NOON + dt.timedelta(seconds=30))
    files = history.tables.files("samples")
    assert {file.bounds["broker"][:2] for file in files} == {("a", "a"), ("z", "z")}
    assert all(file.bounds["at"][:2] == (NOON, NOON + dt.timedelta(seconds=30)) for file in files)
    for path in paths:
        if pq.read_table(path)["broker"][0].as_py() == "z":
            path.write_bytes(b"broken")
    reader = Reader(history.url)
    assert reader.rows("SELECT count(*) AS n FROM {samples}", where={"broker": "a"}) == [{"n": 2}]
    with pytest.raises(HistoryBroken):
        reader.rows("SELECT count(*) AS n FROM {samples}")


def test_threads_query_concurrently(tmp_path: Path, opened: Callable[[str], Reader]) -> None:
    url = str(tmp_path)
    write(url, "episodes", [episode(at(n), at(n + 1)) for n in range(50)])
    reader = opened(url)
    wanted = episode_list.EpisodeQuery(START, at(600), at(600))
    with ThreadPoolExecutor(8) as threads:
        counts = list(threads.map(lambda _: episode_list.page(reader, wanted, 1, 10)[0], range(64)))
    assert counts == [50] * 64


def test_lists_of_a_month_whose_hours_are_deleted_are_those_of_its_days(tmp_path: Path) -> None:
    url, now = str(tmp_path), 2000 * DAY
    begin, end = now - 1150 * DAY, now - 1120 * DAY
    write(url, "days", [rollup(begin + DAY, blocked_ms=5000)])
    reader = Reader(url)
    assert [row["blocked_ms"] for row in blocked.top(reader, "queues", begin, end, now=now)["rows"]] == [5000]
    assert [queue["total_ms"] for queue in blocked.heat(reader, begin, end, now=now)["queues"]] == [5000]
