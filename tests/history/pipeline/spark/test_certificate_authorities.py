"""The key store of this machine's certificate authorities: with it, a real Java trusts them."""

from __future__ import annotations

import ssl
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import certifi
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
from cryptography.utils import CryptographyDeprecationWarning
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from console.history.pipeline.spark.certificate_authorities import trust_options
from console.history.pipeline.spark.java import Java, bundled_java, find_java
from tests.certificates import Authority

NOT_A_CERTIFICATE = b"-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n"


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """An authority trusted by this machine among others, and unknown to every Java."""
    trusted, other = Authority(tmp_path / "trusted"), Authority(tmp_path / "other")
    bundle = tmp_path / "bundle.pem"
    negative = with_negative_serial_number(trusted.ca)
    bundle.write_bytes(other.ca.read_bytes() + b"a line between two\n" + NOT_A_CERTIFICATE + negative * 2)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    return trusted


def with_negative_serial_number(file: Path) -> bytes:
    """Return PEM. (The signature is wrong, but not checked: an authority is trusted because it is in the list.)"""
    certificate = x509.load_pem_x509_certificate(file.read_bytes())
    der, number = certificate.public_bytes(Encoding.DER), certificate.serial_number
    before = number.to_bytes(number.bit_length() // 8 + 1, "big")
    assert der.count(before) == 1
    changed = der.replace(before, bytes([before[0] | 0x80]) + before[1:])
    return ssl.DER_cert_to_PEM_cert(changed).encode()


@contextmanager
def serving(authority: Authority) -> Iterator[str]:
    """Yield the URL of an HTTPS server with a certificate of the authority."""

    class Empty(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    files = authority.server()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    server = HTTPServer(("127.0.0.1", 0), Empty)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def running(java: Java) -> Iterator[Any]:
    """Return the result of a call of the URL by this Java."""
    command = str(java.home / "bin" / "java")
    port, process = launch_gateway(java_path=command, javaopts=list(java.options), die_on_exit=True, return_proc=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait(60)


def status(jvm: Any, url: str) -> int:
    return int(jvm.java.net.URL(url).openConnection().getResponseCode())


def test_bundled_java_trusts_the_authorities_of_this_machine(authority: Authority, tmp_path: Path) -> None:
    others = Authority(tmp_path / "unknown")
    with serving(authority) as trusted, serving(others) as unknown, running(bundled_java()) as jvm:
        assert status(jvm, trusted) == 204
        with pytest.raises(Py4JJavaError, match="unable to find valid certification path"):
            status(jvm, unknown)


def test_installed_java_reads_the_key_store(authority: Authority) -> None:
    """Java 17 reads a store of this kind as empty without a password."""
    found = find_java()
    with serving(authority) as trusted, running(Java(found.home, bundled_java().options)) as jvm:
        assert status(jvm, trusted) == 204


def test_java_uses_its_own_authorities_without_a_list_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_bytes(NOT_A_CERTIFICATE)
    monkeypatch.setenv("SSL_CERT_FILE", str(empty))
    monkeypatch.setattr("ssl.get_default_verify_paths", lambda: ssl.DefaultVerifyPaths(*[None] * 6))
    monkeypatch.setattr("console.history.pipeline.spark.certificate_authorities._BUNDLES", ())
    assert trust_options(tmp_path / "trusted.p12") == ()
    assert list(tmp_path.iterdir()) == [empty]


def test_list_with_the_serial_number_0_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some well-known authorities have it: this is Mozilla's list."""
    monkeypatch.setenv("SSL_CERT_FILE", certifi.where())
    path = tmp_path / "trusted.p12"
    assert trust_options(path)
    with warnings.catch_warnings(category=CryptographyDeprecationWarning, action="ignore"):
        written = load_pkcs12(path.read_bytes(), b"changeit")
    assert len(written.additional_certs) == Path(certifi.where()).read_text().count("BEGIN CERTIFICATE")
