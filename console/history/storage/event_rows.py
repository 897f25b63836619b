"""Convert events and samples of `brokers.admin` to rows of the landing folder. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from brokers.admin import Event
from brokers.model import ObjectName
from console.history.storage.landing import SCHEMAS
from console.history.storage.log_lines import read_text

Row = Mapping[str, Any]

#: What pyarrow raises for a value that its column cannot have.
UNFIT = (pa.ArrowException, ArithmeticError, TypeError, ValueError)

_SAMPLED = {
    **{name: name for name in SCHEMAS["samples"].names},
    **{
        name: f"effective_{name}"
        for name in SCHEMAS["samples"].names
        if name.split("_")[0] in ("capacity", "stop", "resume")
    },
}
_ATTRIBUTES = ("client", "link", "reasons", "state", "depth_messages", "depth_bytes", "blocked_producers", "actor")
_STOPS = ("reason", "scope", "pattern", "queues", "producers")


def event_row(broker: str, run: str, event: Event) -> Row:
    """Return a row of EVENTS, from the event's attributes or else from its text."""
    attributes = event.attributes
    name = event.object
    queue = name if name.type == "Queue" else _queue(attributes.get("queue"))
    row = read_text(event.text) | {
        "broker": broker,
        "run": run,
        "number": event.number,
        "at": event.at,
        "sequence": event.number,
        "kind": event.kind,
        "object": str(name),
        "object_type": name.type,
        "virtualhost": _virtualhost(name, queue, attributes),
        "queue": queue["name"] if queue else None,
        "lasted_ms": attributes.get("overfull_ms", attributes.get("blocked_ms")),
        "text": event.text,
        "attributes": json.dumps(dict(attributes), ensure_ascii=False, separators=(",", ":"), default=_plain),
        "source": "recorder",
    }
    row |= {column: attributes[column] for column in (*_ATTRIBUTES, *_STOPS) if column in attributes}
    if "before" in attributes or "after" in attributes:
        row |= {column: _map(attributes.get(column)) for column in ("before", "after")}
    messages = attributes.get("messages")
    if isinstance(messages, int):
        row["messages"] = messages
    return row


def sample_row(broker: str, run: str, at: int, queue: ObjectName, values: Mapping[str, Any], *, whole: bool) -> Row:
    """Return a row of SAMPLES; missing values are null."""
    row = {column: values.get(attribute) for column, attribute in _SAMPLED.items()}
    return row | {
        "broker": broker,
        "run": run,
        "at": at,
        "virtualhost": queue["virtualhost"],
        "queue": queue["name"],
        "whole": whole,
        "source": "recorder",
    }


def table(kind: str, rows: Sequence[Row]) -> pa.Table:
    """Convert rows, with times as ms since the epoch, to a table of that kind. Raises one of `UNFIT` for a value that
    its column cannot have."""
    schema = SCHEMAS[kind]
    # Via a struct, with which pyarrow extracts the columns itself: three times as fast.
    return pa.Table.from_arrays(pa.array(rows, pa.struct(list(schema))).flatten(), schema=schema)


def fitting(kind: str, rows: Sequence[Row]) -> list[Row]:
    """Return the rows with null instead of each value that its column cannot have, such as a number of more than 64
    bits; without rows that need such a value."""
    fields = list(SCHEMAS[kind])
    unfit = [field for field in fields if not _fits(field.type, [row.get(field.name) for row in rows])]
    found: list[Row] = []
    for row in rows:
        wrong = [field for field in unfit if not _fits(field.type, [row.get(field.name)])]
        if all(field.nullable for field in wrong):
            found.append({**row, **dict.fromkeys(field.name for field in wrong)} if wrong else row)
    return found


def _fits(column: pa.DataType, values: Sequence[Any]) -> bool:
    try:
        pa.array(values, column)
    except UNFIT:
        return False
    return True


def _virtualhost(name: ObjectName, queue: ObjectName | None, attributes: Mapping[str, Any]) -> str | None:
    if queue:
        return queue["virtualhost"]
    if name.type == "VirtualHost":
        return name["name"]
    return name.get("virtualhost") or attributes.get("virtualhost")


def _queue(text: Any) -> ObjectName | None:
    if isinstance(text, ObjectName):
        return text
    return _parsed(text) if isinstance(text, str) and text.startswith("type=Queue,") else None


_parsed = lru_cache(65536)(ObjectName.parse)


def _map(value: Any) -> str | None:
    if value is None:
        return None
    return json.dumps(dict(value), ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)
