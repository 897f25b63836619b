"""Operators' stops of single clients, as observations for rules. No queue is stopped by them, so no queue's state shows
them: the condition is one of the object whose producers are stopped in part (a queue, a virtual host, an exchange or
the broker), once for all stops of clients there, since the oldest of them. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator

from brokers.model import ObjectName, scope_label
from brokers.model.stop_operations import CLIENT_ARGUMENTS
from console.alerts.queue_conditions import STOPPED, Row
from console.alerts.transitions import Observation


def client_stops(stops: Iterable[Row]) -> Iterator[Observation]:
    """Yield the condition of each object with stops of clients. `stops`: the attribute of a broker, which has its own
    stops and those of all of its objects."""
    of_object: dict[str, list[Row]] = {}
    for stop in stops:
        if any(stop.get(name) for name in CLIENT_ARGUMENTS):
            of_object.setdefault(str(stop["object"]), []).append(stop)
    for name, found in of_object.items():
        found.sort(key=lambda stop: int(stop["since"]))
        reasons = "; ".join(_text(stop) for stop in found)
        since = dt.datetime.fromtimestamp(found[0]["since"] / 1000, dt.UTC)
        advice = "Start them again, unless the stop is intended."
        about = ObjectName.parse(name)
        yield Observation(
            STOPPED, name, "warning", f"Producers of clients are stopped: {reasons}.", advice, about, since
        )


def _text(stop: Row) -> str:
    reason, actor = stop.get("reason") or "no reason given", stop.get("actor") or "the broker"
    return f"{scope_label(stop['scope'])}: {reason} ({actor})"
