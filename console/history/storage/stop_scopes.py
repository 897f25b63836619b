"""Scopes of operators' stops and starts, as in events: which scopes and queues a scope contains. Pure.

`broker [PATTERN]`, `virtualhost VH [PATTERN]`, `exchange VH/NAME` or `queue VH/NAME`; VH is a quoted JSON string where
necessary.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from brokers.model.patterns import matches, pattern_contains

_HOST = re.compile(r'("(?:[^"\\]|\\.)*"|[^ /]+)(.*)', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Scope:
    """A parsed scope. An empty field does not restrict it."""

    virtualhost: str = ""
    queue: str = ""
    exchange: str = ""
    pattern: str = ""

    @classmethod
    def parse(cls, text: str) -> Scope | None:
        """Parse a scope; None if the text is no scope."""
        kind, _, rest = text.partition(" ")
        if kind == "broker":
            return cls(pattern=rest)
        match = _HOST.match(rest)
        if not match or kind not in ("virtualhost", "exchange", "queue"):
            return None
        try:
            host = json.loads(match[1]) if match[1].startswith('"') else match[1]
        except ValueError:
            return None
        if kind == "virtualhost":
            return cls(host, pattern=match[2].removeprefix(" "))
        name = match[2].removeprefix("/")
        if not name:
            return None
        return cls(host, queue=name) if kind == "queue" else cls(host, exchange=name)

    def contains(self, other: Scope) -> bool:
        """Return whether a start of this scope lifts a stop of the other: an equal one, or one that it contains."""
        if self == other:
            return True
        if self.queue or self.exchange or (self.virtualhost and self.virtualhost != other.virtualhost):
            return False
        return matches(self.pattern, other.queue) if other.queue else pattern_contains(self.pattern, other.pattern)

    def covers(self, virtualhost: str, queue: str) -> bool:
        """Return whether a stop of this scope stops the queue; False for an exchange, whose bindings are not
        recorded."""

        if self.exchange or (self.virtualhost and self.virtualhost != virtualhost):
            return False
        return self.queue == queue if self.queue else matches(self.pattern, queue)


def covers(text: str, virtualhost: str, queue: str) -> bool:
    """Return `Scope.covers` for a scope's text; False if the text is no scope."""
    scope = Scope.parse(text)
    return scope is not None and scope.covers(virtualhost, queue)
