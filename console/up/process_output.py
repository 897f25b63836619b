"""What becomes of the output of a supervised process: shown, collected, or made into records of the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from brokers import log_records


class Output(Protocol):
    """Takes the output of a process, line by line."""

    def line(self, line: str) -> str:
        """Take a line, and return it as it explains an end of the process."""

    def end(self) -> None: ...


class Collected:
    """Puts lines into a list, or drops them."""

    def __init__(self, lines: list[str] | None = None) -> None:
        self._lines = lines

    def line(self, line: str) -> str:
        if self._lines is not None:
            self._lines.append(line)
        return line

    def end(self) -> None: ...


class Shown:
    """Shows each line."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show

    def line(self, line: str) -> str:
        self._show(line)
        return line

    def end(self) -> None: ...


class Records:
    """Shows the records of a process with its name, and makes records of what it writes otherwise: one of a traceback.
    `mark`: what its own records contain."""

    def __init__(self, show: Callable[[Mapping[str, Any]], None], process: str, stream: str, mark: str) -> None:
        self._show = show
        self._process = process
        self._stream = stream
        self._mark = mark
        self._lines = log_records.Lines()

    def line(self, line: str) -> str:
        found = log_records.passed_on(line, self._process, self._mark)
        if found is None:
            self._put(self._lines.add(line))
            return line
        self.end()
        self._show(found)
        return f"{found.get('level')} {found.get('message')}"

    def end(self) -> None:
        self._put(self._lines.end())

    def _put(self, groups: list[str]) -> None:
        for group in groups:
            level = log_records.level_of(group, error_stream=self._stream == "stderr")
            self._show({**log_records.record_of(group, level, self._stream), "process": self._process})
