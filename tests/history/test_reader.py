"""The web side reads what the pipeline wrote: the same numbers, out of tables that Spark made."""

from __future__ import annotations

from typing import Any

from console.history import blocked, episode_list, incident, known
from console.history.reader import Reader
from console.history.series import QueueKey, series
from tests.history.conftest import History
from tests.history.rows import NOON, Story, land

START = round(NOON.timestamp() * 1000)
QUEUE = QueueKey("b", "default", "q")


def at(seconds: float) -> int:
    return START + round(seconds * 1000)


def told(history: History) -> Reader:
    """Three minutes: filling up, overfull from 60 to 90 s with one producer held, and empty; then nobody looks."""
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


def test_tables_of_the_pipeline_are_read_as_they_were_told(history: History) -> None:
    reader = told(history)
    now = at(600)
    [one] = known.brokers(reader)
    assert (one["broker"], one["first"], one["last"]) == ("b", START, at(180))

    raw = series(reader, QUEUE, START, at(240), now=now)
    assert raw["resolution"] == "raw"
    assert raw["unwatched"] == [(at(180), at(240))]
    depth: dict[int, Any] = dict(zip(raw["at"], raw["messages"], strict=True))
    assert depth[at(65)] == 11
    assert raw["messages"][-1] is None  # after the last look nothing is known

    minutes = series(reader, QUEUE, START, at(240), asked="minute", now=now)
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

    count, episodes = episode_list.page(reader, episode_list.Wanted(START, at(240), now, sort="start"), 1, 10)
    assert [(each["kind"], each["start"], each["duration_ms"]) for each in episodes] == [
        ("overfull", at(60), 30_000),
        ("stopped", at(100), 10_000),
    ]
    assert count == 2
    happened = incident.page(reader, incident.Wanted(START, at(240), "b", "default", "q"), 1, 10)
    assert [event["kind"] for event in happened["events"]] == [
        "queue-overfull",
        "producer-blocked",
        "producer-released",
        "queue-underfull",
        "producers-stopped",
        "producers-started",
    ]


def test_new_rows_are_seen_by_a_reader_that_has_the_tables_open(history: History) -> None:
    reader = told(history)
    assert episode_list.page(reader, episode_list.Wanted(START, at(900), at(900)), 1, 10)[0] == 2
    land(history.url, Story("b").watch(200, 400).overfull(300).underfull(310).rows)
    history.run()
    for table in reader._tables.values():
        table._looked = float("-inf")  # a list of files is believed for a second
    assert episode_list.page(reader, episode_list.Wanted(START, at(900), at(900)), 1, 10)[0] == 3
