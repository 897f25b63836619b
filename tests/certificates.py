"""Certificates generated for tests: a certificate authority, and PEM files of its certificates."""

from __future__ import annotations

import datetime
import functools
from pathlib import Path

import trustme
from cryptography import x509

from brokers.server.tls import TlsFiles

LONG_AGO = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)


class Authority:
    """`ca`: the file with its certificate, in `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self.ca))

    def issue(
        self, name: str, *identities: str, common_name: str | None = None, expired: bool = False
    ) -> tuple[Path, Path]:
        """The files of a certificate and its key."""
        times = {"not_before": LONG_AGO, "not_after": LONG_AGO + datetime.timedelta(days=1)} if expired else {}
        issued = self._authority.issue_cert(*identities, common_name=common_name, **times)
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(str(key))
        return certificate, key

    def server(self, name: str = "server", *, clients: Authority | None = None, required: bool = False) -> TlsFiles:
        """Return the TLS files of a broker on 127.0.0.1."""
        # Proton's clients check addresses in DNS names and the common name only, others in IP addresses only.
        certificate, key = self.issue(name, "127.0.0.1", "localhost", common_name="127.0.0.1")
        return TlsFiles(certificate, key, client_ca=clients.ca if clients else None, client_required=required)

    @functools.cached_property
    def anna(self) -> tuple[Path, Path]:
        return self.issue("anna", "anna@example.org", common_name="anna")


def subject_of(files: tuple[Path, Path]) -> str:
    """Return the subject of an issued certificate, as a user's `certificate_subject`."""
    return x509.load_pem_x509_certificate(files[0].read_bytes()).subject.rfc4514_string()
