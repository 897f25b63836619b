"""What is recorded of each broker: whether a recorder is connected, how far the data reach, and the last gap.

A gap is time between two recorded spans, or one that the recorder states with its reason: one that was killed, or had
no connection, states nothing. Times are ms since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from console.history.storage.durations import DAY, MINUTE
from console.history.storage.fresh import CATALOG, folder
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
        try:
            signs += _published(reader.url, slug)
        except LandingError as error:
            trouble.append(str(error))
        last_sign = max(signs, default=None)
        row = recorded.pop(slug, {})
        found.append(
            _broker(slug, broker["title"], row)
            | {
                "configured": True,
                "following": last_sign is not None and now - last_sign < RECORDER_TIMEOUT,
                "last_sign": row.get("until") if last_sign is None else last_sign,
            }
        )
    for slug, row in recorded.items():
        found.append(
            _broker(slug, slug, row) | {"configured": False, "following": None, "last_sign": row["until"]},
        )
    return found, trouble


def _published(url: str, slug: str) -> list[int]:
    """Return when the recorder of the broker last published what it has not landed, or nothing. Raises LandingError."""
    from console.history.storage.landing import Landing

    at = Landing(url).modified(f"{folder(slug)}/{CATALOG}")
    return [] if at is None else [round(at.timestamp() * 1000)]


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
