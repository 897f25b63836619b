"""A certificate that signs itself, generated at each start of a process that publishes it: clients trust it alone, by
its content, so it needs no authority and no names."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from brokers.server.sqlite_file import StoreError
from brokers.server.tls import TlsFiles

#: Longer than any process runs; a day back, for clocks that differ.
_VALID, _BEFORE = dt.timedelta(days=3650), dt.timedelta(days=1)


def own_certificate(folder: Path) -> tuple[TlsFiles, str]:
    """Generate a key and its certificate in a folder. Return the files, and the certificate as PEM text. Raises
    StoreError."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "headgate adapters")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    files = TlsFiles(folder / "tls.pem", folder / "tls.key")
    try:
        for path, content in ((files.certificate, pem), (files.key, private)):
            path.unlink(missing_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
    except OSError as error:
        raise StoreError(f"cannot write to {folder}: {error.strerror or error}") from error
    return files, pem.decode()
