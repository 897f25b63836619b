"""The reading side of what recorders publish: their catalogs and landing files, listed at most every second.

The guarantees that make the combination with the tables right are those of `fresh.py`: catalogs are read before landing
files are listed, and both before the tables' logs.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from console.history.storage.fresh import CATALOG, FOLDER, RAW, Catalog, FreshFile, decode, folder
from console.history.storage.landing_keys import LandingError
from console.history.storage.landing_names import broker_of, sequence_of

if TYPE_CHECKING:
    from console.history.storage.landing import Landing

_Signature = tuple[int, int, int]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LandedFile:
    """A landing file of a recorder. `path`: relative to the history's root. `first`, `last`: bounds of its times, ms,
    inclusive; None: unknown."""

    path: str
    broker: str
    sequence: int
    first: int | None
    last: int | None

    def may_have(self, begin: int | None, end: int | None) -> bool:
        """Return whether a row may be in [begin, end), ms. None: no bound."""
        return (begin is None or self.last is None or self.last >= begin) and (
            end is None or self.first is None or self.first < end
        )


@dataclass(slots=True)
class View:
    """What was published at one time: the catalogs by broker, and the landing files listed later."""

    catalogs: Mapping[str, Catalog]
    read_at: float
    landed: dict[str, list[LandedFile]] = field(default_factory=dict)


class PublishedFiles:
    """`url`: the history's root. `seconds`: for which a view is cached. Thread-safe. Raises LandingError."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._landing: Landing | None = None
        self._lock = threading.Lock()
        self._view = View({}, float("-inf"))
        self._decoded: dict[str, tuple[_Signature, Catalog]] = {}
        self._damaged: dict[str, bytes] = {}

    def view(self, seconds: float, *, kinds: tuple[str, ...] = RAW) -> View:
        """Return a view that is at most `seconds` old, with the landing files of these kinds."""
        with self._lock:
            if self._landing is None:
                from console.history.storage.landing import Landing

                self._landing = Landing(self._url)
            if time.monotonic() - self._view.read_at >= seconds:
                self._view = View(self._catalogs(self._landing), time.monotonic())
            view = self._view
            for kind in kinds:
                if view.catalogs and kind not in view.landed:
                    view.landed[kind] = landed_files(self._landing, kind)
            return view

    def _catalogs(self, landing: Landing) -> dict[str, Catalog]:
        found: dict[str, tuple[_Signature, Catalog]] = {}
        for name, signature in _signatures(landing):
            known = self._decoded.get(name)
            # Without a signature, as on an object store, the content is read.
            if known is not None and signature is not None and known[0] == signature:
                found[name] = known
                continue
            content = landing.get(f"{FOLDER}/{name}/{CATALOG}")
            if content is None:
                continue
            try:
                found[name] = (signature or (0, 0, 0), decode(content))
            except (json.JSONDecodeError, UnicodeDecodeError) as error:
                # Lost by a power failure. The next recorder of the broker replaces it; the tables remain readable.
                if self._damaged.get(name) != content:
                    log.warning("%s/%s/%s/%s is damaged: %s", landing.root, FOLDER, name, CATALOG, error)
                self._damaged[name] = content
            except ValueError as error:
                raise LandingError(f"{landing.root}/{FOLDER}/{name}/{CATALOG} cannot be used: {error}") from error
        self._decoded = found
        return {catalog.broker: catalog for _, catalog in found.values()}


def path_of(broker: str, file: FreshFile) -> str:
    """Return the path of a file of a catalog, relative to the history's root."""
    return f"{folder(broker)}/{file.file}"


def _signatures(landing: Landing) -> list[tuple[str, _Signature | None]]:
    """Return the folders of brokers, each with what changes when its catalog is replaced; None: unknown."""
    if not landing.is_local:
        return [(entry.base_name, None) for entry in landing.entries(FOLDER) if not entry.is_file]
    found: list[tuple[str, _Signature | None]] = []
    try:
        with os.scandir(f"{landing.root}/{FOLDER}") as entries:
            for entry in entries:
                try:
                    status = os.stat(f"{entry.path}/{CATALOG}")
                except (FileNotFoundError, NotADirectoryError):
                    continue
                found.append((entry.name, (status.st_mtime_ns, status.st_ino, status.st_size)))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise LandingError(f"{landing.root}/{FOLDER} cannot be read: {error.strerror}") from error
    return found


def landed_files(landing: Landing, kind: str, only: str = "") -> list[LandedFile]:
    """Return the landing files of recorders, or of one broker's only, in any order. Raises LandingError."""
    found = []
    for name in landing.names_of_recorders(kind):
        sequence, broker = sequence_of(name), broker_of(name)
        if sequence is not None and only in ("", broker):
            found.append(LandedFile(f"landing/{kind}/{name}", broker, sequence, *_bounds(name)))
    return found


def _bounds(name: str) -> tuple[int | None, int | None]:
    words = name.removesuffix(".parquet").split("~")
    first, _, last = words[3].partition("-") if len(words) > 3 else ("", "", "")
    return (int(first), int(last)) if first.isdecimal() and last.isdecimal() else (None, None)
