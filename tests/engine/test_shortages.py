"""An exceeded store, memory or temp limit: which producers it blocks, why, and until when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from brokers.admin import InvalidValue
from brokers.engine.flow.usage import Resource
from brokers.engine.values.message import Header
from brokers.model import ObjectName, object_name
from brokers.testing import InMemoryBroker
from tests.engine.fake_store import FakeStore, FakeStores

HOST = object_name("VirtualHost", name="default")
OTHER = object_name("VirtualHost", name="other")
BROKER = object_name("Broker")


@pytest.fixture
def broker() -> InMemoryBroker:
    """With a durable queue in each of two virtual hosts."""
    broker = InMemoryBroker()
    broker.engine.stores.provider = FakeStores()
    broker.management.create(OTHER, {"create_on_attach": True, "anonymous": True})
    for host in ("default", "other"):
        broker.management.create(object_name("Queue", virtualhost=host, name="stored"), {"durable": True})
    return broker


def update(broker: InMemoryBroker, name: ObjectName, **values: Any) -> None:
    asyncio.run(broker.update(name, values, broker.management.read(name).version))


def store(broker: InMemoryBroker, host: str = "default") -> FakeStore:
    found = broker.engine.virtualhost(host).store
    assert isinstance(found, FakeStore)
    return found


def look(broker: InMemoryBroker, **available: int) -> None:
    broker.engine.shortages.measure({Resource[name.upper()]: value for name, value in available.items()})
    broker.advance(0)


def texts_of(broker: InMemoryBroker, code: str) -> list[str]:
    return [e.text for e in broker._events if code in e.text]


def test_store_above_its_limit_blocks_every_producer_of_its_virtual_host_and_no_other(broker: InMemoryBroker) -> None:
    update(broker, HOST, store_overfull_bytes=10_000, store_underfull_bytes=8_000)
    stored, passing = broker.attach_producer("stored"), broker.attach_producer("passing")
    elsewhere = broker.attach_producer("stored", "other")
    store(broker).used_bytes = 10_000
    look(broker)
    assert not stored.blocked
    store(broker).used_bytes = 10_001
    look(broker)
    look(broker)
    late = broker.attach_producer("later")  # a queue that is created meanwhile
    for producer in (stored, passing, late):
        assert list(producer.reasons) == ["store-overfull"]
        assert producer.credit == 0
        assert producer.release_condition() == "the store falls below 8,000 bytes (now 10,001)"
    assert not elsewhere.blocked
    assert elsewhere.credit > 0
    assert texts_of(broker, "MST-1008") == [
        "[vh(/default)/ms(Journal)] MST-1008 : Store overfull, flow control will be enforced"
    ]
    assert broker.management.read(HOST).attributes["store_overfull"] is True
    assert broker.management.read(HOST).attributes["blocked_producers"] == 3
    store(broker).used_bytes = 8_000
    look(broker)
    assert stored.blocked
    store(broker).used_bytes = 7_999
    look(broker)
    for producer in (stored, passing, late):
        assert not producer.blocked
        assert producer.credit > 0
    assert texts_of(broker, "MST-1009") == ["[vh(/default)/ms(Journal)] MST-1009 : Store overfull condition cleared"]


def test_store_limits_apply_at_once_and_are_refused_with_both_values(broker: InMemoryBroker) -> None:
    producer = broker.attach_producer("stored")
    store(broker).used_bytes = 5_000
    update(broker, HOST, store_overfull_bytes=4_000)
    assert producer.blocked
    update(broker, HOST, store_overfull_bytes=None)
    assert not producer.blocked
    update(broker, HOST, store_overfull_bytes=6_000)
    with pytest.raises(InvalidValue) as refused:
        update(broker, HOST, store_underfull_bytes=6_001)
    assert "6001" in refused.value.errors["store_underfull_bytes"]
    assert "6000" in refused.value.errors["store_underfull_bytes"]
    assert broker.management.read(HOST).attributes["store_underfull_bytes"] is None


def test_full_disk_blocks_producers_whatever_the_limits(broker: InMemoryBroker) -> None:
    producer = broker.attach_producer("passing")
    store(broker).full = True
    look(broker)
    assert list(producer.reasons) == ["store-overfull"]
    assert producer.release_condition() == "the disk has room for the store again"
    store(broker).full = False
    look(broker)
    assert not producer.blocked


@pytest.mark.domain("4 systemUsage")
def test_memory_limit_in_percent_blocks_every_producer_until_consumers_have_made_room(broker: InMemoryBroker) -> None:
    look(broker, memory=10_000)
    update(broker, BROKER, memory_limit="20%")
    producer, elsewhere = broker.attach_producer("passing"), broker.attach_producer("passing", "other")
    assert broker.publish(elsewhere, 1) == 1
    assert broker.publish(producer, 20) == 20
    look(broker)
    assert list(producer.reasons) == list(elsewhere.reasons) == ["memory-overfull"]
    assert broker.management.read(BROKER).attributes["shortages"] == ["memory-overfull"]
    assert texts_of(broker, "HGT-1006") == ["[broker] HGT-1006 : Memory Limit Exceeded : Used : 2,100, Limit : 2,000"]
    consumer = broker.attach_consumer("passing", 1)
    look(broker)
    assert consumer.messages == 1
    assert not producer.blocked
    assert not elsewhere.blocked
    update(broker, BROKER, memory_total=5_000)
    assert producer.blocked  # 20 % of less


@pytest.mark.domain("7 states")
def test_reasons_are_independent(broker: InMemoryBroker) -> None:
    producer = broker.attach_producer("stored")
    broker.engine.turn.header = lambda body: Header(durable=True)
    assert broker.publish(producer, 1) == 1
    store(broker).used_bytes = 500
    update(broker, HOST, store_overfull_bytes=400)
    update(broker, BROKER, store_limit=400)
    asyncio.run(broker.call(HOST, "stop-producers", {"reason": "", "actor": "ann"}))
    assert list(producer.reasons) == ["store-overfull", "operator-stop:virtualhost default"]
    update(broker, HOST, store_overfull_bytes=None)
    assert list(producer.reasons) == [
        "store-overfull",
        "operator-stop:virtualhost default",
    ]  # the broker's limit still is
    asyncio.run(broker.call(HOST, "start-producers", {"reason": "", "actor": "ann"}))
    assert list(producer.reasons) == ["store-overfull"]
    update(broker, BROKER, store_limit=None)
    assert not producer.blocked
    assert producer.credit > 0


def test_limit_above_its_total_is_refused_with_both_values(broker: InMemoryBroker) -> None:
    with pytest.raises(InvalidValue) as refused:
        update(broker, BROKER, temp_limit=2_000, temp_total=1_000)
    assert refused.value.errors == {"temp_limit": "temp_limit is 2000 and temp_total is 1000: there is not so much"}


@pytest.mark.domain("4 limits exist without a setting")
def test_unset_limit_is_the_default_and_has_its_origin(broker: InMemoryBroker) -> None:
    broker.engine.shortages.defaults = {Resource.MEMORY: "40%"}
    broker.engine.shortages.wholes = {Resource.MEMORY: "the machine's memory"}
    shown = broker.management.read(BROKER).attributes
    assert (shown["memory_limit_bytes"], shown["memory_limit"]) == (0, None)  # the available amount is not known yet
    look(broker, memory=24 << 30)

    def limit() -> tuple[int, str]:
        shown = broker.management.read(BROKER).attributes
        return shown["memory_limit_bytes"], shown["memory_limit_origin"]

    default = int((24 << 30) * 0.4), "default: 40% of 24 GiB (the machine's memory)"
    assert limit() == default
    update(broker, BROKER, memory_limit="25%")
    assert limit() == (6 << 30, "set here: 25% of 24 GiB (the machine's memory)")
    update(broker, BROKER, memory_total=1 << 20)
    assert limit() == (1 << 18, "set here: 25% of 1 MiB (memory_total)")
    update(broker, BROKER, memory_limit=1000)
    assert limit() == (1000, "set here")
    update(broker, BROKER, memory_limit=0, memory_total=None)
    assert limit() == (0, "none, set here")
    update(broker, BROKER, memory_limit=None)
    assert limit() == default
    assert broker.management.read(BROKER).attributes["store_limit_origin"] == "none"


def test_default_blocks_and_unblocks_as_a_set_limit_does(broker: InMemoryBroker) -> None:
    broker.engine.shortages.defaults = {Resource.MEMORY: "10%"}
    look(broker, memory=10_000)
    producer = broker.attach_producer("passing")
    assert broker.publish(producer, 11) == 11
    assert list(producer.reasons) == ["memory-overfull"]
    update(broker, BROKER, memory_limit=0)
    assert not producer.blocked
