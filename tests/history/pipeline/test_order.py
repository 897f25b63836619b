"""The tables are a function of all landed rows, independent of order, duplicates, delays and killed runs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from console.history.pipeline import run as run_module
from console.history.pipeline.run import Run
from console.history.storage.commits import DeltaFolder
from console.history.storage.tables import Tables
from tests.history.rows import Story
from tests.history.runs import DERIVED, History
from tests.history.stories import FIRST, LATER

pytestmark = pytest.mark.timeout(600)

STORIES = (*FIRST, *LATER)
BROKERS = sorted({story.broker for story in STORIES})
SEEDS = range(3)
RUNS = 2

Tables_ = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def straight(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> History:
    """Process all rows in order, without duplicates, in one run in the mode for large amounts."""
    history = History(spark, str(tmp_path_factory.mktemp("straight") / "history"))
    history.land(*STORIES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "FEW_ROWS", -1)
        history.run()
    assert all(history.rows(name) for name in DERIVED)
    return history


def shuffled(seed: int) -> Iterator[Story]:
    """Return a scenario per run with the rows of all scenarios, under broker names of the seed: each row at least once,
    some duplicated, in any order."""
    chance = random.Random(seed)
    batches = [Story() for _ in range(RUNS)]
    for kind in ("events", "samples", "coverage"):
        rows = [row for story in STORIES for row in story.rows[kind]]
        rows += [row for row in rows if chance.random() < 0.3]
        chance.shuffle(rows)
        for row in rows:
            mine = deepcopy(row)
            mine["broker"] = f"{row['broker']} {seed}"
            chance.choice(batches).rows[kind].append(mine)
    yield from batches


def test_late_duplicate_and_unordered_rows_give_the_same_tables(straight: History, history: History) -> None:
    for batches in zip(*(shuffled(seed) for seed in SEEDS), strict=True):
        history.land(*batches)
        history.run()
    for seed in SEEDS:
        for broker in BROKERS:
            found, expected = history.all_derived(f"{broker} {seed}"), straight.all_derived(broker)
            assert found == expected, f"seed {seed}, broker {broker}"
    for kind in ("events", "samples", "coverage"):
        assert len(history.rows(kind)) == len(SEEDS) * len(straight.rows(kind))


def test_small_runs_give_the_tables_of_a_large_run(straight: History, history: History) -> None:
    for stories in (FIRST, LATER):
        history.land(*stories)
        history.run()
    assert history.all_derived() == straight.all_derived()


class Died(BaseException):
    pass


def die_after(commits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the process fail directly after this number of commits."""
    left = commits
    commit = DeltaFolder.commit

    def mortal(self: DeltaFolder, *arguments: Any, **options: Any) -> None:
        nonlocal left
        commit(self, *arguments, **options)
        left -= 1
        if left == 0:
            raise Died

    monkeypatch.setattr(DeltaFolder, "commit", mortal)


@pytest.mark.parametrize("seed", [1])
def test_run_after_one_killed_at_any_commit_completes_the_tables(
    straight: History, history: History, spark: Any, seed: int
) -> None:
    deaths = 0
    for stories in (FIRST, LATER):
        history.land(*stories)
        for commits in random.Random(seed).sample(range(1, 9), 4):
            with pytest.MonkeyPatch.context() as patch:
                die_after(commits, patch)
                try:
                    Run(Tables(spark, history.url)).run()
                except Died:
                    deaths += 1
        history.run()
    assert deaths >= 6
    assert history.all_derived() == straight.all_derived()
    for kind in ("events", "samples", "coverage"):
        assert history.rows(kind) == straight.rows(kind)
