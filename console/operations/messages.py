"""Look at the messages of a queue: list, read one, count dead letters. Looking takes none of them from the queue.

A list has no bodies, and needs no more than visibility of the queue. A body needs the role of message reader, and each
look is audited. One call of the broker searches a part of a queue; these functions go on for a short time, and return
where a later request goes on.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Iterator, Mapping
from typing import Any

from brokers.admin import AdminError, BrokerUnreachable, InvalidValue
from brokers.model import ObjectName
from console.access.actor import Actor
from console.links.registry import BrokerLink
from console.operations.objects import call_operation
from console.operations.policies import has_operation
from console.permissions.rights import needed

#: Longest time for which a list or a summary searches before it returns what it has, s.
SEARCH_SECONDS = 1.0
#: Bytes of a body in one answer of the broker.
PART = 1 << 20
_QUEUES_READ = 500

Answer = Mapping[str, Any]


class NotOffered(AdminError):
    """This broker does not have the operation, or not the attribute."""


def require(link: BrokerLink, name: ObjectName, operation: str) -> None:
    """Raise InvalidValue unless the object is a queue, NotOffered if the queues of this broker lack the operation."""
    if name.type != "Queue":
        raise InvalidValue({"object": f"object is {name}: it must be a queue"})
    if not link.types_known:
        link.require_current()  # the types are known from the first connection on
    if not has_operation(link, "Queue", operation):
        raise NotOffered(f"{link.title} does not offer {_OFFERS.get(operation, operation)} through this console")


def require_if_permitted(by: Actor, link: BrokerLink, name: ObjectName, operation: str) -> None:
    """As `require`, but pass a user without the permission, whose call is to be refused and audited as such."""
    if not by.rights.missing(link.slug, needed(name, operation)):
        require(link, name, operation)


_OFFERS = {
    "list-messages": "to look at the messages of a queue",
    "read-message": "to read a message",
    "summarize-messages": "to count the dead letters of a queue by reason",
    "move-messages": "to move messages",
    "copy-messages": "to copy messages",
    "retry-messages": "to retry dead letters",
    "delete-messages": "to delete single messages",
    "publish-message": "to publish a message",
}


def called(link: BrokerLink, name: ObjectName, operation: str, arguments: Mapping[str, Any]) -> Answer:
    """Call an operation without a check of roles and an audit row: for callers that do both, and for lists. Arguments
    that are None are left out."""
    given = {key: value for key, value in arguments.items() if value is not None}
    return link.call(lambda admin: admin.call(name, operation, given))


def list_messages(
    link: BrokerLink,
    name: ObjectName,
    match: Mapping[str, Any] | None = None,
    *,
    order: str = "queue",
    after: str | None = None,
    count: int = 50,
) -> dict[str, Any]:
    """Return `messages`, `next` (cursor of the next page; None: there are no more) and `searched`. There may be fewer
    than `count`, with a `next`. Raises NotOffered, NotFound, InvalidValue."""
    require(link, name, "list-messages")
    end = time.monotonic() + SEARCH_SECONDS
    found: list[Any] = []
    searched, position = 0, after
    while True:
        wanted = {"match": match or None, "order": order, "after": position, "count": count - len(found)}
        answer = called(link, name, "list-messages", wanted)
        found += answer["messages"]
        searched += answer["searched"]
        position = answer["next"]
        if position is None or len(found) >= count or time.monotonic() >= end:
            return {"messages": found, "next": position, "searched": searched}


def summarize(link: BrokerLink, name: ObjectName, match: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return `groups`: messages, bytes and the oldest arrival of dead letters by reason and source queue (both empty
    for other messages); `searched`; `complete`: whether the whole queue was searched. Raises NotOffered."""
    require(link, name, "summarize-messages")
    end = time.monotonic() + SEARCH_SECONDS
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    searched, position = 0, None
    while True:
        answer = called(link, name, "summarize-messages", {"match": match or None, "after": position})
        for group in answer["groups"]:
            _include(groups, group)
        searched += answer["searched"]
        position = answer["next"]
        if position is None or time.monotonic() >= end:
            most_first = sorted(groups.values(), key=lambda group: (-group["messages"], group["reason"]))
            return {"groups": most_first, "searched": searched, "complete": position is None}


def _include(groups: dict[tuple[str, str], dict[str, Any]], group: Mapping[str, Any]) -> None:
    key = (group["reason"], group["queue"])
    before = groups.get(key)
    if before is None:
        groups[key] = dict(group)
        return
    before["messages"] += group["messages"]
    before["bytes"] += group["bytes"]
    known = [at for at in (before["oldest_at"], group["oldest_at"]) if at is not None]
    before["oldest_at"] = min(known, default=None)


def read_message(
    by: Actor, link: BrokerLink, name: ObjectName, identifier: str, *, offset: int = 0, size: int = 65_536
) -> Answer:
    """Return a message with a part of its body, as the operation declares; audited. Raises PermissionDenied, NotFound,
    NotOffered."""
    require_if_permitted(by, link, name, "read-message")
    return call_operation(by, link, name, "read-message", {"id": identifier, "offset": offset, "size": size})


def read_body(by: Actor, link: BrokerLink, name: ObjectName, identifier: str) -> tuple[Answer, Iterator[bytes]]:
    """Return a message with the first part of its body, and an iterator over the whole body. One audit row for all of
    it. The iterator raises AdminError if the message or the broker is lost meanwhile. Raises as `read_message`."""
    first = read_message(by, link, name, identifier, size=PART)
    return first, _parts(link, name, identifier, first)


def _parts(link: BrokerLink, name: ObjectName, identifier: str, first: Answer) -> Iterator[bytes]:
    whole, part, sent = first["body_bytes"], body_of(first), 0
    while True:
        sent += len(part)
        yield part
        if sent >= whole:
            return
        if not part:
            raise BrokerUnreachable(f"the body ended after {sent:,} of {whole:,} bytes")
        part = body_of(called(link, name, "read-message", {"id": identifier, "offset": sent, "size": PART}))


def body_of(answer: Answer) -> bytes:
    """Return the part of a body in an answer. Raises AdminError if it is not base64."""
    try:
        return base64.b64decode(answer["body"], validate=True)
    except (binascii.Error, ValueError):
        raise AdminError("the broker sent a body that is not base64") from None


def dead_letter_queues(link: BrokerLink) -> list[dict[str, Any]]:
    """Return the visible queues that are dead-letter queues of others, those with most messages first: `object`,
    `virtualhost`, `name`, `state`, `depth_messages`, `depth_bytes`, `oldest_message_at`, `sources`, `consumers`. Read
    from the broker. Raises NotOffered, BrokerUnreachable."""
    if not link.types_known:
        link.require_current()
    queues = link.types.get("Queue")
    if queues is None or queues.attribute("dead_letter_sources") is None:
        raise NotOffered(f"{link.title} does not report which queues are dead-letter queues")
    found: list[dict[str, Any]] = []
    while True:
        offset = len(found)
        page = link.call(
            lambda admin: admin.query("Queue", sort="-dead_letter_sources", offset=offset, count=_QUEUES_READ)  # noqa: B023
        )
        rows = [each for each in page.items if each.attributes.get("dead_letter_sources")]
        found += [_dead_letter_queue(str(each.name), each.attributes) for each in rows]
        if len(rows) < _QUEUES_READ:
            return sorted(found, key=lambda row: (-(row["depth_messages"] or 0), row["virtualhost"], row["name"]))


_SHOWN = ("virtualhost", "name", "state", "depth_messages", "depth_bytes", "oldest_message_at", "consumers")


def _dead_letter_queue(name: str, row: Mapping[str, Any]) -> dict[str, Any]:
    return {"object": name, **{key: row.get(key) for key in _SHOWN}, "sources": row["dead_letter_sources"]}
