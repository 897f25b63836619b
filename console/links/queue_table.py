"""The table of a broker's queues, with their newest values. Rows are replaced and never mutated. Pure.

Every source (query, sample, event) has absolute values, so the next value corrects a missed one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from brokers.admin import Event, ManagedObject
from brokers.model import TYPES, ObjectName
from console.links.object_shapes import row_of, text_of

Row = Mapping[str, Any]

_ATTRIBUTES = frozenset(a.name for a in TYPES["Queue"].attributes)
#: Kinds of events that may change more of a queue than their attributes show.
_READ_AFTER = frozenset(
    {
        "queue-created",
        "policy-changed",
        "producers-stopped",
        "producers-started",
        "binding-created",
        "binding-deleted",
    }
)


class QueueTable:
    """Rows by the text of the object name. `revision` increases with every change."""

    def __init__(self, clock: Callable[[], int] = lambda: 0) -> None:
        """`clock`: returns the current time, ms."""
        self._clock = clock
        self._rows: dict[str, Row] = {}
        self._changed: dict[str, int] = {}
        self._put_since_sweep: set[str] = set()
        self.revision = 0

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, name: str) -> Row | None:
        return self._rows.get(name)

    def unchanged_since(self, name: str) -> int | None:
        """Return when the row last changed, ms by the table's clock. Rows contain counters, so every message changes
        them. None: no such queue."""
        return self._changed.get(name)

    def rows(self) -> list[Row]:
        return list(self._rows.values())

    def put(self, queue: ManagedObject) -> None:
        """Replace the row of a queue by all its attributes."""
        text = text_of(queue.name)
        row = row_of(queue)
        self._put_since_sweep.add(text)
        if self._rows.get(text) != row:
            self._rows[text] = row
            self._changed[text] = self._clock()
            self.revision += 1

    def merge(self, name: ObjectName, values: Mapping[str, Any]) -> bool:
        """Update some attributes of a queue; return False if the queue is not in the table and must be read."""
        text = text_of(name)
        row = self._rows.get(text)
        if row is None:
            return False
        if not values.items() <= row.items():
            self._rows[text] = {**row, **values}
            self._changed[text] = self._clock()
            self.revision += 1
        return True

    def drop(self, name: ObjectName) -> None:
        if self._rows.pop(text_of(name), None) is not None:
            self._changed.pop(text_of(name), None)
            self.revision += 1

    def begin_sweep(self) -> None:
        """Start recording which queues are put; see `end_sweep`."""
        self._put_since_sweep = set()

    def end_sweep(self) -> set[ObjectName]:
        """Return the queues that have not been put since `begin_sweep`, to be read one by one. They may have been
        deleted, or have moved to another page while queues were created and deleted."""
        return {ObjectName.parse(text) for text in self._rows.keys() - self._put_since_sweep}


def queue_of(event: Event) -> ObjectName | None:
    """Return the queue of an event: its object, or the target of its link; None if there is none."""
    if event.object.type == "Queue":
        return event.object
    text = event.attributes.get("queue")
    if not isinstance(text, str):
        return None
    try:
        name = ObjectName.parse(text)
    except ValueError:
        return None
    return name if name.type == "Queue" else None


def queue_values(event: Event) -> dict[str, Any]:
    """Return the attributes of a queue that an event contains, as of just after the event."""
    values = {key: value for key, value in event.attributes.items() if key in _ATTRIBUTES}
    if event.kind == "queue-overfull":
        values.setdefault("overfull_since", event.at)
    elif event.kind == "queue-underfull":
        values.setdefault("overfull_since", None)
    return values


def must_be_read(events: Iterable[Event]) -> tuple[set[ObjectName], bool]:
    """Return the queues to read after these events, and whether to read all because a wider scope has changed."""
    names: set[ObjectName] = set()
    everything = False
    for event in events:
        if event.kind not in _READ_AFTER:
            continue
        name = queue_of(event)
        if name is not None:
            names.add(name)
        else:
            everything = True
    return names, everything
