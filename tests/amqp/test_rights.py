"""Who may what, with real clients: links, management, events and samples per virtual host; and guessing passwords."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from proton import ConnectionException, Message, symbol
from proton.reactor import DurableSubscription
from proton.utils import BlockingConnection, LinkDetached

from brokers.amqp.sign_in_attempts import FIRST_PAUSE_MS, FREE
from tests.amqp.broker_thread import WITHIN, BrokerThread
from tests.amqp.clients import After, Managing, connected
from tests.amqp.frames import AMQP_HEADER, CLOSE, OPEN, SASL_HEADER, Peer, frame

#: user -> grants
USERS = {
    "unprivileged": [],
    "publisher": ["a:publish"],
    "consumer": ["*:consume"],
    "worker": ["a:publish,consume", "b:consume"],
    "manager": ["a:manage"],
}
RIGHTS = ("publish", "consume", "manage")
#: user -> what it may in the virtual hosts a and b
MAY = {
    "unprivileged": {},
    "publisher": {"a": {"publish"}},
    "consumer": {"a": {"consume"}, "b": {"consume"}},
    "worker": {"a": {"publish", "consume"}, "b": {"consume"}},
    "manager": {"a": {"manage"}},
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    """Two virtual hosts with a queue each, and the users."""
    with BrokerThread(tmp_path / "broker", demo=False) as running:
        for host in "ab":
            running.do(lambda s, host=host: s.broker.create_virtualhost(host))
            running.queue("q", host)
        for name, grants in USERS.items():
            running.user(name, grants=grants)
        yield running


@contextmanager
def signed_in(broker: BrokerThread, user: str, host: str = "a", password: str = "geheim") -> Iterator[Any]:
    connection = BlockingConnection(
        broker.url,
        timeout=WITHIN,
        allowed_mechs="PLAIN",
        user=user,
        password=broker.secret if user == "console" else password,
        virtual_host=f"vhost:{host}",
        reconnect=False,
    )
    try:
        yield connection
    finally:
        if not connection.disconnected:
            connection.close()


@pytest.mark.parametrize("user", USERS)
def test_links_are_attached_as_the_rights_say(broker: BrokerThread, user: str) -> None:
    for host in "ab":
        with signed_in(broker, user, host) as connection:
            may = MAY[user].get(host, set())
            for right, attach in (("publish", connection.create_sender), ("consume", connection.create_receiver)):
                if right in may:
                    attach("q")
                else:
                    with pytest.raises(
                        LinkDetached, match=f"{user} has no permission to {right} in virtual host {host}"
                    ):
                        attach("q")
            # Topics, and the anonymous terminus, are no way around it.
            if "consume" not in may:
                for subscribe in (
                    lambda: connection.create_receiver("topic://news"),
                    lambda: connection.create_receiver("topic://news", name="durable", options=DurableSubscription()),
                    lambda: connection.create_receiver(None, name="durable before"),
                ):
                    with pytest.raises(LinkDetached, match="has no permission to consume"):
                        subscribe()
            if "publish" not in may:
                with pytest.raises(LinkDetached, match="has no permission to publish"):
                    connection.create_sender("topic://news")
            if "publish" not in may:
                with pytest.raises(LinkDetached, match="has no permission to publish"):
                    connection.create_sender(None)
            for node in ("$management", "$events", "$samples"):
                if any("manage" in rights for rights in MAY[user].values()):
                    connection.create_receiver(node, name=node)
                else:
                    with pytest.raises(LinkDetached, match="has no permission to manage"):
                        connection.create_receiver(node, name=node)


def test_a_virtual_host_that_lets_anonymous_clients_in_lets_its_users_do_as_much(broker: BrokerThread) -> None:
    broker.do(lambda s: setattr(s.broker.virtualhost("a"), "anonymous", True))
    with signed_in(broker, "unprivileged", "a") as connection:
        connection.create_sender("q")
        connection.create_receiver("q")


def test_unsetting_anonymous_ends_the_connections_that_relied_on_it_and_no_others(broker: BrokerThread) -> None:
    host = "type=VirtualHost,name=a"
    broker.do(lambda s: setattr(s.broker.virtualhost("a"), "anonymous", True))
    with (
        signed_in(broker, "console") as console,
        signed_in(broker, "worker") as worker,
        signed_in(broker, "unprivileged") as unprivileged,
        connected(broker, virtual_host="vhost:a") as anonymous,
    ):
        managing, sender = Managing(console), worker.create_sender("q")
        relying = [c.create_sender("q") for c in (unprivileged, anonymous)]

        def allow(anonymous: bool) -> None:
            version = managing.ask("READ", name=host).body["version"]
            assert managing.ask("UPDATE", {"anonymous": anonymous}, name=host, version=version).status == 200

        allow(True)  # changes nothing
        for each in (sender, *relying):
            each.send(Message(body="x"))
        allow(False)
        for each in relying:
            with pytest.raises((ConnectionException, LinkDetached), match="does not allow anonymous clients any more"):
                each.send(Message(body="x"))
        sender.send(Message(body="x"))
        assert {c.user for c in broker.look(lambda s: list(s.broker.connections.values()))} == {"console", "worker"}


@pytest.mark.parametrize("terminus", ["source", "target"])
def test_open_anonymous_connection_attaches_nothing_once_its_host_refuses_them(
    broker: BrokerThread, terminus: str
) -> None:
    broker.do(lambda s: setattr(s.broker.virtualhost("a"), "anonymous", True))
    with connected(broker, virtual_host="vhost:a") as connection:
        broker.do(lambda s: setattr(s.broker.virtualhost("a"), "anonymous", False))
        attach = connection.create_receiver if terminus == "source" else connection.create_sender
        with pytest.raises(LinkDetached, match="a does not allow anonymous clients"):
            attach("q")


def test_a_manager_of_one_virtual_host_manages_it_and_sees_nothing_of_the_other(broker: BrokerThread) -> None:
    with signed_in(broker, "manager", "b") as connection:
        managing = Managing(connection)

        def ask(operation: str, name: str, body: Any = None, **more: Any) -> Any:
            return managing.ask(operation, body, name=name, **more)

        found = ask("QUERY", "self", {"attributeNames": []}, entityType="Queue")
        assert [row[0] for row in found.body["results"]] == ["type=Queue,virtualhost=a,name=q"]
        assert found.body["total"] == 1
        connections = ask("QUERY", "self", {"attributeNames": []}, entityType="Connection")
        assert connections.body["results"] == []  # its own is to b
        assert ask("CREATE", "type=Queue,virtualhost=a,name=new", {}).status == 201
        assert ask("stop-producers", "type=VirtualHost,name=a", {}).status == 200
        for operation, name in (
            ("CREATE", "type=Queue,virtualhost=b,name=new"),
            ("READ", "type=Queue,virtualhost=b,name=q"),
            ("READ", "type=Queue,virtualhost=b,name=none"),
            ("DELETE", "type=Queue,virtualhost=b,name=q"),
            ("purge", "type=Queue,virtualhost=b,name=q"),
            ("stop-producers", "type=VirtualHost,name=b"),
            ("stop-producers", "type=Broker"),
            ("READ", "type=Broker"),
            ("DELETE", "type=VirtualHost,name=a"),
            ("CREATE", "type=User,name=me"),
            ("READ", "type=User,name=manager"),
            ("renew-password", "type=User,name=console"),
        ):
            answer = ask(operation, name, {})
            assert (answer.status, answer.error) == (403, "not-allowed"), (operation, name)
            assert "manager has no permission to manage" in answer.description
    assert broker.look(lambda s: list(s.broker.virtualhost("b").queues)) == ["q"]


def test_manager_gets_only_events_and_samples_of_its_virtual_host(broker: BrokerThread) -> None:
    with signed_in(broker, "manager", "b") as connection:
        events = connection.create_receiver("$events", options=After(0), credit=100)
        samples = connection.create_receiver("$samples", credit=10)
        for name in ("one", "two"):
            for host in "ba":
                broker.queue(name, host)
        last = ""
        objects = []
        while last != "type=Queue,virtualhost=a,name=two":
            objects.append(last := events.receive().body["object"])
        assert "type=VirtualHost,name=b" not in " ".join(objects)
        assert not [o for o in objects if "virtualhost=a" not in o and o != "type=VirtualHost,name=a"]
        rows: list[str] = []
        while "type=Queue,virtualhost=a,name=two" not in rows:
            rows += [row[0] for row in samples.receive().body["rows"]]
        assert not [row for row in rows if "virtualhost=a" not in row]


def test_a_right_that_is_taken_ends_the_connections_that_use_it_and_no_others(broker: BrokerThread) -> None:
    with signed_in(broker, "worker", "a") as in_a, signed_in(broker, "worker", "b") as in_b:
        sender, receiver = in_a.create_sender("q"), in_b.create_receiver("q")
        sender.send(Message(body="x"))
        broker.do(lambda s: s.broker.accounts.update(s.broker.accounts.user("worker"), {"grants": ["b:consume"]}))
        with pytest.raises((ConnectionException, LinkDetached), match="worker must sign in again"):
            sender.send(Message(body="x"))
        assert [c.virtualhost for c in broker.look(lambda s: list(s.broker.connections.values()))] == ["b"]
        assert receiver.link.state & receiver.link.REMOTE_ACTIVE


@pytest.mark.parametrize("change", [{"password": "another"}, None])
def test_a_sign_in_before_the_password_was_changed_opens_nothing_after_it(
    broker: BrokerThread, change: dict[str, Any] | None
) -> None:
    with Peer(broker.port) as early:
        early.write(SASL_HEADER + frame(0x41, symbol("PLAIN"), b"\0worker\0geheim", kind=1))
        broker.until(lambda s: any(c.user == "worker" for c in s.container.connections), "it has signed in")
        accounts = broker.look(lambda s: s.broker.accounts)
        if change:
            broker.do(lambda s: accounts.update(accounts.user("worker"), change))
        else:
            broker.do(lambda s: accounts.delete(accounts.user("worker")))
        early.write(AMQP_HEADER + frame(OPEN, "by-hand", "vhost:a", None, None, None))
        said = early.expect(CLOSE)
        assert "worker was changed meanwhile" in repr(said.fields)
    assert not broker.look(lambda s: s.broker.connections)


def test_an_administrators_own_change_is_answered_before_its_connection_ends(broker: BrokerThread) -> None:
    broker.user("admin", administrator=True)
    with signed_in(broker, "admin") as connection:
        managing = Managing(connection)
        name = "type=User,name=admin"
        version = managing.ask("READ", name=name).body["version"]
        answer = managing.ask("UPDATE", {"administrator": False}, name=name, version=version)
        assert (answer.status, answer.body["administrator"]) == (200, False)
        with pytest.raises((ConnectionException, LinkDetached), match="must sign in again"):
            managing.ask("READ", name=name)


def test_user_created_over_amqp_signs_in_with_the_generated_password_also_after_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "broker"
    with BrokerThread(data, demo=False) as broker:
        broker.queue("q")
        with signed_in(broker, "console", "default") as connection:
            managing = Managing(connection)
            made = managing.ask("CREATE", {"grants": ["default:publish"]}, name="type=User,name=anna")
            assert made.status == 201
            refused = managing.ask("CREATE", {"password": 7}, name="type=User,name=bert")
            assert (refused.status, refused.body["errors"]) == (400, {"password": "password must be text"})
            shown = managing.ask("QUERY", {"attributeNames": []}, name="self", entityType="User")
            assert made.body["password"] not in repr(shown.body)
        with signed_in(broker, "anna", "default", made.body["password"]) as connection:
            connection.create_sender("q")
    for file in data.iterdir():
        if file.is_file():
            assert made.body["password"].encode() not in file.read_bytes(), file
    with BrokerThread(data, demo=False) as broker, signed_in(broker, "anna", "default", made.body["password"]) as again:
        again.create_sender("q")
        with pytest.raises(LinkDetached):
            again.create_receiver("q")


def test_after_some_wrong_passwords_the_right_one_waits_too_and_others_do_not(
    broker: BrokerThread, caplog: pytest.LogCaptureFixture
) -> None:
    now = broker.look(lambda s: s.clock.now())
    broker.do(lambda s: setattr(s.container, "clock", lambda: now))  # the engine's time stands still
    for _ in range(FREE):
        with pytest.raises(ConnectionException), signed_in(broker, "worker", password="wrong"):
            pass
    with caplog.at_level("INFO", "headgate.broker"):
        with pytest.raises(ConnectionException), signed_in(broker, "worker"):
            pass
        broker.until(lambda s: "too many attempts of 'worker'" in caplog.text, "it is in the log")
    with signed_in(broker, "consumer"), signed_in(broker, "console"):
        pass
    broker.do(lambda s: setattr(s.container, "clock", lambda: now + FIRST_PAUSE_MS))
    with signed_in(broker, "worker"):
        assert len(broker.look(lambda s: s.container.attempts)) == 0
