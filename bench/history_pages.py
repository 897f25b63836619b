"""The queries of the history's pages, on a completely processed history: ms, cold and warm.

Cold: by a reader that has just been made, which opens the tables' logs and the files' footers. Warm: by one that has
them, about another queue or range than before, so that no answer is had twice.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from console.history.query.blocked import heat, top
from console.history.query.catalog import brokers, queues
from console.history.query.series import series
from console.history.storage.durations import DAY
from console.history.storage.queue_key import QueueKey
from console.history.storage.reader import Reader

COLD, WARM = 10, 60


@dataclass
class Question:
    """`aim`: ms, 0: none. `cold`, `warm`: ms of each time."""

    title: str
    aim: float
    cold: list[float]
    warm: list[float]


def pages(url: str, chance: random.Random) -> tuple[int, int, list[Question]]:
    """Return (days, queues, the questions with their times)."""
    reader = Reader(url)
    (known, *_) = brokers(reader)
    end, days = known["last"], (known["last"] - known["first"]) // DAY
    keys = [
        QueueKey(row["broker"], row["virtualhost"], row["name"])
        for row in queues(reader, broker=known["broker"], most=100_000)
    ]

    # A day or two earlier each time, while it stays a year or a month.
    def back(span: int) -> tuple[int, int]:
        until = end - chance.randrange(0, max(1, min(30, days - span // DAY + 1))) * DAY
        return until - span, until

    year, month, week = min(365, days) * DAY, 30 * DAY, 7 * DAY

    def ask(span: int, of: Callable[[Reader, int, int], Any]) -> Callable[[Reader], Any]:
        return lambda its: of(its, *back(span))

    questions: list[tuple[str, float, Callable[[Reader], Any]]] = [
        ("a queue's month, by hours", 100, ask(month, lambda r, b, e: series(r, chance.choice(keys), b, e, now=end))),
        ("a queue's day, by minutes", 0, ask(DAY, lambda r, b, e: series(r, chance.choice(keys), b, e, now=end))),
        ("a queue's year, by days", 0, ask(year, lambda r, b, e: series(r, chance.choice(keys), b, e, now=end))),
        ("the fleet's top queues of a year", 300, ask(year, lambda r, b, e: top(r, "queues", b, e, now=end))),
        ("the fleet's top producers of a year", 300, ask(year, lambda r, b, e: top(r, "producers", b, e, now=end))),
        ("the fleet's top queues of a month", 0, ask(month, lambda r, b, e: top(r, "queues", b, e, now=end))),
        ("heat map of a year", 0, ask(year, lambda r, b, e: heat(r, b, e, now=end))),
        ("heat map of a week", 0, ask(week, lambda r, b, e: heat(r, b, e, now=end))),
    ]
    answered = []
    for title, aim, question in questions:
        cold = [_ms(question, Reader(url)) for _ in range(COLD)]
        _ms(question, reader)
        answered.append(Question(title, aim, cold, [_ms(question, reader) for _ in range(WARM)]))
    return days, len(keys), answered


def _ms(question: Callable[[Reader], Any], reader: Reader) -> float:
    began = time.perf_counter()
    question(reader)
    return (time.perf_counter() - began) * 1000
