"""How far a recorder has come with one broker's events: told by what it has published, never by what it meant to.

The name of every file of events ends in the number of its last one, so the newest name is the position; it is there
together with the rows or not at all. `recorder/<broker>.json` says the same for when the pipeline has taken the files.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import pyarrow.compute as pc

from console.history.storage.landing import Landing, LandingError, part


@dataclass(frozen=True, slots=True)
class Position:
    """`number` of the last event stored of a `journal`; `at` (ms) and `text` are that event's. `rewinds`: how often the
    journal was found to have given numbers anew, after a power cut."""

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
    """The name of a file of events, without its ending."""
    return f"recorder~{part(broker)}~{part(run)}~{first:019}-{last:019}"


def store(landing: Landing, broker: str, position: Position) -> None:
    """Raises LandingError."""
    landing.put(_path(broker), json.dumps(asdict(position)).encode())


def load(landing: Landing, broker: str) -> Position | None:
    """None: nothing was ever stored of this broker. Raises LandingError."""
    position = _kept(landing, broker)
    if position is None:
        return _newest(landing, broker, "", 0, 0)
    # It may have been killed after publishing a file and before storing the position.
    return _newest(landing, broker, position.journal, position.rewinds, position.number) or position


def _kept(landing: Landing, broker: str) -> Position | None:
    content = landing.get(_path(broker))
    if content is None:
        return None
    try:
        return Position(**json.loads(content))
    except (TypeError, ValueError) as error:
        raise LandingError(f"{landing.root}/{_path(broker)} is damaged: {error}") from error


def _newest(landing: Landing, broker: str, journal: str, rewinds: int, above: int) -> Position | None:
    """From the files: the last event of the run, or without a journal of the run that was written last."""
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
