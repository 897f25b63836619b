"""Log records as JSON lines, for every process of Headgate, if HEADGATE_LOG_FORMAT is `json`.

A record has `time` (UTC), `level`, `logger`, `process`, `pid` and `message`, an `exception` with its traceback, and the
fields of what caused it: `request_id`, `task_id`, `broker`, `event` and others of `FIELDS`. All text is escaped:
nothing that a user, a client or a broker chose can end a line or a field. What a process writes otherwise (a library's
print, a traceback) becomes records, too: `RecordStream` within the process, and `passed_on` in the supervisor.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import logging
import os
import sys
import threading
from collections.abc import Awaitable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, TextIO, TypeVar

from pythonjsonlogger.json import JsonFormatter

T = TypeVar("T")

VARIABLE = "HEADGATE_LOG_FORMAT"
#: The name of the process in its records, and in those of processes that it starts.
PROCESS = "HEADGATE_LOG_PROCESS"
FORMATS = ("text", "json")
#: Set by the supervisor: its processes put the value into their records, so that what a library writes, with text of
#: others in it, cannot pass for one.
MARK = "HEADGATE_LOG_MARK"
#: Fields that a record can have. Whatever else a library attaches, such as a request with its parameters, is omitted.
FIELDS = (
    "request_id", "task_id", "task", "broker", "event", "object", "audit_entry", "user", "operation", "outcome",
    "method", "path", "status", "duration_ms",
)  # fmt: skip
#: Longest message and traceback, characters: a line is escaped, and read by others with a limit.
LONGEST = 50_000
#: Most lines of one traceback.
_MOST_LINES = 1_000

_context: ContextVar[Mapping[str, Any]] = ContextVar("log_fields", default={})  # noqa: B039  (never changed in place)


def is_json() -> bool:
    return os.environ.get(VARIABLE) == "json"


# -- fields of the present work -------------------------------------------------------------------------------------


def set_fields(**fields: Any) -> None:
    """Set fields of all records of this task or thread, and of those that it starts from now on; None: unset."""
    _context.set({name: value for name, value in {**_context.get(), **fields}.items() if value is not None})


@contextlib.contextmanager
def fields(**values: Any) -> Iterator[None]:
    """Set fields of the records within the block."""
    token = _context.set({**_context.get(), **values})
    try:
        yield
    finally:
        _context.reset(token)


def replace_fields(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Set all fields of the present work; return those that it had."""
    before = _context.get()
    _context.set(values)
    return before


async def in_background(work: Awaitable[T], **values: Any) -> T:
    """Do work, in a task of its own, whose records have these fields, and none of what started the task."""
    _context.set(values)
    return await work


def field(name: str) -> str:
    """Return a field of the present work; "": it has none."""
    return str(_context.get().get(name, ""))


# -- records --------------------------------------------------------------------------------------------------------


class Formatter(JsonFormatter):
    """Formats a record as one line of JSON."""

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        attached = {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
        log_data |= record_of(
            record.getMessage(), record.levelname, record.name, record.created, **{**_context.get(), **attached}
        )
        for name, text in (("exception", message_dict.get("exc_info")), ("stack", message_dict.get("stack_info"))):
            if text:
                log_data[name] = _text(str(text))


def record_of(message: str, level: str, logger: str, at: float | None = None, **more: Any) -> dict[str, Any]:
    """Return a record of this process. `at`: seconds since the epoch; None: now."""
    moment = dt.datetime.now(dt.UTC) if at is None else dt.datetime.fromtimestamp(at, dt.UTC)
    mark = os.environ.get(MARK)
    return {
        "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": level,
        "logger": logger,
        "process": os.environ.get(PROCESS, "headgate"),
        "pid": os.getpid(),
        "message": _text(message),
        **{name: value if isinstance(value, int | float) else _text(str(value)) for name, value in more.items()},
        **({"mark": mark} if mark else {}),
    }


def line_of(record: Mapping[str, Any]) -> str:
    return json.dumps(record, default=str)


def passed_on(line: str, process: str, mark: str) -> dict[str, Any] | None:
    """Return the record in a line of output of a process with this mark, with its name; None if it is no record."""
    if not line.startswith("{") or mark not in line:
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or record.pop("mark", None) != mark:
        return None
    return {**record, "process": process}


def _text(text: str) -> str:
    """Return text that every JSON parser accepts: without lone surrogates, and shortened."""
    whole = text.encode("utf-8", "backslashreplace").decode()
    return whole if len(whole) <= LONGEST else f"{whole[:LONGEST]} … ({len(whole):,} characters)"


# -- other output ---------------------------------------------------------------------------------------------------


class Lines:
    """Groups lines of output: a traceback is one group, every other line its own."""

    def __init__(self) -> None:
        self._traceback: list[str] = []

    def add(self, line: str) -> list[str]:
        """Return the groups that the line completes."""
        if line.startswith("Traceback (most recent call last)"):
            return [*self.end(), *self._begin(line)]
        if not self._traceback:
            return [line] if line.strip() else []
        self._traceback.append(line)
        inside = not line.strip() or line[0].isspace()
        return [] if inside and len(self._traceback) < _MOST_LINES else self.end()

    def end(self) -> list[str]:
        """Return what is left: a traceback without its last line."""
        left, self._traceback = self._traceback, []
        return ["\n".join(left)] if left else []

    def _begin(self, line: str) -> list[str]:
        self._traceback = [line]
        return []


def level_of(group: str, *, error_stream: bool) -> str:
    """Return the level of a group of lines that is no record."""
    if group.startswith("Traceback"):
        return "ERROR"
    return "WARNING" if error_stream else "INFO"


class RecordStream:
    """Stands for `sys.stdout` or `sys.stderr`, `raw`: what is written to it becomes records, a line each."""

    def __init__(self, raw: TextIO, name: str) -> None:
        self.raw = raw
        self._name = name
        self._lines = Lines()
        self._part = ""
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        with self._lock:
            *whole, self._part = f"{self._part}{text}".split("\n")
            for line in whole:
                self._put(self._lines.add(line))
            if len(self._part) > LONGEST:
                self._put(self._lines.add(self._part))
                self._part = ""
        return len(text)

    def flush(self) -> None:
        self.raw.flush()

    def finish(self) -> None:
        """Write what is left without the end of a line."""
        with self._lock:
            self._put([*(self._lines.add(self._part) if self._part else []), *self._lines.end()])
            self._part = ""
            self.raw.flush()

    def _put(self, groups: list[str]) -> None:
        for group in groups:
            level = level_of(group, error_stream=self._name == "stderr")
            self.raw.write(f"{line_of(record_of(group, level, self._name, **_context.get()))}\n")
        if groups:
            self.raw.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


class Handler(logging.StreamHandler[TextIO]):
    """Writes records to standard error."""

    def __init__(self) -> None:
        super().__init__(getattr(sys.stderr, "raw", sys.stderr))
        self.setFormatter(Formatter())


# -- a process ------------------------------------------------------------------------------------------------------


def start(process: str) -> None:
    """Turn all output of this process into records, if the format is JSON: also of warnings and uncaught exceptions."""
    os.environ[PROCESS] = process
    if not is_json():
        return
    for name in ("stdout", "stderr"):
        setattr(sys, name, RecordStream(getattr(sys, name), name))
    logging.captureWarnings(capture=True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda args: _uncaught(args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback)


def finish() -> None:
    """Write what is left of the output. Call it before a process ends at once."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, RecordStream):
            with contextlib.suppress(OSError, ValueError):
                stream.finish()


def _uncaught(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    formatted = Formatter().format(
        logging.LogRecord("uncaught", logging.CRITICAL, "", 0, "%s", (repr(error),), (kind, error, trace))
    )
    raw = getattr(sys.stderr, "raw", sys.stderr)
    raw.write(f"{formatted}\n")
    raw.flush()
