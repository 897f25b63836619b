"""What each kind of broker must survive besides the contract: an answer that stops in the middle, and a restart of the
broker in the middle of a stop."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pytest

from brokers.admin import BrokerUnreachable, NotFound
from tests.adapters.contract.real import Real
from tests.adapters.fake import BROKER
from tests.adapters.hosted import until


class Breakable(Real, ABC):
    """`CHANGES`: bytes of the request that a stop changes the broker with, and no other."""

    CHANGES: bytes

    @abstractmethod
    async def restart_broker(self) -> None:
        """Restart the broker itself. Returns when it listens again."""

    async def is_shown(self) -> bool:
        try:
            return len((await self.admin.query("Queue")).items) >= len(self.queues)
        except BrokerUnreachable:
            return False

    async def is_as_before(self) -> bool:
        try:
            return not await self.is_stopped(self.queues[0]) and (await self.admin.read(BROKER))["stops"] == []
        except (BrokerUnreachable, NotFound):
            return False


class FailuresContract:
    """A class for each kind has the fixture `subject`."""

    async def test_answer_that_stops_in_the_middle_makes_the_broker_unreachable_until_it_goes_on(
        self, subject: Breakable
    ) -> None:
        last = await subject.last_event()
        subject.proxy.tear.set()
        await until(subject.hosted.is_unreachable)
        with pytest.raises(BrokerUnreachable):
            await subject.admin.query("Queue")
        await subject.recover()
        await until(subject.hosted.is_reachable)
        await until(subject.is_shown)
        kinds = [event.kind for event in await subject.events(last)]
        assert not any(kind.startswith(("queue-", "policy-", "producers-")) for kind in kinds)

    async def test_broker_that_restarts_in_the_middle_of_a_stop_is_left_without_it(self, subject: Breakable) -> None:
        limits, last = await subject.limits(), await subject.last_event()
        subject.proxy.stall_after = subject.CHANGES
        given = await subject.arguments(subject.queues[0])
        with pytest.raises(BrokerUnreachable):
            await subject.admin.call(subject.queues[0], "stop-producers", given)
        assert subject.proxy.stall.is_set()  # the request has reached the broker, and its answer nothing
        await subject.restart_broker()
        await subject.recover()
        await until(subject.is_as_before)

        async def has_the_limits_of_before() -> bool:
            return bool(await subject.limits() == limits)

        await until(has_the_limits_of_before)
        kinds = [event.kind for event in await subject.events(last)]
        assert "producers-stopped" not in kinds
        answer = await subject.admin.call(subject.queues[0], "stop-producers", given)
        assert answer["changed"]
        assert await subject.is_stopped(subject.queues[0])
        await subject.admin.call(subject.queues[0], "start-producers", {"actor": "ada"})
        await until(has_the_limits_of_before)
