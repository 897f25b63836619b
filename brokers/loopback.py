"""Detection of addresses that only this machine can reach. Pure; for broker, drivers and supervisor alike."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """`host`: an address, or a name; of all names only `localhost` certainly means this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
