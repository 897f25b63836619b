"""Pieces of work of a process with a Spark session. Without Spark."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from console.history.models import HistoryRun
from console.history.pipeline import pieces as pieces_module
from console.history.pipeline.pieces import OnStep, Piece, Pieces
from console.history.pipeline.run import Report
from console.history.storage.commits import Overtaken


class Unsparked(Pieces):
    """Has runs of two steps and no tables. `lost`: is set between them."""

    lost = threading.Event()

    @contextlib.contextmanager
    def _usable(self, row: Any) -> Iterator[Any]:
        yield None

    def _run_once(self, tables: Any, brokers: Any, on_step: OnStep) -> Report:
        on_step("store")
        self.lost.set()
        on_step("minutes")
        return Report()


@pytest.mark.django_db
def test_run_ends_at_the_next_step_once_its_lease_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = threading.Event()

    @contextlib.contextmanager
    def lease(_name: str) -> Iterator[threading.Event]:
        yield lost

    monkeypatch.setattr(pieces_module, "lease", lease)
    monkeypatch.setattr(Unsparked, "lost", lost)
    pieces = Unsparked(str(tmp_path), lambda _on_step: pytest.fail("no Spark"), lambda *_: (0, 0.0))
    with pytest.raises(Overtaken, match="before the step minutes"):
        pieces.execute(Piece(broker="b"))
    row = HistoryRun.objects.get()
    assert (row.step, row.error) == (
        "store",
        "Overtaken: the lease has expired before the step minutes: another process may own it",
    )
