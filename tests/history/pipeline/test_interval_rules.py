"""Rules of episodes and blocks that few rows show: restarts, and several that begin within a ms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from console.history.pipeline.blocks import blocks
from console.history.pipeline.episodes import known_until, overfull
from console.history.pipeline.spans import spans
from console.history.storage.tables import schema
from tests.history.rows import Story, at, table

Row = dict[str, Any]


def _twice() -> Story:
    story = Story("twice")
    for end in (5, 9):
        story.overfull(5).blocked(5).released(end).underfull(end)
    return story


STORIES = (
    Story("seen later").sample(5, 2, whole=True).event(10, "broker-ready").sample(20, 30, whole=True, state="OVERFULL"),
    Story("created").overfull(5).event(10, "queue-created", virtualhost="default", queue="q"),
    Story("restarted").overfull(5).event(10, "broker-ready"),
    Story("settled").overfull(5).event(10, "broker-ready").sample(20, 2, whole=True),
    # Seen in time that was not recorded; it began in time that was.
    Story("seen in a gap")
    .watch(0, 20)
    .sample(30, 30, whole=True, state="OVERFULL", overfull_since=at(10))
    .event(40, "broker-ready"),
    _twice(),
)


@pytest.fixture(scope="module")
def found(quick_spark: Any) -> Mapping[str, list[Row]]:
    """Return the episodes and blocks of all stories."""
    frames = {
        kind: quick_spark.createDataFrame(table(kind, [row for story in STORIES for row in story.rows[kind]]))
        for kind in ("events", "samples", "coverage")
    }
    both = frames["events"], frames["samples"].where("whole")
    carried = {name: quick_spark.createDataFrame([], schema(name)) for name in ("episodes", "holds")}
    episodes = known_until(overfull(*both, carried["episodes"]), spans(frames["coverage"]))
    rows = {"episodes": episodes, "holds": blocks(*both, carried["holds"])}
    return {name: [row.asDict() for row in frame.orderBy("start").collect()] for name, frame in rows.items()}


def _one(found: Mapping[str, list[Row]], broker: str, table: str = "episodes") -> Row:
    (row,) = [row for row in found[table] if row["broker"] == broker]
    return row


def test_queue_that_is_seen_overfull_after_a_restart_begins_an_episode(found: Any) -> None:
    episode = _one(found, "seen later")
    assert (_seconds(episode, "start"), episode["end"], episode["settled"]) == (20, None, True)


def test_episode_that_the_creation_of_its_queue_ends_is_settled(found: Any) -> None:
    episode = _one(found, "created")
    assert (episode["released_by"], episode["settled"]) == ("restart", True)


def test_episode_that_a_restart_ends_is_settled_by_later_evidence(found: Any) -> None:
    for broker, settled in (("restarted", False), ("settled", True)):
        episode = _one(found, broker)
        assert (episode["released_by"], episode["settled"]) == ("restart", settled)


def test_episode_does_not_end_before_the_evidence_of_it(found: Any) -> None:
    episode = _one(found, "seen in a gap")
    # Of the time until the restart, at 40, nothing is known.
    assert (_seconds(episode, "start"), _seconds(episode, "end")) == (10, 30)


def test_episodes_and_blocks_that_begin_twice_within_a_ms_have_one_row(found: Any) -> None:
    for name in ("episodes", "holds"):
        row = _one(found, "twice", name)
        assert (_seconds(row, "start"), _seconds(row, "end")) == (5, 9), name


def _seconds(row: Row, name: str) -> float:
    return float((row[name] - at(0).replace(tzinfo=None)).total_seconds())
