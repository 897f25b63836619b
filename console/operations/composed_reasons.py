"""Reasons of what the console does on behalf of a user, such as each batch of a job: its origin, and what was given."""

from __future__ import annotations

from brokers.input_limits import REASON


def composed_reason(origin: str, reason: str) -> str:
    """Return `origin: reason`, such as `message job 7: incident 42`, within the limit of a reason, with which brokers
    and forms refuse a longer one. A user's reason alone may be that long: then its end is cut."""
    whole = f"{origin}: {reason.strip()}" if reason.strip() else origin
    return whole if len(whole) <= REASON else f"{whole[: REASON - 1]}…"
