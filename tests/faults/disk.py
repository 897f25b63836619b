"""The possible content of a disk after a power cut: all synced data, and any part of the rest in any order.

Read the log that `file_log.c` writes, and play it up to some operation. A file's bytes are safe once the file has been
synced, its entry in a folder once the folder has. Of what is not safe a cut keeps a random part, and of a write any of
its sectors.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SECTOR = 512

_HEAD = struct.Struct("<cHQQ")


@dataclass(frozen=True)
class Operation:
    """`end`: where its record ends in the log. `kind`, `offset` and `data` as in `file_log.c`."""

    end: int
    kind: str
    path: str
    offset: int
    data: bytes


def read_log(log: Path) -> Iterator[Operation]:
    data, at = log.read_bytes(), 0
    while at < len(data):
        kind, path_length, offset, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        path = data[at : at + path_length].decode()
        at += path_length
        has_data = kind in b"wrl"
        content = data[at : at + length] if has_data else b""
        at += length if has_data else 0
        yield Operation(at, kind.decode(), path, offset, content)


@dataclass
class File:
    """`safe`: what a sync has made so. `pending`: (offset, data) of writes, and (length, None) of truncations."""

    safe: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def sync(self) -> None:
        for offset, data in self.pending:
            _apply(self.safe, offset, data)
        self.pending.clear()

    def after_cut(self, chance: random.Random, survives: float) -> bytes:
        content = bytearray(self.safe)
        for offset, data in self.pending:
            if data is None:
                if chance.random() < survives:
                    _apply(content, offset, None)
                continue
            at = offset
            while at < offset + len(data):
                end = min(at - at % SECTOR + SECTOR, offset + len(data))
                if chance.random() < survives:
                    _apply(content, at, data[at - offset : end - offset])
                at = end
        return bytes(content)


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        content.extend(bytes(offset - len(content)))
        return
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data


#: Path -> file; None: a folder.
Entries = dict[str, File | None]


class Disk:
    """`root`: the folder that exists from the beginning."""

    @classmethod
    def of(cls, root: Path) -> Disk:
        """Return a disk on which the folder's content is synced."""
        disk = cls(str(root))
        for path in root.rglob("*"):
            disk.safe[str(path)] = None if path.is_dir() else File(bytearray(path.read_bytes()))
        disk.now = dict(disk.safe)
        return disk

    def __init__(self, root: str) -> None:
        self.root = root
        self.now: Entries = {}
        self.safe: Entries = {}
        self.pending: list[tuple[str, File | None, bool]] = []  # path, what it is, whether it is there then

    def apply(self, operation: Operation) -> None:
        path = operation.path
        match operation.kind:
            case "c" | "m":
                self._enter(path, File() if operation.kind == "c" else None)
            case "u":
                self._leave(path)
            case "r" | "l":
                self._enter(operation.data.decode(), self.now.get(path))
                if operation.kind == "r":
                    self._leave(path)
            case "s" if path == self.root or self.now.get(path, self) is None:
                self._sync_folder(path)
            case "s" if isinstance(file := self.now.get(path), File):
                file.sync()
            case "w" | "t" if isinstance(file := self.now.get(path), File):
                file.pending.append((operation.offset, operation.data if operation.kind == "w" else None))

    def _enter(self, path: str, what: File | None) -> None:
        self.now[path] = what
        self.pending.append((path, what, True))

    def _leave(self, path: str) -> None:
        self.pending.append((path, self.now.pop(path, None), False))

    def _sync_folder(self, folder: str) -> None:
        for path, what, there in self.pending:
            if path.rpartition("/")[0] == folder:
                _change(self.safe, path, what, there)
        self.pending = [each for each in self.pending if each[0].rpartition("/")[0] != folder]

    def cut(self, folder: Path, chance: random.Random, survives: float) -> None:
        """Fill the empty `folder` with the disk's content after a power cut now. `survives`: part of what was not
        safe that is there all the same, 0 to 1."""
        entries = dict(self.safe)
        for path, what, there in self.pending:
            if chance.random() < survives:
                _change(entries, path, what, there)
        contents = dict[int, bytes]()  # of files, which may have two names
        for path in sorted(entries):  # a folder before what is in it
            what, target = entries[path], folder / path.removeprefix(self.root + "/")
            if not target.parent.is_dir():
                continue  # lost with its folder
            if what is None:
                target.mkdir()
                continue
            if id(what) not in contents:
                contents[id(what)] = what.after_cut(chance, survives)
            target.write_bytes(contents[id(what)])


def _change(entries: Entries, path: str, what: File | None, there: bool) -> None:
    if there:
        entries[path] = what
    else:
        entries.pop(path, None)
