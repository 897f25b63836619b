"""Measurements with all brokers running, in turns: rates, latencies, and the cost of flow control."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from figures import NOT_YET, Figures, Row
from measured import Broker, Failed, admin, limit, load, progress, rate

DURABLE = "accepted once the store has synced it, as each broker is shipped"

CAPACITY = 20_000  # messages of our virtual host's queues: flow control has something to do
STEADY = 2000  # messages/s
FLOW_OFF = "bench.flow.off"
DURABLE_QUEUES = tuple(f"bench.durable.{pairs}" for pairs in (1, 8))

#: The least and the most messages of a run.
LEAST, MOST = 500, 2_000_000
WARM = 2000
REST_SECONDS = 0.5


def limit_and_prepare(port: int, data: Path) -> None:
    """Set the limits of Headgate's broker, and create its queues with settings of their own."""
    asyncio.run(limit(port, data, CAPACITY))
    asyncio.run(_prepare(port, data))


async def _prepare(port: int, data: Path) -> None:
    from brokers.model import object_name

    queues: list[tuple[str, dict[str, object]]] = []
    if has_durable_queues():
        queues += [(name, {"durable": True}) for name in DURABLE_QUEUES]
    if can_turn_flow_control_off():
        queues.append((FLOW_OFF, {"flow_control": "off"}))
    broker = await admin(port, data)
    for name, attributes in queues:
        await broker.create(object_name("Queue", virtualhost="default", name=name), attributes)
    await broker.close()


def has_durable_queues() -> bool:
    """Return whether Headgate's broker reports stored messages."""
    import measured  # noqa: F401  (makes `brokers` importable)

    from brokers.model import TYPES

    durable = TYPES["Queue"].attribute("durable")
    return durable is not None and (durable.creatable or durable.writable)


def can_turn_flow_control_off() -> bool:
    from brokers.model import TYPES

    declared = TYPES["Queue"].attribute("flow_control")
    return declared is not None and declared.writable


class SideBySide:
    """`seconds`: approximate duration of a run."""

    def __init__(
        self, programs: Path, brokers: dict[str, Broker], figures: Figures, *, seconds: float, rounds: int
    ) -> None:
        self.programs, self.brokers, self.figures = programs, brokers, figures
        self.seconds, self.rounds = seconds, rounds

    def transient(self) -> None:
        for size, words in ((100, "100 B"), (1024, "1 KiB")):
            for pairs in (1, 8):
                what = f"transient {words}, {pairs} x {pairs}"
                row = self.figures.row(f"{what}, messages/s", of_other=0.9, of_peers=5)
                cost = self.figures.row(f"{what}, CPU a message, µs", digits=1)
                queue = f"bench.transient.{pairs}.{size}"
                self._rates(row, self.brokers, queue, cost=cost, senders=pairs, receivers=pairs, size=size)

    def durable(self, ours: str, other: str) -> None:
        for pairs, queue in zip((1, 8), DURABLE_QUEUES, strict=True):
            row = self.figures.row(f"durable 1 KiB, {pairs} x {pairs}, messages/s", of_peers=1)
            brokers = {title: broker for title, broker in self.brokers.items() if title != other}
            if not has_durable_queues():
                row.words[ours] = NOT_YET
                del brokers[ours]
            self._rates(row, brokers, queue, senders=pairs, receivers=pairs, size=1024, durable=True)

    def latency(self) -> None:
        rows = [self.figures.row(f"latency at {STEADY:,}/s, {words}, ms", digits=2) for words in ("p50", "p99")]
        count = int(STEADY * self.seconds)
        for turn in range(self.rounds + 1):  # the first one warms up
            for title, broker in _in_turn(self.brokers, turn):
                progress(f"latency {turn}/{self.rounds}: {title}")
                if title in rows[0].words:
                    continue
                try:
                    done = load(self.programs, broker, "bench.latency", count=count, rate=STEADY, size=100)
                    if done["received"] != count:
                        raise Failed(f"{title}: {done['received']:,} of {count:,} received")
                except Failed as why:
                    for row in rows:
                        self.figures.failed(row, title, why)
                    continue
                if turn:
                    rows[0].add(title, done["p50"] * 1e3)
                    rows[1].add(title, done["p99"] * 1e3)

    def flow_control(self, ours: str) -> None:
        """Measure Headgate only: a queue with a capacity against one with flow control off, in turns."""
        for size, words in ((100, "100 B"), (1024, "1 KiB")):
            what = f"with flow control on by off, {words}, 1 x 1"
            rates = self.figures.row(f"messages/s {what}", digits=3, least=0.95)
            costs = self.figures.row(f"CPU a message {what}", digits=3)
            if not can_turn_flow_control_off():
                rates.words[ours] = costs.words[ours] = NOT_YET
                continue
            on, off = Row(f"flow control on, {words}"), Row(f"flow control off, {words}")
            cost_on, cost_off = Row("CPU, on"), Row("CPU, off")
            brokers = {ours: self.brokers[ours]}
            self._rates(on, brokers, "bench.flow.on", cost=cost_on, between=(off, cost_off, FLOW_OFF), size=size)
            for row, with_it, without in ((rates, on, off), (costs, cost_on, cost_off)):
                if (above := with_it.value(ours)) and (below := without.value(ours)):
                    row.add(ours, above / below)

    def _rates(
        self,
        row: Row,
        brokers: dict[str, Broker],
        queue: str,
        cost: Row | None = None,
        between: tuple[Row, Row, str] | None = None,
        **options: int | bool,
    ) -> None:
        """Measure each broker's rate, round after round. `cost`: the row of processor time. `between`: the same for
        another row, with another queue."""
        last: dict[str, float] = {}
        runs = [(row, cost, queue), *([between] if between else [])]
        for turn in range(self.rounds + 2):  # the first two find the pace and warm up
            for title, broker in _in_turn(brokers, turn):
                for each, each_cost, name in runs if turn % 2 else reversed(runs):
                    if title in each.words:
                        continue
                    progress(f"{each.title} {max(0, turn - 1)}/{self.rounds}: {title}")
                    count = max(LEAST, min(MOST, int(last[title] * self.seconds))) if title in last else WARM
                    before = broker.cpu_seconds()
                    try:
                        last[title] = rate(self.programs, broker, name, count=count, quiet=20_000, **options)
                    except Failed as why:
                        self.figures.failed(each, title, why)
                        continue
                    if turn > 1:
                        each.add(title, last[title])
                        if each_cost is not None:
                            each_cost.add(title, (broker.cpu_seconds() - before) / count * 1e6)


def _in_turn(brokers: dict[str, Broker], turn: int) -> list[tuple[str, Broker]]:
    """Rotate the brokers, so that none always follows the same one and its remaining work."""
    line = list(brokers.items())
    first = turn % len(line) if line else 0
    time.sleep(REST_SECONDS)  # the kernel's remaining work for the last one sends no event
    return line[first:] + line[:first]
