"""Events and samples, and the end of the connection."""

from __future__ import annotations

import asyncio

import pytest

from brokers.admin import SAMPLED, AdminError, BrokerUnreachable, EventsExpired
from brokers.model import NOTIFICATIONS
from tests.drivers.contract.subject import (
    BROKER,
    LIMIT,
    Subject,
    events_about,
    following,
    last_event,
    queue,
    soon,
    take,
)


class Streams:
    async def test_changes_are_reported_as_events_with_their_facts(self, subject: Subject) -> None:
        after = await last_event(subject)
        created = await subject.admin.create(queue("orders"), {"capacity_messages": 10, "flow_resume_messages": 5})
        taken = await subject.publish("orders", 50)
        await subject.consume("orders", taken)
        await subject.admin.call(queue("orders"), "stop-producers", {"reason": "a test", "actor": "anna"})
        await subject.admin.call(queue("orders"), "start-producers", {"actor": "anna"})
        version = (await subject.admin.read(created.name)).version
        await subject.admin.update(queue("orders"), {"capacity_messages": 20}, version)
        await subject.admin.delete(queue("orders"))
        kinds = [
            "queue-created",
            "queue-overfull",
            "queue-underfull",
            "producers-stopped",
            "producers-started",
            "policy-changed",
            "queue-deleted",
        ]
        found = {e.kind: e for e in await events_about(subject, queue("orders"), after, len(kinds))}
        assert list(found) == kinds
        overfull = found["queue-overfull"]
        assert overfull.attributes["state"] == "OVERFULL"
        assert overfull.attributes["depth_messages"] == 11
        assert overfull.attributes["depth_bytes"] >= 1100
        assert overfull.attributes["blocked_producers"] == 1
        assert "QUE-1003 : Overfull : Size : " in overfull.text
        assert "Messages : 11, Message Capacity : 10" in overfull.text
        assert found["queue-underfull"].attributes["state"] == "NORMAL"
        assert "QUE-1004 : Underfull" in found["queue-underfull"].text
        stopped = found["producers-stopped"]
        assert (stopped.attributes["reason"], stopped.attributes["actor"]) == ("a test", "anna")
        for event in found.values():
            assert NOTIFICATIONS[event.kind].code in event.text
            assert event.at > 0

    async def test_events_are_replayed_from_any_number_with_none_left_out(self, subject: Subject) -> None:
        start = await last_event(subject)
        for n in range(40):
            await subject.admin.create(queue(f"queue-{n}"), {})
        end = await last_event(subject)
        assert end - start >= 40
        stream = subject.admin.events(start)
        every = await take(stream, end - start)
        assert [event.number for event in every] == list(range(start + 1, end + 1))
        assert [e.object.get("name") for e in every if e.kind == "queue-created"] == [f"queue-{n}" for n in range(40)]
        for after in (start + 1, start + 17, end - 1):
            assert await take(subject.admin.events(after), end - after) == every[after - start :]
        # The same stream goes on with what happens now.
        await subject.admin.create(queue("one-more"), {})
        (live,) = await take(stream, 1)
        assert (live.number, live.object) == (end + 1, queue("one-more"))

    async def test_events_without_a_number_start_now(self, subject: Subject) -> None:
        await subject.admin.create(queue("before"), {})
        stream = subject.admin.events()
        waiting = await following(subject, stream)
        await subject.admin.create(queue("after"), {})
        event = await soon(waiting)
        assert (event.kind, event.object) == ("queue-created", queue("after"))
        assert event.number == await last_event(subject)

    async def test_several_readers_of_events_get_them_all(self, subject: Subject) -> None:
        start = await last_event(subject)
        streams = [subject.admin.events(start) for _ in range(5)]
        waiting = [await following(subject, stream) for stream in streams]
        await subject.admin.create(queue("orders"), {})
        assert [event.object for event in await soon(asyncio.gather(*waiting))] == [queue("orders")] * 5

    async def test_more_events_than_fit_a_window_all_come(self, subject: Subject) -> None:
        start = await last_event(subject)
        stream = subject.admin.events(start)
        waiting = await following(subject, stream)
        for n in range(700):
            await subject.admin.call(BROKER, "start-producers" if n % 2 else "stop-producers", {"reason": str(n)})
        found = [await soon(waiting), *await take(stream, 699)]
        assert [event.number for event in found] == list(range(start + 1, start + 701))
        assert [event.attributes["reason"] for event in found] == [str(n) for n in range(700)]

    async def test_request_for_pruned_events_raises_events_expired(self, subject: Subject) -> None:
        await subject.admin.create(queue("orders"), {})
        await subject.expire_events()
        with pytest.raises(EventsExpired) as caught:
            await soon(anext(subject.admin.events(0)))
        first = caught.value.first
        assert 1 < first <= await last_event(subject) + 1
        assert str(caught.value)
        stream = subject.admin.events(first - 1)
        waiting = await following(subject, stream)
        await subject.admin.create(queue("after"), {})
        assert (await soon(waiting)).number == first

    async def test_samples_give_the_queues_that_changed(self, subject: Subject) -> None:
        await subject.admin.create(queue("orders"), {"capacity_messages": 5})
        await subject.admin.create(queue("quiet"), {})
        stream = subject.admin.samples()
        waiting = await following(subject, stream)
        taken = await subject.publish("orders", 3)
        async with asyncio.timeout(LIMIT):
            while True:
                await subject.sample()
                samples = await soon(waiting)
                found = dict(samples.queues)
                if queue("orders") in found and found[queue("orders")]["depth_messages"] == taken == 3:
                    break
                waiting = asyncio.ensure_future(anext(stream))
                await asyncio.sleep(0)
        orders = found[queue("orders")]
        assert set(orders) == set(SAMPLED)
        assert (orders["state"], orders["effective_capacity_messages"]) == ("NORMAL", 5)
        assert samples.at > 0

    async def test_many_requests_at_once_are_all_answered(self, subject: Subject) -> None:
        await asyncio.gather(*(subject.admin.create(queue(f"queue-{n}"), {}) for n in range(200)))
        found = await asyncio.gather(*(subject.admin.read(queue(f"queue-{n}")) for n in range(200)))
        assert [f["name"] for f in found] == [f"queue-{n}" for n in range(200)]

    async def test_a_lost_connection_ends_everything_with_unreachable(self, subject: Subject) -> None:
        events = await following(subject, subject.admin.events())
        samples = await following(subject, subject.admin.samples())
        await subject.lose_connection()
        for waiting in (events, samples):
            with pytest.raises(BrokerUnreachable):
                await soon(waiting)
        with pytest.raises(BrokerUnreachable):
            await soon(subject.admin.read(BROKER))

    async def test_close_ends_the_readers_and_may_be_called_again(self, subject: Subject) -> None:
        events = await following(subject, subject.admin.events())
        await subject.admin.close()
        await subject.admin.close()
        with pytest.raises((AdminError, StopAsyncIteration)):
            await soon(events)
