"""Nothing that was known is destroyed: rows that arrive after retention neither shrink a rollup nor lower a peak."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from typing import Any

import pytest

from console.history.pipeline.maintenance import compact, retain
from console.history.storage.layout import LAYOUTS
from tests.history.rows import NOON, Story, at
from tests.history.runs import History

pytestmark = pytest.mark.timeout(900)

DAY, HOUR = 86_400, 3_600
TODAY = NOON.date() + dt.timedelta(days=1)
#: Samples before this time are deleted; the first hour after it may lack the samples that were valid in it.
CUT = dt.datetime.combine(TODAY - dt.timedelta(days=LAYOUTS["samples"].keep_days or 0), dt.time(), dt.UTC)
COMPLETE = CUT + dt.timedelta(hours=1)
ROLLUPS = ("minutes", "hours", "days")
KEY = ("broker", "virtualhost", "kind", "name", "queue", "at")
NEVER_SMALLER = (
    *("watched_ms", "known_ms", "overfull_ms", "stopped_ms", "messages_max", "bytes_max", "messages_in"),
    *("messages_out", "episodes", "blocks", "blocked_ms", "blocked_producers_max", "producers_max"),
)
Known = dict[tuple[Any, ...], dict[str, Any]]


def hour_of_samples(story: Story, day: int, queue: str = "q1", depth: int = 5) -> None:
    begin = day * DAY
    story.watch(begin, begin + HOUR)
    for minute in range(0, 60, 10):
        counts = {"enqueued_messages": minute * 7, "dequeued_messages": minute * 6}
        story.sample(begin + minute * 60, depth + minute, queue, whole=True, **counts)


def known(history: History, *names: str) -> Known:
    """Return the rows of these tables by table and key."""
    return {(name, *(row[key] for key in KEY)): row for name in names for row in history.rows(name)}


def smaller(before: Known, after: Known) -> list[Any]:
    """Return what was known before and is not known any more, or is smaller."""
    found = [key for key in before if key not in after]
    for key, row in before.items():
        for column in NEVER_SMALLER:
            if key in after and row[column] is not None:
                value = after[key][column]
                if value is None or value < row[column]:
                    found.append((key, column, row[column], value))
    return found


def test_late_rows_and_an_old_episode_that_ends_destroy_no_rollup_and_lower_no_peak(history: History) -> None:
    """An imported line of another broker, one of the same broker, and the end of an episode of 45 days: all after
    retention has deleted the samples of that time."""
    first = Story("x")
    for day in (-60, -40, -10):
        hour_of_samples(first, day)
    first.watch(-45 * DAY, -45 * DAY + 60).overfull(-45 * DAY, "q2").sample(-45 * DAY + 5, 5000, "q2", state="OVERFULL")
    history.land(first)
    history.run()
    before = known(history, *ROLLUPS)
    assert history.one("episodes", "x", queue="q2")["peak_messages"] == 5000
    paths = {name: {file.path for file in history.tables.files(name)} for name in ROLLUPS}
    retain(history.tables, TODAY)
    assert not history.rows("samples", "x", queue="q2"), "the samples are deleted"

    history.land(Story("other", source="log").watch(-60 * DAY, -60 * DAY + 1).overfull(-60 * DAY, "q9"))
    history.run()
    for name in ROLLUPS:
        now = {file.path for file in history.tables.files(name)}
        assert paths[name] <= now, "a row of one broker does not touch the files of another"
    late = Story("x", numbers_from=100).event(
        -60 * DAY + 60, "queue-overfull", virtualhost="default", queue="q1", depth_messages=3
    )
    history.land(late)
    history.run()
    assert not smaller(before, known(history, *ROLLUPS))
    history.land(
        Story("x", numbers_from=200).watch(-60, 60).underfull(0, "q2").sample(-30, 1001, "q2", state="OVERFULL")
    )
    history.run()
    assert not smaller(before, known(history, *ROLLUPS))
    episode = history.one("episodes", "x", queue="q2")
    assert (episode["end"], episode["peak_messages"]) == (at(0), 5000)
    compact(history.tables, TODAY + dt.timedelta(days=60))
    assert not smaller(before, known(history, *ROLLUPS))


SEEDS = range(5)


def random_rows(seed: int) -> Story:
    """Return two months of a broker: hours of recording with episodes, blocks and samples, and long episodes."""
    chance = random.Random(seed)
    story = Story(f"r{seed}")
    for day in sorted(chance.sample(range(-55, 0), 5)):
        begin = day * DAY + chance.randrange(20) * HOUR
        story.watch(begin, begin + HOUR)
        for queue in ("q1", "q2"):
            for _ in range(3):
                story.sample(begin + chance.randrange(HOUR), chance.randrange(30), queue, whole=chance.random() < 0.5)
            full = begin + chance.randrange(2000)
            story.overfull(full, queue, depth=chance.randrange(11, 90)).blocked(full + 1, seed, queue)
            if chance.random() < 0.7:
                end = full + chance.randrange(5, 1500)
                story.released(end, seed, queue).underfull(end, queue)
    return story


def in_batches(story: Story, seed: int) -> Iterator[Story]:
    chance = random.Random(seed)
    batches = [Story(story.broker) for _ in range(2)]
    for kind, rows in story.rows.items():
        for row in rows:
            chance.choice(batches).rows[kind].append(row)
    yield from batches


def complete_rows(history: History) -> Known:
    """Return the rollups of the time of which all samples are stored."""
    whole_days = COMPLETE.date() + dt.timedelta(days=1)
    rows = known(history, *ROLLUPS)
    return {
        key: row
        for key, row in rows.items()
        if row["at"] >= COMPLETE and (key[0] != "days" or row["at"].date() >= whole_days)
    }


def test_rollups_are_right_where_all_rows_are_stored_and_never_smaller_before(
    spark: Any, history: History, tmp_path: Any
) -> None:
    """Random histories whose rows arrive in any order, with retention between: compared with a history that had no
    retention, and for deleted samples with what was known before."""
    undisturbed = History(spark, str(tmp_path / "undisturbed"))
    stories = [random_rows(seed) for seed in SEEDS]
    undisturbed.land(*stories)
    undisturbed.run()
    for batch in zip(*(in_batches(story, seed) for seed, story in zip(SEEDS, stories, strict=True)), strict=True):
        before = (
            {key: row for key, row in known(history, *ROLLUPS).items() if row["at"] < CUT}
            if history.tables.brokers()
            else {}
        )
        peaks = {row["id"]: row["peak_messages"] for row in history.rows("episodes")} if before else {}
        history.land(*batch)
        history.run()
        after = known(history, *ROLLUPS)
        assert not smaller(before, after)
        now = {row["id"]: row["peak_messages"] for row in history.rows("episodes")}
        assert not [key for key in peaks.keys() & now.keys() if (now[key] or 0) < (peaks[key] or 0)]
        retain(history.tables, TODAY)
        assert not smaller({key: row for key, row in after.items() if row["at"] >= CUT}, known(history, *ROLLUPS))
    expected, found = complete_rows(undisturbed), complete_rows(history)
    assert len(expected) > 300
    assert found == expected
    blocks = [[row for row in each.rows("holds") if row["start"] >= COMPLETE] for each in (history, undisturbed)]
    assert blocks[0] == blocks[1]
