"""Messages of a notification: JSON for webhooks, text for e-mail, and what all formats share."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

from django.utils.http import urlencode

from brokers.model import NOTIFICATIONS, ObjectName
from console.alerts.models import Alert, Notification
from console.alerts.queue_conditions import QUEUE_CONDITIONS
from console.alerts.recording import NOT_RECORDING
from console.alerts.transitions import UNREACHABLE
from console.conditions.detectors import DETECTORS

#: Objects that a notification lists at most.
MAX_ITEMS = 100

_PHASES = {"firing": "Firing", "resolved": "Resolved", "event": "Event", "test": "Test"}


def titles() -> dict[str, str]:
    """Return the title of each condition and event that a rule can have, by kind."""
    return {
        **{kind: detector.title for kind, detector in DETECTORS.items()},
        UNREACHABLE: "Broker unreachable",
        NOT_RECORDING: "History not recording",
        **QUEUE_CONDITIONS,
        **{kind: kind.replace("-", " ").capitalize() for kind in NOTIFICATIONS},
    }


def short_name(name: str) -> str:
    """Return the key values of an object name, such as default/orders or, for the virtual host `/`, /orders."""
    return ObjectName.parse(name).label or "the broker"


def item(alert: Alert, title: str) -> dict[str, Any]:
    return {
        "kind": alert.kind,
        "title": title,
        "object": alert.object,
        "name": short_name(alert.object),
        "severity": alert.severity,
        "saw": alert.saw,
        "advice": alert.advice,
        "since": alert.since.isoformat(),
        "ended": alert.ended.isoformat() if alert.ended else None,
        "events": alert.count,
    }


def items(alerts: Iterable[Alert]) -> list[dict[str, Any]]:
    """Return the affected objects of a notification, the most severe first, at most `MAX_ITEMS`."""
    title_of = titles()
    ordered = sorted(alerts, key=lambda a: (a.severity != "trouble", a.since, a.object))
    return [item(alert, title_of.get(alert.kind, alert.kind)) for alert in ordered[:MAX_ITEMS]]


def payload(notification: Notification, console_url: str) -> dict[str, Any]:
    """Return the body of a webhook's request. `console_url`: as of `console_url.py`."""
    return {
        "id": str(notification.id),
        "phase": notification.phase,
        "at": notification.at.isoformat(),
        "rule": notification.rule_name,
        "broker": notification.broker,
        "summary": subject(notification),
        "count": notification.count,
        "items": [{**each, "url": link_of(console_url, notification, each)} for each in notification.items],
    }


def subject(notification: Notification) -> str:
    """Return the summary of a notification in one line."""
    if notification.phase == "test":
        return "Test: Headgate can reach this receiver"
    first = notification.items[0]
    more = f" and {notification.count - 1:,} more" if notification.count > 1 else ""
    return f"{_PHASES[notification.phase]}: {first['title']}: {first['name']}{more} ({notification.broker})"


def text(notification: Notification, console_url: str) -> str:
    """Return the body of an e-mail."""
    lines = [subject(notification), ""]
    for each in notification.items:
        lines.append(f"{each['title']}: {each['name']}")
        if each["events"] > 1:
            lines.append(f"  {each['events']:,} times; the last:")
        lines += [f"  {sentence}" for sentence in (each["saw"], each["advice"]) if sentence]
        since = dt.datetime.fromisoformat(each["since"])
        lines.append(
            f"  since {since:%Y-%m-%d %H:%M:%S} UTC"
            if notification.phase != "event"
            else f"  {since:%Y-%m-%d %H:%M:%S} UTC"
        )
        if url := link_of(console_url, notification, each):
            lines.append(f"  {url}")
        lines.append("")
    if notification.count > len(notification.items) > 0:
        lines += [f"and {notification.count - len(notification.items):,} more", ""]
    lines.append(
        f"Rule: {notification.rule_name}"
        if notification.rule_name
        else "Test message from the Alerts page of the console."
    )
    return "\n".join(lines) + "\n"


def link_of(console_url: str, notification: Notification, each: dict[str, Any]) -> str:
    """Return the URL of the page about an affected object; empty while that of the console is not known."""
    if not console_url:
        return ""
    target = {"object": each["object"], "broker": notification.broker}
    page = "why" if each["object"].startswith("type=Queue") else "timeline"
    query = target if page == "why" else {"broker": notification.broker}
    return f"{console_url.rstrip('/')}/{page}/?{urlencode(query)}"
