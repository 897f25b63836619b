"""Messages as people see them: what precedes the body, as plain values.

Nothing that a producer sends raises an error: what cannot be read is missing. See `MessageFormat`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from brokers.amqp.dead_letter import DESCRIPTION, FAILED, REASON, SOURCE, without_marks
from brokers.amqp.filters import compile_selector
from brokers.amqp.message_drafts import encoded
from brokers.amqp.message_parts import parts
from brokers.amqp.message_sections import (
    APPLICATION_PROPERTIES,
    MESSAGE_ANNOTATIONS,
    MOST_DECODED,
    MOST_SEARCHED,
    PROPERTIES,
    Section,
    decoded,
    front,
)
from brokers.amqp.plain_values import plain, plain_map
from brokers.engine.values.message_format import DeadLetterMark, Draft, Head, Parts

#: The standard properties, in the order of their section.
NAMES = (
    "message_id",
    "user_id",
    "to",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
    "absolute_expiry_time",
    "creation_time",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
)

#: Common to the names of all annotations of dead letters.
_DEAD = b"x-opt-dead-letter-"


class AmqpFormat:
    """See `brokers.engine.values.message_format.MessageFormat`."""

    def head(self, body: bytes, *, whole: bool = False) -> Head:
        found, most = front(body), MOST_DECODED if whole else MOST_SEARCHED
        standard, own = found.get(PROPERTIES), found.get(APPLICATION_PROPERTIES)
        values = decoded(body, standard, most)
        given: dict[str, Any] = {
            name: plain(value)
            for name, value in zip(NAMES, values if isinstance(values, list) else [], strict=False)
            if value is not None
        }
        created = given.get("creation_time")
        return Head(
            given | _too_long(standard, most),
            plain_map(decoded(body, own, most)) | _too_long(own, most),
            created if isinstance(created, int) and created > 0 else 0,
            self.dead_letter(body),
        )

    def dead_letter(self, body: bytes) -> DeadLetterMark | None:
        section = front(body).get(MESSAGE_ANNOTATIONS)
        if section is None or body.find(_DEAD, section.value, section.end) < 0:
            return None
        annotations = decoded(body, section, MOST_SEARCHED)
        if not isinstance(annotations, Mapping) or not isinstance(annotations.get(SOURCE), str):
            return None
        failed, description = annotations.get(FAILED), annotations.get(DESCRIPTION)
        return DeadLetterMark(
            str(annotations.get(REASON) or ""),
            str(annotations[SOURCE]),
            int(failed) if isinstance(failed, int) and failed > 0 else 0,
            description if isinstance(description, str) else "",
        )

    def decoded_bytes(self, body: bytes) -> int:
        sizes = (section.end - section.start for section in front(body).values())
        return sum(size for size in sizes if size <= MOST_SEARCHED)

    def retried(self, body: bytes) -> bytes:
        return without_marks(body)

    def parts(self, body: bytes) -> Parts:
        return parts(body)

    def encoded(self, draft: Draft) -> bytes:
        return encoded(draft)

    def selects(self, selector: str) -> Callable[[bytes], bool]:
        condition = compile_selector(selector)
        return lambda body: condition(body) if _searchable(body) else False


def _searchable(body: bytes) -> bool:
    return all(section.end - section.value <= MOST_SEARCHED for section in front(body).values())


def _too_long(section: Section | None, most: int) -> dict[str, Any]:
    size = 0 if section is None else section.end - section.value
    return {"...": f"{size:,} bytes, too long to be shown"} if size > most else {}
