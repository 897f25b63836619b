"""A copy of a journal that no process writes, in which the numbers of its queues are higher.

For messages that are adopted from another broker. Bodies are copied with the checksums they have, so that a damaged one
stays detectable, and so does one that the disk cannot read, of which there are zeros.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from google_crc32c import value

from brokers.engine.ports import Place
from brokers.server.journal.compaction import Piece, copy_pieces, pieces_of
from brokers.server.journal.groups import Draft
from brokers.server.journal.message_index import MessageIndex
from brokers.server.journal.recovery import Found
from brokers.server.journal.segments import Purpose, Segments
from brokers.server.journal.stamp_file import Stamp, write_stamp
from brokers.server.sqlite_file import StoreError, make_folder

#: Of a segment's file, and of bodies that are copied at once.
SEGMENT_BYTES, COPIED = 16 << 20, 1 << 20


def write_renumbered(found: Found, folder: Path, stamp: Stamp, offset: int) -> list[Place]:
    """Write the copy to a folder, with this stamp, and sync it. Return the messages, by the numbers that they had,
    whose bodies the disk cannot read: they have wrong ones in the copy, and their checksums. Raises StoreError; then
    the folder is worth nothing."""
    unreadable: list[Place] = []
    shutil.rmtree(folder, ignore_errors=True)
    try:
        make_folder(folder)
    except OSError as error:
        raise StoreError(f"cannot write {folder}: {error.strerror or error}") from error
    segments = Segments(folder, MessageIndex(), SEGMENT_BYTES)
    with closing(segments):
        draft = Draft()
        for queue in found.index.queues():
            if queue in found.index.names:
                draft.name(queue + offset, found.index.names[queue])
        for segment in found.index.segments.values():
            for run in sorted(segment.runs, key=lambda each: each.at):
                pieces = pieces_of(run, offset, around=True)
                copy_pieces(draft, run, pieces)
                if segment.file.unreadable:
                    unreadable += [(run.put.queue, number) for number in _unsound(pieces)]
                if draft.body_bytes >= COPIED:
                    segments.append(draft, Purpose.MESSAGES)
                    draft = Draft()
            segment.file.close()
        if draft.changes:
            segments.append(draft, Purpose.MESSAGES)
        end = Draft()  # without messages: a damaged body in the group before it is not mistaken for a torn group
        end.last_queue(stamp.last_queue)
        segments.append(end, Purpose.MESSAGES)
        write_stamp(folder, stamp, max(segments.index.segments, default=0))
    return unreadable


def _unsound(pieces: Sequence[Piece]) -> Iterator[int]:
    """Yield the numbers of messages whose bodies are not as they were written."""
    for put, bodies in pieces:
        sums = memoryview(put.parts).cast("I")[put.count :]
        for number, (body, checksum) in enumerate(zip(bodies, sums, strict=True), put.first):
            if value(body) != checksum:
                yield number
