"""Alerts that fire now and were notified: those of which a browser notification is shown."""

from __future__ import annotations

from collections import Counter
from typing import Any

from brokers.model import ObjectName
from console.alerts.messages import short_name, titles
from console.alerts.models import Alert, AlertState
from console.alerts.visibility import can_see_object
from console.permissions.rights import Rights, host_of

#: Alerts of a virtual host, or of a broker as a whole, that are read: no user gets more.
MAX_ALERTS = 200

_COLUMNS = ("pk", "firing_number", "rule__name", "broker", "object", "kind", "saw")


def firing_alerts() -> list[dict[str, Any]]:
    """Return the firing alerts, those notified last first: not during a silence, and not before the rule's own
    notification. A user sees either all or no alerts of a virtual host, so the newest of each one include the newest
    that any user sees. `id`: of this firing; the next one of the same object has another, whatever the clock says."""
    title_of = titles()
    rows = Alert.objects.filter(state=AlertState.FIRING, silenced=False, firing_notified=True)
    found: list[dict[str, Any]] = []
    of_scope: Counter[tuple[str, str | None]] = Counter()
    for alert in rows.order_by("-notified", "-pk").values(*_COLUMNS).iterator():
        scope = alert["broker"], host_of(ObjectName.parse(alert["object"]))
        if of_scope[scope] == MAX_ALERTS:
            continue
        of_scope[scope] += 1
        found.append(
            {
                "id": f"{alert['pk']}-{alert['firing_number']}",
                "rule": alert["rule__name"],
                "broker": alert["broker"],
                "object": alert["object"],
                "name": short_name(alert["object"]),
                "title": title_of.get(alert["kind"], alert["kind"]),
                "saw": alert["saw"],
            }
        )
    return found


def is_visible(rights: Rights, alert: dict[str, Any]) -> bool:
    return can_see_object(rights, alert["broker"], alert["object"])
