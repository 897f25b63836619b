"""Measurements with all brokers running, in turns: rates with their cost, latencies, and the price of flow control."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from figures import Figures, Row
from measured import Broker, Failed, admin, limit, load, progress
from rate_rows import RateRow, fault
from steps import steps

CAPACITY = 20_000  # messages of our virtual host's queues: flow control has something to do
STEADY = 2000  # messages/s
FLOW_OFF = "bench.flow.off"

QUIET_MS = 20_000  # without any movement: blocked or lost
REST_SECONDS = 0.5
WARM_MESSAGES = 20_000  # between looks at the clock

#: Of a core: from here on the client, which has one thread, may be what limits the rate.
BUSY_CLIENT = 0.9


def limit_and_prepare(port: int, data: Path, rows: Sequence[RateRow]) -> None:
    """Set the limits of Headgate's broker, and create its queues with settings of their own."""
    asyncio.run(limit(port, data, CAPACITY))
    asyncio.run(_prepare(port, data, [row.queue for row in rows if row.durable]))


async def _prepare(port: int, data: Path, durable: Iterable[str]) -> None:
    from brokers.model import object_name

    queues: dict[str, dict[str, object]] = {name: {"durable": True} for name in durable}
    queues[FLOW_OFF] = {"flow_control": "off"}
    broker = await admin(port, data)
    for name, attributes in queues.items():
        await broker.create(object_name("Queue", virtualhost="default", name=name), attributes)
    await broker.close()


class SideBySide:
    """`brokers`: by title. `seconds`: approximate duration of a run."""

    def __init__(
        self, programs: Path, brokers: Mapping[str, Broker], figures: Figures, *, seconds: float, rounds: int
    ) -> None:
        self.programs, self.brokers, self.figures = programs, brokers, figures
        self.seconds, self.rounds = seconds, rounds
        self.busy_clients: list[str] = []

    def warm_up(self, seconds: float) -> None:
        """Load each broker, one after the other: what runs in a virtual machine is compiled while it runs."""
        for title, broker in self.brokers.items() if seconds else ():
            progress(f"warming up {title}")
            limit = time.monotonic() + seconds
            for pairs in itertools.cycle((8, 1)):
                options = {"senders": pairs, "receivers": pairs, "size": 1024, "quiet": QUIET_MS}
                try:
                    load(self.programs, broker, f"bench.warm.{pairs}", count=WARM_MESSAGES, **options)
                except Failed as why:
                    progress(f"not warmed up: {why}")  # its rows will say so themselves
                    break
                if time.monotonic() > limit:
                    break

    def rates(self, rows: Sequence[RateRow]) -> None:
        for each in rows:
            row = self.figures.row(each.title, of_other=each.of_other, of_peers=1)
            cost = self.figures.row(each.cost_title, digits=1, of_least=1)
            brokers = {}
            for title, broker in self.brokers.items():
                if each.needs in broker.lacks:
                    for figure in (row, cost):
                        self.figures.lacks(figure, title, broker.lacks[each.needs])
                else:
                    brokers[title] = broker
            self._rates([(each, row, cost)], brokers)
            for figure in (row, cost):
                progress(f"= {self.figures.as_text(figure)}")  # a run of an hour may not come to its table

    def latency(self) -> None:
        rows = [self.figures.row(f"latency at {STEADY:,}/s, {words}, ms", digits=2) for words in ("p50", "p99")]
        count = int(STEADY * self.seconds)
        for turn in range(self.rounds + 1):  # the first one warms up
            for title, broker in _in_turn(self.brokers, turn):
                progress(f"latency {turn}/{self.rounds}: {title}")
                if title in rows[0].words:
                    continue
                try:
                    done = load(self.programs, broker, "bench.latency", count=count, rate=STEADY, size=100, exact=True)
                    if why := fault(done, count):
                        raise Failed(f"{title}: {why}")
                except Failed as why:
                    for row in rows:
                        self.figures.failed(row, title, why)
                    continue
                if turn:
                    rows[0].add(title, done["p50"] * 1e3)
                    rows[1].add(title, done["p99"] * 1e3)

    def flow_control(self, own: Sequence[str]) -> None:
        """Measure Headgate only: a queue with a capacity against one with flow control off, in turns."""
        brokers = {title: self.brokers[title] for title in own if title in self.brokers}
        for size, words in ((100, "100 B"), (1024, "1 KiB")):
            what = f"with flow control on by off, {words}, 1 x 1"
            rates = self.figures.row(f"messages/s {what}", digits=3, least=0.95)
            costs = self.figures.row(f"CPU a message {what}", digits=3)
            load_on = RateRow("flow", f"flow control on, {words}", "bench.flow.on", {"size": size})
            load_off = replace(load_on, what=f"flow control off, {words}", queue=FLOW_OFF)
            on, off, cost_on, cost_off = Row(load_on.title), Row(load_off.title), Row("CPU, on"), Row("CPU, off")
            self._rates([(load_on, on, cost_on), (load_off, off, cost_off)], brokers)
            for row, with_it, without in ((rates, on, off), (costs, cost_on, cost_off)):
                for title in brokers:
                    if (above := with_it.value(title)) and (below := without.value(title)):
                        row.add(title, above / below)

    def _rates(self, loads: Sequence[tuple[RateRow, Row, Row]], brokers: Mapping[str, Broker]) -> None:
        """Measure each broker, round after round. Each of `loads` has the rows for its rates and its processor time;
        those of several are taken in turns on the same broker."""
        pace: dict[tuple[str, str], float] = {}
        client: dict[tuple[str, str], list[float]] = {}
        for turn in range(self.rounds + 2):  # the first two find the pace and warm up
            for title, broker in _in_turn(brokers, turn):
                for each, row, cost in loads if turn % 2 else reversed(loads):
                    if title in row.words:
                        continue
                    progress(f"{each.what} {max(0, turn - 1)}/{self.rounds}: {title}")
                    key = (each.queue, title)
                    count = each.count(pace[key], self.seconds) if key in pace else each.warm
                    try:
                        pace[key], spent, busy = self._run(each, broker, count)
                    except Failed as why:
                        self.figures.failed(row, title, why)
                        self.figures.failed(cost, title, why)
                        continue
                    if turn > 1:
                        row.add(title, pace[key] * each.copies)
                        cost.add(title, spent / count / each.copies * 1e6)
                        client.setdefault(key, []).append(busy)
        for each, row, _ in loads:
            for title in row.values:
                busy = statistics.median(client[each.queue, title])
                if busy > BUSY_CLIENT:
                    self.busy_clients.append(f"{each.what}, {title}: {busy:.0%}")

    def _run(self, each: RateRow, broker: Broker, count: int) -> tuple[float, float, float]:
        """Return the messages/s from the first that was sent to the last that was accepted and received, the broker's
        processor time for them in seconds, and the client's share of a core. Raises Failed unless all were."""
        options = {**each.options, "exact": True, "attended": True, "quiet": QUIET_MS}
        with steps(self.programs / "load", broker, each.queue, count=count, **options) as client:
            client.next("attached")
            before = broker.cpu_seconds()
            done = client.next("done")
            spent = broker.cpu_seconds_at_rest() - before
            client.finish()
        if why := fault(done, count, each.copies):
            raise Failed(f"{broker.title}: {why}")
        return count / done["seconds"], spent, done["client_cpu"] / done["seconds"]


def _in_turn(brokers: Mapping[str, Broker], turn: int) -> list[tuple[str, Broker]]:
    """Rotate the brokers, so that none always follows the same one and its remaining work."""
    line = list(brokers.items())
    first = turn % len(line) if line else 0
    time.sleep(REST_SECONDS)  # the kernel's remaining work for the last one sends no event
    return line[first:] + line[:first]
