"""Layouts of lines: patterns of logback and log4j, and JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from console.history.importing.layouts import LayoutError, parse_layout
from console.history.importing.log_times import LogTimes

AT = int(datetime(2014, 6, 2, 12, 14, 5, tzinfo=UTC).timestamp() * 1000)
MESSAGE = "[vh(/a)/qu(b c)] QUE-1002 : Delete : x"


def split(layout: str, line: str, zone: str = "UTC") -> tuple[int | None, str] | None:
    found = parse_layout(layout)
    return found.split(line, LogTimes(found.zone or ZoneInfo(zone), AT + 86_400_000))


@pytest.mark.parametrize(
    ("layout", "line", "ms"),
    [
        # Broker-J's file logger, Artemis' and ActiveMQ's log4j2.properties
        ("%d %-5p [%t] (%c{2}) - %m%n", f"2014-06-02 12:14:05,123 INFO  [Broker-Config] (q.m) - {MESSAGE}", 123),
        ("%d %-5level [%logger] %msg%n", f"2014-06-02 12:14:05,123 WARN  [org.x.Y] {MESSAGE}", 123),
        ("%d | %-5p | %m | %c | %t%n%throwable{full}", f"2014-06-02 12:14:05,123 | WARN  | {MESSAGE} | o.Q | T", 123),
        ("%d{dd/MM/yyyy HH:mm:ss} %m%n", f"02/06/2014 12:14:05 {MESSAGE}", 0),
        ("%d{MM/dd/yyyy HH:mm:ss.SSS} %m%n", f"06/02/2014 12:14:05.250 {MESSAGE}", 250),
        ("%date{dd.MM.yy HH:mm:ss} %msg", f"02.06.14 12:14:05 {MESSAGE}", 0),
        ("%d{MMM dd, yyyy h:mm:ss a} %c: %m", f"Jun 02, 2014 12:14:05 PM a.b: {MESSAGE}", 0),
        ("%d{yyyyMMddHHmmssSSS} %m", f"20140602121405007 {MESSAGE}", 7),
        ("%d{EEE MMM dd HH:mm:ss yyyy}: %m", f"Mon Jun 02 12:14:05 2014: {MESSAGE}", 0),
        ("%d{ISO8601} %m%n", f"2014-06-02T12:14:05,123 {MESSAGE}", 123),
        ("%d{ISO8601} %m%n", f"2014-06-02 12:14:05.123 {MESSAGE}", 123),
        ("%d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %m%n", f"2014-06-02T14:14:05.123+02:00 {MESSAGE}", 123),
        ("%d{yyyy-MM-dd HH:mm:ss, Europe/Paris} %m%n", f"2014-06-02 14:14:05 {MESSAGE}", 0),
        ("%d{yyyy-MM-dd HH:mm:ss}{Europe/Paris} %m%n", f"2014-06-02 14:14:05 {MESSAGE}", 0),
        ("%d{UNIX_MILLIS} %m%n", f"{AT + 9} {MESSAGE}", 9),
        ("%clr(%d{yyyy-MM-dd HH:mm:ss.SSS}){faint} %clr(%5p) %m%n", f"2014-06-02 12:14:05.123  INFO {MESSAGE}", 123),
        ("%d %highlight{%-5p}{FATAL=red} %X{u} %m", f"2014-06-02 12:14:05,001 INFO  x {MESSAGE}", 1),
        ("%d [%t %x] %c: %m", f"2014-06-02 12:14:05,123 [one two ] o.Q: {MESSAGE}", 123),
        ("%t %X %p %c %d: %m", f"main  INFO o.Q  2014-06-02 12:14:05,123: {MESSAGE}", 123),
        ("[%25.25t] 100%% %d - %m", f"[{'main':>25}] 100% 2014-06-02 12:14:05,123 - {MESSAGE}", 123),
        ("json", json.dumps({"@timestamp": "2014-06-02T12:14:05.123Z", "message": MESSAGE}), 123),
        ("json", json.dumps({"timestamp": AT / 1000, "msg": MESSAGE}), 0),
        ("json", json.dumps({"timeMillis": AT + 3, "message": MESSAGE}), 3),
        ("json", json.dumps({"instant": {"epochSecond": AT // 1000, "nanoOfSecond": 4000000}, "msg": MESSAGE}), 4),
        ("json", json.dumps({"time": "2014-06-02 12:14:05.123+00:00", "msg": MESSAGE, "level": "info"}), 123),
        ("json", json.dumps({"log": f"{MESSAGE}\n", "time": "2014-06-02T12:14:05.123456789Z"}), 123),
        ("json:time=when,message=event.text", json.dumps({"when": str(AT), "event": {"text": MESSAGE}}), 0),
    ],
)  # fmt: skip
def test_layout_gives_time_and_message(layout: str, line: str, ms: int) -> None:
    assert split(layout, line) == (AT + ms, MESSAGE)


@pytest.mark.parametrize(
    ("layout", "why"),
    [
        ("plain", "neither a pattern"),
        ("%m%n", "no date"),
        ("%d%n", "no message"),
        ("%d{HH:mm:ss.SSS} %m%n", "no month, no day"),
        ("%d{yyyy-MM-dd} %m%n", "no hour, no minute"),
        ("%d{yyyy-MM-dd HH:mm %m%n", "no closing }"),
        ("%d{yyyy-MM-dd HH:mm BBB} %m%n", "'BBB' in the date pattern"),
        ("%d{yyyy-MM-dd HH:mm}{Mars} %m%n", "'Mars' in .* is not a time zone"),
        ("%d %m %m", "two messages"),
        ("json:when=x", "time=FIELD and message=FIELD, not when"),
    ],
)
def test_wrong_layout_is_refused_with_the_reason(layout: str, why: str) -> None:
    with pytest.raises(LayoutError, match=why):
        parse_layout(layout)


@pytest.mark.parametrize(
    ("layout", "line"),
    [
        ("%d %m%n", f"12:14:05,123 {MESSAGE}"),
        ("json", MESSAGE),
        ("json", "[1, 2]"),
        ("json", '{"message": 5}'),
        ("json", "{" * 100_000),
        ("%c %t %d %m%n", "a " * 500_000),
        # Trying all lengths of what each of them may have printed would take hours.
        ("%t %c %X %M %x %L %d - %m%n", "a " * 4000),
        ("%d %t %c %X %M %x %L - %m%n", "2014-06-02 12:14:05,123 " + "a " * 4000),
        ("%d | %m | %c | %t%n", "2014-06-02 12:14:05,123 " + "| " * 100_000 + "x" * 500),
    ],
)
def test_line_of_another_layout_is_not_split(layout: str, line: str) -> None:
    assert split(layout, line) is None


@pytest.mark.parametrize(
    "time",
    [
        *(None, True, "yesterday", -5, 1e300, "1e400", "nan", {"epochSecond": "x"}, {}, [], 10**400, "9" * 400),
        *({"epochSecond": 10**30}, {"epochSecond": AT // 1000, "nanoOfSecond": 10**30}),
        *("2014-06-02 12:14:05 +9900", "9999-12-31 23:59:59", "0001-01-01 00:00:00"),
    ],
)
def test_json_line_without_a_time_has_none(time: object) -> None:
    assert split("json", json.dumps({"time": time, "message": MESSAGE})) == (None, MESSAGE)
