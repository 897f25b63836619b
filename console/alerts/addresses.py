"""Which addresses webhooks may reach. Whoever writes a URL makes the console's machine call it, so by default it calls
public addresses only: not its own loopback, where services trust whoever reaches them, and no private network.
Administrators allow networks, loopback too; link-local ones (where clouds hand out credentials), multicast and the
unspecified address nobody can.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class NotAllowed(Exception):
    """The message is a sentence."""


def url_of(text: str) -> SplitResult:
    """Raises ValueError with a sentence."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError as error:
        raise ValueError(f"{text!r} is not a URL: {error}") from None
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError(f"{text!r} is not a URL of a webhook: it must begin with https:// or http:// and name a host")
    if url.username is not None or url.password is not None:
        raise ValueError("a URL with a user or password is not taken: requests are signed instead")
    if port == 0 or any(ord(c) <= 32 or ord(c) == 127 for c in text):
        raise ValueError(f"{text!r} is not a URL of a webhook")
    return url


def network_of(text: str) -> Network:
    """Raises ValueError with a sentence."""
    try:
        network = ipaddress.ip_network(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is not a network: write it as 10.0.0.0/8, 127.0.0.1/32 or fd00::/8") from None
    if _never(network.network_address) or network.prefixlen == 0:
        raise ValueError(f"{network} cannot be allowed: link-local, multicast and unspecified addresses never are")
    return network


def resolved(host: str, port: int, allowed: Iterable[Network]) -> list[Address]:
    """The addresses of a host that may be connected to. Raises NotAllowed if there is one that may not be, OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(ipaddress.ip_address(entry[4][0]) for entry in found))
    networks = list(allowed)
    for address in addresses:
        check(host, address, networks)
    return addresses


def check(host: str, address: Address, allowed: Iterable[Network]) -> None:
    """Raises NotAllowed."""
    real = _embedded(address)
    shown = str(address) if str(address) == host else f"{host} ({address})"
    if _never(real) or _never(address):
        raise NotAllowed(f"{shown} is never called: it is link-local, multicast or unspecified")
    if real.is_global and address.is_global:
        return
    if any(each.version == network.version and each in network for each in (real, address) for network in allowed):
        return
    raise NotAllowed(f"{shown} is not a public address: an administrator must allow its network first, under Alerts")


def _never(address: Address) -> bool:
    return address.is_link_local or address.is_multicast or address.is_unspecified


def _embedded(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in ipaddress.IPv6Network("64:ff9b::/96"):
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1] or address
    return address
