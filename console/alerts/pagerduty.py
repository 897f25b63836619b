"""Events for PagerDuty (Events API v2), their deduplication keys, and its responses.

The alerts of a rule at a broker share an incident: a notification about firing ones triggers it, and the one after
which none of them fires any more resolves it. Events of a broker, which do not end, have an incident of their own.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from brokers.input_checks import shortened
from console.alerts.messages import link_of, subject
from console.alerts.models import Notification
from console.alerts.slack import cut
from console.alerts.webhook import Response

#: URL by region of the PagerDuty account.
REGIONS = {"us": "https://events.pagerduty.com/v2/enqueue", "eu": "https://events.eu.pagerduty.com/v2/enqueue"}
#: Length of a routing key, characters.
KEY_LENGTH = 32
#: Objects that an event lists at most, and links.
MAX_OBJECTS = 20
_SUMMARY = 1024


def action(notification: Notification) -> str:
    """Return `trigger` or `resolve`; empty: other alerts of the rule still fire, so that the incident remains."""
    if notification.phase != "resolved":
        return "trigger"
    return "" if notification.still_firing else "resolve"


def event(notification: Notification, routing_key: str, namespace: str, console_url: str) -> dict[str, Any]:
    """Return the event of a notification with an action. `namespace`: distinguishes receivers and installations that
    share a routing key."""
    made = {
        "routing_key": routing_key,
        "event_action": action(notification),
        "dedup_key": _key(notification, namespace),
    }
    if made["event_action"] == "resolve":
        return made
    worst = any(each["severity"] == "trouble" for each in notification.items)
    severity = "info" if notification.phase == "test" else "critical" if worst else "warning"
    details = {
        f"{each['title']}: {cut(each['name'], 300)}"[:500]: cut(" ".join((each["saw"], each["advice"])).strip(), 800)
        for each in notification.items[:MAX_OBJECTS]
    }
    more = notification.count - min(len(notification.items), MAX_OBJECTS)
    links = [
        {"href": url, "text": cut(each["name"], 100)}
        for each in notification.items[:MAX_OBJECTS]
        if (url := link_of(console_url, notification, each))
    ]
    payload: dict[str, Any] = {
        "summary": cut(subject(notification), _SUMMARY),
        "source": notification.broker,
        "severity": severity,
        "timestamp": notification.at.isoformat(),
        "custom_details": {**details, **({"more": f"{more:,} more objects"} if more > 0 else {})},
    }
    if notification.items:
        payload |= {"component": cut(notification.items[0]["name"], 255), "class": notification.items[0]["title"]}
    if notification.rule_name:
        payload["group"] = notification.rule_name
    client = {"client": "Headgate", **({"client_url": console_url} if console_url else {})}
    return {**made, "payload": payload, "links": links, **client}


def resolution(opened: dict[str, Any]) -> dict[str, Any]:
    """Return the event that resolves what an event has triggered."""
    return {**{name: opened[name] for name in ("routing_key", "dedup_key")}, "event_action": "resolve"}


def check(response: Response) -> str:
    """Return the outcome of a delivery. Raises Refused."""
    said: Any = None
    with suppress(ValueError):
        said = json.loads(response.text)
    said = said if isinstance(said, dict) else {}
    if response.is_success and said.get("status") == "success":
        return f"{response}: PagerDuty accepted it"
    errors = said.get("errors") if isinstance(said.get("errors"), list) else []
    parts = [str(part) for part in (said.get("message"), *errors) if part] or [" ".join(response.text.split())]
    why = shortened("; ".join(parts), 300) or "an empty response"
    raise response.refused(f"PagerDuty did not accept it: {why}", permanent=False if response.is_success else None)


def _key(notification: Notification, namespace: str) -> str:
    about = notification.incident
    if notification.phase == "test":
        about = f"test/{notification.id}"
    elif notification.phase == "event":
        about = f"{about}/events"
    return f"headgate/{namespace}/{about}"
