"""Publishing to an exchange, and with an address in each message: real clients, several queues, one of them full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from proton import Message
from proton.utils import SendException

from brokers.engine.services.fan_out import WINDOW
from tests.amqp.broker_thread import BrokerThread, wait_until
from tests.amqp.clients import connected, managing

VHOST = "virtualhost=default"


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    with BrokerThread(tmp_path / "broker") as running:
        yield running


def exchange(broker: BrokerThread, kind: str, *bindings: tuple[str, str]) -> None:
    """An exchange `events` with these (queue, key)."""
    with managing(broker) as manager:
        name = f"type=Exchange,{VHOST},name=events"
        assert manager.ask("CREATE", {"exchange_type": kind}, name=name).status == 201
        for queue, key in bindings:
            assert manager.ask("bind", {"queue": queue, "key": key}, name=name).status == 200


def depths(broker: BrokerThread, *queues: str) -> list[int]:
    return [broker.see(q, lambda queue: queue.gate.depth_messages) for q in queues]


def test_a_fixed_key_in_the_address_routes_to_the_bound_queues(broker: BrokerThread) -> None:
    for queue in ("a", "b", "c"):
        broker.queue(queue)
    exchange(broker, "direct", ("a", "red"), ("b", "red"), ("c", "blue"))
    with connected(broker) as connection:
        sender = connection.create_sender("events/red")
        for number in range(250):
            sender.send(Message(body=number))
    assert depths(broker, "a", "b", "c") == [250, 250, 0]


def test_the_subject_is_the_routing_key_of_an_address_without_one(broker: BrokerThread) -> None:
    for queue in ("eu", "all"):
        broker.queue(queue)
    exchange(broker, "topic", ("eu", "stock.eu.*"), ("all", "stock.#"))
    with connected(broker) as connection:
        sender = connection.create_sender("events")
        sender.send(Message(body="x", subject="stock.eu.bmw", durable=True, annotations={"a": 1}))
        sender.send(Message(body="y", subject="stock.us.ibm"))
        with pytest.raises(SendException):  # rejected: no queue is bound for it
            sender.send(Message(body="z", subject="bonds.eu"))
        sender.send(Message(body="x", subject="stock.eu.vw"))
    assert depths(broker, "eu", "all") == [2, 3]


def test_without_a_target_each_message_has_its_own_address(broker: BrokerThread) -> None:
    with connected(broker) as connection:
        sender = connection.create_sender(None)
        for number in range(300):
            sender.send(Message(body=number, address=f"q{number % 3}"))
        for wrong in (None, "$management"):
            with pytest.raises(SendException):
                sender.send(Message(body="lost", address=wrong))
        sender.send(Message(body="still here", address="q0"))
    assert depths(broker, "q0", "q1", "q2") == [101, 100, 100]


def test_full_destination_blocks_only_messages_to_it(broker: BrokerThread) -> None:
    broker.queue("full", capacity_messages=5)
    broker.queue("free")
    with connected(broker) as connection:
        sender = connection.create_sender(None)
        link = sender.link
        deliveries = {}
        for number in range(30):
            name = "full" if number % 2 else "free"
            deliveries[number] = (name, link.send(Message(body=number, address=name)))

        def accepted(name: str) -> int:
            connection.container.process()
            return sum(1 for n, d in deliveries.values() if n == name and d.settled)

        wait_until(lambda: accepted("free") == 15, "the neighbour's are all accepted")
        wait_until(lambda: accepted("full") == 6, "as many as the full queue takes")
        assert depths(broker, "free", "full") == [15, 6]
        with managing(broker) as manager:
            [found] = manager.ask(
                "QUERY", {"where": {"state": "BLOCKED"}, "attributeNames": ["queue", "release"]}, entityType="Producer"
            ).body["results"]
            assert "name=full" in found[2]
            assert "queue full falls to" in found[3]
        take(broker, "full", 6)
        wait_until(lambda: accepted("full") == 12, "more go in when there is room")
        take(broker, "full", 6)
        wait_until(lambda: accepted("full") == 15, "and the rest")


def test_a_message_for_several_queues_waits_for_the_one_that_is_full(broker: BrokerThread) -> None:
    broker.queue("small", capacity_messages=3)
    broker.queue("large")
    exchange(broker, "fanout", ("small", ""), ("large", ""))
    with connected(broker) as connection:
        link = connection.create_sender("events").link
        deliveries = [link.send(Message(body=number)) for number in range(10)]

        def accepted() -> int:
            connection.container.process()
            return sum(1 for d in deliveries if d.settled)

        wait_until(lambda: accepted() == 4, "capacity and one")
        assert depths(broker, "small", "large") == [4, 4], "all or none"
        take(broker, "small", 4)
        wait_until(lambda: accepted() == 8, "four more")
        assert depths(broker, "small", "large") == [4, 8]


def test_a_message_for_several_queues_is_rejected_if_one_rejects(broker: BrokerThread) -> None:
    broker.queue("strict", capacity_messages=2, mechanism="reject")
    broker.queue("large")
    exchange(broker, "fanout", ("strict", ""), ("large", ""))
    with connected(broker) as connection:
        sender = connection.create_sender("events")
        for number in range(3):
            sender.send(Message(body=number))
        with pytest.raises(SendException):
            sender.send(Message(body="too many"))
    assert depths(broker, "strict", "large") == [3, 3]


def test_a_stop_holds_routed_messages_and_start_lets_them_go(broker: BrokerThread) -> None:
    broker.queue("a")
    exchange(broker, "fanout", ("a", ""))
    with connected(broker) as connection, managing(broker) as manager:
        link = connection.create_sender("events").link
        assert manager.ask("stop-producers", {"reason": "x"}, name="type=Broker").status == 200
        deliveries = [link.send(Message(body=number)) for number in range(20)]

        def settled() -> int:
            connection.container.process()
            return sum(1 for d in deliveries if d.settled)

        wait_until(
            lambda: settled() == 0 and broker.see("a", lambda q: q.gate.blocked_producers) == 1,
            "it is blocked, and seen to be",
        )
        assert (settled(), depths(broker, "a")) == (0, [0])
        assert manager.ask("start-producers", {"reason": "x"}, name="type=Broker").status == 200
        wait_until(lambda: settled() == 20, "they go in")
    wait_until(lambda: broker.see("a", lambda q: q.gate.producer_count) == 0, "nothing is left behind")


def test_deleting_a_queue_settles_messages_that_waited_only_for_it(broker: BrokerThread) -> None:
    broker.queue("gone", capacity_messages=1)
    with connected(broker) as connection, managing(broker) as manager:
        link = connection.create_sender(None).link
        deliveries = [link.send(Message(body=number, address="gone")) for number in range(4)]

        def settled() -> int:
            connection.container.process()
            return sum(1 for d in deliveries if d.settled)

        wait_until(lambda: settled() == 2, "two go in")
        assert manager.ask("DELETE", name=f"type=Queue,{VHOST},name=gone").status == 204
        wait_until(lambda: settled() == 4, "the others are rejected")


def test_window_bounds_parked_messages_and_a_lost_client_leaves_none(broker: BrokerThread) -> None:
    broker.queue("full", capacity_messages=1)
    with connected(broker) as connection:
        link = connection.create_sender(None).link
        deliveries = [link.send(Message(body=number, address="full")) for number in range(300)]

        def settled() -> int:
            connection.container.process()
            return sum(1 for d in deliveries if d.settled)

        def waiting() -> int:
            return broker.look(lambda s: sum(len(p.handle.fan_out.waiting) for p in s.broker.producers.values()))

        wait_until(lambda: settled() == 2 and waiting() == WINDOW, "its window is used up")
        assert broker.look(lambda s: [p.handle.fan_out.credit for p in s.broker.producers.values()]) == [0]
    wait_until(lambda: not broker.look(lambda s: s.broker.producers), "its branches have gone with it")
    assert broker.see("full", lambda q: (q.gate.depth_messages, q.gate.ledger.reserved, q.gate.producer_count)) == (
        2,
        0,
        0,
    )


def take(broker: BrokerThread, queue: str, count: int) -> None:
    with connected(broker) as connection:
        receiver = connection.create_receiver(queue, credit=count)
        for _ in range(count):
            receiver.receive(timeout=5)
            receiver.accept()
