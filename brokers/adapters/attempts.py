"""Changes of several targets, of which each is tried whatever becomes of the others.

The user may have lost the permission for one virtual host, and one queue may be broken: the producers of all others are
started nevertheless. A broker that gives no answer twice in succession is away, and nothing more is tried: each attempt
would wait until its time is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from brokers.adapters.adapter import Faults, StopTarget
from brokers.admin import AdminError, BrokerUnreachable

#: Answers that are missing in succession until nothing more is tried.
_MISSING = 2


class Attempts:
    """`faults`: targets, by their id, whose change has failed, with the reason. `all_or_none`: the first fault is
    raised."""

    def __init__(self, *, all_or_none: bool = False) -> None:
        self.faults: dict[str, AdminError] = {}
        self._all_or_none = all_or_none
        self._missing = 0

    @contextmanager
    def of(self, target: StopTarget) -> Iterator[None]:
        """Enclose the change of a target. Raises BrokerUnreachable if the broker is away."""
        try:
            yield
        except BrokerUnreachable as error:
            self._missing += 1
            if self._all_or_none or self._missing >= _MISSING:
                raise
            self.faults[target.id] = error
        except AdminError as error:
            if self._all_or_none:
                raise
            self._missing = 0
            self.faults[target.id] = error
        else:
            self._missing = 0


def in_words(faults: Faults) -> str:
    """Return faults as a line: how many, and the first of them."""
    id_, error = next(iter(faults.items()))
    more = f" (and {len(faults) - 1:,} more)" if len(faults) > 1 else ""
    return f"{id_}{more}: {error}"
