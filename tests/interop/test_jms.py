"""Apache Qpid JMS against the broker: `jms/src/Scenarios.java` does what an application does, and reports the
results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)
from cryptography.x509 import Certificate, load_pem_x509_certificate

from brokers.server.listening import TlsAddress
from tests.amqp.broker_thread import BrokerThread
from tests.certificates import Authority, subject_of
from tests.client.operator import Operator
from tests.interop.peers import SCENARIO_SECONDS, Peer, built, need, run

PROJECT = Path(__file__).parent / "jms"
HOW = (
    "install a JDK (17 or later) and Maven, on Debian `apt-get install default-jdk-headless maven`, and be online once"
)

STORED = BestAvailableEncryption(b"stored")

CAPACITY = 5
FULL = CAPACITY + 1  # overfull is above the capacity


@pytest.fixture(scope="session")
def jms(pytestconfig: pytest.Config) -> Peer:
    """Maven fetches the client, javac compiles the scenarios: once, into pytest's cache."""
    java, javac, maven = need("java", HOW), need("javac", HOW), need("mvn", HOW)
    assert pytestconfig.cache is not None
    pom, source = PROJECT / "pom.xml", PROJECT / "src" / "Scenarios.java"
    cache = pytestconfig.cache.mkdir("interop-jms")

    def libraries(folder: Path) -> None:
        step = ("dependency:copy-dependencies", f"-DoutputDirectory={folder}")
        run("fetching Qpid JMS with Maven", HOW, maven, "--batch-mode", "--quiet", "--file", pom, *step)

    lib = f"{built(cache / 'lib', [pom], libraries)}/*"

    def classes(folder: Path) -> None:
        run("compiling the scenarios", HOW, javac, "-Xlint:all", "-Werror", "-cp", lib, "-d", folder, source)

    folder = built(cache / "classes", [pom, source], classes)
    # A scenario is over in a moment: the JVM need not prepare for a long life.
    lean = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]
    return Peer([java, *lean, "-cp", f"{folder}:{lib}", "Scenarios"], lambda port: f"amqp://127.0.0.1:{port}")


def well(seen: dict[str, Any]) -> dict[str, Any]:
    assert "error" not in seen, seen
    return seen


# -- flow control -----------------------------------------------------------------------------------------------------


def test_send_blocks_on_an_overfull_queue_and_continues_when_it_resumes(
    jms: Peer, broker: BrokerThread, operator: Operator
) -> None:
    operator.create("orders", capacity_messages=CAPACITY, flow_resume_messages=1)
    with jms.playing("send", broker.port, count=10) as running:
        operator.until_blocked("orders")
        assert operator.depth("orders") == FULL
        assert not running.ended
        taken = operator.take("orders", FULL)
        assert well(running.seen())["sent"] == 10
    taken += operator.take("orders", 10 - FULL)
    assert taken == [f"m{n}" for n in range(10)]


@pytest.mark.domain("2 client")
def test_a_send_timeout_throws_and_the_session_sends_afterwards(
    jms: Peer, broker: BrokerThread, operator: Operator
) -> None:
    operator.create("orders", capacity_messages=CAPACITY)
    seen = well(jms.play("send-timeout", broker.port))
    assert seen["thrown"] == "JmsSendTimedOutException"
    assert seen["sent"] == seen["received"] == [f"m{n}" for n in range(FULL)]
    assert seen["then"] == ["after"]  # and not the message that timed out
    assert seen["nothing_more"]
    assert operator.depth("orders") == 0


@pytest.mark.domain("clients no destination")
@pytest.mark.parametrize("transacted", ["false", "true"])
def test_a_send_without_a_destination_that_timed_out_is_never_delivered(
    jms: Peer, broker: BrokerThread, operator: Operator, transacted: str
) -> None:
    operator.create("orders", capacity_messages=CAPACITY)
    operator.publish("orders", *(f"m{n}" for n in range(FULL)))
    seen = well(jms.play("anonymous-send-timeout", broker.port, full=FULL, transacted=transacted))
    assert seen["thrown"] == ["JmsSendTimedOutException"] * 2
    assert seen["received"] == [f"m{n}" for n in range(FULL)]
    assert seen["nothing_more"]
    assert seen["then"] == ["after"]


@pytest.mark.parametrize("policy", [{"mechanism": "reject"}, {"mechanism": "reject-after", "reject_after_ms": 50}])
def test_a_full_queue_that_rejects_throws_and_the_session_sends_afterwards(
    jms: Peer, broker: BrokerThread, operator: Operator, policy: dict[str, int | str]
) -> None:
    operator.create("orders", capacity_messages=CAPACITY, **policy)
    seen = well(jms.play("send-timeout", broker.port))
    assert seen["thrown"] == "ResourceAllocationException"
    assert "amqp:resource-limit-exceeded" in seen["said"]
    assert seen["sent"] == seen["received"] == [f"m{n}" for n in range(FULL)]
    assert seen["then"] == ["after"]
    assert seen["nothing_more"]


def test_send_blocks_while_a_full_queue_withholds_settlements(
    jms: Peer, broker: BrokerThread, operator: Operator
) -> None:
    operator.create("orders", capacity_messages=CAPACITY, mechanism="hold")
    with jms.playing("send", broker.port, count=10) as running:
        accepted = FULL + 1  # accepted, and not settled
        operator.until(lambda: operator.depth("orders") == accepted, "the queue is overfull by one message")
        assert operator.blocked("orders") == 1
        assert not running.ended
        taken = operator.take("orders", accepted)
        assert well(running.seen())["sent"] == 10
    assert taken + operator.take("orders", 10 - accepted) == [f"m{n}" for n in range(10)]


@pytest.mark.domain("4 per producer")
@pytest.mark.parametrize("scenario", ["one-blocked", "anonymous-producer"])
def test_of_several_producers_on_a_connection_only_the_one_with_the_full_queue_waits(
    jms: Peer, broker: BrokerThread, operator: Operator, scenario: str
) -> None:
    operator.create("orders", capacity_messages=CAPACITY)
    operator.publish("orders", *(f"m{n}" for n in range(FULL)))
    seen = well(jms.play(scenario, broker.port, full=FULL))
    assert seen["others_sent"] >= 10
    assert seen["still_blocked"]
    assert seen["freed"] == FULL
    assert seen["released"]
    assert operator.take("orders", 1) == ["late"]


def test_stopped_producers_wait_and_none_of_their_messages_is_lost(
    jms: Peer, broker: BrokerThread, operator: Operator
) -> None:
    producers, count = 4, 400
    operator.create("orders", capacity_messages=200)  # so that all have more to send, however late the stop comes
    with jms.playing("crowd", broker.port, producers=producers, count=count) as running:
        operator.until(lambda: operator.depth("orders") > 20, "they are at it")
        operator.stop_producers()
        operator.until_blocked("orders", producers)
        operator.until(lambda: not any(p["draining"] for p in operator.producers("orders")), "they have stopped")
        stopped_at = operator.depth("orders")
        assert stopped_at <= 201
        taken = operator.take("orders", stopped_at)
        assert operator.depth("orders") == 0
        assert operator.blocked("orders") == producers
        operator.start_producers()
        taken += operator.take("orders", producers * count - stopped_at)
        assert well(running.seen())["sent"] == producers * count
    for p in range(producers):
        of_one = [int(text.split(":")[1]) for text in taken if text.startswith(f"p{p}:")]
        assert of_one == list(range(count))


# -- acknowledgements -------------------------------------------------------------------------------------------------


def delivered(*, redelivered: bool, count: int, messages: range = range(3)) -> list[Any]:
    return [[f"m{n}", redelivered, count] for n in messages]


def test_a_recovered_session_gets_its_messages_again_marked_as_redelivered(
    jms: Peer, broker: BrokerThread, operator: Operator
) -> None:
    seen = well(jms.play("recover", broker.port))
    assert seen["first"] == delivered(redelivered=False, count=1)
    assert seen["again"] == delivered(redelivered=True, count=2)
    assert seen["nothing_more"]
    assert seen["auto"] == [["m0", False, 1], ["m0", True, 2]]
    assert operator.depth("orders") == 0


def lose(broker: BrokerThread) -> None:
    broker.do(lambda s: [listener.transport.abort() for listener in list(s._listeners) if listener.transport])


def test_unacknowledged_messages_are_redelivered_after_a_lost_connection(
    jms: Peer, broker: BrokerThread, operator: Operator, tmp_path: Path
) -> None:
    operator.publish("orders", "m0", "m1", "m2")
    taken = tmp_path / "taken"
    with jms.playing("lost-connection", broker.port, mode="client", take=3, left=3, taken=str(taken)) as running:
        operator.until(taken.exists, "the client has them")
        operator.until(lambda: operator.read("orders")["unacknowledged_messages"] == 3, "they are delivered")
        operator.until(lambda: operator.depth("orders") == 3, "and not acknowledged")
        lose(broker)
        seen = well(running.seen())
    assert seen["noticed"]
    assert seen["first"] == delivered(redelivered=False, count=1)
    assert seen["again"] == delivered(redelivered=True, count=2)
    assert seen["nothing_more"]


def test_acknowledged_messages_are_not_redelivered_after_a_lost_connection(
    jms: Peer, broker: BrokerThread, operator: Operator, tmp_path: Path
) -> None:
    operator.publish("orders", "m0", "m1", "m2")
    taken = tmp_path / "taken"
    with jms.playing("lost-connection", broker.port, mode="auto", take=1, left=2, taken=str(taken)) as running:
        operator.until(taken.exists, "the client has one")
        operator.until(lambda: operator.depth("orders") == 2, "one was taken and acknowledged")
        lose(broker)
        seen = well(running.seen())
    assert seen["first"] == [["m0", False, 1]]
    assert [message for message, _, _ in seen["again"]] == ["m1", "m2"]
    assert seen["nothing_more"]


# -- kinds of clients and messages ------------------------------------------------------------------------------------


def test_a_queue_browser_sees_all_and_takes_nothing(jms: Peer, broker: BrokerThread) -> None:
    seen = well(jms.play("browse", broker.port))
    assert seen["first"] == seen["second"] == seen["consumed"] == ["m0", "m1", "m2"]


def test_full_queue_blocks_presettled_messages_and_they_arrive_once(
    jms: Peer, broker: BrokerThread, operator: Operator
) -> None:
    operator.create("orders", capacity_messages=CAPACITY)
    seen = well(jms.play("presettled", broker.port, count=20))
    assert seen["blocked"]
    assert seen["received"] == [f"m{n}" for n in range(20)]
    assert operator.depth("orders") == 0


def test_message_of_2_mib_is_returned_unchanged(jms: Peer, broker: BrokerThread) -> None:
    seen = well(jms.play("large", broker.port, bytes=2 << 20))
    assert seen["bytes"] == 2 << 20
    assert seen["same"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_user_signs_in_with_the_right_password_only(jms: Peer, broker: BrokerThread, mechanism: str) -> None:
    sign_in = f"?amqp.saslMechanisms={mechanism}&jms.username=console&jms.password="
    assert well(jms.play("echo", broker.port, sign_in + broker.secret))["received"] == ["m0"]
    assert jms.play("echo", broker.port, sign_in + "wrong")["error"] == "JMSSecuritySaslException"


class Stores:
    """A certificate authority of clients and broker, as Java wants its files; their password is `stored`."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self._folder = folder
        self.trusted = self._stored(
            "trusted", serialize_java_truststore([PKCS12Certificate(self._ca(), b"ca")], STORED)
        )
        certificate, key = (file.read_bytes() for file in self.authority.anna)
        loaded = load_pem_private_key(key, None)
        assert isinstance(loaded, EllipticCurvePrivateKey | RSAPrivateKey)
        whole = serialize_key_and_certificates(b"anna", loaded, load_pem_x509_certificate(certificate), None, STORED)
        self.anna = self._stored("anna", whole)

    def _ca(self) -> Certificate:
        return load_pem_x509_certificate(self.authority.ca.read_bytes())

    def _stored(self, name: str, store: bytes) -> str:
        path = self._folder / f"{name}.p12"
        path.write_bytes(store)
        return f"{path}"

    def uri(self, *options: str, anna: bool = False) -> str:
        """The options of a connection URI."""
        identity = (
            f"transport.keyStoreLocation={self.anna}&transport.keyStorePassword=stored&transport.storeType=PKCS12"
        )
        trust = f"transport.trustStoreLocation={self.trusted}&transport.trustStorePassword=stored"
        return "?" + "&".join([trust, "transport.trustStoreType=PKCS12", *([identity] if anna else []), *options])


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return Stores(tmp_path / "authority")


@pytest.fixture
def over_tls(tmp_path: Path, stores: Stores) -> Iterator[BrokerThread]:
    """A broker without anonymous clients, with the users anna, by certificate, and bert, by password."""
    files = stores.authority.server(clients=stores.authority)
    with BrokerThread(tmp_path / "tls", demo=False, tls=TlsAddress(files, port=0)) as running:
        running.queue("orders")
        grants = ["default:publish,consume"]
        running.user("anna", None, certificate_subject=subject_of(stores.authority.anna), grants=grants)
        running.user("bert", grants=grants)
        yield running


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
def test_over_tls_a_password_signs_in(jms: Peer, over_tls: BrokerThread, stores: Stores, mechanism: str) -> None:
    def echo(password: str) -> dict[str, Any]:
        sign_in = (f"amqp.saslMechanisms={mechanism}", "jms.username=bert", f"jms.password={password}")
        return jms.over_tls().play("echo", over_tls.service.tls_port, stores.uri(*sign_in))

    assert well(echo("geheim"))["received"] == ["m0"]
    assert echo("wrong")["error"] == "JMSSecuritySaslException"


def test_over_tls_a_client_certificate_signs_in(jms: Peer, over_tls: BrokerThread, stores: Stores) -> None:
    external = stores.uri("amqp.saslMechanisms=EXTERNAL", anna=True)
    port = over_tls.service.tls_port
    assert well(jms.over_tls().play("echo", port, external))["received"] == ["m0"]
    over_tls.do(lambda s: s.broker.accounts.delete(s.broker.accounts.user("anna")))
    assert jms.over_tls().play("echo", port, external)["error"] == "JMSSecuritySaslException"


# -- transactions and topics ------------------------------------------------------------------------------------------


def test_a_transacted_session_sends_and_acknowledges_at_its_commit(
    jms: Peer, broker: BrokerThread, operator: Operator
) -> None:
    seen = well(jms.play("transacted", broker.port))
    assert seen["before_commit"]
    assert seen["after_commit"] == ["committed"]
    assert seen["first"] == delivered(redelivered=False, count=1, messages=range(2))
    assert seen["again"] == delivered(redelivered=True, count=2, messages=range(2))
    assert seen["together"] == ["with the acknowledgements"]
    assert seen["nothing_more"]
    assert operator.depth("orders") == 0


def test_a_send_timeout_in_a_transacted_session_does_not_roll_it_back(
    jms: Peer, broker: BrokerThread, operator: Operator
) -> None:
    operator.create("orders", capacity_messages=1)
    operator.publish("orders", "a", "b")
    seen = well(jms.play("transacted-send-timeout", broker.port))
    assert seen["thrown"] == "JmsSendTimedOutException"
    assert seen["received"] == ["before", "after"]


def test_a_topic_gives_each_subscription_every_message_and_a_shared_one_each_message_once(
    jms: Peer, broker: BrokerThread
) -> None:
    seen = well(jms.play("topic", broker.port))
    assert seen["one"] == seen["two"] == seen["shared"] == [f"m{n}" for n in range(4)]


def test_durable_subscription_retains_messages_while_its_subscriber_is_disconnected(
    jms: Peer, broker: BrokerThread
) -> None:
    seen = well(jms.play("durable-subscription", broker.port))
    assert seen["received"] == ["m0", "m1", "m2"]
    assert seen["after_unsubscribe"]


def test_shared_and_durable_subscriptions_belong_to_a_client_or_to_all_and_end_when_unsubscribed(
    jms: Peer, broker: BrokerThread
) -> None:
    seen = well(jms.play("subscriptions", broker.port))
    assert seen["own"] == seen["of all clients"] == ["m0"]
    assert "amqp:resource-locked" in seen["in_use"]
    assert seen["unknown"].startswith("InvalidDestinationException")
    assert seen["not_local"] == ["another's"]
    assert seen["anonymous"] == ["anonymous"]
    assert broker.look(lambda s: [each.spec.client for each in s.broker.registry.subscriptions.values()]) == ["me"]


@pytest.mark.domain("clients sole connection")
def test_a_second_connection_with_the_client_id_of_an_open_one_is_refused(jms: Peer, broker: BrokerThread) -> None:
    seen = well(jms.play("duplicate-client-id", broker.port))
    assert seen["thrown"] == "InvalidClientIDException"
    assert "container-id me is in use by the connection of user anonymous from 127.0.0.1:" in seen["said"]
    assert seen["first_goes_on"] == ["m0"]
    assert seen["reconnected"]


@pytest.mark.domain("clients temporary destinations")
def test_requests_are_answered_through_temporary_queues_and_topics(jms: Peer, broker: BrokerThread) -> None:
    seen = well(jms.play("request-reply", broker.port))
    assert seen["got"] == ["answer to q0", "answer to q1", "answer to q2"]
    assert len(set(seen["names"])) == 3
    assert all(re.fullmatch("temporary-queue\\.[0-9a-f]{32}", name) for name in seen["names"])
    assert seen["topic"] == [["to all"], ["to all"]]
    assert "only the connection that created it may consume from it" in seen["foreign"]
    assert "temporary queues and topics are deleted with the link that created them" in seen["late"]
    assert "refused" not in seen
    broker.until(lambda s: not s.broker.connections, "the client has gone")
    assert broker.look(lambda s: [q.name for q in s.broker.queues()]) == ["orders"]
    assert broker.look(lambda s: [e for e in s.broker.virtualhost("default").exchanges if "temporary" in e]) == []


@pytest.mark.domain("clients temporary destinations")
def test_springs_template_sends_and_receives(jms: Peer, broker: BrokerThread) -> None:
    seen = well(jms.play("spring-request-reply", broker.port))
    assert seen["got"] == ["answer to q0", "answer to q1", "answer to q2"]
    assert "refused" not in seen
    assert broker.look(lambda s: [q.name for q in s.broker.queues()]) == ["orders"]


@pytest.mark.domain("clients groups")
def test_messages_of_a_group_go_to_one_of_the_consumers_that_ask(jms: Peer, broker: BrokerThread) -> None:
    taken = well(jms.play("groups", broker.port))["taken"]
    owners: dict[str, set[int]] = {}
    for consumer, text in taken:
        owners.setdefault(text.split(":")[0], set()).add(consumer)
    assert all(len(each) == 1 for each in owners.values()), owners
    for group in owners:
        of_one = [int(text.split(":")[1]) for _, text in taken if text.startswith(f"{group}:")]
        assert of_one == sorted(of_one)
        assert len(of_one) == 10


def test_selector_does_not_deliver_other_messages(jms: Peer, broker: BrokerThread) -> None:
    seen = well(jms.play("selector", broker.port))
    assert seen["received"] == ["blue"]
    assert seen["nothing_more"]


# -- what messages ask for --------------------------------------------------------------------------------------------


def test_higher_priorities_are_received_first(jms: Peer, broker: BrokerThread) -> None:
    assert well(jms.play("priority", broker.port))["received"] == ["p9", "p9", "p4", "p4", "p0"]


def test_an_expired_message_is_not_received_and_the_other_knows_its_expiration(
    jms: Peer, broker: BrokerThread, operator: Operator
) -> None:
    seen = well(jms.play("expiry", broker.port))
    assert seen["received"] == "new"
    assert 3_600_000 - SCENARIO_SECONDS * 1000 < seen["left_ms"] <= 3_600_000
    assert seen["nothing_more"]
    operator.until(lambda: operator.read("orders")["expired_messages"] == 1, "it is counted")


@pytest.mark.domain("clients delivery delay")
def test_a_message_with_a_delivery_delay_is_received_at_its_time(
    jms: Peer, broker: BrokerThread, operator: Operator, tmp_path: Path
) -> None:
    taken, hour = tmp_path / "taken", 3_600_000
    with jms.playing("delay", broker.port, delay=hour, taken=str(taken)) as running:
        operator.until(taken.exists, "the client has the other")
        operator.until(lambda: operator.read("orders")["depth_messages"] == 1, "and has settled it")
        assert operator.read("orders")["delayed_messages"] == 1
        broker.pass_time(hour)
        seen = well(running.seen())
    assert (seen["first"], seen["nothing_more"], seen["then"]) == (["now"], True, "later")
    assert hour <= seen["delivery_ms"] < 2 * hour


def test_message_rejected_by_the_client_library_goes_to_the_dead_letter_queue(
    jms: Peer, broker: BrokerThread, operator: Operator
) -> None:
    operator.create("orders", maximum_deliveries=1, dead_letter_queue="dead")
    seen = well(jms.play("poison", broker.port))
    assert (seen["first"], seen["then"], seen["dead"]) == (["m0"], "m1", ["m0"])
    assert operator.read("orders")["dead_lettered_messages"] == 1


def test_message_of_too_many_lost_connections_goes_to_the_dead_letter_queue(
    jms: Peer, broker: BrokerThread, operator: Operator, tmp_path: Path
) -> None:
    operator.create("orders", maximum_deliveries=1, dead_letter_queue="dead")
    operator.publish("orders", "m0", "m1", "m2")
    taken = tmp_path / "taken"
    with jms.playing("lost-connection", broker.port, mode="client", take=3, left=0, taken=str(taken)) as running:
        operator.until(taken.exists, "the client has them")
        operator.until(lambda: operator.read("orders")["unacknowledged_messages"] == 3, "they are delivered")
        lose(broker)
        assert well(running.seen())["nothing_more"]
    assert operator.take("dead", 3) == ["m0", "m1", "m2"]
