"""The newest values of every queue of a broker, as rows that are replaced and never changed. Pure.

Every source tells absolute values (a query, a sample, an event), so a value missed is mended by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from brokers.admin import Event, ManagedObject
from brokers.model import TYPES, ObjectName
from console.links.object_shapes import row_of, text_of

Row = Mapping[str, Any]

_ATTRIBUTES = frozenset(a.name for a in TYPES["Queue"].attributes)
#: Kinds of events after which more of a queue may differ than the event tells.
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
    """Rows by object name text. `revision` grows with every change."""

    def __init__(self, clock: Callable[[], int] = lambda: 0) -> None:
        """`clock`: the time now, ms."""
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
        """When the row became what it is, ms. Counters are part of it: any message since would have changed it."""
        return self._changed.get(name)

    def rows(self) -> list[Row]:
        return list(self._rows.values())

    def put(self, queue: ManagedObject) -> None:
        """A queue as it was read whole."""
        text = text_of(queue.name)
        row = row_of(queue)
        self._put_since_sweep.add(text)
        if self._rows.get(text) != row:
            self._rows[text] = row
            self._changed[text] = self._clock()
            self.revision += 1

    def merge(self, name: ObjectName, values: Mapping[str, Any]) -> bool:
        """New values of some attributes; False if the queue is not known, so that it must be read."""
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
        """From now on note which queues are put; see `end_sweep`."""
        self._put_since_sweep = set()

    def end_sweep(self) -> set[ObjectName]:
        """All queues have been put since `begin_sweep`, page by page: those that were not may be gone, or have slipped
        from one page to another while queues came and went, so that each of them must be asked for."""
        return {ObjectName.parse(text) for text in self._rows.keys() - self._put_since_sweep}


def queue_of(event: Event) -> ObjectName | None:
    """The queue that an event is about: it is its object, or the target of the link that is."""
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
    """What an event about a queue tells of the queue's attributes just after it."""
    values = {key: value for key, value in event.attributes.items() if key in _ATTRIBUTES}
    if event.kind == "queue-overfull":
        values.setdefault("overfull_since", event.at)
    elif event.kind == "queue-underfull":
        values.setdefault("overfull_since", None)
    return values


def must_be_read(events: Iterable[Event]) -> tuple[set[ObjectName], bool]:
    """After these events: (queues to read whole, whether to read all queues since a wider scope has changed)."""
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
