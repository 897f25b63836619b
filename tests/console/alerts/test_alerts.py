"""Alerts from the broker to the receiver: rules, silences, permissions, and restarts."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from brokers.admin import BrokerUnreachable
from brokers.model import object_name
from console.access.actor import Actor
from console.access.user_rights import user_rights
from console.alerts import editing, firing, receiver_editing
from console.alerts.evaluator import Evaluator, shift_times
from console.alerts.event_position import Rewinds
from console.alerts.models import Alert, Notification, Position, Receiver, Rule
from console.api.alerts import MAX_ALERTS
from console.audit.models import AuditEntry
from console.operations import Aim, stop_producers
from console.permissions.rights import Grant, Role
from tests.console.access.conftest import person
from tests.console.alerts.conftest import STUCK, Clock, create_rule, evaluator, orders_queue
from tests.console.alerts.receivers import Received
from tests.console.conftest import Broker, signed_in, until

pytestmark = pytest.mark.django_db

API = "/api/v1/alerts/"


def post(client: APIClient, path: str, body: dict[str, Any]) -> Any:
    return client.post(path, body, format="json")


def test_receiver_gets_firing_and_resolved_notification(stuck: Broker, by: Actor, hook: Received) -> None:
    create_rule(by, hook, [STUCK], quiet=0)
    clock = Clock()
    alerts = evaluator(clock)
    alerts.poll()
    (notification,) = hook.bodies
    assert notification["phase"] == "firing"
    assert notification["items"][0]["name"] == "default/orders"
    alerts.poll()
    assert len(hook.requests) == 1
    version = stuck.do(lambda memory: memory.management.read(orders_queue())["version"])
    stuck.do(lambda memory: memory.management.update(orders_queue(), {"capacity_messages": 50}, version))
    stuck.do(lambda memory: memory.advance(5000, step=500))
    stuck.sample()
    until(lambda: not stuck.link.conditions(str(orders_queue())))
    clock.seconds = 30
    alerts.poll()
    assert [each["phase"] for each in hook.bodies] == ["firing", "resolved"]


@pytest.mark.parametrize("unreadable", ["events", "position"])
def test_rules_that_need_no_events_are_evaluated_while_events_cannot_be_read(
    stuck: Broker, by: Actor, hook: Received, *, monkeypatch: pytest.MonkeyPatch, caplog: Any, unreadable: str
) -> None:
    """And the events of that time are processed once they can be read, each once."""
    create_rule(by, hook, ["producers-stopped"], quiet=0)
    clock = Clock()
    alerts = evaluator(clock)
    alerts.poll()  # starts at the newest event
    Rule.objects.create(name="stuck", kinds=[STUCK]).receivers.set(Receiver.objects.all())
    stop_producers(by, stuck.link, Aim(orders_queue()), reason="one")
    until(lambda: stuck.link.newest_event > Position.objects.get().event)

    def refused(*_: Any) -> Any:
        raise BrokerUnreachable("no answer within 5 s")

    async def refused_later(*_: Any) -> Any:
        refused()

    with monkeypatch.context() as patch:
        if unreadable == "events":
            patch.setattr(type(stuck.link), "events_after", refused_later)
        else:
            patch.setattr(Rewinds, "restored_position", refused)
        for _ in range(3):
            clock.seconds += 20
            alerts.poll()
    assert [(each["rule"], each["items"][0]["kind"]) for each in hook.bodies] == [("stuck", STUCK)]
    assert caplog.text.count("events could not be read") == 1
    for _ in range(2):
        clock.seconds += 20
        alerts.poll()
    assert [(each["rule"], each["items"][0]["kind"]) for each in hook.bodies[1:]] == [("rule", "producers-stopped")]


def test_restarted_evaluator_neither_repeats_nor_loses_events(broker: Broker, by: Actor, hook: Received) -> None:
    broker.memory.management.create(orders_queue(), {"capacity_messages": 5})
    broker.connected()
    create_rule(by, hook, ["producers-stopped"], quiet=0)
    clock = Clock()
    evaluator(clock).poll()  # starts at the newest event
    assert not hook.requests
    stop_producers(by, broker.link, Aim(orders_queue()), reason="one")
    until(lambda: broker.link.newest_event > Position.objects.get().event)
    clock.seconds = 20
    evaluator(clock).poll()
    assert [each["items"][0]["kind"] for each in hook.bodies] == ["producers-stopped"]
    evaluator(clock).poll()  # another process, with the state in the database
    assert len(hook.requests) == 1
    stop_producers(by, broker.link, Aim(object_name("Broker")), reason="two")  # while no evaluator runs
    until(lambda: broker.link.newest_event > Position.objects.get().event)
    clock.seconds = 40
    evaluator(clock).poll()
    assert len(hook.requests) == 2
    assert "two" in hook.bodies[1]["items"][0]["saw"]


def test_firing_alert_survives_a_restart_without_another_notification(stuck: Broker, by: Actor, hook: Received) -> None:
    create_rule(by, hook, [STUCK], quiet=0)
    clock = Clock()
    evaluator(clock).poll()
    clock.seconds = 20
    evaluator(clock).poll()
    assert len(hook.requests) == 1
    assert Alert.objects.get().state == "firing"


def test_disconnected_broker_fires_an_alert(stuck: Broker, by: Actor, hook: Received) -> None:
    create_rule(by, hook, ["broker-unreachable"])
    stuck.lose()
    clock = Clock()
    clock.seconds = 5
    evaluator(clock).poll()
    assert hook.bodies[0]["items"][0]["title"] == "Broker unreachable"


# -- API --------------------------------------------------------------------------------------------------------------


def test_former_name_of_send_resolved_still_works(broker: Broker, as_operator: APIClient) -> None:
    made = post(as_operator, f"{API}rules/", {"name": "stuck", "kinds": [STUCK], "tell_resolved": False}).json()
    assert (made["send_resolved"], made["tell_resolved"]) == (False, False)
    url = f"{API}rules/{made['id']}/"
    changed = as_operator.patch(url, {"version": 1, "tell_resolved": True}, format="json").json()
    assert (changed["send_resolved"], changed["tell_resolved"]) == (True, True)
    changed = as_operator.patch(url, {"version": 2, "send_resolved": False}, format="json").json()
    assert (changed["send_resolved"], changed["tell_resolved"]) == (False, False)
    assert post(as_operator, f"{API}rules/", {"name": "default", "kinds": [STUCK]}).json()["send_resolved"] is True
    both = as_operator.patch(url, {"version": 3, "send_resolved": True, "tell_resolved": True}, format="json")
    assert (both.status_code, list(both.json())) == (400, ["tell_resolved"])


def test_creating_changing_and_deleting_a_rule_is_audited(broker: Broker, as_operator: APIClient) -> None:
    made = post(as_operator, f"{API}rules/", {"name": "stuck", "kinds": [STUCK], "pattern": "orders.>", "holds": 60})
    assert made.status_code == 201
    number = made.json()["id"]
    url = f"{API}rules/{number}/"
    changed = as_operator.patch(url, {"version": 1, "holds": 30}, format="json")
    assert (changed.json()["holds"], changed.json()["version"]) == (30, 2)
    assert as_operator.patch(url, {"version": 1, "holds": 5}, format="json").status_code == 409
    assert as_operator.delete(url).status_code == 204
    assert not Rule.objects.exists()
    rows = AuditEntry.objects.filter(object="alert-rule stuck").order_by("id")
    assert [(row.operation, row.outcome) for row in rows] == [
        ("create", "done"),
        ("update", "done"),
        ("update", "refused"),
        ("delete", "done"),
    ]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"kinds": ["nothing"]}, "kinds"),
        ({"kinds": []}, "kinds"),
        ({"name": ""}, "name"),
        ({"pattern": "a.>.b"}, "pattern"),
        ({"broker": "other"}, "broker"),
        ({"holds": -1}, "holds"),
        ({"quiet": "long"}, "quiet"),
        ({"receivers": [99]}, "receivers"),
        ({"enabled": "yes"}, "enabled"),
    ],
    ids=str,
)
def test_invalid_field_of_a_rule_is_named(broker: Broker, as_operator: APIClient, given: Any, field: str) -> None:
    refused = post(as_operator, f"{API}rules/", {"name": "a", "kinds": [STUCK], **given})
    assert refused.status_code == 400
    assert list(refused.json()) == [field]


def test_viewer_sees_rules_but_cannot_edit_and_sees_no_url(
    broker: Broker, by: Actor, as_viewer: APIClient, hook: Received
) -> None:
    rule = create_rule(by, hook, [STUCK])
    assert as_viewer.get(f"{API}rules/").status_code == 200
    (shown,) = as_viewer.get(f"{API}receivers/").json()
    assert "hook?" not in shown["url"]
    assert "secret" not in shown
    assert post(as_viewer, f"{API}rules/", {"name": "a", "kinds": [STUCK]}).status_code == 403
    assert as_viewer.delete(f"{API}rules/{rule.pk}/").status_code == 403
    assert post(as_viewer, f"{API}silences/", {"rule": rule.pk, "minutes": 5}).status_code == 403
    assert post(as_viewer, f"{API}receivers/{shown['id']}/test/", {}).status_code == 403
    assert Rule.objects.count() == 1
    assert AuditEntry.objects.filter(user_name="vera", outcome="refused").count() == 4


def test_silence_suppresses_notifications_until_it_ends(
    stuck: Broker, by: Actor, hook: Received, as_operator: APIClient
) -> None:
    rule = create_rule(by, hook, [STUCK])
    made = post(as_operator, f"{API}silences/", {"rule": rule.pk, "minutes": 5, "reason": "release"}).json()
    evaluator(Clock()).poll()
    assert not hook.requests
    assert as_operator.get(f"{API}").json()[0]["silenced"] is True
    assert as_operator.delete(f"{API}silences/{made['id']}/").status_code == 204
    evaluator(Clock()).poll()
    assert len(hook.requests) == 1
    assert as_operator.get(f"{API}log/").json()["results"][0]["deliveries"][0]["state"] == "done"


def test_delivery_log_outlives_the_rule_and_the_receiver(
    stuck: Broker, by: Actor, hook: Received, as_viewer: APIClient
) -> None:
    rule = create_rule(by, hook, [STUCK])
    evaluator(Clock()).poll()
    editing.delete_rule(by, rule)
    receiver_editing.delete_receiver(by, Receiver.objects.get())
    (notification,) = as_viewer.get(f"{API}log/").json()["results"]
    assert (notification["rule_name"], notification["deliveries"][0]["receiver_name"]) == ("rule", "hook")
    assert Notification.objects.count() == 1


def test_consumers_that_are_lost_fire_and_resolve_over_restarts_and_a_lost_connection(
    broker: Broker, by: Actor, hook: Received
) -> None:
    """The consumer detaches while no evaluator runs, and another one attaches after the broker was away."""
    link = broker.connected()
    consumer = broker.do(lambda memory: memory.attach_consumer("orders"))
    broker.sample()
    until(lambda: (link.queue(str(orders_queue())) or {}).get("consumers") == 1)
    create_rule(by, hook, ["consumers-lost"], holds=60, quiet=0)
    clock = Clock()

    def poll(alerts: Evaluator, *seconds: float) -> list[str]:
        before = len(hook.requests)
        for second in seconds:
            clock.seconds = second
            alerts.poll()
        return [each["phase"] for each in hook.bodies[before:]]

    assert poll(evaluator(clock), 0, 20) == []
    broker.do(lambda memory: memory.engine.detach(consumer))
    broker.sample()
    until(lambda: (link.queue(str(orders_queue())) or {}).get("consumers") == 0)
    again = evaluator(clock)
    assert poll(again, 100, 130, 159) == []
    assert poll(again, 161) == ["firing"]
    assert hook.bodies[-1]["items"][0]["saw"] == "The queue had consumers and has none now. Depth: 0 messages."
    broker.lose()
    assert poll(again, 200, 400) == []
    broker.come_back()
    assert poll(again, 500, 540, 700) == [], "still none, and no second notification"
    broker.do(lambda memory: memory.attach_consumer("orders"))
    broker.sample()
    until(lambda: (link.queue(str(orders_queue())) or {}).get("consumers") == 1)
    assert poll(again, 720) == ["resolved"]


def test_queue_that_is_deleted_while_its_alert_fires_resolves_it(broker: Broker, by: Actor, hook: Received) -> None:
    broker.memory.management.create(orders_queue(), {})
    broker.memory.fill("orders", 6)
    link = broker.connected()
    until(lambda: (link.queue(str(orders_queue())) or {}).get("depth_messages") == 6)
    create_rule(by, hook, ["depth-above"], depth=5, quiet=0)
    clock = Clock()
    alerts = evaluator(clock)
    alerts.poll()
    assert [each["phase"] for each in hook.bodies] == ["firing"]
    link.call(lambda admin: admin.delete(orders_queue()))
    until(lambda: link.queue(str(orders_queue())) is None)
    clock.seconds = 30
    alerts.poll()
    assert [each["phase"] for each in hook.bodies] == ["firing", "resolved"]
    assert Alert.objects.get().state == "resolved"


def test_rule_that_no_longer_covers_a_firing_alert_resolves_it(broker: Broker, by: Actor, hook: Received) -> None:
    broker.memory.management.create(orders_queue(), {})
    broker.memory.fill("orders", 6)
    link = broker.connected()
    until(lambda: (link.queue(str(orders_queue())) or {}).get("depth_messages") == 6)
    rule = create_rule(by, hook, ["depth-above"], depth=5, quiet=0)
    clock = Clock()
    alerts = evaluator(clock)
    alerts.poll()
    editing.change_rule(by, rule, {"pattern": "bills"}, rule.version)
    clock.seconds = 30
    alerts.poll()
    assert [each["phase"] for each in hook.bodies] == ["firing", "resolved"]


def test_unreachable_broker_resolves_after_a_restart_in_the_middle(broker: Broker, by: Actor, hook: Received) -> None:
    broker.connected()
    create_rule(by, hook, ["broker-unreachable"], holds=30, quiet=0)
    clock = Clock()
    alerts = evaluator(clock)
    alerts.poll()
    broker.lose()
    for clock.seconds in (5, 20, 34):
        alerts.poll()
    assert not hook.requests, "pending since the first observation"
    again = evaluator(clock)
    for clock.seconds in (36, 100):
        again.poll()
    assert [each["phase"] for each in hook.bodies] == ["firing"]
    broker.come_back()
    for clock.seconds in (110, 120, 130):
        again.poll()
    assert [each["phase"] for each in hook.bodies] == ["firing", "resolved"]


def test_a_paused_broker_is_not_unreachable(
    broker: Broker, by: Actor, hook: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.connected()
    create_rule(by, hook, ["broker-unreachable"], holds=30, quiet=0)
    clock = Clock()
    alerts = evaluator(clock)
    alerts.poll()
    broker.lose()
    for clock.seconds in (5, 40, 80):
        alerts.poll()
    assert [each["phase"] for each in hook.bodies] == ["firing"]
    monkeypatch.setattr("console.alerts.observing.configured", lambda: [{"slug": "local", "paused": True}])
    for clock.seconds in (100, 200, 300):
        alerts.poll()
    assert [each["phase"] for each in hook.bodies] == ["firing", "resolved"]


def fire(rule: Rule, broker: str, host: str, count: int, at: dt.datetime, **more: Any) -> None:
    Alert.objects.bulk_create(
        Alert(
            rule=rule,
            broker=broker,
            object=f"type=Queue,virtualhost={host},name=q.{number}",
            kind=STUCK,
            state="firing",
            **{"since": at, "last_seen": at, "fired": at, "notified": at, "firing_notified": True, **more},
        )
        for number in range(count)
    )


def test_alerts_that_a_user_may_not_see_do_not_hide_their_own(broker: Broker, by: Actor) -> None:
    rule = editing.create_rule(by, {"name": "rule", "kinds": [STUCK]})
    now = timezone.now()
    fire(rule, "local", "default", MAX_ALERTS + 5, now)
    fire(rule, "local", "blue", 1, now - dt.timedelta(hours=1))
    nils = person("nils", Grant(Role.VIEWER, "local", "blue"))
    assert [each["name"] for each in signed_in(nils).get(API).json()] == ["blue/q.0"]
    assert len(signed_in(by.user).get(API).json()) == MAX_ALERTS
    shown = [each for each in firing.firing_alerts() if firing.is_visible(user_rights(nils), each)]
    assert [each["name"] for each in shown] == ["blue/q.0"]


def test_alert_that_has_just_fired_is_among_the_newest_though_its_condition_is_old(broker: Broker, by: Actor) -> None:
    rule = editing.create_rule(by, {"name": "rule", "kinds": [STUCK]})
    now = timezone.now()
    fire(rule, "local", "default", MAX_ALERTS + 5, now - dt.timedelta(minutes=1))
    fire(rule, "local", "old", 1, now, since=now - dt.timedelta(days=2))
    assert signed_in(by.user).get(API).json()[0]["name"] == "old/q.0"
    Alert.objects.filter(object__contains="virtualhost=old").update(object="type=Queue,virtualhost=default,name=old")
    assert firing.firing_alerts()[0]["name"] == "default/old"
    assert len(firing.firing_alerts()) == firing.MAX_ALERTS


def test_browser_notification_is_the_same_after_the_clock_was_set_and_another_for_the_next_firing(
    stuck: Broker, by: Actor, hook: Received
) -> None:
    create_rule(by, hook, [STUCK], quiet=0)
    clock = Clock()
    evaluator(clock).poll()
    (first,) = firing.firing_alerts()
    shift_times(dt.timedelta(hours=-3), [])
    assert firing.firing_alerts() == [first]
    alert = Alert.objects.get()
    alert.state, alert.firing_notified = "resolved", False
    alert.save()
    assert firing.firing_alerts() == []
    clock.seconds = 60
    evaluator(clock).poll()
    (second,) = firing.firing_alerts()
    assert second["id"] != first["id"]


def test_many_objects_that_fire_at_once_are_one_notification(broker: Broker, by: Actor, hook: Received) -> None:
    count = 1500

    def create(memory: Any) -> None:
        for number in range(count):
            name = object_name("Queue", virtualhost="default", name=f"q.{number:04}")
            memory.management.create(name, {})
        stop = {"reason": "incident", "actor": "ada"}
        memory.management.call(object_name("Broker"), "stop-producers", stop)

    link = broker.connected()
    broker.do(create)
    until(lambda: sum((row["state"] or "").endswith("STOPPED") for row in link.queues()) >= count)
    create_rule(by, hook, ["stopped"], quiet=0)
    clock = Clock()
    alerts = evaluator(clock)
    alerts.poll()
    (body,) = hook.bodies
    assert (body["count"], len(body["items"])) == (count, 100)
    assert "and 1,499 more" in body["summary"]
    assert Alert.objects.filter(state="firing").count() == count
    clock.seconds = 30
    alerts.poll()
    assert len(hook.requests) == 1
