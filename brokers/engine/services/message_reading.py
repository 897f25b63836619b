"""One message of a queue with its body, for one who may read it; and how many dead letters there are of which kind."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from brokers.admin import InvalidValue, NotFound, TryAgain
from brokers.engine.queues.browsing import Browsing, Seen
from brokers.engine.queues.queue import Queue
from brokers.engine.services.message_lists import described
from brokers.engine.services.message_match import Match, arrival
from brokers.engine.services.message_search import Search, place
from brokers.engine.services.message_values import shortened, shortened_map
from brokers.engine.values.message_format import Head, Parts
from brokers.engine.values.message_ids import id_of, number_in
from brokers.model.message_operations import MOST_OF_BODY, USUAL_PART

#: Characters of a value of the message that is read, and groups in one summary.
_MOST_TEXT, MOST_GROUPS = 4096, 200


class MessageReading:
    """See the module. Each method takes the arguments of its operation; raises InvalidValue, NotFound, and TryAgain
    if a store cannot be read now."""

    def read(self, queue: Queue, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a message and a part of its body."""
        offset, size = int(given.get("offset") or 0), int(given.get("size") or USUAL_PART)
        if size > MOST_OF_BODY:
            raise InvalidValue({"size": f"size is {size}: {MOST_OF_BODY:,} bytes at most"})
        browsing = Browsing(queue)
        seen, body = self._found(queue, browsing, given["id"])
        parts = Parts("undecodable", b"") if body is None else queue.turn.format.parts(body)
        head = Head() if body is None else queue.turn.format.head(body, whole=True)
        message = described(queue, browsing, seen, body, head=head, most=_MOST_TEXT)
        for name in ("annotations", "delivery_annotations", "footer"):
            message[name] = shortened_map(getattr(parts, name), _MOST_TEXT)
        part = bytes(parts.body[offset : offset + size])
        return {
            "message": message,
            "body_kind": parts.kind,
            "body": b64encode(part).decode(),
            "body_bytes": len(parts.body),
            "cut": len(part) < len(parts.body),
        }

    def _found(self, queue: Queue, browsing: Browsing, identity: str) -> tuple[Seen, bytes | None]:
        number = number_in(identity)
        seen = next((each for each in browsing.after(number - 1, 1) if each.number == number), None)
        if seen is not None:
            body = seen.body
            if body is None:
                loaded = queue.storage.bodies([seen.entry])
                if loaded is None:
                    raise TryAgain(f"the stored messages of queue {queue.name} cannot be read now: try again")
                body = loaded.get(number)
            if id_of(number, body) == identity:
                return seen, body
        raise NotFound(f"message {identity[:80]} is not in queue {queue.name}")

    def summarize(self, queue: Queue, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return how many messages there are of each reason and source of dead letters, in a part of the queue."""
        reads, groups = queue.turn.format, dict[tuple[str, str], dict[str, Any]]()
        match, browsing = Match(given.get("match"), reads), Browsing(queue)
        search = Search(queue, match, browsing.after, place(given.get("after")), decodes=True)
        for seen, body in search:
            mark = None if body is None else reads.dead_letter(body)
            key = ("", "") if mark is None else (shortened(mark.reason), shortened(mark.queue))
            group = groups.get(key)
            if group is None:
                names = {"reason": key[0], "queue": key[1]}
                group = groups[key] = {**names, "messages": 0, "bytes": 0, "oldest_at": None}
            group["messages"] += 1
            group["bytes"] += seen.size
            at = arrival(queue, seen.number, body, match.heads.of)
            if at is not None:
                group["oldest_at"] = at if group["oldest_at"] is None else min(at, group["oldest_at"])
            if len(groups) >= MOST_GROUPS:
                break
        return {
            "groups": list(groups.values()),
            "next": None if search.ended else str(search.last),
            "searched": search.searched,
        }
