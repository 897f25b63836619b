"""Operators' stops of clients, and the end of links and connections, through `$management` and real connections."""

from __future__ import annotations

from typing import Any

import pytest
from proton import Message
from proton.utils import ConnectionClosed, LinkDetached

from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import Managing, bodies, connected, managing, until

BROKER = "type=Broker"


def listed(asks: Managing, entity: str, **where: str) -> list[dict[str, Any]]:
    """Return the attributes of objects, with their names as `object`."""
    found = asks.ask("QUERY", {"where": where}, entityType=entity).body
    return [dict(zip(found["attributeNames"], row, strict=True)) for row in found["results"]]


def test_stop_of_a_container_holds_its_producers_alone_and_those_that_attach_again(broker: BrokerThread) -> None:
    broker.queue("orders")
    named = {"container_id": "web-1", "reason": "poison", "actor": "op"}
    with managing(broker) as asks, connected(broker, container_id="web-2") as other:
        beside = other.create_sender("orders")
        with connected(broker, container_id="web-1") as client:
            client.create_sender("orders").send(Message(body="before"))
            stopped = asks.ask("stop-producers", named, name=BROKER).body
            assert (stopped["queues"], stopped["producers"], stopped["changed"]) == (1, 1, True)
            beside.send(Message(body="beside"))
        with connected(broker, container_id="web-1") as client:
            sender = client.create_sender("orders")
            (row,) = listed(asks, "Producer", state="BLOCKED")
            assert row["reasons"] == ["operator-stop:client container_id=web-1 of broker"]
            assert row["credit"] == 0
            assert sender.credit == 0
            (stop,) = asks.ask("READ", name=BROKER).body["stops"]
            assert (stop["container_id"], stop["user"], stop["object"]) == ("web-1", "", BROKER)
            asks.ask("start-producers", {"container_id": "web-1", "reason": "mended", "only": True}, name=BROKER)
            sender.send(Message(body="after"))
        assert bodies(other.create_receiver("orders"), 3) == ["before", "beside", "after"]


def test_client_reports_its_library_and_hostile_properties_are_ignored(broker: BrokerThread) -> None:
    with (
        managing(broker) as asks,
        connected(broker, container_id="named", client_properties={"product": "p" * 5000, "version": 7}),
    ):
        (row,) = listed(asks, "Connection", container_id="named")
    assert (row["product"], row["product_version"]) == ("p" * 100, "")


@pytest.mark.parametrize("prefetched", [3])
def test_end_of_a_consumer_returns_its_messages_as_the_preview_says(broker: BrokerThread, prefetched: int) -> None:
    broker.queue("orders")
    with managing(broker) as asks, connected(broker) as sending, connected(broker) as slow:
        sender = sending.create_sender("orders")
        for number in range(prefetched):
            sender.send(Message(body=number))
        receiver = slow.create_receiver("orders", credit=10)
        until(slow, lambda: len(receiver.fetcher.incoming) == prefetched, "all are prefetched")
        broker.until_queue("orders", lambda q: q.lanes.unacknowledged == prefetched, "all are prefetched")
        (consumer,) = listed(asks, "Consumer", queue="orders")
        preview = asks.ask("preview-close", {}, name=consumer["object"]).body
        assert (preview["consumers"], preview["redelivered_messages"]) == (1, prefetched)
        asks.ask("close", {"reason": "stuck", "actor": "op"}, name=consumer["object"])
        with pytest.raises(LinkDetached, match="closed by op: stuck"):
            until(slow, lambda: False, "its link ends")
        assert broker.see("orders", lambda q: (q.consumer_count, q.lanes.unacknowledged)) == (0, 0)
        again = sending.create_receiver("orders")
        assert sorted(bodies(again, prefetched)) == list(range(prefetched))


@pytest.mark.parametrize("address", ["orders", "news/eu"])
def test_end_of_a_producer_closes_its_link_and_nothing_else(broker: BrokerThread, address: str) -> None:
    broker.queue("orders")
    with managing(broker) as asks, connected(broker) as client:
        asks.ask("CREATE", {"exchange_type": "topic"}, name="type=Exchange,virtualhost=default,name=news")
        asks.ask("bind", {"queue": "orders", "key": "eu"}, name="type=Exchange,virtualhost=default,name=news")
        sender, beside = client.create_sender(address), client.create_sender("orders", name="beside")
        sender.send(Message(body=1))
        producers = listed(asks, "Producer")
        (target,) = [p for p in producers if p["link"] != "beside"]
        assert asks.ask("preview-close", {}, name=target["object"]).body["producers"] == 1
        asks.ask("close", {"reason": "noisy"}, name=target["object"])
        with pytest.raises(LinkDetached, match="noisy"):
            until(client, lambda: False, "its link ends")
        beside.send(Message(body=2))
        assert bodies(client.create_receiver("orders"), 2) == [1, 2]
        remaining = listed(asks, "Producer")
        assert [p["link"] for p in remaining] == ["beside"]


def test_end_of_a_connection_rolls_back_as_the_preview_says(broker: BrokerThread) -> None:
    broker.queue("orders")
    with managing(broker) as asks, connected(broker, container_id="gone") as client:
        client.create_sender("orders").send(Message(body=1))
        (row,) = listed(asks, "Connection", container_id="gone")
        preview = asks.ask("preview-close", {}, name=row["object"]).body
        assert preview == {
            "producers": 1,
            "consumers": 0,
            "redelivered_messages": 0,
            "unsettled_messages": 0,
            "rolled_back_transactions": 0,
            "rolled_back_messages": 0,
        }
        asks.ask("close", {"reason": "why", "actor": "op"}, name=row["object"])
        with pytest.raises(ConnectionClosed, match="closed by op: why"):
            until(client, lambda: False, "the connection ends")
