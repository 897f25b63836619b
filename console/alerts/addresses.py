"""Addresses that webhooks may reach, against server-side request forgery. By default only public addresses: no
loopback, where services trust local clients, and no private network. Administrators can allow further networks, also
loopback, but never link-local (metadata services of clouds hand out credentials), multicast and unspecified addresses.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit

from brokers.name_lookup import Address, look_up

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class NotAllowed(Exception):
    """A webhook must not reach this address. The message is a sentence."""


def url_of(text: str) -> SplitResult:
    """Parse the URL of a webhook. Raises ValueError with a sentence, which does not repeat the URL: it can contain a
    secret, and the audit trail has the sentence."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:  # its message can repeat parts of the text
        raise ValueError("it is not a URL: its host or its port is not valid") from None
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError("it is not the URL of a webhook: it must begin with https:// or http:// and have a host")
    if url.username is not None or url.password is not None:
        raise ValueError("a URL must not contain a user or password: requests are signed instead")
    if port == 0 or any(ord(c) <= 32 or ord(c) == 127 for c in text):
        raise ValueError("it is not the URL of a webhook: it has blanks or control characters, or its port is 0")
    return url


def network_of(text: str) -> Network:
    """Parse a network that an administrator may allow. Raises ValueError with a sentence."""
    try:
        network = ipaddress.ip_network(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is not a network: write it as 10.0.0.0/8, 127.0.0.1/32 or fd00::/8") from None
    if _never(network.network_address) or network.prefixlen == 0:
        raise ValueError(f"{network} cannot be allowed: it has link-local, multicast or unspecified addresses")
    return network


def resolved(host: str, port: int, allowed: Iterable[Network], timeout: float | None = None) -> list[Address]:
    """Return the addresses of a host. Raises NotAllowed if any of them is not allowed, and as `look_up`."""
    addresses = look_up(host, port, timeout)
    networks = list(allowed)
    for address in addresses:
        check(host, address, networks)
    return addresses


def check(host: str, address: Address, allowed: Iterable[Network]) -> None:
    """Check that a webhook may reach the address of this host. Raises NotAllowed."""
    real = _embedded(address)
    shown = str(address) if str(address) == host else f"{host} ({address})"
    if _never(real) or _never(address):
        raise NotAllowed(f"{shown} cannot be allowed: it is link-local, multicast or unspecified")
    if real.is_global and address.is_global:
        return
    if any(each.version == network.version and each in network for each in (real, address) for network in allowed):
        return
    raise NotAllowed(
        f"{shown} is not a public address: an administrator must first add its network to the allowed private networks"
    )


def _never(address: Address) -> bool:
    return address.is_link_local or address.is_multicast or address.is_unspecified


def _embedded(address: Address) -> Address:
    """Return the IPv4 address that is embedded in an IPv6 address, else the address."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in ipaddress.IPv6Network("64:ff9b::/96"):
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1] or address
    return address
