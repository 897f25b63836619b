"""Read the lines of one log in order: its events, the time that they cover, and what could not be read. Pure.

Most lines are excluded by a search in the bytes of a block, and then of each line (`bench/import_log.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import tzinfo
from hashlib import blake2b

from console.history.importing.implied import Implied, Timed
from console.history.importing.layouts import JSON, Layout
from console.history.importing.log_files import Block
from console.history.importing.log_report import Report
from console.history.importing.log_times import Fold, LogTimes
from console.history.importing.positions import Position
from console.history.importing.understood import Understood
from console.history.storage.event_rows import Row
from console.history.storage.log_lines import Columns, Unreadable, has_code, may_be_event, may_be_qpid, read_line
from console.history.storage.other_brokers import may_be_other

_REPEATS = 2_000  # ms: lines with the same time are at most this far apart in the file
_FIRST_LINES = 1_000  # of a block: a broker's log has one of `_BROKERS` among those of some block
_NEIGHBOURS = 50  # lines without a time, such as those of a stack trace
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")  # colours
#: Begins the text of a report of old RabbitMQ releases, whose message is in the next line.
_REPORT = re.compile(rb"^=[A-Z ]+ REPORT==== ")
#: What only brokers write: a code of Qpid or Artemis, a category of the C++ broker, an Erlang process, ActiveMQ's name.
_BROKERS = re.compile(
    rb"\b[A-Z]{3}-1\d{3} : |AMQ\d{6}: |qpidd\[|\[(?:Broker|Protocol|Network|Management|Security)\] \w+ "
    rb"|\[\w+\] <0\.\d+\.\d+> |org\.apache\.(?:activemq|qpid)|ActiveMQ"
)


@dataclass(frozen=True, slots=True)
class Options:
    """`zone`: of timestamps without one. `fold`: of the repeated hour. `layout`: of the lines; None: found for each
    line. `before`: ms; later events are skipped. `allow_unread`: import a log with any share of unread event lines.
    `resume`: continue where an earlier import of the log ended."""

    zone: tzinfo
    fold: Fold = "order"
    layout: Layout | None = None
    before: int | None = None
    allow_unread: bool = False
    resume: bool = True

    @property
    def identity(self) -> str:
        """Everything that decides which events a log has."""
        return f"{self.zone}\0{self.fold}\0{self.layout.text if self.layout else ''}\0{self.before}"


class Reading:
    """Reads the lines of one file in order; `rows` are its events that have not been published."""

    def __init__(self, broker: str, options: Options, written: int, position: Position, report: Report) -> None:
        self.report = report
        self.rows: list[Row] = []
        self._broker, self._options = broker, options
        self._key = broker.encode() + b"\0"
        layout = options.layout
        zone = (layout and layout.zone) or options.zone
        self._times = LogTimes(zone, written, options.fold)
        self._scratch = LogTimes(zone, written)
        self._times.continue_from(position.times)
        self._implied = Implied(list(position.alarms), dict(position.blocks))
        first, last, broken = position.span
        self.understood = Understood(first, last, broken=bool(broken))
        self._seen = {(at, text): count for at, text, count in position.seen}
        self._since, self._at_before, self._sequence = position.numbering
        self._lines_before: list[bytes] = []
        report.known = position.known
        report.continued = position.end

    def position(self, end: int) -> Position:
        """Return the state after the lines read, at the position `end`."""
        return Position(
            end,
            times=self._times.state,
            seen=[(at, text, count) for (at, text), count in self._seen.items()],
            numbering=(self._since, self._at_before, self._sequence),
            alarms=list(self._implied.alarms),
            blocks=dict(self._implied.blocks),
            span=self.understood.state,
            known=self.report.known,
        )

    def block(self, block: Block) -> None:
        report, lines = self.report, block.lines
        report.lines += len(lines)
        if not report.known:
            first = b"\n".join(lines[:_FIRST_LINES])
            report.known = self._options.layout is not None or _BROKERS.search(first) is not None
        every_time = self._options.fold == "order" and self._set_back(lines)
        may_be = may_be_event if may_be_other(block.raw) else may_be_qpid
        if not (every_time or self.understood.broken or may_be(block.raw)):
            report.other_lines += len(lines)
            self._lines_before = self._before(lines, len(lines))
            return
        for number, raw in enumerate(lines):
            if self.understood.broken or every_time:
                self._understand([raw])
            if not may_be(raw):
                report.other_lines += 1
                continue
            line = _ESCAPES.sub("", raw.decode("utf-8", "replace")).rstrip("\r")
            try:
                read = self._event(line, lines, number)
            except Unreadable as error:
                if block.complete:
                    report.failed(line, str(error))
                # What was understood ends before this line.
                self._understand(self._before(lines, number), backwards=True)
                self.understood.unread()
                continue
            if read is None:
                continue
            report.known = True
            at, columns = read
            self.understood.line(at)
            report.extend_range(at)
            for each in self._implied.events(at, columns):
                self._add(each)
        self._lines_before = self._before(lines, len(lines))

    def end(self) -> None:
        """All lines have been read."""
        for each in self._implied.ended():
            self._add(each)
        if not self.understood.broken:
            self._understand(self._lines_before, backwards=True)

    def _set_back(self, lines: list[bytes]) -> bool:
        """Return whether the local clock is set back about the time of these lines. Then the order of all lines
        matters, not only that of events."""
        first = next(
            (at for raw in lines[:_NEIGHBOURS] if (at := self._time_of_other(raw, peek=True)) is not None), None
        )
        last = next(
            (at for raw in lines[: -_NEIGHBOURS - 1 : -1] if (at := self._time_of_other(raw, peek=True)) is not None),
            None,
        )
        return first is not None and last is not None and self._times.set_back(first, last)

    def _before(self, lines: list[bytes], number: int) -> list[bytes]:
        near = lines[max(0, number - _NEIGHBOURS) : number]
        return (self._lines_before + near)[-_NEIGHBOURS:] if len(near) < _NEIGHBOURS else near

    def _understand(self, lines: list[bytes], *, backwards: bool = False) -> None:
        """Extend the covered time by the first (or last) of these lines with a time, if it is no unread event."""
        if backwards and self.understood.broken:
            return
        for raw in reversed(lines) if backwards else lines:
            if backwards and may_be_event(raw):
                return  # its time was noted when it was read, and earlier lines would be out of order
            at = self._time_of_other(raw)
            if at is not None:
                self.understood.line(at)
                self.report.extend_range(at)
                return

    def _time_of_other(self, raw: bytes, *, peek: bool = False) -> int | None:
        """Return the time of a line, ms; None for an event, whose time is noted when it has been read. `peek`: of any
        line, out of order."""
        if not raw.strip() or (not peek and may_be_event(raw)):
            return None
        times = self._scratch if peek else self._times
        line = _ESCAPES.sub("", raw[:4096].decode("utf-8", "replace")).rstrip("\r")
        layout = self._options.layout or (JSON if line.startswith("{") else None)
        if layout is None:
            return times.read(line)
        split = layout.split(line, times)
        return split[0] if split else None

    def _event(self, line: str, lines: list[bytes], number: int) -> tuple[int, Columns] | None:
        """Return the event of a line, with its time in ms; None if it is none. Raises Unreadable with the reason."""
        layout = self._options.layout or (JSON if line.startswith("{") else None)
        at, message = None, line
        if layout is not None:
            split = layout.split(line, self._times)
            if split is None:
                raise Unreadable("not the layout" if self._options.layout else "JSON without a known message field")
            at, message = split
        try:
            read = read_line(message)
        except Unreadable:
            raise Unreadable("unknown form") from None
        if read is None:
            self.report.count_other(has_code(message))
            at = self._times.read(line) if layout is None else at
            if at is not None:
                self.understood.line(at)
                self.report.extend_range(at)
            return None
        start, columns = read
        if layout is None:
            at = self._times.read(message[:start])
            if at is None and number and _REPORT.match(lines[number - 1]):
                at = self._times.read(lines[number - 1].decode("utf-8", "replace"))
        if at is None:
            raise Unreadable("no timestamp")
        return at, columns

    def _add(self, event: Timed) -> None:
        """Number an event among those of the same ms, and among equal ones close to it."""
        at, columns = event
        if self._options.before is not None and at >= self._options.before:
            self.report.skipped += 1
            return
        if at != self._at_before:
            self._at_before, self._sequence = at, 0
            if not -_REPEATS < at - self._since < _REPEATS:
                self._since = at
                self._seen.clear()
        text = columns["text"]
        again = self._seen.get((at, text), 0)
        self._seen[at, text] = again + 1
        self.report.events[columns["kind"]] += 1
        self.rows.append(
            columns
            | {
                "broker": self._broker,
                "run": "log",
                "number": self._number(at, text, again),
                "at": at,
                "sequence": self._sequence,
                "source": "log",
            }
        )
        self._sequence += 1

    def _number(self, at: int, text: str, again: int) -> int:
        """Return a number of 63 bits: among a hundred million events the chance of a collision is one in two
        thousand."""
        hashed = blake2b(self._key + b"%d\0%d\0" % (at, again) + text.encode(), digest_size=8).digest()
        return int.from_bytes(hashed) >> 1
