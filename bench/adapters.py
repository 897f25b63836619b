"""What the adapter of a broker costs, and how soon it shows what happens: a real broker with many queues on loopback.

    uv run python bench/adapters.py [--kind rabbitmq] [--queues 2000] [--seconds 60] [--times 20]

Starts the broker, creates queues, lets the adapter's service settle, and measures the processor time of this process
(polls, comparison, events, samples) and of the broker for some time in which nothing happens. Then it fills a queue
with a limit until it refuses, empties it, and so on: the delay from the moment at which the client sees it to the event
in the stream over AMQP, as median and worst.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import amqp
import psutil

from brokers.adapters.http import JsonHttp, part
from brokers.adapters.rabbitmq import RabbitMq
from brokers.adapters.service import AdaptersService
from brokers.admin import BrokerUnreachable
from brokers.drivers.bundled import BundledBroker

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the tests are not installed, the brokers are
from tests.interop.rabbitmq_node import RabbitNode, rabbitmq

#: Requests at once while queues are created.
AT_ONCE = 8
LIMIT = 600.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=["rabbitmq"], default="rabbitmq")
    parser.add_argument("--queues", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--times", type=int, default=20, help="how often the queue is filled")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broker = Path(folder) / "broker"
        broker.mkdir()
        with rabbitmq(broker, plugins=["rabbitmq_management"]) as node:
            asyncio.run(measured(node, Path(folder), options))
    return 0


async def measured(node: RabbitNode, folder: Path, options: argparse.Namespace) -> None:
    base = f"http://127.0.0.1:{node.http_port}/api"
    api = JsonHttp(base, "guest", "guest", seconds=LIMIT)
    began = time.monotonic()
    await create(api, options.queues)
    print(f"{options.queues:,} queues created in {time.monotonic() - began:.0f} s")
    service = AdaptersService(folder / "adapters")
    await service.start()
    service.add("measured", RabbitMq(JsonHttp(base, "guest", "guest", seconds=60), service.clock.now))
    console = await connected(service)
    await asyncio.sleep(15)
    await cost(options.seconds)
    await delays(node, console, options.times)
    await console.close()
    await service.stop()
    await api.close()


async def create(api: JsonHttp, count: int) -> None:
    policy = {
        "pattern": "^limited$",
        "definition": {"max-length": 10, "overflow": "reject-publish"},
        "apply-to": "queues",
    }
    await api.request("PUT", "/policies/%2F/limited", body=policy)
    names = iter(["limited", *(f"queue.{number:05}" for number in range(count - 1))])

    async def some() -> None:
        for name in names:
            await api.request("PUT", f"/queues/%2F/{part(name)}", body={"durable": True})

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))


async def connected(service: AdaptersService) -> BundledBroker:
    password = service.secret.read_text().strip()
    while True:
        try:
            return await BundledBroker.connect(
                "127.0.0.1", service.port, "console", password, timeout=LIMIT, name="measured"
            )
        except BrokerUnreachable:
            await asyncio.sleep(0.2)


async def cost(seconds: float) -> None:
    here = psutil.Process()
    erlang = [each for each in psutil.process_iter(["name"]) if each.info["name"] == "beam.smp"]
    before, theirs = time.process_time(), used(erlang)
    await asyncio.sleep(seconds)
    print(f"adapter  {100 * (time.process_time() - before) / seconds:6.1f} % of a core")
    print(f"broker   {100 * (used(erlang) - theirs) / seconds:6.1f} % of a core (all of RabbitMQ, polls included)")
    print(f"memory   {here.memory_full_info().pss / 1e6:6.0f} MB PSS")


def used(processes: list[psutil.Process]) -> float:
    return sum(sum(each.cpu_times()[:2]) for each in processes)


async def delays(node: RabbitNode, console: BundledBroker, times: int) -> None:
    stream, found = console.events(), {"queue-overfull": [], "queue-underfull": []}
    loop = asyncio.get_running_loop()
    for _ in range(times):
        for kind, act in (("queue-overfull", fill), ("queue-underfull", drain)):
            at = await loop.run_in_executor(None, act, node)
            async for event in stream:
                if event.kind == kind:
                    found[kind].append(time.time() - at)
                    break
    for kind, seconds in found.items():
        print(f"{kind:16} median {statistics.median(seconds):.2f} s, worst of {len(seconds)}: {max(seconds):.2f} s")


def with_channel(node: RabbitNode, act: Callable[[amqp.Channel], None]) -> float:
    """Act, and return the time of day at which it was done."""
    with amqp.Connection(f"127.0.0.1:{node.port}", confirm_publish=True) as connection:
        act(connection.channel())
        return time.time()


def fill(node: RabbitNode) -> float:
    def publish(channel: amqp.Channel) -> None:
        while True:
            try:
                channel.basic_publish_confirm(amqp.Message(b"x"), routing_key="limited")
            except amqp.exceptions.MessageNacked:
                return

    return with_channel(node, publish)


def drain(node: RabbitNode) -> float:
    return with_channel(node, lambda channel: channel.queue_purge("limited"))


if __name__ == "__main__":
    sys.exit(main())
