"""The plain conditions of a queue that a rule may name: overfull, producers blocked, stopped, dead letters, depth.

Nothing need be wrong with such a queue, so the console does not show them as conditions; a rule says for how long one
must last before that is too long. Pure: rows in, what is seen out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from brokers.model import ObjectName
from console.alerts.judging import Seen, within
from console.alerts.models import Rule

Row = Mapping[str, Any]

OVERFULL, BLOCKED, STOPPED = "overfull", "producers-blocked", "stopped"
DEAD_LETTERS, DEPTH = "dead-letters", "depth-above"

#: kind -> title for people.
PLAIN: Mapping[str, str] = {
    OVERFULL: "Overfull",
    BLOCKED: "Producers blocked",
    STOPPED: "Stopped by an operator",
    DEAD_LETTERS: "Dead-letter queue not empty",
    DEPTH: "Depth above a number of messages",
}


def of_rule(rule: Rule, broker: str, rows: Iterable[Row], dead_letter_queues: Collection[str]) -> Iterator[Seen]:
    """What the rule is about in these queues. `dead_letter_queues`: texts of object names."""
    kinds = [kind for kind in PLAIN if kind in rule.kinds]
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
                yield Seen(kind, row["object"], severity, saw, advice, about, since)


#: Severity, what was seen, what to do, since when (None: since it was seen first).
_Found = tuple[str, str, str, dt.datetime | None] | None


def _overfull(row: Row, rule: Rule, dead: Collection[str]) -> _Found:
    if not row["state"].startswith("OVERFULL"):
        return None
    saw = f"It is overfull: {row['depth_messages']:,} messages wait; blocked producers: {row['blocked_producers']:,}."
    return "trouble", saw, "See why it is blocked, and what its consumers do.", _moment(row.get("overfull_since"))


def _blocked(row: Row, rule: Rule, dead: Collection[str]) -> _Found:
    if not row["blocked_producers"]:
        return None
    saw = f"Blocked producers: {row['blocked_producers']:,} of {row['producers']:,}."
    since = [at for at in (row.get("overfull_since"), row.get("stopped_since")) if at]
    return "trouble", saw, "See why they are blocked.", _moment(min(since, default=None))


def _stopped(row: Row, rule: Rule, dead: Collection[str]) -> _Found:
    if not row["state"].endswith("STOPPED"):
        return None
    whys = [
        f"{s.get('reason') or 'no reason given'} ({s.get('actor') or 'the broker'})" for s in row.get("stops") or ()
    ]
    saw = f"Its producers are stopped: {'; '.join(whys)}." if whys else "Its producers are stopped."
    return "warning", saw, "Start them again, unless they are stopped on purpose.", _moment(row.get("stopped_since"))


def _dead_letters(row: Row, rule: Rule, dead: Collection[str]) -> _Found:
    if row["object"] not in dead or not row["depth_messages"]:
        return None
    saw = f"Dead letters wait in it: {row['depth_messages']:,}."
    return "warning", saw, "Look at the messages: consume them once their cause is mended.", None


def _deep(row: Row, rule: Rule, dead: Collection[str]) -> _Found:
    if row["depth_messages"] <= rule.depth:
        return None
    saw = f"Its depth is {row['depth_messages']:,} messages, above {rule.depth:,}."
    return "warning", saw, "See whether its consumers keep up.", None


_FINDERS: Mapping[str, Callable[[Row, Rule, Collection[str]], _Found]] = {
    OVERFULL: _overfull,
    BLOCKED: _blocked,
    STOPPED: _stopped,
    DEAD_LETTERS: _dead_letters,
    DEPTH: _deep,
}


def _moment(ms: int | None) -> dt.datetime | None:
    return None if ms is None else dt.datetime.fromtimestamp(ms / 1000, dt.UTC)


def dead_letter_queues(rows: Iterable[Row], scopes: Iterable[Row]) -> frozenset[str]:
    """Texts of the names of the queues that are set as the dead-letter queue of a queue, or of a scope that queues
    inherit from: virtual hosts, patterns, exchanges, the broker. One of the broker is one in every virtual host."""
    named = {(scope.get("virtualhost") or scope.get("host") or "", scope.get("dead_letter_queue")) for scope in scopes}
    listed = list(rows)
    named |= {(row["virtualhost"], row.get("dead_letter_queue")) for row in listed}
    return frozenset(
        row["object"] for row in listed if (row["virtualhost"], row["name"]) in named or ("", row["name"]) in named
    )
