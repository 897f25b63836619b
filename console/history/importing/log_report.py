"""What an import read in a file: events by kind, other lines, unread lines with examples. Pure."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

_SHAPES, _OF_EACH = 12, 2
_TEXT = 300  # characters of an example

#: A log of which more of the event lines are unread is not imported, unless the user allows it: what is missing may be
#: the end of each episode.
MAX_UNREAD = 0.01


@dataclass(slots=True)
class Report:
    """`first`, `last`: ms, of its events and of its first and last line."""

    path: Path
    lines: int = 0
    events: Counter[str] = field(default_factory=Counter)
    other_messages: Counter[str] = field(default_factory=Counter)  # code -> operational messages that are not imported
    other_lines: int = 0
    unread: int = 0  # lines of events, or about flow control, that could not be read
    skipped: int = 0  # events excluded by the caller
    examples: dict[str, list[str]] = field(default_factory=dict)  # shape -> the first few unread lines
    first: int | None = None
    last: int | None = None
    covered: int = 0  # ms
    damage: str = ""  # why the rest of the file was not read
    known: bool = False  # it has a line that only a broker writes
    continued: int = 0  # bytes of the file that an earlier import had read

    @property
    def total(self) -> int:
        return self.events.total()

    @property
    def unread_share(self) -> float:
        """The share of the unread lines in all lines that should be events."""
        return self.unread / max(self.total + self.skipped + self.unread, 1)

    def failed(self, line: str, why: str) -> None:
        self.unread += 1
        shape = f"{why}: {re.sub(r'[0-9]+', '9', line[:_TEXT])}"
        examples = self.examples.get(shape)
        if examples is None:
            if len(self.examples) >= _SHAPES:
                return
            examples = self.examples[shape] = []
        if len(examples) < _OF_EACH:
            examples.append(line[:_TEXT])

    def count_other(self, code: str | None) -> None:
        """Count a line that is no event; with a code, an operational message of another kind."""
        if code:
            self.other_messages[code] += 1
        else:
            self.other_lines += 1

    def extend_range(self, at: int) -> None:
        self.first = at if self.first is None else min(self.first, at)
        self.last = at if self.last is None else max(self.last, at)
