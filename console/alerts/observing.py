"""What a link shows of a broker now, as observations for rules: for the evaluator, and for previews by users, whose
links show less."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from brokers.admin import BrokerAdmin, Page
from brokers.model import ObjectName, object_name
from console.alerts.client_stops import client_stops
from console.alerts.queue_conditions import Row, dead_letter_queues
from console.alerts.transitions import UNREACHABLE, Observation
from console.brokers.configured import configured
from console.links.link import BrokerLink

_BROKER = object_name("Broker")
#: Types of scopes that a dead-letter queue can be set for and that the link does not have.
_SCOPES = ("Policy", "Exchange")
#: Patterns and exchanges that are read.
_MAX_SCOPES = 1000


def unreachable(link: BrokerLink) -> Observation:
    """Return the condition of a disconnected broker."""
    saw = f"The console cannot reach the broker: {link.status.error}."
    advice = "Check that the broker is running. Its queues and producers are not visible until it reconnects."
    return Observation(UNREACHABLE, str(_BROKER), "trouble", saw, advice, _BROKER)


def is_paused(link: BrokerLink) -> bool:
    """Return whether an administrator has paused the broker: it is disconnected for that."""
    return any(each["slug"] == link.slug and each.get("paused", False) for each in configured())


def active_conditions(link: BrokerLink) -> list[Observation]:
    """Return the conditions that the console has detected at a connected broker, and its stops of clients."""
    detected = [
        Observation(f.kind, f.object, f.severity, f.saw, f.advice, ObjectName.parse(f.object))
        for f in (condition.finding for condition in link.conditions())
    ]
    return [*detected, *client_stops((link.broker or {}).get("stops") or ())]


def read_scopes(link: BrokerLink) -> list[Row]:
    """Return the patterns and exchanges of a broker, those that it has. Raises AdminError."""
    types = [name for name in _SCOPES if name in link.types]
    return [dict(scope.attributes) for name in types for scope in link.call(_all_of(name)).items]


def dead_letter_queues_of(link: BrokerLink, rows: Iterable[Row], scopes: Iterable[Row]) -> frozenset[str]:
    """Return the object names of dead-letter queues, as text. `scopes`: of `read_scopes`."""
    hosts = [{**host, "virtualhost": host["name"]} for host in link.hosts.values()]
    return dead_letter_queues(rows, [link.broker or {}, *hosts, *scopes])


def _all_of(type_name: str) -> Callable[[BrokerAdmin], Awaitable[Page]]:
    return lambda admin: admin.query(type_name, count=_MAX_SCOPES)
