"""What a real ActiveMQ advises of, over AMQP: a full queue only where its configuration says so, and never that it is
full no more. So it is polled. A version that advises of both is a reason to think again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from proton.handlers import MessagingHandler
from proton.reactor import Container

from tests.adapters.hosted import LIMIT, until
from tests.adapters.test_activemq import Adapted, Sending, adapted, blocked, node, take
from tests.interop.activemq_node import ActiveMqNode

__all__ = ["adapted", "node"]  # the fixtures

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]

COUNT = 15
TOPIC = "ActiveMQ.Advisory."


class Advised(MessagingHandler):  # type: ignore[misc]  # Proton has no types
    """`found`: the topics of the advisories, after `TOPIC`, in their order."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._url = f"127.0.0.1:{port}"
        self.found: list[str] = []
        self.attached = threading.Event()
        self._ended = threading.Event()

    def on_start(self, event: Any) -> None:
        self._connection = event.container.connect(self._url, reconnect=False)
        event.container.create_receiver(self._connection, f"topic://{TOPIC}>")
        event.container.schedule(0.2, self)

    def on_link_opened(self, event: Any) -> None:
        self.attached.set()

    def on_timer_task(self, event: Any) -> None:
        if self._ended.is_set():
            self._connection.close()
        else:
            event.container.schedule(0.2, self)

    def on_message(self, event: Any) -> None:
        self.found.append(str(event.message.address).partition(TOPIC)[2])

    def end(self) -> None:
        self._ended.set()


@contextmanager
def advised(node: ActiveMqNode) -> Iterator[Advised]:
    made = Advised(node.port)
    thread = threading.Thread(target=Container(made).run, daemon=True)
    thread.start()
    assert made.attached.wait(LIMIT)
    try:
        yield made
    finally:
        made.end()
        thread.join(LIMIT)


async def test_full_queue_is_advised_of_on_request_only_and_its_end_never(adapted: Adapted) -> None:
    with advised(adapted.node) as advisories:
        for queue in ("advised.orders", "orders"):
            client = Sending(adapted.node, queue, COUNT)
            await until(lambda name=queue: blocked(adapted, name))  # type: ignore[misc]
            before = len(advisories.found)
            assert await asyncio.to_thread(take, adapted.node, queue, COUNT) == list(range(COUNT))
            await client.end()

            async def consumer_has_gone(name: str = queue, since: int = before) -> bool:
                return advisories.found[since:].count(f"Consumer.Queue.{name}") >= 2  # came, and went

            await until(consumer_has_gone)
    assert "FULL.Queue.advised.orders" in advisories.found
    about = {topic.removesuffix("advised.orders") for topic in advisories.found if topic.endswith("advised.orders")}
    other = {f"{kind}.Queue." for kind in ("Producer", "Consumer", "FULL", "FastProducer", "SlowConsumer")}
    assert about <= {"Queue.", *other}
    assert not any(topic.endswith("FULL.Queue.orders") for topic in advisories.found)
