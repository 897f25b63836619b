"""A real RabbitMQ whose node is restarted while publishers are stopped: no message of a queue is lost or changed."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import amqp
import pytest
import pytest_asyncio
from pamqp.frame import unmarshal

from brokers.adapters import rabbitmq_parking
from brokers.adapters.http import JsonHttp, part
from brokers.adapters.kinds import Account
from brokers.adapters.rabbitmq import RabbitMq
from brokers.adapters.rabbitmq_connection import Connecting, Listener
from brokers.adapters.rabbitmq_moving import Session
from brokers.adapters.rabbitmq_policies import stop_name
from brokers.adapters.rabbitmq_reading import PARKED
from brokers.admin import InvalidValue
from brokers.model import ObjectName
from tests.adapters.fake import BROKER, queue_name
from tests.adapters.hosted import Hosted, until
from tests.interop.rabbitmq_node import RabbitNode, rabbitmq

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]

HOST = "eu/west 100%"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitNode]:
    with rabbitmq(tmp_path_factory.mktemp("rabbitmq"), plugins=["rabbitmq_management"]) as node:
        yield node


@dataclass
class Stopping:
    """The node behind its adapter, with the queues of a virtual host that is made for each test."""

    hosted: Hosted
    node: RabbitNode
    api: JsonHttp

    async def declare(self, *names: str, **arguments: Any) -> None:
        for name in names:
            body = {"durable": True, "arguments": arguments}
            await self.api.request("PUT", f"/queues/{part(HOST)}/{part(name)}", body=body)
            await until(lambda n=name: self.hosted.lists(n))

    def publish(self, queue: str, *messages: amqp.Message, exchange: str = "", key: str = "") -> list[str]:
        """Publish with confirms; return what became of each."""
        found = []
        with self.connection(confirm_publish=True) as connection:
            channel = connection.channel()
            for message in messages:
                try:
                    channel.basic_publish_confirm(message, exchange=exchange, routing_key=key or queue)
                    found.append("accepted")
                except amqp.exceptions.MessageNacked:
                    found.append("refused")
        return found

    def connection(self, **given: Any) -> amqp.Connection:
        return amqp.Connection(f"127.0.0.1:{self.node.port}", virtual_host=HOST, **given)

    def bodies(self, queue: str) -> list[str]:
        """Take all messages of a queue."""
        return [message.body for message in self.taken(queue)]

    def taken(self, queue: str) -> list[Any]:
        with self.connection() as connection:
            channel = connection.channel()
            return list(iter(lambda: channel.basic_get(queue, no_ack=True), None))

    def depth(self, queue: str) -> int:
        with self.connection() as connection:
            return int(connection.channel().queue_declare(queue, passive=True).message_count)

    async def stop(self, scope: ObjectName) -> None:
        await self.hosted.broker.call(scope, "stop-producers", {"actor": "ada", "effect": "reject"})

    async def start(self, scope: ObjectName) -> None:
        await self.hosted.broker.call(scope, "start-producers", {"actor": "ada"})

    async def restart(self, *, killed: bool = True) -> None:
        """Restart the node when its queues report their stops: RabbitMQ applies a policy to them after it has confirmed
        it, and a node that is killed between the two starts with the one before. `killed`: at once. What was rejected
        just before is on no disk then, and in its queue again."""

        async def reported() -> bool:
            queues = await self.api.request("GET", f"/queues/{part(HOST)}")
            definitions = [q["effective_policy_definition"] for q in queues if q["policy"] == stop_name(q["name"])]
            return bool(definitions) and all(each.get("max-length") == 0 for each in definitions)

        await until(reported)
        if killed:
            await asyncio.to_thread(self.node.kill)
            await asyncio.to_thread(self.node.start)
        else:
            await asyncio.to_thread(self.node.control, "stop_app")
            await asyncio.to_thread(self.node.control, "start_app")
        await self.hosted.connect()

    async def has(self, queue: str, count: int) -> None:
        async def reached() -> bool:
            return await asyncio.to_thread(self.depth, queue) == count

        try:
            await until(reached)
        except TimeoutError:
            names = [each["name"] for each in await self.api.request("GET", f"/queues/{part(HOST)}")]
            depths = {name: await asyncio.to_thread(self.depth, name) for name in names}
            policies = await self.api.request("GET", f"/policies/{part(HOST)}")
            raise AssertionError(f"{queue} has not {count}: {depths}, {policies}") from None

    async def is_clear(self) -> None:
        """Wait until nothing that a stop made is left."""

        async def reached() -> bool:
            names = [each["name"] for each in await self.api.request("GET", f"/queues/{part(HOST)}")]
            exchanges = [each["name"] for each in await self.api.request("GET", f"/exchanges/{part(HOST)}")]
            policies = [each["name"] for each in await self.api.request("GET", f"/policies/{part(HOST)}")]
            return not any("headgate" in name for name in (*names, *exchanges, *policies))

        await until(reached)


@pytest_asyncio.fixture
async def stopping(tmp_path: Path, node: RabbitNode) -> AsyncIterator[Stopping]:
    url = f"http://127.0.0.1:{node.http_port}/api"
    api = JsonHttp(url, "guest", "guest")
    await api.request("PUT", f"/vhosts/{part(HOST)}", body={})
    permissions = {"configure": ".*", "write": ".*", "read": ".*"}
    await api.request("PUT", f"/permissions/{part(HOST)}/guest", body=permissions)
    account = Account(url, "guest", "guest", "")
    hosted = Hosted(tmp_path, lambda now: RabbitMq(JsonHttp(url, "guest", "guest"), now, account), HOST)
    await hosted.start()
    yield Stopping(hosted, node, api)
    await hosted.stop()
    await api.request("DELETE", f"/vhosts/{part(HOST)}")
    await api.close()


def messages(*bodies: str, **properties: Any) -> list[amqp.Message]:
    return [amqp.Message(body, delivery_mode=2, **properties) for body in bodies]


async def test_messages_of_a_stopped_queue_are_in_it_again_after_a_restart_of_its_node(stopping: Stopping) -> None:
    await stopping.declare("orders")
    orders = queue_name("orders", HOST)
    given = messages(*map(str, range(300)))
    assert set(await asyncio.to_thread(stopping.publish, "orders", *given)) == {"accepted"}
    await stopping.stop(orders)
    await stopping.restart()
    assert await asyncio.to_thread(stopping.publish, "orders", *messages("x")) == ["refused"]
    await stopping.has(PARKED, 300)
    await stopping.start(orders)
    assert await asyncio.to_thread(stopping.publish, "orders", *messages("later")) == ["accepted"]
    await stopping.has("orders", 301)
    assert await asyncio.to_thread(stopping.bodies, "orders") == ["later", *map(str, range(300))]
    await stopping.is_clear()


async def test_a_message_that_was_parked_is_as_it_was(stopping: Stopping) -> None:
    """Its routing key and the types of its headers, too: a client that expects another one fails. A user-id is that of
    another user, which RabbitMQ accepts of that user only."""
    await stopping.declare("orders", "bills")
    for queue in ("orders", "bills"):
        body = {"routing_key": "eu.#"}
        await stopping.api.request("POST", f"/bindings/{part(HOST)}/e/amq.topic/q/{queue}", body=body)
    headers = {"number": 5, "long": 2**40, "text": "ä", "list": [1, "a"], "none": None, "table": {"a": True}}
    large = amqp.Message(
        b"\x00\xff" * 150_000, delivery_mode=2, application_headers=headers, content_type="application/x", priority=3,
        correlation_id="c", reply_to="r", message_id="m", type="t", user_id="guest", app_id="äpp",
    )  # fmt: skip
    empty = amqp.Message(b"", delivery_mode=2)
    await asyncio.to_thread(stopping.publish, "", large, empty, exchange="amq.topic", key="eu.west")
    before = await taken_raw(stopping, "orders")
    await stopping.stop(queue_name("orders", HOST))
    await stopping.restart()
    await stopping.has(PARKED, 2)
    await stopping.start(queue_name("orders", HOST))
    await stopping.has("orders", 2)
    await stopping.is_clear()
    after = await taken_raw(stopping, "orders")
    assert [each.body for each in after] == [each.body for each in before]
    # py-amqp writes small integers of headers with 4 bytes, aiormq would write one.
    assert b"\x06numberI\x00\x00\x00\x05" in after[0].header
    # RabbitMQ sorts the headers of what it dead-letters, and an empty table of them stays where there was none.
    assert [headers_of(each) for each in after] == [headers_of(each) for each in before]
    first, second = await asyncio.to_thread(stopping.taken, "orders")
    assert first.delivery_info["routing_key"] == second.delivery_info["routing_key"] == "eu.west"
    for name in ("content_type", "priority", "correlation_id", "reply_to", "message_id", "type", "user_id", "app_id"):
        assert first.properties[name] == large.properties[name]
    assert "message_id" not in second.properties
    assert stopping.depth("bills") == 2  # not published a second time


def headers_of(message: Any) -> dict[str, Any]:
    frame = struct.pack(">BHI", 2, 1, len(message.header)) + message.header + b"\xce"
    return dict(unmarshal(frame)[2].properties.headers or {})


async def taken_raw(stopping: Stopping, queue: str) -> list[Any]:
    """Look at the messages of a queue, which stay there."""
    connecting = Connecting(
        Listener("127.0.0.1", stopping.node.port, False), Account("", "guest", "guest", ""), HOST, "test"
    )
    found = []
    async with Session(connecting).opened() as session:
        while (message := await session.take(queue)) is not None:
            found.append(message)
    await stopping.has(queue, len(found))
    return found


async def test_one_queue_that_cannot_get_its_messages_hinders_no_other(
    stopping: Stopping, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One may not be bound to, one is deleted; pamqp refuses the names of the others."""
    monkeypatch.setattr(rabbitmq_parking, "AGAIN_SECONDS", 0.0)
    names = ("a-forbidden", "deleted", "b=c", "ünder", "List`1[[x]]", "q%2F|(;>~")
    await stopping.declare(*names)
    for name in names:
        await asyncio.to_thread(stopping.publish, name, *messages("1", "2"))
    await stopping.stop(BROKER)
    await stopping.restart()
    await stopping.has(PARKED, 2 * len(names))
    limited = {"configure": ".*", "write": "^(?!a-forbidden)", "read": ".*"}
    await stopping.api.request("PUT", f"/permissions/{part(HOST)}/guest", body=limited)
    await stopping.api.request("DELETE", f"/queues/{part(HOST)}/deleted")
    await stopping.start(BROKER)
    for name in names[2:]:
        await stopping.has(name, 2)
    await stopping.has(PARKED, 4)
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    await stopping.api.request("PUT", f"/permissions/{part(HOST)}/guest", body=everything)
    await stopping.has("a-forbidden", 2)
    await stopping.has(PARKED, 2)

    async def logged() -> bool:
        return f"messages are left in queue {PARKED}: their queues are deleted or do not run" in caplog.text

    await until(logged)
    exchanges = [each["name"] for each in await stopping.api.request("GET", f"/exchanges/{part(HOST)}")]
    assert not [name for name in exchanges if name.startswith("headgate-return")]


async def test_messages_return_to_each_queue_when_its_publishers_are_started(stopping: Stopping) -> None:
    await stopping.declare("a", "b", "c")
    for name in ("a", "b", "c"):
        await asyncio.to_thread(stopping.publish, name, *messages(*(f"{name}{n}" for n in range(5))))
    for name in ("a", "b", "c"):
        await stopping.stop(queue_name(name, HOST))
    await stopping.restart()
    await stopping.has(PARKED, 15)
    await stopping.start(queue_name("b", HOST))
    await stopping.has("b", 5)
    await stopping.has(PARKED, 10)
    assert await asyncio.to_thread(stopping.depth, "a") == 0
    await stopping.hosted.stop()  # and what is left returns when the adapter runs again
    await stopping.hosted.start()
    await stopping.start(queue_name("a", HOST))
    await stopping.start(queue_name("c", HOST))
    for name in ("a", "b", "c"):
        await stopping.has(name, 5)
        assert await asyncio.to_thread(stopping.bodies, name) == [f"{name}{n}" for n in range(5)]
    await stopping.is_clear()


async def test_a_full_queue_gets_its_messages_back_when_it_has_room(
    stopping: Stopping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rabbitmq_parking, "AGAIN_SECONDS", 0.0)
    await stopping.declare("full", "other", **{"x-max-length": 4, "x-overflow": "reject-publish"})
    for name in ("full", "other"):
        await asyncio.to_thread(stopping.publish, name, *messages("1", "2", "3", "4"))
    await stopping.stop(BROKER)
    await stopping.restart()
    await stopping.has(PARKED, 8)
    await stopping.start(BROKER)
    # Publishers are quicker than the adapter, or not: either way nothing is lost.
    later = await asyncio.to_thread(stopping.publish, "full", *messages("5", "6", "7"))
    await stopping.has("other", 4)
    await stopping.has("full", 4)
    found = await asyncio.to_thread(stopping.bodies, "full")
    await until(lambda: empty(stopping, PARKED))
    found += await asyncio.to_thread(stopping.bodies, "full")
    accepted = {body for body, became in zip("567", later, strict=True) if became == "accepted"}
    assert sorted(found) == sorted({"1", "2", "3", "4"} | accepted)
    await stopping.is_clear()


async def empty(stopping: Stopping, queue: str) -> bool:
    names = [each["name"] for each in await stopping.api.request("GET", f"/queues/{part(HOST)}")]
    return queue not in names or await asyncio.to_thread(stopping.depth, queue) == 0


async def test_what_a_consumer_rejects_during_a_stop_does_not_return(
    stopping: Stopping, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Rounds would delete it before the restart: both have to be there when the messages return.
    monkeypatch.setattr(rabbitmq_parking.Parking, "look", lambda *_: None)
    await stopping.declare("orders")
    await asyncio.to_thread(stopping.publish, "orders", *messages("bad", "good"))
    await stopping.stop(queue_name("orders", HOST))

    def reject() -> None:
        with stopping.connection() as connection:
            channel = connection.channel()
            channel.basic_reject(channel.basic_get("orders").delivery_tag, requeue=False)

    await asyncio.to_thread(reject)
    await stopping.has(PARKED, 1)
    await stopping.restart(killed=False)
    await stopping.has(PARKED, 2)
    monkeypatch.undo()
    await stopping.start(queue_name("orders", HOST))
    await stopping.has("orders", 1)
    await stopping.is_clear()
    assert await asyncio.to_thread(stopping.bodies, "orders") == ["good"]


async def test_a_queue_with_a_dead_letter_exchange_has_its_own_during_a_stop(stopping: Stopping) -> None:
    await stopping.declare("orders")
    await stopping.declare("dead")
    body = {"pattern": "^orders$", "definition": {"dead-letter-exchange": "amq.fanout"}, "apply-to": "queues"}
    await stopping.api.request("PUT", f"/policies/{part(HOST)}/theirs", body=body)
    await stopping.api.request("POST", f"/bindings/{part(HOST)}/e/amq.fanout/q/dead", body={})

    async def listed() -> bool:
        return bool((await stopping.hosted.queue("orders"))["policy"] == "theirs")

    await until(listed)
    await asyncio.to_thread(stopping.publish, "orders", *messages("1"))
    await stopping.stop(queue_name("orders", HOST))
    stop = await stopping.api.request("GET", f"/policies/{part(HOST)}/{part(stop_name('orders'))}")
    assert stop["definition"]["dead-letter-exchange"] == "amq.fanout"
    await stopping.restart()
    await stopping.has("dead", 1)
    await stopping.start(queue_name("orders", HOST))


async def test_the_queue_of_parked_messages_has_no_limit_and_no_stop(stopping: Stopping) -> None:
    everything = {"pattern": ".*", "definition": {"max-length": 2, "message-ttl": 1}, "priority": 70, "apply-to": "all"}
    await stopping.declare("orders")
    await asyncio.to_thread(stopping.publish, "orders", *messages("1", "2", "3", "4"))
    await stopping.stop(BROKER)
    await stopping.restart()
    await stopping.has(PARKED, 4)
    with pytest.raises(InvalidValue, match="takes the messages of stopped queues"):
        await stopping.stop(queue_name(PARKED, HOST))
    await stopping.start(BROKER)
    await stopping.has("orders", 4)
    await stopping.is_clear()
    await stopping.api.request("PUT", f"/policies/{part(HOST)}/all", body=everything)

    async def listed() -> bool:
        return bool((await stopping.hosted.queue("orders"))["policy"] == "all")

    await until(listed)
    await stopping.stop(BROKER)
    parked = await stopping.api.request("GET", f"/policies/{part(HOST)}/headgate-limit~{PARKED}")
    assert parked["priority"] > 70
    await stopping.start(BROKER)


async def test_without_the_permission_to_park_a_stop_is_made_and_the_log_says_what_that_means(
    stopping: Stopping, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    await stopping.declare("orders")
    limited = {"configure": "^$", "write": ".*", "read": ".*"}
    await stopping.api.request("PUT", f"/permissions/{part(HOST)}/guest", body=limited)
    await stopping.stop(queue_name("orders", HOST))
    stop = await stopping.api.request("GET", f"/policies/{part(HOST)}/{part(stop_name('orders'))}")
    assert stop["definition"] == {"max-length": 0, "overflow": "reject-publish"}
    assert await asyncio.to_thread(stopping.publish, "orders", *messages("x")) == ["refused"]
    assert "messages of a classic queue whose node is restarted during a stop are lost" in caplog.text
    await stopping.start(queue_name("orders", HOST))
    assert await asyncio.to_thread(stopping.publish, "orders", *messages("x")) == ["accepted"]
