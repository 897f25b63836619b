"""Pin a bulk edit to its preview: a digest of the selected queues and of the values that each of them gets.

A filter is evaluated again when an edit is applied, and factors multiply what is effective then. The digest says
whether the result is still what was previewed, also for thousands of queues, whose names no request has to repeat.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

from console.operations.attempt import PreviewOutdated


def digest_of(names: Iterable[str], wanted: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the digest of an edit. `names`: all selected queues, also those that get no values."""
    hashed = blake2b(digest_size=16)
    for name in sorted(names):
        hashed.update(json.dumps([name, wanted.get(name)], sort_keys=True).encode())
    return hashed.hexdigest()


def require_same(previewed: str, names: Iterable[str], wanted: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise PreviewOutdated unless the edit is the one with this digest; empty: it was not previewed."""
    if previewed and previewed != digest_of(names, wanted):
        queues = "1 queue" if len(wanted) == 1 else f"{len(wanted):,} queues"
        raise PreviewOutdated(
            "the queues of this edit, or the values that they would get, have changed since the preview: it would now"
            f" change {queues}. Nothing was changed. Preview it again"
        )
