"""Alerts that fire now and were notified: those of which a browser notification is shown."""

from __future__ import annotations

from typing import Any

from console.alerts.messages import short_name, titles
from console.alerts.models import Alert, AlertState
from console.alerts.visibility import can_see_object
from console.permissions.rights import Rights

#: Alerts that are read at most.
MAX_ALERTS = 200


def firing_alerts() -> list[dict[str, Any]]:
    """Return the newest firing alerts: not during a silence, and not before the rule's own notification. `id`: of this
    firing; the next one of the same object has another."""
    title_of = titles()
    rows = Alert.objects.filter(state=AlertState.FIRING, silenced=False, firing_notified=True).select_related("rule")
    return [
        {
            "id": f"{alert.pk}-{int(alert.since.timestamp())}",
            "rule": alert.rule.name,
            "broker": alert.broker,
            "object": alert.object,
            "name": short_name(alert.object),
            "title": title_of.get(alert.kind, alert.kind),
            "saw": alert.saw,
        }
        for alert in rows.order_by("-since")[:MAX_ALERTS]
    ]


def is_visible(rights: Rights, alert: dict[str, Any]) -> bool:
    return can_see_object(rights, alert["broker"], alert["object"])
