"""Users of the broker: passwords, grants and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from brokers.admin import AlreadyExists, InvalidValue, NotAllowed, NotFound
from brokers.model import NOTIFICATIONS, object_name
from tests.drivers.contract.subject import Subject, events_about, last_event, user


class Users:
    async def test_a_user_is_created_changed_and_deleted_and_its_password_never_shown(self, subject: Subject) -> None:
        after = await last_event(subject)
        given = {"password": "unmistakable", "grants": ["default:consume,publish"], "administrator": False}
        made = await subject.admin.create(user("anna"), given, actor="bert")
        assert (made["name"], made["has_password"], made["password"]) == ("anna", True, None)
        assert (made["grants"], made["administrator"], made["connections"]) == (["default:publish,consume"], False, 0)
        changed = await subject.admin.update(
            user("anna"), {"password": "unmistakable too", "grants": ["*:manage"]}, made.version, actor="bert"
        )
        assert (changed["grants"], changed["password"]) == (["*:manage"], None)
        assert changed.version > made.version
        changed = await subject.admin.update(
            user("anna"), {"certificate_subject": "CN=anna,O=Example"}, changed.version
        )
        assert changed["certificate_subject"] == "CN=anna,O=Example"
        read = await subject.admin.read(user("anna"))
        assert read == changed
        found = await subject.admin.query("User", sort="name")
        assert [item["name"] for item in found.items] == ["anna", "console"]
        await subject.admin.delete(user("anna"), changed.version, actor="bert")
        with pytest.raises(NotFound, match="anna"):
            await subject.admin.read(user("anna"))
        events = await events_about(subject, user("anna"), after, 4)
        kinds = ["user-created", "user-changed", "user-changed", "user-deleted"]
        assert [e.kind for e in events] == kinds
        assert [e.attributes["actor"] for e in events] == ["bert", "bert", "console", "bert"]
        assert [e.attributes["password_changed"] for e in events] == [False, True, False, False]
        assert events[1].attributes["after"] == {"grants": ["*:manage"]}
        for event in events:
            assert NOTIFICATIONS[event.kind].code in event.text
        for shown in (made, changed, read, found, events):
            assert "unmistakable" not in repr(shown)

    async def test_user_without_a_password_gets_a_generated_one_that_is_returned_once(self, subject: Subject) -> None:
        after = await last_event(subject)
        made = await subject.admin.create(user("anna"), {})
        assert len(made["password"]) >= 40
        assert (await subject.admin.read(user("anna")))["password"] is None
        renewed = await subject.admin.call(user("anna"), "renew-password", {"actor": "bert"})
        assert len(renewed["password"]) >= 40
        assert renewed["password"] != made["password"]
        assert (await subject.admin.read(user("anna"))).version > made.version
        certified = await subject.admin.create(user("bert"), {"certificate_subject": "CN=bert"})
        assert (certified["password"], certified["has_password"]) == (None, False)
        events = await events_about(subject, user("anna"), after, 2)
        assert renewed["password"] not in repr(events)
        assert made["password"] not in repr(events)

    @pytest.mark.parametrize(
        ("name", "attributes", "field"),
        [
            ("anonymous", {}, "name"),
            ("", {}, "name"),
            ("anna", {"password": ""}, "password"),
            ("anna", {"password": 12345}, "password"),
            ("anna", {"password": None}, "password"),
            ("anna", {"has_password": True}, "has_password"),
            ("anna", {"grants": ["default"]}, "grants"),
            ("anna", {"grants": ["nowhere:publish"]}, "grants"),
            ("anna", {"grants": ["default:fly"]}, "grants"),
            ("anna", {"grants": "default:publish"}, "grants"),
            ("anna", {"administrator": "perhaps"}, "administrator"),
            ("anna", {"certificate_subject": "anna"}, "certificate_subject"),
            ("anna", {"certificate_subject": "CN=taken"}, "certificate_subject"),
        ],
        ids=str,
    )
    async def test_a_user_that_cannot_be_is_refused_with_the_field(
        self, subject: Subject, name: str, attributes: dict[str, Any], field: str
    ) -> None:
        await subject.admin.create(user("taken"), {"certificate_subject": "CN=taken"})
        with pytest.raises(InvalidValue) as caught:
            await subject.admin.create(user(name), attributes)
        assert list(caught.value.errors) == [field]
        assert "12345" not in str(caught.value)
        assert (await subject.admin.query("User")).total == 2
        made = await subject.admin.create(user("bert"), {"grants": ["default:publish"]})
        if field != "name":
            with pytest.raises(InvalidValue) as caught:
                await subject.admin.update(user("bert"), attributes, made.version)
            assert list(caught.value.errors) == [field]
            now = await subject.admin.read(user("bert"))
            assert (now.version, now["grants"], now["certificate_subject"]) == (made.version, ["default:publish"], None)

    async def test_a_user_that_is_there_or_the_consoles_own_cannot_be_made_or_changed(self, subject: Subject) -> None:
        await subject.admin.create(user("anna"), {"administrator": True})
        with pytest.raises(AlreadyExists, match="anna"):
            await subject.admin.create(user("anna"), {})
        console = await subject.admin.read(user("console"))
        with pytest.raises(NotAllowed, match="console's own"):
            await subject.admin.update(console.name, {"password": "x"}, console.version)
        with pytest.raises(NotAllowed, match="console's own"):
            await subject.admin.delete(console.name)
        with pytest.raises(NotAllowed, match="console's own"):
            await subject.admin.call(console.name, "renew-password", {})
        assert await subject.admin.read(console.name) == console

    async def test_grants_to_a_virtual_host_go_with_it(self, subject: Subject) -> None:
        other = object_name("VirtualHost", name="other")
        await subject.admin.create(other, {})
        await subject.admin.create(user("anna"), {"grants": ["other:publish", "default:consume"]})
        await subject.admin.delete(other)
        await subject.admin.create(other, {})
        assert (await subject.admin.read(user("anna")))["grants"] == ["default:consume"]
