"""The files of one recorded broker: landing files, tails, and the catalog of what is published beside them.

Rows are first published in the tail of their kind, which is replaced every second, then landed in a file with the same
sequence, every minute. A recorder that is killed leaves its tail behind; the next one lands it before it continues, and
recognizes a tail that was landed already by its sequence. So events are stored exactly once.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from console.history.record.position import Position, in_name, of_last_row, of_previous_release
from console.history.storage.fresh import CATALOG, GRACE_SECONDS, RAW, Catalog, FreshFile, decode, folder
from console.history.storage.landing import Landing, LandingError, encoded
from console.history.storage.landing_names import recorder_file, recorder_prefix, sequence_of

log = logging.getLogger(__name__)

_POSITION = "position.json"


class RecordedFiles:
    """Files of the broker `slug`. `may_write`: whether this process still owns the broker. Every method that writes
    raises LandingError, also if it does not. Not thread-safe: one caller at a time."""

    def __init__(
        self,
        landing: Landing,
        slug: str,
        *,
        may_write: Callable[[], bool] = lambda: True,
        clock: Callable[[], int] = time.time_ns,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.landing = landing
        self.slug = slug
        self._folder = folder(slug)
        self._may_write = may_write
        self._clock, self._steady = clock, steady
        self._last = dict.fromkeys(RAW, 0)  # sequence of the last landed file
        self._next: dict[str, int] = {}  # sequence of the rows in the tail
        self._listed: dict[str, tuple[FreshFile, ...]] = {}
        self._obsolete: dict[str, float] = {}  # file -> when it was listed last
        self._of_state: frozenset[str] = frozenset()  # files that the stored state names
        self._made = 0
        self.position: Position | None = None

    def restore(self) -> None:
        """Find the last position and sequences, and land the tail of a recorder that was killed."""
        self._check()
        stored = self._stored()
        self.position = Position(**stored["position"]) if stored["position"] else None
        self._last = dict.fromkeys(RAW, 0) | stored["sequences"]
        self._next.clear()
        newest: dict[str, str] = {}
        for kind in RAW:
            for name in self.landing.names(kind, recorder_prefix(self.slug)):
                sequence = sequence_of(name)
                if sequence is not None and sequence > self._last[kind]:
                    self._last[kind], newest[kind] = sequence, name
        if "events" in newest:
            rows = self.landing.read("events", newest["events"])
            self.position = of_last_row(rows, newest["events"].removesuffix(".parquet").split("~", 4)[4])
        elif self.position is None:
            self.position = of_previous_release(self.landing, self.slug)
        self._land_left_over()
        self._remove_unlisted()

    def _stored(self) -> dict[str, Any]:
        content = self.landing.get(f"{self._folder}/{_POSITION}")
        if content is None:
            return {"position": None, "sequences": {}}
        try:
            found = json.loads(content)
            return {"position": found["position"], "sequences": found["sequences"]}
        except (KeyError, TypeError, ValueError) as error:
            raise LandingError(f"{self.landing.root}/{self._folder}/{_POSITION} is damaged: {error}") from error

    def _land_left_over(self) -> None:
        catalog = self._left_catalog()
        if catalog is None:
            return
        self._listed = dict(catalog.files)
        for kind in RAW:  # samples before their coverage
            tail = catalog.tail(kind)
            if tail is None or tail.sequence <= self._last[kind]:
                continue
            try:
                rows = self.landing.read_rows(f"{self._folder}/{tail.file}")
            except LandingError as error:
                log.warning("%s: rows of a recorder that was killed are lost: %s", self.slug, error)
                if kind == "samples":
                    break  # their time is not covered
                continue
            self._next[kind] = tail.sequence
            position = Position(**catalog.position) if kind == "events" and catalog.position else None
            self.land(kind, rows, position)
        self.remember()

    def _left_catalog(self) -> Catalog | None:
        content = self.landing.get(f"{self._folder}/{CATALOG}")
        try:
            return None if content is None else decode(content)
        except ValueError as error:
            log.warning("%s: %s/%s: %s", self.slug, self._folder, CATALOG, error)
            return None

    # -- landing ----------------------------------------------------------------------------------------------------

    def land(self, kind: str, rows: pa.Table, position: Position | None = None) -> None:
        """Land rows that are in no landing file. `position`: after these events."""
        self._check()
        sequence = self._sequence(kind)
        first, last = bounds(kind, rows)
        rest = f"{first}-{last}"
        if position is not None:
            rest += f"~{in_name(position)}"
        self.landing.publish(kind, rows, recorder_file(self.slug, sequence, rest))
        self._last[kind] = sequence
        del self._next[kind]
        if position is not None:
            self.position = position

    def remember(self) -> None:
        """Store the position and the sequences."""
        position = None if self.position is None else asdict(self.position)
        content = {"position": position, "sequences": self._last}
        self.landing.put(f"{self._folder}/{_POSITION}", json.dumps(content).encode())

    def last_sequence(self, kind: str) -> int:
        return self._last[kind]

    def _sequence(self, kind: str) -> int:
        if kind not in self._next:
            self._next[kind] = max(self._clock(), self._last[kind] + 1)
        return self._next[kind]

    # -- publishing -------------------------------------------------------------------------------------------------

    def publish(
        self,
        tails: Mapping[str, pa.Table],
        position: Position | None,
        published: int,
        rollups: Mapping[str, Sequence[FreshFile]] | None = None,
        *,
        durable: bool = False,
    ) -> None:
        """Publish the rows that are in no landing file, and the files of rollups made by `store`. `position`: after the
        events among them; `published`: time of the broker's clock, ms, up to which they are complete; `durable`: a
        power failure does not lose these rows."""
        self._check()
        files = {kind: tuple(listed) for kind, listed in (rollups or {}).items() if listed}
        for kind, rows in tails.items():
            if rows.num_rows:
                files[kind] = (self.store(kind, rows, self._sequence(kind), durable=durable),)
        stored = None if position is None else asdict(position)
        self._list(Catalog(self.slug, published, files, stored), durable=durable)

    def store(self, kind: str, rows: pa.Table, sequence: int = 0, *, durable: bool = False) -> FreshFile:
        """Write a file that a later catalog lists."""
        self._made += 1
        name = f"{kind}~{self._clock()}-{self._made}.parquet"
        first, last = bounds(kind, rows)
        self.landing.put(f"{self._folder}/{name}", encoded(rows), durable=durable)
        self._obsolete[name] = self._steady()
        return FreshFile(name, first, last, rows.num_rows, sequence)

    def read(self, file: FreshFile) -> pa.Table:
        """Return the rows of a file made by `store`."""
        return self.landing.read_rows(f"{self._folder}/{file.file}")

    def rows_in(self, file: FreshFile) -> int | None:
        """Return the number of rows that a file has; None if it is damaged."""
        try:
            return self.landing.rows_in(f"{self._folder}/{file.file}")
        except LandingError:
            return None

    def existing(self) -> set[str]:
        """Return the names of the files that exist in the broker's folder."""
        return {entry.base_name for entry in self.landing.entries(self._folder)}

    def private(self, name: str) -> bytes | None:
        """Return the content of a file of the recorder's own; None if there is none."""
        return self.landing.get(f"{self._folder}/{name}")

    def store_private(self, name: str, content: bytes) -> None:
        self._check()
        self.landing.put(f"{self._folder}/{name}", content, durable=False)

    def retain(self, names: Iterable[str]) -> None:
        """Remove none of these files of rollups: the stored state names them. Replaces those of the last call."""
        self._of_state = frozenset(names)

    def _list(self, catalog: Catalog, *, durable: bool) -> None:
        self.landing.put(f"{self._folder}/{CATALOG}", catalog.encode(), durable=durable)
        now = self._steady()
        for listed in self._listed.values():
            self._obsolete |= {each.file: now for each in listed}
        self._listed = dict(catalog.files)
        for listed in self._listed.values():
            for each in listed:
                self._obsolete.pop(each.file, None)
        for name in [name for name, since in self._obsolete.items() if now - since > GRACE_SECONDS]:
            if name in self._of_state:
                continue
            self.landing.delete(f"{self._folder}/{name}")
            del self._obsolete[name]

    def _remove_unlisted(self) -> None:
        """Have files that an earlier recorder left removed after the grace period."""
        current = {each.file for listed in self._listed.values() for each in listed}
        now = self._steady()
        for entry in self.landing.entries(self._folder):
            if entry.base_name.endswith(".parquet") and entry.base_name not in current:
                self._obsolete.setdefault(entry.base_name, now)

    def _check(self) -> None:
        if not self._may_write():
            raise LandingError(f"another process may record {self.slug} now")


def bounds(kind: str, rows: pa.Table) -> tuple[int, int]:
    """Return the first and the last time of the rows, ms; of coverage the end of the last."""
    first = "start" if "start" in rows.column_names else "at"
    last = "until" if kind == "coverage" else first
    return _ms(pc.min(rows[first])), _ms(pc.max(rows[last]))


def _ms(value: pa.Scalar) -> int:
    return int(value.cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64()).as_py())
