"""Limits on what the whole broker or a virtual host may use: memory, store and temp store.

Two pairs of levels work alike. A virtual host's store has an *overfull* and an *underfull* limit in bytes on disk
(Qpid's Java broker); the broker has a limit on memory, store and temp store each (ActiveMQ's systemUsage), absolute or
a percentage of what there is. While one of them is exceeded, every producer that it concerns is blocked, for a reason
of its own that stands beside an overfull queue's and an operator's (DOMAIN.md section 7).

Pure: usage is measured elsewhere and handed in. Past the limit is *above* it; the condition ends *below* the
underfull limit, or at it where both are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from brokers.engine.values.limits import InvalidPolicy

Value = int | str


class Resource(Enum):
    """What can run short. The value is the reason that a producer is blocked for."""

    STORE = "store-overfull"
    MEMORY = "memory-overfull"
    TEMP = "temp-overfull"


#: The words of MST-1008 and MST-1009, as Qpid's Java broker has them.
STORE_OVERFULL_WORDS = "Store overfull, flow control will be enforced"
STORE_UNDERFULL_WORDS = "Store overfull condition cleared"


class Input(Enum):
    ABOVE = "more is used than the overfull limit"
    BELOW = "no more is used than the underfull limit"


class Change(Enum):
    OVERFULL_BEGAN = "overfull began"
    OVERFULL_ENDED = "overfull ended"


#: (overfull, what was found) -> (overfull, what changed). Whatever is not here changes nothing.
TABLE: Mapping[tuple[bool, Input], tuple[bool, Change]] = {
    (False, Input.ABOVE): (True, Change.OVERFULL_BEGAN),
    (True, Input.BELOW): (False, Change.OVERFULL_ENDED),
}


@dataclass(frozen=True, slots=True)
class Levels:
    """In bytes. `overfull` 0: no limit."""

    overfull: int = 0
    underfull: int = 0

    def measure(self, used: int) -> Input | None:
        """What so many bytes in use say; None between the two limits, where nothing changes."""
        if self.overfull and used > self.overfull:
            return Input.ABOVE
        if used < self.underfull or self.underfull == self.overfull:
            return Input.BELOW
        return None


NO_LEVELS = Levels()


class Usage:
    """One resource of one owner: its levels, and whether it is overfull. `used` in bytes, what waits outside queues
    included; `waiting`: that part of it. `pledged`: bytes that may still come on credit that producers have.
    `full`: it takes no more, whatever its levels are. `whole`: while it is overfull it blocks every producer,
    whatever that sends. `arriving`: bytes of messages of which not all frames are here. `most`: bytes above which
    nothing is kept that comes, reckoned with those; 0: not known."""

    __slots__ = ("arriving", "full", "levels", "most", "overfull", "pledged", "resource", "used", "waiting", "whole")

    def __init__(self, resource: Resource, *, whole: bool = False) -> None:
        self.resource = resource
        self.whole = whole
        self.levels = NO_LEVELS
        self.used = 0
        self.waiting = 0
        self.pledged = 0
        self.arriving = 0
        self.most = 0
        self.full = False
        self.overfull = False

    @property
    def reason(self) -> str:
        return self.resource.value

    @property
    def exhausted(self) -> bool:
        """No message may be kept that comes now, not even outside queues: there may be no room to keep it."""
        return self.used + self.arriving > self.most > 0

    @property
    def exceeded(self) -> bool:
        """More is used than its limit, and nothing has followed from it yet."""
        return self.used > self.levels.overfull > 0 and not self.overfull

    @property
    def admits(self) -> bool:
        """A message that is here already may go into its queue: what is in the queues alone is within the limit. What
        waits outside them uses memory as well, so memory would never be freed if it had to wait for itself."""
        return not self.overfull or (not self.full and self.levels.measure(self.used - self.waiting) is Input.BELOW)

    def update(self, used: int, *, full: bool = False) -> Change | None:
        """Take in what is used now; what changed by it, None if nothing did."""
        self.used, self.full = used, full
        seen = Input.ABOVE if full else self.levels.measure(used)
        if seen is None:
            return None
        self.overfull, change = TABLE.get((self.overfull, seen), (self.overfull, None))
        return change

    def release_condition(self) -> str:
        """What would end it, in words."""
        what = {Resource.STORE: "the store", Resource.MEMORY: "memory", Resource.TEMP: "the temp store"}[self.resource]
        if self.full:
            return "the disk has room for the store again"
        limit = self.levels.underfull
        comes = "comes down to" if limit == self.levels.overfull else "comes below"
        return f"{what} {comes} {limit:,} bytes (now {self.used:,})"


def store_levels(overfull: int | None, underfull: int | None) -> Levels:
    """A virtual host's `store_overfull_bytes` and `store_underfull_bytes`; None or 0: not set. Without the second, it
    is equal to the first. Raises InvalidPolicy, naming both values."""
    if not overfull:
        if underfull:
            raise InvalidPolicy(
                {
                    "store_underfull_bytes": f"store_underfull_bytes is {underfull} and store_overfull_bytes is not"
                    " set: there is nothing to come down from"
                }
            )
        return NO_LEVELS
    underfull = underfull or overfull
    if underfull > overfull:
        raise InvalidPolicy(
            {
                "store_underfull_bytes": f"store_underfull_bytes is {underfull} and store_overfull_bytes is"
                f" {overfull}: underfull above overfull would lock flow control on"
            }
        )
    return Levels(overfull, underfull)


def limit_levels(field: str, limit: Value | None, *, total: int | None, available: int) -> Levels:
    """A broker's `memory_limit`, `store_limit` or `temp_limit`: bytes, or a percentage such as "80%" of `total` bytes,
    or where that is not set (None or 0) of the `available` ones; None or 0: no limit. A `total` below the limit is an
    error that names both, raised as InvalidPolicy. The condition ends at the limit itself, as ActiveMQ has it."""
    if isinstance(limit, str):
        level = int((total or available) * Fraction(limit.rstrip("%")) / 100)
        level = max(level, 1) if Fraction(limit.rstrip("%")) else 0
        return Levels(level, level)
    if not limit:
        return NO_LEVELS
    if total and limit > total:
        total_field = field.replace("limit", "total")
        raise InvalidPolicy({field: f"{field} is {limit} and {total_field} is {total}: there is not so much"})
    return Levels(limit, limit)
