"""The end of what is known of a broker when another one answers at its address: events that no broker sends. Pure.

Another event journal is another broker, such as one with a new data folder. What the earlier one had blocked, overfull
or stopped would be ongoing for good, as no event of the new one ends it. So two events precede its first one: of a
restart, which is no evidence of a state, and of a start of all producers.
"""

from __future__ import annotations

from brokers.admin import Event
from brokers.model import object_name
from console.history.record.position import Position

_BROKER = object_name("Broker")
_TEXT = "Another broker, or one with another event journal, answers at this address"


def closing_events(earlier: Position, journal: str, first: Event, known_until: int, at: int) -> tuple[Event, ...]:
    """Return the events before `first`, the first one of `journal`, with numbers below those of brokers. `earlier`: the
    last event of the earlier journal; `known_until`: the end of what was recorded of it; times in ms.

    The restart is at `at`, when all that was recorded of the earlier broker is past. If the brokers ran at the same
    time, there is no start: it would lift stops of the new broker, too, so the earlier ones stay open."""
    attributes = {"journal": journal, "earlier_journal": earlier.journal}
    restarted = Event(0, at, "broker-ready", _BROKER, _TEXT, attributes)
    if first.at < max(earlier.at, known_until):
        return (restarted,)
    started = {**attributes, "scope": "broker", "reason": _TEXT}
    return Event(-1, first.at, "producers-started", _BROKER, _TEXT, started), restarted
