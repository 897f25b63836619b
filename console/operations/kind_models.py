"""What can be set at the brokers that administrators added, by their kinds, for processes that are not connected."""

from __future__ import annotations

from brokers.adapters.kinds import KINDS
from console.brokers.configured import configured, configured_now
from console.operations.policies import sets_resume_levels, settable_fields


def brokers_without_resume_levels() -> frozenset[str]:
    """Return the slugs of the brokers at which no resume level can be set."""
    configured_now()
    return frozenset(
        entry["slug"]
        for entry in configured()
        if entry.get("kind") in KINDS and not sets_resume_levels(settable_fields(KINDS[entry["kind"]].types()))
    )
