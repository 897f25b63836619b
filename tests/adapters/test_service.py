"""Brokers behind adapters as a console reaches them: over AMQP, with the driver for Headgate's own broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from brokers.adapters.service import AdaptersService
from brokers.admin import BrokerUnreachable, EffectNotConfirmed, NotAllowed, NotFound, StaleVersion
from brokers.drivers.bundled import BundledBroker
from brokers.drivers.single_certificate import trusting
from brokers.model import TYPES
from brokers.steady_clock import SteadyClock
from tests.adapters.fake import BROKER, Has, Memory, MemoryAdapter, queue_name

LIMIT = 60
ORDERS = queue_name("orders")


class Hosted:
    """A service with two brokers in memory, `one` and `two`."""

    def __init__(self, folder: Path) -> None:
        self.service = AdaptersService(folder)
        self.memories = {"one": Memory(), "two": Memory()}
        self.memories["one"].add("orders", 10)
        self.memories["two"].add("bills", 5, depth=6)

    async def start(self) -> None:
        await self.service.start()
        for name in self.memories:
            self.add(name)

    def add(self, name: str) -> None:
        effect = "reject" if name == "two" else "hold"
        self.service.add(name, MemoryAdapter(self.memories[name], self.service.time_of_day, has=Has(effect=effect)))

    async def connect(self, name: str) -> BundledBroker:
        """Connect once the broker answers."""
        password = self.service.secret.read_text().strip()
        async with asyncio.timeout(LIMIT):
            while True:
                try:
                    return await BundledBroker.connect(
                        "127.0.0.1", self.service.port, "console", password, timeout=LIMIT, name=name
                    )
                except BrokerUnreachable:
                    await asyncio.sleep(0.02)


@pytest_asyncio.fixture
async def hosted(tmp_path: Path) -> AsyncIterator[Hosted]:
    hosted = Hosted(tmp_path)
    await hosted.start()
    yield hosted
    await hosted.service.stop()


@pytest_asyncio.fixture
async def one(hosted: Hosted) -> AsyncIterator[BundledBroker]:
    broker = await hosted.connect("one")
    yield broker
    await broker.close()


async def test_adapters_follow_a_clock_that_is_set(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    steady, ahead = 5_000_000_000_000, 0
    service = AdaptersService(tmp_path, clock=SteadyClock(lambda: steady + ahead, lambda: steady))
    await service.start()
    service.add("one", MemoryAdapter(Memory(), service.time_of_day))
    await asyncio.sleep(0)  # its polling begins
    before = service.time_of_day()
    ahead = 3_600_000_000_000
    service._look_at_clock()
    service._look_at_clock()
    assert service.time_of_day() == before + 3_600_000
    assert caplog.text.count("the clock was set forward by 3600.0 s") == 1
    await service.stop()


async def test_two_brokers_are_served_at_one_address(hosted: Hosted, one: BundledBroker) -> None:
    two = await hosted.connect("two")
    assert [item.name["name"] for item in (await one.query("Queue")).items] == ["orders"]
    (bills,) = (await two.query("Queue")).items
    assert (bills["state"], bills["depth_messages"], bills["rate_in"]) == ("OVERFULL", 6, None)
    await two.close()


async def test_types_are_what_the_broker_has(hosted: Hosted, one: BundledBroker) -> None:
    types = await one.types()
    assert set(types) == {"Broker", "VirtualHost", "Queue"}
    queue = types["Queue"]
    assert [a.name for a in queue.writable] == ["capacity_messages"]
    assert queue.attribute("durable") is None
    assert queue.operation("purge") is None
    stop = queue.operation("stop-producers")
    assert stop is not None
    assert stop.producer_effect == "hold"
    two = await hosted.connect("two")
    refusing = (await two.types())["Queue"].operation("stop-producers")
    assert refusing is not None
    assert (refusing.producer_effect, refusing.remark) == ("reject", "Publishers are refused.")
    with pytest.raises(EffectNotConfirmed, match="Publishers are refused") as refused:
        await two.call(queue_name("bills"), "stop-producers", {})
    assert refused.value.effect == "reject"
    assert TYPES["Queue"].operation("stop-producers").producer_effect == "hold"  # type: ignore[union-attr]
    await two.close()


async def test_events_and_samples_arrive(hosted: Hosted, one: BundledBroker) -> None:
    events, samples = one.events(0), one.samples()
    hosted.memories["one"].depths[ORDERS] = 11
    async with asyncio.timeout(LIMIT):
        event = await anext(events)
        assert (event.number, event.kind, event.attributes["seen_at"]) == (1, "queue-overfull", event.at)
        depth = 0
        while depth != 11:
            depth = dict((await anext(samples)).queues).get(ORDERS, {"depth_messages": 0})["depth_messages"]
    again = one.events(0)
    assert (await anext(again)).number == 1


async def test_changes_stops_and_refusals_come_back_over_the_wire(hosted: Hosted, one: BundledBroker) -> None:
    before = await one.read(ORDERS)
    after = await one.update(ORDERS, {"capacity_messages": 20}, before.version, actor="ada")
    assert hosted.memories["one"].limits[ORDERS] == after["capacity_messages"] == 20
    with pytest.raises(StaleVersion):
        await one.update(ORDERS, {"capacity_messages": 30}, before.version)
    with pytest.raises(NotFound):
        await one.read(queue_name("nothing"))
    assert (await one.call(BROKER, "stop-producers", {"reason": "flood", "actor": "ada"}))["changed"]
    assert hosted.memories["one"].limits[ORDERS] == 0
    assert (await one.read(ORDERS))["state"] == "STOPPED"
    await one.call(BROKER, "start-producers", {"actor": "ada"})
    assert hosted.memories["one"].limits[ORDERS] == 20


async def test_broker_that_does_not_answer_ends_the_streams_and_the_other_goes_on(
    hosted: Hosted, one: BundledBroker
) -> None:
    two = await hosted.connect("two")
    events, samples = one.events(), one.samples()
    hosted.memories["one"].up = False
    async with asyncio.timeout(LIMIT):
        for stream in (events, samples):
            with pytest.raises(BrokerUnreachable, match="the broker does not answer"):
                await read_on(stream)
        with pytest.raises(BrokerUnreachable, match="the broker does not answer"):
            await one.read(ORDERS)
    assert (await two.query("Queue")).total == 1
    hosted.memories["one"].up = True
    back = await hosted.connect("one")
    assert (await back.query("Queue")).total == 1
    await back.close()
    await two.close()


async def read_on(stream: AsyncIterator[object]) -> None:
    """Read until the stream ends."""
    async for _ in stream:
        pass


async def test_removed_broker_is_gone_and_continues_its_numbers_when_it_is_added_again(
    hosted: Hosted, one: BundledBroker
) -> None:
    events = one.events(0)
    hosted.memories["one"].depths[ORDERS] = 11
    async with asyncio.timeout(LIMIT):
        assert (await anext(events)).number == 1
        await hosted.service.remove("one")
        with pytest.raises(BrokerUnreachable):
            await anext(events)
        hosted.memories["one"].depths[ORDERS] = 0
        hosted.add("one")
        back = await hosted.connect("one")
        assert [(await anext(stream)).kind for stream in [back.events(1)]] == ["queue-underfull"]
        await back.close()


async def test_only_the_console_may_sign_in(hosted: Hosted) -> None:
    with pytest.raises(NotAllowed):
        await BundledBroker.connect("127.0.0.1", hosted.service.port, "console", "wrong", timeout=LIMIT, name="one")
    assert hosted.service.secret.stat().st_mode & 0o077 == 0


async def test_beyond_loopback_it_listens_with_tls_and_one_certificate_to_trust(tmp_path: Path) -> None:
    """127.1 is this machine, but not recognized as loopback."""
    services = [AdaptersService(tmp_path / name, host="127.1") for name in ("one", "two")]
    for service in services:
        await service.start()
        service.add("one", MemoryAdapter(Memory(), service.time_of_day))
    one, two = services
    assert one.certificate != two.certificate
    assert (one.data / "tls.key").stat().st_mode & 0o077 == 0

    async def connect(trusted: str, password: str) -> BundledBroker:
        return await BundledBroker.connect(
            "127.1", one.port, "console", password, tls=trusting(trusted), timeout=LIMIT, name="one"
        )

    async with asyncio.timeout(LIMIT):
        while True:
            try:
                broker = await connect(one.certificate, one.password)
            except BrokerUnreachable:
                await asyncio.sleep(0.02)
            else:
                break
    assert (await broker.query("Queue")).total == 0
    await broker.close()
    with pytest.raises(BrokerUnreachable, match="not trusted"):
        await connect(two.certificate, one.password)
    with pytest.raises(NotAllowed):
        await connect(one.certificate, two.password)
    with pytest.raises(BrokerUnreachable):  # without TLS it does not answer
        await BundledBroker.connect("127.0.0.1", one.port, "console", one.password, timeout=5, name="one")
    for service in services:
        await service.stop()
