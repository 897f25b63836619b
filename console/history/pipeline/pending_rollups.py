"""Pending work of a broker: what a run is about to change, noted before its first commit.

The tables of raw rows say which landing files they contain, so a run after one that was killed would detect no change.
It finds the note and does the rest.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field

from console.history.pipeline.intervals import joined
from console.history.storage.landing import Landing, LandingError
from console.history.storage.landing_names import part

_FOLDER = "pipeline/pending"
_ALL = 1 << 62


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

    def include(self, *others: Changes) -> None:
        every = (self, *others)
        self.since = min(each.since for each in every)
        self.ranges = joined((span for each in every for span in each.ranges), most=_ALL)
        self.blocks, self.fills, self.stops = (
            any(each.blocks for each in every),
            any(each.fills for each in every),
            any(each.stops for each in every),
        )


def by_broker(changes: Iterable[Changes]) -> dict[str, Changes]:
    """Return the changes of each broker as one."""
    several: dict[str, list[Changes]] = {}
    for each in changes:
        several.setdefault(each.broker, []).append(each)
    for first, *others in several.values():
        first.include(*others)
    return {broker: its[0] for broker, its in several.items()}


class PendingRollups:
    """The notes, a file of the history by broker. All methods raise LandingError."""

    def __init__(self, landing: Landing) -> None:
        self._landing = landing

    def load(self, brokers: Collection[str] | None = None) -> dict[str, Changes]:
        """Return the notes of these brokers, or of all."""
        if brokers is not None:
            paths = [_path(broker) for broker in brokers]
        else:
            paths = [f"{_FOLDER}/{name}" for name in self._landing.file_names(_FOLDER)]
        notes = [note for path in paths if (note := self._load(path)) is not None]
        return {note.broker: note for note in notes}

    def store(self, changes: Changes) -> None:
        self._landing.put(_path(changes.broker), json.dumps(asdict(changes)).encode())

    def clear(self, broker: str) -> None:
        self._landing.delete(_path(broker))

    def _load(self, path: str) -> Changes | None:
        content = self._landing.get(path)
        if content is None:
            return None
        try:
            values = json.loads(content)
            values["ranges"] = [(begin, end) for begin, end in values["ranges"]]
            return Changes(**values)
        except (ValueError, KeyError, TypeError) as error:
            raise LandingError(
                f"{self._landing.root}/{path} is damaged ({error}). Remove it; rollups of the hours that a run was"
                " changing when it was killed may then be incomplete until later rows of these hours arrive"
            ) from error


def _path(broker: str) -> str:
    return f"{_FOLDER}/{part(broker)}.json"
