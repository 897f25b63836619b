"""Numbers of things in the texts of events and refusals; not in those of Qpid's own codes, by which logs are read."""

from __future__ import annotations


def counted(count: int, thing: str) -> str:
    """Return `1 message` or `1,234 messages`."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
