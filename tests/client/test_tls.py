"""Publishing over TLS: only to brokers that the application trusts."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import SSL, SSLDomain

from brokers.client import ConnectionFailed, SendTimeout, connect
from brokers.server.listening import TlsAddress
from tests.amqp.broker_thread import BrokerThread
from tests.certificates import Authority, subject_of
from tests.client.stub_broker import StubBroker, accept

pytestmark = [
    pytest.mark.skipif(
        not SSL.present(), reason="Proton was compiled without OpenSSL: install libssl-dev, then reinstall it"
    ),
    pytest.mark.skipif(
        shutil.which("openssl") is None, reason="openssl, which makes the certificate, is not installed"
    ),
]


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """Return a self-signed certificate of 127.0.0.1, and its key."""
    files = str(tmp_path / "certificate.pem"), str(tmp_path / "key.pem")
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=DNS:127.0.0.1,IP:127.0.0.1"]
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    command = ["openssl", "req", *kind, *subject, "-out", files[0], "-keyout", files[1]]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    return files


@pytest.fixture
def server(certificate: tuple[str, str]) -> SSLDomain:
    domain = SSLDomain(SSLDomain.MODE_SERVER)
    domain.set_credentials(*certificate, None)
    return domain


def test_a_broker_with_a_trusted_certificate_gets_the_message(server: SSLDomain, certificate: tuple[str, str]) -> None:
    trusting = SSLDomain(SSLDomain.MODE_CLIENT)
    trusting.set_trusted_ca_db(certificate[0])
    trusting.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
    with StubBroker(ssl_domain=server) as stub:
        stub.settle = accept
        with connect(stub.url.replace("amqp:", "amqps:"), ssl_domain=trusting) as connection:
            connection.publisher("orders").send("x")
        assert stub.bodies == ["x"]


def test_a_broker_with_an_unknown_certificate_gets_nothing(server: SSLDomain) -> None:
    with StubBroker(ssl_domain=server) as stub:
        with pytest.raises(ConnectionFailed, match="certificate verify failed"):
            connect(stub.url.replace("amqp:", "amqps:"))
        assert not stub.links


# -- the bundled broker -----------------------------------------------------------------------------------------------


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


@pytest.fixture
def broker(tmp_path: Path, authority: Authority) -> Iterator[BrokerThread]:
    tls = TlsAddress(authority.server(clients=authority), port=0)
    with BrokerThread(tmp_path / "broker", demo=False, tls=tls) as running:
        running.queue("orders", capacity_messages=2)
        yield running


def test_a_password_and_a_certificate_publish_to_the_broker(broker: BrokerThread, authority: Authority) -> None:
    broker.user("bert", grants=["default:publish"])
    broker.user("anna", None, grants=["default:publish"], certificate_subject=subject_of(authority.anna))
    for who in ({"user": "bert", "password": "geheim"}, {"certificate": authority.anna}):
        with connect(broker.tls_url, ca=authority.ca, **who) as connection:
            connection.publisher("orders", send_timeout=5).send("x")
    assert broker.depth("orders") == 2


def test_a_full_queue_holds_a_publisher_over_tls(broker: BrokerThread, authority: Authority) -> None:
    broker.user("bert", grants=["default:publish"])
    with connect(broker.tls_url, ca=authority.ca, user="bert", password="geheim") as connection:
        publisher = connection.publisher("orders")
        for _ in range(3):
            publisher.send("x")
        with pytest.raises(SendTimeout):
            publisher.send("one too many", send_timeout=0.3)
    assert broker.depth("orders") == 3


def test_an_authority_that_did_not_issue_the_certificate_is_of_no_use(broker: BrokerThread, tmp_path: Path) -> None:
    with pytest.raises(ConnectionFailed, match="certificate verify failed"):
        connect(broker.tls_url, ca=Authority(tmp_path / "stranger").ca, connect_timeout=5)


def test_inconsistent_options_are_refused(tmp_path: Path, authority: Authority) -> None:
    (tmp_path / "empty").write_text("")
    for url, given, wrong in (
        ("amqp://127.0.0.1:1", {"ca": authority.ca}, "is without TLS"),
        ("amqp://127.0.0.1:1", {"certificate": authority.anna}, "is without TLS"),
        ("amqps://127.0.0.1:1", {"ca": authority.ca, "ssl_domain": SSLDomain(SSLDomain.MODE_CLIENT)}, "leave out ca"),
        ("amqps://127.0.0.1:1", {"ca": tmp_path / "none.pem"}, "none.pem"),
        ("amqps://127.0.0.1:1", {"ca": tmp_path / "empty"}, "empty"),
        ("amqps://127.0.0.1:1", {"certificate": (authority.ca, tmp_path / "none.key")}, "none.key"),
    ):
        with pytest.raises(ValueError, match=wrong):
            connect(url, **given)  # type: ignore[arg-type]
