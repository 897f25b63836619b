"""Act on messages of a queue: move, copy, retry (dead letters go back to where they came from), delete, publish.

The broker does the moves: each message is in one of the two queues at any moment. Messages that are named by their
identifiers are acted on at once, with one audit row; all that a filter finds by a job (`console/messages/`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from brokers.model import ObjectName
from console.access.actor import Actor
from console.links.registry import BrokerLink
from console.operations.attempt import as_detail, attempt, recorded
from console.operations.messages import called, require, require_if_permitted
from console.operations.objects import call_operation

#: Action -> operation of the model.
ACTIONS: Mapping[str, str] = {
    "move": "move-messages",
    "copy": "copy-messages",
    "retry": "retry-messages",
    "delete": "delete-messages",
}
#: Actions with a target queue in `to`.
WITH_TARGET = ("move", "copy")
#: Messages that one request names.
MOST_NAMED = 1000
#: Messages of one call of the broker.
BATCH = 1000
#: Skipped messages that an answer names.
MOST_SKIPPED = 100
#: Longest time of a preview and of an act on named messages, s.
SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Act:
    """What to do with which messages of a queue: those of `ids`, or all that `match` finds; one of them is None.
    `to`: name of the target queue, "" for actions without."""

    action: str
    queue: ObjectName
    to: str = ""
    ids: Sequence[str] | None = None
    match: Mapping[str, Any] | None = None

    @property
    def operation(self) -> str:
        return ACTIONS[self.action]

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the broker's operation that name messages and target."""
        which = {"match": dict(self.match or {})} if self.ids is None else {"ids": list(self.ids)}
        return {**which, **({"to": self.to} if self.action in WITH_TARGET else {})}


@dataclass(slots=True)
class Done:
    """The sum of several calls. `blocked`: why the target takes no more now; `complete`: whether all were reached,
    which a preview does behind a blocked target, too."""

    is_preview: bool = False
    messages: int = 0
    bytes: int = 0
    skipped: list[Mapping[str, Any]] = field(default_factory=list)
    skipped_messages: int = 0
    blocked: str = ""
    complete: bool = False

    def include(self, answer: Mapping[str, Any]) -> None:
        self.messages += answer["messages"]
        self.bytes += answer["bytes"]
        self.skipped_messages += len(answer["skipped"])
        self.skipped += list(answer["skipped"])[: MOST_SKIPPED - len(self.skipped)]
        self.blocked = answer["blocked"] or self.blocked
        self.complete = answer["next"] is None and (self.is_preview or not self.blocked)

    def as_json(self) -> dict[str, Any]:
        return {
            "messages": self.messages,
            "bytes": self.bytes,
            "skipped": self.skipped,
            "skipped_messages": self.skipped_messages,
            "blocked": self.blocked,
            "complete": self.complete,
        }

    @property
    def counts(self) -> dict[str, Any]:
        """Return what the audit trail records."""
        return {
            "messages": self.messages,
            "bytes": self.bytes,
            "skipped": self.skipped_messages,
            **({"blocked": self.blocked} if self.blocked else {}),
            **({} if self.complete else {"complete": False}),
        }


def preview_act(link: BrokerLink, act: Act) -> Done:
    """Return what the act would do now. `complete`: False if there was not the time to search the whole queue. Raises
    NotOffered, NotFound, InvalidValue."""
    require(link, act.queue, act.operation)
    done = Done(is_preview=True)
    _calls(link, act, {"preview": True}, done)
    return done


def act_on_named(by: Actor, link: BrokerLink, act: Act, *, reason: str = "") -> Done:
    """Act on the messages of `act.ids`, with one audit row that has the counts. Raises PermissionDenied, NotOffered,
    NotFound, InvalidValue."""
    requested = act.arguments()
    with attempt(by, link, act.queue, act.operation, reason=reason, requested=requested, act=_verb(act)) as this:
        require(link, act.queue, act.operation)
        done = Done()

        def note() -> None:
            this.after = done.counts
            this.detail = as_detail({**recorded(act.queue, act.operation, requested), **done.counts})

        this.sent = True
        _calls(link, act, {"reason": reason, "actor": by.name}, done, note)
        return done


def _calls(link: BrokerLink, act: Act, more: Mapping[str, Any], done: Done, note: Any = None) -> None:
    """Call the operation until all messages are reached, the target is blocked, or the time is over."""
    end = time.monotonic() + SECONDS
    after = until = None
    while True:
        given = {**act.arguments(), **more, "after": after, "until": until, "count": BATCH}
        answer = called(link, act.queue, act.operation, given)
        done.include(answer)
        if note is not None:
            note()
        after, until = answer["next"], answer["until"]
        if after is None or (done.blocked and not done.is_preview) or time.monotonic() >= end:
            return


def _verb(act: Act) -> str:
    return f"{act.action} messages of"


def publish(
    by: Actor, link: BrokerLink, queue: ObjectName, arguments: Mapping[str, Any], *, reason: str = ""
) -> Mapping[str, Any]:
    """Publish one message to the queue and return its outcome, as the operation declares; audited without contents.
    Raises PermissionDenied, NotOffered, InvalidValue."""
    require_if_permitted(by, link, queue, "publish-message")
    given = {key: value for key, value in arguments.items() if value is not None}
    return call_operation(by, link, queue, "publish-message", {**given, "reason": reason})
