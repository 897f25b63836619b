"""The stops of an added broker that would be left behind when it is removed, paused or gets another address.

They are read from the records, which the database has also while no process polls the broker.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from brokers.adapters.records import Stop, StoppedTarget
from brokers.admin import AdminError
from brokers.model import scope_label
from console.brokers.models import BrokerRecords, BrokerStop


class StopsInForce(AdminError):
    """The change would leave stops behind. `stops`: see `stops_of`."""

    def __init__(self, slug: str, consequence: str, stops: Sequence[Mapping[str, Any]]) -> None:
        listed = "; ".join(in_words(stop) for stop in stops[:5])
        more = f" and {len(stops) - 5} more" if len(stops) > 5 else ""
        super().__init__(
            f"producers of {slug} are stopped ({listed}{more}): {consequence}. Start them first, or confirm to leave"
            " the stops"
        )
        self.stops = [dict(stop) for stop in stops]


def stops_of(slug: str) -> list[dict[str, Any]]:
    """Return the stops in force: {scope, object, pattern, reason, actor, since, until, below, …}. One without `object`
    stands for producers that were started but whose start has not reached the broker."""
    rows = BrokerStop.objects.filter(slug=slug).order_by("pk").values_list("part", "record")
    records = [(part, json.loads(record)) for part, record in rows if part in ("stop", "target")]
    found = [Stop.from_record(record).as_json() for part, record in records if part == "stop"]
    pending = [each for part, each in records if part == "target" and not StoppedTarget.from_record(each).scopes]
    if pending:
        found.append({"scope": f"{len(pending)} queues or addresses that the start has not reached", "reason": ""})
    return found


def in_words(stop: Mapping[str, Any]) -> str:
    """Return a stop as a phrase: scope, reason and user."""
    why = f": {stop['reason']}" if stop.get("reason") else ""
    by = f", by {stop['actor']}" if stop.get("actor") else ""
    return f"{scope_label(stop['scope'])}{why}{by}"


def leave_stops(slug: str) -> None:
    """Forget the stops of a broker, which stay in force there: a broker that is added later under this slug must not
    get them. The process that polls it now cannot write them any more."""
    BrokerRecords.objects.filter(slug=slug).update(writer=uuid.uuid4().hex)
    BrokerStop.objects.filter(slug=slug).delete()
