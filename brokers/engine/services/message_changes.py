"""Operators' changes of the messages of a queue: move, copy, retry and delete, a bounded part in each call.

Only messages that no consumer has acquired are touched, and that no open transaction contains. A call that was begun
with a mark (`until`) touches none that arrived after it. What is moved to the dead-letter queue of its queue becomes a
dead letter, as if a consumer had rejected it, with a reason of its own. A message that the target does not take stays
where it is, and so do those behind it: `blocked` says why, and `next` where a later call goes on. A call is answered
when its changes are in the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from brokers.admin import InvalidValue, NotFound
from brokers.engine.queues import relocation
from brokers.engine.queues.browsing import Browsing, Seen
from brokers.engine.queues.queue import Queue
from brokers.engine.registry.registry import Registry
from brokers.engine.services.dead_letters import DeadLetters
from brokers.engine.services.message_lists import MOST_ANSWER
from brokers.engine.services.message_match import Match
from brokers.engine.services.message_room import Room
from brokers.engine.services.message_search import Search, place
from brokers.engine.services.message_values import shortened
from brokers.engine.services.queue_facts import queue_fact
from brokers.engine.values.amounts import counted
from brokers.engine.values.message_ids import id_of, number_in
from brokers.engine.values.outcomes import MOVED
from brokers.model.message_operations import ACQUIRED, MOST_HANDLED

COPY, MOVE, RETRY, DELETE = "copy", "move", "retry", "delete"

_ACQUIRED = "a consumer has acquired it"
_GONE = "it is not in the queue"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A message to be changed. `body`: None: it is missing from a damaged store. `sent`: as it goes to `target`."""

    seen: Seen
    body: bytes | None
    target: Queue | None = None
    sent: bytes = b""


@dataclass(slots=True)
class _Call:
    """One call on `queue`. `most`: messages; None: a preview of all. `ids`: number -> id of the messages that it names.
    `room`: that of its one target; `rooms`: those of the sources of dead letters, by name. `gone`: the named messages
    that are not in the queue. `dead`: the messages become dead letters."""

    queue: Queue
    action: str
    most: int | None
    preview: bool
    ids: Mapping[int, str] | None
    room: Room | None
    chosen: list[Chosen] = field(default_factory=list)
    skipped: list[dict[str, str]] = field(default_factory=list)
    rooms: dict[str, Room] = field(default_factory=dict)
    gone: dict[int, str] = field(default_factory=dict)
    messages: int = 0
    bytes: int = 0
    blocked: str = ""
    text: int = 0  # characters of `skipped`
    dead: bool = False

    @property
    def full(self) -> bool:
        if len(self.skipped) >= MOST_HANDLED or self.text >= MOST_ANSWER:
            return True
        return self.most is not None and self.messages >= self.most

    def skip(self, identity: str, why: str) -> None:
        self.text += len(identity) + len(why)
        self.skipped.append({"id": identity, "why": why})


class MessageChanges:
    """See the module. Each method takes the arguments of its operation; raises InvalidValue, NotFound, and TryAgain
    if a store cannot be read now."""

    def __init__(self, registry: Registry, dead_letters: DeadLetters) -> None:
        self.registry = registry
        self.dead_letters = dead_letters

    def move(self, queue: Queue, given: Mapping[str, Any]) -> dict[str, Any]:
        return self._perform(queue, MOVE, given, self._target(queue, given))

    def copy(self, queue: Queue, given: Mapping[str, Any]) -> dict[str, Any]:
        return self._perform(queue, COPY, given, self._target(queue, given))

    def retry(self, queue: Queue, given: Mapping[str, Any]) -> dict[str, Any]:
        return self._perform(queue, RETRY, given, None)

    def delete(self, queue: Queue, given: Mapping[str, Any]) -> dict[str, Any]:
        return self._perform(queue, DELETE, given, None)

    def _target(self, queue: Queue, given: Mapping[str, Any]) -> Room:
        name = given["to"]
        if name == queue.name:
            raise InvalidValue({"to": f"to is {name!r}: that is the queue of the messages"})
        target = self.registry.host_of(queue).queues.get(name)
        if target is None:
            raise NotFound(f"there is no queue {name!r} in virtual host {queue.virtualhost}")
        return Room(target)

    def _perform(self, queue: Queue, action: str, given: Mapping[str, Any], room: Room | None) -> dict[str, Any]:
        ids = _wanted(given)
        most = int(given.get("count") or MOST_HANDLED)
        if most > MOST_HANDLED:
            raise InvalidValue({"count": f"count is {most}: it must be from 1 to {MOST_HANDLED:,}"})
        last = place(given.get("after"))
        until, mark = _until(queue, given.get("until"))
        match = Match(given.get("match"), queue.turn.format)
        if match.has_age and _began(mark) != queue.arrivals.began:
            raise InvalidValue(
                {"match": "the broker was restarted since: it does not know the ages of messages any more"}
            )
        preview = bool(given.get("preview"))
        call = _Call(queue, action, None if preview and not given.get("count") else most, preview, ids, room)
        call.dead = action == MOVE and room is not None and room.queue.name == self.dead_letters.queue_of(queue)
        browsing = Browsing(queue)
        after = browsing.after if ids is None else _Named(browsing, call, ids).after
        search = Search(queue, match, after, last, until=until, decodes=action == RETRY or call.dead)
        if room is not None and not call.preview:
            call.blocked = room.closed()
        ended = False
        if not call.blocked:
            last = self._choose(call, search, last)
            ended = search.ended and not call.blocked
        for number, identity in call.gone.items():
            if ended or number <= last:
                call.skip(identity, _GONE)
        if call.preview:
            rooms = [room] if room is not None else list(call.rooms.values())
            call.blocked = next((why for each in rooms if (why := each.closed())), "")
        if not call.preview and call.chosen:
            self._carry_out(call)
            self._report(call, given)
            _answer_once_safe(call)
        return {
            "messages": call.messages,
            "bytes": call.bytes,
            "skipped": call.skipped,
            "searched": search.searched,
            "next": None if ended else str(last),
            "until": mark,
            "blocked": call.blocked,
        }

    # -- which ---------------------------------------------------------------------------------------------------

    def _choose(self, call: _Call, search: Search, last: int) -> int:
        """Choose messages until the call is full or blocked. Return the place up to which they were."""
        for seen, body in search:
            identity = id_of(seen.number, body)
            if call.ids is not None and call.ids[seen.number] != identity:
                call.skip(call.ids[seen.number], _GONE)
            elif seen.state == ACQUIRED:
                call.skip(identity, _ACQUIRED)
            else:
                self._add(call, seen, body, identity)
            if call.blocked:
                return last
            last = search.last
            if call.full:
                return last
        return search.last

    def _add(self, call: _Call, seen: Seen, body: bytes | None, identity: str) -> None:
        """Choose a message, skip it, or note what blocks the call."""
        if call.action == DELETE:
            found: Chosen | str = Chosen(seen, body)
        elif body is None:
            found = "its bytes are missing from the store"
        elif call.action == RETRY:
            found = self._back(call, seen, body)
        else:
            assert call.room is not None
            sent = self.dead_letters.marked(call.queue, (seen.number, body), MOVED) if call.dead else body
            found = self._to(call, call.room, seen, body, sent)
        if isinstance(found, str):
            if found:
                call.skip(identity, found)
            return
        call.messages += 1
        call.bytes += seen.size
        if not call.preview:
            call.chosen.append(found)

    def _back(self, call: _Call, seen: Seen, body: bytes) -> Chosen | str:
        """Choose a dead letter for its queue. Return why it is skipped; "": the call is blocked."""
        queue = call.queue
        mark = queue.turn.format.dead_letter(body)
        if mark is None:
            return "it is not a dead letter"
        if mark.queue == queue.name:
            return "it came from this queue"
        source = self.registry.host_of(queue).queues.get(mark.queue)
        if source is None:
            return f"queue {shortened(mark.queue)} does not exist any more"
        room = call.rooms.get(mark.queue)
        if room is None:
            room = call.rooms[mark.queue] = Room(source)
        return self._to(call, room, seen, body, queue.turn.format.retried(body))

    def _to(self, call: _Call, room: Room, seen: Seen, body: bytes, sent: bytes) -> Chosen | str:
        """Choose a message for a target. Return why it is skipped; "": the call is blocked."""
        queue, target = call.queue, room.queue
        if call.action != COPY and target.durable is None and queue.durable is not None and queue.is_durable(body):
            return f"it is durable and queue {target.name} is not: a restart would lose it"
        if room.never_fits(len(sent)):
            return f"it is larger than the stop level of queue {target.name}"
        if not call.preview:
            stores = queue.durable is None and target.is_durable(body)
            added = call.action == COPY or seen.body is None or stores
            call.blocked = room.refusal(len(sent)) or room.shortage(sent, added=added)
            if call.blocked:
                return ""
            room.put(len(sent))
        return Chosen(seen, body, target, sent)

    # -- the change ----------------------------------------------------------------------------------------------

    def _carry_out(self, call: _Call) -> None:
        queue = call.queue
        if call.action != COPY:
            relocation.take_out(queue, [chosen.seen for chosen in call.chosen])
        for seen, body, target, sent in ((c.seen, c.body, c.target, c.sent) for c in call.chosen):
            if target is None:
                relocation.drop(queue, seen, body)
            elif call.action == COPY:
                relocation.copy(queue, seen, target, sent)
            elif body is not None:
                relocation.move(queue, seen, body, target, sent)
        if call.action != COPY:
            relocation.settle(queue)

    def _report(self, call: _Call, given: Mapping[str, Any]) -> None:
        """Add a fact for each target, since a call may be one of hundreds."""
        kinds = {COPY: "messages-copied", DELETE: "messages-deleted"}
        words = {COPY: "Copied", DELETE: "Deleted", MOVE: "Moved", RETRY: "Retried"}[call.action]
        kind = kinds.get(call.action, "messages-moved")
        totals: dict[str, tuple[int, int]] = {}
        for chosen in call.chosen:
            name = "" if chosen.target is None else chosen.target.name
            messages, size = totals.get(name, (0, 0))
            totals[name] = messages + 1, size + chosen.seen.size
        actor, reason = given["actor"], given.get("reason") or ""
        for name, (messages, size) in totals.items():
            text = f"{words} : {counted(messages, 'message')}, {f'To : {name}, ' if name else ''}By : {actor}"
            attributes = {"messages": messages, "bytes": size, "to": name, "actor": actor, "reason": reason}
            queue_fact(call.queue, kind, text, attributes)


def _answer_once_safe(call: _Call) -> None:
    """Have the call answered when the store, which all queues of a virtual host share, has its changes."""
    targets = (chosen.target for chosen in call.chosen if chosen.target is not None)
    durable = next((queue.durable for queue in (call.queue, *targets) if queue.durable is not None), None)
    if durable is not None and (ticket := durable.store.buffered):
        call.queue.turn.once_safe = partial(durable.when_safe, ticket)


class _Named:
    """The messages with the ids of a call, in order; those that are not in the queue are skipped by it."""

    def __init__(self, browsing: Browsing, call: _Call, ids: Mapping[int, str]) -> None:
        self._browsing = browsing
        self._call = call
        self._ids = ids
        self._numbers = sorted(ids)

    def after(self, number: int, count: int) -> list[Seen]:
        found: list[Seen] = []
        for each in self._numbers:
            if each > number and len(found) < count:
                next_one = self._browsing.after(each - 1, 1)
                if next_one and next_one[0].number == each:
                    found += next_one
                else:
                    self._call.gone[each] = self._ids[each]
        return found


def _wanted(given: Mapping[str, Any]) -> dict[int, str] | None:
    """Return number -> id of the messages that a call names; None: it has a match. Raises InvalidValue."""
    ids, match = given.get("ids"), given.get("match")
    if bool(ids) and match is not None and match != {}:
        raise InvalidValue({"match": "ids and match exclude each other: give one of them"})
    if ids is None and match is None:
        raise InvalidValue({"ids": "ids is missing, and match too: give one of them; match {} stands for all"})
    if ids is None or (not ids and match is not None):
        return None
    if len(ids) > MOST_HANDLED:
        raise InvalidValue({"ids": f"ids has {len(ids):,} entries: {MOST_HANDLED:,} at most"})
    try:
        return {number_in(each): each for each in ids}
    except InvalidValue as error:
        raise InvalidValue({"ids": str(error)}) from None


def _began(mark: str) -> int:
    """Return when the run of the broker began to which a mark belongs."""
    return int(mark.split("-")[1])


def _until(queue: Queue, given: str | None) -> tuple[int, str]:
    """Return (the last sequence number that calls with this mark touch, the mark). A new mark stands for now; one of an
    earlier run of the broker for what that run stored. Raises InvalidValue."""
    if not given:
        sequence = queue.gate.enqueued
        return sequence, f"{sequence}-{queue.arrivals.began}-{queue.store_id}"
    parts = given.split("-")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
        raise InvalidValue({"until": f"until is {given[:80]!r}: it is not a mark that an earlier answer named"})
    sequence, began, store_id = map(int, parts)
    if store_id != queue.store_id:
        return 0, given  # of another queue of this name
    return (sequence if began == queue.arrivals.began else min(sequence, queue.arrivals.recovered)), given
