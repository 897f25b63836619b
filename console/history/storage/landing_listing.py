"""List the landing files by name, size and time. For a folder of this machine without pyarrow, which takes 60 MB.

Files never change, so each is examined once; a folder without changes since the last call is not read again.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from console.history.storage.landing_names import broker_of, sequence_of

#: The kinds of landing files, as `landing.SCHEMAS`.
KINDS = ("events", "samples", "coverage")


class LandedFile(NamedTuple):
    """`order`: the sequence of a recorder's file, otherwise its time. `landed`: ns since the epoch. `size`: bytes."""

    kind: str
    name: str
    broker: str
    is_recorded: bool
    order: int
    landed: int
    size: int

    @property
    def identity(self) -> str:
        """Differs for a later file of the same name."""
        return f"{self.kind}/{self.name}@{self.landed}"


class LandingListing:
    """`url`: the history's root, as for `landing.Landing`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.is_local = "://" not in url
        self._known: dict[tuple[str, str], LandedFile] = {}
        self._changed: dict[str, int] = {}
        self._listed: list[LandedFile] = []

    def files(self) -> list[LandedFile]:
        """Return the finished files. Raises OSError, and LandingError for an object store."""
        if self.is_local:
            self._list_folders()
        else:
            self._list_objects()
        return self._listed

    def _list_folders(self) -> None:
        root = os.path.abspath(os.path.expanduser(self._url))
        folders = {kind: f"{root}/landing/{kind}" for kind in KINDS}
        changed = {kind: _changed(folder) for kind, folder in folders.items()}
        if changed == self._changed:
            return
        found: dict[tuple[str, str], LandedFile] = {}
        for kind, folder in folders.items():
            if not changed[kind]:
                continue
            with os.scandir(folder) as entries:
                for entry in entries:
                    if not entry.name.endswith(".parquet") or entry.name[0] == ".":
                        continue
                    key = kind, entry.name
                    file = self._known.get(key) or _examined(kind, entry)
                    if file is not None:
                        found[key] = file
        self._known, self._listed = found, list(found.values())
        # A file that lands within the resolution of the folder's time would be missed: forget times that recent.
        self._changed = changed if all(_is_old(each) for each in changed.values()) else {}

    def _list_objects(self) -> None:
        from console.history.storage.landing import Landing

        landed = Landing(self._url).files()
        self._listed = [_file(kind, name, landed, size) for kind, name, landed, size in landed]


def _examined(kind: str, entry: os.DirEntry[str]) -> LandedFile | None:
    try:
        facts = entry.stat()
    except FileNotFoundError:  # removed since
        return None
    return _file(kind, entry.name, facts.st_mtime_ns, facts.st_size)


def _file(kind: str, name: str, landed: int, size: int) -> LandedFile:
    sequence = sequence_of(name)
    order = landed if sequence is None else sequence
    return LandedFile(kind, name, broker_of(name), name.startswith("recorder~"), order, landed, size)


def _changed(folder: str) -> int:
    """Return the time of the folder's last change, in ns; 0 if it does not exist."""
    try:
        return os.stat(folder).st_mtime_ns
    except FileNotFoundError:
        return 0


def _is_old(changed: int) -> bool:
    return abs(time.time_ns() - changed) > 1_000_000_000
