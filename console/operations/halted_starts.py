"""A staged start that halted leaves a row in the audit trail, by the system: it stopped what a person had started.

The broker says so in the stop that is then in force. One process looks, beside the alerts (`manage.py beat`), and the
rows themselves tell what has been recorded: a look that is repeated, after a restart say, records nothing twice.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, connection

from brokers.model import ObjectName
from console.audit.models import AuditEntry, Outcome
from console.links.registry import BrokerLink
from console.permissions.rights import host_of

log = logging.getLogger(__name__)

OPERATION = "staged-start-halted"
#: The name in the row: a person's has no brackets.
SYSTEM = "(system)"


@dataclass
class HaltedStarts:
    """`look` once a second."""

    links: Callable[[], list[BrokerLink]]

    def run(self, ended: Callable[[], bool], pause: Callable[[float], object]) -> None:
        try:
            while not ended():
                try:
                    self.look()
                except DatabaseError:  # the next look finds the same stops
                    log.exception("halted staged starts could not be recorded")
                pause(1.0)
        finally:
            connection.close()

    def look(self) -> None:
        for link in self.links():
            for stop in (link.broker or {}).get("stops") or ():
                if stop.get("halted") and not self._is_recorded(link.slug, stop):
                    _record(link.slug, stop)

    def _is_recorded(self, broker: str, stop: Mapping[str, Any]) -> bool:
        rows = AuditEntry.objects.filter(broker=broker, object=stop["object"], operation=OPERATION)
        return rows.filter(after__stops__0__scope=stop["scope"], after__stops__0__since=stop["since"]).exists()


def _record(broker: str, stop: Mapping[str, Any]) -> None:
    halted = stop["halted"]
    start = (
        AuditEntry.objects.filter(
            broker=broker, operation="start-producers", outcome=Outcome.DONE, user_name=halted["actor"]
        )
        .filter(reason=halted["reason"].strip())
        .first()
    )
    begun = dt.datetime.fromtimestamp(halted["since"] / 1000, dt.UTC)
    AuditEntry(
        user_name=SYSTEM,
        broker=broker,
        virtualhost=host_of(ObjectName.parse(stop["object"])) or "",
        object=stop["object"],
        operation=OPERATION,
        reason=stop["reason"],
        after={"stops": [dict(stop)]},
        outcome=Outcome.DONE,
        detail=f"staged start of {stop['scope']} by {halted['actor'] or 'an unknown user'}"
        f" at {begun:%Y-%m-%d %H:%M:%S} UTC{f' (audit row {start.pk})' if start else ''}",
    ).save()


def begin(ended: threading.Event) -> threading.Thread:
    """The looking in a thread of this process."""
    from console.links.registry import links

    looks = HaltedStarts(links)
    thread = threading.Thread(target=looks.run, args=(ended.is_set, ended.wait), name="halted-starts", daemon=True)
    thread.start()
    return thread
