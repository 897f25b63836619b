"""The generated history: plausible, reproducible by its seed, and consistent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from console.history.generate.generator import AlreadyMade, Plan, interrupted, make_history
from console.history.storage.landing import KEYS, Landing
from tests.history.sampled import recommendation_of
from tests.up.running import ROOT

UNTIL = datetime(2026, 11, 18, 15, 0, tzinfo=UTC)
PLAN = Plan(queues=40, days=12, seed=5, until=UNTIL, fine_days=3)


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> Landing:
    made = Landing(str(tmp_path_factory.mktemp("made")))
    make_history(made, PLAN)
    return made


def rows(landing: Landing, kind: str) -> list[dict[str, Any]]:
    return list(landing.read_all(kind).to_pylist())


def test_episodes_start_above_the_stop_level_and_end_at_the_resume_level(landing: Landing) -> None:
    open_since: dict[str, datetime] = {}
    episodes = 0
    for row in rows(landing, "events"):
        if row["kind"] == "queue-overfull":
            assert row["queue"] not in open_since
            open_since[row["queue"]] = row["at"]
            assert (row["stop_bytes"] or row["stop_messages"]) > 0
            if row["stop_messages"]:
                assert row["depth_messages"] > row["stop_messages"]
        elif row["kind"] == "queue-underfull":
            lasted = row["at"] - open_since.pop(row["queue"])
            assert round(lasted.total_seconds() * 1000) == row["lasted_ms"]
            if row["resume_messages"]:
                assert row["depth_messages"] <= row["resume_messages"] + 1
            episodes += 1
    assert episodes > 50


def test_events_are_in_order_without_duplicate_rows(landing: Landing) -> None:
    events = rows(landing, "events")
    assert [row["number"] for row in events] == list(range(1, len(events) + 1))
    assert [row["at"] for row in events] == sorted(row["at"] for row in events)
    assert {row["kind"] for row in events} >= {"producer-blocked", "producer-released"}
    for kind, key in KEYS.items():
        found = [tuple(row[column] for column in key) for row in rows(landing, kind)]
        assert len(set(found)) == len(found), kind
    assert max(row["at"] for row in rows(landing, "samples")) <= UNTIL


def test_counters_account_for_the_depth_of_each_queue(landing: Landing) -> None:
    """The depth is the difference of the counters, except for messages in transit."""
    last = {}
    for row in rows(landing, "samples"):
        before = last.get(row["queue"])
        if before:
            assert row["enqueued_messages"] >= before["enqueued_messages"]
            assert row["dequeued_messages"] >= before["dequeued_messages"]
        last[row["queue"]] = row
        if row["state"] in ("OVERFULL", "STOPPED"):
            assert row["blocked_producers"] == row["producers"]
    assert len(last) == PLAN.queues


def test_samples_have_a_finer_resolution_in_the_last_days_and_only_in_recorded_time(landing: Landing) -> None:
    every = rows(landing, "samples")
    samples = [row for row in every if row["queue"] == every[0]["queue"]]
    by_day: dict[Any, int] = defaultdict(int)
    for row in samples:
        by_day[row["at"].date()] += 1
    assert max(by_day.values()) > 1300
    assert min(list(by_day.values())[:6]) <= 24
    covered = [(row["at"], row["until"]) for row in rows(landing, "coverage")]
    assert all(any(at <= row["at"] <= until for at, until in covered) for row in samples)


def test_equal_seeds_generate_equal_rows_and_other_seeds_other_rows(landing: Landing, tmp_path: Path) -> None:
    for name, seed in (("same", 5), ("other", 6)):
        again = Landing(str(tmp_path / name))
        make_history(again, Plan(40, 12, seed, UNTIL, 3))
        assert again.read_all("events").equals(landing.read_all("events")) == (name == "same")
        assert again.read_all("samples").equals(landing.read_all("samples")) == (name == "same")


def test_second_history_of_a_broker_is_refused(landing: Landing) -> None:
    with pytest.raises(AlreadyMade, match="a generated history of made already"):
        make_history(landing, PLAN)


def test_every_generated_queue_has_a_recommendation(landing: Landing) -> None:
    samples = landing.read_all("samples")
    names = np.array(samples["queue"].to_pylist())
    kinds = set()
    for name in np.unique(names):
        of_queue = samples.filter(names == name)
        columns = {c: of_queue[c].to_numpy(zero_copy_only=False) for c in of_queue.column_names}
        kinds.add(recommendation_of(columns)["kind"])
    assert kinds <= {"raise-capacity", "add-consumers", "lower-resume", "never-reached", "none"}
    assert len(kinds) > 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--queues", "0"], "'0' is not a number from 1 to 100,000"),
        (["--until", "soon"], "'soon' is not a time"),
        (["--broker", "local"], "--broker local is a configured broker"),
    ],
)
def test_invalid_option_is_refused_by_name(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "make-history", *arguments],
        cwd=ROOT,
        env={**os.environ, "HEADGATE_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert said in done.stderr


class Killed(Exception):
    pass


@pytest.mark.parametrize("after", [1, 2, 4])
def test_interrupted_history_continues_without_doubled_or_lost_rows(
    landing: Landing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr("console.history.generate.generator._EVENTS", 500)
    monkeypatch.setattr("console.history.generate.generator.MAX_ROWS", 20_000)
    whole, cut = Landing(str(tmp_path / "whole")), Landing(str(tmp_path / "cut"))
    make_history(whole, PLAN)
    publish, published = cut.publish, []

    def publish_until_killed(kind: str, rows: Any, name: str = "") -> str:
        if len(published) == after:
            raise Killed
        published.append(name)
        return publish(kind, rows, name)

    monkeypatch.setattr(cut, "publish", publish_until_killed)
    with pytest.raises(Killed):
        make_history(cut, PLAN)
    first = {kind: cut.read_all(kind) for kind in KEYS}
    for kind in KEYS:  # the pipeline has processed them
        for name in cut.names(kind):
            cut.remove(kind, name)
    monkeypatch.setattr(cut, "publish", publish)
    assert interrupted(cut, replace(PLAN, until=datetime.now(UTC))) == UNTIL
    with pytest.raises(AlreadyMade, match="interrupted history"):
        make_history(cut, replace(PLAN, seed=6))
    make_history(cut, PLAN)
    for kind in KEYS:
        both = pa.concat_tables([first[kind], cut.read_all(kind)])
        keys = [(name, "ascending") for name in KEYS[kind]]
        assert both.sort_by(keys).equals(whole.read_all(kind).sort_by(keys)), kind
    assert interrupted(cut, PLAN) is None
    with pytest.raises(AlreadyMade, match="already"):
        make_history(cut, PLAN)
