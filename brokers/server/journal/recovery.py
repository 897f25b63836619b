"""What a start finds in a journal: the groups of all segments, in order, up to the first torn one, without the bodies.

Only the last group of the newest segment can be torn, since each is on the disk before the next is written; and only
of it, whether its bodies are whole has to be seen. Anything else that is not as it was written is damage: it is named
in `findings`, the groups behind it are found by their heads, and its segment stays as it is.
"""

from __future__ import annotations

import gc
import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from brokers.server.journal.groups import (
    ALIGNED,
    HEAD_BYTES,
    MORE,
    SALT_BYTES,
    Change,
    Damaged,
    InUse,
    LastQueue,
    Put,
    bodies_sound,
    group_bytes,
    is_sound,
    read_changes,
    read_head,
    read_single,
)
from brokers.server.journal.listing import Listed, read_listing
from brokers.server.journal.mending import MOST, mended
from brokers.server.journal.message_index import MessageIndex
from brokers.server.journal.runs import Segment
from brokers.server.journal.segment_file import CONTENT, PAGE, Header, LaterRelease, SegmentFile, Unreadable
from brokers.server.journal.stamp_file import read_stamp
from brokers.server.sqlite_file import StoreError

#: Read at once, where groups are looked for.
_PIECE = 1 << 20
#: Serial numbers that are passed over for each file whose header cannot be read: its serial is not known.
PASSED_OVER = 1 << 16

_NAME = re.compile(r"\d{8,}\.segment")


class Group(NamedTuple):
    """A group in a file. `at`, `bodies_at`, `end`: where it, its bodies and the next one begin. `mended`: its head and
    changes, if they had to be mended."""

    sequence: int
    at: int
    bodies_at: int
    end: int
    changes: list[Change]
    mended: bytes = b""


@dataclass
class Found:
    """`headers`: the files in use, by serial, with their headers. `free`: files, with the serial of their last use.
    `findings`: a line for each damage. `serial`, `sequence`: the highest there are, or may be. `last`: the last group.
    `lost`: segments that should be there, and their last sequence. `followed`: the newest segment, if it was left for
    another one. `incomplete`: a line, if the newest segment has the
    beginning of a group at its end. `twice`: a line for each serial that two files have. `mended`: groups of which a
    bit had flipped, which nothing is lost of: the file, where, and what is to be written there."""

    index: MessageIndex = field(default_factory=MessageIndex)
    headers: dict[int, tuple[SegmentFile, Header]] = field(default_factory=dict)
    free: list[tuple[SegmentFile, int]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    serial: int = 0
    sequence: int = 0
    last: tuple[Segment, Group] | None = None
    lost: dict[int, int] = field(default_factory=dict)
    followed: int = 0
    incomplete: str = ""
    twice: dict[int, str] = field(default_factory=dict)
    mended: list[tuple[SegmentFile, int, bytes]] = field(default_factory=list)

    @property
    def repairs(self) -> list[str]:
        """A line for each group that was mended."""
        return [f"{file.path} was damaged at byte {at:,}, and was repaired" for file, at, _ in self.mended]


def recover(folder: Path) -> Found:
    """Read a journal, and change nothing. Raises StoreError if a file cannot be read, or was written by a later
    release."""
    with _without_collection():
        return _recover(folder)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Have the collector not look at objects of which millions are made, and none is garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _recover(folder: Path) -> Found:
    found = Found()
    used = found.headers
    freed: set[int] = set()
    unreadable: list[SegmentFile] = []
    for path in segment_paths(folder):
        found.names.append(path.name)
        file = SegmentFile(path, _size(path))
        header = file.read_header()
        if header is None and not file.is_blank():
            unreadable.append(file)
        elif header is None or not header.used:
            found.free.append((file, header.serial if header else 0))
        else:
            _add_used(found, file, header)
        if header is not None:
            freed.update((header.replaces,) if header.used else (header.replaces, header.serial))
            found.serial = max(found.serial, header.serial)
        file.close()
    _read_segments(folder, found, used, freed, unreadable)
    found.index.drop_all()
    _, newest = read_stamp(folder)
    if unreadable:
        found.serial = max(found.serial, newest) + PASSED_OVER * len(unreadable)
    elif found.serial < newest:
        found.findings.append(f"{folder}: segment {newest} is missing: messages may be lost, and removed ones be back")
        found.serial, found.lost[newest] = newest, 0
    elif found.followed == found.serial > 0:
        what = f"the segment behind segment {found.serial} is missing"
        found.findings.append(f"{folder}: {what}: messages may be lost, and removed ones be back")
        found.serial += 1
        found.lost[found.serial] = MORE
    return found


def _add_used(found: Found, file: SegmentFile, header: Header) -> None:
    """Of two files that are the same segment, such as a copy, the one whose groups are later is read; both stay."""
    other = found.headers.setdefault(header.serial, (file, header))
    if other[0] is not file:
        if header.first >= other[1].first:
            found.headers[header.serial] = file, header
        found.twice[header.serial] = f"{other[0].path} and {file.path} are both segment {header.serial}"


def begin_writing(found: Found) -> None:
    """Write the groups that were mended, and the last group once more, and sync it: the system may have read it from
    memory and not from the disk, if an earlier process failed to sync it. Raises StoreError."""
    for file, at, whole in found.mended:
        file.write(at, [whole])
    if found.last is None:
        return
    segment, group = found.last
    with suppress(Unreadable):  # a body: there is nothing to write
        segment.file.write(group.at, [segment.file.read(group.at, segment.end - group.at)])
    segment.file.write_header(found.headers[segment.serial][1])
    segment.file.close()


def segment_paths(folder: Path) -> list[Path]:
    """Return the files of segments. Raises StoreError."""
    try:
        return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    except OSError as error:
        raise StoreError(f"cannot read {folder}: {error.strerror or error}") from error


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error


def _read_segments(
    folder: Path,
    found: Found,
    used: dict[int, tuple[SegmentFile, Header]],
    freed: set[int],
    unreadable: list[SegmentFile],
) -> None:
    last: dict[int, int] = {}
    listed = 0  # the serial of the segment whose list is `last`
    for serial in sorted(used, reverse=True):
        if (found_list := _list_of(*used[serial])) is not None:
            last, listed = found_list, serial
            break
    known = sorted(used.keys() | freed)
    for serial in sorted(used):
        file, header = used[serial]
        was_unreadable = False
        if serial < listed and serial not in last and serial not in found.twice:
            was_unreadable = known[bisect_right(known, serial)] - serial > PASSED_OVER // 2
            if not was_unreadable:  # its first group was refused
                found.free.append((file, header.replaces))
                file.close()
                continue
        _read_segment(found, file, header, last.get(serial))
        if was_unreadable:
            _damage(found, found.index.segments[serial], "or was: an earlier start could not read its header")
        if serial in found.twice:
            segment = found.index.segments[serial]
            segment.finding = f"{folder}: {found.twice[serial]}: messages may be lost, and removed ones be back"
            found.findings.append(segment.finding)
    found.lost = {serial: end for serial, end in last.items() if serial not in used and serial not in freed}
    for serial in sorted(used) if found.lost else ():  # an earlier start may not have been able to read the newest list
        there = _list_of(*used[serial])
        found.lost = {lost: end for lost, end in found.lost.items() if there is None or lost > serial or lost in there}
    what = [f"the header of {file.path} is damaged" for file in unreadable]
    what += [f"segment {serial} is missing" for serial in list(found.lost)[len(unreadable) :]]
    found.findings += [f"{folder}: {each}: messages may be lost, and removed ones be back" for each in what]


def _list_of(file: SegmentFile, header: Header) -> dict[int, int] | None:
    """Return the list with which a segment begins; None if it cannot be read."""
    first = next(groups(file, header), None)
    return first.changes[0].last if first and first.changes and isinstance(first.changes[0], InUse) else None


def _read_segment(found: Found, file: SegmentFile, header: Header, last: int | None) -> None:
    """`last`: of the list; None: of the newest segment, whose end has to be found."""
    least = 0  # what an earlier start has read, of one that it could not read to the end
    is_newest = last is None
    if last is not None and last >= MORE:
        least, last = last - MORE, None
    index = found.index
    segment = Segment(file, header.serial, header.salt, CONTENT, header.first - 1)
    index.segments[header.serial] = segment
    if (listed := read_listing(file, header, last)) is not None:
        last_changes = _apply_listed(found, segment, listed)
        if is_newest and not isinstance(last_changes[-1], LastQueue):  # it was left, and not by a stop
            found.followed = header.serial
        file.close()
        return
    before: Group | None = None
    for group in groups(file, header, last):
        if before is not None:
            _apply(found, segment, before)
        before = group
    if before is not None and (last is not None or _is_whole(file, before)):
        _apply(found, segment, before)
    if is_newest and _begins_at(file, header, segment.end, segment.last + 1):
        found.incomplete = (
            f"{file.path}: the last group is incomplete: it is lost, unless the process was killed, or the machine lost"
            " its power, before it was confirmed"
        )
    if last is None and (places := [at for at in file.unreadable if at + PAGE > segment.end]):
        _damage(found, segment, f"at byte {min(places):,}, which the disk cannot read")
        segment.has_more = True  # as many groups as there is room for: a later start may read them
        segment.last = max(segment.last, least)
    elif segment.last != (end := last if last is not None else max(least, segment.last)):
        _damage(found, segment, f"behind group {segment.last}: {end - segment.last} are missing")
        segment.last = end  # also by the next start
    found.sequence = max(found.sequence, segment.last)
    file.close()


def _apply_listed(found: Found, segment: Segment, listed: Iterator[Listed]) -> list[Change]:
    """Apply all groups of a segment by its listing. Return the changes of the last one."""
    put_single, apply = found.index.put_single, found.index.apply
    sequence, last = segment.last, (CONTENT, 0, b"")
    for last in listed:
        at, body_bytes, changes = last
        sequence += 1
        put = read_single(changes)
        if put is not None:
            put_single(segment, put, at + HEAD_BYTES + len(changes), body_bytes)
        else:
            apply(segment, _changes(segment.file, changes), at + HEAD_BYTES + len(changes))
    at, body_bytes, changes = last
    segment.end, segment.last = at + group_bytes(len(changes), body_bytes), sequence
    found.last = segment, Group(sequence, at, at + HEAD_BYTES + len(changes), segment.end, [])
    found.sequence = max(found.sequence, sequence)
    return _changes(segment.file, changes)


def _changes(file: SegmentFile, data: bytes) -> list[Change]:
    try:
        return list(read_changes(data))
    except Damaged as error:
        raise LaterRelease(f"cannot use {file.path}: {error}, of a later release") from error


def _apply(found: Found, segment: Segment, group: Group) -> None:
    if group.sequence != segment.last + 1:
        _damage(found, segment, f"between the groups {segment.last} and {group.sequence}")
    if group.mended:
        found.mended.append((segment.file, group.at, group.mended))
    segment.end, segment.last, found.last = group.end, group.sequence, (segment, group)
    found.index.apply(segment, group.changes, group.bodies_at)


def _damage(found: Found, segment: Segment, where: str) -> None:
    segment.finding = f"{segment.file.path} is damaged {where}: messages may be lost, and removed ones be back"
    found.findings.append(segment.finding)


def groups(file: SegmentFile, header: Header, last: int | None = None) -> Iterator[Group]:
    """Yield the groups of a segment whose heads and changes are sound, ascending, up to the sequence `last`; what is in
    between is passed over. Raises StoreError."""
    at, sequence = CONTENT, header.first - 1
    while last is None or sequence < last:
        group = _group_at(file, header, at)
        if group is None or group.sequence <= sequence:
            later = _mended_at(file, header, at, sequence + 1) or _next_at(file, header, at + ALIGNED, sequence)
            if later is None:
                return
            group = later
        if last is not None and group.sequence > last:
            return
        yield group
        at, sequence = group.end, group.sequence


def _group_at(file: SegmentFile, header: Header, at: int) -> Group | None:
    data = file.read_around(at, PAGE)  # a head with its changes, usually
    head = read_head(data, header.salt)
    if head is None or at + head.size - ALIGNED >= file.size or head.sequence < header.first:
        return None
    end = HEAD_BYTES + head.change_bytes
    if end > len(data):
        data = file.read_around(at, end)
    changes = data[HEAD_BYTES:end]
    if not is_sound(head, header.salt, changes):
        return None
    return Group(head.sequence, at, at + end, at + head.size, _changes(file, changes))


def _mended_at(file: SegmentFile, header: Header, at: int, sequence: int) -> Group | None:
    """Return the group with this sequence that begins here, as it was before one bit of its head or changes flipped."""
    data = mended(file.read_around(at, HEAD_BYTES + MOST), header.salt, sequence)
    head = read_head(data, header.salt) if data is not None else None
    if data is None or head is None or at + head.size - ALIGNED >= file.size:
        return None
    return Group(sequence, at, at + len(data), at + head.size, _changes(file, data[HEAD_BYTES:]), data)


def _next_at(file: SegmentFile, header: Header, at: int, sequence: int) -> Group | None:
    """Return the next sound group from here on with a higher sequence. It is looked for only where something was
    damaged, or at the end."""
    begin = header.salt[:SALT_BYTES]
    while at < file.size:
        piece = file.read_around(at, _PIECE)
        if not piece:
            break
        place = piece.find(begin)
        while place >= 0:
            if (at + place) % ALIGNED == 0:
                group = _group_at(file, header, at + place)
                if group is not None and group.sequence > sequence:
                    return group
            place = piece.find(begin, place + 1)
        at += len(piece)
    return None


def end_of(file: SegmentFile, header: Header) -> int:
    """Return where the whole groups of the newest segment end. Raises StoreError."""
    end, before = CONTENT, None
    for group in groups(file, header):
        end, before = group.at, group
    return before.end if before is not None and _is_whole(file, before) else end


def _begins_at(file: SegmentFile, header: Header, at: int, sequence: int) -> bool:
    """Whether a group with this sequence begins here, sound or not."""
    head = read_head(file.read_around(at, HEAD_BYTES), header.salt)
    return head is not None and head.sequence == sequence


def _is_whole(file: SegmentFile, group: Group) -> bool:
    """Whether the bodies of a group are as they were written, or the disk cannot read one: then that one is damaged."""
    puts = [change for change in group.changes if isinstance(change, Put)]
    size = sum(put.size for put in puts)
    if bodies_sound(puts, file.read_around(group.bodies_at, size)):
        return True
    return any(group.bodies_at - PAGE < at < group.bodies_at + size for at in file.unreadable)
