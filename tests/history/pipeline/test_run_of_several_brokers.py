"""Brokers that are due together are processed by one run, and their tables are those of runs for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from console.history.models import HistoryRun
from console.history.pipeline.pieces import Piece, Pieces
from tests.history.rows import Story, land
from tests.history.runs import History

pytestmark = [pytest.mark.timeout(600), pytest.mark.django_db(transaction=True, serialized_rollback=True)]


def story(broker: str, shift: int) -> Story:
    made = Story(broker).watch(0, 600).sample(0, 1, whole=True, enqueued_messages=0, dequeued_messages=0)
    made.overfull(60 + shift).blocked(60 + shift).sample(80, 20, state="OVERFULL")
    return made.underfull(90 + shift).released(90 + shift)


def test_several_brokers_are_one_run_with_the_tables_of_single_runs(tmp_path: Path, spark: Any) -> None:
    brokers = {"a": 0, "b": 5}
    tables = []
    for name, pieces in (
        ("joint", [Piece(broker="a", others=("b",))]),
        ("single", [Piece(broker="a"), Piece(broker="b")]),
    ):
        history = History(spark, str(tmp_path / name))
        for broker, shift in brokers.items():
            land(history.url, story(broker, shift).rows)
        steps: list[str] = []
        work = Pieces(history.url, lambda _on_step: spark, lambda *_: (0, 0.0), on_step=steps.append)
        for piece in pieces:
            work.execute(piece)
        assert steps.count("minutes") == len(pieces)
        rows = HistoryRun.objects.order_by("broker").values_list("broker", "files", "rows__samples", "error")
        assert list(rows) == [("a", 3, 2, ""), ("b", 3, 2, "")]
        HistoryRun.objects.all().delete()
        work.close()
        assert len(history.rows("episodes")) == len(brokers)
        tables.append(history.all_derived())
    assert tables[0] == tables[1]
