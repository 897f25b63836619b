"""The position of a recorder in one broker's events: the last event that it has published.

The name of every file of events ends in the number of its last event, so the newest name is the position, which appears
together with the rows. `recorder/<broker>.json` has the same for when the pipeline has processed and removed the files.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import pyarrow.compute as pc

from console.history.storage.landing import Landing, LandingError
from console.history.storage.landing_names import part


@dataclass(frozen=True, slots=True)
class Position:
    """The last stored event of a `journal`: `number`, `at` (ms), `text`. `rewinds`: how often the journal has reused
    numbers, after power failures."""

    journal: str
    number: int
    at: int
    text: str
    rewinds: int = 0

    @property
    def run(self) -> str:
        return run_of(self.journal, self.rewinds)


def run_of(journal: str, rewinds: int) -> str:
    return f"{journal}-{rewinds}" if rewinds else journal


def file_name(broker: str, run: str, first: int, last: int) -> str:
    """Return the name of a file of events, without its extension."""
    return f"recorder~{part(broker)}~{part(run)}~{first:019}-{last:019}"


def store(landing: Landing, broker: str, position: Position) -> None:
    """Store the position. Raises LandingError."""
    landing.put(_path(broker), json.dumps(asdict(position)).encode())


def load(landing: Landing, broker: str) -> Position | None:
    """Return the position; None if nothing of this broker was stored. Raises LandingError."""
    position = _stored(landing, broker)
    if position is None:
        return _newest(landing, broker, "", 0, 0)
    # The recorder may have been killed between publishing a file and storing the position.
    return _newest(landing, broker, position.journal, position.rewinds, position.number) or position


def _stored(landing: Landing, broker: str) -> Position | None:
    content = landing.get(_path(broker))
    if content is None:
        return None
    try:
        return Position(**json.loads(content))
    except (TypeError, ValueError) as error:
        raise LandingError(f"{landing.root}/{_path(broker)} is damaged: {error}") from error


def _newest(landing: Landing, broker: str, journal: str, rewinds: int, above: int) -> Position | None:
    """Return the last event in the files of the run, or without a `journal` of the run written last; None if its number
    is not above `above`."""
    prefix = f"recorder~{part(broker)}~"
    if journal:
        name = max(landing.names("events", f"{prefix}{part(run_of(journal, rewinds))}~"), key=_last, default="")
    else:
        name = landing.newest("events", prefix)
    if not name:
        return None
    number = _last(name)
    if number <= above:
        return None
    rows = landing.read("events", name)
    found = rows.filter(pc.equal(rows["number"], number)).to_pylist()[0]
    if not journal:
        journal, _, again = found["run"].partition("-")
        rewinds = int(again or 0)
    return Position(journal, number, int(found["at"].timestamp() * 1000), found["text"], rewinds)


def _last(name: str) -> int:
    return int(name.removesuffix(".parquet").rpartition("-")[2])


def _path(broker: str) -> str:
    return f"recorder/{part(broker)}.json"
