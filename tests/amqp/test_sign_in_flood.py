"""The console gets in while others from its address try wrong passwords, or open connections and say nothing."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from brokers.amqp.sign_in_attempts import FREE
from brokers.drivers.bundled import BundledBroker
from brokers.model import object_name
from tests.amqp.broker_thread import BrokerThread

ROOT = Path(__file__).resolve().parent.parent.parent
WITHIN = 30.0
REFUSED = 30


@contextlib.contextmanager
def flood(port: int, rate: int) -> Iterator[Callable[[], None]]:
    """A process of its own. Gives a function that returns when `REFUSED` more attempts have been refused."""
    command = [sys.executable, "-m", "tests.amqp.sign_in_flood", str(port), str(rate)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = process.stdout

        def go_on() -> None:
            for _ in range(REFUSED):
                assert lines.readline()

        try:
            yield go_on
        finally:
            process.kill()


async def look(broker: BrokerThread) -> None:
    """As the console does: connect, ask, and go."""
    driver = await BundledBroker.connect("127.0.0.1", broker.port, "console", broker.secret, timeout=WITHIN)
    await driver.read(object_name("Broker"))
    await driver.close()


@pytest.mark.domain("8 sign-in")
@pytest.mark.parametrize("rate", [20, 500])
def test_the_console_reconnects_again_and_again_during_a_flood(tmp_path: Path, rate: int) -> None:
    with BrokerThread(tmp_path) as broker:
        broker.user("anna")
        with flood(broker.port, rate) as go_on:
            go_on()
            for _ in range(5):
                asyncio.run(look(broker))
            go_on()  # so the console was there in the middle of it
        waits = broker.look(lambda s: s.container.attempts.wait_ms("127.0.0.1", "anna", time.monotonic_ns() // 10**6))
        assert waits > 0, f"others still have to wait after {FREE} failures"


def test_the_console_signs_in_by_a_comparison_that_costs_no_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BrokerThread(tmp_path) as broker:
        users = broker.service.users

        def hashed(*given: object) -> bool:
            raise AssertionError("a password was hashed")

        monkeypatch.setattr("brokers.server.users.fits", hashed)
        assert users.check_plain("console", broker.secret)
        for wrong in ("", "wrong", broker.secret + "x", broker.secret[:-1], "\udc80"):
            assert not users.check_plain("console", wrong)


def test_the_oldest_connection_that_says_nothing_gives_way_to_new_ones(tmp_path: Path) -> None:
    async def fill(broker: BrokerThread) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", broker.port) for _ in range(8)]
        async with asyncio.timeout(WITHIN):
            for reader, _ in silent[:3]:
                assert await reader.read() == b""
        await look(broker)  # its connection makes room for itself
        async with asyncio.timeout(WITHIN):
            assert await silent[3][0].read() == b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await silent[5][0].read()
                raise AssertionError("one of the youngest was closed")
        for _, writer in silent:
            writer.close()

    with BrokerThread(tmp_path) as broker:
        broker.look(lambda s: setattr(s.container, "most_unopened", 5))
        asyncio.run(fill(broker))
        broker.until(lambda s: not s.container.unopened, "all have gone")
