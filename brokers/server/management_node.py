"""`$management`: requests in, answers out, on links that a client opens in pairs. `management_draft.py` says what
requests mean.

Headgate's own broker answers within the turn of the request, or once a store has what the request has changed. A broker
behind an adapter answers later, too: then the answer is sent in a turn of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

from proton import Message

from brokers.admin import AdminError, BrokerAdmin
from brokers.amqp.link_context import Replies
from brokers.amqp.node_links import NodeSource, NodeTarget
from brokers.engine.flow.turn import Turn
from brokers.engine.management.permission import ManagementAs
from brokers.engine.management.requests import Management
from brokers.engine.values.rights import Rights
from brokers.input_checks import shortened
from brokers.model import TYPES, ManagedType
from brokers.server.management_draft import Answer, failure, parse, refusal, succeeded
from brokers.server.values import to_amqp

log = logging.getLogger(__name__)


class Answers(Protocol):
    """Answers a request of a user, at once or later."""

    def __call__(self, request: Message, user: str) -> Answer | Coroutine[Any, Any, Answer]: ...


class ManagementNode:
    """See the module. `in_turn`: runs a function in a turn of the broker."""

    def __init__(self, answers: Answers, in_turn: Callable[[Callable[[], None]], None]) -> None:
        self._answers = answers
        self._in_turn = in_turn
        self._pending: set[asyncio.Task[None]] = set()

    def open_source(self, link: NodeSource, filters: Any) -> None:
        """Accept the link, for answers to its own address."""

    def open_target(self, link: NodeTarget) -> None:
        link.on_message = lambda body: self._on_request(link, body)

    def _on_request(self, link: NodeTarget, encoded: bytes) -> str:
        request = Message()
        try:
            request.decode(encoded)
            reply_to = request.reply_to
            correlation = _id(request.correlation_id if request.correlation_id is not None else request.id)
        except Exception as error:  # a hostile message may raise any error in Proton
            return f"the request cannot be read: {error}"
        if not isinstance(request.properties, Mapping | None):
            return "the request cannot be read: its application properties are not a map"
        target = link.context.replies.get(reply_to) if reply_to else None
        if target is None:
            return f"there is no link to answer on: reply-to is {reply_to!r}"
        answer = self._answers(request, link.context.user or "")
        if isinstance(answer, tuple):
            _send(target, answer, reply_to, correlation)
        else:
            task = asyncio.ensure_future(self._answer_later(answer, target, reply_to, correlation))
            self._pending.add(task)
            task.add_done_callback(self._pending.discard)
        return ""

    async def _answer_later(
        self, pending: Coroutine[Any, Any, Answer], target: Replies, reply_to: str, correlation: Any
    ) -> None:
        answer = await pending
        self._in_turn(lambda: _send(target, answer, reply_to, correlation))


def _send(target: Replies, answer: Answer, reply_to: str, correlation: Any) -> None:
    status, properties, body = answer
    message = Message(body=to_amqp(body), address=reply_to, correlation_id=correlation)
    message.properties = {"statusCode": status, **properties}
    target.push(bytes(message.encode()))


def _id(value: Any) -> Any:
    """Return a correlation id that can be set: Proton returns a binary one as a view of its own memory."""
    return bytes(value) if isinstance(value, memoryview) else value


class EngineAnswers:
    """The answers of Headgate's own broker. `rights`: a user's current permissions. `turn`: of the engine."""

    def __init__(self, management: Management, rights: Callable[[str], Rights], turn: Turn) -> None:
        self._management = management
        self._rights = rights
        self._turn = turn

    def __call__(self, request: Message, user: str) -> Answer | Coroutine[Any, Any, Answer]:
        by = ManagementAs(self._management, user, self._rights(user))
        try:
            parsed = parse(request, user, TYPES)
            answer = succeeded(parsed.answer(parsed.call(by) if parsed.call is not None else None))
        except AdminError as error:
            return refusal(error)
        except Exception:
            return _failed(request)
        finally:
            once_safe = self._turn.take_once_safe()
        if once_safe is None:
            return answer
        safe = asyncio.Event()
        once_safe(safe.set)
        return _once(safe, answer)


async def _once(safe: asyncio.Event, answer: Answer) -> Answer:
    await safe.wait()
    return answer


class AdminAnswers:
    """The answers of any other broker. `types`: what it has now."""

    def __init__(self, broker: BrokerAdmin, types: Callable[[], Mapping[str, ManagedType]]) -> None:
        self._broker = broker
        self._types = types

    async def __call__(self, request: Message, user: str) -> Answer:
        try:
            await self._broker.types()  # raises BrokerUnreachable
            parsed = parse(request, user, self._types())
            return succeeded(parsed.answer(await parsed.call(self._broker) if parsed.call is not None else None))
        except AdminError as error:
            return refusal(error)
        except Exception:
            return _failed(request)


def _failed(request: Message) -> Answer:
    log.exception("management request %s failed", shortened(repr(request.properties), 1000))
    return failure()
