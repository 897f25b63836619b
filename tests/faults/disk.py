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


@dataclass(eq=False)
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


@dataclass(eq=False)
class Rename:
    """Of a folder, which is at one of the two places at any time: file systems do that in one change."""

    source: Folder
    name: str
    target: Folder
    other: str


#: A name, and what has it from then on; None: nothing has.
Change = tuple[str, "File | Folder | None"]


@dataclass(eq=False)
class Folder:
    """`safe`: the entries that a sync has made so. `now`: what processes see. `pending`: what is not safe yet."""

    safe: dict[str, File | Folder] = field(default_factory=dict)
    now: dict[str, File | Folder] = field(default_factory=dict)
    pending: list[Change | Rename] = field(default_factory=list)

    def change(self, name: str, what: File | Folder | None) -> None:
        _change(self.now, name, what)
        self.pending.append((name, what))

    def sync(self) -> None:
        for each in self.pending:
            if isinstance(each, Rename):
                other = each.target if each.source is self else each.source
                if each in other.pending:  # else it has made it safe
                    _rename(each)
                    other.pending.remove(each)
            else:
                _change(self.safe, *each)
        self.pending.clear()


def _change(entries: dict[str, File | Folder], name: str, what: File | Folder | None) -> None:
    if what is None:
        entries.pop(name, None)
    else:
        entries[name] = what


def _rename(rename: Rename) -> None:
    what = rename.source.safe.pop(rename.name, None)
    if what is not None:
        rename.target.safe[rename.other] = what


class Disk:
    """`root`: the folder that exists from the beginning."""

    @classmethod
    def of(cls, root: Path) -> Disk:
        """Return a disk on which the folder's content is synced."""
        disk = cls(str(root))
        for path in sorted(root.rglob("*")):
            folder, name = disk._place(str(path))
            what = Folder() if path.is_dir() else File(bytearray(path.read_bytes()))
            folder.now[name] = folder.safe[name] = what
        return disk

    def __init__(self, root: str) -> None:
        self.root = root
        self.top = Folder()

    def apply(self, operation: Operation) -> None:
        path = operation.path
        match operation.kind:
            case "c" | "m":
                folder, name = self._place(path)
                folder.change(name, File() if operation.kind == "c" else Folder())
            case "u":
                folder, name = self._place(path)
                folder.change(name, None)
            case "r" | "l":
                self._give_name(path, operation.data.decode(), keep=operation.kind == "l")
            case "s" if (what := self._at(path)) is not None:
                what.sync()
            case "w" | "t" if isinstance(file := self._at(path), File):
                file.pending.append((operation.offset, operation.data if operation.kind == "w" else None))

    def _give_name(self, path: str, other: str, *, keep: bool) -> None:
        what = self._at(path)
        folder, name = self._place(path)
        target, new = self._place(other)
        if isinstance(what, Folder):
            rename = Rename(folder, name, target, new)
            del folder.now[name]
            target.now[new] = what
            for each in {id(folder): folder, id(target): target}.values():
                each.pending.append(rename)
            return
        target.change(new, what)
        if not keep:
            folder.change(name, None)

    def _place(self, path: str) -> tuple[Folder, str]:
        folder, _, name = path.rpartition("/")
        found = self._at(folder)
        assert isinstance(found, Folder), folder
        return found, name

    def _at(self, path: str) -> File | Folder | None:
        found: File | Folder | None = self.top
        for name in path.removeprefix(self.root).split("/"):
            if name:
                found = found.now.get(name) if isinstance(found, Folder) else None
        return found

    def cut(self, folder: Path, chance: random.Random, survives: float) -> None:
        """Fill the empty `folder` with the disk's content after a power cut now. `survives`: part of what was not
        safe that is there all the same, 0 to 1."""
        _Cut(chance, survives).fill(folder, self.top)


class _Cut:
    """What survives one power cut."""

    def __init__(self, chance: random.Random, survives: float) -> None:
        self._chance, self._survives = chance, survives
        self._made: dict[int, dict[str, File | Folder]] = {}  # entries of each folder
        self._contents: dict[int, bytes] = {}  # of files, which may have two names

    def fill(self, path: Path, top: Folder) -> None:
        self._decide(top)
        self._fill(path, top)

    def _decide(self, top: Folder) -> None:
        """Decide what is in each folder. A rename that survives is a change of two of them."""
        folders, decided = [top], set[int]()
        for each in folders:  # all that there ever were
            self._made[id(each)] = dict(each.safe)
            inside = [*each.safe.values(), *each.now.values()]
            inside += [change[1] for change in each.pending if not isinstance(change, Rename) and change[1]]
            folders += [found for found in dict.fromkeys(inside) if isinstance(found, Folder) and found not in folders]
        for each in folders:
            for change in each.pending:
                if not isinstance(change, Rename):
                    if self._chance.random() < self._survives:
                        _change(self._made[id(each)], *change)
                elif id(change) not in decided:
                    decided.add(id(change))
                    if self._chance.random() < self._survives:
                        self._rename(change)

    def _rename(self, change: Rename) -> None:
        what = self._made[id(change.source)].pop(change.name, None)
        if what is not None:
            self._made[id(change.target)][change.other] = what

    def _fill(self, path: Path, folder: Folder) -> None:
        for name, what in self._made[id(folder)].items():
            if isinstance(what, Folder):
                (path / name).mkdir()
                self._fill(path / name, what)
                continue
            if id(what) not in self._contents:
                self._contents[id(what)] = what.after_cut(self._chance, self._survives)
            (path / name).write_bytes(self._contents[id(what)])
