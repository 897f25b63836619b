"""Compaction: the last messages of mostly empty segments are copied to the head, so that these segments are free.

Also a segment without messages may be needed: it has removals of messages in others. Then what is left of those is
written again, in one change each, which makes all earlier changes there superfluous.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import accumulate

from google_crc32c import value

from brokers.server.journal.groups import Draft, Put
from brokers.server.journal.message_index import MessageIndex
from brokers.server.journal.runs import Run, Segment
from brokers.server.journal.segment_file import CONTENT, Unreadable
from brokers.server.journal.segments import Purpose, Segments

log = logging.getLogger("headgate.broker")

#: Bytes of messages that are copied at once: a group waits for that.
COPIED = 256 << 10
#: Files in use that are never too many.
FEW_FILES = 4
#: Part of a segment's messages that may be left when they are copied, 0 to 1: usually, and when the disk is full; with
#: the space that copies take besides bodies. Not of the file, whose end may be unused: copies would be copied without
#: end.
LEFT_PART, LEFT_PART_IN_NEED = 0.6, 0.9
#: A segment with fewer messages, as part of the file, is copied whatever is left: starts leave such ones.
SHORT_PART = 0.25


class Compaction:
    def __init__(self, index: MessageIndex, segments: Segments) -> None:
        self._index = index
        self._segments = segments

    def step(self, *, in_need: bool, for_reserve: bool = False) -> bool:
        """Do a small part of what is to be done; return whether there is more. `in_need`: the disk is full, and every
        segment counts. `for_reserve`: so is the reserve used: whatever can be freed is. Raises StoreError."""
        self._index.drop_all()
        segment = self._chosen(in_need=in_need, for_reserve=for_reserve)
        if segment is None:
            return False
        if not in_need:
            with self._segments.freeing.taken() as taken:
                if not taken:  # a backup reads the journal: nothing could be freed
                    return False
        draft = Draft()
        if segment.runs:
            if not self._copy(draft, segment):
                return True
        else:
            draft.leave(self._index.left_of(min(_known(segment.refs), key=lambda each: each.serial)))
        self._segments.append(draft, Purpose.COPY)
        self._segments.free_what_is_not_needed(in_need=in_need)
        return True

    def _chosen(self, *, in_need: bool, for_reserve: bool) -> Segment | None:
        """The segment with the fewest bytes left, if there are too many files for what is stored."""
        files = self._index.segments.values()
        left_bytes = self._index.left_bytes
        used = sum(segment.file.size for segment in files)
        most = 2 * left_bytes + FEW_FILES * self._segments.usual_size
        if in_need:
            most = left_bytes + self._segments.opening_bytes + 2 * self._segments.size
        if used <= most and not for_reserve:
            return None
        part = LEFT_PART_IN_NEED if in_need else LEFT_PART
        possible = [
            segment
            for segment in files
            if segment is not self._segments.head
            and not segment.finding
            and (segment.runs or _known(segment.refs))
            and (segment.left_cost <= part * segment.put_cost or segment.put_cost <= SHORT_PART * self._room(segment))
        ]
        return min(possible, key=lambda segment: segment.left_cost, default=None)

    def _room(self, segment: Segment) -> int:
        """Bytes that its file has for messages and their listing, which repeats what the segment begins with."""
        return segment.file.size - CONTENT - 2 * self._segments.opening_bytes

    def _copy(self, draft: Draft, segment: Segment) -> bool:
        """Add the first messages of a segment to the draft. Return False if some are damaged, or the
        disk cannot read them: then it stays."""
        for run in list(segment.runs):
            if not self._copy_run(draft, run):
                first, queue = run.put.first, run.put.queue
                segment.finding = f"{segment.file.path} is damaged: message {first} of queue {queue} or one behind it"
                log.error("%s. It stays as it is", segment.finding)
                return False
            if draft.body_bytes >= min(COPIED, self._segments.size // 8):
                break
        return True

    def _copy_run(self, draft: Draft, run: Run) -> bool:
        """Add what is left of a run."""
        try:
            with self._index.lock:  # a reader may open the file, too
                pieces = pieces_of(run)
        except Unreadable:
            return False
        if not all(_are_sound(put, bodies) for put, bodies in pieces):
            return False
        copy_pieces(draft, run, pieces)
        return True


def _known(segments: Iterable[Segment]) -> list[Segment]:
    """Those of which it is known what is left. What a start could not read of another one may be readable again, and
    would be removed by a change that lists what is left."""
    return [segment for segment in segments if not segment.finding]


#: Messages with successive numbers, and their bodies.
Piece = tuple[Put, list[bytes]]


def pieces_of(run: Run, offset: int = 0, *, around: bool = False) -> list[Piece]:
    """Read what is left of a run, with the checksums that it has; its last messages come first: see
    `message_index._Lane`. `offset`: is added to the queue's number. `around`: what the disk cannot read is zeros.
    Raises Unreadable for it otherwise; StoreError."""
    put, file = run.put, run.segment.file
    read = file.read_around if around else file.read
    sizes_and_sums = memoryview(put.parts).cast("I")
    sizes, sums = sizes_and_sums[: put.count], sizes_and_sums[put.count :]
    ends = list(accumulate(sizes, initial=0))
    pieces = []
    for low, high in reversed(_ranges(run)):
        data = read(run.at + ends[low], ends[high] - ends[low])
        bodies = [data[ends[at] - ends[low] : ends[at + 1] - ends[low]] for at in range(low, high)]
        expires = put.expires[low:high] if put.expires else None
        parts = bytes(sizes[low:high]) + bytes(sums[low:high])
        pieces.append((Put(put.queue + offset, put.first + low, high - low, parts, expires), bodies))
    return pieces


def copy_pieces(draft: Draft, run: Run, pieces: list[Piece]) -> None:
    """Add what is left of a run to a draft."""
    for put, bodies in pieces:
        draft.copy(put, bodies, sum(map(len, bodies)))
    counts = {run.put.first + at: n for at, n in (run.failed or {}).items() if not run.gone >> at & 1}
    if counts:
        draft.fail(pieces[0][0].queue, counts)


def _are_sound(put: Put, bodies: list[bytes]) -> bool:
    return list(map(value, bodies)) == list(memoryview(put.parts).cast("I")[put.count :])


def _ranges(run: Run) -> list[tuple[int, int]]:
    """Return the positions of the messages that are left, as ranges."""
    pieces: list[tuple[int, int]] = []
    for at in range(run.put.count):
        if not run.gone >> at & 1:
            if pieces and pieces[-1][1] == at:
                pieces[-1] = pieces[-1][0], at + 1
            else:
                pieces.append((at, at + 1))
    return pieces
