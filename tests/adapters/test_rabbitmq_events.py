"""Events of RabbitMQ's event exchange, as 3.10.8 sent them to a bound queue, and the reports made of them."""

from __future__ import annotations

from typing import Any

import pytest

from brokers.adapters.observation import Reported
from brokers.adapters.rabbitmq_connection import listener_of
from brokers.adapters.rabbitmq_events import KEYS, KINDS, Known, reports_of
from brokers.model import object_name
from tests.adapters.fake import BROKER, queue_name

AT = 1_795_404_318_367
POLICY = {
    "apply-to": "queues", "priority": 3, "definition": {"overflow": "reject-publish", "max-length": 50},
    "pattern": "^orders$", "user_who_performed_action": "bob", "vhost": "/", "name": "mine", "timestamp_in_ms": AT,
}  # fmt: skip
CLEARED = {"user_who_performed_action": "bob", "vhost": "/", "name": "mine", "timestamp_in_ms": AT + 1}
ALARM = {"node": "test@localhost", "source": "memory", "timestamp_in_ms": AT}
CREATED = {
    "user_who_performed_action": "bob", "exclusive": False, "owner_pid": "", "auto_delete": False, "durable": True,
    "arguments": ['{<<"x-max-length">>,long,5}'], "name": "orders", "vhost": "/", "timestamp_in_ms": AT,
}  # fmt: skip
DELETED = {"user_who_performed_action": "bob", "name": "orders", "vhost": "/", "timestamp_in_ms": AT}


def orders(pattern: str = "^orders$") -> Any:
    return object_name("Policy", virtualhost="/", pattern=pattern)


def test_alarms_are_limits_of_the_broker_by_the_name_that_the_health_check_has() -> None:
    (first,), known = reports_of("alarm.set", ALARM, Known())
    assert (first.at, first.kind, first.object) == (AT, "limit-exceeded", BROKER)
    assert first.attributes == {"resource": "memory-overfull on test@localhost"}
    assert first.observed == {"shortages": ["memory-overfull on test@localhost"]}
    (second,), known = reports_of("alarm.set", {**ALARM, "source": "disk"}, known)
    assert second.observed == {"shortages": ["disk-overfull on test@localhost", "memory-overfull on test@localhost"]}
    (end,), known = reports_of("alarm.cleared", {**ALARM, "timestamp_in_ms": str(AT + 5)}, known)
    assert (end.at, end.kind, end.observed) == (
        AT + 5,
        "limit-cleared",
        {"shortages": ["disk-overfull on test@localhost"]},
    )
    assert known.alarms == ("disk-overfull on test@localhost",)


def test_policy_has_who_changed_it() -> None:
    (made,), known = reports_of("policy.set", POLICY, Known())
    assert (made.at, made.kind, made.object, made.attributes) == (AT, "policy-changed", orders(), {"actor": "bob"})
    assert made.observed is not None
    assert (made.observed["capacity_messages"], made.observed["overflow"], made.observed["priority"]) == (
        50, "producers", 3,
    )  # fmt: skip
    (gone,), known = reports_of("policy.cleared", CLEARED, known)
    assert (gone.object, gone.observed, known.policies) == (orders(), None, ())


def test_policy_that_gets_another_pattern_is_gone_from_the_first() -> None:
    _, known = reports_of("policy.set", POLICY, Known())
    found, known = reports_of("policy.set", {**POLICY, "pattern": "^bills$"}, known)
    assert {report.object: report.observed is None for report in found} == {orders(): True, orders("^bills$"): False}
    assert len(known.policies) == 1


def test_policy_that_another_of_its_pattern_outranks_is_shown_when_that_goes() -> None:
    _, known = reports_of("policy.set", POLICY, Known())
    lower = {**POLICY, "name": "lower", "priority": 1, "definition": {"max-length": 9}}
    (still,), known = reports_of("policy.set", lower, known)
    assert still.observed is not None
    assert still.observed["capacity_messages"] == 50
    (other,), known = reports_of("policy.cleared", CLEARED, known)
    assert other.observed is not None
    assert other.observed["capacity_messages"] == 9


@pytest.mark.parametrize("name", ["headgate-stop~orders", "headgate-limit~orders"])
def test_policies_that_headgate_makes_for_a_queue_are_no_reports(name: str) -> None:
    found, known = reports_of("policy.set", {**POLICY, "name": name}, Known())
    assert (found, len(known.policies)) == ([], 1)
    assert reports_of("policy.cleared", {**CLEARED, "name": name}, known) == ([], Known())


def test_queues_that_outlast_a_client_are_reported() -> None:
    name = queue_name("orders", "/")
    (made,), _ = reports_of("queue.created", CREATED, Known())
    observed = {"virtualhost": "/", "name": "orders", "durable": True}
    assert made == Reported(AT, "queue-created", name, "", {"actor": "bob"}, observed)
    (gone,), _ = reports_of("queue.deleted", {**DELETED, "user_who_performed_action": "rmq-internal"}, Known())
    assert gone == Reported(AT, "queue-deleted", name, "", {}, None)
    for temporary in ({"exclusive": True}, {"auto_delete": True}, {"name": "headgate-events.01"}):
        assert reports_of("queue.created", {**CREATED, **temporary}, Known())[0] == []
    assert reports_of("queue.deleted", {**DELETED, "name": "headgate-events.01"}, Known())[0] == []


def test_every_event_that_is_received_has_a_kind_that_is_reported() -> None:
    for key in KEYS:
        headers = {**POLICY, **CREATED, **ALARM}
        found, _ = reports_of(key, headers, reports_of("policy.set", POLICY, Known())[1])
        assert {report.kind for report in found} <= KINDS


@pytest.mark.parametrize(
    "headers", [{}, {"timestamp_in_ms": "soon"}, {"timestamp_in_ms": AT}, {"timestamp_in_ms": None}]
)
@pytest.mark.parametrize("key", KEYS)
def test_event_of_another_form_is_an_error_that_the_source_survives(key: str, headers: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        reports_of(key, headers, Known())


def test_listener_has_tls_exactly_if_the_management_has() -> None:
    listeners = [
        {"protocol": "clustering", "port": 25672}, {"protocol": "amqp", "port": 5672},
        {"protocol": "amqp/ssl", "port": 5671}, {"protocol": "http", "port": 15672},
    ]  # fmt: skip
    plain, tls = (listener_of(f"{scheme}://rabbit.example:15672/api", listeners) for scheme in ("http", "https"))
    assert plain is not None
    assert tls is not None
    assert (plain.host, plain.port, plain.tls) == ("rabbit.example", 5672, False)
    assert (tls.port, tls.tls) == (5671, True)
    assert listener_of("https://rabbit.example/api", listeners[:2]) is None
