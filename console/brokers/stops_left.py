"""The stops of an added broker that would be left behind when it is removed, paused or gets another address.

They are read from the records, in the database or in the broker's file, also while no process polls the broker.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings

from brokers.adapters.file_records import FILES
from brokers.adapters.records import Stop, StoppedTarget, StoreError
from brokers.adapters.store import AdapterStore, stored_stops
from brokers.admin import AdminError
from brokers.model import scope_label
from console.brokers.models import BrokerRecords, BrokerStop, ForeignBroker


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
    stops = [Stop.from_record(record) for part, record in records if part == "stop"]
    targets = [StoppedTarget.from_record(record) for part, record in records if part == "target"]
    try:
        more, more_targets = _in_file(slug)
    except StoreError as error:  # there may be some: they are left behind only with a confirmation
        return [*_as_json(stops, targets), {"scope": f"unknown: {error}", "reason": ""}]
    return _as_json([*stops, *more], [*targets, *more_targets])


def _as_json(stops: Iterable[Stop], targets: Iterable[StoppedTarget]) -> list[dict[str, Any]]:
    found = [stop.as_json() for stop in stops]
    if pending := sum(1 for target in targets if not target.scopes):
        found.append({"scope": f"{pending} queues or addresses that the start has not reached", "reason": ""})
    return found


def _in_file(slug: str) -> tuple[list[Stop], list[StoppedTarget]]:
    """Return what the broker's file has, which is there with SQLite, or until it is imported. Raises StoreError."""
    pk = ForeignBroker.objects.filter(slug=slug).values_list("pk", flat=True).first()
    return ([], []) if pk is None else stored_stops(_file(slug), str(pk))


def _file(slug: str) -> Path:
    return Path(settings.HEADGATE_ADAPTERS["data"]) / slug / FILES[0]


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


def leave_in_file(slug: str) -> None:
    """The same for the broker's file, once the broker is removed. The process that polls it now may still write stops,
    to a file that has no owner any more."""
    if _file(slug).exists():
        with contextlib.suppress(StoreError):  # the next broker is another owner, and does not get them either
            store = AdapterStore(_file(slug))
            try:
                store.abandon()
            finally:
                store.close()
