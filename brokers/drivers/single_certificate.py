"""TLS to a server whose certificate is known: that one is trusted, whatever its names, and no other."""

from __future__ import annotations

import ssl


def trusting(certificate: str) -> ssl.SSLContext:
    """Return the context of a client. `certificate`: one that signed itself, as PEM text."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.load_verify_locations(cadata=certificate)
    return context
