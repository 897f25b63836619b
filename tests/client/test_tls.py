"""Publishing over TLS: to whom the application trusts, and to nobody else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from proton import SSL, SSLDomain

from brokers.client import ConnectionFailed, connect
from tests.client.stub_broker import StubBroker, accept

pytestmark = [
    pytest.mark.skipif(
        not SSL.present(), reason="Proton was compiled without OpenSSL: install libssl-dev, then it anew"
    ),
    pytest.mark.skipif(
        shutil.which("openssl") is None, reason="openssl, which makes the certificate, is not installed"
    ),
]


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """Of 127.0.0.1, signed by itself, and its key."""
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
