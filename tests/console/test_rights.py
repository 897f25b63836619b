"""Permissions: a table of roles and actions, and general properties."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.model import TYPES, ObjectName, object_name
from console.permissions.rights import Grant, Need, Rights, Role, host_of, needed

QUEUE = object_name("Queue", virtualhost="red", name="orders")
BROKER = object_name("Broker")
HOST = object_name("VirtualHost", name="red")
PATTERN = object_name("Policy", virtualhost="red", pattern="orders.>")
USER = object_name("User", name="app")
NAMED = [str(QUEUE), str(object_name("Queue", virtualhost="blue", name="b"))]

V, OP, P, A = Role.VIEWER, Role.OPERATOR, Role.POLICY_EDITOR, Role.ADMIN
ALL = set(Role)

#: Actions and the roles that permit them.
MATRIX: list[tuple[ObjectName, str, dict[str, Any], set[Role]]] = [
    (QUEUE, "explain", {}, ALL),
    (QUEUE, "check", {}, ALL),
    (BROKER, "preview-change", {"changes": []}, ALL),
    (QUEUE, "stop-producers", {}, {OP, A}),
    (QUEUE, "start-producers", {}, {OP, A}),
    (BROKER, "stop-producers", {}, {OP, A}),
    (BROKER, "stop-producers", {"queues": NAMED}, {OP, A}),
    (QUEUE, "purge", {}, {OP, A}),
    (QUEUE, "create", {}, {OP, A}),
    (QUEUE, "create", {"capacity_messages": 5}, {A}),
    (QUEUE, "delete", {}, {OP, A}),
    (HOST, "create", {}, {OP, A}),
    (HOST, "delete", {}, {OP, A}),
    (HOST, "create", {"create_on_attach": True, "anonymous": False}, {OP, A}),
    (HOST, "create", {"anonymous": True}, {A}),
    (HOST, "update", {"anonymous": True}, {A}),
    (HOST, "update", {"anonymous": False, "message_ttl_ms": 5}, {A}),
    (HOST, "update", {"message_ttl_ms": 5}, {P, A}),
    (QUEUE, "update", {"capacity_messages": 5}, {P, A}),
    (BROKER, "update", {"memory_limit": 5}, {P, A}),
    (PATTERN, "create", {"capacity_messages": 5}, {P, A}),
    (PATTERN, "update", {"priority": 5}, {P, A}),
    (PATTERN, "delete", {}, {P, A}),
    (USER, "create", {}, {A}),
    (USER, "update", {}, {A}),
    (USER, "delete", {}, {A}),
    (USER, "renew-password", {}, {A}),
]


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize(("name", "operation", "arguments", "may"), MATRIX)
def test_permissions_of_each_role(
    name: ObjectName, operation: str, arguments: dict[str, Any], may: set[Role], role: Role
) -> None:
    missing = Rights((Grant(role),)).missing("local", needed(name, operation, arguments))
    assert (missing == "") is (role in may), missing


def test_operator_and_policy_editor_together_create_a_queue_with_limits() -> None:
    both = Rights((Grant(OP), Grant(P)))
    assert not both.missing("local", needed(QUEUE, "create", {"capacity_messages": 5}))


def test_every_changing_operation_needs_more_than_a_viewer() -> None:
    seen = 0
    for declared in TYPES.values():
        name = object_name(declared.name, **dict.fromkeys(declared.keys, "1"))
        for operation in declared.operations:
            roles = needed(name, operation.name).roles
            by_effect = operation.effect == "read" and declared.name != "User" and not operation.role
            assert (Role.VIEWER in roles) is by_effect, operation.name
            seen += 1
    assert seen > 10


# -- scopes ---------------------------------------------------------------------------------------------------------


def test_grant_on_a_virtual_host_applies_to_that_host_only() -> None:
    mine = Rights((Grant(OP, "local", "red"),))
    stop = "stop-producers"
    assert not mine.missing("local", needed(QUEUE, stop))
    assert not mine.missing("local", needed(HOST, stop))
    for broker, name in (
        ("elsewhere", QUEUE),
        ("local", object_name("Queue", virtualhost="blue", name="orders")),
        ("local", BROKER),
    ):
        assert "role of operator" in mine.missing(broker, needed(name, stop))
    assert mine.hosts(V, "local") == {"red"}
    assert mine.hosts(V, "elsewhere") == frozenset()
    assert mine.hosts(P, "local") == frozenset()


def test_named_queues_need_their_virtual_hosts_only() -> None:
    need = needed(BROKER, "stop-producers", {"queues": NAMED})
    assert need.hosts == ("blue", "red")
    red, blue = Grant(OP, "local", "red"), Grant(OP, "local", "blue")
    assert "virtual host blue" in Rights((red,)).missing("local", need)
    assert not Rights((blue, red)).missing("local", need)
    assert needed(BROKER, "stop-producers", {"queues": []}).hosts == (None,)
    assert needed(BROKER, "stop-producers", {"queues": ["nonsense", NAMED[0]]}).hosts == (None, "red")
    assert needed(BROKER, "stop-producers", {"pattern": "orders.>"}).hosts == (None,)


def test_creating_and_deleting_virtual_hosts_needs_the_broker() -> None:
    mine = Rights((Grant(A, "local", "red"),))
    assert mine.missing("local", needed(HOST, "delete"))
    assert not mine.missing("local", needed(HOST, "update"))


def test_objects_of_the_broker_have_no_virtual_host() -> None:
    assert [host_of(name) for name in (BROKER, USER, HOST, QUEUE)] == [None, None, "red", "red"]
    assert Need((V,), ("red",)).host == "red"
    assert Need((V,), ("red", "blue")).host == Need((V,), (None,)).host == ""


def test_administrators_assign_roles_within_their_scope() -> None:
    of_host, of_broker, of_all = Grant(A, "local", "red"), Grant(A, "local"), Grant(A)
    assert Rights((of_host,)).can_assign(Grant(OP, "local", "red"))
    assert not Rights((of_host,)).can_assign(Grant(OP, "local", "blue"))
    assert not Rights((of_host,)).can_assign(Grant(V, "local"))
    assert Rights((of_broker,)).can_assign(Grant(A, "local", "blue"))
    assert not Rights((of_broker,)).can_assign(Grant(V))
    assert Rights((of_all,)).can_assign(of_all)
    assert not Rights((Grant(OP), Grant(P))).can_assign(Grant(V, "local", "red"))


def test_no_grant_means_no_permission() -> None:
    none = Rights()
    assert not none.can_see("local")
    assert not none.can_assign_any
    assert none.missing("local", needed(QUEUE, "explain"))


# -- properties -----------------------------------------------------------------------------------------------------

BROKERS, HOSTS = ("", "a", "b"), ("", "x", "y")
grants = st.builds(Grant, st.sampled_from(list(Role)), st.sampled_from(BROKERS), st.sampled_from(HOSTS))
some_rights = st.lists(grants, max_size=4).map(Rights.of)
QUESTIONS = list(itertools.product(Role, ("a", "b", "c"), (None, "x", "y", "z")))


@given(some_rights, some_rights)
def test_rights_of_a_token_are_the_intersection_with_its_owner(owner: Rights, token: Rights) -> None:
    both = owner.intersection(token)
    for role, broker, host in QUESTIONS:
        assert both.allows(role, broker, host) == (
            owner.allows(role, broker, host) and token.allows(role, broker, host)
        )


@given(some_rights, grants)
def test_additional_grant_removes_nothing(mine: Rights, more: Grant) -> None:
    with_it = Rights.of([*mine.grants, more])
    for question in QUESTIONS:
        assert with_it.allows(*question) or not mine.allows(*question)


@given(some_rights)
def test_every_role_includes_visibility(mine: Rights) -> None:
    for role, broker, host in QUESTIONS:
        assert mine.allows(Role.VIEWER, broker, host) or not mine.allows(role, broker, host)
