"""The admin interface to Headgate's own broker, over AMQP 1.0: `$management`, `$events` and `$samples`.

Requests are answered in any order and known by their correlation id. Events and samples come over links of their own,
with no more in flight than their reader has room for. Events after a number have a connection of their own, too, since
an answer must not wait for a thousand of them. Streams from now on share the connection of requests, which guarantees
that they are attached before a later request is processed.
"""

from __future__ import annotations

import asyncio
import ssl
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from proton import Message, ProtonException

from brokers.admin import (
    AdminError,
    AlreadyExists,
    BrokerUnreachable,
    Called,
    EffectNotConfirmed,
    InvalidValue,
    ManagedObject,
    NotAllowed,
    NotFound,
    Page,
    StaleVersion,
    TryAgain,
)
from brokers.drivers.amqp_client import AmqpClient, ConnectionLost, SignInRefused
from brokers.drivers.amqp_links import LinkEnded
from brokers.drivers.amqp_values import encodable, plain
from brokers.drivers.capabilities import restricted, with_capabilities
from brokers.drivers.streams import EventStream, SampleStream
from brokers.model import TYPES, ManagedType, ObjectName

#: Maximum number of requests without an answer.
_WINDOW = 1000


class BundledBroker:
    """A `brokers.admin.BrokerAdmin`. Every method can raise BrokerUnreachable and NotAllowed."""

    def __init__(self, client: AmqpClient, followed: AmqpClient, timeout: float, name: str = "") -> None:
        """`followed`: the connection of events after a number."""
        self._client = client
        self._followed = followed
        self._suffix = f"/{name}" if name else ""
        management = f"$management{self._suffix}"
        self._timeout = timeout
        self._numbers = 0
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        self._types: dict[str, ManagedType] | None = None
        self._reply_to = f"console-{uuid.uuid4().hex}"
        self._answers = client.receiver(management, target=self._reply_to, window=_WINDOW, deliver=self._on_answer)
        self._requests = client.sender(management, refused=self._on_refused)
        for link in (self._answers, self._requests):
            link.ended.add_done_callback(lambda ended: self._on_link_ended(ended.result()))

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        user: str,
        password: str,
        *,
        tls: ssl.SSLContext | None = None,
        timeout: float = 10.0,  # noqa: ASYNC109 - it is stored for every request, too
        idle_timeout: float = 10.0,
        name: str = "",
    ) -> BundledBroker:
        """Connect (with `tls` by TLS), sign in and check that management is allowed. Without TLS the password goes to
        this machine only. `timeout`: seconds for all of this, and for every answer afterwards. `idle_timeout`: seconds
        of silence after which the broker counts as dead. `name`: of a broker behind an adapter, which is served at this
        address. Raises BrokerUnreachable, NotAllowed."""
        clients: list[AmqpClient] = []
        try:
            async with asyncio.timeout(timeout):
                for _ in range(2):
                    clients.append(
                        await AmqpClient.connect(host, port, user, password, tls=tls, idle_timeout=idle_timeout)
                    )
                broker = cls(clients[0], clients[1], timeout, name)
                await broker.types()
                return broker
        except BaseException as error:
            for client in clients:
                client.abort("gave up connecting")
            match error:
                case TimeoutError():
                    raise BrokerUnreachable(f"no answer from {host}:{port} within {timeout:g} s") from None
                case SignInRefused():
                    raise NotAllowed(str(error)) from error
                case ConnectionLost():
                    raise BrokerUnreachable(str(error)) from error
            raise

    async def close(self) -> None:
        """Close. Pending calls end with BrokerUnreachable."""
        await asyncio.gather(self._client.close(), self._followed.close())

    async def types(self) -> Mapping[str, ManagedType]:
        """Return the declared types as this broker has them: another kind, or an older one, lacks attributes and
        operations."""
        if self._types is None:
            try:
                answer = await self._request({"operation": "GET-CAPABILITIES", **_MANAGEMENT})
            except (NotFound, InvalidValue):  # a broker of the release before
                self._types = await self._discover()
            else:
                self._types = with_capabilities(answer.body)
        return self._types

    async def _discover(self) -> dict[str, ManagedType]:
        names, attributes, operations = await asyncio.gather(
            *(self._request({"operation": o, **_MANAGEMENT}) for o in _DISCOVERY)
        )
        return {
            name: restricted(TYPES[name], attributes.body.get(name) or (), operations.body.get(name) or {})
            for name in names.body
            if name in TYPES
        }

    async def read(self, name: ObjectName) -> ManagedObject:
        return _object((await self._request(_about(name, "READ"))).body)

    async def query(
        self,
        type_name: str,
        *,
        where: Mapping[str, Any] | None = None,
        search: str = "",
        sort: str = "",
        offset: int = 0,
        count: int = 100,
    ) -> Page:
        answer = await self._request(
            {
                "operation": "QUERY",
                "type": "org.amqp.management",
                "name": "self",
                "entityType": type_name,
                "offset": offset,
                "count": count,
            },
            {"attributeNames": [], "where": encodable(where or {}), "search": search, "sort": sort},
        )
        names: Sequence[str] = answer.body["attributeNames"]
        rows: Sequence[Sequence[Any]] = answer.body["results"]
        items = tuple(_object(dict(zip(names, row, strict=True))) for row in rows)
        return Page(items, answer.body["total"], offset)

    async def create(self, name: ObjectName, attributes: Mapping[str, Any], *, actor: str = "") -> ManagedObject:
        return _object((await self._request(_about(name, "CREATE", actor), encodable(attributes))).body)

    async def update(
        self, name: ObjectName, attributes: Mapping[str, Any], version: int, *, actor: str = ""
    ) -> ManagedObject:
        request = {**_about(name, "UPDATE", actor), "version": version}
        return _object((await self._request(request, encodable(attributes))).body)

    async def delete(self, name: ObjectName, version: int | None = None, *, actor: str = "") -> None:
        request = _about(name, "DELETE", actor)
        await self._request(request if version is None else {**request, "version": version})

    async def call(self, name: ObjectName, operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        request = _about(name, operation)
        if name.type in TYPES and _changes(TYPES[name.type], operation):
            request["objectAfter"] = True  # ignored by a broker of the release before
        answer = await self._request(request, encodable(arguments))
        if not answer.properties.get("objectAfter"):
            plain_answer: Mapping[str, Any] = answer.body
            return plain_answer
        after = answer.body["object"]
        return Called(answer.body["answer"], None if after is None else _object(after))

    def events(self, after: int | None = None) -> EventStream:
        """Attach at once: no later event is left out. Close the stream with `aclose`."""
        client = self._client if after is None else self._followed
        return EventStream(client, after, f"$events{self._suffix}")

    def samples(self) -> SampleStream:
        """Attach at once. Close the stream with `aclose`."""
        return SampleStream(self._client, f"$samples{self._suffix}")

    # Requests and answers

    async def _request(self, properties: dict[str, Any], body: Mapping[str, Any] | None = None) -> Message:
        """Send a request and return the answer, with a map of plain values as body. Raises the error of its status
        code."""
        self._numbers += 1
        tag = str(self._numbers)
        message = Message(properties=properties, body=dict(body or {}))
        message.reply_to, message.correlation_id = self._reply_to, tag
        try:
            encoded = message.encode()
        except (ProtonException, OverflowError, TypeError, ValueError) as error:
            raise AdminError(f"the request cannot be sent: {error}") from error
        if self._requests.ended.done():
            raise _unreachable(self._requests.ended.result())
        answered: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[tag] = answered
        try:
            async with asyncio.timeout(self._timeout):
                self._requests.send(tag, encoded)
                answer = await answered
        except TimeoutError:
            what = f"{properties['operation']} {properties.get('entityType') or properties['name']}"
            raise BrokerUnreachable(
                f"no answer from {self._client.where} to {what} within {self._timeout:g} s"
            ) from None
        finally:
            self._requests.forget(tag)
            self._waiting.pop(tag, None)
        _raise_for_status(answer)
        return answer

    def _on_answer(self, data: bytes) -> None:
        self._answers.consumed()
        answer = Message()
        answer.decode(data)
        waiting = self._waiting.get(str(answer.correlation_id))
        if waiting and not waiting.done():
            answer.properties = plain(answer.properties or {})
            answer.body = plain(answer.body if answer.body is not None else {})
            waiting.set_result(answer)

    def _on_refused(self, tag: str, reason: LinkEnded) -> None:
        waiting = self._waiting.get(tag)
        if waiting and not waiting.done():
            waiting.set_exception(AdminError(f"the broker did not accept the request: {reason}"))

    def _on_link_ended(self, reason: Exception) -> None:
        """End all pending requests with the reason: without one of the two links none can be sent."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(_unreachable(reason))
        self._client.abort(f"management has ended: {reason}")


_MANAGEMENT = {"type": "org.amqp.management", "name": "self"}
_DISCOVERY = ("GET-TYPES", "GET-ATTRIBUTES", "GET-OPERATIONS")


def _about(name: ObjectName, operation: str, actor: str = "") -> dict[str, Any]:
    about = {"operation": operation, "type": name.type, "name": str(name)}
    return {**about, "actor": actor} if actor else about


def _changes(declared: ManagedType, operation: str) -> bool:
    found = declared.operation(operation)
    return found is not None and found.effect != "read"


def _object(body: Mapping[str, Any]) -> ManagedObject:
    attributes = dict(body)
    name = ObjectName.parse(attributes.pop("object"))
    # What another kind of broker does not have is unknown to those who read it, and no error.
    unknown = {a.name: None for a in TYPES[name.type].attributes if a.name not in attributes}
    return ManagedObject(name, attributes["version"], {**attributes, **unknown} if unknown else attributes)


def _unreachable(reason: Exception) -> AdminError:
    if isinstance(reason, LinkEnded) and reason.condition == "amqp:unauthorized-access":
        return NotAllowed(str(reason))
    return BrokerUnreachable(str(reason))


def _raise_for_status(answer: Message) -> None:
    status: int = answer.properties.get("statusCode", 500)
    if status < 400:
        return
    text: str = answer.properties.get("statusDescription") or f"the broker answered {status}"
    body: Mapping[str, Any] = answer.body if isinstance(answer.body, Mapping) else {}
    match answer.properties.get("error") or _ERRORS_BY_STATUS.get(status):
        case "not-found" | "not-implemented":
            raise NotFound(text)
        case "already-exists":
            raise AlreadyExists(text)
        case "invalid-value":
            raise InvalidValue(body.get("errors") or {"": text})
        case "stale-version":
            raise StaleVersion(text, body.get("current", 0))
        case "not-allowed":
            raise NotAllowed(text)
        case "effect-not-confirmed":
            raise EffectNotConfirmed(text, str(body.get("effect", "")))
        case "broker-unreachable":
            raise BrokerUnreachable(text)
        case "try-again":
            raise TryAgain(text)
        case _:
            raise AdminError(text)


_ERRORS_BY_STATUS = {400: "invalid-value", 401: "not-allowed", 403: "not-allowed", 404: "not-found", 501: "not-found"}
