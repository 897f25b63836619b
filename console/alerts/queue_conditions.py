"""Conditions of a queue that only rules have: overfull, producers blocked, stopped, dead letters, depth, age of the
oldest message, consumers lost.

They are normal for a while, so the console does not list them as conditions; a rule's pending period says how long is
too long. A value that the broker does not report meets no condition. Pure: rows of queues in, observations out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from brokers.model import ObjectName
from console.alerts.models import Rule
from console.alerts.transitions import Observation, within

Row = Mapping[str, Any]

OVERFULL, BLOCKED, STOPPED = "overfull", "producers-blocked", "stopped"
DEAD_LETTERS, DEPTH, FILLED = "dead-letters", "depth-above", "depth-above-percent"
OLDEST, CONSUMERS_LOST = "oldest-message", "consumers-lost"

#: Title by kind.
QUEUE_CONDITIONS: Mapping[str, str] = {
    OVERFULL: "Overfull",
    BLOCKED: "Producers blocked",
    STOPPED: "Stopped by an operator",
    CONSUMERS_LOST: "Consumers lost",
    DEAD_LETTERS: "Dead-letter queue not empty",
    OLDEST: "Oldest message above an age",
    DEPTH: "Depth above a number of messages",
    FILLED: "Depth above a percentage of the capacity",
}


@dataclass(frozen=True, slots=True)
class Known:
    """What rows of queues do not have. `now`: the time by the broker's clock, ms since the epoch. `dead_letter_queues`,
    `consumed`: object names, as text, of dead-letter queues and of queues that have had consumers."""

    now: int = 0
    dead_letter_queues: Collection[str] = ()
    consumed: Collection[str] = ()


def matching_conditions(rule: Rule, broker: str, rows: Iterable[Row], known: Known) -> Iterator[Observation]:
    """Yield the conditions of the rule that these queues meet."""
    kinds = [kind for kind in QUEUE_CONDITIONS if kind in rule.kinds]
    if not rule.enabled or not kinds:
        return
    for row in rows:
        about = None
        for kind in kinds:
            found = _FINDERS[kind](row, rule, known)
            if found is None:
                continue
            about = about or ObjectName.parse(row["object"])
            if within(rule, broker, about):
                severity, saw, advice, since = found
                yield Observation(kind, row["object"], severity, saw, advice, about, since)


#: Severity, evidence, recommended action, start (None: when it is first observed).
_Found = tuple[str, str, str, dt.datetime | None] | None


def _overfull(row: Row, rule: Rule, known: Known) -> _Found:
    if not (row["state"] or "").startswith("OVERFULL"):
        return None
    depth, blocked = _messages(row["depth_messages"]), _count(row["blocked_producers"])
    saw = f"The queue is overfull: {depth}; blocked producers: {blocked}."
    return "trouble", saw, "Check why it is blocked, and its consumers.", _moment(row.get("overfull_since"))


def _blocked(row: Row, rule: Rule, known: Known) -> _Found:
    if not row["blocked_producers"]:
        return None
    saw = f"Blocked producers: {row['blocked_producers']:,} of {_count(row['producers'])}."
    # No start: the queue may have been overfull or stopped for hours before a producer attached and was blocked.
    return "trouble", saw, "Check why they are blocked.", None


def _stopped(row: Row, rule: Rule, known: Known) -> _Found:
    if not (row["state"] or "").endswith("STOPPED"):
        return None
    reasons = [
        f"{s.get('reason') or 'no reason given'} ({s.get('actor') or 'the broker'})" for s in row.get("stops") or ()
    ]
    saw = f"Its producers are stopped: {'; '.join(reasons)}." if reasons else "Its producers are stopped."
    return "warning", saw, "Start them again, unless the stop is intended.", _moment(row.get("stopped_since"))


def _consumers_lost(row: Row, rule: Rule, known: Known) -> _Found:
    if row.get("consumers") != 0 or row["object"] not in known.consumed:  # unknown is not none
        return None
    saw = f"The queue had consumers and has none now. Depth: {_messages(row['depth_messages'])}."
    return "trouble", saw, "Check that its consumers are running and can connect.", None


def _dead_letters(row: Row, rule: Rule, known: Known) -> _Found:
    if row["object"] not in known.dead_letter_queues or not row["depth_messages"]:
        return None
    saw = f"Dead letters in the queue: {row['depth_messages']:,}."
    return "warning", saw, "Inspect the messages, fix the cause, then consume them.", None


def _oldest(row: Row, rule: Rule, known: Known) -> _Found:
    at = row.get("oldest_message_at")
    if at is None or known.now - at <= rule.message_age * 1000:
        return None
    # No start: each time that a message is consumed, another one is the oldest, while the condition continues.
    saw = f"Its oldest message is {age_text((known.now - at) // 1000)} old, above {age_text(rule.message_age)}."
    return "warning", saw, "Check whether its consumers keep up, or wait for a message that they cannot process.", None


def _deep(row: Row, rule: Rule, known: Known) -> _Found:
    if row["depth_messages"] is None or row["depth_messages"] <= rule.depth:
        return None
    saw = f"Its depth is {_messages(row['depth_messages'])}, above {rule.depth:,}."
    return "warning", saw, "Check whether its consumers keep up.", None


def _filled(row: Row, rule: Rule, known: Known) -> _Found:
    for unit in ("messages", "bytes"):
        depth, capacity = row.get(f"depth_{unit}"), row.get(f"effective_capacity_{unit}")
        if depth and capacity and 100 * depth > rule.depth_percent * capacity:
            saw = (
                f"Its depth is {depth:,} of {capacity:,} {unit}, {100 * depth // capacity}% of the capacity,"
                f" above {rule.depth_percent}%."
            )
            return "warning", saw, "Check whether its consumers keep up.", None
    return None


_FINDERS: Mapping[str, Callable[[Row, Rule, Known], _Found]] = {
    OVERFULL: _overfull,
    BLOCKED: _blocked,
    STOPPED: _stopped,
    CONSUMERS_LOST: _consumers_lost,
    DEAD_LETTERS: _dead_letters,
    OLDEST: _oldest,
    DEPTH: _deep,
    FILLED: _filled,
}


def age_text(seconds: int) -> str:
    """Return a duration in its two largest units: 2 h 5 min."""
    units = [("d", 86400), ("h", 3600), ("min", 60), ("s", 1)]
    parts: list[str] = []
    for number, (unit, size) in enumerate(units):
        if seconds >= size or unit == "s":
            parts.append(f"{seconds // size} {unit}")
            if number + 1 < len(units) and (rest := seconds % size // units[number + 1][1]):
                parts.append(f"{rest} {units[number + 1][0]}")
            break
    return " ".join(parts)


def _count(value: int | None) -> str:
    """Return a number for people; some kinds of brokers do not report it."""
    return "unknown" if value is None else f"{value:,}"


def _messages(count: int | None) -> str:
    return f"{_count(count)} {'message' if count == 1 else 'messages'}"


def _moment(ms: int | None) -> dt.datetime | None:
    return None if ms is None else dt.datetime.fromtimestamp(ms / 1000, dt.UTC)


def dead_letter_queues(rows: Iterable[Row], scopes: Iterable[Row]) -> frozenset[str]:
    """Return the object names, as text, of queues that are the dead-letter queue of a queue or of a scope that queues
    inherit from: virtual host, pattern, exchange or broker. The broker's setting applies in every virtual host."""
    named = {(scope.get("virtualhost") or scope.get("host") or "", scope.get("dead_letter_queue")) for scope in scopes}
    listed = list(rows)
    named |= {(row["virtualhost"], row.get("dead_letter_queue")) for row in listed}
    return frozenset(
        row["object"] for row in listed if (row["virtualhost"], row["name"]) in named or ("", row["name"]) in named
    )
