"""Layouts of log lines, as `--layout` names them: where a line has its time and its message. Pure.

A layout is a pattern of logback or log4j (`%d{dd/MM/yyyy HH:mm:ss} %p [%t] %c - %m%n`), or `json`, with
the names of the two fields where they are not common ones: `json:time=when,message=event.text`.

There is no library for the patterns on PyPI: those that parse logs want a regular expression or a Grok pattern instead,
which the configuration of a Java broker does not have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from console.history.importing.log_times import LogTimes

_Split = Callable[[str, LogTimes], "tuple[int | None, str] | None"]


@dataclass(frozen=True, slots=True)
class Layout:
    """`split` returns the time of a line in ms (None: it has none) and its message, or None if the line does not have
    the layout. `zone`: of its times, if the layout names one."""

    text: str
    split: _Split
    zone: tzinfo | None = None


class LayoutError(ValueError):
    """The text is no layout. The message says why."""


def parse_layout(text: str) -> Layout:
    """Return the layout. Raises LayoutError."""
    if text == "json" or text.startswith("json:"):
        return Layout(text, _json(text[5:]))
    if "%" not in text:
        raise LayoutError(f"{text!r} is neither a pattern, such as '%d %-5p [%t] (%c) - %m%n', nor 'json'")
    pattern = _Pattern(text)
    return Layout(text, pattern.split, pattern.zone)


# -- JSON -------------------------------------------------------------------------------------------------------------

#: Of log4j's and logback's encoders, ECS, GELF, Docker, Python, RabbitMQ.
_TIME_FIELDS = ("@timestamp", "timestamp", "time", "timeMillis", "instant", "ts", "date", "datetime", "eventTime")
_MESSAGE_FIELDS = ("message", "msg", "log", "short_message", "full_message", "text", "event", "MESSAGE")


def _json(fields: str) -> _Split:
    named = dict(part.partition("=")[::2] for part in fields.split(",") if part)
    if unknown := set(named) - {"time", "message"}:
        raise LayoutError(f"a JSON layout has time=FIELD and message=FIELD, not {', '.join(sorted(unknown))}")
    times = (named["time"],) if named.get("time") else _TIME_FIELDS
    messages = (named["message"],) if named.get("message") else _MESSAGE_FIELDS

    def split(line: str, log_times: LogTimes) -> tuple[int | None, str] | None:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not isinstance(found, dict):
            return None
        message = next((value for name in messages if isinstance(value := _field(found, name), str)), None)
        if message is None:
            return None
        time = next((value for name in times if (value := _field(found, name)) is not None), None)
        # JSON can have half a surrogate pair, which no other text can.
        text = message.encode(errors="replace").decode()
        return _json_time(time, log_times), text.rstrip("\n")

    return split


#: The layout of lines that begin with `{`, if none is named.
JSON = Layout("json", _json(""))


def _field(found: dict[str, Any], name: str) -> Any:
    """Return the field of that name, or of that path: `event.text`; None if there is none."""
    if name in found:
        return found[name]
    value: Any = found
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _json_time(value: Any, times: LogTimes) -> int | None:
    if isinstance(value, dict):  # log4j's `instant`
        seconds, nanoseconds = value.get("epochSecond"), value.get("nanoOfSecond", 0)
        if isinstance(seconds, int) and isinstance(nanoseconds, int) and 0 <= nanoseconds < 1_000_000_000:
            at = times.of_number(seconds)
            return None if at is None else at + nanoseconds // 1_000_000
        return None
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return times.of_number(value)
    text = str(value)
    try:
        return times.of_number(float(text))
    except ValueError:
        return times.read(text)


# -- patterns of logback and log4j ------------------------------------------------------------------------------------

_CONVERTER = re.compile(r"%(?P<width>[-.\d]*)(?P<name>[A-Za-z]+|\(|%)")
_DATES = {"d", "date"}
_MESSAGES = {"m", "msg", "message"}
_NESTED = {"highlight", "style", "replace", "enc", "encode", "maxLen", "maxLength", "notEmpty", "varsNotEmpty"}
_LINE_ENDS = {"n"}
_ANYTHING = ".{0,200}?"
#: Maximum length of a line with a pattern, in characters: lines of events are short, and a search takes longer in long
#: ones than in proportion to their length.
_LONGEST = 8192
_WORDS = {"p": r"\w+", "le": r"\w+", "level": r"\w+"}
#: Nothing, or stack traces in other lines.
_AFTER = {"ex", "exception", "throwable", "xEx", "xException", "xThrowable", "rEx", "rException", "wEx", "nopex"}
_AFTER |= {"nopexception"}

_NAMED_DATES = {
    "": "yyyy-MM-dd HH:mm:ss,SSS",
    "DEFAULT": "yyyy-MM-dd HH:mm:ss,SSS",
    "DEFAULT_MICROS": "yyyy-MM-dd HH:mm:ss,SSSSSS",
    "DEFAULT_NANOS": "yyyy-MM-dd HH:mm:ss,SSSSSSSSS",
    "DEFAULT_PERIOD": "yyyy-MM-dd HH:mm:ss.SSS",
    "ISO8601": "yyyy-MM-dd'T'HH:mm:ss,SSS",
    "ISO8601_PERIOD": "yyyy-MM-dd'T'HH:mm:ss.SSS",
    "ISO8601_BASIC": "yyyyMMdd'T'HHmmss,SSS",
    "ISO8601_BASIC_PERIOD": "yyyyMMdd'T'HHmmss.SSS",
    "ISO8601_OFFSET_DATE_TIME_HH": "yyyy-MM-dd'T'HH:mm:ss,SSSX",
    "ISO8601_OFFSET_DATE_TIME_HHMM": "yyyy-MM-dd'T'HH:mm:ss,SSSXX",
    "ISO8601_OFFSET_DATE_TIME_HHCMM": "yyyy-MM-dd'T'HH:mm:ss,SSSXXX",
    "COMPACT": "yyyyMMddHHmmssSSS",
    "DATE": "dd MMM yyyy HH:mm:ss,SSS",
    "DATE_PERIOD": "dd MMM yyyy HH:mm:ss.SSS",
    "US_MONTH_DAY_YEAR2_TIME": "MM/dd/yy HH:mm:ss.SSS",
    "US_MONTH_DAY_YEAR4_TIME": "MM/dd/yyyy HH:mm:ss.SSS",
}
_FIELD = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letters>([A-Za-z])\3*)|(?P<other>[^A-Za-z']+)")


def _without_retries(form: str) -> str:
    """Return the expression with the shortest match for what any converter before the message printed: a longer one
    has no better chance, and trying all lengths of several would take hours for one line."""
    before, message, after = form.partition("(?P<message>")
    first, *parts = before.split(_ANYTHING)
    shortest = [part.replace(r"\s+", r"\s+?").replace(r"\s*", r"\s*?") for part in parts[:-1]]
    between = [f"(?>{_ANYTHING}{part})" for part in shortest] + [_ANYTHING + part for part in parts[-1:]]
    return first + "".join(between) + message + after


class _Pattern:
    """A pattern as a regular expression. Its date has the groups of `LogTimes.of`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.zone: tzinfo | None = None
        self._dated = self._epoch = self._message = False
        form = self._form(text)
        if not self._message:
            raise LayoutError(f"{text!r} has no message: %m")
        if not self._dated:
            raise LayoutError(f"{text!r} has no date: %d, with a day and a time, such as %d{{yyyy-MM-dd HH:mm:ss,SSS}}")
        self._regex = re.compile(_without_retries(form.rstrip()) + r"\s*$", re.DOTALL)

    def split(self, line: str, times: LogTimes) -> tuple[int | None, str] | None:
        match = self._regex.match(line) if len(line) <= _LONGEST else None
        if not match:
            return None
        parts = match.groupdict()
        if self._epoch:
            return times.of_number(int(parts["epoch"])), parts["message"]
        return times.of({name: parts.get(name) for name in _GROUPS} | {"minute": _minute(parts)}), parts["message"]

    def _form(self, text: str) -> str:
        """Return the regular expression of a pattern, or of a nested one."""
        form, position = "", 0
        while position < len(text):
            match = _CONVERTER.match(text, position)
            if not match:
                form += r"\s+" if text[position] in " \t" else re.escape(text[position])
                position += 1
                continue
            position = match.end()
            name, inner = match["name"], ""
            if name == "(" or text.startswith("(", position):
                start = position if name == "(" else position + 1
                position = self._closing(text, start, "()")
                inner = text[start : position - 1]
            options = []
            while text.startswith("{", position):
                end = self._closing(text, position + 1, "{}")
                options.append(text[position + 1 : end - 1])
                position = end
            form += self._converted(name, inner, options, match["width"])
        return form.replace(r"\s+\s*", r"\s*").replace(r"\s*\s+", r"\s*")

    def _closing(self, text: str, start: int, pair: str) -> int:
        depth = 1
        for position in range(start, len(text)):
            if text[position] == pair[0]:
                depth += 1
            elif text[position] == pair[1]:
                depth -= 1
                if not depth:
                    return position + 1
        raise LayoutError(f"{self._text!r} has no closing {pair[1]}")

    def _converted(self, name: str, inner: str, options: list[str], width: str) -> str:
        if name == "%":
            return "%"
        if inner or name in _NESTED:
            return self._form(inner or (options[0] if options else ""))
        if name in _LINE_ENDS:
            return ""
        if name in _AFTER:
            return r"\s*"
        if name in _DATES:
            return self._date(options)
        if name in _MESSAGES:
            if self._message:
                raise LayoutError(f"{self._text!r} has two messages")
            self._message = True
            return "(?P<message>.*)"
        # Other converters may print anything, but not much, which bounds a search.
        value = _WORDS.get(name, _ANYTHING)
        return rf"\s*{value}\s*" if width else value

    def _date(self, options: list[str]) -> str:
        if self._dated:
            return _ANYTHING
        self._dated = True
        pattern = self._without_zone(options)
        if pattern in ("UNIX", "UNIX_MILLIS"):
            self._epoch = True
            return r"(?P<epoch>\d+)"
        if pattern in _NAMED_DATES:
            # logback writes a space where log4j writes a T, and each a dot or a comma by its release.
            form = self._fields(_NAMED_DATES[pattern])
            form = form.replace(r"T(?P<h>", r"[T ](?P<h>").replace(r"\ (?P<h>", r"[T ](?P<h>")
            return form.replace(r",(?P<f>", r"[.,](?P<f>").replace(r"\.(?P<f>", r"[.,](?P<f>")
        return self._fields(pattern)

    def _without_zone(self, options: list[str]) -> str:
        """Return the date pattern. log4j names a zone in braces of its own, logback after a comma."""
        pattern = options[0] if options else ""
        before, comma, last = pattern.rpartition(",")
        zone = options[1] if len(options) > 1 else last if comma else ""
        try:
            self.zone = ZoneInfo(zone.strip()) if zone.strip() else None
        except (ZoneInfoNotFoundError, ValueError):
            if len(options) > 1:
                raise LayoutError(f"{options[1]!r} in {self._text!r} is not a time zone") from None
            return pattern
        return (pattern if len(options) > 1 or self.zone is None else before).strip('"')

    def _fields(self, pattern: str) -> str:
        """Return the regular expression of a date pattern of Java."""
        form, seen = "", set()
        for match in _FIELD.finditer(pattern):
            if match["quoted"] is not None:
                form += re.escape(match["quoted"].replace("''", "'") or "'")
            elif match["other"] is not None:
                form += re.escape(match["other"])
            else:
                letter, count = match["letters"][0], len(match["letters"])
                group, digits = _field_form(letter, count)
                if not digits:
                    raise LayoutError(f"{match['letters']!r} in the date pattern {pattern!r} is not known")
                form += digits if group is None or group in seen else f"(?P<{group}>{digits})"
                seen.add(group)
        if missing := [words for names, words in _NEEDED if not names & seen]:
            raise LayoutError(f"the date pattern {pattern!r} has no {', no '.join(missing)}")
        return form


_GROUPS = ("y", "mo", "d", "h", "mi", "s", "f", "z", "ap")
_NEEDED = (({"mo"}, "month"), ({"d"}, "day"), ({"h"}, "hour"), ({"mi"}, "minute"))


#: Letters of a date pattern -> group, and the regular expression of a number of `{n}` digits or of a text.
_LETTERS = {
    **dict.fromkeys("yu", ("y", "")),
    **dict.fromkeys("ML", ("mo", "")),
    "d": ("d", ""),
    **dict.fromkeys("HhkK", ("h", "")),
    "m": ("mi", ""),
    "s": ("s", ""),
    "S": ("f", ""),
    "n": ("f", r"\d{1,9}"),
    "a": ("ap", r"[AaPp][Mm]"),
    **dict.fromkeys("ZXxO", ("z", r"(?:Z|GMT|[+-]\d\d(?::?\d\d)?)")),
    **dict.fromkeys("zVv", ("z", r"\S+?")),
    **dict.fromkeys("Eec", (None, r"[A-Za-z]+\.?")),
}


def _field_form(letter: str, count: int) -> tuple[str | None, str]:
    """Return the group and the regular expression of a date's field: `yyyy` is ("y", ...); an empty one if the letter
    is unknown."""
    if letter not in _LETTERS:
        return None, ""
    group, form = _LETTERS[letter]
    if form:
        return group, form
    if group == "y":
        return group, r"\d{2}" if count == 2 else r"\d{4}"
    if group == "mo" and count > 2:
        return group, r"[A-Za-z]{3,9}\.?"
    if count == 1:
        return group, r" ?\d{1,2}" if group == "d" else r"\d{1,9}" if group == "f" else r"\d{1,2}"
    return group, rf"\d{{{count}}}"


def _minute(parts: dict[str, str | None]) -> str:
    return f"{parts.get('h')}:{parts.get('mi')}"
