"""What a real Artemis notifies of, over AMQP: clients that come and go, and nothing of addresses that are full or
blocked. So it is polled. A version that notifies of these is a reason to think again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from proton.handlers import MessagingHandler
from proton.reactor import Container

from brokers.adapters import jolokia
from tests.adapters.hosted import LIMIT, until
from tests.adapters.test_artemis import agent, node
from tests.interop.artemis_node import ArtemisNode, Drain, Publisher

__all__ = ["node"]  # the fixture

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]

COUNT = 150
#: Each client has a session.
SESSIONS = ("SESSION_CREATED", "SESSION_CLOSED")


class Notified(MessagingHandler):  # type: ignore[misc]  # Proton has no types
    """`found`: type and address of each notification in their order."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._url = f"127.0.0.1:{port}"
        self.found: list[tuple[str, str]] = []
        self.attached = threading.Event()
        self._ended = threading.Event()

    def on_start(self, event: Any) -> None:
        self._connection = event.container.connect(self._url, allowed_mechs="ANONYMOUS", reconnect=False)
        event.container.create_receiver(self._connection, "activemq.notifications")
        event.container.schedule(0.2, self)

    def on_link_opened(self, event: Any) -> None:
        self.attached.set()

    def on_timer_task(self, event: Any) -> None:
        if self._ended.is_set():
            self._connection.close()
        else:
            event.container.schedule(0.2, self)

    def on_message(self, event: Any) -> None:
        said = event.message.properties
        self.found.append((said["_AMQ_NotifType"], str(said.get("_AMQ_Address"))))

    def end(self) -> None:
        self._ended.set()


@contextmanager
def notified(node: ArtemisNode) -> Iterator[Notified]:
    made = Notified(node.port)
    thread = threading.Thread(target=Container(made).run, daemon=True)
    thread.start()
    assert made.attached.wait(LIMIT)
    try:
        yield made
    finally:
        made.end()
        thread.join(LIMIT)


async def test_nothing_is_notified_of_a_full_or_blocked_address(node: ArtemisNode) -> None:
    artemis = agent(node.url)
    (broker,) = await artemis.one(jolokia.search("org.apache.activemq.artemis:broker=*"))
    orders = f'{broker},component=addresses,address="orders"'

    async def is_full() -> bool:
        return bool((await artemis.one(jolokia.read(orders, "AddressSize")))["AddressSize"] >= 50_000)

    with notified(node) as notifications:
        publisher = Publisher(node.port, "orders", COUNT)
        publisher.start()
        await until(is_full)
        await artemis.one(jolokia.execute(orders, "block()"))
        await artemis.one(jolokia.execute(orders, "unblock()"))
        drain = Drain(node.port, "orders", COUNT - 1)
        drain.start()

        async def is_notified() -> bool:
            return ("CONSUMER_CLOSED", "orders") in notifications.found

        await until(is_notified)
    await artemis.close()
    publisher.join(LIMIT)
    assert drain.received == set(range(COUNT))
    others = [(kind, address) for kind, address in notifications.found if address != "activemq.notifications"]
    assert [each for each in others if each[0] not in SESSIONS] == [
        ("CONSUMER_CREATED", "orders"), ("CONSUMER_CLOSED", "orders"),
    ]  # fmt: skip
