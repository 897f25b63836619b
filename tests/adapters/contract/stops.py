"""Stops and starts of producers in every declared scope: their effect is named, and a start restores exactly."""

from __future__ import annotations

from itertools import combinations

import pytest

from brokers.admin import EffectNotConfirmed, InvalidValue
from brokers.model import ObjectName
from tests.adapters.contract.declared import EFFECTS
from tests.adapters.contract.subject import Subject
from tests.adapters.fake import BROKER


class Stops:
    async def test_stop_of_each_scope_is_idempotent_and_its_start_restores_every_limit(self, subject: Subject) -> None:
        limits = await subject.limits()
        for scope in (await subject.scopes()).values():
            given, last = await subject.arguments(scope), await subject.last_event()
            operation = await subject.stop_operation(scope)
            answer = await subject.admin.call(scope, "stop-producers", given)
            assert set(answer) == {field.name for field in operation.returns}
            assert answer["changed"] is True
            assert answer["queues"] >= 1
            stopped = await subject.admin.read(subject.queues[0])
            assert stopped["state"].endswith("STOPPED")
            (stop,) = stopped["stops"]
            assert (stop["actor"], stop["reason"], stop["since"]) == ("ada", "flood", stopped["stopped_since"])
            during = await subject.limits()
            assert (await subject.admin.call(scope, "stop-producers", given))["changed"] is False
            assert await subject.limits() == during
            (again,) = (await subject.admin.read(BROKER))["stops"]
            assert again == stop
            assert (await subject.admin.call(scope, "start-producers", {"actor": "ben"}))["changed"] is True
            assert (await subject.admin.call(scope, "start-producers", {"actor": "ben"}))["changed"] is False
            assert await subject.limits() == limits
            assert not await subject.is_stopped(subject.queues[0])
            assert (await subject.admin.read(BROKER))["stops"] == []
            (began,) = await subject.events_of("producers-stopped", scope, last)
            (ended,) = await subject.events_of("producers-started", scope, last)
            assert (began.attributes["actor"], ended.attributes["actor"]) == ("ada", "ben")

    async def test_stop_without_the_name_of_its_effect_is_refused_and_stops_nothing(self, subject: Subject) -> None:
        limits = await subject.limits()
        for scope in (await subject.scopes()).values():
            operation = await subject.stop_operation(scope)
            wrong = [{"effect": effect} for effect in EFFECTS if effect != operation.producer_effect]
            for given in [*wrong, *([{}] if operation.producer_effect != "hold" else [])]:
                with pytest.raises(EffectNotConfirmed) as refused:
                    await subject.admin.call(scope, "stop-producers", {"actor": "ada", **given})
                assert refused.value.effect == operation.producer_effect
            with pytest.raises(InvalidValue, match="effect"):
                await subject.admin.call(scope, "stop-producers", {"effect": "magic"})
            for argument in ("rate", "colour"):
                if all(argument != a.name for a in operation.arguments):
                    with pytest.raises(InvalidValue, match=argument):
                        await subject.admin.call(
                            scope, "stop-producers", await subject.arguments(scope, **{argument: 5})
                        )
        assert await subject.limits() == limits
        assert (await subject.admin.read(BROKER))["stops"] == []

    async def test_overlapping_scopes_are_lifted_in_both_orders(self, subject: Subject) -> None:
        limits, scopes = await subject.limits(), list((await subject.scopes()).values())
        pairs = list(combinations(scopes, 2))
        for inner, outer, first, second in [(i, o, *order) for i, o in pairs for order in ((i, o), (o, i))]:
            for scope in (inner, outer):
                await subject.admin.call(scope, "stop-producers", await subject.arguments(scope))
            assert len((await subject.admin.read(subject.queues[0]))["stops"]) == 2
            assert (await subject.admin.call(first, "start-producers", {"only": True}))["changed"]
            assert await subject.is_stopped(subject.queues[0])
            assert [ObjectName.parse(s["object"]) for s in (await subject.admin.read(BROKER))["stops"]] == [second]
            await subject.admin.call(second, "start-producers", {"only": True})
            assert await subject.limits() == limits
        for scope in reversed(scopes):  # the widest first, and one start for all
            await subject.admin.call(scope, "stop-producers", await subject.arguments(scope))
        for scope in scopes[-1:]:
            await subject.admin.call(scope, "start-producers", {})
        assert (await subject.admin.read(BROKER))["stops"] == []
        assert await subject.limits() == limits

    async def test_stop_covers_a_queue_that_is_created_later(self, subject: Subject) -> None:
        """And a stop of one queue does not."""
        for scope in list((await subject.scopes()).values())[-1:]:
            await subject.admin.call(scope, "stop-producers", await subject.arguments(scope))
            later, covers = await subject.declare("contract-later"), scope.type != "Queue"

            async def listed(queue: ObjectName = later, stopped: bool = covers) -> bool:
                return await subject.lists(queue) and await subject.is_stopped(queue) is stopped

            await subject.until(listed)
            await subject.admin.call(scope, "start-producers", {})
            assert not await subject.is_stopped(later)
            await subject.remove(later)

    async def test_stop_outlasts_a_restart_of_the_adapter_and_is_lifted_after_it(self, subject: Subject) -> None:
        limits = await subject.limits()
        for scope in list((await subject.scopes()).values())[:1]:
            await subject.admin.call(scope, "stop-producers", await subject.arguments(scope))
            await subject.restart()
            assert await subject.is_stopped(subject.queues[0])
            await subject.admin.call(scope, "start-producers", {})
            assert await subject.limits() == limits
