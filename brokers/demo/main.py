"""`headgate demo`: prepare the demo's queues, then play until TERM or Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proton import Event
from proton.handlers import MessagingHandler
from proton.reactor import Container

from brokers.admin import AdminError, AlreadyExists, BrokerAdmin, BrokerUnreachable, NotFound
from brokers.demo.scenes import QUEUES, Stage, cast
from brokers.drivers.bundled import BundledBroker
from brokers.model import object_name

TICK = 0.1  # seconds


def main(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    host, port = options.amqp
    try:
        secret = (options.data / "broker" / "console.secret").read_text().strip()
        asyncio.run(asyncio.wait_for(prepare(host, port, secret), 60))
    except (AdminError, OSError, TimeoutError) as error:
        sys.stderr.write(f"headgate demo: cannot set up the demo's queues at {host}:{port}: {error or 'no answer'}\n")
        return 1
    player = Player(cast(say), f"amqp://[{host}]:{port}" if ":" in host else f"amqp://{host}:{port}", options.speed)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, player.stop)
    Container(player).run()
    return 0


async def prepare(host: str, port: int, secret: str) -> None:
    """Make the queues that are not there yet, with their capacities; what is there stays as its users want it."""
    while True:
        try:
            broker = await BundledBroker.connect(host, port, "console", secret)
            try:
                for name, policy in QUEUES.items():
                    await _make(broker, name, policy)
            finally:
                await broker.close()
        except BrokerUnreachable:  # just started, or just restarting
            await asyncio.sleep(0.5)
        else:
            return


async def _make(broker: BrokerAdmin, name: str, policy: Mapping[str, Any]) -> None:
    queue = object_name("Queue", virtualhost="default", name=name)
    try:
        await broker.read(queue)
    except NotFound:
        with contextlib.suppress(AlreadyExists):
            await broker.create(queue, policy)


class Player(MessagingHandler):  # type: ignore[misc]  # Proton has no types
    """Ticks the clients and the scenes. `speed`: seconds of the demo's time in one second."""

    def __init__(self, stage: Stage, url: str, speed: float) -> None:
        super().__init__()
        self._stage = stage
        self._url = url
        self._speed = speed
        self._last = time.monotonic()
        self._stopped = False
        self._away = False

    def stop(self, *_: object) -> None:
        self._stopped = True

    def on_start(self, event: Event) -> None:
        say(f"{len(self._stage.clients)} clients on {len(QUEUES)} queues; three of the queues fill up in turns")
        event.container.schedule(0, self)

    def on_timer_task(self, event: Event) -> None:
        if self._stopped:
            event.container.stop()
            return
        event.container.schedule(TICK, self)
        now = time.monotonic()
        passed, self._last = min(now - self._last, 1.0) * self._speed, now
        self._stage.advance(passed)
        for client in self._stage.clients:
            client.tick(event.container, self._url, now, passed)
        self._print_connection_state()

    def _print_connection_state(self) -> None:
        """Print one line when all clients are disconnected, and one when the first is back: not one per client."""
        wanted = [client for client in self._stage.clients if client.wanted]
        if not self._away and (reasons := [client.error for client in wanted if client.error]):
            self._away = not any(client.attached for client in wanted)
            if self._away:
                say(f"the broker is away ({reasons[0]}); the clients try again")
        elif self._away and any(client.attached for client in wanted):
            self._away = False
            say("the broker is back")


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - the command's output


def _address(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\[\]:]+)):(\d{1,5})", text)
    if not match or not 1 <= int(match[3]) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return match[1] or match[2], int(match[3])


def _speed(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.1 <= value <= 10:
        raise argparse.ArgumentTypeError(f"{text!r} is not a speed: a speed is a number from 0.1 to 10")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headgate demo", description="Play demo producers and consumers against a running broker of ours."
    )
    parser.add_argument("--amqp", type=_address, default="127.0.0.1:5672", metavar="HOST:PORT", help="the broker")
    parser.add_argument("--speed", type=_speed, default=1.0, help="how fast, 0.1 to 10 (default: %(default)s)")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get("HEADGATE_DATA") or "data"),
        help="the data folder, for the broker's secret (default: $HEADGATE_DATA or ./data)",
    )
    return parser
