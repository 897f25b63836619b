"""The subject of a client certificate as a canonical text: RFC 4514, such as `CN=anna,O=Example,C=DE`."""

from __future__ import annotations

from cryptography import x509


def canonical_subject(text: str) -> str:
    """Return the canonical form of a subject. Raises ValueError with a sentence that quotes the text."""
    try:
        name = x509.Name.from_rfc4514_string(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not the subject of a certificate, which looks like CN=anna,O=Example (RFC 4514)"
        ) from None
    return name.rfc4514_string()


def subject_of(certificate: bytes) -> str:
    """Return the canonical subject of a certificate (DER). Raises ValueError if it cannot be read."""
    return x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
