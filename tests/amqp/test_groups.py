"""Message groups over AMQP: a capability of the source, or the end of the address."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Message, symbol
from proton.reactor import LinkOption

from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import bodies, connected

pytestmark = pytest.mark.domain("clients groups")


class Grouped(LinkOption):  # type: ignore[misc]
    def apply(self, link: Any) -> None:
        link.source.capabilities.put_object(symbol("message-groups"))


@pytest.mark.parametrize("how", ["capability", "address"])
def test_group_stays_with_one_consumer_until_it_detaches(broker: BrokerThread, how: str) -> None:
    broker.queue("q")
    address, options = ("q", Grouped()) if how == "capability" else ("q?message-groups=true", None)
    with connected(broker) as one, connected(broker) as two, connected(broker) as sending:
        sender = sending.create_sender("q")
        first = one.create_receiver(address, credit=10, options=options)
        sender.send(Message(body="a1", group_id="a"))
        assert bodies(first, 1, accept=False) == ["a1"]
        second = two.create_receiver(address, credit=10, options=options)
        for body in ("a2", "a3"):
            sender.send(Message(body=body, group_id="a"))
        assert bodies(first, 2, accept=False) == ["a2", "a3"]
        first.close()
        assert bodies(second, 3) == ["a1", "a2", "a3"]
    assert broker.look(lambda s: [q.name for q in s.broker.queues()]) == ["q"]
