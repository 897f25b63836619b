"""Which addresses are reachable from this machine alone. Pure; for broker, drivers and supervisor alike."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """`host`: an address, or a name; no name but `localhost` is sure to mean this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
