"""The rows of rates: which load each one is, the same for every broker. Only data, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SIZES = {100: "100 B", 1024: "1 KiB", 10 * 1024: "10 KiB", 1024 * 1024: "1 MiB"}
SUBSCRIBERS = (1, 10, 50)
TRANSACTIONS = (10, 100)
CONNECTIONS, QUEUES = 1000, 100  # half of the connections send; each queue has five of either kind

#: What a broker may lack.
DURABLE, TOPICS, IN_TRANSACTIONS = "durable messages", "topics", "transactions"

#: Large messages: no more of them are under way, or the client itself would need gigabytes.
UNDER_WAY = 10

MOST = 2_000_000  # messages of a run


@dataclass(frozen=True)
class RateRow:
    """`options`: of the client `load`. `needs`: what a broker may lack. `of_other`: aim, minimum ratio to the other."""

    group: str
    what: str
    queue: str
    options: Mapping[str, int | bool] = field(default_factory=dict)
    needs: str = ""
    of_other: float = 0

    @property
    def copies(self) -> int:
        """How often each message is delivered."""
        return int(self.options.get("receivers", 1)) if self.needs == TOPICS else 1

    @property
    def unit(self) -> str:
        return "delivery" if self.needs == TOPICS else "message"

    @property
    def title(self) -> str:
        return f"{self.what}, {'deliveries' if self.needs == TOPICS else 'messages'}/s"

    @property
    def cost_title(self) -> str:
        return f"{self.what}, CPU a {self.unit}, µs"

    @property
    def durable(self) -> bool:
        return bool(self.options.get("durable"))

    @property
    def warm(self) -> int:
        """Messages of the first run, whose pace determines the size of the next one."""
        return self._between(2000, 20_000_000)

    def count(self, pace: float, seconds: float) -> int:
        """Messages of a run of `seconds` at `pace` messages/s."""
        return max(self._between(500, 5_000_000), min(MOST // self.copies, int(pace * seconds)))

    def _between(self, messages: int, most_bytes: int) -> int:
        size = int(self.options.get("size", 100))
        return max(20, min(messages, most_bytes // size) // self.copies)


def rate_rows() -> list[RateRow]:
    return [*_by_size("transient"), *_by_size("durable"), *_topics(), *_transactions(), _connections()]


def _by_size(group: str) -> list[RateRow]:
    rows = []
    for size, words in SIZES.items():
        if group == "durable" and size < 1024:
            continue
        large = {"window": UNDER_WAY, "unaccepted": UNDER_WAY} if size >= 2**20 else {}
        for pairs in (1,) if large else (1, 8):
            options: dict[str, Any] = {"senders": pairs, "receivers": pairs, "size": size, **large}
            if group == "durable":
                options["durable"] = True
            of_other = 0.9 if group == "transient" and size <= 1024 else 0
            rows.append(
                RateRow(
                    group,
                    f"{group} {words}, {pairs} x {pairs}",
                    f"bench.{group}.{pairs}.{size}",
                    options,
                    needs=DURABLE if group == "durable" else "",
                    of_other=of_other,
                )
            )
    return rows


def _topics() -> list[RateRow]:
    return [
        RateRow(
            "topics",
            f"topic 100 B, {count} subscriber{'s' if count > 1 else ''}",
            f"bench.topic.{count}",
            {"receivers": count, "topic": True, "size": 100},
            needs=TOPICS,
        )
        for count in SUBSCRIBERS
    ]


def _transactions() -> list[RateRow]:
    return [
        RateRow(
            "transactions",
            f"durable 1 KiB in transactions of {count}, {pairs} x {pairs}",
            f"bench.transactions.{count}.{pairs}",
            {"senders": pairs, "receivers": pairs, "size": 1024, "durable": True, "transaction": count},
            needs=IN_TRANSACTIONS,
        )
        for count in TRANSACTIONS
        for pairs in (1, 8)
    ]


def _connections() -> RateRow:
    half = CONNECTIONS // 2
    return RateRow(
        "connections",
        f"transient 100 B, {CONNECTIONS:,} connections, {QUEUES} queues",
        "bench.connections",
        {"senders": half, "receivers": half, "queues": QUEUES, "size": 100},
    )


def fault(done: Mapping[str, Any], count: int, copies: int = 1) -> str:
    """Return why a run's rate must not be counted, or "". `done`: the counters of `load`. `copies`: deliveries of each
    message. A broker that rejects, blocks, loses or settles early must not look fast."""
    accepted, refused, received = done["accepted"], done["refused"], done["received"]
    due = count * copies
    if refused:
        return f"it refused {refused:,} of {count:,} messages"
    if done["presettled"]:
        return f"it sent {done['presettled']:,} messages settled, which no consumer can acknowledge"
    if done["early"]:
        return f"it delivered {done['early']:,} messages before their transaction was committed"
    if accepted < count:
        blocked = count - done["sent"]
        return f"it accepted {accepted:,} of {count:,} messages; {blocked:,} never had credit"
    if received < due:
        return f"{received:,} of {due:,} deliveries arrived, though all messages were accepted"
    if accepted > count or received > due:
        return f"{accepted:,} messages accepted of {count:,}, {received:,} of {due:,} deliveries: counted twice"
    return ""


@dataclass(frozen=True)
class Scope:
    """What a run of this program consists of. `own`: of the brokers, those that are Headgate's."""

    rows: Sequence[RateRow]
    brokers: int
    own: int
    rounds: int
    seconds: float
    warm_up: float = 0
    latency: bool = False
    flow: bool = False
    alone: bool = False


#: Rough figures, of a machine with two cores and little else to do.
START_SECONDS = 8.0  # of a broker
AROUND_SECONDS = 2.0  # a run: the client's start and end, and until the broker is at rest
MANY_SECONDS = 8.0  # the same with a thousand connections
WARM_SECONDS = 4.0
ALONE_SECONDS = 75.0  # the three measurements of one broker


def estimate(scope: Scope) -> float:
    """Return about how many seconds the run takes."""
    total = 0.0
    if scope.rows or scope.latency or scope.flow:
        total += scope.brokers * (START_SECONDS + scope.warm_up)
    for row in scope.rows:
        around = MANY_SECONDS if row.group == "connections" else AROUND_SECONDS
        total += scope.brokers * ((scope.rounds + 1) * (scope.seconds + around) + WARM_SECONDS + around)
    if scope.latency:
        total += scope.brokers * (scope.rounds + 1) * (scope.seconds + AROUND_SECONDS)
    if scope.flow:
        total += scope.own * 4 * ((scope.rounds + 1) * (scope.seconds + AROUND_SECONDS) + WARM_SECONDS)
    if scope.alone:
        total += scope.brokers * (3 * START_SECONDS + ALONE_SECONDS)
    return total
