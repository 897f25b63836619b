"""What a consumer's credit and its settlements cost the broker in one turn is bounded."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Message

from brokers.amqp import consumer_link
from brokers.amqp.consumer_link import ConsumerLink
from brokers.engine.queues import dispatching
from brokers.server.service import Service
from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import Prefetch, bodies, connected

pytestmark = pytest.mark.domain("8 no input burns")


def test_presettled_messages_go_in_bounded_turns_whatever_the_credit(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.queue("q")
    most, count, sent = 100, 350, [0]
    monkeypatch.setattr(dispatching, "MOST_SERVED", most)

    def counted(link: ConsumerLink, messages: list[Any]) -> None:
        sent[-1] += len(messages)
        send(link, messages)

    def turn(service: Service) -> None:
        finish = service.container.finish

        def counting() -> None:
            sent.append(0)
            finish()

        service.container.finish = counting  # type: ignore[method-assign]

    broker.do(lambda s: [s.broker.queue("default", "q").enqueue(bytes(Message(body=n).encode())) for n in range(count)])
    send = ConsumerLink.send
    monkeypatch.setattr(ConsumerLink, "send", counted)
    broker.look(turn)
    with connected(broker) as connection:
        receiver = connection.create_receiver("q", credit=1_000_000, options=Prefetch())
        assert bodies(receiver, count, accept=False) == list(range(count))
    assert max(sent) <= most


class Delivery:
    """`compared`: with another one, all of them together."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Delivery.compared += 1
        return self is other

    def __hash__(self) -> int:
        return id(self) >> 4


class Accepting:
    """A queue whose removals are all confirmed later."""

    def remove(self, *_: Any) -> int:
        return 1

    def confirm(self, *_: Any) -> None: ...


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A consumer's link, without Proton. `settled`: deliveries, in order; `accepted`: those to which it said so."""
    link = ConsumerLink.__new__(ConsumerLink)
    context: Any = type("Context", (), {"dirty": lambda self: None})()
    ConsumerLink.__init__(link, context, None, presettled=False)
    link.consumer = type("Consumer", (), {"queue": Accepting(), "browsing": False})()
    found: Any = type("Found", (), {"link": link, "settled": [], "accepted": []})()
    monkeypatch.setattr(consumer_link, "delivery_settled", lambda delivery: False)
    monkeypatch.setattr(consumer_link, "delivery_settle", found.settled.append)
    monkeypatch.setattr(consumer_link, "delivery_update", lambda delivery, state: found.accepted.append(delivery))
    return found


def test_client_that_settles_what_the_store_has_not_confirmed_costs_a_step_for_each(link: Any) -> None:
    deliveries = [Delivery() for _ in range(2000)]
    Delivery.compared = 0
    for delivery in deliveries:
        link.link._removed(delivery, 1)
    for delivery in reversed(deliveries[1:-1]):
        link.link._settle_late(delivery)
    assert Delivery.compared < 20_000
    link.link.confirm(1000)
    assert link.accepted == deliveries[:1]
    link.link.confirm(999)
    assert link.accepted == deliveries[:1], "the last one is not confirmed"
    link.link.confirm(1)
    assert link.accepted == [deliveries[0], deliveries[-1]]
    assert sorted(map(id, link.settled)) == sorted(map(id, deliveries)), "each once"


def test_delivery_at_the_place_of_a_settled_one_is_confirmed_for_itself(link: Any) -> None:
    """Proton uses the memory of a settled delivery for the next one."""
    delivery = Delivery()
    link.link._removed(delivery, 1)
    link.link._settle_late(delivery)
    link.link._removed(delivery, 1)
    link.link.confirm(1)
    assert link.accepted == []
    link.link.confirm(1)
    assert link.accepted == [delivery]
