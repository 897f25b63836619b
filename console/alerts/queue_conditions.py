"""Conditions of a queue that only rules have: overfull, producers blocked, stopped, dead letters, depth.

They are normal for a while, so the console does not list them as conditions; a rule's pending period says how long is
too long. Pure: rows of queues in, observations out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from brokers.model import ObjectName
from console.alerts.models import Rule
from console.alerts.transitions import Observation, within

Row = Mapping[str, Any]

OVERFULL, BLOCKED, STOPPED = "overfull", "producers-blocked", "stopped"
DEAD_LETTERS, DEPTH = "dead-letters", "depth-above"

#: Title by kind.
QUEUE_CONDITIONS: Mapping[str, str] = {
    OVERFULL: "Overfull",
    BLOCKED: "Producers blocked",
    STOPPED: "Stopped by an operator",
    DEAD_LETTERS: "Dead-letter queue not empty",
    DEPTH: "Depth above a number of messages",
}


def matching_conditions(
    rule: Rule, broker: str, rows: Iterable[Row], dead_letter_queues: Collection[str]
) -> Iterator[Observation]:
    """Yield the conditions of the rule that these queues meet. `dead_letter_queues`: object names as text."""
    kinds = [kind for kind in QUEUE_CONDITIONS if kind in rule.kinds]
    if not rule.enabled or not kinds:
        return
    for row in rows:
        about = None
        for kind in kinds:
            found = _FINDERS[kind](row, rule, dead_letter_queues)
            if found is None:
                continue
            about = about or ObjectName.parse(row["object"])
            if within(rule, broker, about):
                severity, saw, advice, since = found
                yield Observation(kind, row["object"], severity, saw, advice, about, since)


#: Severity, evidence, recommended action, start (None: when it is first observed).
_Found = tuple[str, str, str, dt.datetime | None] | None


def _overfull(row: Row, rule: Rule, dead: Collection[str]) -> _Found:
    if not (row["state"] or "").startswith("OVERFULL"):
        return None
    depth, blocked = _count(row["depth_messages"]), _count(row["blocked_producers"])
    saw = f"The queue is overfull: {depth} messages; blocked producers: {blocked}."
    return "trouble", saw, "Check why it is blocked, and its consumers.", _moment(row.get("overfull_since"))


def _blocked(row: Row, rule: Rule, dead: Collection[str]) -> _Found:
    if not row["blocked_producers"]:
        return None
    saw = f"Blocked producers: {row['blocked_producers']:,} of {_count(row['producers'])}."
    since = [at for at in (row.get("overfull_since"), row.get("stopped_since")) if at]
    return "trouble", saw, "Check why they are blocked.", _moment(min(since, default=None))


def _stopped(row: Row, rule: Rule, dead: Collection[str]) -> _Found:
    if not (row["state"] or "").endswith("STOPPED"):
        return None
    reasons = [
        f"{s.get('reason') or 'no reason given'} ({s.get('actor') or 'the broker'})" for s in row.get("stops") or ()
    ]
    saw = f"Its producers are stopped: {'; '.join(reasons)}." if reasons else "Its producers are stopped."
    return "warning", saw, "Start them again, unless the stop is intended.", _moment(row.get("stopped_since"))


def _dead_letters(row: Row, rule: Rule, dead: Collection[str]) -> _Found:
    if row["object"] not in dead or not row["depth_messages"]:
        return None
    saw = f"Dead letters in the queue: {row['depth_messages']:,}."
    return "warning", saw, "Inspect the messages, fix the cause, then consume them.", None


def _deep(row: Row, rule: Rule, dead: Collection[str]) -> _Found:
    if row["depth_messages"] is None or row["depth_messages"] <= rule.depth:
        return None
    saw = f"Its depth is {row['depth_messages']:,} messages, above {rule.depth:,}."
    return "warning", saw, "Check whether its consumers keep up.", None


_FINDERS: Mapping[str, Callable[[Row, Rule, Collection[str]], _Found]] = {
    OVERFULL: _overfull,
    BLOCKED: _blocked,
    STOPPED: _stopped,
    DEAD_LETTERS: _dead_letters,
    DEPTH: _deep,
}


def _count(value: int | None) -> str:
    """Return a number for people; some kinds of brokers do not report it."""
    return "unknown" if value is None else f"{value:,}"


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
