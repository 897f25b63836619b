"""Pending work of a broker: what a run is about to change, noted before its first commit.

The tables of raw rows say which landing files they contain, so a run after one that was killed would detect no change.
It finds the note and does the rest.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, field

from console.history.storage.landing import Landing
from console.history.storage.landing_names import part

_FOLDER = "pipeline/pending"


@dataclass(slots=True)
class Changes:
    """What new rows of a broker can change. `since`: time of the first one, ms; `ranges`: (from, to), ms, in which
    rollups change; the flags: whether producers were blocked, a queue's state was reported, producers were stopped."""

    broker: str
    since: int
    ranges: list[tuple[int, int]] = field(default_factory=list)
    blocks: bool = False
    fills: bool = False
    stops: bool = False

    def include(self, other: Changes) -> None:
        self.since = min(self.since, other.since)
        self.ranges = sorted({*self.ranges, *other.ranges})
        self.blocks, self.fills, self.stops = (
            self.blocks or other.blocks,
            self.fills or other.fills,
            self.stops or other.stops,
        )


class PendingRollups:
    """The notes, a file of the history by broker. All methods raise LandingError."""

    def __init__(self, landing: Landing) -> None:
        self._landing = landing

    def load(self, brokers: Collection[str] | None = None) -> dict[str, Changes]:
        """Return the notes of these brokers, or of all."""
        if brokers is not None:
            contents = [self._landing.get(_path(broker)) for broker in brokers]
        else:
            contents = [self._landing.get(f"{_FOLDER}/{name}") for name in self._landing.file_names(_FOLDER)]
        notes = [_changes(content) for content in contents if content is not None]
        return {note.broker: note for note in notes}

    def store(self, changes: Changes) -> None:
        self._landing.put(_path(changes.broker), json.dumps(asdict(changes)).encode())

    def clear(self, broker: str) -> None:
        self._landing.delete(_path(broker))


def _changes(content: bytes) -> Changes:
    values = json.loads(content)
    values["ranges"] = [(begin, end) for begin, end in values["ranges"]]
    return Changes(**values)


def _path(broker: str) -> str:
    return f"{_FOLDER}/{part(broker)}.json"
