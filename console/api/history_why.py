"""Reasons of operators' edits: brokers report the actor and the change, the console's audit trail has the reason."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from typing import Any

from console.audit.models import AuditEntry, Outcome
from console.history.storage.reader import moment

#: An event has the broker's time, its audit row the console's time of completion.
_TOLERANCE = dt.timedelta(seconds=15)
_OPERATOR_EVENTS = frozenset({"policy-changed", "queue-purged", "queue-created", "queue-deleted"})


def render_events(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of `incident.page` for the API: edited values as maps, and reasons from the audit trail."""
    events = [{**row, "before": _map(row["before"]), "after": _map(row["after"])} for row in rows]
    without = [event for event in events if event["kind"] in _OPERATOR_EVENTS and not event["reason"]]
    if without:
        _add_reasons(without)
    return events


def _map(text: str | None) -> dict[str, Any] | None:
    try:
        found = json.loads(text) if text else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _add_reasons(events: list[dict[str, Any]]) -> None:
    times = [moment(event["at"]) for event in events]
    entries = AuditEntry.objects.filter(
        broker__in={event["broker"] for event in events},
        object__in={event["object"] for event in events if event["object"]},
        outcome__in=(Outcome.DONE, Outcome.UNKNOWN),
        at__range=(min(times) - _TOLERANCE, max(times) + _TOLERANCE),
    ).exclude(reason="")[:2000]
    by_object: dict[tuple[str, str], list[AuditEntry]] = {}
    for entry in entries:
        by_object.setdefault((entry.broker, entry.object), []).append(entry)
    for event, at in zip(events, times, strict=True):
        near = [
            entry
            for entry in by_object.get((event["broker"], event["object"] or ""), [])
            if abs(entry.at - at) <= _TOLERANCE and event["actor"] in (None, "", entry.user_name)
        ]
        if near:
            event["reason"] = min(near, key=lambda entry: abs(entry.at - at)).reason
