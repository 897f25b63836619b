"""What a broker says of limits: where they come from, and what a change of them would do, which it then does."""

from __future__ import annotations

from typing import Any

import pytest

from brokers.admin import AlreadyExists, InvalidValue, NotAllowed, NotFound, StaleVersion
from brokers.model import ObjectName
from brokers.model.policy_fields import POLICY
from tests.adapters.contract.changes import WANTED, changeable, restored
from tests.adapters.contract.subject import Subject
from tests.adapters.fake import BROKER

UNITS = ("messages", "bytes")
LEVELS = tuple(f"effective_{level}_{unit}" for level in ("capacity", "stop", "resume") for unit in UNITS)


async def preview(subject: Subject, name: ObjectName, **change: Any) -> Any:
    return await subject.admin.call(BROKER, "preview-change", {"changes": [{"object": str(name), **change}]})


async def limits_settled(subject: Subject, name: ObjectName, expected: dict[str, Any]) -> None:
    """Wait until a queue reports these levels: some brokers do so seconds after a change."""

    async def reported() -> bool:
        queue = await subject.admin.read(name)
        return all(queue.attributes.get(level) == value for level, value in expected.items())

    await subject.until(reported)


class Predictions:
    async def test_every_limit_is_explained_with_its_value_and_origin(self, subject: Subject) -> None:
        declared = (await subject.types())["Queue"]
        for name in subject.queues:
            queue = await subject.admin.read(name)
            answer = await subject.admin.call(name, "explain", {})
            assert set(answer) == {"fields", "inherited"}
            assert set(answer["fields"]) == set(answer["inherited"]) <= {a.name for a in POLICY}
            for field, said in answer["fields"].items():
                assert set(said) == {"value", "origin"}
                if field.startswith("capacity_"):
                    assert said["value"] == queue[f"effective_{field}"]
                    own = declared.attribute(field) is not None and queue[field] is not None
                    assert (said["origin"] == "own") is own

    async def test_previewed_limits_are_those_after_the_change(self, subject: Subject) -> None:
        for name, limit in await changeable(subject):
            before, limits = await subject.admin.read(name), await subject.limits()
            answer = await preview(subject, name, attributes={limit: WANTED}, version=before.version)
            assert (answer["queues"], answer["changed"], answer["overfull"]) == (1, 1, 0)
            assert answer["versions"] == {str(name): before.version}
            (impact,) = answer["largest"]
            assert impact["changes"][limit]["after"] == WANTED
            assert impact["changes"][limit]["after_origin"] == "own"
            assert await subject.limits() == limits, "a preview changes nothing"
            await subject.admin.update(name, {limit: WANTED}, before.version)
            expected = {level: value for level, value in impact["after"].items() if level in LEVELS}
            await limits_settled(subject, name, {k: v for k, v in expected.items() if v is not None})
            after = await subject.admin.read(name)
            undo = {a.name: before[a.name] for a in (await subject.types())["Queue"].writable}
            undo = {key: value for key, value in undo.items() if after[key] != value}
            (back,) = (await preview(subject, name, attributes=undo))["largest"]
            assert back["changes"][limit]["after"] == impact["changes"][limit]["before"]
            await restored(subject, before)
            await limits_settled(subject, name, {level: before.attributes.get(level) for level in LEVELS})
            assert (await preview(subject, name, attributes={}))["changed"] == 0

    async def test_preview_of_what_would_be_refused_is_refused(self, subject: Subject) -> None:
        types = await subject.types()
        missing = ObjectName("Queue", (("virtualhost", subject.queues[0]["virtualhost"]), ("name", "missing")))
        with pytest.raises(NotFound):
            await preview(subject, missing, attributes={})
        with pytest.raises((InvalidValue, NotAllowed)):
            await preview(subject, subject.queues[0], action="create")
        for name, limit in await changeable(subject):
            for wrong in ({limit: -1}, {"colour": "red"}, {"depth_messages": 1}):
                with pytest.raises(InvalidValue) as refused:
                    await preview(subject, name, attributes=wrong)
                assert set(refused.value.errors) == set(wrong)
            with pytest.raises(StaleVersion):
                await preview(subject, name, attributes={limit: WANTED}, version=1)
        if "Policy" in types:
            for policy in (await subject.admin.query("Policy", count=1)).items:
                with pytest.raises((AlreadyExists, InvalidValue)):
                    await preview(subject, policy.name, action="create", attributes={})
