"""Write an audit row, by the system, for each staged start that halted: it stopped producers that a user had started.

The stop that the broker creates then has the details. One process checks, beside the alerts (`headgate beat`), and
compares with the rows that exist: a repeated check, for example after a restart, records nothing twice.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, connection

from brokers.model import ObjectName, scope_label
from console.audit.models import AuditEntry, Outcome
from console.links.registry import BrokerLink
from console.permissions.rights import host_of

log = logging.getLogger(__name__)

OPERATION = "staged-start-halted"
#: User name in the row: names of users have no brackets.
SYSTEM = "(system)"


@dataclass
class HaltedStarts:
    """Records the halted staged starts of brokers; `check` is called once a second."""

    links: Callable[[], list[BrokerLink]]

    def run(self, ended: Callable[[], bool], pause: Callable[[float], object]) -> None:
        try:
            while not ended():
                try:
                    self.check()
                except DatabaseError:  # the next check finds the same stops
                    log.exception("cannot record halted staged starts")
                pause(1.0)
        finally:
            connection.close()

    def check(self) -> None:
        """Record the halted staged starts that have no audit row. Raises DatabaseError."""
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
        detail=f"staged start of {scope_label(stop['scope'])} by {halted['actor'] or 'an unknown user'}"
        f" at {begun:%Y-%m-%d %H:%M:%S} UTC{f' (audit row {start.pk})' if start else ''}",
    ).save()


def begin(ended: threading.Event) -> threading.Thread:
    """Start a thread that checks once a second until `ended` is set."""
    from console.links.registry import links

    recorder = HaltedStarts(links)
    thread = threading.Thread(target=recorder.run, args=(ended.is_set, ended.wait), name="halted-starts", daemon=True)
    thread.start()
    return thread
