"""Messages through management of a whole broker: seen while consumers have them, the same after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from proton import Message

from brokers.admin import NotFound
from brokers.amqp import runs
from brokers.drivers.bundled import BundledBroker
from brokers.model import object_name
from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import connected

T = TypeVar("T")

QUEUE, OTHER = (object_name("Queue", virtualhost="default", name=name) for name in ("orders", "other"))


def managed(broker: BrokerThread, work: Callable[[BundledBroker], Coroutine[Any, Any, T]]) -> T:
    async def run() -> T:
        secret = (broker.data / "console.secret").read_text().strip()
        admin = await BundledBroker.connect("127.0.0.1", broker.service.port, "console", secret, timeout=20)
        try:
            return await work(admin)
        finally:
            await admin.close()

    return asyncio.run(run())


def call(broker: BrokerThread, operation: str, **given: Any) -> dict[str, Any]:
    return managed(broker, lambda admin: admin.call(QUEUE, operation, given))  # type: ignore[arg-type, return-value]


def create(broker: BrokerThread, **policy: Any) -> None:
    async def both(admin: BundledBroker) -> None:
        await admin.create(QUEUE, {"durable": True, **policy})
        await admin.create(OTHER, {"durable": True})

    managed(broker, both)


@pytest.mark.parametrize("plain", [False, True])
def test_full_queue_is_listed_with_what_its_consumer_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: bool
) -> None:
    if plain:
        monkeypatch.setenv(runs.PLAIN, "1")
    with BrokerThread(tmp_path) as broker:
        create(broker, capacity_messages=5)
        with connected(broker) as producing, connected(broker) as consuming:
            sender = producing.create_sender("orders")
            for number in range(5):
                sender.send(Message(subject=str(number), durable=True))
            receiver = consuming.create_receiver("orders", credit=2)
            assert receiver.receive().subject == "0"
            broker.until_queue("orders", lambda q: q.lanes.unacknowledged == 2, "it has two")
            listed = call(broker, "list-messages", order="unacknowledged")["messages"]
            assert [(m["properties"]["subject"], m["state"], m["position"]) for m in listed] == [
                ("0", "acquired", None),
                ("1", "acquired", None),
                ("2", "available", 1),
                ("3", "available", 2),
                ("4", "available", 3),
            ]
            assert listed[0]["consumer"].startswith("type=Consumer,virtualhost=default,id=")
            deleted = call(broker, "delete-messages", match={})
            assert (deleted["messages"], len(deleted["skipped"])) == (3, 2)
            receiver.accept()
            assert receiver.receive().subject == "1"
            receiver.accept()
        broker.until_queue("orders", lambda q: not q.gate.depth_messages, "nothing is left")


def test_ids_cursors_and_marks_are_valid_after_a_restart(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        create(broker)
        with connected(broker) as connection:
            sender = connection.create_sender("orders")
            for number in range(6):
                sender.send(Message(subject=str(number), durable=number != 5, creation_time=1_600_000_000 + number))
        before = call(broker, "list-messages", count=3)
        first = call(broker, "move-messages", to="other", match={}, count=1)
        assert before["messages"][0]["at"] > 1_700_000_000_000
    with BrokerThread(tmp_path) as broker:
        with connected(broker) as connection:
            connection.create_sender("orders").send(Message(subject="new", durable=True))
        rest = call(broker, "list-messages", after=before["next"])["messages"]
        assert [m["properties"]["subject"] for m in rest] == ["3", "4", "new"]
        assert [m["at"] for m in rest[:2]] == [1_600_000_003_000, 1_600_000_004_000]
        attributes = managed(broker, lambda admin: admin.read(QUEUE)).attributes
        assert attributes["oldest_message_at"] is None
        second = before["messages"][1]["id"]
        assert call(broker, "read-message", id=second)["message"]["properties"]["subject"] == "1"
        with pytest.raises(NotFound):
            call(broker, "read-message", id=before["messages"][0]["id"])
        given = {"to": "other", "match": {}, "after": first["next"], "until": first["until"]}
        moved = call(broker, "move-messages", **given)
        assert (moved["messages"], moved["next"]) == (4, None)
        left = call(broker, "list-messages")["messages"]
        assert [m["properties"]["subject"] for m in left] == ["new"]
