"""Export the machine's trusted certificate authorities to a key store (PKCS #12) for Java.

A Java from a wheel has only the authorities that it was built with. A machine behind an inspecting proxy, or with a
private authority for its object store, has others, in the PEM file that OpenSSL uses.
"""

from __future__ import annotations

import os
import re
import ssl
import uuid
import warnings
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
from cryptography.utils import CryptographyDeprecationWarning

_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
#: Java's default password. Certificates are public, so it protects nothing; without one, Java reads an empty store.
_PASSWORD = "changeit"  # noqa: S105


def trust_options(path: Path) -> tuple[str, ...]:
    """Write the key store to `path` atomically, and return Java's options for it; without a list of authorities on this
    machine, write and return nothing. Raises OSError if it cannot be written."""
    certificates = _authorities()
    if not certificates:
        return ()
    named = [PKCS12Certificate(each, f"ca{number}".encode()) for number, each in enumerate(certificates)]
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    unfinished.write_bytes(serialize_java_truststore(named, BestAvailableEncryption(_PASSWORD.encode())))
    unfinished.rename(path)
    return (
        f"-Djavax.net.ssl.trustStore={path}",
        "-Djavax.net.ssl.trustStoreType=PKCS12",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
    )


def _authorities() -> list[x509.Certificate]:
    """Return the machine's certificates without duplicates."""
    for place in (os.environ.get("SSL_CERT_FILE"), ssl.get_default_verify_paths().cafile, *_BUNDLES):
        if place and os.path.isfile(place):
            texts = dict.fromkeys(_CERTIFICATE.findall(Path(place).read_bytes()))
            if found := list(dict.fromkeys(read for text in texts if (read := _read(text)))):
                return found
    return []


def _read(pem: bytes) -> x509.Certificate | None:
    """Return the certificate; None if it is unusable, so that the others still are used."""
    with warnings.catch_warnings():
        # Some well-known authorities have the serial number 0, which RFC 5280 forbids.
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        try:
            return x509.load_pem_x509_certificate(pem)
        except ValueError:
            return None
