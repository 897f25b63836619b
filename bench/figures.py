"""The figures of a comparison, row by row and broker by broker, and the ratios and verdicts that follow from them.

No measuring here. A row that has an aim says whether it was reached.
"""

from __future__ import annotations

import statistics
from collections.abc import Container, Sequence
from dataclasses import dataclass, field

ABSENT = "\N{EN DASH}"


@dataclass
class Row:
    """`values`: the measured figures by broker; of several the median counts. `words`: text instead of figures.

    The aims, 0 if there is none: `of_other`, `of_peers`: minimum ratio to the other's and to the greatest of the
    peers'; `of_least`: maximum ratio to the least of the peers'; `least`: minimum of Headgate's own figure.
    """

    title: str
    digits: int = 0
    of_other: float = 0
    of_peers: float = 0
    of_least: float = 0
    least: float = 0
    values: dict[str, list[float]] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    def add(self, broker: str, value: float) -> None:
        self.values.setdefault(broker, []).append(value)

    def value(self, broker: str) -> float | None:
        """Return None if no measurement was completed."""
        values = self.values.get(broker)
        return statistics.median(values) if values and broker not in self.words else None

    def spread(self, broker: str) -> float | None:
        """Return how far the farthest figure is from the median, as a share of it; None for a single figure."""
        values, middle = self.values.get(broker, []), self.value(broker)
        if not middle or len(values) < 2:
            return None
        return max(abs(each - middle) for each in values) / abs(middle)


class Figures:
    """`own`: Headgate's titles, if it is measured; ratios are those of the first that has a figure in any row. `other`:
    the title of a broker that is not one of the peers, or ""."""

    def __init__(self, own: Sequence[str], other: str, titles: Sequence[str]) -> None:
        self.own, self.other, self.titles = own, other, titles
        self.rows: dict[str, Row] = {}
        self.failures: list[str] = []

    @property
    def ours(self) -> str:
        with_figures = (title for title in self.own if any(row.values.get(title) for row in self.rows.values()))
        return next(with_figures, next(iter(self.own), ""))

    def row(
        self,
        title: str,
        *,
        digits: int = 0,
        of_other: float = 0,
        of_peers: float = 0,
        of_least: float = 0,
        least: float = 0,
    ) -> Row:
        """Return the row of that title, which the first call adds."""
        return self.rows.setdefault(title, Row(title, digits, of_other, of_peers, of_least, least))

    def failed(self, row: Row, broker: str, why: object) -> None:
        row.words[broker] = "failed"
        self.failures.append(f"{row.title}: {why}")

    def lacks(self, row: Row, broker: str, why: str) -> None:
        """Say in the cell that the broker does not support what the row is about."""
        row.words[broker] = f"{ABSENT} ({why})"

    def as_table(self, without: Container[str]) -> tuple[list[str], list[list[str]]]:
        """Return (head, rows) of the brokers that are not among `without`."""
        titles = [title for title in self.titles if title not in without]
        rows = [
            [row.title, *(self._cell(row, title) for title in titles), self._verdict(row)] for row in self.rows.values()
        ]
        return ["", *titles, "aim"], rows

    def as_text(self, row: Row) -> str:
        """Return a row in one line."""
        return f"{row.title}: {'; '.join(f'{title} {self._cell(row, title)}' for title in self.titles)}"

    def _cell(self, row: Row, title: str) -> str:
        value, ours = row.value(title), row.value(self.ours)
        if value is None:
            return row.words.get(title, ABSENT)
        if value <= 0:
            return "too little to see"  # memory that had been freed before served again
        text = f"{value:,.{row.digits}f}"
        spread = row.spread(title)
        if spread is not None:
            text += f" ±{spread:.0%}"
        return text if title == self.ours or not ours or ours < 0 else f"{text} ({ours / value:.2f})"

    def _verdict(self, row: Row) -> str:
        if not self.own:
            return ""
        ours = row.value(self.ours)
        own = {*self.own, self.other}
        peers = {title: value for title in self.titles if title not in own and (value := row.value(title))}
        parts = []
        if row.of_other and self.other and (value := row.value(self.other)):
            parts.append(_reached(f"{row.of_other:g} of {self.other}", ours, value, least=row.of_other))
        if row.of_peers and peers:
            best = max(peers, key=lambda title: peers[title])
            parts.append(_reached(f"{row.of_peers:g} of the best peer, {best}", ours, peers[best], least=row.of_peers))
        if row.of_least and peers:
            best = min(peers, key=lambda title: peers[title])
            aim = f"at most {row.of_least:g} of the best peer, {best}"
            parts.append(_reached(aim, ours, peers[best], most=row.of_least))
        if row.least:
            parts.append(_reached(f"{row.least:g}", ours, 1, least=row.least))
        return "; ".join(parts)


def _reached(aim: str, ours: float | None, theirs: float, *, least: float = 0, most: float = float("inf")) -> str:
    if ours is None:
        return f"{aim}: not measured"
    return f"{aim}: {ours / theirs:.2f}, {'reached' if least <= ours / theirs <= most else 'missed'}"
