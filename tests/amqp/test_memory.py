"""Memory that would run out: unfinished messages, and messages sent on credit that was given for far smaller ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from proton import Message

from brokers.engine.flow.usage import Resource
from brokers.server.machine import Memory
from brokers.server.service import Service
from tests.amqp.broker_thread import BrokerThread, wait_until
from tests.amqp.clients import connected
from tests.amqp.frames import DETACH, DISPOSITION, FLOW, Peer, frame, uint

#: Of the machine; three quarters of it are the most that messages may use.
SIZE = 4_000_000
PART = 60_000


@pytest.fixture
def small_machine(broker: BrokerThread) -> BrokerThread:
    def shrink(service: Service) -> None:
        service._memory = Memory(SIZE, "the machine's memory")
        service.broker.shortages.measure(service._available())

    broker.do(shrink)
    return broker


def arriving(service: Service) -> int:
    return service.broker.shortages.usages[Resource.MEMORY].arriving


def used(service: Service) -> int:
    return service.broker.shortages.used(Resource.MEMORY)


def begin(peer: Peer, address: str | None, parts: int) -> None:
    """Send `count` parts of a message that is never completed."""
    peer.open()
    peer.attach(address)
    peer.expect(FLOW)
    for _ in range(parts):
        peer.transfer(b"x" * PART, more=True, number=0)


@pytest.mark.domain("8 no input kills")
@pytest.mark.parametrize("address", ["orders", None])
def test_unfinished_messages_are_bounded_together_and_others_are_served(
    small_machine: BrokerThread, address: str | None
) -> None:
    broker = small_machine
    with Peer(broker.port) as first, Peer(broker.port) as second, Peer(broker.port) as third:
        for peer in (first, second):
            begin(peer, address, 20)
        wait_until(lambda: broker.look(arriving) == 40 * PART, "all of it is counted")
        begin(third, address, 20)
        condition, text = third.expect_error(DETACH, 2)
        assert condition == "amqp:resource-limit-exceeded"
        assert text == "the broker has no memory for the message now"
        assert broker.look(arriving) == 40 * PART
        with connected(broker) as connection:
            receiver = connection.create_receiver("orders")
            connection.create_sender("orders").send(Message(body="others"))
            assert receiver.receive(timeout=30).body == "others"
            receiver.accept()
    wait_until(lambda: broker.look(arriving) == 0, "nothing is left of clients that have gone")


@pytest.mark.parametrize(
    "give_up",
    [
        lambda peer: peer.transfer(b"", aborted=True, number=0),
        lambda peer: peer.write(frame(DETACH, uint(0), True)),
        lambda peer: peer.transfer(b"", number=0),
    ],
    ids=["aborted", "detached", "finished"],
)
def test_completed_messages_are_not_counted_as_incomplete(
    broker: BrokerThread, give_up: Callable[[Peer], None]
) -> None:
    with Peer(broker.port) as peer:
        begin(peer, "orders", 5)
        wait_until(lambda: broker.look(arriving) == 5 * PART, "it is counted")
        give_up(peer)
        wait_until(lambda: broker.look(arriving) == 0, "it is counted no longer")


@pytest.mark.domain("8 no input kills")
@pytest.mark.parametrize("address", ["orders", None])
def test_client_that_continues_with_far_larger_messages_does_not_exhaust_memory(
    small_machine: BrokerThread, address: str | None
) -> None:
    broker = small_machine
    sizes = []
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach(address)
        peer.expect(FLOW)
        for _ in range(8):
            peer.transfer(Message(body="small", address="orders").encode())
            peer.expect(DISPOSITION)
        large = Message(body=b"x" * 1_000_000, address="orders").encode()
        for number in range(8, 15):
            for at in range(0, len(large), PART):
                peer.transfer(large[at : at + PART], more=at + PART < len(large), number=number)
            sizes.append(broker.look(used))
        condition, text = peer.expect_error(DETACH, 2)
    assert condition == "amqp:resource-limit-exceeded"
    assert text == "the broker has no memory for the message now"
    assert max(sizes) <= SIZE * 3 // 4 + len(large)
    with connected(broker) as connection:
        receiver = connection.create_receiver("orders")
        for _ in range(broker.depth("orders")):
            receiver.receive(timeout=30)
            receiver.accept()
        connection.create_sender("orders").send(Message(body="again"), timeout=30)
