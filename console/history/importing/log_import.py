"""Import brokers' logs into the landing folder, as a stream of lines with any content.

The identity of an event is broker, time, text, and the number of earlier lines with the same time and text, so the same
lines in another file (a rotated, longer or renamed one) are the same events. No content is fatal, but a log with too
many unread event lines is refused (`log_report.MAX_UNREAD`), and only time whose lines were understood is covered.

Events and coverage are published in steps, each followed by the position in the file, from which a repeated import
continues.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from console.history.importing.log_files import Block, LogError, blocks, written
from console.history.importing.log_reading import Options, Reading
from console.history.importing.log_report import MAX_UNREAD, Report
from console.history.importing.positions import Position, Positions
from console.history.storage.event_rows import table
from console.history.storage.landing import Landing
from console.history.storage.landing_names import part

#: Maximum number of events between two positions, and of bytes.
BATCH = 50_000
_BYTES = 64 << 20
#: A log written less than this ago, ms, may still be written: loggers write their buffers, not whole lines.
_SETTLED = 60_000

Progress = Callable[[Report, int, int], None]


class LogImport:
    """Imports logs of one broker. `clock`: ms."""

    def __init__(
        self,
        landing: Landing,
        broker: str,
        options: Options,
        *,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._landing = landing
        self._clock = clock
        self._broker = broker
        self._options = options
        self._positions = Positions(landing, broker, options.identity)

    def import_file(self, path: Path, progress: Progress = lambda report, done, size: None) -> Report:
        """Import one file and return its report. `progress` is called with the report so far, the bytes read and the
        total bytes. Raises LogError if it cannot be read or too little of it was understood, LandingError."""
        report = Report(path)
        position = self._positions.get(path) if self._options.resume else Position()
        reading = Reading(self._broker, self._options, written(path), position, report)
        last: Block | None = None
        since = position.end
        for block in blocks(path, report, position.end, lambda done, size: progress(report, done, size)):
            if not block.complete:
                if report.damage or self._clock() - written(path) < _SETTLED:
                    # Read as it is, it would be another event than when it is finished.
                    report.damage = report.damage or "its last line is not finished: import it again later"
                    break
                if last is not None:
                    self._publish(path, reading, last)  # read the unfinished line again, when it is finished
            reading.block(block)
            last = block
            if block.complete and (len(reading.rows) >= BATCH or block.end - since >= _BYTES):
                self._publish(path, reading, block)
                since = block.end
        reading.end()
        self._publish(path, reading, last if last is not None and last.complete else None)
        return report

    def _publish(self, path: Path, reading: Reading, block: Block | None) -> None:
        """Publish what was read, with the position after the block."""
        report = reading.report
        if report.unread_share > MAX_UNREAD and not self._options.allow_unread:
            raise LogError(_too_much(report))
        position = reading.position(block.end) if block else None
        rows = reading.rows
        for offset in range(0, len(rows), BATCH):
            batch = rows[offset : offset + BATCH]
            # Equal rows get the same file name, so a second import replaces an existing file.
            name = blake2b(b"".join(row["number"].to_bytes(8) for row in batch), digest_size=16).hexdigest()
            self._landing.publish("events", table("events", batch), f"log~{part(self._broker)}~{name}")
        reading.rows = []
        spans = reading.understood.take() if report.known else []
        if spans:
            report.covered += sum(until - at for at, until in spans)
            common = {"broker": self._broker, "run": "log", "followed": True, "source": "log"}
            covered = [common | {"at": at, "until": until} for at, until in spans]
            name = f"log~{part(self._broker)}~{spans[0][0]}-{spans[-1][1]}-{len(spans)}"
            self._landing.publish("coverage", table("coverage", covered), name)
        if block and position and self._options.resume:
            position.span = reading.understood.state
            self._positions.put(path, position, block.before)


def _too_much(report: Report) -> str:
    """Return why a log is refused, with examples."""
    examples = [sample for samples in report.examples.values() for sample in samples][:3]
    return (
        f"{report.path}: {report.unread:,} of {report.unread + report.total + report.skipped:,} event lines"
        f" ({report.unread_share:.0%}) could not be read: name their --layout, or import the others with"
        f" --allow-unread. Examples: {' | '.join(examples)}"
    )
