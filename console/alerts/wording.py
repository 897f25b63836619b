"""What receivers are told: one shape for webhooks, one text for e-mail, made from the same notification."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.utils.http import urlencode

from brokers.model import NOTIFICATIONS, ObjectName
from console.alerts.judging import UNREACHABLE
from console.alerts.models import Alert, Notification
from console.alerts.plain import PLAIN
from console.conditions.detectors import DETECTORS

#: Objects that one notification names.
NAMED = 100

_PHASES = {"firing": "Firing", "resolved": "Resolved", "event": "Event", "test": "Test"}


def titles() -> dict[str, str]:
    """For people: every kind that a rule may name."""
    return {
        **{kind: detector.title for kind, detector in DETECTORS.items()},
        UNREACHABLE: "Broker cannot be reached",
        **PLAIN,
        **{kind: kind.replace("-", " ").capitalize() for kind in NOTIFICATIONS},
    }


def short(name: str) -> str:
    about = ObjectName.parse(name)
    return "/".join(value for _, value in about.keys) or "the broker"


def item(alert: Alert, title: str) -> dict[str, Any]:
    return {
        "kind": alert.kind,
        "title": title,
        "object": alert.object,
        "name": short(alert.object),
        "severity": alert.severity,
        "saw": alert.saw,
        "advice": alert.advice,
        "since": alert.since.isoformat(),
        "ended": alert.ended.isoformat() if alert.ended else None,
        "events": alert.count,
    }


def items(alerts: Iterable[Alert]) -> list[dict[str, Any]]:
    named = titles()
    ordered = sorted(alerts, key=lambda a: (a.severity != "trouble", a.since, a.object))
    return [item(alert, named.get(alert.kind, alert.kind)) for alert in ordered[:NAMED]]


def payload(told: Notification) -> dict[str, Any]:
    """The body of a webhook's request."""
    return {
        "id": str(told.id),
        "phase": told.phase,
        "at": told.at.isoformat(),
        "rule": told.rule_name,
        "broker": told.broker,
        "summary": subject(told),
        "count": told.count,
        "items": [{**each, "url": _url(told, each)} for each in told.items],
    }


def subject(told: Notification) -> str:
    if told.phase == "test":
        return "Test: Headgate can reach you"
    first = told.items[0]
    more = f" and {told.count - 1:,} more" if told.count > 1 else ""
    return f"{_PHASES[told.phase]}: {first['title']}: {first['name']}{more} ({told.broker})"


def text(told: Notification) -> str:
    """The body of an e-mail."""
    lines = [subject(told), ""]
    for each in told.items:
        lines.append(f"{each['title']}: {each['name']}")
        if each["events"] > 1:
            lines.append(f"  {each['events']:,} times; the last:")
        lines += [f"  {sentence}" for sentence in (each["saw"], each["advice"]) if sentence]
        since = dt.datetime.fromisoformat(each["since"])
        lines.append(
            f"  since {since:%Y-%m-%d %H:%M:%S} UTC" if told.phase != "event" else f"  {since:%Y-%m-%d %H:%M:%S} UTC"
        )
        if url := _url(told, each):
            lines.append(f"  {url}")
        lines.append("")
    if told.count > len(told.items) > 0:
        lines += [f"and {told.count - len(told.items):,} more", ""]
    lines.append(f"Rule: {told.rule_name}" if told.rule_name else "Sent by hand, from the console's page of alerts.")
    return "\n".join(lines) + "\n"


def _url(told: Notification, each: dict[str, Any]) -> str:
    if not settings.HEADGATE_URL:
        return ""
    about = {"object": each["object"], "broker": told.broker}
    page = "why" if each["object"].startswith("type=Queue") else "timeline"
    asked = about if page == "why" else {"broker": told.broker}
    return f"{settings.HEADGATE_URL.rstrip('/')}/{page}/?{urlencode(asked)}"
