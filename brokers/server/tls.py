"""TLS of the broker's listener: contexts from files, with errors that name the file, and detection of changed files.

TLS 1.2 and later, with OpenSSL's own choice of ciphers. No certificate is shipped or made up: who listens brings one.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from cryptography import x509

log = logging.getLogger("headgate.broker")


class TlsError(Exception):
    """The files are not usable for a listener. The message is a sentence that names the file."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files. `client_ca`: authority of client certificates that can sign in (EXTERNAL); None: none are
    requested. `client_required`: clients without one are refused."""

    certificate: Path
    key: Path
    client_ca: Path | None = None
    client_required: bool = False

    def context(self) -> ssl.SSLContext:
        """Return the listener's context. Raises TlsError."""
        self._check_certificate()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _read(self.key, "key")
        try:
            # Without a password function OpenSSL would prompt at the terminal.
            context.load_cert_chain(self.certificate, self.key, password=lambda: _encrypted(self.key))
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise TlsError(f"the key in {self.key} is not that of the certificate in {self.certificate}") from None
            raise TlsError(f"{self.key} does not hold a private key in PEM form: {_reason(error)}") from None
        if self.client_ca is not None:
            _read(self.client_ca, "client CA")
            try:
                context.load_verify_locations(self.client_ca)
            except ssl.SSLError as error:
                raise TlsError(f"{self.client_ca} does not hold certificates in PEM form: {_reason(error)}") from None
            context.verify_mode = ssl.CERT_REQUIRED if self.client_required else ssl.CERT_OPTIONAL
            # A resumed session would carry a certificate that was verified when the session began.
            context.num_tickets = 0
            context.options |= ssl.OP_NO_TICKET
        return context

    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """Return a value that differs when a file has been changed or replaced."""
        return tuple(_stamp(path) for path in self._paths())

    def _paths(self) -> Iterator[Path]:
        yield from (self.certificate, self.key)
        if self.client_ca is not None:
            yield self.client_ca

    def _check_certificate(self) -> None:
        try:
            certificate = x509.load_pem_x509_certificate(_read(self.certificate, "certificate"))
        except ValueError:
            raise TlsError(f"{self.certificate} does not hold a certificate in PEM form") from None
        ends = certificate.not_valid_after_utc
        log.info("TLS certificate %s, valid until %s UTC", self.certificate, f"{ends:%Y-%m-%d %H:%M}")


def _encrypted(key: Path) -> NoReturn:
    raise TlsError(f"the key in {key} is encrypted: the broker cannot ask for its password, so store it without one")


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TlsError(f"cannot read the {what} {path}: {error.strerror or error}") from None


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_ino, found.st_size)


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
