"""TLS files: whatever is wrong with one of them, the error names it."""

from __future__ import annotations

import argparse
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from brokers.server.main import tls_address
from brokers.server.tls import TlsError, TlsFiles
from brokers.tls_options import add_tls_options, tls_arguments
from tests.certificates import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def encrypted(key: Path, path: Path) -> Path:
    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    secret = serialization.BestAvailableEncryption(b"geheim")
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret)
    path.write_bytes(loaded.private_bytes(*form))
    return path


def garbage(path: Path) -> Path:
    path.write_text("no PEM at all\n")
    return path


Spoil = Callable[[TlsFiles, Path, Authority], tuple[TlsFiles, str]]

#: what is wrong -> the files, and the name that the error must have beside the words
WRONG: dict[str, tuple[Spoil, str]] = {
    "no certificate": (lambda f, p, a: (replace(f, certificate=p), "spoiled"), "cannot read the certificate"),
    "no key": (lambda f, p, a: (replace(f, key=p), "spoiled"), "cannot read the key"),
    "no client CA": (lambda f, p, a: (replace(f, client_ca=p), "spoiled"), "cannot read the client CA"),
    "a folder": (lambda f, p, a: (replace(f, certificate=p.parent), str(p.parent)), "cannot read the certificate"),
    "not a certificate": (
        lambda f, p, a: (replace(f, certificate=garbage(p)), "spoiled"),
        "does not hold a certificate",
    ),
    "not a key": (lambda f, p, a: (replace(f, key=garbage(p)), "spoiled"), "does not hold a private key"),
    "not a CA": (lambda f, p, a: (replace(f, client_ca=garbage(p)), "spoiled"), "does not hold certificates"),
    "swapped": (
        lambda f, p, a: (replace(f, certificate=f.key, key=f.certificate), ".key"),
        "does not hold a certificate",
    ),
    "another's key": (lambda f, p, a: (replace(f, key=a.anna[1]), "anna.key"), "is not that of the certificate"),
    "an encrypted key": (lambda f, p, a: (replace(f, key=encrypted(f.key, p)), "spoiled"), "is encrypted"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_error_of_an_invalid_file_names_it(authority: Authority, tmp_path: Path, wrong: str) -> None:
    spoil, words = WRONG[wrong]
    files, named = spoil(authority.server(clients=authority), tmp_path / "spoiled", authority)
    with pytest.raises(TlsError, match=words) as caught:
        files.context()
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_valid_files_create_a_context_with_the_configured_client_verification(authority: Authority) -> None:
    assert authority.server().context().verify_mode is ssl.CERT_NONE
    assert authority.server(clients=authority).context().verify_mode is ssl.CERT_OPTIONAL
    context = authority.server(clients=authority, required=True).context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_a_change_of_any_file_changes_the_stamp(authority: Authority) -> None:
    files = authority.server(clients=authority)
    for path in (files.certificate, files.key, authority.ca):
        before = files.stamp()
        assert files.stamp() == before
        path.write_bytes(path.read_bytes() + b"\n")
        assert files.stamp() != before


def parsed(*options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_tls_options(parser)
    return parser.parse_args(options)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--tls-certificate", "c"], "--tls-certificate is given without --tls-key"),
        (["--tls-key", "k"], "--tls-key is given without --tls-certificate"),
        (["--tls-port", "5671"], "--tls-port is given without"),
        (["--tls-host", "127.0.0.1"], "--tls-host is given without"),
        (["--tls-client-ca", "a"], "--tls-client-ca is given without"),
        (
            ["--tls-certificate", "c", "--tls-key", "k", "--tls-client-certificates", "required"],
            "--tls-client-certificates is given without --tls-client-ca",
        ),
    ],
)
def test_options_that_do_not_go_together_are_named(options: list[str], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        tls_address(parsed(*options))


def test_options_mean_the_same_when_they_are_passed_on() -> None:
    assert tls_arguments(parsed()) == []
    assert tls_address(parsed()) is None
    options = ["--tls-certificate", "/c", "--tls-key", "/k", "--tls-port", "0"]
    address = tls_address(parsed(*options))
    assert address is not None
    assert (address.host, address.port, address.files) == ("127.0.0.1", 0, TlsFiles(Path("/c"), Path("/k")))
    options += ["--tls-host", "::1", "--tls-client-ca", "/a", "--tls-client-certificates", "required"]
    address = tls_address(parsed(*tls_arguments(parsed(*options))))
    assert address is not None
    assert address.files == TlsFiles(Path("/c"), Path("/k"), client_ca=Path("/a"), client_required=True)
    plain = tls_address(parsed("--tls-certificate", "/c", "--tls-key", "/k"))
    assert plain is not None
    assert plain.port == 5671
