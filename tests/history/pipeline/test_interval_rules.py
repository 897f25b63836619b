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


@pytest.fixture
def rows_of(spark: Any) -> Any:
    def found(story: Story) -> Mapping[str, list[Row]]:
        frames = {kind: spark.createDataFrame(table(kind, story.rows[kind])) for kind in ("events", "samples")}
        steps = {"episodes": overfull, "holds": blocks}
        return {
            name: [
                row.asDict()
                for row in step(
                    frames["events"], frames["samples"].where("whole"), spark.createDataFrame([], schema(name))
                )
                .orderBy("start")
                .toLocalIterator()
            ]
            for name, step in steps.items()
        }

    return found


def test_queue_that_is_seen_overfull_after_a_restart_begins_an_episode(rows_of: Any) -> None:
    story = Story().sample(5, 2, whole=True).event(10, "broker-ready").sample(20, 30, whole=True, state="OVERFULL")
    (episode,) = rows_of(story)["episodes"]
    assert (_seconds(episode, "start"), episode["end"], episode["settled"]) == (20, None, True)


def test_episode_that_the_creation_of_its_queue_ends_is_settled(rows_of: Any) -> None:
    story = Story().overfull(5).event(10, "queue-created", virtualhost="default", queue="q")
    (episode,) = rows_of(story)["episodes"]
    assert (episode["released_by"], episode["settled"]) == ("restart", True)


def test_episode_that_a_restart_ends_is_settled_by_later_evidence(rows_of: Any) -> None:
    (episode,) = rows_of(Story().overfull(5).event(10, "broker-ready"))["episodes"]
    assert (episode["released_by"], episode["settled"]) == ("restart", False)
    (episode,) = rows_of(Story().overfull(5).event(10, "broker-ready").sample(20, 2, whole=True))["episodes"]
    assert (episode["released_by"], episode["settled"]) == ("restart", True)


def test_episode_does_not_end_before_the_evidence_of_it(spark: Any) -> None:
    """It was seen in time that was not recorded, and began in time that was."""
    story = Story().watch(0, 20).sample(30, 30, whole=True, state="OVERFULL", overfull_since=at(10))
    story.event(40, "broker-ready")
    frames = {kind: spark.createDataFrame(table(kind, rows)) for kind, rows in story.rows.items()}
    found = overfull(frames["events"], frames["samples"], spark.createDataFrame([], schema("episodes")))
    (episode,) = known_until(found, spans(frames["coverage"])).collect()
    assert (_seconds(episode, "start"), _seconds(episode, "end")) == (10, 40)


def test_episodes_and_blocks_that_begin_twice_within_a_ms_have_one_row(rows_of: Any) -> None:
    story = Story()
    for end in (5, 9):
        story.overfull(5).blocked(5).released(end).underfull(end)
    found = rows_of(story)
    for name in ("episodes", "holds"):
        assert [(_seconds(row, "start"), _seconds(row, "end")) for row in found[name]] == [(5, 9)], name


def _seconds(row: Row, name: str) -> float:
    return float((row[name] - at(0).replace(tzinfo=None)).total_seconds())
