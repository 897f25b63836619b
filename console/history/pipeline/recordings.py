"""What is recorded of each broker: whether a recorder is connected, how far the data reach, and the last gap.

A gap is time between two recorded spans, or one that the recorder states with its reason: one that was killed, or had
no connection, states nothing. Times are ms since the epoch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from console.history.storage.durations import DAY, MINUTE
from console.history.storage.fresh import CATALOG, decode, folder
from console.history.storage.landing_keys import LandingError
from console.history.storage.landing_listing import LandedFile
from console.history.storage.reader import HistoryBroken, NothingRecorded, Reader

#: A running recorder publishes at least about every 20 s; without data for longer than this, in ms, it counts as
#: stopped.
RECORDER_TIMEOUT = MINUTE
#: Gaps are looked for in this time, in ms.
_GAPS_MS = 7 * DAY
#: The shortest gap, in ms, as in charts.
_SHORTEST_GAP = 5_000

_MS_NS = 1_000_000

Facts = dict[str, Any]

_COVERAGE = """
WITH rows AS (
    SELECT broker, followed, reason, epoch_ms("at") AS a, epoch_ms(until) AS u FROM {coverage}
    WHERE epoch_ms(until) > $begin
), marked AS (
    SELECT broker, a, u,
        max(u) OVER (PARTITION BY broker ORDER BY a, u ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM rows WHERE followed
), recorded AS (
    SELECT broker, max(u) AS until, max(before) FILTER (a >= before + $shortest) AS gap_from,
        arg_max(a, before) FILTER (a >= before + $shortest) AS gap_until
    FROM marked GROUP BY broker
), stated AS (
    SELECT broker, max(a) AS stated_from, arg_max(u, a) AS stated_until, arg_max(reason, a) AS stated_reason
    FROM rows WHERE NOT followed GROUP BY broker
)
SELECT * FROM recorded FULL JOIN stated USING (broker) ORDER BY broker
"""


@dataclass(slots=True)
class ObservedSigns:
    """Judges whether signs of life go on. A sign has a time of a clock that may be wrong: that of the storage, of the
    broker, or of a machine whose clock has been set since. So a sign that changes between two looks counts by the
    monotonic clock of this process (`steady`, s), and its time only at a first look."""

    steady: Callable[[], float] = time.monotonic
    #: By key: the sign, since when it is known, whether it is known from its beginning, and the last look.
    _seen: dict[object, tuple[object, float, bool, float]] = field(default_factory=dict)

    def goes_on(self, key: object, sign: object, *, seems_recent: bool) -> bool:
        """Return whether the recorder gives signs. `sign`: differs between two; `seems_recent`: whether its time is
        near the time of day of this machine."""
        now, least = self.steady(), RECORDER_TIMEOUT / 1000
        known, since, is_new, looked = self._seen.get(key, (None, now, False, float("-inf")))
        if known != sign:
            since, is_new = now, known is not None and now - looked < least
        self._seen[key] = (sign, since, is_new, now)
        return now - since < least and (is_new or seems_recent)


_observed = ObservedSigns()


def recordings(
    reader: Reader, brokers: Iterable[Mapping[str, Any]], files: Iterable[LandedFile], now: int
) -> tuple[list[Facts], list[str]]:
    """Return the facts of every configured broker, then of other brokers recorded in the last 7 days; and errors.
    `brokers`: the configured ones, with `slug` and `title`; `files`: the landing files."""
    recorded: dict[str, Facts] = {}
    trouble: list[str] = []
    begin = now - _GAPS_MS
    given = {"begin": begin, "shortest": _SHORTEST_GAP}
    try:
        recorded = {row["broker"]: row for row in reader.rows(_COVERAGE, given, begin=begin)}
    except NothingRecorded:
        pass
    except HistoryBroken as error:
        trouble.append(str(error))
    newest: dict[str, int] = {}
    for file in files:
        if file.is_recorded and file.broker is not None:
            newest[file.broker] = max(newest.get(file.broker, 0), file.landed // _MS_NS)
    found = []
    for broker in brokers:
        slug = broker["slug"]
        signs = [newest[slug]] if slug in newest else []
        published: list[int] = []
        try:
            written, published = _published(reader.url, slug)
            signs += written
        except LandingError as error:
            trouble.append(str(error))
        last_sign = max(signs, default=None)
        is_recent = any(abs(now - at) < RECORDER_TIMEOUT for at in (*signs, *published))
        goes_on = _observed.goes_on((reader.url, slug), (signs, published), seems_recent=is_recent)
        row = recorded.pop(slug, {})
        found.append(
            _broker(slug, broker["title"], row)
            | {
                "configured": True,
                "following": last_sign is not None and goes_on,
                "last_sign": row.get("until") if last_sign is None else min(last_sign, now),
            }
        )
    for slug, row in recorded.items():
        found.append(
            _broker(slug, slug, row) | {"configured": False, "following": None, "last_sign": row["until"]},
        )
    return found, trouble


def _published(url: str, slug: str) -> tuple[list[int], list[int]]:
    """Return when the recorder of the broker last published what it has not landed, by the storage's clock, and up to
    when this was complete, by the broker's; or nothing. Raises LandingError."""
    from console.history.storage.landing import Landing

    landing, path = Landing(url), f"{folder(slug)}/{CATALOG}"
    at, content = landing.modified(path), landing.get(path)
    if at is None or content is None:
        return [], []
    try:
        published = [decode(content).published]
    except ValueError:  # damaged, or of a later release
        published = []
    return [round(at.timestamp() * 1000)], published


def _broker(slug: str, title: str, row: Mapping[str, Any]) -> Facts:
    return {"broker": slug, "title": title, "readable_until": row.get("until"), "gap": _last_gap(row)}


def _last_gap(row: Mapping[str, Any]) -> Facts | None:
    """Return the later one of the unrecorded gap and the stated one; of the same time, the stated one, which has a
    reason."""
    begin, until = row.get("gap_from"), row.get("gap_until")
    stated = row.get("stated_from")
    if stated is not None and (until is None or row["stated_until"] > begin):
        return {"from": stated, "until": row["stated_until"], "reason": row["stated_reason"] or ""}
    return None if begin is None else {"from": begin, "until": until, "reason": ""}
