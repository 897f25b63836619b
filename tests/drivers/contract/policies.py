"""Policies and exchanges: explanation, preview, precedence and inheritance."""

from __future__ import annotations

from typing import Any

import pytest

from brokers.admin import InvalidValue, NotFound, StaleVersion
from brokers.model import NOTIFICATIONS, ObjectName, object_name
from tests.drivers.contract.subject import (
    BROKER,
    HOST,
    Subject,
    events_about,
    eventually,
    exchange,
    last_event,
    policy,
    queue,
)


class Policies:
    async def test_explain_gives_each_field_with_its_origin(self, subject: Subject) -> None:
        await subject.admin.create(queue("orders"), {"capacity_bytes": 1000})
        host = await subject.admin.read(HOST)
        await subject.admin.update(HOST, {"capacity_messages": 50, "capacity_bytes": 7}, host.version)
        broker = await subject.admin.read(BROKER)
        await subject.admin.update(BROKER, {"producer_window_messages": 9, "capacity_messages": 8}, broker.version)
        fields = (await subject.admin.call(queue("orders"), "explain", {}))["fields"]
        assert fields["capacity_bytes"] == {"value": 1000, "origin": "own"}
        assert fields["capacity_messages"] == {"value": 50, "origin": "virtualhost"}
        assert fields["producer_window_messages"] == {"value": 9, "origin": "broker"}
        assert fields["flow_stop_bytes"] == {"value": "100%", "origin": "built-in"}
        await subject.admin.update(
            BROKER,
            {"producer_window_messages": None, "capacity_messages": None},
            (await subject.admin.read(BROKER)).version,
        )

    async def test_preview_reports_the_impact_of_a_change_and_changes_nothing(self, subject: Subject) -> None:
        await subject.admin.create(queue("orders"), {"capacity_messages": 100})
        await subject.publish("orders", 10)
        await eventually(subject, queue("orders"), lambda q: q["depth_messages"] == 10)
        before = await subject.admin.read(queue("orders"))
        change = {"object": str(queue("orders")), "attributes": {"capacity_messages": 5}, "version": before.version}
        impact = await subject.admin.call(BROKER, "preview-change", {"changes": [change], "largest": 1})
        assert (impact["queues"], impact["changed"], impact["overfull"], impact["held"]) == (1, 1, 1, 1)
        assert impact["versions"] == {str(queue("orders")): before.version}
        assert impact["largest"][0]["after"]["state"] == "OVERFULL"
        now = await subject.admin.read(queue("orders"))
        assert (now["state"], now["capacity_messages"], now.version) == ("NORMAL", 100, before.version)
        with pytest.raises(StaleVersion):
            await subject.admin.call(BROKER, "preview-change", {"changes": [{**change, "version": 99}]})
        with pytest.raises(InvalidValue) as caught:
            await subject.admin.call(
                BROKER, "preview-change", {"changes": [{**change, "attributes": {"capacity_messages": "x"}}]}
            )
        assert set(caught.value.errors) == {"capacity_messages"}

    async def test_a_policy_holds_for_the_queues_it_matches_best_from_its_creation_to_its_end(
        self, subject: Subject
    ) -> None:
        for name in ("orders.eu", "orders.us", "invoices"):
            await subject.admin.create(queue(name), {})
        made = await subject.admin.create(policy("orders.>"), {"capacity_messages": 10, "priority": 2})
        assert (made["virtualhost"], made["pattern"], made["priority"], made["queues"]) == ("default", "orders.>", 2, 2)
        assert (made["capacity_messages"], made["capacity_bytes"]) == (10, None)
        taken = await subject.publish("orders.eu", 50)
        assert 10 <= taken <= 11
        full = await eventually(subject, queue("orders.eu"), lambda q: q["state"] == "OVERFULL")
        assert full["policy"] == "orders.>"
        fields = (await subject.admin.call(queue("orders.eu"), "explain", {}))["fields"]
        assert fields["capacity_messages"] == {"value": 10, "origin": "pattern orders.>"}
        assert (await subject.admin.read(queue("invoices")))["policy"] is None

        changed = await subject.admin.update(policy("orders.>"), {"capacity_messages": 100}, made.version)
        assert (changed["capacity_messages"], changed["priority"]) == (100, 2)
        assert changed.version > made.version
        assert (await subject.admin.read(queue("orders.eu")))["state"] == "NORMAL"
        with pytest.raises(StaleVersion):
            await subject.admin.update(policy("orders.>"), {"capacity_messages": 1}, made.version)

        better = await subject.admin.create(policy("orders.eu"), {"capacity_messages": 3})
        assert better["queues"] == 1
        assert (await subject.admin.read(policy("orders.>")))["queues"] == 1
        assert (await subject.admin.read(queue("orders.eu")))["state"] == "OVERFULL"
        await subject.admin.delete(policy("orders.eu"), better.version)
        await subject.admin.delete(policy("orders.>"))
        free = await subject.admin.read(queue("orders.eu"))
        assert (free["state"], free["policy"], free["effective_capacity_messages"]) == ("NORMAL", None, 0)
        assert (await subject.admin.query("Policy")).total == 0

    async def test_a_policy_that_contradicts_a_queue_is_refused_for_all_of_them(self, subject: Subject) -> None:
        await subject.admin.create(queue("orders.a"), {})
        await subject.admin.create(queue("orders.b"), {"capacity_messages": 50})
        before = [await subject.admin.read(queue(name)) for name in ("orders.a", "orders.b")]
        wrong = {"capacity_messages": 100, "flow_stop_messages": 90}
        with pytest.raises(InvalidValue) as caught:
            await subject.admin.create(policy("orders.*"), wrong)
        sentence = caught.value.errors["flow_stop_messages"]
        for named in ("default/orders.b", "pattern orders.*", "90", "50"):
            assert named in sentence
        with pytest.raises(NotFound):
            await subject.admin.read(policy("orders.*"))
        made = await subject.admin.create(policy("orders.*"), {"capacity_messages": 100})
        with pytest.raises(InvalidValue, match=r"orders\.b"):
            await subject.admin.update(policy("orders.*"), wrong, made.version)
        assert await subject.admin.read(policy("orders.*")) == made
        await subject.admin.delete(policy("orders.*"))
        assert [await subject.admin.read(queue(name)) for name in ("orders.a", "orders.b")] == before

    @pytest.mark.parametrize(
        ("name", "attributes", "field"),
        [
            (policy(""), {}, "pattern"),
            (policy("a.>.b"), {}, "pattern"),
            (object_name("Policy", virtualhost="", pattern="a.>"), {}, "virtualhost"),
            (policy("a.>"), {"priority": -1}, "priority"),
            (policy("a.>"), {"queues": 1}, "queues"),
            (exchange("a/b"), {"exchange_type": "topic"}, "name"),
            (exchange("a"), {"exchange_type": "headers"}, "exchange_type"),
            (exchange("a"), {}, "exchange_type"),
            (exchange("a"), {"exchange_type": "topic", "capacity_bytes": "much"}, "capacity_bytes"),
        ],
        ids=str,
    )
    async def test_a_policy_or_exchange_that_cannot_be_is_refused_with_the_field(
        self, subject: Subject, name: ObjectName, attributes: dict[str, Any], field: str
    ) -> None:
        with pytest.raises(InvalidValue) as caught:
            await subject.admin.create(name, attributes)
        assert list(caught.value.errors) == [field]
        assert (await subject.admin.query(name.type)).total == 0

    async def test_a_queue_bound_to_an_exchange_inherits_its_policy(self, subject: Subject) -> None:
        await subject.admin.create(queue("orders"), {})
        made = await subject.admin.create(exchange("stocks"), {"exchange_type": "topic", "capacity_messages": 10})
        assert (made["exchange_type"], made["capacity_messages"], made["bindings"]) == ("topic", 10, [])
        binding = {"queue": "orders", "key": "eu.#"}
        assert await subject.admin.call(exchange("stocks"), "bind", binding) == {"changed": True}
        assert await subject.admin.call(exchange("stocks"), "bind", binding) == {"changed": False}
        bound = await subject.admin.read(queue("orders"))
        assert bound["bindings"] == [{"exchange": "stocks", "key": "eu.#"}]
        assert bound["effective_capacity_messages"] == 10
        fields = (await subject.admin.call(queue("orders"), "explain", {}))["fields"]
        assert fields["capacity_messages"] == {"value": 10, "origin": "exchange stocks"}
        changed = await subject.admin.update(exchange("stocks"), {"capacity_messages": 20}, made.version)
        assert (changed["bindings"], changed["queues"]) == ([{"queue": "orders", "key": "eu.#"}], 1)
        assert (await subject.admin.read(queue("orders")))["effective_capacity_messages"] == 20
        answer = await subject.admin.call(exchange("stocks"), "stop-producers", {"reason": "a test"})
        assert (answer["queues"], answer["changed"]) == (1, True)
        assert (await subject.admin.read(queue("orders")))["state"] == "STOPPED"
        assert [s["reason"] for s in (await subject.admin.read(exchange("stocks")))["stops"]] == ["a test"]
        assert (await subject.admin.call(exchange("stocks"), "start-producers", {}))["changed"] is True
        assert (await subject.admin.read(queue("orders")))["state"] == "NORMAL"
        assert await subject.admin.call(exchange("stocks"), "unbind", binding) == {"changed": True}
        assert await subject.admin.call(exchange("stocks"), "unbind", binding) == {"changed": False}
        assert (await subject.admin.read(queue("orders")))["effective_capacity_messages"] == 0
        for wrong, named in (({"queue": "missing"}, "missing"), ({"queue": "orders", "key": "a*"}, "a\\*")):
            with pytest.raises((NotFound, InvalidValue), match=named):
                await subject.admin.call(exchange("stocks"), "bind", wrong)
        await subject.admin.call(exchange("stocks"), "bind", {"queue": "orders"})
        await subject.admin.delete(queue("orders"))
        assert (await subject.admin.read(exchange("stocks")))["bindings"] == []
        await subject.admin.delete(exchange("stocks"))
        with pytest.raises(NotFound):
            await subject.admin.read(exchange("stocks"))

    async def test_changes_of_policies_and_exchanges_are_reported_as_events(self, subject: Subject) -> None:
        after = await last_event(subject)
        await subject.admin.create(queue("orders"), {})
        made = await subject.admin.create(policy("*"), {"capacity_messages": 10})
        await subject.admin.update(policy("*"), {"capacity_messages": 20}, made.version, actor="anna")
        await subject.admin.delete(policy("*"), actor="bert")
        await subject.admin.create(exchange("stocks"), {"exchange_type": "direct"})
        await subject.admin.call(exchange("stocks"), "bind", {"queue": "orders", "key": "eu", "actor": "anna"})
        await subject.admin.delete(exchange("stocks"))
        events = await events_about(subject, policy("*"), after, 3)
        assert [(e.kind, e.attributes["change"]) for e in events] == [
            ("policy-changed", change) for change in ("created", "changed", "deleted")
        ]
        assert (events[1].attributes["before"], events[1].attributes["after"]) == (
            {"capacity_messages": 10},
            {"capacity_messages": 20},
        )
        assert [e.attributes["actor"] for e in events] == ["console", "anna", "bert"]
        events = await events_about(subject, exchange("stocks"), after, 4)
        kinds = ["exchange-created", "binding-created", "binding-deleted", "exchange-deleted"]
        assert [e.kind for e in events] == kinds
        assert [e.attributes["actor"] for e in events] == ["console", "anna", "console", "console"]
        assert all(NOTIFICATIONS[e.kind].code in e.text for e in events)
