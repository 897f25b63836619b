"""Random histories of one broker as landing rows with times in ms: few names, times that coincide, all that happens."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from console.history.rollups.broker import SAMPLE_COLUMNS

Row = dict[str, Any]

#: A whole hour.
START = 1_773_489_600_000
MINUTE, HOUR = 60_000, 3_600_000

_STATES = ("NORMAL", "OVERFULL", "STOPPED", "OVERFULL_STOPPED", None)
_SCOPES = (
    "broker",
    "virtualhost default",
    "virtualhost default o*",
    "queue default/one",
    'queue "a b"/two',
    "nonsense",
)


@dataclass
class RandomHistory:
    """`samples`, `events` and `coverage` in order of time; all samples and events are before the end of the last
    coverage."""

    broker: str
    samples: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    coverage: list[Row] = field(default_factory=list)


def random_history(chance: random.Random, broker: str = "b", rows: int = 60, *, since: bool = True) -> RandomHistory:
    """Return up to that many samples and events, each. `since`: samples say since when a queue has been overfull."""
    history = RandomHistory(broker)
    step = chance.choice((1, 250, 1_000, 30_000))
    begin = START + HOUR - chance.randrange(0, 10 * MINUTE, step)
    length = chance.choice((20_000, 3 * MINUTE, 25 * MINUTE, 100 * MINUTE))
    at = begin
    while at < begin + length:
        until = min(at + chance.choice((0, 1, 5_000, 60_000, 600_000, 2_000_000)), begin + length)
        followed = chance.random() < 0.85
        row = {"broker": broker, "run": "r", "at": at, "until": until, "followed": followed, "source": "made"}
        history.coverage.append(row)
        at = until + (0 if chance.random() < 0.7 else chance.choice((1, 2_000, 90_000, 1_000_000)))
        at += int(until == at)
    history.coverage.append({**history.coverage[-1], "at": at, "until": at + 70_000, "followed": True})
    end = at + 70_000
    queues = chance.sample([("default", "one"), ("default", "two"), ("a b", "two")], chance.randint(1, 3))
    times = [chance.randrange(begin - chance.choice((0, 90_000)), end, step) for _ in range(chance.randint(1, 12))]

    def moment() -> int:
        """Return a time at which something else may happen as well."""
        if chance.random() < 0.4:
            return chance.choice(times)
        return chance.randrange(begin - chance.choice((0, 0, 90_000)), end, step)

    for _ in range(chance.randint(0, rows)):
        history.samples.append(_sample(chance, broker, moment(), chance.choice(queues), since))
    unique = {(row["virtualhost"], row["queue"], row["at"]): row for row in history.samples}
    history.samples = sorted(unique.values(), key=lambda row: row["at"])
    numbers = iter(range(1, rows + 1))
    for at in sorted(moment() for _ in range(chance.randint(0, rows))):
        history.events.append(_event(chance, broker, at, next(numbers), chance.choice(queues)))
    return history


def _sample(chance: random.Random, broker: str, at: int, queue: tuple[str, str], since: bool) -> Row:
    row: Row = dict.fromkeys(SAMPLE_COLUMNS)
    depth = chance.choice((None, 0, 5, 10, chance.randrange(100)))
    state = chance.choice(_STATES)
    row |= {"broker": broker, "run": "r", "at": at, "virtualhost": queue[0], "queue": queue[1], "source": "made"}
    row |= {"whole": chance.random() < 0.3, "state": state, "depth_messages": depth}
    row |= {"depth_bytes": None if chance.random() < 0.1 else (depth or 0) * 100}
    row |= {"producers": chance.choice((None, 1, 4)), "blocked_producers": chance.choice((None, 0, 0, 2))}
    if since and state in ("OVERFULL", "OVERFULL_STOPPED") and chance.random() < 0.5:
        row["overfull_since"] = at - chance.choice((0, 1_000, 30_000, 500_000))
    if chance.random() < 0.8:
        row |= {"enqueued_messages": chance.randrange(50), "dequeued_messages": chance.choice((None, 3, 7, 20))}
    if chance.random() < 0.7:
        row |= {"capacity_messages": chance.choice((None, 0, 10)), "stop_messages": chance.choice((None, 0, 10))}
        row |= {
            "stop_bytes": chance.choice((None, 1000)),
            "resume_messages": 8,
            "capacity_bytes": chance.choice((0, 9)),
        }
    return row


def _event(chance: random.Random, broker: str, at: int, number: int, queue: tuple[str, str]) -> Row:
    kind = chance.choice(
        ("queue-overfull",) * 5
        + ("queue-underfull", "producer-blocked") * 4
        + ("producer-released", "broker-ready") * 2
        + ("producer-detached", "connection-closed", "queue-deleted", "queue-created", "queue-purged", "policy-changed")
        + ("producers-stopped", "producers-started") * 2
        + ("queue-dropped",)
    )
    row: Row = {"broker": broker, "run": "r", "at": at, "number": number, "sequence": number, "kind": kind}
    row["source"] = "made"
    producer = chance.randint(1, 3)
    if kind.startswith("producer-"):
        row |= {"object": f"type=Producer,virtualhost={queue[0]},id={producer}", "link": f"link-{producer}"}
        row |= {"connection": f"con:{producer % 2}", "client": chance.choice((None, f"client-{producer}"))}
    if kind in ("producer-blocked", "queue-dropped") or kind.startswith("queue-"):
        row |= {"virtualhost": queue[0], "queue": queue[1]}
    if kind == "producer-blocked":
        row |= {"reasons": ["queue-overfull:q"], "channel": "ch:1"}
        # A producer has one client.
        row |= {"client": f"client-{producer}"}
    elif kind == "producer-released" and chance.random() < 0.5:
        row |= {"virtualhost": queue[0], "queue": queue[1]}
    elif kind == "connection-closed":
        row["connection"] = chance.choice((None, "con:0", "con:1"))
    elif kind in ("producers-stopped", "producers-started"):
        row |= {"scope": chance.choice(_SCOPES), "producers": chance.choice((None, 3))}
        row |= {"actor": chance.choice((None, "ann", "bob")), "reason": chance.choice((None, "disk"))}
    elif kind in ("queue-purged", "policy-changed", "queue-deleted"):
        row["actor"] = chance.choice((None, "ann", "bob"))
    if row.get("queue") is not None and chance.random() < 0.8:
        depth = chance.randrange(100)
        row |= {"depth_messages": chance.choice((None, depth)), "depth_bytes": depth * 100}
        row |= {"state": chance.choice(_STATES), "blocked_producers": chance.choice((None, 0, 1))}
        row |= {"stop_messages": chance.choice((None, 10)), "stop_bytes": chance.choice((None, 1000))}
    return row
