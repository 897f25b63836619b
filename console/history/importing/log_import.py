"""Import brokers' logs into the landing folder, as a stream of lines with any content.

The identity of an event is broker, time, text, and the number of earlier lines with the same time and text, so the same
lines in another file (a rotated, longer or renamed one) are the same events. No content is fatal: unreadable lines
are counted, with the first ones of each shape as samples.

Files are read in large blocks, and most lines are excluded by a search in their bytes (`bench/import_log.py`).
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
from console.history.storage.landing import Landing
from console.history.storage.landing_names import part
from console.history.storage.log_lines import Columns, Unreadable, has_code, may_be_event, read_line

#: Maximum number of events of one landing file.
BATCH = 50_000
_BLOCK = 4 << 20
#: Maximum length of a line in bytes; a longer one is not part of a log.
_LONGEST = 1 << 20
_SHAPES, _OF_EACH = 12, 2
_TEXT = 300  # characters of a sample
_REPEATS = 2_000  # ms: lines with the same time are at most this far apart in the file

Progress = Callable[["Report", int, int], None]


class LogError(Exception):
    """The file cannot be read. The message is one line with its name."""


@dataclass(slots=True)
class Report:
    """The result of an import. `first`, `last`: ms, of its events and of its first and last line."""

    path: Path
    lines: int = 0
    events: Counter[str] = field(default_factory=Counter)
    other_messages: Counter[str] = field(default_factory=Counter)  # code -> operational messages that are not imported
    other_lines: int = 0
    unreadable: int = 0
    skipped: int = 0  # events excluded by the caller
    samples: dict[str, list[str]] = field(default_factory=dict)  # shape -> the first few unreadable lines
    first: int | None = None
    last: int | None = None
    damage: str = ""  # why the rest of the file was not read

    @property
    def total(self) -> int:
        return self.events.total()

    def failed(self, line: str, why: str) -> None:
        self.unreadable += 1
        shape = f"{why}: {re.sub(r'[0-9]+', '9', line[:_TEXT])}"
        samples = self.samples.get(shape)
        if samples is None:
            if len(self.samples) >= _SHAPES:
                return
            samples = self.samples[shape] = []
        if len(samples) < _OF_EACH:
            samples.append(line[:_TEXT])

    def count_other(self, code: str | None) -> None:
        """Count a line that is no event; with a code, an operational message of another kind."""
        if code:
            self.other_messages[code] += 1
        else:
            self.other_lines += 1

    def extend_range(self, at: int) -> None:
        self.first = at if self.first is None else min(self.first, at)
        self.last = at if self.last is None else max(self.last, at)


class LogImport:
    """Imports logs of one broker. `zone`: of timestamps without one. `before`: ms; later events are skipped."""

    def __init__(self, landing: Landing, broker: str, zone: tzinfo, *, before: int | None = None) -> None:
        self._landing = landing
        self._broker = broker
        self._zone = zone
        self._before = before
        self._key = broker.encode() + b"\0"

    def import_file(self, path: Path, progress: Progress = lambda report, done, size: None) -> Report:
        """Import one file and return its report. `progress` is called with the report so far, the bytes read and the
        total bytes. Raises LogError if it cannot be read, LandingError."""
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
        """Publish rows. Equal rows get the same file name, so a second import replaces an existing file."""
        named = blake2b(b"".join(row["number"].to_bytes(8) for row in rows), digest_size=16).hexdigest()
        self._landing.publish("events", table("events", rows), f"log~{part(self._broker)}~{named}")

    def _cover(self, first: int, last: int) -> None:
        row = {"broker": self._broker, "run": "log", "at": first, "until": last, "followed": True, "source": "log"}
        self._landing.publish("coverage", table("coverage", [row]), f"log~{part(self._broker)}~{first}-{last}")

    def _rows(self, path: Path, report: Report, progress: Progress) -> Iterator[Row]:
        """Yield the file's events as rows; those of the same ms are numbered, and so are equal ones close to each
        other."""
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
        """Yield the file's events with their times in ms; the report counts all other lines."""
        times = LogTimes(self._zone, _written(path))
        last_line = b""
        for lines in _blocks(path, report, progress):
            if not report.lines:
                self._note_time(lines[:50], times, report)
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
                    report.count_other(has_code(line))
                    continue
                start, columns = read
                at = times.read(line[:start])
                if at is None:
                    report.failed(line, "no timestamp")
                    continue
                report.extend_range(at)
                if self._before is not None and at >= self._before:
                    report.skipped += 1
                    continue
                yield at, columns
        self._note_time([last_line], times, report)

    def _note_time(self, lines: list[bytes], times: LogTimes, report: Report) -> None:
        """Extend the report's range: a log without events covers its time, too."""
        for raw in lines:
            at = times.read(raw[:200].decode("utf-8", "replace"))
            if at is not None:
                report.extend_range(at)
                return

    def _number(self, at: int, text: str, again: int) -> int:
        """Return a number of 63 bits: among a hundred million events the chance of a collision is one in two
        thousand."""
        hashed = blake2b(self._key + b"%d\0%d\0" % (at, again) + text.encode(), digest_size=8).digest()
        return int.from_bytes(hashed) >> 1


def _blocks(path: Path, report: Report, progress: Progress) -> Iterator[list[bytes]]:
    """Yield the lines of a file in lists. Raises LogError."""
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
    """Decompress a file; a truncated one, such as a log that is being compressed, up to its end."""
    unpacking = zlib.decompressobj(wbits=31)
    packed = b""
    try:
        while packed := packed or file.read(_BLOCK // 8):
            if unpacking.eof:  # another compressed member follows
                unpacking = zlib.decompressobj(wbits=31)
            block = unpacking.decompress(packed, _BLOCK)
            packed = unpacking.unused_data if unpacking.eof else unpacking.unconsumed_tail
            if block:
                yield block
        if not unpacking.eof:
            report.damage = "it is truncated; the part before was imported"
    except zlib.error as error:
        report.damage = f"it is damaged ({error}); the part before was imported"


def _written(path: Path) -> int:
    """Return when the log was written, ms. A compressed file may have this time in its header, which copies
    preserve."""
    try:
        with path.open("rb") as file:
            head = file.read(8)
        if head[:2] == b"\x1f\x8b" and (seconds := int.from_bytes(head[4:8], "little")):
            return seconds * 1000
        return path.stat().st_mtime_ns // 1_000_000
    except OSError as error:
        raise LogError(f"{path} cannot be read: {error.strerror or error}") from error
