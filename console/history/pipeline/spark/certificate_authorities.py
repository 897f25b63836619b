"""The certificate authorities that this machine trusts, as a file that Java reads.

A Java from a wheel knows only the authorities that it was built with. A machine behind an inspecting proxy, or with a
private authority for its object store, has others, in the PEM file that OpenSSL uses. Java wants a key store; its
oldest format (JKS) needs nothing but a length before each certificate and a SHA-1 sum at the end.
"""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import struct
import uuid
from pathlib import Path

_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_MAGIC, _VERSION, _TRUSTED = 0xFEEDFEED, 2, 2
_PASSWORD = "changeit"  # noqa: S105 -- Java's well-known one: the sum keeps no secret, it finds damage


def write_trust_store(path: Path) -> bool:
    """Write the store; False if this machine has no list of authorities."""
    certificates = _authorities()
    if not certificates:
        return False
    content = bytearray(struct.pack(">III", _MAGIC, _VERSION, len(certificates)))
    for number, certificate in enumerate(certificates):
        alias, kind = f"ca{number}".encode(), b"X.509"
        content += struct.pack(">IH", _TRUSTED, len(alias)) + alias
        content += struct.pack(">QH", 0, len(kind)) + kind + struct.pack(">I", len(certificate)) + certificate
    # Java's constant, part of the format.
    digest = hashlib.sha1(_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + content)  # noqa: S324
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    unfinished.write_bytes(content + digest.digest())
    unfinished.rename(path)
    return True


def _authorities() -> list[bytes]:
    """DER, without doubles."""
    for place in (os.environ.get("SSL_CERT_FILE"), ssl.get_default_verify_paths().cafile, *_BUNDLES):
        if place and os.path.isfile(place):
            text = Path(place).read_text(encoding="ascii", errors="replace")
            found = dict.fromkeys(ssl.PEM_cert_to_DER_cert(each) for each in _CERTIFICATE.findall(text))
            if found:
                return list(found)
    return []
