"""Limits on what the whole broker or a virtual host may use: memory, store and temp store.

A virtual host's store has an *overfull* and an *underfull* limit in bytes on disk (Qpid's Java broker); the broker has
a limit each on memory, store and temp store (ActiveMQ's systemUsage), absolute or a percentage of the available amount.
While a limit is exceeded, the producers whose messages use the resource are blocked, for a reason of its own beside
that of an overfull queue and an operator's (DOMAIN.md section 7).

Usage is measured elsewhere. A shortage begins *above* the overfull limit; it ends *below* the underfull limit, or at it
if both are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from brokers.engine.values.limits import InvalidPolicy

Value = int | str


class Resource(Enum):
    """A limited resource. The value is the reason that blocks producers."""

    STORE = "store-overfull"
    MEMORY = "memory-overfull"
    TEMP = "temp-overfull"


#: The texts of MST-1008 and MST-1009, as Qpid's Java broker writes them.
STORE_OVERFULL_WORDS = "Store overfull, flow control will be enforced"
STORE_UNDERFULL_WORDS = "Store overfull condition cleared"


class Input(Enum):
    ABOVE = "more is used than the overfull limit"
    BELOW = "no more is used than the underfull limit"


class Change(Enum):
    OVERFULL_BEGAN = "overfull began"
    OVERFULL_ENDED = "overfull ended"


#: (overfull, input) -> (overfull, change). All other pairs change nothing.
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
        """Compare `used` bytes with the limits; None between the two, where nothing changes."""
        if self.overfull and used > self.overfull:
            return Input.ABOVE
        if used < self.underfull or self.underfull == self.overfull:
            return Input.BELOW
        return None


NO_LEVELS = Levels()


class Usage:
    """One resource of one owner: its levels, and whether it is overfull. `used` in bytes, including `waiting`: messages
    outside queues. `pledged`: bytes that may still arrive on outstanding credit. `full`: it takes no more data,
    whatever its levels are. `blocks_all`: an overfull resource blocks every producer. `arriving`: bytes of messages
    whose last frame has not arrived. `most`: bytes, including `arriving`, above which new messages are rejected; 0: not
    known."""

    __slots__ = (
        "arriving",
        "blocks_all",
        "full",
        "levels",
        "most",
        "overfull",
        "pledged",
        "resource",
        "used",
        "waiting",
    )

    def __init__(self, resource: Resource, *, blocks_all: bool = False) -> None:
        self.resource = resource
        self.blocks_all = blocks_all
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
        """Whether new messages must be rejected, since there may be no memory even to park them."""
        return self.used + self.arriving > self.most > 0

    @property
    def exceeded(self) -> bool:
        """Whether more is used than the limit, and the shortage has not begun yet."""
        return self.used > self.levels.overfull > 0 and not self.overfull

    @property
    def admits(self) -> bool:
        """Whether a parked message may be enqueued: the messages in the queues alone are within the limit. Parked
        messages use memory as well; if they counted, they would wait for each other forever."""
        return not self.overfull or (not self.full and self.levels.measure(self.used - self.waiting) is Input.BELOW)

    def update(self, used: int, *, full: bool = False) -> Change | None:
        """Set the present usage. Return what changed, None if nothing did."""
        self.used, self.full = used, full
        level = Input.ABOVE if full else self.levels.measure(used)
        if level is None:
            return None
        self.overfull, change = TABLE.get((self.overfull, level), (self.overfull, None))
        return change

    def release_condition(self) -> str:
        """Say what would end the shortage."""
        what = {Resource.STORE: "the store", Resource.MEMORY: "memory", Resource.TEMP: "the temp store"}[self.resource]
        if self.full:
            return "the disk has room for the store again"
        limit = self.levels.underfull
        falls = "falls to" if limit == self.levels.overfull else "falls below"
        return f"{what} {falls} {limit:,} bytes (now {self.used:,})"


def store_levels(overfull: int | None, underfull: int | None) -> Levels:
    """Return the levels of a virtual host's `store_overfull_bytes` and `store_underfull_bytes`; None or 0: not set, and
    the second defaults to the first. Raises InvalidPolicy, naming both values."""
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
    """Return the levels of a broker's `memory_limit`, `store_limit` or `temp_limit`: bytes, or a percentage such as
    "80%" of `total` bytes, or of `available` bytes if `total` is None or 0; None or 0: no limit. Raises InvalidPolicy,
    naming both values, if `total` is below the limit. The shortage ends at the limit itself, as in ActiveMQ."""
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
