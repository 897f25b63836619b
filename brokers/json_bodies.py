"""Bodies of `$events` and `$samples` as JSON: AMQP messages with one string, for followers that request them.

Encoding a message of many events or rows value by value, and decoding it, takes several times the processor time of the
same in JSON. A follower requests it with the source filter `FILTER`, and a node that does not know the filter, or not
its value, sends what every AMQP client reads: an event a message, and maps.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from brokers.admin import Event
from brokers.model import ObjectName

#: The filter in a link's source, and its value: the number of the format, for changes to come.
FILTER, FORMAT = "headgate:json", 1

#: An AMQP value section (0x00 0x53 0x77) with a string of 32 bits of length (0xb1); see parts 1.6.20 and 3.2.8.
_STRING = b"\x00\x53\x77\xb1"
_LONGEST = (1 << 32) - 1


def is_requested(filters: Any) -> bool:
    """Return whether the filter set of a source requests this format."""
    if not isinstance(filters, Mapping):
        return False
    for key, value in filters.items():
        if str(key) == FILTER:
            number = getattr(value, "value", value)
            return not isinstance(number, bool) and bool(number == FORMAT)
    return False


def event_json(event: Event) -> str:
    """Return one event of a batch: an array of its number, time, kind, object, text and attributes."""
    row = (event.number, event.at, event.kind, event.object, event.text, event.attributes)
    return _encode(row)


def events_message(events: Iterable[str]) -> bytes:
    """Return a message of events, each as `event_json` returned it, in the order of their numbers."""
    return _message(f"[{','.join(events)}]")


def events_of(text: str) -> Iterable[Event]:
    """Yield the events of the text of such a message. Raises ValueError or TypeError at one that is none."""
    rows = json.loads(text)
    if not isinstance(rows, list):
        raise TypeError(f"events are {type(rows).__name__}, not a list")
    for row in rows:
        number, at, kind, name, words, attributes = row
        if type(number) is not int or type(attributes) is not dict:
            raise TypeError(f"an event has the number {number!r} and attributes {type(attributes).__name__}")
        yield Event(number, at, kind, ObjectName.parse(name), words, attributes)


def samples_message(at: int, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    """Return a message of samples; `rows`: object name, then the values of `names`."""
    return _message(_encode({"at": at, "names": names, "rows": rows}))


def text_of(message: bytes) -> str | None:
    """Return the text of a message in the form in which this module writes it; None: it has another form."""
    size = int.from_bytes(message[4:8], "big")
    return message[8:].decode() if message.startswith(_STRING) and len(message) == 8 + size else None


def _message(text: str) -> bytes:
    data = text.encode(errors="replace")  # half of a surrogate pair is no text, and ends no follower's stream
    if len(data) > _LONGEST:
        raise ValueError(f"{len(data):,} bytes do not fit into one message")
    return _STRING + len(data).to_bytes(4, "big") + data


def _plain(value: Any) -> Any:
    """Convert what JSON does not have: names, read-only maps and sets."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return list(value)
    return str(value)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain).encode
