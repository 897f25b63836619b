"""Addresses that brokers can have: with a scheme that their kind speaks, and not of the machine itself or its link.

Link-local addresses have the metadata services of clouds, which hand out credentials. Private networks and loopback are
allowed: brokers are there. Names are checked when they are entered, and again at each connection, since what they
resolve to can change.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

from brokers.name_lookup import Address, look_up_all


class AddressRefused(ValueError):
    """A broker must not have this address. The message is a sentence."""


#: Addresses of one broker.
MOST_ADDRESSES = 8

#: The schemes of management interfaces over HTTP, and of those over AMQP.
HTTP, AMQP = ("http", "https"), ("amqp", "amqps")


def check_schemes(text: str, schemes: Sequence[str]) -> None:
    """Raise ValueError, with a sentence, unless each of the URLs has one of these schemes."""
    for url in text.split():
        if urlsplit(url).scheme not in schemes:
            *others, last = [f"{scheme}://" for scheme in schemes]
            raise ValueError(f"the URL must begin with {', '.join(others)} or {last}")


def check_urls(text: str) -> str:
    """Return one or several URLs of one broker, separated by single spaces. Raises ValueError with a sentence."""
    urls = list(dict.fromkeys(check_url(url) for url in text.split()))
    if not urls:
        raise ValueError("the URL must not be empty")
    if len(urls) > MOST_ADDRESSES:
        raise ValueError(f"there are {len(urls)} URLs: {MOST_ADDRESSES} at most, of one broker")
    return " ".join(urls)


def check_url(text: str) -> str:
    """Return the URL without a slash at its end. Raises ValueError with a sentence. Resolves no name. Which schemes a
    kind of broker speaks is up to `check_schemes`."""
    if any(ord(c) <= 32 or ord(c) == 127 for c in text):
        raise ValueError("the URL must not contain spaces or control characters")
    try:
        url = urlsplit(text)
        port, host = url.port, url.hostname
    except ValueError as error:
        raise ValueError(f"{text!r} is not a URL: {error}") from None
    if url.scheme not in (*HTTP, *AMQP) or not host:
        raise ValueError("the URL must begin with http:// or https:// and have a host")
    if url.scheme in AMQP and url.path not in ("", "/"):
        raise ValueError("the URL of an AMQP address must end with its host and port")
    if url.username is not None or url.password is not None:
        raise ValueError("the URL must not contain a user name or password: enter them in their own fields")
    if url.query or url.fragment or "?" in text or "#" in text:
        raise ValueError("the URL must not have a query or a fragment")
    if port == 0:
        raise ValueError("port 0 cannot be connected to")
    check_address(host)
    return text.rstrip("/")


def check_resolved(text: str) -> None:
    """Check every address that the hosts of checked URLs resolve to now. Raises AddressRefused; a name that does not
    resolve within some seconds is no error, since each connection checks it again. Blocks for that time at most."""
    hosts = list(dict.fromkeys(urlsplit(url).hostname or "" for url in text.split()))
    for host, found in look_up_all(hosts, 0).items():
        for address in found:
            try:
                check_address(str(address))
            except AddressRefused as error:
                raise AddressRefused(f"{host}: {error}") from None


def check_address(host: str) -> None:
    """Raise AddressRefused for an IP address that a broker must not have. Names pass."""
    try:
        address = _real(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return  # a name
    if address.is_link_local:
        raise AddressRefused(f"{address} is refused: link-local addresses have no brokers, but metadata services")
    if address.is_unspecified or (address.version == 4 and address in _THIS_NETWORK):
        raise AddressRefused(f"{address} is refused: it is no address of a machine; enter that of the broker")
    if address in _METADATA:
        raise AddressRefused(f"{address} is refused: it has a metadata service of a cloud, and no broker")
    if address.is_multicast:
        raise AddressRefused(f"{address} is refused: it is a multicast address")


_THIS_NETWORK = ipaddress.IPv4Network("0.0.0.0/8")
#: RFC 6052 and RFC 8215.
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/96")
#: Metadata services that are not link-local, of AWS, Alibaba Cloud and Azure, as their manuals name them.
_METADATA = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16")))


def _real(address: Address) -> Address:
    """Return the IPv4 address that is embedded in an IPv6 address, else the address."""
    if isinstance(address, ipaddress.IPv6Address):
        if any(address in network for network in _TRANSLATED):
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1] or address
    return address
