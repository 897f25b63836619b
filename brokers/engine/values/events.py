"""Facts of the engine, which become events, and their texts in the broker log (Qpid's, DOMAIN.md section 6).

The journal numbers them. The attributes have all that a console shows about the event, so that it need not query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from brokers.engine.values.amounts import counted
from brokers.model import NOTIFICATIONS, ObjectName

#: The most of a name that a client has chosen in an event, in characters: a container-id or the name of a link, which
#: may have 64 KiB, and is in the events of each of its producers.
MOST_NAME = 255


def name_in_events(name: str) -> str:
    """Return a client's name for events."""
    return name if len(name) <= MOST_NAME else name[: MOST_NAME - 3] + "..."


@dataclass(frozen=True, slots=True)
class Fact:
    """`kind` is a declared notification; `at` in ms since the epoch; `text` has subject, code and words. `logged`:
    False for an event without a line in the broker log, since an earlier line of the channel covers it."""

    at: int
    kind: str
    object: ObjectName
    text: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    logged: bool = True


def text(kind: str, subject: str, words: str) -> str:
    """Return a line of the broker log without its timestamp: `[subject] CODE : words`. Unprintable characters, such as
    line breaks, are escaped."""
    line = f"[{subject}] {NOTIFICATIONS[kind].code} : {words}"
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def queue_subject(virtualhost: str, queue: str) -> str:
    return f"vh(/{virtualhost})/qu({queue})"


def connection_subject(number: int, user: str, remote_address: str, virtualhost: str) -> str:
    return f"con:{number}({user}@{remote_address}/{virtualhost})"


def overfull_words(depth_bytes: int, stop_bytes: int, depth_messages: int, stop_messages: int) -> str:
    """Return the words of QUE-1003; a level of 0: none."""
    return (
        f"Overfull : Size : {depth_bytes:,} bytes, Capacity : {stop_bytes:,},"
        f" Messages : {depth_messages:,}, Message Capacity : {stop_messages:,}"
    )


def underfull_words(depth_bytes: int, resume_bytes: int, depth_messages: int, resume_messages: int) -> str:
    """Return the words of QUE-1004; a level of 0: none."""
    return (
        f"Underfull : Size : {depth_bytes:,} bytes, Resume Capacity : {resume_bytes:,},"
        f" Messages : {depth_messages:,}, Message Capacity : {resume_messages:,}"
    )


def dropped_words(count: int, depth_bytes: int, depth_messages: int, stop_bytes: int, stop_messages: int) -> str:
    """Return the words of QUE-1005."""
    return (
        f"Dropped : {count:,} messages, Depth : {depth_bytes:,} bytes, {depth_messages:,} messages,"
        f" Capacity : {stop_bytes:,} bytes, {stop_messages:,} messages"
    )


def dead_letter_words(count: int, target: str, reason: str) -> str:
    """Return the words of HGT-1011, or without a dead-letter queue of HGT-1012."""
    if target:
        return f"Dead-lettered : {counted(count, 'message')}, To : {target}, Reason : {reason}"
    return f"Discarded : {counted(count, 'message')}, Reason : {reason}"


def policy_words(before: Mapping[str, Any], after: Mapping[str, Any], change: str = "changed") -> str:
    """Return the words of HGT-1003. Values: None = not set. `change`: created, changed or deleted."""
    if change == "changed":
        parts = [f"{name} {_text_of(before[name])} -> {_text_of(after[name])}" for name in after]
    else:
        parts = [f"{name} {value}" for name, value in (after if change == "created" else before).items()]
    return f"Policy {change.capitalize()} : {', '.join(parts)}"


def user_words(
    kind: str, before: Mapping[str, Any], after: Mapping[str, Any], actor: str, *, password: bool = False
) -> str:
    """Return the words of USR-1001 to USR-1003. The values must not contain passwords."""
    if kind == "user-changed":
        parts = [f"{name} {_set(before[name])} -> {_set(after[name])}" for name in after]
    else:
        parts = [f"{name} {_set(value)}" for name, value in (after or before).items()]
    parts += ["password changed"] if password else []
    return f"User {kind.removeprefix('user-').capitalize()} : {', '.join([*parts, f'By : {actor}'])}"


def _set(value: Any) -> str:
    return ("; ".join(value) if isinstance(value, list) else str(value)) or "none"


def _text_of(value: Any) -> str:
    return "inherited" if value is None else str(value)
