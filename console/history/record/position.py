"""The position of a recorder in one broker's events: the last event that it has landed.

The name of every file of events ends in the journal of its last event, so rows and position appear together, in one
rename. `recorder/<broker>/position.json` has the same for when the pipeline has processed and removed the files.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from console.history.storage.landing import Landing, LandingError
from console.history.storage.landing_names import part, recorder_prefix, sequence_of


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


def of_last_row(events: pa.Table, run: str) -> Position:
    """Return the position after these rows, which are in order. `run`: of the last one, as in a file's name."""
    row = events.slice(events.num_rows - 1).to_pylist()[0]
    journal, rewinds = row["run"], 0
    if run == part(row["run"]):
        pass
    elif (count := run.rpartition("~")[2]).isdecimal():
        journal, rewinds = row["run"].removesuffix(f"-{count}"), int(count)
    return Position(journal, row["number"], int(row["at"].timestamp() * 1000), row["text"], rewinds)


def in_name(position: Position) -> str:
    """Return the position's part of the name of a file of events; `of_last_row` reads it."""
    return f"{part(position.run)}~{position.rewinds}" if position.rewinds else part(position.run)


# -- files of releases before 2026.12, whose names have no sequence ------------------------------------------------


def of_previous_release(landing: Landing, broker: str) -> Position | None:
    """Return the position that the previous release stored: in `recorder/<broker>.json`, or in the name of its newest
    file of events, `recorder~<broker>~<run>~<first>-<last>`. Raises LandingError."""
    path = f"recorder/{part(broker)}.json"
    content = landing.get(path)
    if content is None:
        return _newest(landing, broker, "", 0, 0)
    try:
        position = Position(**json.loads(content))
    except (TypeError, ValueError) as error:
        raise LandingError(f"{landing.root}/{path} is damaged: {error}") from error
    # It may have been killed between publishing a file and storing the position.
    return _newest(landing, broker, position.journal, position.rewinds, position.number) or position


def _newest(landing: Landing, broker: str, journal: str, rewinds: int, above: int) -> Position | None:
    """Return the last event in the files of the run, or without a `journal` of the run written last; None if its number
    is not above `above`."""
    prefix = recorder_prefix(broker)
    if journal:
        names = landing.names("events", f"{prefix}{part(run_of(journal, rewinds))}~")
        name = max((each for each in names if sequence_of(each) is None), key=_last, default="")
    else:
        name = landing.newest("events", prefix)
    if not name or sequence_of(name) is not None:
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
