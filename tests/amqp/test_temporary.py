"""Temporary queues and topics: dynamic sources and targets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from proton import Message, symbol
from proton.reactor import LinkOption, Selector
from proton.utils import BlockingConnection, LinkDetached, SendException

from brokers.engine.services import temporary
from tests.amqp.broker_thread import WITHIN, BrokerThread
from tests.amqp.clients import Crowd, bodies, connected, managing, until

pytestmark = pytest.mark.domain("clients temporary destinations")


class Dynamic(LinkOption):  # type: ignore[misc]
    """A dynamic target, with a capability."""

    def __init__(self, capability: str = "temporary-queue") -> None:
        self.capability = capability

    def apply(self, link: Any) -> None:
        link.target.dynamic = True
        link.target.capabilities.put_object(symbol(self.capability))


@contextmanager
def signed_in(broker: BrokerThread, user: str) -> Iterator[Any]:
    connection = BlockingConnection(broker.url, timeout=WITHIN, allowed_mechs="PLAIN", user=user, password="geheim")
    yield connection
    connection.close()


def temporary_things(broker: BrokerThread) -> list[str]:
    def names(service: Any) -> list[str]:
        host = service.broker.virtualhost("default")
        return [name for name in (*host.queues, *host.exchanges) if name.startswith("temporary")]

    return broker.look(names)


def dynamic_sender(connection: Any, capability: str = "temporary-queue", **more: Any) -> tuple[Any, str]:
    sender = connection.create_sender(None, options=Dynamic(capability), **more)
    return sender, str(sender.link.remote_target.address)


def test_dynamic_source_gets_messages_that_others_send_to_its_address(broker: BrokerThread) -> None:
    with connected(broker) as asking, connected(broker) as answering:
        receiver = asking.create_receiver(None, dynamic=True, credit=5)
        address = receiver.link.remote_source.address
        assert address.startswith("temporary-queue.")
        assert len(address) > 40, "it cannot be guessed"
        properties = receiver.link.remote_source.properties
        properties.rewind()
        properties.next()
        assert properties.get_object()[symbol("lifetime-policy")].descriptor == 0x2B
        answering.create_sender(address).send(Message(body="an answer"))
        assert bodies(receiver, 1) == ["an answer"]
        receiver.close()
        assert temporary_things(broker) == []


def test_refused_dynamic_source_leaves_no_queue(broker: BrokerThread) -> None:
    with connected(broker) as connection:
        for _ in range(2):
            with pytest.raises(LinkDetached, match="invalid-field"):
                connection.create_receiver(None, dynamic=True, options=Selector("colour = = 'red'"))
        assert temporary_things(broker) == []
        receiver = connection.create_receiver(None, dynamic=True, credit=2, options=Selector("colour = 'red'"))
        sender = connection.create_sender(receiver.link.remote_source.address)
        for colour in ("blue", "red"):
            sender.send(Message(body=colour, properties={"colour": colour}))
        assert bodies(receiver, 1) == ["red"]


def test_deleted_temporary_address_is_refused_and_not_recreated(broker: BrokerThread) -> None:
    with connected(broker) as connection, connected(broker) as other:
        relay = other.create_sender(None)
        for capability in ("temporary-queue", "temporary-topic"):
            sender, address = dynamic_sender(connection, capability, name=capability)
            late = other.create_sender(address)
            sender.close()
            with pytest.raises((LinkDetached, SendException)):
                late.send(Message(body="late"))
            with pytest.raises(LinkDetached, match="temporary queues and topics are deleted with the link"):
                other.create_receiver(address)
            with pytest.raises(SendException):
                relay.send(Message(address=address, body="late"))
        assert temporary_things(broker) == []


@pytest.mark.parametrize("capability", ["temporary-queue", "temporary-topic"])
def test_only_the_connection_that_made_it_consumes_and_any_other_sends(broker: BrokerThread, capability: str) -> None:
    with connected(broker) as maker, connected(broker) as other:
        _, address = dynamic_sender(maker, capability)
        for form in (address, f"{address}?message-groups=true", f"{address}/key?message-groups=true"):
            with pytest.raises(LinkDetached, match=r"unauthorized-access|not-found"):
                other.create_receiver(form)
            assert broker.look(lambda s: list(s.broker.consumers)) == []
        receiver = maker.create_receiver(address, credit=1)
        other.create_sender(address).send(Message(body="hello"))
        assert bodies(receiver, 1) == ["hello"]


def test_temporary_queue_ends_with_its_connection_and_does_not_survive_a_crash(tmp_path: Path) -> None:
    with BrokerThread(tmp_path / "broker") as broker:
        connection, other = (BlockingConnection(broker.url, allowed_mechs="ANONYMOUS") for _ in range(2))
        for capability in ("temporary-queue", "temporary-topic"):
            _, address = dynamic_sender(connection, capability, name=capability)
            connection.create_receiver(address, credit=1, name=f"of-{capability}")
            other.create_sender(address).send(Message(body="x", durable=True))
        assert len(temporary_things(broker)) == 2
        records = broker.look(lambda s: [str(record) for record in s.store.load()])
        assert [record for record in records if "temporary" in record] == [], "a restart finds nothing of them"
        broker.do(lambda s: [listener.transport.abort() for listener in list(s._listeners) if listener.transport])
        broker.until(lambda s: not s.broker.connections, "the connections are lost")
        assert temporary_things(broker) == []
        assert broker.look(lambda s: list(s.broker.registry.subscriptions)) == []


def test_flow_control_and_stops_hold_for_it_like_for_any_queue(broker: BrokerThread) -> None:
    with connected(broker) as connection, Crowd(broker) as crowd, managing(broker) as manager:
        policy = "type=Policy,virtualhost=default,pattern=temporary-queue.>"
        assert manager.ask("CREATE", {"capacity_messages": 10}, name=policy).status == 201
        receiver = connection.create_receiver(None, dynamic=True)
        address = receiver.link.remote_source.address
        publisher = crowd.publisher(address)
        broker.until_queue(address, lambda q: q.gate.state.overfull and q.gate.depth_messages == 11, "it is overfull")
        found = manager.ask("READ", name=f"type=Queue,virtualhost=default,name={address}").body
        assert found["temporary_for"].startswith("type=Connection,")
        assert (found["durable"], found["blocked_producers"]) == (False, 1)
        receiver.link.flow(11)
        bodies(receiver, 11)
        until(connection, lambda: publisher.accepted > 11, "it goes on")


def test_the_number_of_a_connection_is_bounded(broker: BrokerThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary, "MOST", 3)
    with connected(broker) as connection, connected(broker) as other:
        made = [dynamic_sender(connection, name=f"{n}")[0] for n in range(3)]
        with pytest.raises(LinkDetached, match="a connection may have 3 temporary"):
            connection.create_receiver(None, dynamic=True)
        dynamic_sender(other)
        made[0].close()
        dynamic_sender(connection, name="again")


def test_temporary_queues_require_only_the_permission_to_consume(strict_broker: BrokerThread) -> None:
    strict_broker.user("reader", grants=["default:consume"])
    strict_broker.user("writer", grants=["default:publish"])
    with signed_in(strict_broker, "reader") as reader, signed_in(strict_broker, "writer") as writer:
        _, address = dynamic_sender(reader)
        writer.create_sender(address).send(Message(body="to you"))
        with pytest.raises(LinkDetached, match="unauthorized-access"):
            writer.create_receiver(None, dynamic=True)
        with pytest.raises(LinkDetached, match="unauthorized-access"):
            dynamic_sender(writer, name="another")
        assert bodies(reader.create_receiver(address, credit=1), 1) == ["to you"]


def test_answers_of_the_broker_s_nodes_reach_a_dynamic_source(broker: BrokerThread) -> None:
    with connected(broker, user="console") as connection:
        receiver = connection.create_receiver(None, dynamic=True, credit=1)
        sender = connection.create_sender("$management")
        request = Message(reply_to=receiver.link.remote_source.address, properties={"operation": "GET-TYPES"})
        sender.send(request)
        assert receiver.receive().properties["statusCode"] == 200
