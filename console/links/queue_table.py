"""The table of a broker's queues, with their newest values. Rows are replaced and never mutated. Pure.

Every source (query, sample, event) has absolute values, so the next value corrects a missed one.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Mapping, Sequence
from typing import Any

from brokers.admin import Event, ManagedObject
from brokers.model import TYPES, ObjectName
from console.links.object_shapes import row_of
from console.links.queue_totals import QueueTotals

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
        self._rows: dict[str, dict[str, Any]] = {}
        self._changed: dict[str, int] = {}
        self._put_since_sweep: set[str] = set()
        self._recorded: list[tuple[set[str], Callable[[str, Row], bool] | None]] = []
        #: The totals of each virtual host.
        self.totals: dict[str, QueueTotals] = {}
        self.revision = 0

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, name: str) -> Row | None:
        return self._rows.get(name)

    def rows_named(self, names: Iterable[str]) -> list[Row]:
        """Return the rows of these queues, in this order, without those that do not exist."""
        return [row for row in map(self._rows.get, names) if row is not None]

    def unchanged_since(self, name: str) -> int | None:
        """Return when the row last changed, ms by the table's clock. Rows contain counters, so every message changes
        them. None: no such queue."""
        return self._changed.get(name)

    def rows(self) -> list[Row]:
        return list(self._rows.values())

    def items(self) -> ItemsView[str, dict[str, Any]]:
        return self._rows.items()

    def record_changes(self, relevant: Callable[[str, Row], bool] | None = None) -> set[str]:
        """Return a set to which the names of queues are added when their rows change, appear or disappear; with
        `relevant`, those whose new row is relevant, and those that disappear. The reader clears it, and passes it to
        `stop_recording` in the end."""
        names: set[str] = set()
        self._recorded.append((names, relevant))
        return names

    def stop_recording(self, names: set[str]) -> None:
        self._recorded = [each for each in self._recorded if each[0] is not names]

    def put(self, queue: ManagedObject) -> None:
        """Replace the row of a queue by all its attributes."""
        text = str(queue.name)
        # The garbage collector need not traverse a row without an empty list in it: with 200,000 rows that took longer
        # than everything else.
        row: dict[str, Any] = {name: () if value == [] else value for name, value in row_of(queue).items()}
        self._put_since_sweep.add(text)
        before = self._rows.get(text)
        if before == row:
            return
        self._rows[text] = row
        if before is None:
            self.totals.setdefault(row["virtualhost"], QueueTotals()).add(row)
        else:
            self.totals[row["virtualhost"]].replace(before, row)
        self._note_changes([text])

    def merge(self, name: ObjectName, values: Mapping[str, Any]) -> bool:
        """Update some attributes of a queue; return False if the queue is not in the table and must be read."""
        return not self.merge_all(((name, values),))

    def merge_all(self, changes: Iterable[tuple[ObjectName, Mapping[str, Any]]]) -> list[ObjectName]:
        """Update some attributes of many queues; return those that are not in the table and must be read."""
        rows, changed, missing = self._rows, [], []
        for name, values in changes:
            text = str(name)
            before = rows.get(text)
            if before is None:
                missing.append(name)
            elif not values.items() <= before.items():
                row = before.copy()  # copies at once what {**before} would insert item by item
                row.update(values)
                rows[text] = row
                self.totals[row["virtualhost"]].replace(before, row)
                changed.append(text)
        self._note_changes(changed)
        return missing

    def drop(self, name: ObjectName) -> None:
        text = str(name)
        row = self._rows.pop(text, None)
        if row is None:
            return
        totals = self.totals[row["virtualhost"]]
        totals.remove(row)
        if not totals.queues:
            del self.totals[row["virtualhost"]]
        self._note_changes([text])
        del self._changed[text]

    def _note_changes(self, changed: Sequence[str]) -> None:
        """Note that the rows of these queues are others now."""
        self._changed.update(dict.fromkeys(changed, self._clock()))
        row_of = self._rows.get
        for names, relevant in self._recorded:
            if relevant is None:
                names.update(changed)
            else:
                names.update(name for name in changed if (row := row_of(name)) is None or relevant(name, row))
        self.revision += len(changed)

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
