"""The kinds of recommendations."""

from __future__ import annotations

#: Kinds of recommendations, the most urgent first.
KINDS = (
    "no-consumer",
    "unacknowledged",
    "add-consumers",
    "raise-capacity",
    "no-room",
    "lower-resume",
    "never-reached",
    "no-limit",
    "none",
)
