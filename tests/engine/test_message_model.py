"""Random histories of two durable queues against a plain list of messages: what is listed, moved, copied and deleted,
with bodies in memory and in stores, while consumers come and go, messages expire and delivery times come."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from proton import Message

from brokers.engine.queues import durable_storage, lanes
from brokers.engine.queues.consumer import Consumer
from brokers.engine.services import message_search
from brokers.model import ObjectName, object_name
from brokers.testing import InMemoryBroker
from tests.engine.fake_store import FakeStore, FakeStores

NAMES = ("a", "b")
NEVER = 1 << 60

HISTORIES, STEPS = 40, 60


def name_of(queue: str) -> ObjectName:
    return object_name("Queue", virtualhost="default", name=queue)


@dataclass(frozen=True)
class Known:
    """A message as the oracle knows it. Times in ms since the beginning of the test."""

    subject: str
    priority: int
    number: int  # of its arrival in its queue
    durable: bool
    expires: int = NEVER
    due: int = 0
    taken: bool = False

    @property
    def place(self) -> tuple[int, int]:
        return -self.priority, self.number


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that short queues have backlogs, and short lists several parts."""
    monkeypatch.setattr(durable_storage, "READY_MESSAGES", 3)
    monkeypatch.setattr(lanes, "LOAD_MESSAGES", 2)
    monkeypatch.setattr(lanes, "SWEEP_MESSAGES", 2)
    monkeypatch.setattr(message_search, "_CHUNK", 3)


class History:
    """The broker and the oracle, side by side."""

    def __init__(self) -> None:
        self.broker = InMemoryBroker()
        self.start = self.broker.engine.turn.now
        stores = FakeStores()
        self.broker.engine.stores.provider = stores
        self.known: dict[str, list[Known]] = {queue: [] for queue in NAMES}
        self.arrived = dict.fromkeys(NAMES, 0)
        self.published = 0
        self.consumers: dict[str, Consumer] = {}
        for queue in NAMES:
            self.broker.management.create(name_of(queue), {"durable": True}, "test")
        self.store: FakeStore = stores.by_name["default"]
        for queue in NAMES:
            self.consumers[queue] = self.broker.attach_consumer(queue)

    @property
    def now(self) -> int:
        return self.broker.engine.turn.now - self.start

    def write(self) -> None:
        self.store.write(self.broker.engine)
        self.broker.advance(0)

    def arrive(self, queue: str, message: Known) -> None:
        self.arrived[queue] += 1
        self.known[queue].append(replace(message, number=self.arrived[queue], taken=False))

    def in_order(self, queue: str) -> list[Known]:
        return sorted(self.known[queue], key=lambda each: each.place)

    # -- what happens --------------------------------------------------------------------------------------------

    def publish(self, queue: str, priority: int, durable: bool, ttl: int, delay: int) -> None:
        self.published += 1
        message = Message(subject=str(self.published), priority=priority, durable=durable, ttl=ttl)
        due = self.now + 1000 * delay if delay else 0
        if delay:
            message.annotations = {"x-opt-delivery-time": self.start + due}
        self.broker.publish_encoded(queue, bytes(message.encode()))
        expires = self.now + 1000 * ttl if ttl else NEVER
        self.arrive(queue, Known(str(self.published), priority, 0, durable, expires, due))

    def take(self, queue: str, count: int) -> None:
        consumer = self.consumers[queue]
        consumer.credit = count
        consumer.queue.touch()
        for _ in range(count + 2):  # a backlog is loaded in parts
            self.broker.advance(0)
        consumer.credit = 0
        free = [each for each in self.in_order(queue) if not each.taken and each.due <= self.now]
        taken = free[:count]
        self.known[queue] = [replace(each, taken=True) if each in taken else each for each in self.known[queue]]

    def settle(self, queue: str, accepted: bool) -> None:
        consumer = self.consumers[queue]
        mine = [message for by, message in self.broker.acquired if by is consumer]
        self.broker.acquired = [each for each in self.broker.acquired if each[0] is not consumer]
        for message in mine:
            if accepted:
                consumer.queue.remove(consumer, message)
            else:
                consumer.queue.put_back(consumer, message)
        self.broker.advance(0)
        if accepted:
            self.known[queue] = [each for each in self.known[queue] if not each.taken]
        else:
            self.known[queue] = [replace(each, taken=False) for each in self.known[queue]]
        self.expire()

    def pass_time(self, seconds: int) -> None:
        self.broker.advance(1000 * seconds, 500)
        self.expire()

    def expire(self) -> None:
        for _ in range(30):  # a backlog is searched in parts
            self.broker.engine.expire()
        self.broker.advance(0)
        for queue in NAMES:
            known = self.known[queue]
            self.known[queue] = [each for each in known if each.expires > self.now or each.taken]

    async def change(self, operation: str, queue: str, chosen: list[Known] | None, count: int) -> None:
        """`chosen`: by their ids; None: the first `count` of all."""
        ids = [each["id"] for each in await self.listed(queue, 50)]
        identified = dict(zip(self.in_order(queue), ids, strict=True))
        other = NAMES[queue == NAMES[0]]
        more: dict[str, Any] = {} if operation == "delete" else {"to": other}
        free = [each for each in self.in_order(queue) if not each.taken]
        if chosen is None:
            given = {"match": {}, "count": count}
            chosen = free[:count]
        else:
            given = {"ids": [identified[each] for each in chosen] + ["999-4-0a0b0c0d"]}
            chosen = [each for each in free if each in chosen]
        answer = await self.broker.call(name_of(queue), f"{operation}-messages", {**given, **more})
        assert (answer["messages"], answer["blocked"]) == (len(chosen), "")
        if operation != "copy":
            self.known[queue] = [each for each in self.known[queue] if each not in chosen]
        if operation != "delete":
            for each in chosen:
                self.arrive(other, each)

    # -- what is seen --------------------------------------------------------------------------------------------

    async def listed(self, queue: str, count: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after = None
        while True:
            answer = await self.broker.call(name_of(queue), "list-messages", {"count": count, "after": after})
            found += answer["messages"]
            after = answer["next"]
            if after is None:
                return found

    async def check(self) -> None:
        for queue in NAMES:
            wanted, position = [], 0
            for each in self.in_order(queue):
                state = "acquired" if each.taken else "delayed" if each.due > self.now else "available"
                position += state == "available"
                expires = None if each.expires == NEVER else each.expires + self.start
                place = position if state == "available" else None
                wanted.append((each.subject, each.priority, state, place, expires, each.durable))
            for count in (3, 200):
                assert wanted == [
                    (m["properties"]["subject"], m["priority"], m["state"], m["position"], m["expires"], m["durable"])
                    for m in await self.listed(queue, count)
                ]
            engine = self.broker.engine.queue("default", queue)
            assert engine.gate.depth_messages == len(wanted)
            assert engine.durable is not None
            stored = {body for (number, _), body in self.store.stored.items() if number == engine.store_id}
            subjects = sorted(str(_decoded(body).subject) for body in stored)
            durable = sorted(each.subject for each in self.known[queue] if each.durable)
            assert subjects == sorted(set(durable))  # exactly these are in the store
            assert engine.durable.stored == len(durable)


def _decoded(body: bytes) -> Message:
    message = Message()
    message.decode(body)
    return message


def steps_of(seed: int) -> list[tuple[Any, ...]]:
    """A random history, the same for the same seed."""
    rng = random.Random(seed)
    changes = ("move", "copy", "delete", "move")

    def step() -> tuple[Any, ...]:
        queue = rng.choice("aaab")
        match rng.randrange(12):
            case 0:
                return "take", queue, rng.randint(1, 4)
            case 1:
                return "settle", queue, rng.random() < 0.4
            case 2:
                return "pass_time", rng.randint(1, 4)
            case 3:
                return rng.choice(changes), queue, None, rng.randint(1, 6)
            case 4 | 5:
                return rng.choice(changes), queue, rng.sample(range(15), rng.randint(1, 5))
        ttl, delay = rng.choice((0, 0, 0, 9)), rng.choice((0, 0, 0, 0, 6))
        return "publish", queue, rng.choice((4, 4, 4, 0, 9)), rng.random() < 0.7, ttl, delay

    return [step() for _ in range(STEPS)]


async def follow(steps: list[tuple[Any, ...]]) -> None:
    history = History()
    for step in steps:
        what, *given_ = step
        if what in ("move", "copy", "delete"):
            queue, places, *count = given_
            there = history.in_order(queue)
            if len(there) > 40:
                continue
            chosen = None if places is None else [there[at] for at in sorted(set(places)) if at < len(there)]
            await history.change(what, queue, chosen, count[0] if count else 0)
        else:
            getattr(history, what)(*given_)
        history.write()
        await history.check()


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_queues_contain_what_a_plain_list_of_messages_does(seed):
    asyncio.run(follow(steps_of(seed)))


def many(count: int) -> Iterator[tuple[Any, ...]]:
    for number in range(count):
        yield ("publish", "a", 4 + number % 3, True, 0, 0)


def test_long_backlog_is_emptied_from_its_middle():
    steps = [*many(30), ("move", "a", [5, 6, 7, 20]), ("take", "a", 3), ("move", "a", [10]), ("settle", "a", False)]
    asyncio.run(follow([*steps, ("move", "a", None, 9), ("delete", "b", None, 3), ("move", "a", None, 100)]))
