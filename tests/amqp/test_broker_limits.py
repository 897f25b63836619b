"""The limits of memory, store, temporary store and a virtual host's store, with a real broker and real clients."""

from __future__ import annotations

from pathlib import Path

import pytest
from proton import Delivery, Message
from proton.utils import SendException

from brokers.engine.flow.usage import Resource
from brokers.server.service import Service
from tests.amqp.broker_thread import BrokerThread, wait_until
from tests.amqp.clients import connected, managing

MB = 1_000_000
SIZE = 256 * 1024
#: What a message has beside its body, encoded; and on disk, where it takes whole pages.
HEADERS, PAGES = 200, 16 * 1024
LIMITS = {"memory": 16 * MB, "store": 5 * MB, "quota": 3 * MB, "temp": 20 * MB}


def limited(broker: BrokerThread, what: str) -> None:
    def set_limit(service: Service) -> None:
        engine = service.broker
        own: dict[str, int | str] = {"capacity_messages": 4, "spool": "disk"} if what == "temp" else {}
        host = engine.virtualhost("default")
        engine.create_queue(host, "orders", own, durable=what in ("store", "quota"))
        if what == "quota":
            engine.shortages.set_store_limits(host, {"store_overfull_bytes": LIMITS[what]})
        else:
            engine.shortages.set_limits({f"{what}_limit": LIMITS[what]})

    broker.do(set_limit)


def used(service: Service, what: str) -> int:
    return service.broker.shortages.used(Resource["STORE" if what == "quota" else what.upper()])


@pytest.mark.domain("4 limits bound what is used")
@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("what", LIMITS)
def test_large_messages_exceed_a_limit_by_one_a_producer_at_most(broker: BrokerThread, what: str, count: int) -> None:
    limited(broker, what)
    message = Message(body=b"x" * SIZE, durable=what in ("store", "quota"))
    with connected(broker) as connection:
        senders = [connection.create_sender("orders", name=f"s{n}").link for n in range(count)]
        connection.container.timeout = 0.02

        def all_blocked() -> bool:
            for sender in senders:
                while sender.credit > 0:  # below: what was taken back is in flight
                    sender.send(message)
            connection.container.process()
            blocked: int = broker.see("orders", lambda queue: queue.gate.blocked_producers)
            return blocked == count

        wait_until(all_blocked, "all producers are blocked", 60.0)
        for _ in range(20):  # what is in flight arrives
            all_blocked()
        found = broker.look(lambda service: used(service, what))
        page = 0 if what == "memory" else PAGES
        assert LIMITS[what] < found <= LIMITS[what] + count * (SIZE + HEADERS + page)
        broker.do(lambda service: service.broker.queue("default", "orders").lanes.purge())
        wait_until(
            lambda: connection.container.process() or all(s.credit > 0 for s in senders), "all may send again", 60.0
        )


@pytest.mark.domain("4 failing sends for systemUsage")
def test_a_send_fails_at_once_while_memory_is_short_and_the_broker_says_reject(broker: BrokerThread) -> None:
    """ActiveMQ: <systemUsage sendFailIfNoSpace="true">."""
    limited(broker, "memory")
    broker.do(lambda service: service.broker.set_broker_defaults({"mechanism": "reject"}))
    with connected(broker) as connection:
        sender = connection.create_sender("orders")
        message = Message(body=b"x" * SIZE)
        for _ in range(16 * MB // SIZE + 1):
            sender.send(message)
        with pytest.raises(SendException) as refused:
            sender.send(message)
        assert refused.value.state == Delivery.REJECTED
        assert 60 < broker.depth("orders") < 63
        assert sender.link.credit


@pytest.mark.domain("4 limits exist without a setting")
def test_broker_derives_its_limits_from_the_machine_also_with_an_older_data_folder(tmp_path: Path) -> None:
    for _ in range(2):  # the second recovers the first one's data, without a setting
        with BrokerThread(tmp_path) as broker, managing(broker) as manager:
            shown = manager.ask("READ", {}, name="type=Broker").body
            for what in ("memory", "store", "temp"):
                assert shown[f"{what}_limit"] is None
                assert shown[f"{what}_limit_bytes"] > MB
                assert shown[f"{what}_limit_origin"].startswith("default: ")
