"""The listing of a segment: where its groups are, and their changes, at the end of the file.

It is written when the segment is left, also at a stop, so that a start reads one piece and not each group, of which
there are thousands if messages were stored one by one. Nothing depends on it: it is not synced, and one that is
missing, torn or damaged has the groups read singly. Its checksum begins with the segment's salt, and so does what it
ends with, as those of groups and their heads do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct

from google_crc32c import value

from brokers.server.journal.groups import SALT_BYTES
from brokers.server.journal.segment_file import Header, SegmentFile, Unreadable

#: At the very end: beginning of the salt, checksum of salt, the rest of this, and all before it; sequence of the last
#: group; number of groups, bytes of their changes.
_TRAILER = Struct("<4sIQII")
_REST = 8  # where the rest begins
#: Of a group: where it begins, bytes of its changes, and of its bodies.
_PLACE = Struct("<QII")


@dataclass(slots=True)
class Listing:
    """What is listed of a segment that is being written. `size`: of the listing, in bytes."""

    places: list[bytes] = field(default_factory=list)
    changes: list[bytes] = field(default_factory=list)
    size: int = _TRAILER.size

    @staticmethod
    def more_bytes(change_bytes: int) -> int:
        """How much larger the listing becomes with a group that has changes of this size."""
        return _PLACE.size + change_bytes

    def add(self, at: int, changes: bytes, body_bytes: int) -> None:
        self.places.append(_PLACE.pack(at, len(changes), body_bytes))
        self.changes.append(changes)
        self.size += _PLACE.size + len(changes)

    def pack(self, salt: bytes, last: int) -> bytes:
        """Return what is to be written to the end of the file. `last`: the sequence of the last group."""
        changes = b"".join(self.changes)
        begin = salt[:SALT_BYTES]
        rest = _TRAILER.pack(begin, 0, last, len(self.places), len(changes))[_REST:]
        content = b"".join(self.places) + changes
        checksum: int = value(salt + rest + content)
        return content + begin + checksum.to_bytes(4, "little") + rest


#: Where a group begins, the bytes of its bodies, and its changes.
Listed = tuple[int, int, bytes]


def read_listing(file: SegmentFile, header: Header, last: int | None) -> Iterator[Listed] | None:
    """Return all groups up to the sequence `last`; None if there is no such listing, or it is damaged. `last` None:
    up to any, since a segment that is listed gets no more. Raises StoreError."""
    try:
        return _read_listing(file, header, last)
    except Unreadable:
        return None


def _read_listing(file: SegmentFile, header: Header, last: int | None) -> Iterator[Listed] | None:
    end = file.size - _TRAILER.size
    trailer = file.read(end, _TRAILER.size) if end > 0 else b""
    if len(trailer) < _TRAILER.size or not trailer.startswith(header.salt[:SALT_BYTES]):
        return None
    _, checksum, found, groups, change_bytes = _TRAILER.unpack(trailer)
    size = groups * _PLACE.size + change_bytes
    if last not in (None, found) or groups != found - header.first + 1 or groups < 1 or size > end:
        return None
    content = file.read(end - size, size)
    if value(header.salt + trailer[_REST:] + content) != checksum:
        return None
    return _groups(content, groups)


def _groups(content: bytes, groups: int) -> Iterator[Listed]:
    done = groups * _PLACE.size
    for at, change_bytes, body_bytes in _PLACE.iter_unpack(content[:done]):
        changes = content[done : done + change_bytes]
        done += change_bytes
        yield at, body_bytes, changes
