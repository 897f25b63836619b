"""Connections, sessions and links: what opens, what is refused and how, and what a refusal leaves alone."""

from __future__ import annotations

import pytest
from proton import ConnectionException, Message, Terminus, symbol
from proton.reactor import LinkOption
from proton.utils import ConnectionClosed, LinkDetached

from brokers.admin import AdminError
from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import bodies, connected, fill, managing
from tests.amqp.frames import (
    ATTACH,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    OPEN,
    RECEIVER,
    Peer,
    frame,
    uint,
)


def condition_of(refused: pytest.ExceptionInfo[LinkDetached]) -> tuple[str, str]:
    return str(refused.value.condition), str(refused.value.args[0])


# -- connections and sessions -------------------------------------------------------------------------------------


def test_several_connections_sessions_and_links_each_carry_their_own_messages(broker: BrokerThread) -> None:
    with connected(broker) as one, connected(broker) as two:
        for number, connection in enumerate((one, two)):
            for queue in "ab":
                connection.create_sender(f"{queue}{number}").send(Message(body=f"{queue}{number}"))
        for number, connection in enumerate((two, one)):
            for queue in "ab":
                assert bodies(connection.create_receiver(f"{queue}{number}"), 1) == [f"{queue}{number}"]


def test_link_whose_store_cannot_be_opened_is_refused_alone(
    broker: BrokerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(virtualhost: str) -> None:
        raise AdminError(f"the store of {virtualhost} cannot be opened: it is damaged")

    monkeypatch.setattr(broker.service.broker.stores.provider, "open", fails)
    broker.queue("transient")
    broker.do(lambda s: setattr(s.broker.virtualhost("default"), "durable_queues", True))
    with connected(broker) as connection:
        sender, receiver = connection.create_sender("transient"), connection.create_receiver("transient", credit=1)
        for attach in (connection.create_sender, connection.create_receiver):
            with pytest.raises(LinkDetached) as refused:
                attach("durable")
            assert condition_of(refused)[0] == "amqp:internal-error"
            assert "the store of default cannot be opened" in condition_of(refused)[1]
        sender.send(Message(body="still here"))
        assert bodies(receiver, 1) == ["still here"]
    assert broker.look(lambda s: [q.name for q in s.broker.queues()]) == ["transient"]


def test_sessions_on_one_connection_have_their_own_number_in_the_log(broker: BrokerThread) -> None:
    broker.queue("full", capacity_messages=1)
    with Peer(broker.port) as peer:
        peer.open()
        peer.begin(channel=1)
        peer.write(frame(END, channel=0))
        peer.begin(channel=2)
        peer.attach("full", channel=1, name="one")
        peer.attach("full", channel=2, name="two")
        broker.until_queue("full", lambda q: q.gate.producer_count == 2, "both attached")
        channels = broker.see("full", lambda q: [p.channel for p in q.gate.producers])
    assert len(set(channels)) == 2, "two sessions with one number"


def test_a_second_open_frame_leaves_no_second_connection_behind(broker: BrokerThread) -> None:
    with Peer(broker.port) as peer:
        peer.open()
        peer.write(frame(OPEN, "again"))
        peer.write(frame(CLOSE))
        peer.expect(CLOSE)
    broker.until(lambda s: not s.broker.connections, "no connection is left")


def test_a_session_that_ends_takes_its_links_with_it(broker: BrokerThread) -> None:
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("q")
        peer.expect(ATTACH)
        peer.write(frame(END))
        peer.expect(END)
        assert broker.see("q", lambda q: (q.gate.producer_count, q.gate.ledger.reserved)) == (0, 0)
        peer.is_alive()


# -- virtual hosts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hostname", "lands_in"),
    [
        ("vhost:second", "second"),
        ("second", "second"),
        ("broker.example", "default"),
        (None, "default"),
        ("vhost:default", "default"),
    ],
)
def test_the_hostname_of_the_open_chooses_the_virtual_host(
    broker: BrokerThread, hostname: str | None, lands_in: str
) -> None:
    with managing(broker) as manager:
        body = {"anonymous": True, "create_on_attach": True}
        assert manager.ask("CREATE", body, name="type=VirtualHost,name=second").status == 201
    with Peer(broker.port) as peer:
        peer.open(hostname=hostname)
        assert broker.look(lambda s: [c.virtualhost for c in s.broker.connections.values()][-1]) == lands_in


def test_an_unknown_virtual_host_named_as_such_ends_the_connection(broker: BrokerThread) -> None:
    with (
        pytest.raises(ConnectionException, match="amqp:not-found") as refused,
        connected(broker, virtual_host="vhost:nowhere"),
    ):
        pass
    assert "there is no virtual host nowhere" in str(refused.value)


def test_queues_of_the_same_name_in_two_virtual_hosts_are_two(broker: BrokerThread) -> None:
    with managing(broker) as manager:
        body = {"anonymous": True, "create_on_attach": True}
        assert manager.ask("CREATE", body, name="type=VirtualHost,name=second").status == 201
    fill(broker, "q", ["here"])
    fill(broker, "q", ["there"], virtual_host="vhost:second")
    with connected(broker, virtual_host="vhost:second") as connection:
        assert bodies(connection.create_receiver("q"), 1) == ["there"]
    assert broker.depth("q") == 1


def test_anonymous_client_is_refused_where_it_is_not_allowed(broker: BrokerThread) -> None:
    with managing(broker) as manager:
        assert manager.ask("CREATE", {}, name="type=VirtualHost,name=private").status == 201
    with (
        pytest.raises(ConnectionException, match="amqp:unauthorized-access"),
        connected(broker, virtual_host="vhost:private"),
    ):
        pass


def test_broker_without_anonymous_clients_does_not_offer_the_mechanism(strict_broker: BrokerThread) -> None:
    with pytest.raises(ConnectionException), connected(strict_broker):
        pass
    with connected(strict_broker, user="console") as connection:
        assert connection.conn.state & connection.conn.REMOTE_ACTIVE


# -- addresses ----------------------------------------------------------------------------------------------------


def test_a_queue_is_created_on_attach_where_that_is_allowed(broker: BrokerThread) -> None:
    with connected(broker) as connection:
        connection.create_receiver("made.by.receiver")
        connection.create_sender("made.by.sender")
    assert broker.look(lambda s: set(s.broker.virtualhost("default").queues)) == {"made.by.receiver", "made.by.sender"}


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_an_unknown_queue_is_not_found_where_it_may_not_be_created(strict_broker: BrokerThread, role: str) -> None:
    with connected(strict_broker, user="console") as connection:
        with pytest.raises(LinkDetached) as refused:
            getattr(connection, f"create_{role}")("nowhere")
        condition, text = condition_of(refused)
        assert "amqp:not-found" in text or condition == "amqp:not-found"
        assert "there is no queue nowhere" in text
        strict_broker.queue("here")
        connection.create_sender("here").send(Message(body="the connection lives on"))


@pytest.mark.parametrize("name", ["x" * 256, " blank", "tab\there", "$nothing"])
def test_a_name_that_no_queue_may_have_is_refused(broker: BrokerThread, name: str) -> None:
    with connected(broker) as connection:
        with pytest.raises(LinkDetached, match="amqp:"):
            connection.create_sender(name)
        connection.create_sender("good").send(Message(body="the connection lives on"))


@pytest.mark.parametrize("role", [False, True])
def test_a_refused_link_is_answered_with_neither_source_nor_target(broker: BrokerThread, role: bool) -> None:
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach("$nothing", role=role)
        attach = peer.expect(ATTACH)
        assert (attach.field(5), attach.field(6)) == (None, None)
        assert peer.expect_error(DETACH, 2)[0] == "amqp:not-found"
        peer.is_alive()


def test_a_source_without_an_address_is_refused_and_the_connection_lives_on(broker: BrokerThread) -> None:
    with Peer(broker.port) as peer:
        peer.open()
        peer.attach(None, role=True)
        condition, text = peer.expect_error(DETACH, 2)
        assert condition == "amqp:not-found"
        assert "the source has no address, and there is no durable subscription link" in text
        peer.is_alive()


@pytest.mark.parametrize("address", ["$management", "$events", "$samples"])
@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_the_nodes_are_refused_to_anonymous_clients(broker: BrokerThread, address: str, role: str) -> None:
    with connected(broker) as connection:
        with pytest.raises(LinkDetached, match=r"unauthorized-access|signed in"):
            getattr(connection, f"create_{role}")(address)
        connection.create_sender("q").send(Message(body="the connection lives on"))


class Selector(LinkOption):  # type: ignore[misc]
    def apply(self, link: object) -> None:
        link.source.filter.put_object({symbol("selector"): "colour = 'red'"})  # type: ignore[attr-defined]


def test_a_filter_that_is_not_applied_is_not_confirmed(broker: BrokerThread) -> None:
    with connected(broker) as connection:
        receiver = connection.create_receiver("q", options=Selector())
        confirmed = receiver.link.remote_source.filter
        confirmed.rewind()
        assert confirmed.next() is None or confirmed.get_object() in (None, {})


def test_the_answer_to_an_attach_confirms_the_address_and_browsing(broker: BrokerThread) -> None:
    from tests.amqp.clients import Copy

    with connected(broker) as connection:
        receiver = connection.create_receiver("q", options=Copy())
        assert receiver.link.remote_source.address == "q"
        assert receiver.link.remote_source.distribution_mode == Terminus.DIST_MODE_COPY


# -- the end of a link --------------------------------------------------------------------------------------------


def test_a_link_that_is_detached_is_answered_with_a_detach_and_one_that_is_closed_with_a_close(
    broker: BrokerThread,
) -> None:
    with Peer(broker.port) as peer:
        peer.open()
        for closed in (False, True):
            peer.attach("q", name=f"closed={closed}")
            peer.expect(ATTACH)
            peer.write(frame(DETACH, uint(0), closed))
            assert bool(peer.expect(DETACH).field(1)) is closed
            assert broker.see("q", lambda q: (q.gate.producer_count, q.gate.ledger.reserved)) == (0, 0)


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("role", [False, True])
def test_a_link_name_can_be_attached_again_after_its_end(broker: BrokerThread, role: bool, closed: bool) -> None:
    with Peer(broker.port) as peer:
        peer.open()
        for _ in range(5):
            peer.attach("q", name="the same", role=role)
            assert peer.expect(ATTACH).field(0) == "the same"
            if role is RECEIVER:
                peer.give_credit(1)
            peer.write(frame(DETACH, uint(0), closed))
            peer.expect(DETACH)
        peer.attach("q", name="the same", role=False)
        peer.expect(ATTACH)
        peer.transfer()
        assert peer.expect(DISPOSITION).field(4).descriptor == 0x24
        peer.is_alive()


def test_a_link_name_that_is_attached_twice_at_once_ends_that_connection_alone(broker: BrokerThread) -> None:
    with connected(broker) as other, Peer(broker.port) as peer:
        sender = other.create_sender("q")
        peer.open()
        peer.attach("q", name="twice", handle=0)
        peer.attach("q", name="twice", handle=1)
        assert peer.expect_error(CLOSE, 0)[0] == "amqp:invalid-field"
        peer.expect_end()
        sender.send(Message(body="still here"))
    broker.until(lambda s: not s.broker.producers, "its producers are gone")


def test_a_deleted_queue_ends_its_links_and_shows_up_in_no_sample(broker: BrokerThread) -> None:
    with managing(broker) as manager, connected(broker) as connection:
        sender = connection.create_sender("doomed")
        receiver = connection.create_receiver("doomed", credit=1)
        sender.send(Message(body="unsettled at the receiver"))
        receiver.receive()
        assert manager.ask("DELETE", name="type=Queue,virtualhost=default,name=doomed").status == 204
        with pytest.raises(LinkDetached, match="resource-deleted"):
            connection.wait(lambda: False, timeout=5)
        with connected(broker, user="console") as watcher:
            samples = watcher.create_receiver("$samples", credit=5)
            broker.do(lambda s: s.broker.create_queue(s.broker.virtualhost("default"), "alive"))
            seen: set[str] = set()
            while "type=Queue,virtualhost=default,name=alive" not in seen:  # in the sample of its second
                seen.update(row[0] for row in samples.receive(timeout=60).body["rows"])
    assert "type=Queue,virtualhost=default,name=doomed" not in seen


def test_a_connection_closed_by_an_operator_gets_the_reason(broker: BrokerThread) -> None:
    with managing(broker) as manager, connected(broker) as connection:
        connection.create_sender("q")
        name = broker.look(lambda s: str(next(c for c in s.broker.connections.values() if c.producers).name))
        assert manager.ask("close", {"reason": "maintenance", "actor": "anna"}, name=name).status == 200
        with pytest.raises(ConnectionClosed, match="closed by anna: maintenance"):
            connection.wait(lambda: False, timeout=5)
    broker.until(lambda s: not s.broker.producers, "its producer is gone")
