"""The writer of groups to a journal: usually one write for all of it; on a full disk, removals first.

`write` is the only part of a store that may run in another thread (`commit.py`). On a full disk the messages of a group
are refused, as a group. A removal is never refused: it fits into the head or the reserve. One that an error of the disk
prevented is tried again with every later group. Errors of anything but writing and syncing a group, such as freeing a
segment, cost no client anything, and are tried again.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Iterator, Sequence
from time import monotonic

from brokers.engine.ports import Place
from brokers.server.journal.compaction import Compaction
from brokers.server.journal.groups import Draft
from brokers.server.journal.message_index import MessageIndex
from brokers.server.journal.runs import Segment
from brokers.server.journal.segments import Purpose, Segments
from brokers.server.message_groups import COLUMNS, Body, Changes, Group, Messages, Written
from brokers.server.sqlite_file import DiskFull, StoreError

log = logging.getLogger("headgate.broker")

#: Longest run: messages, and bytes unless it is a single message.
RUN_MESSAGES, RUN_BYTES = 1024, 1 << 20
#: Removals in one group on a full disk: 32 KiB at most.
REMOVED_AT_ONCE = 4096
#: How long the reserve is not allocated again if there is no room for it, and nothing freed after an error, s.
WAIT_SECONDS = 1.0


class JournalWriter:
    """`used_bytes`: of all messages, after the last group. `done_bytes`: approximate disk space of all messages that
    have been written or refused."""

    def __init__(self, index: MessageIndex, segments: Segments) -> None:
        self._index = index
        self._segments = segments
        self._compaction = Compaction(index, segments)
        self._unwritten = Changes()  # of groups that could not be written
        self._refused = False
        self._not_before = 0.0  # s of the monotonic clock
        self._failed = False
        self._no_room: tuple[Segment | None, int] | None = None  # for a copy: the head, and the number of free files
        self.done_bytes = 0
        self.used_bytes = index.left_bytes

    @property
    def full(self) -> bool:
        """The store has refused messages, and since then neither the disk nor the files have had room for more."""
        if self._refused and (self._segments.has_room or self._room_on_disk() > 2 * self._segments.size):
            self._refused = False
        return self._refused

    def _room_on_disk(self) -> int:
        try:
            return shutil.disk_usage(self._segments.folder).free
        except OSError:
            return 0

    def write(self, group: Group) -> Written:
        """Write a group and return the result. One at a time, in their order."""
        runs = list(arranged(group))
        changes = self._unwritten
        changes.add(group.changes)  # these are newer
        fault, refused = None, dict[int, StoreError]()
        try:
            self._write_all(runs, group, changes)
            self._unwritten = Changes()
        except DiskFull as error:
            fault, refused = self._write_in_need(runs, group, changes, error)
        except StoreError as error:
            fault, refused = error, {whole.transaction: error for whole in group.wholes}
        if not runs:
            fault = None
        if fault is not None or refused:
            self._refused = True
        unfinished = self._tidy() or bool(self._unwritten)
        self.used_bytes = self._index.left_bytes
        self.done_bytes += group.disk_bytes
        messages = sum(len(bodies) for _, _, bodies, _ in runs)
        return Written(group.ticket, messages, fault, not self._unwritten, unfinished, refused)

    def _write_all(self, runs: Sequence[_Stored], group: Group, changes: Changes) -> None:
        """Write everything as one group of the journal. Raises StoreError."""
        draft = Draft()
        added = [*runs, *arranged(*group.wholes)]
        for run in added:
            draft.put(*run)
        together = changes
        if group.wholes:
            together = Changes()
            for each in (changes, *(whole.changes for whole in group.wholes)):
                together.add(each)
        self._add_changes(draft, together)
        self._append(draft, Purpose.MESSAGES if added else Purpose.COPY if together.moved else Purpose.REMOVAL)

    def _append(self, draft: Draft, purpose: Purpose) -> None:
        if not draft.changes:
            return
        try:
            self._segments.append(draft, purpose)
        except DiskFull:
            if purpose is not Purpose.REMOVAL or not self._make_room():
                raise
            self._segments.append(draft, purpose)

    def _make_room(self) -> bool:
        """Free a segment for removals, which have used up the reserve. Raises StoreError."""
        self._index.drop_all()
        self._segments.free_what_is_not_needed(in_need=True)
        while not self._segments.free:
            if not self._compaction.step(in_need=True, for_reserve=True):
                return False
        return True

    def _add_changes(self, draft: Draft, changes: Changes) -> None:
        """A message is moved before other changes at its new place; a queue is dropped after all others."""
        for queue, name in changes.named.items():
            draft.name(queue, name)
        for place, moved in changes.moved.items():
            self._add_move(draft, place, moved)
        by_queue: dict[int, dict[int, int]] = {}
        for (queue, number), count in changes.failed.items():
            by_queue.setdefault(queue, {})[number] = count
        for queue, counts in by_queue.items():
            draft.fail(queue, counts)
        for queue, numbers in changes.removed.items():
            if numbers:
                draft.remove(queue, sorted(numbers))
        for queue, purged in changes.purged:
            draft.remove(queue, purged)
        for queue in changes.dropped:
            draft.drop(queue)

    def _add_move(self, draft: Draft, place: Place, moved: Sequence[int | bytes]) -> None:
        """Repeated, it changes nothing: the message is no longer at its old place."""
        if self._index.run_with(*place) is not None:
            for row in _rows(moved):
                draft.put(*row)
            draft.remove(place[0], [place[1]])

    # -- a full disk --------------------------------------------------------------------------------------------

    def _write_in_need(
        self, runs: Sequence[_Stored], group: Group, changes: Changes, fault: StoreError
    ) -> tuple[StoreError | None, dict[int, StoreError]]:
        """Write the changes in parts, removals first, and the messages only if there is room for them: without those
        that are removed by their own group, whose removals would come too early. Return why the messages are not
        stored, None if they are, and which transactions are not."""
        added = [_left_of(runs, changes), *(_left_of(arranged(whole), changes) for whole in group.wholes)]
        try:
            self._write_parts(changes)
            self._unwritten = Changes()
        except DiskFull:
            pass  # of moves: they are tried again, and removals were written before
        except StoreError as error:
            return error, {whole.transaction: error for whole in group.wholes}
        refused = {}
        for whole, rows in zip(group.wholes, added[1:], strict=True):
            draft, adds = Draft(), bool(rows)
            for row in rows:
                draft.put(*row)
            self._add_changes(draft, whole.changes)
            try:
                self._append(draft, Purpose.MESSAGES if adds or whole.changes.moved else Purpose.REMOVAL)
            except StoreError as error:
                refused[whole.transaction] = fault if isinstance(error, DiskFull) else error
        try:
            draft = Draft()
            for run in added[0]:
                draft.put(*run)
            self._append(draft, Purpose.MESSAGES)
        except StoreError as error:
            return fault if isinstance(error, DiskFull) else error, refused
        return None, refused

    def _write_parts(self, changes: Changes) -> None:
        """Write changes part by part, and take each out of the changes that are pending. Raises StoreError."""
        for place, moved in list(changes.moved.items()):
            queue, number = int(moved[0]), int(moved[1])
            if number in changes.removed.get(queue, ()):
                del changes.moved[place]  # it is removed where it is
                changes.removed[queue].discard(number)
                changes.failed.pop((queue, number), None)
                changes.removed.setdefault(place[0], set()).add(place[1])
        for queue in list(changes.removed):
            numbers = sorted(changes.removed[queue])
            for at in range(0, len(numbers), REMOVED_AT_ONCE):
                part = numbers[at : at + REMOVED_AT_ONCE]
                self._append_part(Changes(removed={queue: set(part)}), Purpose.REMOVAL)
                changes.removed[queue].difference_update(part)
            del changes.removed[queue]
        while changes.purged:
            queue, purged = changes.purged[0]
            self._append_part(Changes(purged=[(queue, purged[:REMOVED_AT_ONCE])]), Purpose.REMOVAL)
            changes.purged[0] = queue, purged[REMOVED_AT_ONCE:]
            if not changes.purged[0][1]:
                del changes.purged[0]
        for place, moved in list(changes.moved.items()):
            self._append_part(Changes(moved={place: moved}), Purpose.COPY)
            del changes.moved[place]
        last = Changes(failed=changes.failed, dropped=changes.dropped, named=changes.named)
        self._append_part(last, Purpose.REMOVAL)

    def _append_part(self, part: Changes, purpose: Purpose) -> None:
        draft = Draft()
        self._add_changes(draft, part)
        self._append(draft, purpose)

    # -- after a group ------------------------------------------------------------------------------------------

    def _tidy(self) -> bool:
        """Remove what is left of dropped queues, free segments, and allocate the reserve: a part of each. Return
        whether there is more to do."""
        now = monotonic()
        waits = now < self._not_before
        more = self._index.drop_some()
        if waits and self._failed:
            return more
        failed = False
        segments = self._segments
        # An error of one prevents no other.
        for step in (self._free, segments.delete_useless, segments.reserve, self._compact):
            if (waits and step == segments.reserve) or (more and step == self._compact):
                continue  # what is freed next need not be copied
            try:
                more = bool(step()) or more
            except StoreError as error:
                failed = True
                log.warning("%s. It is tried again", error)
        if failed or (segments.needs_reserve and not waits):
            self._not_before, self._failed = now + WAIT_SECONDS, failed
        return more and not failed

    def _free(self) -> bool:
        return self._segments.free_what_is_not_needed(in_need=self.full)

    def _compact(self) -> bool:
        """Compact, unless there was no room for it, and nothing has changed since."""
        segments = self._segments
        used = segments.needs_reserve  # and there was no room for it just now
        state = segments.head, len(segments.free)
        if state == self._no_room:
            return False
        try:
            return self._compaction.step(in_need=self.full or used, for_reserve=used)
        except DiskFull:
            self._no_room = segments.head, len(segments.free)
            return False


#: (queue, first number, bodies, expiry of each in ms or None).
_Stored = tuple[int, int, Sequence[Body], tuple[int, ...] | None]


def arranged(*given: Messages) -> Iterator[_Stored]:
    """Yield messages that are written in one step: runs of a queue that follow each other are joined, long ones are
    split."""
    joined: dict[int, list[tuple[int, list[Body]]]] = {}
    for queue, first, bodies in (run for each in given for run in each.runs):
        of_queue = joined.setdefault(queue, [])
        if of_queue and of_queue[-1][0] + len(of_queue[-1][1]) == first:
            of_queue[-1][1].extend(bodies)
        else:
            of_queue.append((first, list(bodies)))
    for queue, runs in joined.items():
        for first, bodies in runs:
            yield from _split(queue, first, bodies)
    for each in given:
        yield from _rows(each.rows)


def _split(queue: int, first: int, bodies: Sequence[Body]) -> Iterator[_Stored]:
    at = size = 0
    for end, body in enumerate(bodies):
        size += len(body)
        if end > at and (size > RUN_BYTES or end - at == RUN_MESSAGES):
            yield queue, first + at, bodies[at:end], None
            at, size = end, len(body)
    yield queue, first + at, bodies[at:] if at else bodies, None


def _left_of(stored: Iterable[_Stored], changes: Changes) -> list[_Stored]:
    """Return what these changes leave of messages."""
    left: list[_Stored] = []
    for run in stored:
        queue, first, bodies, expires = run
        removed = changes.removed.get(queue, set())
        if queue in changes.dropped:
            continue
        if removed.isdisjoint(range(first, first + len(bodies))):
            left.append(run)
        elif expires is None:  # else it is a single one
            left += [(queue, first + at, [each], None) for at, each in enumerate(bodies) if first + at not in removed]
    return left


def _rows(rows: Sequence[int | Body]) -> Iterator[_Stored]:
    """Yield the messages of rows (`message_groups`), one by one."""
    for at in range(0, len(rows), COLUMNS):
        queue, number, body, expires = rows[at : at + COLUMNS]
        yield queue, number, [body], (expires,) if expires else None  # type: ignore[misc, list-item]
