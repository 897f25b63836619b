"""The certificate authorities that this machine trusts, as a key store (PKCS #12) that Java reads.

A Java from a wheel knows only the authorities that it was built with. A machine behind an inspecting proxy, or with a
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
#: Java's well-known one. It protects nothing, since certificates are public; without one, Java reads an empty store.
_PASSWORD = "changeit"  # noqa: S105


def trust_options(path: Path) -> tuple[str, ...]:
    """Write the store to `path`, whole or not at all; the options with which Java uses it. None of either if this
    machine has no list of authorities. Raises OSError if it cannot be written."""
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
    """Without doubles."""
    for place in (os.environ.get("SSL_CERT_FILE"), ssl.get_default_verify_paths().cafile, *_BUNDLES):
        if place and os.path.isfile(place):
            texts = dict.fromkeys(_CERTIFICATE.findall(Path(place).read_bytes()))
            if found := list(dict.fromkeys(read for text in texts if (read := _read(text)))):
                return found
    return []


def _read(pem: bytes) -> x509.Certificate | None:
    """None: it is not a certificate that can be used, and must not cost the others."""
    with warnings.catch_warnings():
        # Some well-known authorities, which every machine trusts, have the serial number 0. RFC 5280 forbids that.
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        try:
            return x509.load_pem_x509_certificate(pem)
        except ValueError:
            return None
