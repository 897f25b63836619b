"""Brokers' logs into the landing folder: read as streams, line by line, whatever stands in them.

An event is known by broker, time, text, and how many lines of the same time and text came before it, so the same lines
in another file (a rotated, longer or renamed one) are the same events. Nothing in a log is fatal: what cannot be read
is counted, with the first few lines of each shape.

Files are read in large blocks and most lines are dismissed by a search in their bytes (`bench/import_log.py`).
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import tzinfo
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from console.history.importing.log_times import LogTimes
from console.history.storage.event_rows import Row, table
from console.history.storage.landing import Landing, part
from console.history.storage.log_lines import Columns, Unreadable, has_code, may_be_event, read_line

#: Events of one file in the landing folder.
BATCH = 50_000
_BLOCK = 4 << 20
#: A line longer than this is no line of a log.
_LONGEST = 1 << 20
_SHAPES, _OF_EACH = 12, 2
_TEXT = 300  # characters of a sample
_REPEATS = 2_000  # ms: lines with the same time are no further apart in the file

Progress = Callable[["Report", int, int], None]


class LogError(Exception):
    """The file cannot be read. The message is one line that names it."""


@dataclass(slots=True)
class Report:
    """What a file held. `first` and `last`: ms, of its events and of its first and last line."""

    path: Path
    lines: int = 0
    events: Counter[str] = field(default_factory=Counter)
    other_messages: Counter[str] = field(default_factory=Counter)  # code -> operational messages that are not kept
    other_lines: int = 0
    unreadable: int = 0
    skipped: int = 0  # events that the caller did not want
    samples: dict[str, list[str]] = field(default_factory=dict)  # shape -> the first few unreadable lines
    first: int | None = None
    last: int | None = None
    damage: str = ""  # why the file was not read to its end

    @property
    def total(self) -> int:
        return self.events.total()

    def failed(self, line: str, why: str) -> None:
        self.unreadable += 1
        shape = f"{why}: {re.sub(r'[0-9]+', '9', line[:_TEXT])}"
        kept = self.samples.get(shape)
        if kept is None:
            if len(self.samples) >= _SHAPES:
                return
            kept = self.samples[shape] = []
        if len(kept) < _OF_EACH:
            kept.append(line[:_TEXT])

    def passed_over(self, code: str | None) -> None:
        """A line that is no event; with a code, an operational message of another kind."""
        if code:
            self.other_messages[code] += 1
        else:
            self.other_lines += 1

    def saw(self, at: int) -> None:
        self.first = at if self.first is None else min(self.first, at)
        self.last = at if self.last is None else max(self.last, at)


class LogImport:
    """Logs of one broker. `zone`: of timestamps that name none. `before`: ms, later events are left out."""

    def __init__(self, landing: Landing, broker: str, zone: tzinfo, *, before: int | None = None) -> None:
        self._landing = landing
        self._broker = broker
        self._zone = zone
        self._before = before
        self._key = broker.encode() + b"\0"

    def take(self, path: Path, progress: Progress = lambda report, done, size: None) -> Report:
        """Read one file and publish its events. `progress` gets the report so far, bytes done, bytes in all. Raises
        LogError if it cannot be read at all, LandingError."""
        report = Report(path)
        rows: list[Row] = []
        for row in self._rows(path, report, progress):
            rows.append(row)
            if len(rows) >= BATCH:
                self._publish(rows)
                rows = []
        if rows:
            self._publish(rows)
        if report.first is not None and report.last is not None:
            self._cover(report.first, report.last)
        return report

    def _publish(self, rows: list[Row]) -> None:
        """The same rows get the same name: a second import replaces a file that is still there."""
        named = blake2b(b"".join(row["number"].to_bytes(8) for row in rows), digest_size=16).hexdigest()
        self._landing.publish("events", table("events", rows), f"log~{part(self._broker)}~{named}")

    def _cover(self, first: int, last: int) -> None:
        row = {"broker": self._broker, "run": "log", "at": first, "until": last, "followed": True, "source": "log"}
        self._landing.publish("coverage", table("coverage", [row]), f"log~{part(self._broker)}~{first}-{last}")

    def _rows(self, path: Path, report: Report, progress: Progress) -> Iterator[Row]:
        """Its events as rows: those of one ms are numbered, and so are equal ones close to each other."""
        seen: dict[tuple[int, str], int] = {}
        since, at_before, sequence = 0, -1, 0
        for at, columns in self._events(path, report, progress):
            if at != at_before:
                at_before, sequence = at, 0
                if not -_REPEATS < at - since < _REPEATS:
                    since = at
                    seen.clear()
            text = columns["text"]
            again = seen.get((at, text), 0)
            seen[at, text] = again + 1
            report.events[columns["kind"]] += 1
            yield columns | {
                "broker": self._broker,
                "run": "log",
                "number": self._number(at, text, again),
                "at": at,
                "sequence": sequence,
                "source": "log",
            }
            sequence += 1

    def _events(self, path: Path, report: Report, progress: Progress) -> Iterator[tuple[int, Columns]]:
        """Its events, each with its time in ms; the report counts all that is none."""
        times = LogTimes(self._zone, _written(path))
        last_line = b""
        for lines in _blocks(path, report, progress):
            if not report.lines:
                self._see(lines[:50], times, report)
            report.lines += len(lines)
            last_line = lines[-1] or last_line
            for raw in lines:
                if not may_be_event(raw):
                    report.other_lines += 1
                    continue
                line = raw.decode("utf-8", "replace").rstrip("\r")
                try:
                    read = read_line(line)
                except Unreadable:
                    report.failed(line, "unknown form")
                    continue
                if read is None:
                    report.passed_over(has_code(line))
                    continue
                start, columns = read
                at = times.read(line[:start])
                if at is None:
                    report.failed(line, "no timestamp")
                    continue
                report.saw(at)
                if self._before is not None and at >= self._before:
                    report.skipped += 1
                    continue
                yield at, columns
        self._see([last_line], times, report)

    def _see(self, lines: list[bytes], times: LogTimes, report: Report) -> None:
        """A log without events tells as well that there were none."""
        for raw in lines:
            at = times.read(raw[:200].decode("utf-8", "replace"))
            if at is not None:
                report.saw(at)
                return

    def _number(self, at: int, text: str, again: int) -> int:
        """63 bits: of a hundred million events two may be taken for one with a chance of one in two thousand."""
        hashed = blake2b(self._key + b"%d\0%d\0" % (at, again) + text.encode(), digest_size=8).digest()
        return int.from_bytes(hashed) >> 1


def _blocks(path: Path, report: Report, progress: Progress) -> Iterator[list[bytes]]:
    """The lines of a file, many at a time."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            begin = file.read(2)
            file.seek(0)
            if begin in (b"\xff\xfe", b"\xfe\xff"):
                raise LogError(f"{path} is UTF-16: convert it to UTF-8 first")
            rest = b""
            for block in _unpacked(file, report) if begin == b"\x1f\x8b" else iter(lambda: file.read(_BLOCK), b""):
                lines = (rest + block).split(b"\n")
                rest = lines.pop()
                if len(rest) > _LONGEST:
                    report.failed(rest[:_TEXT].decode("utf-8", "replace"), "no end of line")
                    rest = b""
                if lines:
                    yield lines
                progress(report, file.tell(), size)
            if rest:
                yield [rest]
    except OSError as error:
        raise LogError(f"{path} cannot be read: {error.strerror or error}") from error


def _unpacked(file: BinaryIO, report: Report) -> Iterator[bytes]:
    """A packed file that breaks off, as a log that is being packed does, is taken as far as it goes."""
    unpacking = zlib.decompressobj(wbits=31)
    packed = b""
    try:
        while packed := packed or file.read(_BLOCK // 8):
            if unpacking.eof:  # another file follows in the same one
                unpacking = zlib.decompressobj(wbits=31)
            block = unpacking.decompress(packed, _BLOCK)
            packed = unpacking.unused_data if unpacking.eof else unpacking.unconsumed_tail
            if block:
                yield block
        if not unpacking.eof:
            report.damage = "it breaks off; what stands before that was taken"
    except zlib.error as error:
        report.damage = f"it is damaged ({error}); what stands before that was taken"


def _written(path: Path) -> int:
    """ms. A packed file may know when the log in it was written, which outlives copying."""
    try:
        with path.open("rb") as file:
            head = file.read(8)
        if head[:2] == b"\x1f\x8b" and (seconds := int.from_bytes(head[4:8], "little")):
            return seconds * 1000
        return path.stat().st_mtime_ns // 1_000_000
    except OSError as error:
        raise LogError(f"{path} cannot be read: {error.strerror or error}") from error
