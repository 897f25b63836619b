"""Conditions on the messages of a queue, as an operator gives them (`brokers/model/message_operations.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from brokers.admin import InvalidValue
from brokers.engine.queues.browsing import Seen
from brokers.engine.queues.queue import Queue
from brokers.engine.services.message_heads import Heads
from brokers.engine.services.message_values import shortened
from brokers.engine.values.message import sequence_of
from brokers.engine.values.message_format import Head, MessageFormat
from brokers.model import parse_count
from brokers.model.message_operations import STATES

_NUMBERS = ("older_than_ms", "newer_than_ms", "min_bytes", "max_bytes", "min_redeliveries", "max_redeliveries")
_TEXTS = ("selector", "state", "dead_letter_reason", "dead_letter_queue")
KEYS = (*_TEXTS, *_NUMBERS, "properties")

#: Maximum number of properties in one match.
MOST_PROPERTIES = 32


class Match:
    """Raises InvalidValue, which names each wrong condition. `decodes`: some need the message decoded. `heads`:
    those of the messages that are matched."""

    def __init__(self, given: Mapping[str, Any] | None, reads: MessageFormat) -> None:
        values = dict(given or {})
        wrong = {
            key: f"match has no condition {key!r}: there are {', '.join(KEYS)}" for key in values if key not in KEYS
        }
        for key in (each for each in KEYS if each in values):
            try:
                values[key] = _checked(key, values[key])
            except ValueError as error:
                wrong[key] = str(error)
        self._properties = self._checked_properties(values, wrong)
        self._selects: Callable[[bytes], bool] | None = None
        if "selector" in values and "selector" not in wrong:
            try:
                self._selects = reads.selects(values["selector"])
            except InvalidValue as error:
                wrong.update(error.errors)
        if wrong:
            raise InvalidValue(wrong)
        self._given = values
        self._reads = reads
        self.heads = Heads(reads)
        self.has_age = "older_than_ms" in values or "newer_than_ms" in values
        self._dead = "dead_letter_reason" in values or "dead_letter_queue" in values
        self.decodes = bool(self._properties) or self._selects is not None or self._dead or self.has_age

    @staticmethod
    def _checked_properties(values: Mapping[str, Any], wrong: dict[str, str]) -> dict[str, str]:
        if "properties" not in values or "properties" in wrong:
            return {}
        given = values["properties"]
        if not isinstance(given, Mapping):
            wrong["properties"] = f"properties is {given!r}: it must be a map"
            return {}
        if not given:
            wrong["properties"] = "properties is empty: it must have a value, or be left out"
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
        if self.has_age and not self._age_matches(queue, seen, body):
            return False
        if not (self._dead or self._properties or self._selects):
            return True
        if body is None:
            return False
        if self._dead:
            mark, given = self._reads.dead_letter(body), self._given
            reason, source = (mark.reason, mark.queue) if mark is not None else ("", "")
            for own, wanted in ((reason, given.get("dead_letter_reason")), (source, given.get("dead_letter_queue"))):
                if wanted is not None and wanted not in (own, shortened(own)):
                    return False
        if self._selects is not None and not self._selects(body):
            return False
        return not self._properties or self._properties_match(body)

    def _properties_match(self, body: bytes) -> bool:
        head = self.heads.of(body)
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
        at = arrival(queue, seen.number, body, self.heads.of)
        latest = at if at is not None else queue.arrivals.began + turn.ahead
        if latest > turn.time_of_day - given.get("older_than_ms", 0):
            return False
        newer = given.get("newer_than_ms")
        return newer is None or (at is not None and at >= turn.time_of_day - newer)


def _checked(key: str, value: Any) -> Any:
    """Return the value of a condition. Raises ValueError. One without a value is refused, since it could stand for all
    messages by mistake."""
    if value is None:
        raise ValueError(f"{key} is null: it must have a value, or be left out")
    if key in _NUMBERS:
        return parse_count(key, value)
    if key in _TEXTS and not isinstance(value, str):
        raise ValueError(f"{key} is {value!r}: it must be text")
    if key == "state" and value not in STATES:
        raise ValueError(f"state is {value!r}: it must be one of {', '.join(STATES)}")
    if key == "selector" and not value.strip():
        raise ValueError("selector is empty: it must have a value, or be left out")
    return value


def arrival(
    queue: Queue, number: int, body: bytes | None, head_of: Callable[[bytes], Head] | None = None
) -> int | None:
    """Return when a message arrived in the queue, ms since the epoch; None: not known. For a message of an earlier run
    of the broker it is its creation time, if it has one and did not come from another queue. `head_of`: returns a
    message's head; None: it is decoded for this alone."""
    at = queue.arrived_at(number)
    if at is not None:
        return at + queue.turn.ahead
    if body is None or sequence_of(number) > queue.arrivals.recovered:
        return None
    head = (head_of or queue.turn.format.head)(body)
    created = head.created if head.dead_letter is None else 0
    return created if 0 < created <= queue.arrivals.began + queue.turn.ahead else None


def as_text(value: Any) -> str:
    """Return a property's value as a match names it."""
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
