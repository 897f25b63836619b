"""TLS with real clients: who is believed, who signs in with a certificate, and that flow control is what it was."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from proton import ConnectionException, Message, SSLDomain
from proton.utils import BlockingConnection, LinkDetached

from brokers.server import listener
from brokers.server.listening import TlsAddress
from tests.amqp.broker_thread import WITHIN, BrokerThread, wait_until
from tests.amqp.clients import Crowd, connected
from tests.amqp.frames import CLOSE, FLOW, RECEIVER, SASL_HEADER, TRANSFER, Peer, anonymous_init, frame
from tests.certificates import Authority, subject_of

Files = tuple[Path, Path]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"))


@contextmanager
def broker_with(
    tmp_path: Path, authority: Authority, *, demo: bool = True, clients: Authority | None = None, required: bool = False
) -> Iterator[BrokerThread]:
    files = authority.server(clients=clients, required=required)
    with BrokerThread(tmp_path / "broker", demo=demo, tls=TlsAddress(files, port=0)) as broker:
        yield broker


@pytest.fixture
def broker(tmp_path: Path, authority: Authority) -> Iterator[BrokerThread]:
    """Lets anyone in, and asks for client certificates of the authority."""
    with broker_with(tmp_path, authority, clients=authority) as running:
        yield running


def domain(trusted: Authority, certificate: Files | None = None) -> SSLDomain:
    made = SSLDomain(SSLDomain.MODE_CLIENT)
    made.set_trusted_ca_db(str(trusted.ca))
    made.set_peer_authentication(SSLDomain.VERIFY_PEER)
    if certificate is not None:
        made.set_credentials(*map(str, certificate), None)
    return made


def connect(broker: BrokerThread, trusted: Authority, certificate: Files | None = None, **options: Any) -> Any:
    options = {"allowed_mechs": "ANONYMOUS", **options}
    return BlockingConnection(
        broker.tls_url, timeout=WITHIN, ssl_domain=domain(trusted, certificate), reconnect=False, **options
    )


def plain(broker: BrokerThread, user: str = "console", password: str | None = None) -> dict[str, str]:
    return {"allowed_mechs": "PLAIN", "user": user, "password": broker.secret if password is None else password}


# -- who is believed --------------------------------------------------------------------------------------------------


def test_a_client_that_trusts_the_authority_publishes_and_consumes(broker: BrokerThread, authority: Authority) -> None:
    connection = connect(broker, authority)
    body = os.urandom(5 << 20)
    receiver = connection.create_receiver("q")
    sender = connection.create_sender("q")
    for sent in ("x", body):
        sender.send(Message(body=sent))
    assert receiver.receive().body == "x"
    assert bytes(receiver.receive().body) == body
    connection.close()


def test_a_client_of_another_authority_hangs_up(broker: BrokerThread, stranger: Authority) -> None:
    with pytest.raises(ConnectionException, match="certificate verify failed"):
        connect(broker, stranger)
    assert not broker.look(lambda s: s.broker.connections)


def test_a_client_that_speaks_no_tls_gets_nothing_and_leaves_nothing(broker: BrokerThread) -> None:
    for said in (anonymous_init(), b"", b"\x16\x03\x01\xff\xff" + b"\0" * 100):
        with socket.create_connection(("127.0.0.1", broker.service.tls_port), timeout=WITHIN) as raw:
            raw.sendall(said)
            raw.shutdown(socket.SHUT_WR)
            assert SASL_HEADER not in raw.recv(4096)
    assert not broker.look(lambda s: s._listeners)


def test_an_old_version_of_tls_is_refused(broker: BrokerThread) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("127.0.0.1", broker.service.tls_port), timeout=WITHIN) as raw,
        pytest.raises(ssl.SSLError),
    ):
        context.wrap_socket(raw)


# -- signing in -------------------------------------------------------------------------------------------------------


def test_a_password_signs_in_over_tls(tmp_path: Path, authority: Authority) -> None:
    with broker_with(tmp_path, authority, demo=False) as broker:
        connection = connect(broker, authority, **plain(broker))
        connection.create_sender("$management")
        connection.close()
        with pytest.raises(ConnectionException, match="Authentication failed"):
            connect(broker, authority, **plain(broker, password="wrong"))


def offered(port: int, host: str = "127.0.0.1", context: ssl.SSLContext | None = None) -> bytes:
    """The frame with the mechanisms."""
    with (
        contextlib.closing(socket.create_connection((host, port), timeout=WITHIN)) as raw,
        context.wrap_socket(raw, server_hostname=host) if context else raw as peer,
    ):
        peer.sendall(SASL_HEADER)
        said = b""
        while len(said) < 12 or len(said) < 8 + int.from_bytes(said[8:12], "big"):
            said += peer.recv(4096)
        return said


def client_context(trusted: Authority, certificate: Files | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(trusted.ca))
    if certificate is not None:
        context.load_cert_chain(*certificate)
    return context


def test_external_is_offered_to_a_verified_certificate_only(broker: BrokerThread, authority: Authority) -> None:
    port = broker.service.tls_port
    assert b"EXTERNAL" not in offered(broker.port)
    assert b"EXTERNAL" not in offered(port, context=client_context(authority))
    assert b"EXTERNAL" in offered(port, context=client_context(authority, authority.anna))


def other_address() -> str:
    """An address of this machine that is not loopback; reaches no other machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        address: str = probe.getsockname()[0]
    if address.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    return address


def test_plain_is_refused_without_tls_off_loopback(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    address = other_address()
    with BrokerThread(tmp_path / "broker", host=address) as broker:
        said = offered(broker.port, address)
        assert b"SCRAM-SHA-256" in said
        assert b"PLAIN" not in said
        with pytest.raises(ConnectionException, match=r"(?i)authentication failed"):
            BlockingConnection(broker.url, timeout=WITHIN, reconnect=False, allow_insecure_mechs=True, **plain(broker))
    assert f"Other machines can reach {address}:{broker.port} and nothing is encrypted" in caplog.text


def test_a_listener_on_every_address_takes_passwords_from_this_machine_only(tmp_path: Path) -> None:
    address = other_address()
    with BrokerThread(tmp_path / "broker", host="0.0.0.0") as broker:
        assert b"PLAIN" in offered(broker.port, "127.0.0.1")
        assert b"PLAIN" not in offered(broker.port, address)


# -- client certificates ----------------------------------------------------------------------------------------------


def external(broker: BrokerThread, authority: Authority, certificate: Files) -> Any:
    return connect(broker, authority, certificate, allowed_mechs="EXTERNAL")


def test_a_mapped_certificate_is_its_user_with_the_users_rights(tmp_path: Path, authority: Authority) -> None:
    with broker_with(tmp_path, authority, demo=False, clients=authority) as broker:
        broker.queue("orders")
        subject = subject_of(authority.anna)
        broker.user("anna", None, certificate_subject=subject, grants=["default:publish"])
        connection = external(broker, authority, authority.anna)
        assert broker.look(lambda s: [c.user for c in s.broker.connections.values()]) == ["anna"]
        connection.create_sender("orders").send(Message(body="x"))
        with pytest.raises(LinkDetached, match="anna has no permission to consume in virtual host default"):
            connection.create_receiver("orders")
        broker.do(lambda s: s.broker.accounts.delete(s.broker.accounts.user("anna")))
        with pytest.raises((LinkDetached, ConnectionException), match="must sign in again: it was deleted"):
            connection.create_sender("orders")
        with pytest.raises(ConnectionException):
            external(broker, authority, authority.anna)


def test_certificate_without_a_user_is_refused_and_its_subject_logged(
    broker: BrokerThread, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    broker.user("anna", None, certificate_subject="CN=anna")  # a part of the subject is not the subject
    said = f"no user has the certificate_subject {subject_of(authority.anna)!r}"
    with caplog.at_level("INFO", "headgate.broker"):
        with pytest.raises(ConnectionException):
            external(broker, authority, authority.anna)
        broker.until(lambda s: said in caplog.text, "it is in the log")


@pytest.mark.parametrize("fault", ["expired", "another authority", "none, but one is required"])
def test_invalid_certificate_ends_the_handshake(
    tmp_path: Path, authority: Authority, stranger: Authority, fault: str
) -> None:
    certificate = {
        "expired": authority.issue("expired", "anna@example.org", common_name="anna", expired=True),
        "another authority": stranger.anna,
        "none, but one is required": None,
    }[fault]
    with broker_with(tmp_path, authority, clients=authority, required="required" in fault) as broker:
        if certificate is not None:
            subject = subject_of(certificate)
            broker.user("anna", None, certificate_subject=subject, grants=["*:publish"])
        with pytest.raises(ConnectionException):
            connect(broker, authority, certificate, allowed_mechs="EXTERNAL ANONYMOUS")
        assert not broker.look(lambda s: s.broker.connections)
        # A good one gets in.
        connect(broker, authority, authority.anna).close()


# -- files ------------------------------------------------------------------------------------------------------------


def served(broker: BrokerThread, trusted: Authority) -> bytes:
    """The certificate that the broker shows."""
    with (
        socket.create_connection(("127.0.0.1", broker.service.tls_port), timeout=WITHIN) as raw,
        client_context(trusted).wrap_socket(raw, server_hostname="127.0.0.1") as wrapped,
    ):
        shown = wrapped.getpeercert(binary_form=True)
        assert shown
        return shown


def test_renewed_files_are_taken_up_and_open_connections_stay(
    tmp_path: Path, authority: Authority, stranger: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with broker_with(tmp_path, authority) as broker:
        connection = connect(broker, authority)
        receiver, sender = connection.create_receiver("q"), connection.create_sender("q")
        tls = broker.tls
        assert tls is not None
        before = served(broker, authority)

        def renew() -> None:
            broker.run(broker.service.listening.renew_tls(only_if_changed=True))

        renew()  # nothing has changed
        assert served(broker, authority) == before
        renewed = stranger.server()
        shutil.copy(renewed.certificate, tls.files.certificate)
        renew()  # the key does not fit yet
        assert served(broker, authority) == before
        assert f"{tls.files.key} is not that of the certificate in {tls.files.certificate}" in caplog.text
        shutil.copy(renewed.key, tls.files.key)
        renew()
        assert served(broker, stranger) != before
        with pytest.raises(ConnectionException):
            connect(broker, authority)
        sender.send(Message(body="still here"))
        assert receiver.receive().body == "still here"
        connection.close()


# -- flow control -----------------------------------------------------------------------------------------------------


class TlsCrowd(Crowd):
    """Clients over TLS."""

    def __init__(self, broker: BrokerThread, trusted: Authority) -> None:
        super().__init__(broker)
        self.domain = domain(trusted)

    def connect(self, handler: Any = None, **options: Any) -> Any:
        connection = self.container.connect(
            self.broker.tls_url,
            handler=handler,
            reconnect=False,
            allowed_mechs="ANONYMOUS",
            ssl_domain=self.domain,
            **options,
        )
        self.connections.append(connection)
        return connection


def test_thousands_of_messages_of_several_producers_stay_within_the_capacity(
    broker: BrokerThread, authority: Authority
) -> None:
    broker.queue("q", capacity_messages=50, flow_resume_messages=25)
    with TlsCrowd(broker, authority) as crowd:
        publishers = [crowd.publisher("q", 2_000) for _ in range(4)]
        broker.until_queue("q", lambda q: q.gate.state.overfull, "it is full")
        assert broker.depth("q") <= 51
        taker = crowd.taker("q", credit=500)
        broker.until_queue("q", lambda q: q.lanes.dequeued == 8_000, "all came through", within=40)
        assert crowd.do(lambda: len(taker.taken)) == 8_000
        wait_until(lambda: sum(p.accepted for p in publishers) == 8_000, "all are accepted")
        assert not [p.condition for p in publishers if p.condition]


def test_large_messages_for_one_consumer_all_arrive(broker: BrokerThread, authority: Authority) -> None:
    body = b"x" * (1 << 20)
    with TlsCrowd(broker, authority) as crowd:
        crowd.publisher("q", 40, size=len(body))
        broker.until_queue("q", lambda q: q.gate.depth_messages == 40, "40 MiB are there", within=20)
        taker = crowd.taker("q", credit=40)
        broker.until_queue("q", lambda q: q.gate.depth_messages == 0, "all are taken", within=20)
        assert crowd.do(lambda: [len(b) for b in taker.taken]) == [len(body)] * 40


def fill(broker: BrokerThread, count: int) -> None:
    """Messages of a million bytes."""
    with connected(broker) as filling:
        sender = filling.create_sender("q")
        for _ in range(count):
            sender.send(Message(body=b"x" * 1_000_000))
    broker.until(lambda s: not s._listeners, "who filled it is gone")


def take_without_reading(broker: BrokerThread, peer: Peer, count: int) -> None:
    """Give credit in two steps, since only output that is written while the socket is full counts as delayed."""
    peer.open()
    peer.attach("q", role=RECEIVER)
    peer.give_credit(count // 2)
    broker.until_queue("q", lambda q: q.lanes.unacknowledged >= min(4, count // 2), "some are on their way")
    peer.give_credit(count)
    broker.until(lambda s: any(not c.writable for c in s.container.connections), "its socket is full")


def test_a_consumer_that_does_not_read_is_written_no_more_and_gets_all_later(
    broker: BrokerThread, authority: Authority
) -> None:
    fill(broker, 30)
    with Peer(broker.service.tls_port, receive_buffer=4096, tls=client_context(authority)) as peer:
        take_without_reading(broker, peer, 20)
        taken = broker.see("q", lambda q: q.lanes.unacknowledged)
        assert taken <= 20
        peer.give_credit(30)
        broker.until(lambda s: all(c.credit for c in s.broker.consumers.values()), "it has credit that is not used")
        assert broker.see("q", lambda q: q.lanes.unacknowledged) == taken
        whole = 0
        while whole < 30:
            whole += not peer.expect(TRANSFER, within=20).field(5)
    broker.until_queue("q", lambda q: q.lanes.unacknowledged == 0, "they are put back")
    assert broker.depth("q") == 30


@pytest.mark.parametrize("how", ["close_notify", "end of the stream", "reset"])
def test_peer_that_ends_its_input_is_disconnected_and_its_messages_are_requeued(
    broker: BrokerThread, authority: Authority, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "SHUT_SECONDS", 0.2)
    fill(broker, 12)
    with Peer(broker.service.tls_port, receive_buffer=4096, tls=client_context(authority)) as peer:
        take_without_reading(broker, peer, 12)
        assert isinstance(peer.socket, ssl.SSLSocket)
        match how:
            case "close_notify":
                peer.socket.settimeout(0.05)
                with contextlib.suppress(OSError):  # the answer is behind what it does not read
                    peer.socket.unwrap()
            case "end of the stream":
                peer.socket.shutdown(socket.SHUT_WR)
            case "reset":
                peer.vanish()
        broker.until(lambda s: not s._listeners, "it is gone", within=4)
    assert broker.depth("q") == 12
    assert broker.see("q", lambda q: q.lanes.unacknowledged) == 0


def test_input_after_a_close_is_dropped_and_does_no_harm(broker: BrokerThread, authority: Authority) -> None:
    """The TLS layer continues to read while it closes, within the turn that closes it."""
    with Peer(broker.service.tls_port, tls=client_context(authority)) as peer:
        peer.open()
        peer.attach("q")
        peer.expect(FLOW)
        broken = b"\x00\x00\x00\x07\x02\x00\x00\x00"  # a frame shorter than its own head
        with contextlib.suppress(OSError):  # the broker may have closed while this was written
            peer.write(broken + frame(CLOSE) + os.urandom(300_000))
            peer.expect_end()
    broker.until(lambda s: not s._listeners, "it is gone")
    connect(broker, authority).close()
