"""The arguments of `connect`, checked, as Proton's options: credentials, and the certificates to trust over TLS."""

from __future__ import annotations

import ipaddress
import os
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from proton import SSLDomain, SSLException

#: Larger messages go in several frames. Bytes.
MAX_FRAME = 65_536


def proton_options(
    url: str,
    *,
    user: str | None,
    password: str | None,
    virtual_host: str | None,
    ca: str | os.PathLike[str] | None,
    certificate: tuple[str | os.PathLike[str], str | os.PathLike[str]] | None,
    ssl_domain: SSLDomain | None,
    password_in_clear: bool,
    name: str | None,
    heartbeat: float,
) -> dict[str, Any]:
    """Return Proton's options for the arguments of `connect`. Raises ValueError for invalid ones."""
    parts = _checked(url)
    clear = parts.scheme == "amqp"
    if user and clear and not password_in_clear and not _is_loopback(parts.hostname or ""):
        raise ValueError(
            f"the password of {user} could be read on its way to {url}: use amqps, or password_in_clear=True"
        )
    options: dict[str, Any] = {
        "virtual_host": virtual_host,
        "heartbeat": heartbeat,
        "max_frame_size": MAX_FRAME,
        "container_id": name or f"publisher-{uuid.uuid4().hex}",
        "allowed_mechs": "PLAIN" if user else "EXTERNAL" if certificate else "ANONYMOUS",
        "allow_insecure_mechs": True,  # the application chose it, see above
    }
    if user:
        options.update(user=user, password=password or "")
    if clear and (ca or certificate or ssl_domain):
        raise ValueError(f"{url!r} is without TLS: certificates are for amqps://")
    if ssl_domain is not None and (ca or certificate):
        raise ValueError(
            "ssl_domain contains the trusted authorities and the certificate: leave out ca and certificate"
        )
    if ca or certificate:
        options["ssl_domain"] = _ssl_domain(ca, certificate)
    elif ssl_domain is not None:
        options["ssl_domain"] = ssl_domain
    return options


def _checked(url: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme not in {"amqp", "amqps"} or not parts.hostname:
        raise ValueError(f"{url!r} is not like amqp://host:5672 or amqps://host:5671")
    _ = parts.port  # raises ValueError if it cannot be
    if parts.username or parts.password:
        raise ValueError("user and password are arguments of their own, not part of the URL, which is logged")
    return parts


def _ssl_domain(
    ca: str | os.PathLike[str] | None,
    certificate: tuple[str | os.PathLike[str], str | os.PathLike[str]] | None,
) -> SSLDomain:
    """Raises ValueError, naming the file that cannot be used."""
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    try:
        if ca is not None:
            named = f"ca {os.fspath(ca)!r}"
            Path(ca).read_bytes()
            domain.set_trusted_ca_db(os.fspath(ca))
        if certificate is not None:
            named = f"certificate {os.fspath(certificate[0])!r} and key {os.fspath(certificate[1])!r}"
            domain.set_credentials(os.fspath(certificate[0]), os.fspath(certificate[1]), None)
        domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
    except (OSError, SSLException) as error:
        raise ValueError(f"{named} cannot be used: {error}") from error
    return domain


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
