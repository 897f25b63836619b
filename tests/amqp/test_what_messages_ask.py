"""What messages ask for, with real clients: priority, time to live, and an end to deliveries that fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from proton import ConnectionException, Delivery, Described, Message, symbol, ulong
from proton.reactor import LinkOption
from proton.utils import LinkDetached

from brokers.engine.queues.choosing import MOST_EXAMINED
from brokers.model import object_name
from tests.amqp.broker_thread import BrokerThread, wait_until
from tests.amqp.clients import Copy, Crowd, bodies, connected, fill, managing
from tests.amqp.test_outcomes import modify

QUEUE = str(object_name("Queue", virtualhost="default", name="q"))


def lose_connections(broker: BrokerThread) -> None:
    broker.do(lambda s: [listener.transport.abort() for listener in list(s._listeners) if listener.transport])


@contextmanager
def lost(broker: BrokerThread) -> Iterator[Any]:
    """A connection that is lost, without a close, at the end of the block."""
    with connected(broker) as connection:
        yield connection
        lose_connections(broker)
        with pytest.raises(ConnectionException):
            connection.wait(lambda: False, timeout=5)


def attributes(broker: BrokerThread, *names: str) -> list[Any]:
    with managing(broker) as manager:
        found = manager.ask("READ", name=QUEUE).body
    return [found[name] for name in names]


def browse(broker: BrokerThread, queue: str, count: int, *options: Any) -> list[Message]:
    with connected(broker) as connection:
        receiver = connection.create_receiver(queue, credit=count, options=[Copy(), *options])
        return [receiver.receive() for _ in range(count)]


# -- priority -----------------------------------------------------------------------------------------------------

MIXED = [4, 0, 9, 4, 200, 7, 4, 0]
IN_ORDER = ["9-2", "200-4", "7-5", "4-0", "4-3", "4-6", "0-1", "0-7"]


def mixed(*, durable: bool = False) -> list[Message]:
    return [Message(body=f"{p}-{n}", priority=p, durable=durable) for n, p in enumerate(MIXED)]


def test_higher_priorities_go_first_and_equal_ones_in_the_order_in_which_they_came(broker: BrokerThread) -> None:
    fill(broker, "q", mixed())
    assert [m.body for m in browse(broker, "q", len(MIXED))] == IN_ORDER
    with connected(broker) as connection:
        assert bodies(connection.create_receiver("q", credit=1), len(MIXED)) == IN_ORDER


def test_a_released_message_takes_its_old_place_among_its_priority(broker: BrokerThread) -> None:
    fill(broker, "q", mixed())
    with connected(broker) as connection:
        receiver = connection.create_receiver("q", credit=4)
        assert bodies(receiver, 4, accept=False) == IN_ORDER[:4]
    broker.until_queue("q", lambda q: not q.lanes.unacknowledged, "they are back")
    fill(broker, "q", [Message(body="new", priority=9)])
    with connected(broker) as connection:
        got = bodies(connection.create_receiver("q", credit=1), len(MIXED) + 1)
    assert got == [*IN_ORDER[:2], "new", *IN_ORDER[2:]]


def test_priorities_hold_after_a_restart(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        fill(broker, "q", mixed(durable=True))
    with BrokerThread(tmp_path) as broker:
        fill(broker, "q", [Message(body="new", priority=9, durable=True), Message(body="last", durable=True)])
        with connected(broker) as connection:
            got = bodies(connection.create_receiver("q", credit=3), len(MIXED) + 2)
    assert got == [*IN_ORDER[:2], "new", *IN_ORDER[2:6], "last", *IN_ORDER[6:]]


# -- time to live -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [True, False])
def test_an_expired_message_is_neither_delivered_nor_shown_and_makes_room(tmp_path: Path, durable: bool) -> None:
    with BrokerThread(tmp_path) as broker:
        broker.do(
            lambda s: s.broker.create_queue(
                s.broker.virtualhost("default"), "q", {"capacity_messages": 3}, durable=True
            )
        )
        # Long enough for all four to be there together on a slow machine, too.
        short = [Message(body=n, ttl=3, durable=durable) for n in range(3)]
        fill(broker, "q", [*short, Message(body="stays", durable=durable)])
        wait_until(lambda: any("QUE-1003" in text for text in broker.texts()), "the queue has been overfull")
        with Crowd(broker) as crowd:
            publisher = crowd.publisher("q", 1)
            wait_until(lambda: publisher.accepted == 1, "the expired ones made room, with no consumer there")
        assert attributes(broker, "expired_messages", "depth_messages") == [3, 2]
        assert browse(broker, "q", 1)[0].body == "stays"


def test_receiver_gets_the_rest_of_the_time_to_live(broker: BrokerThread) -> None:
    fill(broker, "q", [Message(body=1, ttl=60, priority=6), Message(body=2)])
    before = broker.look(lambda s: s.broker.turn.now)
    wait_until(lambda: broker.look(lambda s: s.clock.now()) - before > 50, "time has passed")
    with connected(broker) as connection:
        receiver = connection.create_receiver("q", credit=2)
        first, second = receiver.receive(), receiver.receive()
    assert 50 < first.ttl < 60
    assert (first.priority, first.delivery_count, second.ttl) == (6, 0, 0)


def test_messages_expire_after_a_restart_by_the_time_at_which_they_came(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        fill(broker, "q", [Message(body=1, ttl=0.2, durable=True), Message(body=2, ttl=60, durable=True)])
    with BrokerThread(tmp_path) as broker:
        broker.until_queue("q", lambda q: q.gate.depth_messages == 1, "one has expired")
        with connected(broker) as connection:
            message = connection.create_receiver("q", credit=2).receive()
        assert message.body == 2
        assert 50 < message.ttl < 60


# -- deliveries that fail -----------------------------------------------------------------------------------------


def test_a_connection_that_is_lost_counts_as_a_failed_delivery_and_one_that_is_closed_does_not(
    broker: BrokerThread,
) -> None:
    fill(broker, "q", [1])
    with connected(broker) as connection:
        connection.create_receiver("q", credit=1).receive()
    with lost(broker) as connection:
        assert connection.create_receiver("q", credit=1).receive().delivery_count == 0
    with connected(broker) as connection:
        receiver = connection.create_receiver("q", credit=1)
        assert receiver.receive().delivery_count == 1
        receiver.close()  # the link alone
        assert connection.create_receiver("q", credit=1).receive().delivery_count == 1


def test_message_with_too_many_failed_deliveries_is_dead_lettered_with_the_reason(broker: BrokerThread) -> None:
    broker.queue("q", maximum_deliveries=2, dead_letter_queue="q.dead")
    poison = Message(body="poison", ttl=60, properties={"p": 1}, annotations={symbol("x-opt-mine"): 3})
    fill(broker, "q", [poison, "good"])
    with connected(broker) as connection:
        receiver = connection.create_receiver("q", credit=2)
        receiver.receive()
        modify(receiver, failed=True)
        assert receiver.receive().body == "good"
        receiver.accept()
        receiver.receive()
        modify(receiver, failed=True)
    (dead,) = browse(broker, "q.dead", 1)
    assert (dead.body, dead.properties, dead.ttl, dead.delivery_count) == ("poison", {"p": 1}, 0, 0)
    assert dict(dead.annotations) == {
        "x-opt-mine": 3,
        "x-opt-dead-letter-reason": "maximum-deliveries",
        "x-opt-dead-letter-queue": "q",
        "x-opt-dead-letter-failed-deliveries": 2,
    }
    assert attributes(broker, "depth_messages", "dead_lettered_messages", "discarded_messages") == [0, 1, 0]
    said = [text for text in broker.texts() if "HGT-1011" in text]
    assert said == [
        "[vh(/default)/qu(q)] HGT-1011 : Dead-lettered : 1 message, To : q.dead, Reason : maximum-deliveries"
    ]


def test_rejected_message_is_dead_lettered_or_without_a_queue_for_that_discarded(broker: BrokerThread) -> None:
    broker.queue("q", dead_letter_queue="q.dead")
    fill(broker, "q", ["no"])
    with connected(broker) as connection:
        receiver = connection.create_receiver("q", credit=1)
        receiver.receive()
        receiver.reject()
    broker.until_queue("q.dead", lambda q: q.gate.depth_messages, "it is there")
    (dead,) = browse(broker, "q.dead", 1)
    assert (dead.body, dead.annotations["x-opt-dead-letter-reason"]) == ("no", "rejected")
    with managing(broker) as manager:
        manager.ask("UPDATE", {"dead_letter_queue": None}, name=QUEUE, version=1)
    fill(broker, "q", ["no again"])
    with connected(broker) as connection:
        receiver = connection.create_receiver("q", credit=1)
        receiver.receive()
        receiver.reject()
    broker.until_queue("q", lambda q: q.gate.depth_messages == 0, "it has gone")
    assert attributes(broker, "dead_lettered_messages", "discarded_messages") == [1, 1]


def test_a_stored_message_is_dead_lettered_once_and_outlives_the_broker(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        with managing(broker) as manager:
            attributes = {"durable": True, "maximum_deliveries": 1, "dead_letter_queue": "dead"}
            assert manager.ask("CREATE", attributes, name=QUEUE).status == 201
        fill(broker, "q", [Message(body=n, durable=True) for n in range(3)])
        with connected(broker) as connection:
            receiver = connection.create_receiver("q", credit=2)
            receiver.receive()
            modify(receiver, failed=True)
        broker.until_queue("dead", lambda q: q.gate.depth_messages == 1 and not q.storage.unsafe, "it is there")
    for _ in range(2):
        with BrokerThread(tmp_path) as broker:
            assert (broker.depth("q"), broker.depth("dead")) == (2, 1)
            (dead,) = browse(broker, "dead", 1)
            assert (dead.body, dead.annotations["x-opt-dead-letter-queue"]) == (0, "q")


@pytest.mark.domain("3 third cause")
def test_poison_messages_that_stay_unacknowledged_hold_producers_until_their_deliveries_are_too_many(
    broker: BrokerThread,
) -> None:
    """The third cause of QPID-942."""
    large = "x" * 10_000
    broker.queue("q", capacity_bytes=25_000, maximum_deliveries=2, dead_letter_queue="poison")
    with Crowd(broker) as crowd, managing(broker) as manager:
        for failed in range(2):
            fill(broker, "q", [large] * 3) if not failed else None
            if not failed:
                publisher = crowd.publisher("q", 3)
            with connected(broker) as connection:
                receiver = connection.create_receiver("q", credit=3)
                for _ in range(3):
                    assert receiver.receive().delivery_count == failed
                state, blocked, unsettled = attributes(broker, "state", "blocked_producers", "unacknowledged_messages")
                assert (state, blocked, unsettled) == ("OVERFULL", 1, 3)
                (producer,) = manager.ask("QUERY", {"where": {"queue": QUEUE}}, entityType="Producer").body["results"]
                assert ["queue-overfull:q"] in producer
                assert publisher.accepted == 0
                for each in receiver.fetcher.unsettled:  # it takes them, and fails
                    each.local.failed = True
                while receiver.fetcher.unsettled:
                    receiver.fetcher.settle(Delivery.MODIFIED)
        wait_until(lambda: publisher.accepted == 3, "the producer goes on")
    assert broker.depth("poison") == 3
    assert attributes(broker, "depth_messages", "dead_lettered_messages") == [3, 3]


@pytest.mark.parametrize("value", ["$management", " ", "x" * 300])
def test_invalid_dead_letter_queue_is_refused_by_name(broker: BrokerThread, value: str) -> None:
    with managing(broker) as manager:
        answer = manager.ask("CREATE", {"dead_letter_queue": value}, name=QUEUE)
    assert answer.status == 400
    assert repr(value)[:50] in answer.description  # a long one is cut off


# -- selectors ----------------------------------------------------------------------------------------------------


SELECTOR = symbol("apache.org:selector-filter:string")


class Select(LinkOption):  # type: ignore[misc]
    def __init__(self, text: Any, descriptor: Any = SELECTOR) -> None:
        self.text, self.descriptor = text, descriptor

    def apply(self, link: Any) -> None:
        link.source.filter.put_object({symbol("selector"): Described(self.descriptor, self.text)})


COLORS = ["red", "blue", "green", "blue", "red", "blue"]


def colored(**more: Any) -> list[Message]:
    return [Message(body=n, properties={"color": c}, **more) for n, c in enumerate(COLORS)]


@pytest.mark.parametrize("descriptor", [SELECTOR, ulong(0x468C00000004)])
def test_consumer_gets_selected_messages_in_order_and_others_the_rest(broker: BrokerThread, descriptor: Any) -> None:
    fill(broker, "q", colored())
    with connected(broker) as connection:
        chooser = connection.create_receiver("q", credit=5, options=[Select("color = 'blue'", descriptor)])
        confirmed = chooser.link.remote_source.filter
        confirmed.rewind()
        confirmed.next()
        assert dict(confirmed.get_object())[symbol("selector")].value == "color = 'blue'"
        assert bodies(chooser, 3) == [1, 3, 5]
        fill(broker, "q", colored())
        assert bodies(chooser, 2) == [1, 3]  # it looks at what comes, too
        assert bodies(connection.create_receiver("q", credit=6, name="rest"), 6) == [0, 2, 4, 0, 2, 4]


def test_requeued_message_is_selected_again(broker: BrokerThread) -> None:
    fill(broker, "q", colored())
    with connected(broker) as connection:
        first = connection.create_receiver("q", credit=3, options=[Select("color = 'blue'")], name="one")
        second = connection.create_receiver("q", credit=5, options=[Select("color <> 'red'")], name="two")
        assert bodies(second, 1) == [2]
        assert bodies(first, 3, accept=False) == [1, 3, 5]
        first.close()
        assert bodies(second, 3) == [1, 3, 5]


def test_a_selector_finds_its_messages_past_many_others(broker: BrokerThread) -> None:
    count = 10 * MOST_EXAMINED
    with Crowd(broker) as crowd:
        publisher = crowd.publisher("q", count)
        wait_until(lambda: publisher.accepted == count, "all are there")
    fill(broker, "q", colored())
    with connected(broker) as connection:
        receiver = connection.create_receiver("q", credit=10, options=[Select("color = 'blue'")])
        assert bodies(receiver, 3) == [1, 3, 5]
    assert [m.body for m in browse(broker, "q", 2, Select("color = 'red'"))] == [0, 4]
    assert broker.depth("q") == count + 3


def test_browser_gets_only_selected_messages(broker: BrokerThread) -> None:
    fill(broker, "q", colored())
    assert [m.body for m in browse(broker, "q", 2, Select("color = 'red'"))] == [0, 4]
    assert broker.depth("q") == 6


def test_topic_subscription_stores_only_selected_messages(broker: BrokerThread) -> None:
    with connected(broker) as connection:
        receiver = connection.create_receiver("topic://colors", credit=10, options=[Select("color = 'blue'")])
        fill(broker, "topic://colors", colored())
        assert bodies(receiver, 3) == [1, 3, 5]
        queues = broker.look(lambda s: [(q.gate.enqueued, q.gate.depth_messages) for q in s.broker.queues()])
        assert [enqueued for enqueued, _ in queues] == [3]
        with pytest.raises(LinkDetached, match="cannot be read"):
            connection.create_receiver("topic://colors", name="wrong", options=[Select("color ==")])


@pytest.mark.parametrize(("text", "said"), [("color == 'x'", "cannot be read from"), (7, "not 7")])
def test_invalid_selector_is_refused_by_name(broker: BrokerThread, text: Any, said: str) -> None:
    with connected(broker) as connection:
        with pytest.raises(LinkDetached) as refused:
            connection.create_receiver("q", options=[Select(text)])
        assert "amqp:invalid-field" in str(refused.value)
        assert "selector" in str(refused.value)
        assert said in str(refused.value)


def test_unknown_filter_is_not_confirmed(broker: BrokerThread) -> None:
    fill(broker, "q", [1])
    with connected(broker) as connection:
        receiver = connection.create_receiver("q", credit=1, options=[Select("x", symbol("some:filter"))])
        confirmed = receiver.link.remote_source.filter
        confirmed.rewind()
        assert confirmed.next() is None
        assert receiver.receive().body == 1
