"""`$management`: the AMQP Management working draft, over the engine's management of managed objects.

Requests are read, checked and answered here; what they do is `engine/management/`. Extensions to the draft: the
attributes `where`, `search` and `sort` in the body of a QUERY and `total` in its answer, the application properties
`version` of UPDATE and DELETE and `actor` of these and CREATE, and the application property `error` of an answer that
is not a success.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from proton import Message

from brokers.admin import (
    AdminError,
    AlreadyExists,
    InvalidValue,
    ManagedObject,
    NotAllowed,
    NotFound,
    StaleVersion,
)
from brokers.amqp.node_links import NodeSource, NodeTarget
from brokers.engine.management.permission import ManagementAs
from brokers.engine.management.requests import Management
from brokers.engine.values.rights import Rights
from brokers.input_checks import readable, readable_sentences, shortened, value_faults
from brokers.input_limits import TEXT
from brokers.model import TYPES, ObjectName
from brokers.server.values import from_amqp, to_amqp

log = logging.getLogger(__name__)

Answer = tuple[int, dict[str, Any], dict[str, Any]]  # status, application properties, body


class ManagementNode:
    """See the module. `rights`: a user's current permissions."""

    def __init__(self, management: Management, rights: Callable[[str], Rights]) -> None:
        self.management = management
        self.rights = rights
        self._draft: Mapping[str, Callable[[dict[str, Any], Any, ManagementAs], Answer]] = {
            "CREATE": self._create,
            "READ": self._read,
            "UPDATE": self._update,
            "DELETE": self._delete,
            "QUERY": self._query,
            "GET-TYPES": lambda p, b, by: _listed(p, lambda t: []),
            "GET-ATTRIBUTES": lambda p, b, by: _listed(p, lambda t: [a.name for a in TYPES[t].attributes]),
            "GET-OPERATIONS": lambda p, b, by: _listed(
                p, lambda t: {o.name: [a.name for a in o.arguments] for o in TYPES[t].operations}
            ),
        }

    # -- links ------------------------------------------------------------------------------------------------

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
        status, properties, body = self.answer(request, link.context.user or "")
        answer = Message(body=to_amqp(body), address=reply_to, correlation_id=correlation)
        answer.properties = {"statusCode": status, **properties}
        target.push(bytes(answer.encode()))
        return ""

    # -- requests ---------------------------------------------------------------------------------------------

    def answer(self, request: Message, user: str) -> Answer:
        by = ManagementAs(self.management, user, self.rights(user))
        properties = {str(k): v for k, v in (request.properties or {}).items()}
        operation = str(properties.get("operation", ""))
        try:
            if wrong := value_faults(properties) or value_faults(request.body):
                raise InvalidValue(wrong)
            if not operation:
                raise InvalidValue({"operation": "the application property operation is missing"})
            handler = self._draft.get(operation)
            body = from_amqp(request.body)
            if body is not None and not isinstance(body, dict):
                raise InvalidValue({"body": f"the body must be a map, not {type(request.body).__name__}"})
            status, more, result = (handler or self._call)(properties, body or {}, by)
            return status, {"statusDescription": "OK", **more}, result
        except AdminError as error:
            return _refusal(error)
        except Exception:
            log.exception("management request %s failed", shortened(repr(properties), 1000))
            return 500, {"statusDescription": "the broker failed to answer; see its log", "error": "internal"}, {}

    def _create(self, properties: dict[str, Any], body: dict[str, Any], by: ManagementAs) -> Answer:
        return 201, {}, _object(by.create(_name(properties), body, _actor(properties, by.user)))

    def _read(self, properties: dict[str, Any], body: dict[str, Any], by: ManagementAs) -> Answer:
        return 200, {}, _object(by.read(_name(properties)))

    def _update(self, properties: dict[str, Any], body: dict[str, Any], by: ManagementAs) -> Answer:
        version = _integer(properties, "version")
        if version is None:
            raise InvalidValue({"version": "version is missing: an update names the version on which it is based"})
        return 200, {}, _object(by.update(_name(properties), body, version, _actor(properties, by.user)))

    def _delete(self, properties: dict[str, Any], body: dict[str, Any], by: ManagementAs) -> Answer:
        by.delete(_name(properties), _integer(properties, "version"), _actor(properties, by.user))
        return 204, {}, {}

    def _query(self, properties: dict[str, Any], body: dict[str, Any], by: ManagementAs) -> Answer:
        entity = str(properties.get("entityType") or "")
        if not entity:
            raise InvalidValue({"entityType": "the application property entityType is missing"})
        offset, count = _integer(properties, "offset"), _integer(properties, "count")
        page = by.query(
            entity,
            where=_of(body, "where", dict, {}),
            search=_of(body, "search", str, ""),
            sort=_of(body, "sort", str, ""),
            offset=0 if offset is None else offset,
            count=100 if count is None else count,
        )
        wanted = [str(a) for a in _of(body, "attributeNames", list, [])]
        names = wanted or [a.name for a in TYPES[entity].attributes]
        if unknown := [a for a in names if TYPES[entity].attribute(a) is None and a not in ("object", "version")]:
            raise InvalidValue({"attributeNames": f"{', '.join(unknown)}: no attribute of {entity}"})
        names = [n for n in names if n not in ("object", "version")]
        rows = [[str(o.name), o.version, *(o[n] for n in names)] for o in page.items]
        result = {"attributeNames": ["object", "version", *names], "results": rows, "total": page.total}
        return 200, {"count": len(rows)}, result

    def _call(self, properties: dict[str, Any], body: dict[str, Any], by: ManagementAs) -> Answer:
        operation, name = str(properties["operation"]), _name(properties)
        return 200, {}, dict(by.call(name, operation, body))


def _id(value: Any) -> Any:
    """Return a correlation id that can be set: Proton returns a binary one as a view of its own memory."""
    return bytes(value) if isinstance(value, memoryview) else value


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


def _actor(properties: Mapping[str, Any], user: str) -> str:
    """Return the user on whose behalf a change is made: the application property `actor`, or the connection's user."""
    return str(properties.get("actor") or user)


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


def _listed(properties: Mapping[str, Any], show: Callable[[str], Any]) -> Answer:
    entity = properties.get("entityType")
    if entity and str(entity) not in TYPES:
        raise NotFound(f"{str(entity)!r} is not a type of managed objects: there are {', '.join(TYPES)}")
    return 200, {}, {t: show(t) for t in TYPES if not entity or t == str(entity)}


def _refusal(error: AdminError) -> Answer:
    status: int
    kind: str
    body: dict[str, Any]
    match error:
        case NotFound():
            status, kind, body = 404, "not-found", {}
        case AlreadyExists():
            status, kind, body = 409, "already-exists", {}
        case StaleVersion():
            status, kind, body = 409, "stale-version", {"current": error.current}
        case InvalidValue():
            status, kind, body = 400, "invalid-value", {"errors": readable_sentences(error.errors)}
        case NotAllowed():
            status, kind, body = 403, "not-allowed", {}
        case _:
            status, kind, body = 500, "internal", {}
    return status, {"statusDescription": readable(shortened(str(error), TEXT)), "error": kind}, body
