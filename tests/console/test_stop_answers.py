"""The answer of a stop and its progress, against the memory of the broker: neither claims what the broker has not done.

The oracle is the engine: its producers, their credit, its stops and its events, never what the console has read of it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from brokers.admin import BrokerUnreachable, Called
from brokers.engine.flow.producer import Producer
from brokers.model import object_name
from brokers.testing import InMemoryBroker
from console.access.actor import Actor
from console.access.models import RoleGrant
from console.audit.models import AuditEntry
from console.operations import stops
from console.operations.operation_calls import OperationCall, declared_operation
from console.permissions.rights import Role
from tests.console.conftest import Broker, signed_in, until
from tests.console.standin import Connected
from tests.console.test_stops import ALL, answer_of, crowd, post, queue

pytestmark = pytest.mark.django_db

BROKER = object_name("Broker")
HIDDEN = object_name("Queue", virtualhost="blue", name="hidden")


def producers(memory: InMemoryBroker) -> list[Producer]:
    return list(memory.engine.producers.values())


def in_flight(memory: InMemoryBroker, virtualhost: str = "") -> int:
    """Return how many producers may still send on credit that they were given."""
    of_host = [p for p in producers(memory) if virtualhost in ("", p.queue.virtualhost)]
    return sum(1 for p in of_host if p.withdrawn or p.credit)


def changes(memory: InMemoryBroker) -> list[tuple[str, str, int]]:
    """Return what the broker has stopped and started, in order: (event, reason, number of producers)."""
    kinds = ("producers-stopped", "producers-started")
    return [(e.kind, e.attributes["reason"], e.attributes["producers"]) for e in memory._events if e.kind in kinds]


class Failing(Connected):
    """A connection that is lost, or hangs, in the middle of a stop or start."""

    def __init__(self, memory: InMemoryBroker, fault: str) -> None:
        super().__init__(memory)
        self._memory, self._fault, self._called = memory, fault, False
        self.read = self._read
        self.call = self._call

    async def _read(self, name: Any) -> Any:
        if self._called and self._fault == "lost before the last read":
            raise BrokerUnreachable("the connection was lost")
        return await self._memory.read(name)

    async def _call(self, name: Any, operation: str, arguments: Mapping[str, Any]) -> Any:
        if operation not in ("stop-producers", "start-producers"):
            return await self._memory.call(name, operation, arguments)
        self._called = True
        if self._fault == "lost before it is done":
            raise BrokerUnreachable("the connection was lost")
        if self._fault == "hangs before it is done":
            await asyncio.Event().wait()
        answer = await self._memory.call(name, operation, arguments)
        if self._fault == "lost after it is done":
            raise BrokerUnreachable("the connection was lost")
        if self._fault == "hangs after it is done":
            await asyncio.Event().wait()
        return answer


def test_progress_of_thousands_of_producers_is_that_of_the_broker(broker: Broker, as_operator: APIClient) -> None:
    broker.connected()
    broker.do(lambda memory: crowd(memory, 100, 30))
    stopped = answer_of(as_operator, "stop-producers/", **ALL, reason="incident 7")
    assert stopped["draining"] == broker.do(in_flight) == 3000
    assert broker.do(lambda memory: all(p.blocked and not p.credit for p in producers(memory)))
    seen = [stopped["draining"]]
    while seen[-1]:
        assert len(seen) < 100
        broker.do(lambda memory: memory.advance(50))  # and no sample: the console's rows are those of before
        found = answer_of(as_operator, "stop-producers/progress/", **ALL)
        assert found["draining"] == broker.do(in_flight)
        assert (found["queues"], found["producers"], found["stopped"]) == (100, 3000, 3000 - found["draining"])
        seen.append(found["draining"])
    assert broker.do(lambda memory: sum(memory.publish(p) for p in producers(memory))) == 0


@pytest.mark.parametrize(
    "fault",
    [
        "lost before it is done",
        "lost after it is done",
        "hangs before it is done",
        "hangs after it is done",
        "lost before the last read",
    ],
)
def test_a_stop_is_called_done_only_if_the_broker_said_so(
    broker: Broker, as_operator: APIClient, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(stops, "STOP_SECONDS", 0.2)
    broker.wrap = lambda admin: Failing(broker.memory, fault)
    broker.connected()
    broker.do(lambda memory: crowd(memory, 3, 2))
    answer = post(as_operator, "stop-producers/", **ALL, reason="incident 7")
    done = broker.do(lambda memory: bool(memory.engine.stops))
    assert done is ("before it is done" not in fault)
    answered = fault == "lost before the last read"
    assert answer.status_code == (200 if answered else 503)
    (row,) = AuditEntry.objects.filter(operation="stop-producers")
    assert row.outcome == ("done" if answered else "unknown")
    if answered:
        assert answer.json()["producers"] == broker.do(lambda memory: sum(p.blocked for p in producers(memory))) == 6
    # What counts is what the broker says next, whatever became of the answer.
    broker.wrap = lambda admin: admin
    broker.lose()
    broker.come_back()
    again = answer_of(as_operator, "stop-producers/", **ALL, reason="again")
    assert again["changed"] is not done
    found = answer_of(as_operator, "stop-producers/progress/", **ALL)
    assert (found["producers"], found["draining"]) == (6, broker.do(in_flight))


def test_stops_and_starts_at_the_same_time_answer_what_each_has_done(broker: Broker, operator: User) -> None:
    """Two operators stop and start the same queues at once, while producers attach."""
    broker.connected()
    broker.do(lambda memory: crowd(memory, 20, 5))
    other = User.objects.create_superuser("otto")
    rnd = random.Random(7)
    calls = []
    for number in range(60):
        user = rnd.choice([operator, other])
        name = rnd.choice(["stop-producers", "start-producers"])
        arguments: dict[str, Any] = {"reason": f"number {number}"}
        if rnd.random() < 0.3:
            arguments["pattern"] = rnd.choice(["q000", "q001", "*"])
        calls.append(OperationCall(Actor(user), broker.link, BROKER, declared_operation(BROKER, name), arguments))

    async def attach() -> None:
        for number in range(40):
            await broker.link.acall(lambda admin, n=number: _attach(broker.memory, n % 20))  # type: ignore[misc]

    async def together() -> None:
        await asyncio.gather(attach(), *(call.send() for call in calls))

    asyncio.run(together())
    made = broker.do(changes)
    assert len({reason for _, reason, _ in made}) == len(made)
    by_reason = {reason: (kind, count) for kind, reason, count in made}
    for call in calls:
        answer = call.finish()
        kind = {"stop-producers": "producers-stopped", "start-producers": "producers-started"}[call.declared.name]
        if answer["changed"]:
            assert by_reason.pop(call.reason) == (kind, answer["producers"])
        else:
            assert call.reason not in by_reason
        if kind == "producers-stopped":
            assert answer["stopped"] + answer["draining"] == answer["producers"]
    assert by_reason == {}
    assert AuditEntry.objects.filter(outcome="done").count() == len(calls)
    # In the end each producer, also those that came in between, is blocked if and only if a stop covers its queue.
    stopped = broker.do(
        lambda memory: [
            (p.blocked, any(s.covers("default", p.queue.name) for s in memory.engine.stops)) for p in producers(memory)
        ]
    )
    assert len(stopped) == 140
    assert all(blocked is covered for blocked, covered in stopped)


async def _attach(memory: InMemoryBroker, number: int) -> None:
    memory.attach_producer(f"q{number:03}")


def test_producers_that_attach_after_a_stop_are_blocked_and_counted(broker: Broker, as_operator: APIClient) -> None:
    broker.connected()
    broker.do(lambda memory: crowd(memory, 2, 1))
    assert answer_of(as_operator, "stop-producers/", **ALL, reason="incident 7")["producers"] == 2
    broker.do(lambda memory: crowd(memory, 3, 4))
    broker.do(lambda memory: memory.advance(1000))
    found = answer_of(as_operator, "stop-producers/progress/", **ALL)
    assert (found["queues"], found["producers"], found["stopped"], found["draining"]) == (3, 14, 14, 0)
    assert broker.do(lambda memory: sum(memory.publish(p) for p in producers(memory))) == 0


def test_progress_counts_visible_virtual_hosts_only(broker: Broker, operator: User) -> None:
    broker.connected()

    def two_hosts(memory: InMemoryBroker) -> None:
        host = memory.engine.create_virtualhost("blue")
        host.create_on_attach = host.anonymous = True
        crowd(memory, 2, 3)
        for number in range(5):
            memory.attach_producer(f"b{number}", "blue")

    broker.do(two_hosts)
    assert answer_of(signed_in(operator), "stop-producers/", **ALL, reason="incident 7")["producers"] == 11
    user = User.objects.create_user("vic")
    RoleGrant.objects.create(user=user, role=Role.VIEWER, broker="local", virtualhost="blue")
    RoleGrant.objects.create(user=user, role=Role.VIEWER, broker="local", virtualhost="gone")
    vic = signed_in(user)
    found = answer_of(vic, "stop-producers/progress/", **ALL)
    assert (found["queues"], found["producers"]) == (5, 5)
    assert found["draining"] == broker.do(lambda memory: in_flight(memory, "blue")) == 5
    assert answer_of(vic, "stop-producers/progress/", **ALL, pattern="b1")["producers"] == 1
    hidden = post(vic, "stop-producers/progress/", **ALL, queues=[queue("q000")])
    assert (hidden.status_code, "q000" in hidden.content.decode()) == (404, True)
    assert post(vic, "stop-producers/progress/", scope=queue("q000")).status_code == 404


def test_hundreds_of_named_stops_reach_the_rows_of_the_console(broker: Broker, as_operator: APIClient) -> None:
    """Rows of queues that are stopped by name are read by name, also those that are deleted meanwhile."""
    broker.connected()
    broker.do(lambda memory: crowd(memory, 350, 1))
    until(lambda: broker.link.queue_count == 350)
    named = [queue(f"q{number:03}") for number in range(300)]
    answer = answer_of(as_operator, "stop-producers/", **ALL, queues=named, reason="by name")
    assert (answer["queues"], len(answer["changed_queues"])) == (300, 300)
    broker.do(
        lambda memory: [memory.engine.delete_queue(memory.engine.queue("default", f"q{n:03}")) for n in range(10)]
    )

    def rows_are_current() -> bool:
        rows = {row["name"]: row for row in broker.link.queues()}
        wanted = {f"q{n:03}": n < 300 for n in range(10, 350)}
        return rows.keys() == wanted.keys() and all(
            bool(rows[name]["stops"]) is stopped for name, stopped in wanted.items()
        )

    until(rows_are_current)


def test_answers_do_not_wait_for_the_samples_of_all_queues(broker: Broker) -> None:
    """Samples of thousands of queues arrive in many messages at once, also in the middle of a stop."""
    broker.connected()
    broker.do(lambda memory: crowd(memory, 1, 1))
    until(lambda: broker.link.queue_count == 1)
    taken: list[int] = []
    broker.link.trends.take = lambda name, at, values: taken.append(at)  # type: ignore[method-assign]

    async def stop_among_samples() -> int:
        for number in range(500):
            broker.memory.engine.queue("default", "q000").touch()
            broker.memory._end_turn()
            broker.memory.engine.turn.now += number
            broker.memory.sample()
        for _ in range(10):  # the turns of the loop in which a request is sent, and its answer is received
            await asyncio.sleep(0)
        await broker.link._request(lambda admin: admin.call(BROKER, "stop-producers", {"reason": "incident 7"}), None)
        return len(taken)

    before = asyncio.run_coroutine_threadsafe(stop_among_samples(), broker.link._loop).result()
    assert before < 500
    until(lambda: len(taken) == 500)


class Returning(Connected):
    """A connection of a broker that returns the object with the answer of an operation, like Headgate's own."""

    def __init__(self, memory: InMemoryBroker) -> None:
        super().__init__(memory)
        self._memory = memory
        self.call = self._call

    async def _call(self, name: Any, operation: str, arguments: Mapping[str, Any]) -> Any:
        answer = await self._memory.call(name, operation, arguments)
        if operation not in ("stop-producers", "start-producers"):
            return answer
        after = await self._memory.read(name)
        await self._memory.call(name, "stop-producers", {"reason": "somewhat later", "pattern": "later"})
        return Called(answer, after)


def test_the_audit_entry_has_the_object_that_came_with_the_answer(broker: Broker, operator: User) -> None:
    broker.wrap = lambda admin: Returning(broker.memory)
    broker.connected()
    broker.do(lambda memory: crowd(memory, 2, 1))
    call = OperationCall(
        Actor(operator), broker.link, BROKER, declared_operation(BROKER, "stop-producers"), {"reason": "incident 7"}
    )
    call.send_and_wait()
    assert call.finish()["changed"] is True
    (row,) = AuditEntry.objects.filter(operation="stop-producers", outcome="done")
    assert row.before is not None
    assert row.after is not None
    assert row.before["stops"] == []
    assert [stop["reason"] for stop in row.after["stops"]] == ["incident 7"], "and not what was done later"


def test_attributes_of_the_whole_broker_do_not_come_with_the_answer_of_a_restricted_user(broker: Broker) -> None:
    broker.wrap = lambda admin: Returning(broker.memory)
    broker.connected()

    def two_hosts(memory: InMemoryBroker) -> None:
        host = memory.engine.create_virtualhost("blue")
        host.create_on_attach = host.anonymous = True
        crowd(memory, 1, 1)
        memory.attach_producer("hidden", "blue")

    broker.do(two_hosts)
    broker.do(lambda memory: memory.management.call(HIDDEN, "stop-producers", {"reason": "a secret"}, "x"))
    user = User.objects.create_user("olav")
    RoleGrant.objects.create(user=user, role=Role.OPERATOR, broker="local", virtualhost="default")
    answer_of(signed_in(user), "stop-producers/", **ALL, queues=[queue("q000")], reason="mine")
    (row,) = AuditEntry.objects.filter(operation="stop-producers", outcome="done")
    assert row.after is not None
    assert "a secret" not in str(row.after)
    assert "mine" in str(row.after)
    assert row.after["queues"] == 1
