"""Preview of a rule: which objects meet one of its conditions now, as the links of a user show it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from brokers.admin import AdminError
from brokers.model import NOTIFICATIONS, ObjectName
from console.alerts.messages import short_name, titles
from console.alerts.models import ConsumedQueue, Rule
from console.alerts.observing import active_conditions, dead_letter_queues_of, is_paused, read_scopes, unreachable
from console.alerts.queue_conditions import CONSUMERS_LOST, DEAD_LETTERS, QUEUE_CONDITIONS, Known, matching_conditions
from console.alerts.recording import NOT_RECORDING, silence_of
from console.alerts.transitions import Observation, within
from console.links.link import BrokerLink

#: Objects that a preview lists at most.
MAX_OBJECTS = 20


@dataclass(slots=True)
class Preview:
    """`met`: (slug of the broker, observation), the most severe first. `unknown`: brokers of which it is not known,
    each with a sentence. `remarks`: sentences about conditions of which a preview cannot know."""

    met: list[tuple[str, Observation]] = field(default_factory=list)
    unknown: list[tuple[str, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        title_of = titles()
        return {
            "count": len(self.met),
            "objects": [
                {
                    "broker": slug,
                    "object": each.object,
                    "name": short_name(each.object),
                    "kind": each.kind,
                    "title": title_of.get(each.kind, each.kind),
                    "severity": each.severity,
                    "saw": each.saw,
                    "since": each.since,
                }
                for slug, each in self.met[:MAX_OBJECTS]
            ],
            "unknown": [{"broker": slug, "why": why} for slug, why in self.unknown],
            "remarks": self.remarks,
        }


def preview(
    rule: Rule,
    links: Iterable[BrokerLink],
    last_sign: Callable[[str], dt.datetime | None],
    now: dt.datetime,
) -> Preview:
    """Preview an unsaved rule. `links`: as the user may see them; `last_sign`: as for `Recording`."""
    found = Preview()
    kinds = set(rule.kinds)
    for link in links:
        if rule.broker and rule.broker != link.slug:
            continue
        try:
            met = list(_of_link(rule, link, last_sign, now))
        except AdminError as error:
            found.unknown.append((link.slug, f"{link.title}: {error}"))
            continue
        found.met += [(link.slug, each) for each in met if each.kind in kinds and _covers(rule, link, each)]
        if not link.connected and kinds & _NEED_CONNECTION:
            found.unknown.append((link.slug, f"{link.title} cannot be reached: {link.status.error}"))
    found.met.sort(key=lambda each: (each[1].severity != "trouble", each[1].kind, each[0], each[1].object))
    if events := kinds & NOTIFICATIONS.keys():
        found.remarks.append(
            "Events are notified when they happen." if len(events) == len(kinds) else "Events are not included."
        )
    if CONSUMERS_LOST in kinds and not _records_consumers():
        found.remarks.append("Which queues have consumers is recorded from the creation of the rule on.")
    return found


_NEED_CONNECTION = {NOT_RECORDING, *QUEUE_CONDITIONS}


def _of_link(
    rule: Rule, link: BrokerLink, last_sign: Callable[[str], dt.datetime | None], now: dt.datetime
) -> Iterable[Observation]:
    if not link.connected:
        if not is_paused(link):
            yield unreachable(link)
        return
    yield from active_conditions(link)
    if NOT_RECORDING in rule.kinds and (silent := silence_of(last_sign, link.slug, now)) is not None:
        yield silent
    if QUEUE_CONDITIONS.keys() & set(rule.kinds):
        rows = link.queues()
        dead = dead_letter_queues_of(link, rows, read_scopes(link)) if DEAD_LETTERS in rule.kinds else frozenset()
        consumed: frozenset[str] = frozenset()
        if CONSUMERS_LOST in rule.kinds:
            consumed = frozenset(ConsumedQueue.objects.filter(broker=link.slug).values_list("object", flat=True))
        yield from matching_conditions(rule, link.slug, rows, Known(link.broker_now, dead, consumed))


def _covers(rule: Rule, link: BrokerLink, each: Observation) -> bool:
    return within(rule, link.slug, each.about or ObjectName.parse(each.object))


def _records_consumers() -> bool:
    return any(CONSUMERS_LOST in kinds for kinds in Rule.objects.filter(enabled=True).values_list("kinds", flat=True))
