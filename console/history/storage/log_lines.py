"""Parse the messages of brokers' logs, without timestamp and level: the texts of DOMAIN.md section 6. Pure.

Old and new formats of Qpid's Java broker (which Headgate's own broker writes, too), the C++ broker's lines about flow
control, and the warnings of clients. Numbers may have the digit grouping of any locale.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from brokers.model import NOTIFICATIONS, object_name
from console.history.storage.other_brokers import (
    ONLY_VIRTUALHOST,
    may_be_other,
    milliseconds,
    read_other,
    whole_number,
)

Columns = dict[str, Any]

_MESSAGE_CODE = re.compile(rb"-1\d\d\d : ")

_SUBJECT = re.compile(
    # The whole word `Broker`: the Java broker names a thread `[Broker-Config]`.
    r"\[(?P<subject>[Bb]roker|(?:vh\(/|con:|sub:|mng:|port\(|[Bb]roker\] \[)[^\n]*?)\] (?P<code>[A-Z]{3}-1\d{3}) :"
    r" (?P<words>.*)"
)
_VIRTUALHOST = re.compile(
    r"vh\(/(?P<virtualhost>.*?)\)"
    r"(?:/qu\((?P<queue>.*)\)|/ms\((?P<store>.*)\)|/ex\((?P<type>[^/]*)/(?P<exchange>.*?)\)(?:/qu\(.*)?)?$"
)
_CONNECTION = re.compile(r"(?P<connection>con:\d+\((?P<client>.*)\))(?:/(?P<channel>ch:\d+))?$")

#: 1,200 or 1.200 or 1 200 (with spaces that do not break) or 1'200; -1 is Qpid's "no limit".
_N = r"(-?\d[\d,.'\u00a0\u202f\u2019]*?)"
_OVERFULL = re.compile(
    rf"Overfull : Size : {_N} bytes, Capacity : {_N}(?:, Messages : {_N}, Message Capacity : {_N})?$"
)
_UNDERFULL = re.compile(
    rf"Underfull : Size : {_N} bytes, Resume Capacity : {_N}(?:, Messages : {_N}, Message Capacity : {_N})?$"
)
_DROPPED = re.compile(
    rf"Dropped : {_N} messages, Depth : {_N} bytes, {_N} messages, Capacity : {_N} bytes, {_N} messages$"
)
_ENFORCED = re.compile(r"Flow Control Enforced \(Queue (.*)\)$")
_RECOVERED = re.compile(rf"Recovered {_N} messages")
#: The Java broker's name of all queues if the store is full.
_ALL_QUEUES = "** All Queues **"

_CPP_OVERFULL = re.compile(
    r'Queue "(?P<queue>.*?)": has reached (?P<count>\d+) enqueued (?P<unit>messages|bytes)\.'
    r" Producer flow control activated\."
)
_CPP_UNDERFULL = re.compile(
    r'Queue "(?P<queue>.*?)": has drained below the flow control resume level\. Producer flow control deactivated\.'
)
_CLIENT = re.compile(
    r"(?:Message send delayed by (?P<delayed>\d+)s due to|Unable to send message for (?P<failed>\d+) seconds due to"
    r"|Message send failed due to timeout waiting on) broker enforced flow control"
)

_FLOW_CONTROL = re.compile(r"Producer flow control (?:de)?activated|broker enforced flow control")

_KINDS = {notification.code: kind for kind, notification in NOTIFICATIONS.items()}
_KINDS |= {
    # A closed channel has no producers; a block that it had ends as if they had been detached.
    "CHN-1003": "producer-detached",
    "CON-1003": "connection-closed",  # due to inactivity
    "CON-1004": "connection-closed",  # dropped
    "VHT-1006": "store-overfull",  # the file system is
    "VHT-1007": "store-underfull",
}


class Unreadable(ValueError):
    """The line has the code of an event, but not its format."""


def may_be_event(lines: bytes) -> bool:
    """Return whether the line, or one of several, may be an event: a fast check that excludes most lines."""
    return may_be_qpid(lines) or may_be_other(lines)


def may_be_qpid(lines: bytes) -> bool:
    """Return whether the line, or one of several, may be an event of one of Qpid's brokers or clients."""
    # A search for a pattern that starts with plain text is five times as fast as for one that starts with a choice.
    return _MESSAGE_CODE.search(lines) is not None or b"flow control" in lines


def read_line(line: str) -> tuple[int, Columns] | None:
    """Return the position of the message in the line and its columns of `landing.EVENTS`; None if it is not an event of
    the history. Raises Unreadable."""
    try:
        return _read_line(line)
    except Unreadable:
        raise
    except ValueError as error:  # of numbers, and of the lines of other brokers
        raise Unreadable(line) from error


def _read_line(line: str) -> tuple[int, Columns] | None:
    if match := _SUBJECT.search(line):
        columns = _operational(match["subject"], match["code"], match["words"].rstrip())
        return None if columns is None else (match.start(), columns)
    if (code := has_code(line)) in _KINDS:
        raise Unreadable(line)
    if code:
        return None
    other = read_other(line)
    if other is not None or "flow control" not in line:
        return other
    if match := _CPP_OVERFULL.search(line):
        limit = whole_number(match["count"])
        levels = {"stop_bytes" if match["unit"] == "bytes" else "stop_messages": limit}
        return match.start(), _of_queue(
            "queue-overfull", ONLY_VIRTUALHOST, match["queue"], match[0], "OVERFULL"
        ) | levels
    if match := _CPP_UNDERFULL.search(line):
        return match.start(), _of_queue("queue-underfull", ONLY_VIRTUALHOST, match["queue"], match[0], "NORMAL")
    if match := _CLIENT.search(line):
        lasted = milliseconds(match["delayed"] or match["failed"])
        return match.start(), {"kind": "client-warning", "text": match[0], "lasted_ms": lasted}
    if _FLOW_CONTROL.search(line):
        raise Unreadable(line)
    return None


def read_text(text: str) -> Columns:
    """Return the columns in the text of a broker's event; empty for an unknown format."""
    try:
        read = read_line(text)
    except Unreadable:
        return {}
    return read[1] if read else {}


def has_code(line: str) -> str:
    """Return the code of an operational message, such as CHN-1001; empty if there is none."""
    match = _CODE.search(line)
    return match[1] if match else ""


_CODE = re.compile(r"\b([A-Z]{3}-1\d{3}) : ")


def _operational(subjects: str, code: str, words: str) -> Columns | None:
    kind = _KINDS.get(code)
    if kind is None:
        return None
    # An actor may stand before the subject, and old lines repeat the subject.
    actor, _, subject = subjects.rpartition("] [")
    columns = {"kind": kind, "text": f"[{subject}] {code} : {words}", **_subject(subject)}
    if actor and "connection" not in columns:
        columns = {**_subject(actor), **columns}
    read = _WORDS.get(code)
    if read is not None:
        columns |= read(words, columns)
    return columns


@lru_cache(65536)
def _subject(subject: str) -> Columns:
    """Parse a subject. Cached, since a log has few subjects: callers must not change the result."""
    if match := _CONNECTION.match(subject):
        client, _, virtualhost = match["client"].rpartition("/")
        return {
            "object_type": "Producer" if match["channel"] else "Connection",
            "connection": match["connection"],
            "channel": match["channel"],
            "client": client,
            "virtualhost": virtualhost or None,
        }
    if match := _VIRTUALHOST.match(subject):
        virtualhost, queue, exchange = match["virtualhost"], match["queue"], match["exchange"]
        if queue:
            name = object_name("Queue", virtualhost=virtualhost, name=queue)
        elif exchange:
            name = object_name("Exchange", virtualhost=virtualhost, name=exchange)
        else:
            name = object_name("VirtualHost", name=virtualhost)
        return {"object": str(name), "object_type": name.type, "virtualhost": virtualhost, "queue": queue}
    if subject in ("broker", "Broker"):
        return {"object": "type=Broker", "object_type": "Broker"}
    return {}


def _of_queue(kind: str, virtualhost: str, queue: str, text: str, state: str) -> Columns:
    return {"kind": kind, "text": text, "state": state, **_subject(f"vh(/{virtualhost})/qu({queue})")}


def _overfull(words: str, columns: Columns) -> Columns:
    depth_bytes, stop_bytes, depth_messages, stop_messages = _numbers(_OVERFULL, words)
    return {
        "state": "OVERFULL",
        "depth_bytes": depth_bytes,
        "stop_bytes": _level(stop_bytes),
        "depth_messages": depth_messages,
        "stop_messages": _level(stop_messages),
    }


def _underfull(words: str, columns: Columns) -> Columns:
    depth_bytes, resume_bytes, depth_messages, resume_messages = _numbers(_UNDERFULL, words)
    return {
        "state": "NORMAL",
        "depth_bytes": depth_bytes,
        "resume_bytes": _level(resume_bytes),
        "depth_messages": depth_messages,
        "resume_messages": _level(resume_messages),
    }


def _dropped(words: str, columns: Columns) -> Columns:
    messages, depth_bytes, depth_messages, stop_bytes, stop_messages = _numbers(_DROPPED, words)
    return {
        "messages": messages,
        "depth_bytes": depth_bytes,
        "depth_messages": depth_messages,
        "stop_bytes": _level(stop_bytes),
        "stop_messages": _level(stop_messages),
    }


def _enforced(words: str, columns: Columns) -> Columns:
    match = _ENFORCED.match(words)
    if not match:
        raise Unreadable(words)
    if match[1] == _ALL_QUEUES:
        return {"reasons": ["store-overfull"]}
    return {"queue": match[1], "reasons": [f"queue-overfull:{match[1]}"]}


def _recovered(words: str, columns: Columns) -> Columns:
    return {"messages": _numbers(_RECOVERED, words)[0]}


_WORDS = {
    "QUE-1003": _overfull,
    "QUE-1004": _underfull,
    "QUE-1005": _dropped,
    "CHN-1005": _enforced,
    "MST-1005": _recovered,
}


def _numbers(form: re.Pattern[str], words: str) -> list[int | None]:
    match = form.match(words)
    if not match:
        raise Unreadable(words)
    return [None if text is None else whole_number(text.translate(_GROUPING)) for text in match.groups()]


_GROUPING = str.maketrans("", "", ",.'\u00a0\u202f\u2019")


def _level(level: int | None) -> int | None:
    """Convert a level: Qpid writes -1 for no limit, the history 0."""
    return level if level is None else max(level, 0)
