"""The tables equal what a search through all rows finds, whatever lands in whatever order, and whatever ends between.

Random histories of brokers with odd names, through landing files, several runs of which some are killed, compaction and
vacuum, against the plain search of `tests/history/rollups/oracle.py`.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import random
from typing import Any

import pytest

from console.history.pipeline.maintenance import compact, retain, vacuum
from console.history.pipeline.run import Run
from console.history.storage.landing import KEYS
from console.history.storage.landing_names import part, recorder_file
from console.history.storage.tables import Tables
from tests.history.pipeline.test_order import Died, die_after
from tests.history.rollups.oracle import Oracle
from tests.history.rollups.random_histories import RandomHistory, random_history
from tests.history.rollups.test_rollups import assert_equal_rows
from tests.history.rows import NOON, table
from tests.history.runs import History

pytestmark = pytest.mark.timeout(900)

BATCHES = 2
#: The names of the brokers.
NAMES = ("A/b ~ 50%25", "a/b ~ 50%25", "é 'x' ${HOME} {a,b}*")
TODAY = NOON.date() + dt.timedelta(days=20)


def land(history: History, each: RandomHistory, batch: int, chance: random.Random) -> None:
    """Land each row of the history in one of the batches, or in both; in files of a recorder and of imports."""
    for kind in KEYS:
        files: dict[str, list[Any]] = {}
        for row in getattr(each, kind):
            picked = random.Random(f"{each.broker}{kind}{row['at']}{row.get('number')}").randrange(BATCHES)
            if picked == batch or chance.random() < 0.2:
                name = chance.choice((recorder_file(each.broker, batch + 1), f"log~{part(each.broker)}~{batch}"))
                files.setdefault(name, []).append(row)
        for name, rows in files.items():
            chance.shuffle(rows)
            history.tables.landing.publish(kind, table(kind, rows), name)


def test_tables_equal_a_search_through_all_rows(spark: Any, history: History) -> None:
    chance = random.Random(7)
    histories = [random_history(random.Random(seed), name, rows=30) for seed, name in enumerate(NAMES)]
    for batch in range(BATCHES):
        for each in histories:
            land(history, each, batch, chance)
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Died):
            die_after(chance.randrange(1, 9), patch)
            Run(Tables(spark, history.url)).run()
        history.run()
        if batch == 0:
            compact(history.tables, TODAY)
            retain(history.tables, TODAY)
            vacuum(history.tables)
    for each in histories:
        oracle = Oracle(each)
        for kind in KEYS:
            assert len(history.rows(kind, each.broker)) == len(
                {tuple(map(row.get, KEYS[kind])) for row in getattr(each, kind)}
            )
        for name in ("holds", "episodes", "minutes", "hours"):
            expected = getattr(oracle, name)
            rows = expected() if callable(expected) else expected
            assert_equal_rows(name, rows, [_plain(row) for row in history.rows(name, each.broker)])


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    times = ("at", "start", "end", "seen")
    return row | {name: round(row[name].timestamp() * 1000) for name in times if row.get(name) is not None}
