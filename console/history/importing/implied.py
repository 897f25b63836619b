"""Events that several lines of a log imply together. Pure.

- RabbitMQ blocks publishers while any node has an alarm, and writes a line for each. The broker's producers are stopped
  from the first alarm to the end of the last one; a node that starts again has none.
- ActiveMQ writes when a producer is blocked, again after a while if that goes on or happens again, and nothing at the
  end. A block is recorded from its first line to its last one; lines of one destination at most a minute apart are of
  one block. Its end is the last evidence, not the moment of the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from console.history.storage.other_brokers import BLOCKED_NOW, Columns

Timed = tuple[int, Columns]

#: Two lines of ActiveMQ belong to one block if they are at most this far apart, ms: twice its
#: `blockedProducerWarningInterval`, since the line of one destination can be left out.
SAME_BLOCK = 60_000


@dataclass(slots=True)
class Implied:
    """The state between two lines. `alarms`: active ones; `blocks`: what is blocked -> (last line in ms, columns of the
    end)."""

    alarms: list[str] = field(default_factory=list)
    blocks: dict[str, tuple[int, Columns]] = field(default_factory=dict)

    def events(self, at: int, columns: Columns) -> Iterator[Timed]:
        """Yield the events for the event of a line at `at`, with those that have become certain."""
        yield from self.ended(at)
        kind, scope = columns["kind"], columns.get("scope")
        if kind == BLOCKED_NOW:
            yield from self._blocked(at, columns)
        elif kind == "broker-ready" and self.alarms:
            self.alarms.clear()
            yield at, {**columns, "kind": "producers-started", "scope": "broker", "reason": "restart"}
        elif scope == "broker" and kind == "producers-stopped":
            if columns["reason"] not in self.alarms:
                self.alarms.append(columns["reason"])
            yield at, columns
        elif scope == "broker" and kind == "producers-started" and str(columns.get("reason")).count(" alarm on "):
            if columns["reason"] in self.alarms:
                self.alarms.remove(columns["reason"])
            yield at, {**columns, "kind": "limit-cleared", "scope": None} if self.alarms else columns
        else:
            yield at, columns

    def ended(self, before: int | None = None) -> Iterator[Timed]:
        """Yield the ends of blocks whose last line is long before a time; without one, of all blocks."""
        for key, (last, end) in list(self.blocks.items()):
            if before is None or before - last > SAME_BLOCK:
                del self.blocks[key]
                yield last, end

    def _blocked(self, at: int, columns: Columns) -> Iterator[Timed]:
        key = columns.get("queue") or columns["scope"]
        start = at - (columns.get("lasted_ms") or 0)
        begins, ends = ("producers-stopped", "producers-started")
        if columns.get("queue"):
            begins, ends = ("queue-overfull", "queue-underfull")
        known: dict[str, Any] = {name: value for name, value in columns.items() if name != "lasted_ms"}
        if key not in self.blocks:
            yield start, {**known, "kind": begins}
        elif columns.get("queue"):
            yield at, {**known, "kind": "client-warning"}
        end = {
            name: columns.get(name)
            for name in ("object", "object_type", "virtualhost", "queue", "scope", "reason", "actor")
        }
        end |= {"kind": ends, "text": f"(the last line about this block) {columns['text']}"}
        if columns.get("queue"):
            end["state"] = "NORMAL"
        self.blocks[key] = (at, end)
