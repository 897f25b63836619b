"""One producer that wants to send, beside others that attach and never do: real clients over sockets.

The idle clients are as the libraries come: they answer no drain. No consumer makes room, unless a test says so.
"""

from __future__ import annotations

import pytest
from proton import Message, Timeout

from brokers.client import SendTimeout, connect
from tests.amqp.broker_thread import BrokerThread, wait_until
from tests.amqp.clients import Crowd, Publisher, connected, fill

#: Within this a message is accepted, or its producer blocked, beside 100 idle producers, s.
WITHIN = 2.0


def idle(crowd: Crowd, count: int, connections: int = 10) -> list[Publisher]:
    """Clients with something to send that never comes, spread over some connections."""
    shared = [crowd.do(lambda: crowd.connect(crowd)) for _ in range(min(count, connections))]
    return [
        crowd.publisher(
            "orders", -1, answers_drains=False, connection=shared[number % len(shared)], name=f"idle {number}"
        )
        for number in range(count)
    ]


def attached(broker: BrokerThread, count: int) -> None:
    broker.until_queue("orders", lambda q: q.gate.producer_count == count, "all are attached", within=60)


def blocked_with_a_reason(broker: BrokerThread) -> bool:
    def reasons(service: object) -> bool:
        queue = service.broker.queue("default", "orders")  # type: ignore[attr-defined]
        return queue.gate.state.overfull and all(
            list(p.reasons) == ["queue-overfull:orders"] for p in queue.gate.producers
        )

    return bool(broker.do(reasons))


@pytest.mark.domain("3 known weakness")
@pytest.mark.parametrize("others", [1, 100])
@pytest.mark.parametrize("policy", [{"capacity_messages": 100}, {"capacity_messages": 1}, {"capacity_bytes": 20_000}])
def test_a_blocking_client_beside_idle_ones_fills_the_queue_and_is_blocked(
    broker: BrokerThread, policy: dict[str, int], others: int
) -> None:
    broker.queue("orders", **policy)
    with Crowd(broker) as crowd, connected(broker) as connection:
        idle(crowd, others)
        attached(broker, others)
        sender = connection.create_sender("orders")
        sent = 0
        while not broker.see("orders", lambda q: q.gate.state.overfull):
            sender.send(Message(body=b"x" * 100), timeout=WITHIN)
            sent += 1
        assert blocked_with_a_reason(broker)
        assert broker.depth("orders") == sent
        if "capacity_messages" in policy:
            assert sent == policy["capacity_messages"] + 1
        with pytest.raises(Timeout):
            sender.send(Message(body=b"x" * 100), timeout=0.3)


@pytest.mark.domain("3 bounded waiting")
def test_a_client_among_a_thousand_idle_ones_is_accepted_in_time(broker: BrokerThread) -> None:
    broker.queue("orders", capacity_messages=3)
    with Crowd(broker) as crowd, connected(broker) as connection:
        idle(crowd, 1000)
        attached(broker, 1000)
        sender = connection.create_sender("orders")
        for _ in range(4):
            sender.send(Message(body=b"x"), timeout=10)
        assert blocked_with_a_reason(broker)


def test_an_anonymous_sender_beside_idle_producers_is_accepted_in_time(broker: BrokerThread) -> None:
    broker.queue("orders", capacity_messages=20)
    with Crowd(broker) as crowd, connected(broker) as connection:
        idle(crowd, 100)
        attached(broker, 100)
        sender = connection.create_sender(None)
        for _ in range(21):
            sender.send(Message(body=b"x", address="orders"), timeout=WITHIN)
        assert blocked_with_a_reason(broker)


def test_a_transaction_beside_idle_producers_is_published_and_committed_in_time(broker: BrokerThread) -> None:
    broker.queue("orders", capacity_messages=20)
    with Crowd(broker) as crowd, connect(broker.url) as connection:
        idle(crowd, 100)
        attached(broker, 100)
        publisher = connection.publisher("orders", send_timeout=WITHIN)
        with connection.transaction() as transaction:
            for _ in range(15):
                publisher.send(b"x", transaction=transaction)
        broker.until_queue(
            "orders", lambda q: q.gate.depth_messages == 15 and not q.gate.uncommitted_messages, "committed"
        )
        with connection.transaction() as transaction:
            for _ in range(6):
                publisher.send(b"x", transaction=transaction)
        assert blocked_with_a_reason(broker)
        with pytest.raises(SendTimeout):
            publisher.send(b"x")


def test_idle_clients_that_wake_up_together_are_accepted_as_consumers_make_room(broker: BrokerThread) -> None:
    broker.queue("orders", capacity_messages=5)
    with Crowd(broker) as crowd:
        sleeping = idle(crowd, 100)
        attached(broker, 100)
        for publisher in sleeping:
            publisher.go_on(2)
        broker.until_queue("orders", lambda q: q.gate.state.overfull, "it is overfull")
        assert broker.depth("orders") == 6, "what came above the capacity waits outside"
        taker = crowd.taker("orders")
        wait_until(lambda: len(taker.taken) == 200, "all of it arrived", within=20)
        wait_until(lambda: all(p.accepted == 2 for p in sleeping), "and was accepted")
        assert broker.see("orders", lambda q: len(q.gate.parked)) == 0


@pytest.mark.domain("4 memoryLimit per destination")
@pytest.mark.parametrize("senders", [1, 10, 100])
def test_a_capacity_in_bytes_is_exceeded_by_one_message_at_most_when_sizes_grow(
    broker: BrokerThread, senders: int
) -> None:
    broker.queue("orders", capacity_bytes=50_000)
    fill(broker, "orders", [b"x" * 80] * 20)
    large = len(Message(body=b"x" * 10_000).encode())
    highest = broker.do(_watch_bytes)
    with Crowd(broker) as crowd:
        publishers = [crowd.publisher("orders", size=10_000, answers_drains=False) for _ in range(senders)]
        attached(broker, senders)
        broker.until_queue("orders", lambda q: q.gate.state.overfull, "it is overfull")
        taker = crowd.taker("orders")
        wait_until(lambda: len(taker.taken) >= 20 + 10 * senders, "they go on as it is emptied", within=90)
        assert all(p.condition == "" for p in publishers)
    assert 50_000 < max(highest) <= 50_000 + large


def _watch_bytes(service: object) -> list[int]:
    """The depth of the queue in bytes after every turn of the broker, from now on."""
    container = service.container  # type: ignore[attr-defined]
    queue = service.broker.queue("default", "orders")  # type: ignore[attr-defined]
    seen: list[int] = []
    finish = container.finish

    def watched() -> None:
        finish()
        seen.append(queue.gate.depth_bytes)

    container.finish = watched
    return seen
