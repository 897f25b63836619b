"""Events without gaps, their replay, and what happens while the broker does not answer."""

from __future__ import annotations

import pytest

from brokers.admin import BrokerUnreachable, EventsExpired
from brokers.model import NOTIFICATIONS
from tests.adapters.contract.subject import Subject, following, soon
from tests.adapters.fake import BROKER


class Streams:
    async def test_events_are_numbered_without_gaps_and_replayed_after_a_reconnection(self, subject: Subject) -> None:
        start = await subject.last_event()
        waiting = await following(subject, subject.admin.events(start))
        created = await subject.declare("contract-created")
        await subject.until(lambda: subject.lists(created))
        assert (await soon(waiting)).number == start + 1
        await subject.remove(created)

        async def gone() -> bool:
            return not await subject.lists(created)

        await subject.until(gone)
        found = await subject.events(start)
        assert [event.number for event in found] == list(range(start + 1, start + 1 + len(found)))
        assert [e.kind for e in found if e.object == created] == ["queue-created", "queue-deleted"]
        for event in found:
            assert NOTIFICATIONS[event.kind].code in event.text
            assert event.at > 0
            assert (event.attributes.get("seen_at") == event.at) is (event.kind not in subject.reports), event
        await subject.restart()
        assert (await subject.events(start))[: len(found)] == found
        assert (await subject.events(start + 1))[: len(found) - 1] == found[1:]

    async def test_events_that_do_not_exist_are_expired(self, subject: Subject) -> None:
        with pytest.raises(EventsExpired):
            await soon(anext(subject.admin.events(10_000_000)))

    async def test_broker_that_does_not_answer_is_unreachable_and_recovers(self, subject: Subject) -> None:
        last, limits = await subject.last_event(), await subject.limits()
        events = await following(subject, subject.admin.events(last))
        await subject.lose()
        await subject.until(subject.is_unreachable)
        with pytest.raises(BrokerUnreachable):
            await soon(events)
        queue = subject.queues[0]
        for request in (
            anext(subject.admin.samples()),
            subject.admin.read(BROKER),
            subject.admin.query("Queue"),
            subject.admin.update(queue, {}, 1),
            subject.admin.call(queue, "stop-producers", {}),
        ):
            with pytest.raises(BrokerUnreachable):
                await soon(request)
        await subject.recover()
        await subject.until(subject.is_reachable)
        assert await subject.limits() == limits
        assert (await subject.admin.query("Queue")).total >= 2
        found = await subject.events(last)
        assert [event.number for event in found] == list(range(last + 1, last + 1 + len(found)))
        assert not [event for event in found if event.object in subject.queues], "what could not be read is no event"
