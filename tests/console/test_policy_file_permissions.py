"""Policy files of users who may not make every change: nothing is changed, and the answer says what is missing."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from brokers.model import ObjectName, object_name
from console.access.actor import Actor
from console.access.models import RoleGrant
from console.audit.models import AuditEntry
from console.operations import policies
from console.operations.policies import PolicyChange, apply_changes
from console.permissions.rights import Grant, Rights, Role
from tests.console.conftest import Broker, signed_in, until
from tests.console.test_api import post

pytestmark = pytest.mark.django_db

FILE = "/api/v1/policies/file/"
BROKER = object_name("Broker")
BOTH = """\
version: 1
virtualhosts:
  default:
    patterns: {orders.>: {capacity_messages: 5}}
  east:
    patterns: {orders.>: {capacity_messages: 7}}
    queues: {mail: {capacity_messages: 9}}
"""


def pattern(host: str, text: str = "orders.>") -> ObjectName:
    return object_name("Policy", virtualhost=host, pattern=text)


MAIL = object_name("Queue", virtualhost="east", name="mail")


@pytest.fixture
def hosts(broker: Broker) -> Broker:
    """A broker with the virtual hosts `default` and `east`; its own settings are not empty."""
    link = broker.connected()

    def fill(memory: Any) -> None:
        memory.management.create(object_name("VirtualHost", name="east"), {})
        for host in ("default", "east"):
            memory.management.create(pattern(host), {"capacity_messages": 1})
        memory.management.create(pattern("default", "old.>"), {"capacity_messages": 1})
        memory.management.create(MAIL, {})
        version = memory.management.read(BROKER).version
        memory.management.update(BROKER, {"capacity_messages": 1_000_000}, version)

    broker.do(fill)
    until(lambda: link.queue(MAIL) and "east" in link.hosts)
    return broker


def capacity(broker: Broker, name: ObjectName) -> Any:
    return broker.do(lambda memory: memory.management.read(name)["capacity_messages"])


def user_with(*grants: Grant) -> User:
    user = User.objects.create_user("ci")
    for grant in grants:
        RoleGrant.objects.create(user=user, role=grant.role, broker=grant.broker, virtualhost=grant.virtualhost)
    return user


@pytest.fixture
def narrow(db: None) -> APIClient:
    """An editor of the virtual host `default` who sees both."""
    return signed_in(user_with(Grant(Role.POLICY_EDITOR, "local", "default"), Grant(Role.VIEWER, "local")))


@pytest.fixture
def of_one(db: None) -> APIClient:
    """An editor of the virtual host `default`, who sees nothing else but the broker itself."""
    return signed_in(user_with(Grant(Role.POLICY_EDITOR, "local", "default")))


def test_nothing_is_changed_if_a_permission_for_one_change_is_missing(hosts: Broker, narrow: APIClient) -> None:
    answer = post(narrow, FILE, yaml=BOTH, reason="release 42")
    assert answer.status_code == 403
    assert capacity(hosts, pattern("default")) == 1
    assert capacity(hosts, pattern("east")) == 1
    said = answer.json()["detail"]
    assert "may not make 2 of 3 changes, so nothing was changed" in said
    assert str(pattern("east")) in said
    assert str(MAIL) in said
    assert str(pattern("default")) not in said
    assert "the role of policy editor for virtual host east" in said
    row = AuditEntry.objects.get()
    assert (row.outcome, row.object, row.virtualhost) == ("refused", "type=VirtualHost,name=east", "east")
    assert "so nothing was changed" in row.detail
    assert row.reason == "release 42"


def test_each_missing_permission_is_named(hosts: Broker, db: None) -> None:
    viewer = signed_in(user_with(Grant(Role.VIEWER, "local")))
    answer = post(viewer, FILE, yaml=f"{BOTH}broker: {{capacity_messages: 7}}\n")
    assert answer.status_code == 403
    for place in ("virtual host default", "virtual host east", "broker local"):
        assert f"the role of policy editor for {place}" in answer.json()["detail"]
    assert set(AuditEntry.objects.values_list("object", "outcome")) == {
        ("type=Broker", "refused"),
        (str(pattern("default")), "refused"),
        ("type=VirtualHost,name=east", "refused"),
    }


def test_pruning_by_an_editor_of_one_virtual_host_leaves_the_broker_alone(hosts: Broker, of_one: APIClient) -> None:
    text = "version: 1\nvirtualhosts: {default: {patterns: {orders.>: {capacity_messages: 5}}}}"
    dry = post(of_one, FILE, yaml=text, prune=True, dry_run=True).json()
    assert [each["object"] for each in dry["changes"]] == [str(pattern("default", "old.>")), str(pattern("default"))]
    assert dry["left_alone"] == [str(BROKER)]
    answer = post(of_one, FILE, yaml=text, prune=True, digest=dry["digest"])
    assert answer.status_code == 200, answer.json()
    assert {each["outcome"] for each in answer.json()["applied"]} == {"done"}
    assert capacity(hosts, pattern("default")) == 5
    assert capacity(hosts, pattern("east")) == 1
    assert capacity(hosts, BROKER) == 1_000_000


def test_pruning_removes_the_settings_of_the_broker_for_those_who_see_all_of_it(
    hosts: Broker, as_operator: APIClient
) -> None:
    answer = post(as_operator, FILE, yaml="version: 1", prune=True)
    assert answer.status_code == 200, answer.json()
    assert capacity(hosts, BROKER) is None


def test_a_file_that_changes_the_broker_needs_the_permission_for_it(hosts: Broker, of_one: APIClient) -> None:
    text = "version: 1\nbroker: {capacity_messages: 7}\nvirtualhosts: {default: {patterns: {orders.>: {}}}}"
    answer = post(of_one, FILE, yaml=text)
    assert answer.status_code == 403
    assert "the role of policy editor for broker local" in answer.json()["detail"]
    assert capacity(hosts, pattern("default")) == 1


def test_a_permission_that_is_revoked_meanwhile_is_the_result_of_that_change(
    hosts: Broker, monkeypatch: pytest.MonkeyPatch, operator: User
) -> None:
    changes = [PolicyChange(pattern(host), {"capacity_messages": 5}) for host in ("default", "east")]
    by = Actor(operator, "127.0.0.1")
    make = policies.make_change

    def revoke_and_make(by: Actor, link: Any, change: PolicyChange, *, reason: str) -> int | None:
        if change is changes[1]:
            by = Actor(operator, "127.0.0.1", granted=Rights())
        return make(by, link, change, reason=reason)

    monkeypatch.setattr(policies, "make_change", revoke_and_make)
    done, refused = apply_changes(by, hosts.link, changes)
    assert (done.outcome, refused.outcome) == ("done", "refused")
    assert "may not change" in refused.detail
    assert AuditEntry.objects.filter(outcome="refused").count() == 1
