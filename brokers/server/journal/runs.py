"""Where messages are stored: in segments, in runs of successive numbers."""

from __future__ import annotations

from collections.abc import Iterator

from brokers.server.journal.groups import Put
from brokers.server.journal.listing import Listing
from brokers.server.journal.segment_file import SegmentFile
from brokers.server.message_groups import Entry

#: Bytes that a message and a run take besides bodies: in the changes of a group, and once more in the listing.
MESSAGE_COST, RUN_COST = 16, 48


class Segment:
    """A file in use. `end`: behind its last group. `last`: the sequence of that. `left`, `left_bytes`: messages that
    are there, and their size. `put_cost`: as `left_cost`, of all that were put. `runs`: that have messages, in the
    order in which they were put. `refs`: see `message_index.py`. `finding`: what is damaged in it; it stays as it is
    then. `listing`: of the head, if there is room for one. `has_more`: there may be groups behind the last one, which
    the disk could not read. `drops`: changes in it that remove all messages of a queue, of which some are still
    there."""

    __slots__ = (
        "drops",
        "end",
        "file",
        "finding",
        "has_more",
        "last",
        "left",
        "left_bytes",
        "listing",
        "put_cost",
        "refs",
        "runs",
        "salt",
        "serial",
    )

    def __init__(self, file: SegmentFile, serial: int, salt: bytes, end: int, last: int) -> None:
        self.file = file
        self.serial = serial
        self.salt = salt
        self.end = end
        self.last = last
        self.left = 0
        self.left_bytes = 0
        self.put_cost = 0
        self.runs: dict[Run, None] = {}
        self.refs: set[Segment] = set()
        self.finding = ""
        self.listing: Listing | None = None
        self.has_more = False
        self.drops = 0

    @property
    def left_cost(self) -> int:
        """Bytes that copies of the messages take which are left, approximately."""
        return self.left_bytes + MESSAGE_COST * self.left + RUN_COST * len(self.runs)


class Run:
    """Messages with successive numbers in one place. `at`: where the bodies begin in the segment. `gone`: a bit for
    each that was removed. `left`: how many are there."""

    __slots__ = ("at", "failed", "gone", "left", "put", "segment")

    def __init__(self, put: Put, segment: Segment, at: int) -> None:
        self.put = put
        self.segment = segment
        self.at = at
        self.gone = 0
        self.left = put.count
        self.failed: dict[int, int] | None = None  # position -> failed deliveries

    def has(self, number: int) -> bool:
        at = number - self.put.first
        return 0 <= at < self.put.count and not self.gone >> at & 1

    def entries(self) -> Iterator[Entry]:
        put = self.put
        sizes, queue, failed, gone = memoryview(put.parts).cast("I"), put.queue, self.failed or {}, self.gone
        if not gone and not failed and put.expires is None:
            for number, size in enumerate(sizes[: put.count], put.first):
                yield queue, number, size, 0, 0
            return
        for at in range(put.count):
            if not gone >> at & 1:
                yield queue, put.first + at, sizes[at], failed.get(at, 0), put.expires[at] if put.expires else 0
