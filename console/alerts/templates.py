"""Templates of rules: the alerts that most installations need, with usual thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from console.alerts.queue_conditions import BLOCKED, CONSUMERS_LOST, DEAD_LETTERS, FILLED, OLDEST, STOPPED
from console.alerts.recording import NOT_RECORDING
from console.alerts.transitions import UNREACHABLE

_MINUTE, _HOUR = 60, 3600


@dataclass(frozen=True, slots=True)
class Template:
    """`identifier`: for URLs. `title`: also the name of a rule that is created from it. `text`: when it fires, a
    sentence. `values`: of the rule; others have their defaults."""

    identifier: str
    title: str
    text: str
    values: Mapping[str, Any]


TEMPLATES = (
    Template(
        "broker-unreachable",
        "Broker unreachable",
        "The console has had no connection to a broker for a minute.",
        {"kinds": [UNREACHABLE], "holds": _MINUTE, "quiet": 15 * _MINUTE},
    ),
    Template(
        "producers-blocked",
        "Producers blocked",
        "Producers of a queue have been blocked for more than 5 minutes.",
        {"kinds": [BLOCKED], "holds": 5 * _MINUTE, "quiet": 15 * _MINUTE},
    ),
    Template(
        "blocked-for-good",
        "Blocked and not draining",
        "Producers are blocked, and nothing unblocks them: a queue without consumers, a halted staged start, a store or"
        " memory at its limit.",
        {
            "kinds": ["blocked-without-consumer", "underfull-yet-blocked", "halted-start", "near-limit"],
            "holds": _MINUTE,
            "quiet": 15 * _MINUTE,
        },
    ),
    Template(
        "nearly-full",
        "Queue nearly full",
        "The depth of a queue has been above 80% of its capacity for 5 minutes.",
        {"kinds": [FILLED], "depth_percent": 80, "holds": 5 * _MINUTE, "quiet": _HOUR},
    ),
    Template(
        "consumers-lost",
        "Consumers lost",
        "A queue that had consumers has had none for 5 minutes.",
        {"kinds": [CONSUMERS_LOST], "holds": 5 * _MINUTE, "quiet": _HOUR},
    ),
    Template(
        "forgotten-stop",
        "Forgotten stop",
        "The producers of a queue, or of a client, have been stopped by an operator for more than 4 hours.",
        {"kinds": [STOPPED], "holds": 4 * _HOUR, "quiet": 24 * _HOUR},
    ),
    Template(
        "dead-letters",
        "Dead letters",
        "A dead-letter queue is not empty.",
        {"kinds": [DEAD_LETTERS], "holds": 0, "quiet": _HOUR},
    ),
    Template(
        "old-messages",
        "Old messages",
        "The oldest message of a queue is older than 15 minutes.",
        {"kinds": [OLDEST], "message_age": 15 * _MINUTE, "holds": _MINUTE, "quiet": _HOUR},
    ),
    Template(
        "history-not-recording",
        "History not recording",
        "The history of a connected broker has not been recorded for 5 minutes.",
        {"kinds": [NOT_RECORDING], "holds": 5 * _MINUTE, "quiet": _HOUR},
    ),
)
