"""A broker with several addresses: which is used, when another takes over, and that none leads to another broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from brokers.adapters.adapter import Finding
from brokers.adapters.addresses import MOST_ADDRESSES, check_urls
from brokers.adapters.kinds import KINDS, Account
from brokers.adapters.several_addresses import SeveralAddresses
from brokers.admin import BrokerUnreachable, NotAllowed
from tests.adapters.fake import BROKER, Memory, MemoryAdapter, queue_name
from tests.adapters.process import Process

ORDERS = queue_name("orders")
A, B = "http://a", "amqp://b"


class Node(MemoryAdapter):
    """A way to a broker. `up`: it answers; `refuses`: it does not accept the user; `readable`: it can be read, too;
    `error`: what `connect` raises."""

    up = True
    refuses = False
    readable = True
    error: Exception | None = None

    def __init__(self, memory: Memory, now: Any, identity: str = "cluster") -> None:
        super().__init__(memory, now)
        self._broker = identity
        self.closed = False

    async def connect(self) -> Sequence[Finding]:
        self.check()
        if self.error:
            raise self.error
        self.identity = self._broker
        return await super().connect()

    def check(self) -> None:
        if self.refuses:
            raise NotAllowed("the user name and password are not accepted")
        if not self.up:
            raise BrokerUnreachable("no answer")

    async def read_changing(self) -> Any:
        self.check()
        return await super().read_changing()

    async def read_all(self) -> AsyncIterator[Any]:
        if not self.readable:
            raise BrokerUnreachable("this node waits")
        async for seen in super().read_all():
            yield seen

    async def stop(self, targets: Any, *, in_round: bool = False) -> Any:
        self.check()
        return await super().stop(targets, in_round=in_round)

    async def close(self) -> None:
        self.closed = True


class Pair(Process):
    """The process with a broker that has two addresses. `other`: what the second leads to."""

    def __init__(self, folder: Path, memory: Memory, other: tuple[Memory, str] | None = None) -> None:
        self.other = other or (memory, "cluster")
        super().__init__(folder, memory)

    def adapted(self) -> Any:
        self.a, self.b = Node(self.memory, self.now), Node(self.other[0], self.now, self.other[1])
        return SeveralAddresses({A: self.a, B: self.b})

    async def reads(self) -> int:
        """Return the depth of orders, as it is read."""
        return int((await self.broker.read(ORDERS))["depth_messages"])


@pytest.fixture
def memory() -> Memory:
    memory = Memory()
    memory.add("orders", 10)
    return memory


@pytest_asyncio.fixture
async def pair(tmp_path: Path, memory: Memory) -> AsyncIterator[Pair]:
    pair = Pair(tmp_path, memory)
    await pair.clock.pass_(0)
    yield pair
    await pair.close()


async def test_the_first_address_is_used_and_the_others_are_left_alone(pair: Pair) -> None:
    assert pair.a.reads
    await pair.clock.pass_(60)
    assert not pair.b.reads


async def test_the_next_address_takes_over_without_an_event_and_the_first_is_used_again(pair: Pair) -> None:
    pair.a.up = False
    pair.memory.depths[ORDERS] = 3
    await pair.clock.pass_(30)
    assert await pair.reads() == 3
    assert pair.b.reads
    pair.a.up, pair.b.up = True, False
    pair.memory.depths[ORDERS] = 4
    await pair.clock.pass_(30)
    assert await pair.reads() == 4
    # What was away was the way to the broker: no queue was deleted, created, or restarted.
    assert {kind.partition(" ")[0] for kind in pair.kinds()} <= {"broker-unreachable", "broker-reachable"}


async def test_an_address_in_use_stays_in_use_while_it_answers(pair: Pair) -> None:
    pair.a.up = False
    await pair.clock.pass_(30)
    pair.a.up = True
    pair.a.reads.clear()
    await pair.clock.pass_(60)
    assert not pair.a.reads


async def test_a_stop_stays_in_force_at_the_next_address(pair: Pair) -> None:
    await pair.broker.call(ORDERS, "stop-producers", {"reason": "flood", "actor": "ada"})
    pair.a.up = False
    await pair.clock.pass_(30)
    assert (await pair.broker.read(ORDERS))["state"] == "STOPPED"
    await pair.broker.call(ORDERS, "start-producers", {"actor": "ada"})
    assert pair.memory.limits[ORDERS] == 10


async def test_an_address_of_another_broker_is_never_used(tmp_path: Path, memory: Memory) -> None:
    stranger = Memory()
    stranger.add("orders", 99)
    pair = Pair(tmp_path, memory, (stranger, "someone else's"))
    await pair.clock.pass_(0)
    await pair.broker.call(ORDERS, "stop-producers", {"reason": "flood", "actor": "ada"})
    pair.a.up = False
    await pair.clock.pass_(120)
    with pytest.raises(BrokerUnreachable, match="amqp://b: is another broker: it is someone else's, not cluster"):
        await pair.broker.read(BROKER)
    assert stranger.limits[ORDERS] == 99
    assert "queue-deleted orders" not in pair.kinds()
    await pair.close()


async def test_another_broker_is_not_used_after_a_restart_of_this_process_either(
    tmp_path: Path, memory: Memory
) -> None:
    stranger = Memory()
    stranger.add("bills", 99)
    pair = Pair(tmp_path, memory, (stranger, "someone else's"))
    await pair.clock.pass_(0)
    await pair.close()
    pair.open()
    pair.a.up = False
    await pair.clock.pass_(120)
    with pytest.raises(BrokerUnreachable, match="is another broker"):
        await pair.broker.read(BROKER)
    assert not [kind for kind in pair.kinds() if kind.startswith("queue-")]
    pair.a.up = True
    await pair.clock.pass_(60)
    assert (await pair.broker.query("Queue")).total == 1
    assert "address_identity" not in (await pair.broker.read(BROKER)).attributes
    await pair.close()


async def test_a_broker_that_was_renamed_is_used_once_all_addresses_agree(pair: Pair) -> None:
    pair.a._broker = pair.b._broker = "renamed"
    pair.a.up = pair.b.up = False
    await pair.clock.pass_(30)
    pair.a.up = True
    await pair.clock.pass_(60)
    with pytest.raises(BrokerUnreachable, match="http://a: is another broker: it is renamed, not cluster"):
        await pair.broker.read(BROKER)
    pair.b.up = True
    await pair.clock.pass_(60)
    assert await pair.reads() == 0


async def test_an_address_that_cannot_be_read_leaves_the_others_in_use(tmp_path: Path, memory: Memory) -> None:
    pair = Pair(tmp_path, memory)
    pair.a.readable = False
    await pair.clock.pass_(60)
    assert await pair.reads() == 0
    assert pair.b.reads
    pair.a.readable, pair.b.up = True, False
    await pair.clock.pass_(60)
    assert await pair.reads() == 0
    await pair.close()


async def test_an_unknown_answer_of_an_address_leaves_the_others_in_use(memory: Memory) -> None:
    a, b = Node(memory, lambda: 0), Node(memory, lambda: 0)
    a.error = AttributeError("'list' object has no attribute 'get'")
    adapter = SeveralAddresses({A: a, B: b})
    assert await adapter.connect()
    b.up = False
    with pytest.raises(BrokerUnreachable, match="http://a: its answer cannot be read"):
        await adapter.connect()


async def test_that_none_answers_is_said_of_each(memory: Memory) -> None:
    a, b = Node(memory, lambda: 0), Node(memory, lambda: 0)
    adapter = SeveralAddresses({A: a, B: b})
    a.up = b.up = False
    with pytest.raises(BrokerUnreachable, match="http://a: no answer; amqp://b: no answer"):
        await adapter.connect()
    b.refuses = True
    with pytest.raises(NotAllowed, match="http://a: no answer; amqp://b: the user name"):
        await adapter.connect()
    await adapter.close()
    assert a.closed
    assert b.closed


async def test_an_account_with_several_urls_has_an_adapter_for_each_of_its_protocols() -> None:
    both = KINDS["artemis"].open(Account("http://127.0.0.1:1 amqp://127.0.0.1:1", "ada", "secret"), lambda: 0)
    with pytest.raises(BrokerUnreachable, match=r"http://127.0.0.1:1: .*; amqp://127.0.0.1:1: "):
        await both.connect()
    await both.close()


def test_urls_are_checked_each_and_counted_once() -> None:
    assert check_urls(" http://a/  amqp://b\nhttp://a ") == "http://a amqp://b"
    with pytest.raises(ValueError, match="link-local"):
        check_urls("http://a http://169.254.169.254")
    with pytest.raises(ValueError, match="must not be empty"):
        check_urls("  ")
    with pytest.raises(ValueError, match=f"9 URLs: {MOST_ADDRESSES} at most"):
        check_urls(" ".join(f"http://node{number}" for number in range(9)))
