"""Users in the engine: the last administrator remains, and lost rights close the connections that used them."""

from __future__ import annotations

from typing import Any

import pytest

from brokers.admin import NotAllowed
from brokers.engine.broker import Broker
from brokers.engine.flow.turn import Close
from brokers.engine.management.requests import Management
from brokers.engine.registry.connection import Connection
from brokers.model import object_name
from tests.engine.plain_credentials import PlainCredentials
from tests.engine.ports import Peer


@pytest.fixture
def broker() -> Broker:
    broker = Broker(0)
    broker.accounts.credentials = PlainCredentials()
    for name in ("a", "b"):
        broker.create_virtualhost(name)
    return broker


def create(broker: Broker, name: str, *grants: str, **more: Any) -> None:
    broker.accounts.create({"name": name, "grants": list(grants), **more})


def update(broker: Broker, name: str, **changes: Any) -> None:
    broker.accounts.update(broker.accounts.user(name), changes)


def connect(broker: Broker, user: str, virtualhost: str) -> Connection:
    about = {"remote_address": "", "container_id": "", "idle_timeout": 0}
    peer = Peer()
    peer.connection = broker.open_connection(f"vhost:{virtualhost}", user=user, handle=peer, **about)
    return peer.connection


def ended(broker: Broker) -> list[Connection]:
    return [effect.port.connection for effect in broker.turn.take_effects() if isinstance(effect, Close)]


def test_last_administrator_cannot_be_deleted_or_lose_that_right(broker: Broker) -> None:
    create(broker, "anna", administrator=True)
    create(broker, "bert", "*:manage")
    for attempt in (
        lambda: broker.accounts.delete(broker.accounts.user("anna")),
        lambda: update(broker, "anna", administrator=False),
    ):
        with pytest.raises(NotAllowed, match="anna is the last administrator"):
            attempt()
    assert broker.accounts.rights("anna").administrator
    update(broker, "bert", administrator=True)
    update(broker, "anna", administrator=False)
    with pytest.raises(NotAllowed, match="bert is the last"):
        broker.accounts.delete(broker.accounts.user("bert"))


@pytest.mark.parametrize(
    ("changes", "gone"),
    [
        ({"grants": ["a:publish,consume", "b:publish,consume"]}, ""),
        ({"grants": ["*:publish,consume"]}, ""),
        ({"grants": ["a:publish,consume", "b:publish"]}, "b"),
        ({"grants": []}, "ab"),
        ({"grants": ["b:publish,consume"]}, "a"),
        ({"password": "another"}, "ab"),
        ({"certificate_subject": "CN=anna"}, "ab"),
    ],
    ids=str,
)
def test_losing_a_right_closes_the_connections_that_could_use_it(
    broker: Broker, changes: dict[str, Any], gone: str
) -> None:
    create(broker, "anna", "a:publish,consume", "b:publish,consume")
    create(broker, "bert")
    connections = {host: connect(broker, "anna", host) for host in "ab"}
    connect(broker, "bert", "a")
    update(broker, "anna", **changes)
    assert ended(broker) == [connections[host] for host in gone]


def test_losing_the_right_to_manage_or_the_account_closes_all_connections(broker: Broker) -> None:
    create(broker, "anna", "a:manage")
    create(broker, "bert", administrator=True)
    create(broker, "carl", administrator=True)
    connections = [connect(broker, name, "b") for name in ("anna", "bert")]
    update(broker, "anna", grants=["b:manage"])
    update(broker, "bert", administrator=False)
    assert ended(broker) == connections
    broker.accounts.delete(broker.accounts.user("bert"))
    assert ended(broker) == connections[1:]
    broker.accounts.renew_password(broker.accounts.user("anna"))
    assert ended(broker) == connections[:1]
    assert broker.accounts.take_generated_password() == {}


def test_password_is_in_no_fact_and_is_verified_as_given(broker: Broker) -> None:
    create(broker, "anna", password="unmistakable")
    update(broker, "anna", password="unmistakable too")
    assert broker.accounts.user("anna").verifier == {"of": "unmistakable too"}
    facts = broker.turn.take_facts()
    assert [fact.kind for fact in facts] == ["user-created", "user-changed"]
    assert "unmistakable" not in repr(facts)
    assert "password changed" in facts[1].text
    create(broker, "bert")
    assert broker.accounts.user("bert").verifier == {"of": "generated"}
    assert broker.accounts.take_generated_password() == {"password": "generated"}
    assert broker.accounts.take_generated_password() == {}


def test_generated_password_is_returned_once_for_its_user_only(broker: Broker) -> None:
    management = Management(broker)
    create(broker, "anna")
    shown = management.create(object_name("VirtualHost", name="next"), {})
    assert "generated" not in str(shown.attributes)
