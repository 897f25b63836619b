"""A stand-in for the operations on messages, written from their description alone: lists of numbers in memory.

It is an oracle of its own for what the console makes of the operations, and ends a worker at any point of a batch.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from brokers.admin import BrokerAdmin, NotFound
from brokers.model import ManagedType, ObjectName, Operation

ACTS = ("move-messages", "copy-messages", "retry-messages", "delete-messages")
EFFECTS = {"delete-messages": "destroy"}
SECRET_BODY = b"the body \x00 of a message"


class Killed(BaseException):
    """The worker's process is killed: nothing after this point is done."""


@dataclass
class Messages:
    """`queues`: name -> numbers of the messages, in order. `acquired`: those that a consumer has. `room`: what a queue
    still takes; absent: anything. `before` and `after`: called around each act."""

    queues: dict[str, list[int]]
    acquired: set[int] = field(default_factory=set)
    room: dict[str, int] = field(default_factory=dict)
    sources: dict[int, str] = field(default_factory=dict)
    copies: list[int] = field(default_factory=list)
    calls: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    before: Callable[[], None] = lambda: None
    after: Callable[[], None] = lambda: None
    last: int = 0
    too_large: set[int] = field(default_factory=set)  # for any target

    def __post_init__(self) -> None:
        self.last = max((n for numbers in self.queues.values() for n in numbers), default=0)

    def arrive(self, queue: str, source: str = "") -> int:
        self.last += 1
        self.queues[queue].append(self.last)
        self.sources[self.last] = source
        return self.last

    def call(self, queue: str, operation: str, given: Mapping[str, Any]) -> dict[str, Any]:
        self.calls.append((operation, dict(given)))
        if queue not in self.queues:
            raise NotFound(f"there is no queue {queue}")
        if operation == "read-message":
            return self._read(given)
        if operation == "publish-message":
            number = self.arrive(queue)
            return {"outcome": "accepted", "id": str(number), "sentence": "The queue has the message."}
        if operation == "summarize-messages":
            group = {"reason": "rejected", "queue": "a", "messages": 1, "bytes": 100, "oldest_at": None}
            rest = None if given.get("after") else "1"
            return {"groups": [group, {**group, "reason": ""}], "searched": 2, "next": rest}
        if operation == "list-messages":
            return self._list(queue, given)
        return self._act(queue, operation, given)

    def _list(self, queue: str, given: Mapping[str, Any]) -> dict[str, Any]:
        found = [n for n in self.queues[queue] if n > int(given.get("after") or 0)]
        page = found[: given.get("count", 50)]
        rows = [{"id": str(n), "state": "acquired" if n in self.acquired else "available"} for n in page]
        return {"messages": rows, "next": str(page[-1]) if len(found) > len(page) else None, "searched": len(page)}

    def _read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        start = given.get("offset", 0)
        part = SECRET_BODY[start : start + min(given.get("size", 65_536), 9)]
        return {
            "message": {"id": given["id"], "properties": {"subject": "secret subject"}, "annotations": {}},
            "body_kind": "data",
            "body": base64.b64encode(part).decode(),
            "body_bytes": len(SECRET_BODY),
            "cut": start + len(part) < len(SECRET_BODY),
        }

    def _act(self, queue: str, operation: str, given: Mapping[str, Any]) -> dict[str, Any]:
        if not given.get("preview"):
            self.before()
        until = int(given.get("until") or self.last)
        named = None if given.get("ids") is None else {int(n) for n in given["ids"]}
        found = [
            n for n in self.queues[queue] if int(given.get("after") or 0) < n <= until and (named is None or n in named)
        ]
        done, skipped, blocked, count = [], [], "", given.get("count", 1000)
        position = None
        for n in found:
            if len(done) == count:
                break
            target = self.sources.get(n, "") if operation == "retry-messages" else given.get("to", "")
            if n in self.acquired:
                skipped.append({"id": str(n), "why": "a consumer has acquired it"})
            elif target and n in self.too_large:
                skipped.append({"id": str(n), "why": "it is larger than the stop level"})
            elif target and self.room.get(target, 1) <= 0:
                blocked = f"queue {target} is overfull"
                break
            else:
                done.append(n)
                if not given.get("preview"):
                    self._carry_out(operation, queue, target, n)
            position = n
        at_end = not blocked and len(done) + len(skipped) == len(found)
        if not given.get("preview"):
            self.after()
        return {
            "messages": len(done),
            "bytes": 100 * len(done),
            "skipped": skipped,
            "searched": len(done) + len(skipped),
            "next": None if at_end else str(position if position is not None else given.get("after") or 0),
            "until": str(until),
            "blocked": blocked,
        }

    def _carry_out(self, operation: str, queue: str, target: str, number: int) -> None:
        if target and target in self.room:
            self.room[target] -= 1
        if operation == "copy-messages":
            self.copies.append(number)
        else:
            self.queues[queue].remove(number)
        if target:
            self.arrive(target)


class WithMessages:
    """A BrokerAdmin with the operations of `Messages` on its queues; everything else is the broker's."""

    def __init__(self, admin: BrokerAdmin, messages: Messages) -> None:
        self._admin = admin
        self._messages = messages

    def __getattr__(self, name: str) -> Any:
        return getattr(self._admin, name)

    async def types(self) -> Mapping[str, ManagedType]:
        types = dict(await self._admin.types())
        queue = types["Queue"]
        mine = tuple(Operation(name, name, effect=EFFECTS.get(name, "change")) for name in (*ACTS, "publish-message"))
        reads = (
            Operation("read-message", "read", role="message-reader"),
            Operation("summarize-messages", "summarize"),
        )
        added = tuple(each for each in (*mine, *reads) if queue.operation(each.name) is None)
        return {**types, "Queue": replace(queue, operations=(*queue.operations, *added))}

    async def call(self, name: ObjectName, operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if operation in (*ACTS, "list-messages", "read-message", "summarize-messages", "publish-message"):
            return self._messages.call(name["name"], operation, arguments)
        return await self._admin.call(name, operation, arguments)
