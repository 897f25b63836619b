"""What a real RabbitMQ reports by its event exchange is exact and one event, also when the connection is cut."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import trustme

from brokers.adapters.http import JsonHttp
from brokers.adapters.kinds import Account
from brokers.adapters.rabbitmq import RabbitMq, open_account
from brokers.adapters.rabbitmq_connection import Listener, SourceLost
from brokers.adapters.rabbitmq_source import EventExchange
from brokers.admin import Event
from brokers.model import ObjectName, object_name
from tests.adapters.fake import BROKER, queue_name
from tests.adapters.hosted import LIMIT, Hosted, until
from tests.interop.rabbitmq_node import RabbitNode, rabbitmq

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]

ORDERS = object_name("Policy", virtualhost="/", pattern="^orders$")
PLUGINS = ["rabbitmq_management", "rabbitmq_event_exchange"]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitNode]:
    with rabbitmq(tmp_path_factory.mktemp("rabbitmq"), plugins=PLUGINS) as node:
        yield node


def account(node: RabbitNode, user: str = "guest", password: str = "guest", authority: str = "") -> Account:
    return Account(f"http://127.0.0.1:{node.http_port}", user, password, authority)


class Adapted(Hosted):
    def __init__(self, folder: Path, node: RabbitNode) -> None:
        super().__init__(folder, lambda now: open_account(account(node), now), "/")
        self.node = node
        self.api = JsonHttp(f"http://127.0.0.1:{node.http_port}/api", "guest", "guest", seconds=LIMIT)

    async def start(self) -> None:
        await super().start()
        await until(self.is_attached)

    async def is_attached(self) -> bool:
        """Return whether a queue of Headgate is bound, and consumed."""
        found = await self.api.request("GET", "/consumers")
        return any(each["queue"]["name"].startswith("headgate-events.") for each in found)

    async def set_policy(self, length: int) -> None:
        definition = {"max-length": length, "overflow": "reject-publish"}
        body = {"pattern": "^orders$", "definition": definition, "apply-to": "queues"}
        await self.api.request("PUT", "/policies/%2F/theirs", body=body)

    async def of(self, name: ObjectName) -> list[Event]:
        return [event for event in await self.events() if event.object == name]

    async def until_events(self, name: ObjectName, count: int) -> list[Event]:
        async def are_there() -> bool:
            return len(await self.of(name)) >= count

        await until(are_there)
        return await self.of(name)

    async def until_polled(self) -> None:
        """Wait until a poll has read everything since now: it shows a queue that only polls show."""
        name = f"poll.{time.monotonic_ns()}"
        path = f"/queues/%2F/{name}"
        await self.api.request("PUT", path, body={"durable": False, "auto_delete": True})

        async def shown() -> bool:
            found = (await self.broker.query("Queue", where={"name": name})).items
            return bool(found) and found[0]["consumers"] is not None

        await until(shown)
        await self.api.request("DELETE", path)


@pytest_asyncio.fixture
async def adapted(tmp_path: Path, node: RabbitNode) -> AsyncIterator[Adapted]:
    adapted = Adapted(tmp_path, node)
    await adapted.start()
    yield adapted
    await adapted.stop()
    for policy in await adapted.api.request("GET", "/policies"):
        await adapted.api.request("DELETE", f"/policies/%2F/{policy['name']}")
    for queue in await adapted.api.request("GET", "/queues"):
        if not queue["exclusive"]:
            await adapted.api.request("DELETE", f"/queues/%2F/{queue['name']}")
    await adapted.api.close()


async def test_alarm_is_reported_at_its_time_and_does_not_end_the_reports(adapted: Adapted) -> None:
    await asyncio.to_thread(adapted.node.control, "set_vm_memory_high_watermark", "0")
    try:
        (begin,) = await adapted.until_events(BROKER, 1)
        await adapted.until_polled()
        assert (await adapted.broker.read(BROKER))["shortages"] == ["memory-overfull on test@localhost"]
    finally:
        await asyncio.to_thread(adapted.node.control, "set_vm_memory_high_watermark", "0.6")
    await adapted.until_events(BROKER, 2)
    await adapted.until_polled()
    found = await adapted.of(BROKER)
    assert [event.kind for event in found] == ["limit-exceeded", "limit-cleared"]
    for event in found:
        assert "seen_at" not in event.attributes
        assert event.attributes["resource"] == "memory-overfull on test@localhost"
    assert begin.text == "[broker] HGT-1006 : Limit Exceeded : memory-overfull on test@localhost"
    assert (await adapted.broker.read(BROKER))["shortages"] == []


async def test_policy_that_another_client_changes_has_its_user_and_headgates_own_the_operator(adapted: Adapted) -> None:
    await adapted.set_policy(5)
    await adapted.set_policy(6)
    await adapted.until_events(ORDERS, 2)
    await adapted.until_polled()
    shown = await adapted.broker.read(ORDERS)
    assert shown["capacity_messages"] == 6
    await adapted.broker.update(ORDERS, {"capacity_messages": 7}, shown.version, actor="ada")
    await adapted.api.request("DELETE", "/policies/%2F/theirs")
    await adapted.until_events(ORDERS, 4)
    await adapted.until_polled()
    found = await adapted.of(ORDERS)
    assert [(event.attributes["change"], event.attributes["actor"]) for event in found] == [
        ("created", "guest"), ("changed", "guest"), ("changed", "ada"), ("deleted", "guest"),
    ]  # fmt: skip
    assert not any("seen_at" in event.attributes for event in found)
    assert found[1].text.endswith("capacity_messages 5 -> 6, By : guest")


async def test_queues_are_reported_and_that_of_the_events_is_not_shown(adapted: Adapted) -> None:
    name = queue_name("orders", "/")
    await adapted.api.request("PUT", "/queues/%2F/orders", body={"durable": True})
    await adapted.until_events(name, 1)
    await adapted.until_polled()
    await adapted.api.request("DELETE", "/queues/%2F/orders")
    await adapted.until_events(name, 2)
    await adapted.until_polled()
    found = await adapted.of(name)
    assert [(event.kind, event.attributes.get("actor")) for event in found] == [
        ("queue-created", "guest"), ("queue-deleted", "guest"),
    ]  # fmt: skip
    shown = [queue.name["name"] for queue in (await adapted.broker.query("Queue")).items]
    assert not any(name.startswith("headgate-events.") for name in shown)
    assert not any("headgate-events." in str(event.object) for event in await adapted.events())
    (queue,) = [q for q in await adapted.api.request("GET", "/queues") if q["name"].startswith("headgate-events.")]
    assert queue["exclusive"]
    assert queue["arguments"] == {"x-max-length": 10_000, "x-overflow": "drop-head"}


async def test_changes_while_the_connection_is_cut_again_and_again_are_one_event_each(adapted: Adapted) -> None:
    lengths = list(range(10, 26))
    for number, length in enumerate(lengths):
        await adapted.set_policy(length)
        if number % 3 == 1:
            await asyncio.to_thread(adapted.node.control, "close_all_user_connections", "guest", "a test")
        if number % 5 == 4:
            await adapted.until_polled()
    await adapted.until_polled()

    async def is_last() -> bool:
        found = await adapted.of(ORDERS)
        return bool(found) and found[-1].attributes["after"].get("capacity_messages") == lengths[-1]

    await until(is_last)
    found = await adapted.of(ORDERS)
    values = [event.attributes["after"]["capacity_messages"] for event in found]
    # Changes between two polls while nothing is reported are one to the polls: none is doubled, none is out of order.
    assert values == sorted(set(values))
    before = [event.attributes["before"].get("capacity_messages") for event in found]
    assert before == [None, *values[:-1]]


async def test_changes_are_reported_again_after_the_connection_was_cut_again_and_again(adapted: Adapted) -> None:
    for length in range(10, 15):
        await adapted.set_policy(length)
        await asyncio.to_thread(adapted.node.control, "close_all_user_connections", "guest", "a test")
    await adapted.until_polled()
    more = iter(range(100, 1_000))

    async def are_reported_again() -> bool:
        before = len(await adapted.of(ORDERS))
        await adapted.set_policy(next(more))
        return (await adapted.until_events(ORDERS, before + 1))[-1].attributes.get("actor") == "guest"

    await until(are_reported_again)


async def faults(adapter: RabbitMq) -> list[str]:
    try:
        return [finding.fault for finding in await adapter.connect() if finding.fault]
    finally:
        await adapter.close()


async def test_user_without_permission_gets_the_missing_ones_named_and_with_these_has_no_fault(
    node: RabbitNode,
) -> None:
    api = JsonHttp(f"http://127.0.0.1:{node.http_port}/api", "guest", "guest", seconds=LIMIT)
    await api.request("PUT", "/users/reader", body={"password": "secret", "tags": "monitoring,policymaker"})
    body = {"configure": "", "write": "", "read": ""}
    for nothing in (False, True):
        if nothing:
            await api.request("PUT", "/permissions/%2F/reader", body=body)
        (fault,) = await faults(open_account(account(node, "reader", "secret"), lambda: 0))
        assert r"user reader needs the permissions configure and write for ^headgate-events\.," in fault
        assert r"read for ^(headgate-events\.|amq\.rabbitmq\.event$)" in fault
    own = r"^headgate-events\."
    body = {"configure": own, "write": own, "read": r"^(headgate-events\.|amq\.rabbitmq\.event$)"}
    await api.request("PUT", "/permissions/%2F/reader", body=body)
    assert await faults(open_account(account(node, "reader", "secret"), lambda: 0)) == []
    await api.request("DELETE", "/users/reader")
    await api.close()


async def test_events_come_over_tls_from_a_certificate_that_is_trusted(node: RabbitNode) -> None:
    authority, other = trustme.CA(), trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    async with in_front_of(node.port, context) as port:
        listener = Listener("localhost", port, True)
        given = account(node, authority=authority.cert_pem.bytes().decode())
        async with EventExchange(listener, given).attached() as events:
            await asyncio.to_thread(node.control, "add_vhost", "x")
            await asyncio.to_thread(node.control, "set_policy", "p", "^a", '{"max-length":3}')
            key, headers = await anext(events)
            assert (key, headers["name"]) == ("policy.set", "p")
        await asyncio.to_thread(node.control, "clear_policy", "p")
        wrong = account(node, authority=other.cert_pem.bytes().decode())
        with pytest.raises(SourceLost, match="is not trusted"):
            async with EventExchange(listener, wrong).attached():
                pass


async def test_wrong_password_and_refused_addresses_are_lost_sources(node: RabbitNode) -> None:
    for listener, user in (
        (Listener("127.0.0.1", node.port, False), "stranger"),
        (Listener("169.254.169.254", 1, False), "x"),
    ):
        with pytest.raises(SourceLost) as lost:
            async with EventExchange(listener, account(node, user, "secret")).attached():
                pass
        assert lost.value.refused
        assert "secret" not in str(lost.value)


@asynccontextmanager
async def in_front_of(target: int, context: ssl.SSLContext) -> AsyncIterator[int]:
    """Serve TLS in front of a port of this machine."""
    tasks: set[asyncio.Task[Any]] = set()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", target)

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(1 << 16):
                sink.write(data)
                await sink.drain()

        both = {asyncio.ensure_future(pump(reader, back)), asyncio.ensure_future(pump(there, writer))}
        tasks.update(both)
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, back):
            end.close()

    server = await asyncio.start_server(pass_on, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
