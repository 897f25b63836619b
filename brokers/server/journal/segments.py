"""The segments of a journal: the head, to which groups are appended, the others in use, the free ones, and a reserve.

Some free files are reserved: for removals, so that none is refused on a full disk, and for copies that free segments.
A segment begins with the list of the others in use (`groups.InUse`), and how far each goes: so a group that was refused
after its segment's last one does not come back, and a segment that is lost is noticed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from pathlib import Path

from brokers.server.journal.groups import HEAD_BYTES, MORE, Draft
from brokers.server.journal.listing import Listing
from brokers.server.journal.message_index import MessageIndex
from brokers.server.journal.reading_lock import FreeingLock
from brokers.server.journal.runs import Segment
from brokers.server.journal.segment_file import CONTENT, Header, SegmentFile, WriteFailed, sync_folder
from brokers.server.sqlite_file import DiskFull, StoreError

#: Free files that stay, besides the reserve and a quarter of those in use.
SPARE_FILES = 2
#: Segments that are freed, and files that are deleted, one after the other: groups of messages wait meanwhile.
FREED_AT_ONCE = 16
#: A segment is at least this many times as large as what it begins with, of which most are the names of queues.
OPENING_PART = 4


class Purpose(IntEnum):
    """Why a group is written: how many of the reserved files must stay unused, at most."""

    REMOVAL = 0
    COPY = 1
    MESSAGES = 2


class Segments:
    """`folder`: of the journal. `size`: of a file, bytes. `reserved`: files of the reserve; none if the messages need
    not survive the process. `free`: files, in the order in which they are used. `opening_bytes`: of what the
    newest segment begins with."""

    def __init__(
        self, folder: Path, index: MessageIndex, size: int, *, reserved: int = Purpose.MESSAGES, durable: bool = True
    ) -> None:
        self.folder = folder
        self.index = index
        self.size = size
        self.opening_bytes = 0
        self.head: Segment | None = None
        self._newest = next(reversed(index.segments.values()), None)  # the head, if there is one
        self.free: list[SegmentFile] = []
        self.sequence = 0  # of the last group
        self.serial = 0  # of the newest segment
        self._durable = durable
        self._reserved = reserved if durable else 0
        self._next_file = 1
        self._lost: dict[int, int] = {}
        self._previous: dict[SegmentFile, int] = {}  # the serials of files that are free
        self._surplus: list[SegmentFile] = []  # free, and useless once no list names them
        self._useless: list[SegmentFile] = []
        self._doubtful: list[tuple[SegmentFile, Header]] = []  # neither begun nor freed, and what the header should be
        self._full = False  # the disk, when a file was needed last
        self.freeing = FreeingLock(folder if durable else None)

    def take_over(self, free: Sequence[tuple[SegmentFile, int]], names: Sequence[str], lost: Mapping[int, int]) -> None:
        """Take over what a start has found: the free files with their last serial, the names of all files, and the
        segments that should be there: lists name them as long as they are lost, so that it is found again."""
        self._lost = dict(lost)
        self._previous.update(free)
        usual = [file for file, _ in free if file.size == self.size]
        self.free = usual[: self._most_free]  # more of them if a start follows a purge
        self._surplus = usual[self._most_free :]
        self._surplus += [file for file, _ in free if file.size != self.size]  # some were not created completely
        self._next_file = 1 + max([int(name.partition(".")[0]) for name in names], default=0)

    def reserve(self) -> None:
        """Allocate the reserve, or what the disk has room for of it. Raises StoreError for other reasons."""
        with suppress(DiskFull):
            while len(self.free) < self._reserved:
                self.free.append(self._create(self.size, filled=False))

    @property
    def usual_size(self) -> int:
        """Of the files of new segments, bytes: more than of others if there are very many names."""
        return max(self.size, OPENING_PART * self.opening_bytes)

    @property
    def has_room(self) -> bool:
        """Whether there is a free file for messages."""
        return len(self.free) + self._is_spent() > self._reserved

    @property
    def needs_reserve(self) -> bool:
        return len(self.free) < self._reserved

    @property
    def _most_free(self) -> int:
        return self._reserved + SPARE_FILES + self.used_files // 4

    @property
    def used_files(self) -> int:
        return len(self.index.segments)

    # -- writing ------------------------------------------------------------------------------------------------

    def append(self, draft: Draft, purpose: Purpose) -> None:
        """Write a group, and apply it. Raises DiskFull if there is no room for it, WriteFailed if it may be on the disk
        or not: then its segment is given up, and a start does not recover the group. StoreError otherwise."""
        if not self._durable and not draft.bodies:  # no start reads them: they need no space
            self.index.apply(Segment(SegmentFile(self.folder, 0), 0, b"", 0, 0), draft.changes, 0)
            return
        head = self.head
        size = draft.size
        if self._full and head is not None:
            head.listing = None  # its space is needed
        if head is None or head.end + size + _listing_bytes(head, draft) > head.file.size:
            self._append_to_new(draft, purpose)
            return
        sequence = self.sequence + 1
        pieces = draft.pieces(head.salt, sequence)
        try:
            head.file.write(head.end, pieces)
        except WriteFailed as error:
            self._abandon(head)
            raise DiskFull(str(error)) if error.full else error from error
        at = head.end + len(pieces[0])
        if head.listing is not None:
            head.listing.add(head.end, pieces[0][HEAD_BYTES:], draft.body_bytes)
        head.end += size
        head.last = self.sequence = sequence
        self.index.apply(head, draft.changes, at)

    def _append_to_new(self, draft: Draft, purpose: Purpose) -> None:
        self._settle()
        first, listed = self._opening().followed_by(draft), len(self.index.segments)
        self.opening_bytes, size = first.size - draft.size, self.usual_size
        with_names = True
        try:
            file = self._take(CONTENT + first.size if size == self.size else size + draft.size, purpose)
        except DiskFull:
            if size == self.size:
                raise
            with_names = False  # they are in earlier segments, and in the next one for which there is room
            first = self._opening(with_names=False).followed_by(draft)
            file = self._take(CONTENT + first.size, purpose)
        if len(self.index.segments) < listed:  # some were freed for it: a list must not name files that are deleted
            first = self._opening(with_names=with_names).followed_by(draft)
        before, sequence = self._previous.pop(file, 0), self.sequence + 1
        serial, salt = self.serial + 1, os.urandom(8)
        self.serial = serial  # not used again, also if this fails
        pieces = first.pieces(salt, sequence)
        try:
            file.write_header(Header(True, serial, before, sequence, salt), pieces)
        except WriteFailed as error:
            self._return_unused(file, serial, before)
            raise DiskFull(str(error)) if error.full else error from error
        except StoreError:
            self._put_back(file, before)
            raise
        if self.head is not None:
            _write_listing(self.head)
            self.head.file.close_writing()
        self.head = segment = Segment(file, serial, salt, CONTENT + first.size, sequence)
        listing = Listing()
        listing.add(CONTENT, pieces[0][HEAD_BYTES:], first.body_bytes)
        if self._durable and not self._full and segment.end + listing.size <= file.size:
            segment.listing = listing
        self.sequence = sequence
        self._newest = segment
        self.index.add(segment)
        self.index.apply(segment, first.changes, CONTENT + len(pieces[0]))
        self._useless += self._surplus
        self._surplus.clear()
        self.delete_useless()

    def _opening(self, *, with_names: bool = True) -> Draft:
        """What a segment begins with: the others in use, and what is not with the messages. The names of all queues,
        also of those that have no messages now: a queue is named once."""
        index, opening = self.index, Draft()
        last = self._lost | {serial: each.last + MORE * each.has_more for serial, each in index.segments.items()}
        opening.list_segments(last, with_names=with_names)
        opening.last_queue(index.last_queue)
        for queue, name in index.names.items() if with_names else ():
            opening.name(queue, name)
        return opening

    def _take(self, size: int, purpose: Purpose) -> SegmentFile:
        """Take a file of at least this size; one of the reserve if the disk is full. Raises DiskFull, StoreError."""
        if size > self.size:
            return self._create(size + -size % min(self.size, 1 << 20))
        self._full = False
        if not self.has_room:
            try:
                return self._create(self.size)
            except DiskFull:
                self._full = True
                with suppress(StoreError):
                    self.free_what_is_not_needed(in_need=True)  # which waits for the end of a backup, otherwise
                if not self.has_room and len(self.free) + self._is_spent() <= min(purpose, self._reserved):
                    raise
                if not self.free and self._newest is not None:
                    self._release(self._newest)  # rather than refuse a removal
        return self.free.pop(0)

    def _create(self, size: int, *, filled: bool = True) -> SegmentFile:
        while self.delete_useless():
            pass
        path = self.folder / f"{self._next_file:08}.segment"
        try:
            file = SegmentFile.create(path, size, durable=self._durable, filled=filled and self._durable)
            self._next_file += 1
            if self._durable:
                sync_folder(self.folder)
        except WriteFailed as error:
            with suppress(OSError):
                path.unlink()
            raise DiskFull(str(error)) if error.full else error from error
        return file

    def _abandon(self, head: Segment) -> None:
        """Write no more to the head, after a group that was refused. The next segment's list says where it ends; until
        there is one, the group is made invalid, if the disk allows it."""
        self.head = None
        with suppress(StoreError):
            head.file.write(head.end, [bytes(HEAD_BYTES)])
        head.file.close_writing()

    def _return_unused(self, file: SegmentFile, serial: int, before: int) -> None:
        """Free a file whose first group was refused. If that fails, too, it may be the newest segment on the disk, and
        its list says where the head ends: then the head gets no more groups. The next list does not name it."""
        self._doubtful.append((file, Header(False, serial, before, 0, bytes(8))))
        self._settle()
        if self._doubtful:
            self.head = None

    def _settle(self) -> None:
        """Free files that could not be freed when their first groups were refused, if the disk can write them now."""
        for file, header in list(self._doubtful):
            with suppress(StoreError):
                file.write_header(header)
                self._doubtful.remove((file, header))
                self._put_back(file, header.replaces)
            file.close()

    def _put_back(self, file: SegmentFile, before: int) -> None:
        """Free a file that was taken, and is in no list."""
        if file.size == self.size:
            self._previous[file] = before
            self.free.append(file)
        else:
            self._surplus.append(file)

    # -- freeing ------------------------------------------------------------------------------------------------

    def free_what_is_not_needed(self, *, in_need: bool = False) -> bool:
        """Free some of the segments that have no messages, and no changes that are needed; return whether there may be
        more. While a backup reads the journal it frees none, unless `in_need`: the disk is full; the backup notices
        that. Raises StoreError."""
        if self.index.emptied:
            with self.freeing.taken() as taken:
                if taken or in_need:
                    return self._free()
        return False

    def _free(self) -> bool:
        """Free them, but for the newest one: until there is another, its list is the only one that says which files are
        in use, and the list before it may name some that have been freed or deleted since."""
        index, failed, tried, freed = self.index, None, set[Segment](), 0
        index.emptied = False
        keep = self._newest if self._durable else self.head
        while free := [s for s in index.segments.values() if s is not keep and s not in tried and self.is_free(s)]:
            for segment in free:
                tried.add(segment)
                try:
                    self._release(segment)
                    freed += 1
                except StoreError as error:
                    segment.file.close_writing()
                    index.emptied, failed = True, error  # it is tried again
                if freed == FREED_AT_ONCE:
                    break
            if freed == FREED_AT_ONCE:
                index.emptied = True  # there may be more
                break
        if failed is not None:
            raise failed
        return index.emptied

    @staticmethod
    def is_free(segment: Segment) -> bool:
        return not (segment.left or segment.refs or segment.drops or segment.finding)

    def _is_spent(self) -> bool:
        """Whether the newest segment is not needed but for its list, and its file will be free with the next one."""
        newest = self._newest
        if newest is None or newest.file.size != self.size:  # a larger file is deleted
            return False
        return self.head is None and self._durable and self.is_free(newest)

    def _release(self, segment: Segment) -> None:
        # On the disk before anything that refers to it is freed: else its messages would be back after a start.
        segment.file.write_header(Header(False, segment.serial, 0, 0, bytes(8)))
        if segment is self._newest:
            self._newest = None
        self.index.release(segment)
        self._put_free(segment)

    def _put_free(self, segment: Segment) -> None:
        file = segment.file
        if file.size != self.size or len(self.free) >= self._most_free:
            (self._surplus if self._durable else self._useless).append(file)  # no list is read of the temporary store
        else:
            with suppress(StoreError):
                file.uncache()
            file.close()
            self._previous[file] = segment.serial
            self.free.append(file)

    def delete_useless(self) -> bool:
        """Delete some of the files of which the newest list says that they are free; return whether there are more. One
        that cannot be is found at a start."""
        for file in self._useless[:FREED_AT_ONCE]:
            file.close()
            with suppress(OSError):
                file.path.unlink()
        del self._useless[:FREED_AT_ONCE]
        return bool(self._useless)

    def end(self) -> None:
        """Write a last group without messages: then a damaged group before it is not mistaken for a torn one, and a
        start knows that there is no later segment. No other group ends with this change."""
        self._settle()
        if self.head is not None:
            draft = Draft()
            draft.last_queue(self.index.last_queue)
            with suppress(StoreError):
                self.append(draft, Purpose.REMOVAL)
                if self.head is not None:
                    _write_listing(self.head)

    def close(self) -> None:
        for segment in self.index.segments.values():
            segment.file.close()
        for file in (*self.free, *self._surplus, *self._useless, *(file for file, _ in self._doubtful)):
            file.close()
        self.freeing.close()


def _listing_bytes(head: Segment, draft: Draft) -> int:
    """Return the space that the listing of the head needs with this group."""
    return 0 if head.listing is None else head.listing.size + Listing.more_bytes(draft.change_bytes)


def _write_listing(head: Segment) -> None:
    """Write the listing of a segment that gets no more groups. A start can do without."""
    if head.listing is not None:
        packed = head.listing.pack(head.salt, head.last)
        with suppress(StoreError):
            head.file.write_unsynced(head.file.size - len(packed), packed)
        head.listing = None
