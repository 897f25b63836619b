"""Artemis's management address over AMQP, for brokers without Jolokia: the same requests, and answers in the same form.

A message to `activemq.management` names one object and one attribute or operation; there are no patterns. So what
Jolokia reads by a pattern is a list here (`listQueues`, `listAddresses`), and what a list lacks is requested for each
address, all at once. What no list has of queues, such as the bytes that they store, is not known.

The user needs the permission to send to that address, and to create the temporary queue of the answers.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from proton import Message

from brokers.adapters.addresses import AddressRefused, check_address
from brokers.adapters.http import trusting
from brokers.adapters.jolokia import Answer, JolokiaError, Request, properties_of, quote
from brokers.adapters.json_text import decoded
from brokers.adapters.kinds import Account
from brokers.admin import AdminError, BrokerUnreachable, NotAllowed, NotFound
from brokers.drivers.amqp_client import AmqpClient, ConnectionLost, SignInRefused
from brokers.drivers.amqp_links import LinkEnded, Receiver, Sender

ADDRESS = "activemq.management"

DOMAIN = "org.apache.activemq.artemis"

#: The broker's MBean, whose name no request needs.
BROKER = f'{DOMAIN}:broker="artemis"'

#: Lists without a filter, in the form that every version takes, and all on the first page.
_EVERYTHING = (json.dumps({"field": "", "operation": "", "value": ""}), 1, 1_000_000)

#: An address that each broker with notifications has: what it lacks, this version lacks.
_WITNESS = "activemq.notifications"

#: Codes in Artemis's errors.
_NO_RESOURCE, _NO_OPERATION, _REFUSED = "AMQ229067", "AMQ229069", ("AMQ229031", "AMQ229032", "AMQ229213")

#: Attributes -> their names in a list, and how they are read there.
_Names = Mapping[str, tuple[str, Callable[[Any], Any]]]
_QUEUE: _Names = {
    "MessageCount": ("messageCount", int),
    "DeliveringCount": ("deliveringCount", int),
    "ScheduledCount": ("scheduledCount", int),
    "ConsumerCount": ("consumerCount", int),
    "MessagesAdded": ("messagesAdded", int),
    "MessagesAcknowledged": ("messagesAcked", int),
    "MessagesExpired": ("messagesExpired", int),
    "Durable": ("durable", lambda text: text == "true"),
    "InternalQueue": ("internalQueue", lambda text: text == "true"),
}  # fmt: skip
_OF_ADDRESS: _Names = {
    "AddressSize": ("addressSize", int),
    "MessageCount": ("messageCount", int),
    "Internal": ("internal", lambda text: text == "true"),
}
#: What is requested for each address if the list lacks it.
_EACH = ("AddressSize", "MessageCount", "BlockedViaManagement")

_IDLE_SECONDS = 30.0
#: Answers that may be under way.
_WINDOW = 500


class ManagementAddress:
    """A `jolokia.Agent` for an account with an amqp or amqps URL. `seconds`: time for all requests of a
    `post`."""

    def __init__(self, account: Account, seconds: float = 10.0) -> None:
        self.base = account.url.rstrip("/")
        self._account = account
        self._seconds = seconds
        self._session: _Session | None = None
        self._opening = asyncio.Lock()

    async def post(self, requests: Sequence[Request], *, seconds: float = 0.0) -> list[Answer]:
        """As `Jolokia.post`. Raises BrokerUnreachable, NotAllowed."""
        if not requests:
            return []
        limit = seconds or self._seconds
        try:
            async with asyncio.timeout(limit):
                session = await self._opened()
                return list(await asyncio.gather(*(_answer(session, request) for request in requests)))
        except TimeoutError:
            self._drop()
            raise BrokerUnreachable(f"no answer from {self.base} within {limit:g} s") from None

    async def one(self, request: Request, *, seconds: float = 0.0) -> Any:
        """As `Jolokia.one`."""
        (answer,) = await self.post([request], seconds=seconds)
        return answer.get()

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.client.close()

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.client.abort("no answer in time")

    async def _opened(self) -> _Session:
        async with self._opening:
            if not self._account.allowed():
                raise BrokerUnreachable("this process no longer hosts the broker: another one may do so now")
            if self._session is None or self._session.client.lost.done():
                self._session = None
                self._session = await self._open()
            return self._session

    async def _open(self) -> _Session:
        url, account = urlsplit(self.base), self._account
        host = url.hostname or ""
        port = url.port or (5671 if url.scheme == "amqps" else 5672)
        try:
            tls = trusting(account.authority) if url.scheme == "amqps" else None
            checked = await _checked_address(host, port)
            client = await AmqpClient.connect(
                host, port, account.username, account.password,
                tls=tls, idle_timeout=_IDLE_SECONDS, address=checked,
            )  # fmt: skip
        except SignInRefused as error:
            raise NotAllowed(str(error)) from None
        except (ConnectionLost, ValueError) as error:
            raise BrokerUnreachable(str(error)) from None
        session = _Session(client)
        try:
            await session.ready()
        except BaseException:
            client.abort("it cannot be used")
            raise
        return session


async def _checked_address(host: str, port: int) -> str:
    """Return an address of the host, after all are checked. Raises AddressRefused, BrokerUnreachable."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise BrokerUnreachable(f"cannot resolve {host}: {error.strerror or error}") from None
    addresses = [str(each[4][0]) for each in found]
    for address in addresses:
        try:
            check_address(address)
        except AddressRefused as error:
            raise BrokerUnreachable(f"{host}: {error}") from None
    return addresses[0]


class _Session:
    """The links of one connection, and who waits for an answer. `own`: the address of the answers, which is not shown.
    `lacking`: attributes of addresses that this version does not have."""

    def __init__(self, client: AmqpClient) -> None:
        self.client = client
        self.own = ""
        self.lacking: set[str] | None = None
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        self._count = 0
        self._answers: Receiver = client.receiver(None, window=_WINDOW, deliver=self._take)
        self._requests: Sender = client.sender(ADDRESS, refused=self._refused)
        for ended in (client.lost, self._answers.ended, self._requests.ended):
            ended.add_done_callback(lambda done: self._end(done.result()))

    async def ready(self) -> None:
        """Wait for the address of the answers. Raises NotAllowed, BrokerUnreachable."""
        first: list[asyncio.Future[Any]] = [self._answers.address, self._answers.ended]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if self._answers.ended.done():
            raise _reason(self._answers.ended.result())
        self.own = self._answers.address.result()

    async def ask(
        self, resource: str, *, attribute: str = "", operation: str = "", arguments: Iterable[Any] = ()
    ) -> Any:
        """Request an attribute, or call an operation. Raises NotFound, NotAllowed, JolokiaError, BrokerUnreachable."""
        for ended in (self.client.lost, self._requests.ended):
            if ended.done():
                raise _reason(ended.result())
        self._count += 1
        number = str(self._count)
        named = {"_AMQ_OperationName": operation} if operation else {"_AMQ_Attribute": attribute}
        body = json.dumps(list(arguments))
        request = Message(properties={"_AMQ_ResourceName": resource, **named}, body=body, reply_to=self.own)
        request.correlation_id = number
        self._waiting[number] = future = asyncio.get_running_loop().create_future()
        try:
            self._requests.send(number, request.encode())
            answer = await future
        finally:
            self._waiting.pop(number, None)
            self._requests.forget(number)
        return _value(answer, operation or attribute)

    def _take(self, encoded: bytes) -> None:
        answer = Message()
        answer.decode(encoded)
        future = self._waiting.get(str(answer.correlation_id))
        if future is not None and not future.done():
            future.set_result(answer)
        self._answers.consumed()

    def _refused(self, tag: str, reason: LinkEnded) -> None:
        future = self._waiting.get(tag)
        if future is not None and not future.done():
            future.set_exception(_reason(reason))

    def _end(self, reason: Exception) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(_reason(reason))
        if not self.client.lost.done():
            self.client.abort(str(reason))  # without one of its links it is of no use


def _reason(error: Exception) -> AdminError:
    if isinstance(error, LinkEnded) and error.condition == "amqp:unauthorized-access":
        return NotAllowed(f"the user lacks the permission to use {ADDRESS}, or to create a temporary queue: {error}")
    return BrokerUnreachable(str(error))


def _value(answer: Message, name: str) -> Any:
    """Return the value of an answer. Raises NotFound, NotAllowed, JolokiaError, BrokerUnreachable."""
    body = answer.body
    try:
        said = decoded(body) if isinstance(body, str) else body
    except ValueError:
        raise BrokerUnreachable(f"{ADDRESS} does not answer in JSON") from None
    value = said[0] if isinstance(said, list) and said else None
    if (answer.properties or {}).get("_AMQ_OperationSucceeded"):
        return value
    words = str(value)
    if any(code in words for code in _REFUSED):
        raise NotAllowed(f"the user lacks a permission, the broker refuses {name}: {words}")
    if _NO_RESOURCE in words:
        raise NotFound(words)
    raise JolokiaError(words, 0)


# -- Jolokia's requests -------------------------------------------------------------------------------------------


async def _answer(session: _Session, request: Request) -> Answer:
    try:
        return Answer(await _ANSWERS[request["type"]](session, request))
    except BrokerUnreachable:
        raise
    except AdminError as error:
        return Answer(None, error)


async def _search(session: _Session, request: Request) -> list[str]:
    if "component=addresses" not in request["mbean"]:
        return [BROKER]
    names = await session.ask("broker", attribute="AddressNames")
    return [_address(name) for name in names if name != session.own]


async def _list(session: _Session, request: Request) -> Mapping[str, Any]:
    """Describe the operations that the adapter looks for. Those of addresses cannot be found out without an effect."""
    if "component=addresses" in request["path"]:
        return {"op": {"block": {"args": []}}}
    operation, settings = "addAddressSettings", ("", "not JSON: nothing is set")
    try:
        await session.ask("broker", operation=operation, arguments=settings)
    except AdminError as error:
        if _NO_OPERATION in str(error):
            return {"op": {}}
    return {"op": {operation: [{"args": [{}] * len(settings)}]}}


async def _read(session: _Session, request: Request) -> Mapping[str, Any]:
    mbean, attributes = request["mbean"], request["attribute"]
    keys = properties_of(mbean)
    if "queue" in keys:
        wanted = None if mbean.endswith("queue=*") else keys["queue"]
        return await _read_queues(session, attributes, wanted)
    if mbean.endswith("address=*"):
        return await _read_addresses(session, attributes)
    resource = f"address.{keys['address']}" if "address" in keys else "broker"
    found = await _attributes(session, resource, attributes)
    if not found:
        raise NotFound(f"there is no {resource}")
    return found


async def _attributes(session: _Session, resource: str, attributes: Iterable[str]) -> dict[str, Any]:
    """Return the attributes of an object that can be read."""

    async def read(attribute: str) -> tuple[str, Any]:
        try:
            return attribute, await session.ask(resource, attribute=attribute)
        except (JolokiaError, NotFound):
            return attribute, _MISSING

    found = await asyncio.gather(*map(read, attributes))
    return {name: value for name, value in found if value is not _MISSING}


_MISSING = object()


async def _read_queues(session: _Session, attributes: Iterable[str], wanted: str | None) -> Mapping[str, Any]:
    listed = await _listed(session, "listQueues")
    found = {}
    for each in listed:
        name, address = each["name"], each["address"]
        if address != session.own and wanted in (None, name):
            kind = quote(str(each.get("routingType", "")).lower())
            mbean = f"{_address(address)},subcomponent=queues,routing-type={kind},queue={quote(name)}"
            found[mbean] = _taken(each, _QUEUE, attributes)
    if not found and wanted is not None:
        raise NotFound(f"there is no queue {wanted}")
    return found


async def _read_addresses(session: _Session, attributes: Sequence[str]) -> Mapping[str, Any]:
    listed = [each for each in await _listed(session, "listAddresses") if each["name"] != session.own]
    if session.lacking is None and any(each["name"] == _WITNESS for each in listed):
        session.lacking = set(_EACH) - set(await _attributes(session, f"address.{_WITNESS}", _EACH))
    of_list = [_taken(each, _OF_ADDRESS, attributes) for each in listed]
    others = await asyncio.gather(
        *(
            _attributes(session, f"address.{each['name']}", _each(attributes, known, session.lacking or set()))
            for each, known in zip(listed, of_list, strict=True)
        )
    )
    return {
        _address(each["name"]): {**known, **other} for each, known, other in zip(listed, of_list, others, strict=True)
    }


def _each(attributes: Iterable[str], known: Mapping[str, Any], lacking: set[str]) -> list[str]:
    """Return the attributes to request for an address."""
    return [name for name in attributes if name in _EACH and name not in known and name not in lacking]


async def _listed(session: _Session, operation: str) -> list[Mapping[str, Any]]:
    listed: list[Mapping[str, Any]] = decoded(await session.ask("broker", operation=operation, arguments=_EVERYTHING))[
        "data"
    ]
    return listed


def _taken(listed: Mapping[str, Any], names: _Names, attributes: Iterable[str]) -> dict[str, Any]:
    """Return the attributes that an element of a list has. Lists have all values as text."""
    found = {}
    for attribute in attributes:
        name, read = names.get(attribute, ("", str))
        if (value := listed.get(name)) not in (None, ""):
            found[attribute] = read(value)
    return found


async def _exec(session: _Session, request: Request) -> Any:
    keys = properties_of(request["mbean"])
    operation = request["operation"].partition("(")[0]
    arguments = request["arguments"]
    if "address" in keys:
        return await session.ask(f"address.{keys['address']}", operation=operation, arguments=arguments)
    if not request["mbean"].startswith(BROKER):
        return await _try(session, operation, arguments)
    return await session.ask("broker", operation=operation, arguments=arguments)


async def _try(session: _Session, operation: str, arguments: Sequence[Any]) -> Any:
    """Find out the permission for an operation of the broker: a request for another broker is one without an effect.
    Raises NotAllowed, else NotFound."""
    try:
        await session.ask("broker", operation=operation, arguments=[*arguments[:-1], "not JSON: nothing is set"])
    except NotAllowed:
        raise
    except AdminError:
        pass
    raise NotFound("there is no other broker")


def _address(name: str) -> str:
    return f"{BROKER},component=addresses,address={quote(name)}"


_ANSWERS: Mapping[str, Callable[[_Session, Request], Awaitable[Any]]] = {
    "search": _search,
    "list": _list,
    "read": _read,
    "exec": _exec,
}
