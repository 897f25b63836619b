"""The brokers of a fleet, those in trouble first, and their totals. Pure.

What is not known of a broker is None and never 0: a broker that was never connected has no numbers, and those of a
disconnected one are as of its snapshot. A sum over brokers is that of the known values; `partial` says what it lacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from console.conditions.active import Condition
from console.links.queue_totals import QueueTotals
from console.live.fleet.members import STATES, Member

COUNTS = tuple(QueueTotals().values)


def broker_rows(members: Iterable[Member]) -> list[dict[str, Any]]:
    """Return the row of each broker, those in trouble first."""
    return sorted(map(broker_row, members), key=trouble_key)


def broker_row(member: Member) -> dict[str, Any]:
    """Return the state of one broker. `worst`: its most severe condition; None: none, or not known (`as_of` is None).
    `partial`: the names of sums that lack queues whose value is not known."""
    link, status = member.link, member.link.status
    known = link.as_of is not None
    conditions = link.conditions() if known else []
    totals = link.queue_totals() if known else None
    return {
        "slug": member.slug,
        "title": member.title,
        "kind": member.kind,
        "tags": list(member.tags),
        "state": member.state,
        "since": status.since,
        "error": status.error if member.state in ("disconnected", "paused") else "",
        "as_of": link.as_of,
        "stale": known and not link.connected,
        "worst": _brief(conditions[0]) if conditions else None,
        "conditions": len(conditions) if known else None,
        **(totals.values if totals is not None else dict.fromkeys(COUNTS)),
        "partial": totals.partial if totals is not None else [],
    }


def fleet_totals(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the sums over rows of brokers. `brokers`: their number in all and by state. `conditions`: their number.
    `partial`: name of a sum -> number of brokers whose part is missing or incomplete. `stale`: the number of brokers
    whose part is as of an earlier snapshot."""
    states = Counter(row["state"] for row in rows)
    sums, partial = {}, {}
    for name in (*COUNTS, "conditions"):
        known = [row[name] for row in rows if row[name] is not None]
        sums[name] = sum(known) if known or not rows else None
        incomplete = sum(row[name] is None or name in row["partial"] for row in rows)
        if incomplete:
            partial[name] = incomplete
    return {
        "brokers": {"all": len(rows), **{state: states[state] for state in STATES}},
        **sums,
        "partial": partial,
        "stale": sum(row["stale"] for row in rows),
    }


def snapshot_of(members: Sequence[Member]) -> dict[str, Any]:
    """Return `as_of`, the time of the oldest snapshot of these brokers (ms since the epoch; None: there is none), and
    `stale`, whether one of them is not connected."""
    times = [member.link.as_of for member in members]
    oldest = min((time for time in times if time is not None), default=None)
    return {"as_of": oldest, "stale": any(not member.link.connected for member in members)}


def trouble_key(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the key of the order by trouble: disconnected, with a severe condition, with blocked producers or overfull
    queues, with stopped queues, with a warning, connecting, normal, paused. Then by numbers, then by title."""
    worst = row["worst"]
    numbers = [-(row[name] or 0) for name in ("blocked_producers", "overfull_queues", "stopped_queues", "conditions")]
    if row["state"] == "disconnected":
        rank = 0
    elif row["state"] == "paused":
        rank = 7
    elif worst is not None and worst["severity"] == "trouble":
        rank = 1
    elif numbers[0] or numbers[1]:
        rank = 2
    elif numbers[2]:
        rank = 3
    elif worst is not None:
        rank = 4
    else:
        rank = 5 if row["state"] == "connecting" else 6
    return (rank, *numbers, row["title"].casefold(), row["slug"])


def _brief(condition: Condition) -> dict[str, Any]:
    brief = condition.as_json()
    del brief["advice"]
    return brief
