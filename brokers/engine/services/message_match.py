"""Conditions on the messages of a queue, as an operator gives them (`brokers/model/message_operations.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from brokers.admin import InvalidValue
from brokers.engine.queues.browsing import Seen
from brokers.engine.queues.queue import Queue
from brokers.engine.values.message import sequence_of
from brokers.engine.values.message_format import MessageFormat
from brokers.model import parse_count
from brokers.model.message_operations import STATES

_NUMBERS = ("older_than_ms", "newer_than_ms", "min_bytes", "max_bytes", "min_redeliveries", "max_redeliveries")
_TEXTS = ("selector", "state", "dead_letter_reason", "dead_letter_queue")
KEYS = (*_TEXTS, *_NUMBERS, "properties")

#: Maximum number of properties in one match.
MOST_PROPERTIES = 32


class Match:
    """Raises InvalidValue, which names each wrong condition. `decodes`: some need the message decoded."""

    def __init__(self, given: Mapping[str, Any] | None, reads: MessageFormat) -> None:
        values = {key: value for key, value in (given or {}).items() if value is not None}
        wrong = {
            key: f"match has no condition {key!r}: there are {', '.join(KEYS)}" for key in values if key not in KEYS
        }
        for key in (*_NUMBERS, *_TEXTS):
            try:
                if key in _NUMBERS and key in values:
                    values[key] = parse_count(key, values[key])
                elif key in values and not isinstance(values[key], str):
                    wrong[key] = f"{key} is {values[key]!r}: it must be text"
            except ValueError as error:
                wrong[key] = str(error)
        if "state" in values and "state" not in wrong and values["state"] not in STATES:
            wrong["state"] = f"state is {values['state']!r}: it must be one of {', '.join(STATES)}"
        self._properties = self._checked_properties(values.get("properties", {}), wrong)
        self._selects: Callable[[bytes], bool] | None = None
        if values.get("selector") and "selector" not in wrong:
            try:
                self._selects = reads.selects(values["selector"])
            except InvalidValue as error:
                wrong.update(error.errors)
        if wrong:
            raise InvalidValue(wrong)
        self._given = values
        self._reads = reads
        self._age = "older_than_ms" in values or "newer_than_ms" in values
        self._dead = "dead_letter_reason" in values or "dead_letter_queue" in values
        self.decodes = bool(self._properties) or self._selects is not None or self._dead or self._age

    def _checked_properties(self, given: Any, wrong: dict[str, str]) -> dict[str, str]:
        if not isinstance(given, Mapping):
            wrong["properties"] = f"properties is {given!r}: it must be a map"
            return {}
        if len(given) > MOST_PROPERTIES:
            wrong["properties"] = f"properties has {len(given)} names: {MOST_PROPERTIES} at most"
        return {str(name): as_text(value) for name, value in given.items()}

    def may_match(self, queue: Queue, seen: Seen) -> bool:
        """Return whether the conditions hold that need neither the body nor its arrival."""
        given, redeliveries = self._given, queue.failed_deliveries.get(seen.number, 0)
        return bool(
            given.get("state", seen.state) == seen.state
            and given.get("min_bytes", 0) <= seen.size <= given.get("max_bytes", seen.size)
            and given.get("min_redeliveries", 0) <= redeliveries <= given.get("max_redeliveries", redeliveries)
        )

    def matches(self, queue: Queue, seen: Seen, body: bytes | None) -> bool:
        """Return whether all conditions hold for a message for which `may_match` does. `body`: None: it cannot be
        read, and so has no properties."""
        if self._age and not self._age_matches(queue, seen, body):
            return False
        if not (self._dead or self._properties or self._selects):
            return True
        if body is None:
            return False
        if self._dead:
            mark, given = self._reads.dead_letter(body), self._given
            reason, source = (mark.reason, mark.queue) if mark is not None else ("", "")
            if given.get("dead_letter_reason", reason) != reason or given.get("dead_letter_queue", source) != source:
                return False
        if self._selects is not None and not self._selects(body):
            return False
        return not self._properties or self._properties_match(body)

    def _properties_match(self, body: bytes) -> bool:
        head = self._reads.head(body)
        for name, wanted in self._properties.items():
            own = head.application_properties
            if name not in own and name not in head.properties:
                return False
            if as_text(own[name] if name in own else head.properties[name]) != wanted:
                return False
        return True

    def _age_matches(self, queue: Queue, seen: Seen, body: bytes | None) -> bool:
        """An age that is not known is at least that of the broker's run."""
        turn, given = queue.turn, self._given
        at = arrival(queue, seen.number, body)
        latest = at if at is not None else queue.arrivals.began + turn.ahead
        if latest > turn.time_of_day - given.get("older_than_ms", 0):
            return False
        newer = given.get("newer_than_ms")
        return newer is None or (at is not None and at >= turn.time_of_day - newer)


def arrival(queue: Queue, number: int, body: bytes | None) -> int | None:
    """Return when a message arrived in the queue, ms since the epoch; None: not known. For a message of an earlier run
    of the broker it is its creation time, if it has one and did not come from another queue."""
    at = queue.arrived_at(number)
    if at is not None:
        return at + queue.turn.ahead
    if body is None or sequence_of(number) > queue.arrivals.recovered:
        return None
    head = queue.turn.format.head(body)
    created = head.created if head.dead_letter is None else 0
    return created if 0 < created <= queue.arrivals.began + queue.turn.ahead else None


def as_text(value: Any) -> str:
    """Return a property's value as a match names it."""
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
