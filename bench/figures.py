"""The figures of a comparison, row by row and broker by broker, and the ratios and verdicts that follow from them.

No measuring here. A row that has an aim says whether it was reached.
"""

from __future__ import annotations

import statistics
from collections.abc import Container
from dataclasses import dataclass, field

NOT_YET = "not yet"


@dataclass
class Row:
    """`values`: the measured figures by broker; of several the median counts. `words`: text
    instead of figures. The aims: `of_other`, `of_peers`: minimum ratio to theirs; `least`: minimum of Headgate's.
    """

    title: str
    digits: int = 0
    of_other: float = 0
    of_peers: float = 0
    least: float = 0
    values: dict[str, list[float]] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    def add(self, broker: str, value: float) -> None:
        self.values.setdefault(broker, []).append(value)

    def value(self, broker: str) -> float | None:
        """Return None if no measurement was completed."""
        values = self.values.get(broker)
        return statistics.median(values) if values and broker not in self.words else None


class Figures:
    """`other`: the title of a broker that is not one of the peers, or ""."""

    def __init__(self, ours: str, other: str, titles: list[str]) -> None:
        self.ours, self.other, self.titles = ours, other, titles
        self.rows: dict[str, Row] = {}
        self.failures: list[str] = []

    def row(self, title: str, **options: float) -> Row:
        if title not in self.rows:
            # Of its fields those that are not numbers are never among the options.
            self.rows[title] = Row(title, **options)  # type: ignore[arg-type]
        return self.rows[title]

    def failed(self, row: Row, broker: str, why: object) -> None:
        row.words[broker] = "failed"
        self.failures.append(f"{row.title}: {why}")

    def as_table(self, without: Container[str]) -> tuple[list[str], list[list[str]]]:
        """Return (head, rows) of the brokers that are not among `without`."""
        titles = [title for title in self.titles if title not in without]
        rows = [
            [row.title, *(self._cell(row, title) for title in titles), self._verdict(row)] for row in self.rows.values()
        ]
        return ["", *titles, "aim"], rows

    def _cell(self, row: Row, title: str) -> str:
        value, ours = row.value(title), row.value(self.ours)
        if value is None:
            return row.words.get(title, "—")
        if value <= 0:
            return "too little to see"  # memory that had been freed before served again
        text = f"{value:,.{row.digits}f}"
        return text if title == self.ours or not ours or ours < 0 else f"{text} ({ours / value:.2f})"

    def _verdict(self, row: Row) -> str:
        ours = row.value(self.ours)
        peers = [value for title in self.titles if (value := row.value(title)) and title not in (self.ours, self.other)]
        parts = []
        if row.of_other and self.other and (value := row.value(self.other)):
            parts.append(_reached(f"{row.of_other:g} of other", ours, value, row.of_other))
        if row.of_peers and peers:
            parts.append(_reached(f"{row.of_peers:g} of the fastest peer", ours, max(peers), row.of_peers))
        if row.least:
            parts.append(_reached(f"{row.least:g}", ours, 1, row.least))
        return "; ".join(parts)


def _reached(aim: str, ours: float | None, theirs: float, least: float) -> str:
    if ours is None:
        return f"{aim}: {NOT_YET}"
    return f"{aim}: {ours / theirs:.2f}, {'reached' if ours / theirs >= least else 'missed'}"
