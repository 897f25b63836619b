"""The part of the landing folder's contract (`landing.py`) that needs no pyarrow, which takes 60 MB."""

from __future__ import annotations

from collections.abc import Mapping

#: Rows with equal values in these columns are duplicates.
KEYS: Mapping[str, tuple[str, ...]] = {
    "events": ("broker", "run", "number"),
    "samples": ("broker", "virtualhost", "queue", "at"),
    "coverage": ("broker", "run", "at", "until", "followed"),
}


class LandingError(Exception):
    """The landing folder cannot be used. The message is one line with its name and the reason."""
