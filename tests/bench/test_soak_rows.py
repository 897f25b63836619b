"""Classification of growth and of files by the soak test (`bench/soak.py`)."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.bench.scripts import script

soak_rows = script("soak_rows")

MINUTES = [10 + n / 2 for n in range(101)]  # every half minute of 50 minutes
BASE = 100e6


def verdict(figures: list[float], row: tuple[str, str] = ("web", "PSS")) -> str:
    return str(soak_rows.judge(row, list(zip(MINUTES, figures, strict=True))).verdict)


def test_leak_of_12_mb_per_hour_is_growth_despite_fluctuation() -> None:
    assert verdict([BASE + 12e6 / 60 * at + 2e6 * math.sin(at) for at in MINUTES]) == "grows"


def test_one_descriptor_in_ten_minutes_is_growth() -> None:
    assert verdict([20 + at // 10 for at in MINUTES], ("broker", "descriptors")) == "grows"


@pytest.mark.parametrize(
    "figures",
    [
        [BASE] * 101,
        [BASE + 5e6 * math.sin(at) for at in MINUTES],
        [BASE if at < 25 else BASE + 30e6 for at in MINUTES],  # a cache has filled
        [BASE - 1e6 * at for at in MINUTES],
    ],
    ids=["still", "swinging", "a step", "falling"],
)
def test_fluctuation_steps_and_decrease_are_flat(figures: list[float]) -> None:
    assert verdict(figures) == "flat"


def test_files_grow_up_to_their_bound() -> None:
    assert verdict([1e6 * at for at in MINUTES], ("broker.log", "bytes")) == "bounded"
    assert verdict([2e6 * at for at in MINUTES], ("broker.log", "bytes")) == "grows"
    assert verdict([2e6 * at for at in MINUTES], ("configuration", "bytes")) == "grows"


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("broker/broker.log.3", "broker.log"),
        ("broker/events.sqlite3-wal", "event journal"),
        ("broker/config.sqlite3", "configuration"),
        ("broker/messages/temp.journal/00000001.segment", "temporary stores"),
        ("broker/messages/default-37a8eec1.journal/00000001.segment", "message stores"),
        ("broker/messages/default-37a8eec1.sqlite3-wal", "message stores"),
        ("console/console.sqlite3", "console database"),
        ("worker/queue/taken/1.msg", "work queue"),
        ("history/landing/events/a.parquet", "landing"),
        ("history/tables/events/_delta_log/1.json", "tables"),
        ("spark/77-a1b2c3/blockmgr-1/0f/shuffle_0", "Spark's scratch"),
        ("up.lock", "other files"),
    ],
)
def test_each_file_has_one_kind(path: str, title: str) -> None:
    assert soak_rows.kind_of(Path(path)).title == title
