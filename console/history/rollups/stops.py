"""Operators' stops of one broker, from events in order: rows of the table `episodes`. Pure.

A start lifts the stops of its own scope and of all scopes that it contains; the deletion of a queue lifts its own stop.
`pipeline/stops.py` computes the same from stored rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from console.history.rollups.episodes import episode_id
from console.history.storage.stop_scopes import Scope

_QUOTED = re.compile(r'[ /"]')


@dataclass(slots=True)
class Stop:
    """One stop; times in ms."""

    scope: str
    start: int
    actor: str | None
    reason: str | None
    producers: int | None
    end: int | None = None
    released_by: str | None = None
    released_actor: str | None = None
    released_reason: str | None = None

    def state(self) -> list[Any]:
        """Return the arguments of an equal one, for JSON."""
        return [getattr(self, each.name) for each in fields(self)]

    def row(self, broker: str) -> dict[str, Any]:
        return {
            "id": episode_id("stopped", broker, None, self.scope, self.start),
            "kind": "stopped",
            "broker": broker,
            "virtualhost": None,
            "queue": None,
            "scope": self.scope,
            "start": self.start,
            "end": self.end,
            "seen": self.start,
            "duration_ms": None if self.end is None else self.end - self.start,
            "peak_messages": None,
            "peak_bytes": None,
            "stop_messages": None,
            "stop_bytes": None,
            "producers": self.producers,
            "connections": None,
            "blocked_ms": None,
            "actor": self.actor,
            "reason": self.reason,
            "released_by": self.released_by,
            "released_actor": self.released_actor,
            "released_reason": self.released_reason,
            "settled": True,
        }


class Stops:
    """The ongoing stops and the last lifted ones."""

    def __init__(self) -> None:
        self.closed: list[Stop] = []
        self._open: dict[str, tuple[Stop, Scope | None]] = {}

    def __iter__(self) -> Iterator[Stop]:
        yield from self.closed
        for stop, _ in self._open.values():
            yield stop

    def take_event(self, row: Mapping[str, Any]) -> None:
        """Take an event. Events are in order of time and sequence."""
        kind, get = row["kind"], row.get
        scope = get("scope")
        if kind == "producers-stopped" and scope is not None:
            if scope not in self._open:
                self.add(Stop(scope, row["at"], get("actor"), get("reason"), get("producers")))
        elif kind == "producers-started" and scope is not None:
            outer = Scope.parse(scope)
            for name, (stop, inner) in list(self._open.items()):
                if name == scope or (outer and inner and outer.contains(inner)):
                    self._lift(stop, row["at"], "started", get("actor"), get("reason"))
        elif kind == "queue-deleted":
            virtualhost, queue = get("virtualhost"), get("queue")
            if virtualhost is None or queue is None:
                return
            lifted = self._open.get(f"queue {_word(virtualhost)}/{queue}")
            if lifted is not None:
                self._lift(lifted[0], row["at"], "deleted", get("actor"), None)

    def add(self, stop: Stop) -> None:
        """Add a stop: a new one, or one of a snapshot."""
        if stop.end is None:
            self._open[stop.scope] = (stop, Scope.parse(stop.scope))
        else:
            self.closed.append(stop)

    def forget(self, before: int) -> None:
        """Forget stops that were lifted before that time."""
        self.closed = [stop for stop in self.closed if stop.end is not None and stop.end >= before]

    def _lift(self, stop: Stop, at: int, what: str, actor: str | None, reason: str | None) -> None:
        del self._open[stop.scope]
        stop.end, stop.released_by, stop.released_actor, stop.released_reason = at, what, actor, reason
        self.closed.append(stop)


def _word(virtualhost: str) -> str:
    """Return a virtual host's name as the broker writes it in a scope."""
    return json.dumps(virtualhost, ensure_ascii=False) if _QUOTED.search(virtualhost) else virtualhost
