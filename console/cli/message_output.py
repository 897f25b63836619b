"""Messages, dead letters and the results of acts for a terminal."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping, Sequence
from typing import Any

from console.cli import terminal
from console.cli.names import label, short_name
from console.cli.output import duration, state, table, when

#: Characters of a value in a table.
_WIDTH = 40


def messages(rows: Sequence[Mapping[str, Any]], *, more: bool) -> None:
    if not rows:
        terminal.line("No message matches.")
        return
    table(
        ("ID", "STATE", "POSITION", "AGE", "SIZE", "REDELIVERIES", "SUBJECT", "DEAD LETTER OF"),
        [
            (
                row["id"],
                row["state"],
                _number(row["position"]),
                _age(row["at"]),
                _number(row["size"]),
                _number(row["redeliveries"]),
                _short(row["properties"].get("subject") or "-"),
                _dead_letter(row["dead_letter"]),
            )
            for row in rows
        ],
        right=(2, 3, 4, 5),
    )
    if more:
        terminal.line("There are more: --limit.")


def message(answer: Mapping[str, Any]) -> None:
    """Print one message: properties, sections, and the body if it is text."""
    shown = answer["message"]
    for name in ("id", "state", "size", "durable", "priority", "redeliveries", "consumer"):
        if shown.get(name) is not None:
            terminal.line(f"{name}: {shown[name]}")
    for name in ("at", "expires", "due"):
        if shown.get(name) is not None:
            terminal.line(f"{name}: {when(shown[name])}")
    if shown.get("dead_letter"):
        terminal.line(f"dead letter of: {_dead_letter(shown['dead_letter'])}")
    for name in ("properties", "application_properties", "annotations", "delivery_annotations", "footer"):
        for key, value in (shown.get(name) or {}).items():
            terminal.line(f"{name}.{key}: {value}")
    _body(answer)


def _body(answer: Mapping[str, Any]) -> None:
    kind, size, text = answer["body_kind"], answer["body_bytes"], answer["body_text"]
    terminal.line()
    terminal.line(f"{kind}, {size:,} bytes:" if size else f"{kind}, no bytes.", bold=True)
    if size and text is None:
        terminal.line("(no text: --output FILE writes it)")
    elif size:
        for line in text.split("\n"):
            terminal.line(line.removesuffix("\r").expandtabs())
    if answer["cut"] and text is not None:
        terminal.line(f"… (the first {len(base64.b64decode(answer['body'])):,} bytes: --output FILE writes all)")


def preview(found: Mapping[str, Any], action: str, to: str) -> str:
    """Return what an act would do."""
    least = "" if found["complete"] else "at least "
    target = f" to {to}" if to else ""
    skipped = f"; {found['skipped_messages']:,} are skipped" if found["skipped_messages"] else ""
    return f"this would {action} {least}{_many(found['messages'])} ({found['bytes']:,} bytes){target}{skipped}"


def purge(row: Mapping[str, Any]) -> str:
    """Return what a purge would remove."""
    depth, acquired = row.get("depth_messages"), row.get("unacknowledged_messages")
    if depth is None:
        return "this would remove an unknown number of messages"
    stay = f"; {_many(acquired)} acquired by consumers stay" if acquired else ""
    size = row.get("depth_bytes")
    return f"this would remove {depth - (acquired or 0):,} of {_many(depth)}" + (
        f" ({size:,} bytes){stay}" if size is not None else stay
    )


def purged(answer: Mapping[str, Any]) -> None:
    terminal.line(f"{_many(answer['messages'])} removed.")


_DONE = {"move": "moved", "copy": "copied", "retry": "moved back", "delete": "deleted"}


def done(answer: Mapping[str, Any], action: str) -> None:
    """Print the result of an act, or the state of its job."""
    if answer.get("state") == "running":
        terminal.line(f"Job {answer['id']} is running.")
        return
    skipped = answer.get("skipped_messages", answer["skipped"])
    least = "at least " if answer.get("at_least") else ""
    more = f"; {skipped:,} skipped" if skipped else ""
    terminal.line(f"{least}{_many(answer['messages'])} {_DONE[action]}, {answer['bytes']:,} bytes{more}.")
    for each in answer["skipped"] if isinstance(answer["skipped"], list) else ():
        terminal.line(f"  {each['id']}: {each['why']}")
    if answer["blocked"]:
        terminal.line(f"Blocked: {answer['blocked']}")
    if answer.get("error"):
        terminal.line(f"Job {answer['id']} is interrupted: {answer['error']}")


def dead_letter_queues(rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        terminal.line("No queue is the dead-letter queue of another.")
        return
    table(
        ("QUEUE", "STATE", "DEPTH", "BYTES", "OLDEST", "SOURCES", "CONSUMERS"),
        [
            (
                label(row["virtualhost"], row["name"]),
                state(row["state"] or "-"),
                _number(row["depth_messages"]),
                _number(row["depth_bytes"]),
                _age(row["oldest_message_at"]),
                _number(row["sources"]),
                _number(row["consumers"]),
            )
            for row in rows
        ],
        right=(2, 3, 4, 5, 6),
    )


def groups(answer: Mapping[str, Any]) -> None:
    if not answer["groups"]:
        terminal.line("No messages.")
        return
    table(
        ("REASON", "FROM", "MESSAGES", "BYTES", "OLDEST"),
        [
            (
                _short(group["reason"] or "(no dead letters)"),
                _short(group["queue"] or "-"),
                _number(group["messages"]),
                _number(group["bytes"]),
                _age(group["oldest_at"]),
            )
            for group in answer["groups"]
        ],
        right=(2, 3, 4),
    )
    if not answer["complete"]:
        terminal.line(f"Of the first {_many(answer['searched'])}: the queue has more.")


def base64_body(content: bytes) -> dict[str, str]:
    """Return the fields of a request for a body of bytes."""
    return {"body_base64": base64.b64encode(content).decode(), "body_kind": "data"}


def _dead_letter(of: Mapping[str, Any] | None) -> str:
    return "-" if not of else _short(f"{short_name(str(of.get('queue') or '-'))}: {of.get('reason') or '-'}")


def _age(at: int | None) -> str:
    return "-" if at is None else duration(max(0, int(time.time() * 1000) - at))


def _number(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _many(count: int) -> str:
    return f"{count:,} message{'' if count == 1 else 's'}"


def _short(value: Any) -> str:
    text = terminal.harmless(str(value))
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
