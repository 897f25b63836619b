"""Names of objects and scopes for people: one form for the virtual host `/`."""

from __future__ import annotations

import pytest

from brokers.engine.values.clients import Client
from brokers.engine.values.stops import Scope
from brokers.model import ObjectName, object_name, scope_label


@pytest.mark.parametrize(
    ("name", "label"),
    [
        (object_name("Queue", virtualhost="default", name="orders"), "default/orders"),
        (object_name("Queue", virtualhost="/", name="orders"), "/orders"),
        (object_name("Queue", virtualhost="/", name="/orders"), "//orders"),
        (object_name("Queue", virtualhost="/a", name="orders"), "/a/orders"),
        (object_name("VirtualHost", name="/"), "/"),
        (object_name("Broker"), ""),
    ],
)
def test_labels_have_the_virtual_host_of_a_slash_once(name: ObjectName, label: str) -> None:
    assert name.label == label


@pytest.mark.parametrize("virtualhost", ["default", "/", "eu"])
def test_scopes_of_a_queue_and_an_exchange_are_labelled_as_their_objects(virtualhost: str) -> None:
    for kind in ("queue", "exchange"):
        scope = Scope(virtualhost=virtualhost, **{kind: "orders"})
        assert scope_label(str(scope)) == f"{kind} {scope.object.label}"


@pytest.mark.parametrize("scope", [Scope(), Scope("eu"), Scope("eu", pattern="//a"), Scope(pattern="orders.>")])
def test_other_scopes_stay_as_they_are(scope: Scope) -> None:
    assert scope_label(str(scope)) == str(scope)


@pytest.mark.parametrize(
    ("client", "words"),
    [
        (Client(user="ann"), "user ann"),
        (Client("ann", "web", "l"), "user ann, container web, link l"),
        (Client("ann", 'a "b\n of', "of"), 'user ann, container a "b\n of, link of'),
    ],
)
def test_clients_of_a_scope_are_named_in_words(client: Client, words: str) -> None:
    assert scope_label(str(Scope(client=client))) == f"{words} in broker"
    assert scope_label(str(Scope("/", "orders", client=client))) == f"{words} in queue /orders"
    assert scope_label(str(Scope("eu", pattern="a.>", client=client))) == f"{words} in virtualhost eu a.>"


def test_scope_of_the_virtual_host_of_a_slash_has_no_quotes() -> None:
    assert scope_label(str(Scope("/"))) == "virtualhost /"
    assert scope_label(str(Scope("/", pattern="orders.>"))) == "virtualhost / orders.>"
