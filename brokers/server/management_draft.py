"""The AMQP Management working draft: a request as a call of management, and the result as an answer.

Extensions to the draft: the attributes `where`, `search` and `sort` in the body of a QUERY and `total` in its answer,
the application properties `version` of UPDATE and DELETE and `actor` of these and CREATE, the application property
`error` of an answer that is not a success, and GET-CAPABILITIES, which says what this broker has of each type. What is
called is management in this process or, for a broker behind an adapter, a coroutine: both have the same methods.

An operation that is requested with the application property `objectAfter` is answered with the same property, and with
a map of `answer` and `object`: the object as it is then, null if it is gone or cannot be read. A READ afterwards may
wait behind the messages of thousands of producers that were started.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from proton import Message

from brokers.admin import (
    AdminError,
    AlreadyExists,
    BrokerUnreachable,
    EffectNotConfirmed,
    InvalidValue,
    ManagedObject,
    NotAllowed,
    NotFound,
    Page,
    StaleVersion,
    TryAgain,
)
from brokers.input_checks import readable, readable_sentences, shortened, value_faults
from brokers.input_limits import TEXT
from brokers.model import TYPES, Attribute, ManagedType, ObjectName
from brokers.server.values import from_amqp

Answer = tuple[int, dict[str, Any], dict[str, Any]]  # status, application properties, body


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was understood. `call`: calls the method that it means on management, or on a BrokerAdmin, and
    returns its result or a coroutine; None: `answer` needs no result."""

    call: Callable[[Any], Any] | None
    answer: Callable[[Any], Answer]


def parse(message: Message, user: str, types: Mapping[str, ManagedType]) -> Request:
    """Return what a message requests. `user`: of its connection; `types`: of the broker. Raises AdminError."""
    properties = {str(k): v for k, v in (message.properties or {}).items()}
    operation = str(properties.get("operation", ""))
    if wrong := value_faults(properties) or value_faults(message.body):
        raise InvalidValue(wrong)
    if not operation:
        raise InvalidValue({"operation": "the application property operation is missing"})
    body = from_amqp(message.body)
    if body is not None and not isinstance(body, dict):
        raise InvalidValue({"body": f"the body must be a map, not {type(message.body).__name__}"})
    return _Parser(properties, body or {}, user, types).request(operation)


class _Parser:
    """Reads one request."""

    def __init__(
        self, properties: Mapping[str, Any], body: dict[str, Any], user: str, types: Mapping[str, ManagedType]
    ) -> None:
        self.properties = properties
        self.body = body
        self.user = user
        self.types = types

    def request(self, operation: str) -> Request:
        read: Callable[[], Request]
        match operation:
            case "CREATE":
                read = self._create
            case "READ":
                read = self._read
            case "UPDATE":
                read = self._update
            case "DELETE":
                read = self._delete
            case "QUERY":
                read = self._query
            case "GET-TYPES":
                return self._listed(lambda t: [])
            case "GET-ATTRIBUTES":
                return self._listed(lambda t: [a.name for a in t.attributes])
            case "GET-OPERATIONS":
                return self._listed(lambda t: {o.name: [a.name for a in o.arguments] for o in t.operations})
            case "GET-CAPABILITIES":
                return self._listed(capabilities)
            case _:
                return self._call(operation)
        return read()

    def _create(self) -> Request:
        name, attributes, actor = _name(self.properties), self.body, self._actor()
        return Request(lambda by: by.create(name, attributes, actor=actor), lambda created: (201, {}, _object(created)))

    def _read(self) -> Request:
        name = _name(self.properties)
        return Request(lambda by: by.read(name), lambda found: (200, {}, _object(found)))

    def _update(self) -> Request:
        name, attributes, actor = _name(self.properties), self.body, self._actor()
        version = _integer(self.properties, "version")
        if version is None:
            raise InvalidValue({"version": "version is missing: an update names the version on which it is based"})
        return Request(
            lambda by: by.update(name, attributes, version, actor=actor),
            lambda updated: (200, {}, _object(updated)),
        )

    def _delete(self) -> Request:
        name, version, actor = _name(self.properties), _integer(self.properties, "version"), self._actor()
        return Request(lambda by: by.delete(name, version, actor=actor), lambda _: (204, {}, {}))

    def _query(self) -> Request:
        entity = str(self.properties.get("entityType") or "")
        if not entity:
            raise InvalidValue({"entityType": "the application property entityType is missing"})
        offset, count = _integer(self.properties, "offset"), _integer(self.properties, "count")
        criteria = {
            "where": _of(self.body, "where", dict, {}),
            "search": _of(self.body, "search", str, ""),
            "sort": _of(self.body, "sort", str, ""),
            "offset": 0 if offset is None else offset,
            "count": 100 if count is None else count,
        }
        wanted = [str(a) for a in _of(self.body, "attributeNames", list, [])]
        return Request(lambda by: by.query(entity, **criteria), lambda page: self._rows(entity, page, wanted))

    def _rows(self, entity: str, page: Page, wanted: list[str]) -> Answer:
        declared = self.types[entity]
        names = wanted or [a.name for a in declared.attributes]
        if unknown := [a for a in names if declared.attribute(a) is None and a not in ("object", "version")]:
            raise InvalidValue({"attributeNames": f"{', '.join(unknown)}: no attribute of {entity}"})
        names = [n for n in names if n not in ("object", "version")]
        rows = [[str(o.name), o.version, *(o[n] for n in names)] for o in page.items]
        result = {"attributeNames": ["object", "version", *names], "results": rows, "total": page.total}
        return 200, {"count": len(rows)}, result

    def _call(self, operation: str) -> Request:
        name, arguments = _name(self.properties), self.body
        if self.properties.get("objectAfter") is True:
            return Request(lambda by: _with_object(by, name, operation, arguments), _called)
        return Request(lambda by: by.call(name, operation, arguments), lambda result: (200, {}, dict(result)))

    def _listed(self, show: Callable[[ManagedType], Any]) -> Request:
        entity = self.properties.get("entityType")
        if entity and str(entity) not in self.types:
            raise NotFound(f"{str(entity)!r} is not a type of managed objects: there are {', '.join(self.types)}")
        listed = {name: show(t) for name, t in self.types.items() if not entity or name == str(entity)}
        return Request(None, lambda _: (200, {}, listed))

    def _actor(self) -> str:
        """Return the user on whose behalf a change is made: the application property `actor`, or the connection's
        user."""
        return str(self.properties.get("actor") or self.user)


def _with_object(by: Any, name: ObjectName, operation: str, arguments: Mapping[str, Any]) -> Any:
    """Call an operation, then read the object. Return (answer, object or None), or a coroutine of both. What was done
    is not reported as refused because the object cannot be read."""
    answer = by.call(name, operation, arguments)
    if isawaitable(answer):
        return _with_object_later(by, name, answer)
    with suppress(AdminError):
        return answer, by.read(name)
    return answer, None


async def _with_object_later(by: Any, name: ObjectName, answer: Awaitable[Mapping[str, Any]]) -> Any:
    result = await answer
    with suppress(AdminError):
        return result, await by.read(name)
    return result, None


def _called(result: tuple[Mapping[str, Any], ManagedObject | None]) -> Answer:
    answer, after = result
    return 200, {"objectAfter": True}, {"answer": dict(answer), "object": None if after is None else _object(after)}


def capabilities(declared: ManagedType) -> dict[str, Any]:
    """Return what this broker has of a type, for a client that knows the declared types."""
    return {
        "creatable": declared.creatable,
        "deletable": declared.deletable,
        "attributes": {
            a.name: {"kind": str(a.kind), "writable": a.writable, "creatable": a.creatable, "nullable": a.nullable}
            | ({"choices": list(a.choices)} if a.choices else {})
            | ({"description": a.description} if _means_something_else(declared, a) else {})
            for a in declared.attributes
        },
        "operations": {
            o.name: {
                "arguments": [a.name for a in o.arguments],
                "producer_effect": o.producer_effect,
                "remark": o.remark,
            }
            for o in declared.operations
        },
    }


def _means_something_else(here: ManagedType, attribute: Attribute) -> bool:
    declared = TYPES[here.name].attribute(attribute.name)
    return declared is not None and declared.description != attribute.description


def succeeded(answer: Answer) -> Answer:
    """Return an answer with the description of success."""
    status, more, result = answer
    return status, {"statusDescription": "OK", **more}, result


def refusal(error: AdminError) -> Answer:
    """Return the answer of a refused request."""
    status, kind, body = _status(error)
    return status, {"statusDescription": readable(shortened(str(error), TEXT)), "error": kind}, body


def failure() -> Answer:
    """Return the answer of a request that failed for a reason that is in the log."""
    return 500, {"statusDescription": "the broker failed to answer; see its log", "error": "internal"}, {}


def _status(error: AdminError) -> tuple[int, str, dict[str, Any]]:
    match error:
        case NotFound():
            return 404, "not-found", {}
        case AlreadyExists():
            return 409, "already-exists", {}
        case StaleVersion():
            return 409, "stale-version", {"current": error.current}
        case EffectNotConfirmed():
            return 409, "effect-not-confirmed", {"effect": error.effect}
        case InvalidValue():
            return 400, "invalid-value", {"errors": readable_sentences(error.errors)}
        case NotAllowed():
            return 403, "not-allowed", {}
        case BrokerUnreachable():
            return 503, "broker-unreachable", {}
        case TryAgain():
            return 503, "try-again", {}
        case _:
            return 500, "internal", {}


def _object(shown: ManagedObject) -> dict[str, Any]:
    return {"object": str(shown.name), **shown.attributes, "version": shown.version}


def _name(properties: Mapping[str, Any]) -> ObjectName:
    text = str(properties.get("name") or properties.get("identity") or "")
    try:
        name = ObjectName.parse(text)
    except ValueError as error:
        raise InvalidValue({"name": str(error)}) from None
    wanted = properties.get("type")
    if wanted and str(wanted) != name.type:
        raise InvalidValue({"type": f"type is {str(wanted)!r} but the name says {name.type!r}"})
    return name


def _integer(properties: Mapping[str, Any], key: str) -> int | None:
    value = properties.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidValue({key: f"{key} is {value!r}: it must be a whole number"})
    return int(value)


def _of(body: Mapping[str, Any], key: str, kind: type, otherwise: Any) -> Any:
    value = body.get(key)
    if value is None:
        return otherwise
    if not isinstance(value, kind):
        raise InvalidValue({key: f"{key} is {value!r}: it must be a {kind.__name__}"})
    return value
