"""Why producers are blocked, as texts of all kinds of brokers: `reasons` of producers, `shortages` of brokers.

- `queue-overfull:NAME`: a queue is above its stop level; NAME is the queue's.
- `operator-stop:SCOPE`: an operator has stopped the producers of a scope.
- `RESOURCE-overfull`: the broker uses more of a resource than its limit; with ` on NODE` for a node of a cluster. Such
  a text is a shortage.
- `connection-flow`: the broker throttles the connection, since it sends faster than queues or disks take its messages.
- `inferred: SENTENCE`: that the producer is blocked follows from what was observed, and is not reported.
- `unknown: SENTENCE`: the broker does not report the reason; what it can be.
"""

from __future__ import annotations

from dataclasses import dataclass

QUEUE_OVERFULL, OPERATOR_STOP, CONNECTION_FLOW = "queue-overfull", "operator-stop", "connection-flow"
INFERRED, UNKNOWN, SHORTAGE = "inferred", "unknown", "shortage"

#: Resources with a limit that blocks producers, and what counts against it.
RESOURCES = {
    "memory": "messages in memory",
    "store": "stored messages on disk",
    "temp": "spooled messages on disk",
    "disk": "the disk in use",
}

_OVERFULL, _ON = "-overfull", " on "


@dataclass(frozen=True, slots=True)
class Shortage:
    """A resource of which a broker uses more than its limit. `node`: of a cluster; "": the broker."""

    resource: str
    node: str = ""

    def __str__(self) -> str:
        return f"{self.resource}{_OVERFULL}" + (f"{_ON}{self.node}" if self.node else "")

    @classmethod
    def parse(cls, text: str) -> Shortage | None:
        """Return the shortage that a text says; None: it says none."""
        what, _, node = text.partition(_ON)
        return cls(what.removesuffix(_OVERFULL), node) if what.endswith(_OVERFULL) and ":" not in what else None


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason as its kind (see the module; `shortage` for any) and what follows it."""

    kind: str
    subject: str = ""

    @classmethod
    def parse(cls, text: str) -> Reason:
        """Never fails: a text of another form is of kind `unknown`."""
        if Shortage.parse(text) is not None:
            return cls(SHORTAGE, text)
        kind, _, subject = text.partition(":")
        if kind in (QUEUE_OVERFULL, OPERATOR_STOP, CONNECTION_FLOW, INFERRED, UNKNOWN):
            return cls(kind, subject.strip())
        return cls(UNKNOWN, text)
