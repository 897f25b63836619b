"""The conditions and events of all brokers, merged. Pure. Times are those of the brokers' clocks."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any

from console.conditions.active import Condition
from console.live.conditions import USUAL, filtered, page_of
from console.live.fleet.members import Member
from console.live.watching import event_json


def conditions_page(
    members: Sequence[Member], *, newest: bool = False, page: int = 1, size: int = USUAL, **filters: str
) -> dict[str, Any]:
    """Return {count, page, page_size, results, kinds} as `console.live.conditions.conditions_page`, with `broker` and
    `broker_title` in each condition; the most severe first, then the newest, or all by time (`newest`)."""
    everything = [(member, member.link.conditions()) for member in members if member.link.as_of is not None]
    found = [(condition, member) for member, all_ in everything for condition in filtered(all_, **filters)]
    found.sort(key=_by_time if newest else _by_severity)
    kinds = Counter(condition.finding.kind for _, all_ in everything for condition in all_)
    shown = page_of(found, page, size)
    results = [_with_broker(condition.as_json(), member) for condition, member in shown.pop("results")]
    return {**shown, "results": results, "kinds": dict(kinds)}


def newest_events(members: Sequence[Member], count: int) -> list[dict[str, Any]]:
    """Return the newest events of all brokers, at most `count`, the newest first, each with `broker` and
    `broker_title`. From the links' windows: older events are in each broker's journal."""
    return list(islice(heapq.merge(*(_events(m, count) for m in members), key=itemgetter("at"), reverse=True), count))


def stream(members: Sequence[Member], count: int) -> list[dict[str, Any]]:
    """Return the newest conditions and events in one list, the newest first, at most `count`. Each has `entry`:
    "condition" or "event"; the time of a condition, `at`, is when it was first detected."""
    conditions = [
        {"entry": "condition", "at": condition["since"], **condition}
        for condition in conditions_page(members, newest=True, size=count)["results"]
    ]
    events = [{"entry": "event", **event} for event in newest_events(members, count)]
    return list(islice(heapq.merge(conditions, events, key=itemgetter("at"), reverse=True), count))


def _events(member: Member, count: int) -> Iterator[dict[str, Any]]:
    link = member.link
    newest = link.recent_events(link.newest_position(count)).events
    # By time: a broker's clock may have been set back between two of its events.
    for event in sorted(newest, key=lambda event: (event.at, event.number), reverse=True)[:count]:
        yield _with_broker(event_json(event), member)


def _with_broker(row: dict[str, Any], member: Member) -> dict[str, Any]:
    return {"broker": member.slug, "broker_title": member.title, **row}


def _by_time(found: tuple[Condition, Member]) -> tuple[Any, ...]:
    return (-found[0].since, found[1].slug, found[0].finding.object, found[0].finding.kind)


def _by_severity(found: tuple[Condition, Member]) -> tuple[Any, ...]:
    return (found[0].finding.severity != "trouble", *_by_time(found))
