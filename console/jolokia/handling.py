"""Answer one request of the protocol: read through the links that the user sees, change through
`console/operations/`, which checks the permission and writes the audit entry."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import PermissionDenied

from brokers import input_limits as limits
from brokers.admin import (
    AdminError,
    AlreadyExists,
    EffectNotConfirmed,
    InvalidValue,
    NotAllowed,
    NotFound,
    StaleVersion,
)
from brokers.input_checks import plain_fault, readable, shortened
from console import operations
from console.access.actor import Actor
from console.jolokia import names
from console.jolokia.listing import Listing, is_registry
from console.jolokia.names import MalformedName, Pattern
from console.jolokia.objects import MOST_NAMED, MOST_WHOLE, NAME, VisibleObjects, size_of, target_of
from console.jolokia.protocol import AGENT, PROTOCOL, JolokiaRequest, Refusal, failure, illegal, success
from console.jolokia.values import inner, named_arguments, written

log = logging.getLogger(__name__)

_NO_INSTANCE = "javax.management.InstanceNotFoundException"
_NO_ATTRIBUTE = "javax.management.AttributeNotFoundException"
_CONFLICT = "java.lang.IllegalStateException"


class Handler:
    """Answers the requests of one HTTP request by one user."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor
        self._objects = VisibleObjects(actor.rights)

    def answer(self, request: JolokiaRequest) -> dict[str, Any]:
        """Return the envelope; never raises."""
        try:
            return success(request, self._value(request), _now())
        except Refusal as refusal:
            found = refusal
        except (AdminError, PermissionDenied, MalformedName) as error:
            found = _refusal(error)
        except Exception as error:
            log.exception("cannot answer a Jolokia request of type %s", request.kind)
            found = Refusal(500, "java.lang.RuntimeException", f"internal error: {type(error).__name__}")
        return failure(found, _now(), request.echo if request.flag("includeRequest", True) else None)

    def _value(self, request: JolokiaRequest) -> Any:
        if request.kind in ("read", "search", "list"):
            self._objects.spend(0)  # not if the answers before have had everything
        match request.kind:
            case "version":
                return _VERSION
            case "read":
                return self._read(request)
            case "write":
                return self._write(request)
            case "exec":
                return self._exec(request)
            case "search":
                return self._search(request)
            case _:
                return Listing(self._objects).answer(request)

    # -- read -----------------------------------------------------------------------------------------------------

    def _read(self, request: JolokiaRequest) -> Any:
        pattern = names.parse(request.mbean)
        if not pattern.exact:
            return self._read_pattern(request, pattern)
        target = target_of(request.mbean, request.kind)
        thing = self._objects.read(target)
        values = self._objects.attributes(self._objects.link(target), thing)
        self._objects.spend(size_of(values))
        if not request.several:
            assert request.attributes is not None  # one is named
            return inner(_one(values, request.attributes[0], request), request.path)
        return inner(_several(values, request), request.path)

    def _read_pattern(self, request: JolokiaRequest, pattern: Pattern) -> Any:
        canonical = request.flag("canonicalNaming", True)
        most = MOST_WHOLE if request.attributes is None else MOST_NAMED
        found: dict[str, dict[str, Any]] = {}
        for slug, name, values in self._objects.matching(pattern, most):
            # As in Jolokia: an object without any of the attributes is left out.
            wanted = values if request.attributes is None else {a: values[a] for a in request.attributes if a in values}
            if wanted:
                self._objects.spend(size_of(wanted))
                found[names.jmx_name(slug, name, canonical=canonical)] = wanted
        if not found:
            raise Refusal(404, _NO_INSTANCE, f"no object matches {shortened(request.mbean)} and has such attributes")
        if not request.path or request.path[0] == "*":
            return inner(found, request.path)
        return {name: {a: inner(value, request.path) for a, value in one.items()} for name, one in found.items()}

    def _search(self, request: JolokiaRequest) -> list[str]:
        pattern = names.parse(request.mbean)
        canonical = request.flag("canonicalNaming", True)
        if pattern.exact:
            target = pattern.target()
            try:
                thing = None if target is None else self._objects.read(target)
            except NotFound:
                thing = None
            return (
                []
                if target is None or thing is None
                else [names.jmx_name(target.broker, thing.name, canonical=canonical)]
            )
        found: list[str] = []
        for slug, name, _ in self._objects.matching(pattern, MOST_NAMED):
            self._objects.spend(NAME)
            found.append(names.jmx_name(slug, name, canonical=canonical))
        return sorted(found)

    # -- change ---------------------------------------------------------------------------------------------------

    def _write(self, request: JolokiaRequest) -> Any:
        target = target_of(request.mbean, request.kind)
        link = self._objects.link(target)
        assert request.attributes is not None  # the protocol requires one
        (attribute,) = request.attributes
        declared = self._objects.type_of(link, target.name).attribute(attribute)
        value = request.value if declared is None else written(declared, request.value)
        reason = _reason(request.config.get("reason", ""))
        try:
            before = self._objects.read(target).attributes.get(attribute)
        except AdminError:
            before = None  # the same error follows below, with its audit entry
        operations.update_object(self._actor, link, target.name, {attribute: value}, version=None, reason=reason)
        return before

    def _exec(self, request: JolokiaRequest) -> Any:
        if is_registry(request.mbean) and request.operation.partition("(")[0] == "list":
            return Listing(self._objects).tree(request)
        target = target_of(request.mbean, request.kind)
        link = self._objects.link(target)
        name = request.operation.partition("(")[0]
        declared = self._objects.type_of(link, target.name).operation(name)
        if declared is None:
            message = f"{target.name.type} has no operation {shortened(name)}"
            raise Refusal(404, "javax.management.ReflectionException", message)
        arguments = named_arguments(declared, request.arguments)
        if "reason" in arguments:
            arguments["reason"] = _reason(arguments["reason"])
        answer = operations.call_operation(self._actor, link, target.name, name, arguments)
        return inner(dict(answer), request.path) if declared.returns else None


def _one(values: Mapping[str, Any], attribute: str, request: JolokiaRequest) -> Any:
    if attribute in values:
        return values[attribute]
    message = f"there is no attribute {shortened(attribute)}"
    if request.flag("ignoreErrors", False):
        return f"ERROR: {message} ({_NO_ATTRIBUTE})"
    raise Refusal(404, _NO_ATTRIBUTE, message)


def _several(values: Mapping[str, Any], request: JolokiaRequest) -> dict[str, Any]:
    if request.attributes is None:
        return dict(values)
    return {attribute: _one(values, attribute, request) for attribute in request.attributes}


def _reason(given: Any) -> str:
    if not isinstance(given, str):
        raise illegal("reason must be text")
    if fault := plain_fault("reason", given, limits.REASON):
        raise illegal(fault)
    return given


def _refusal(error: Exception) -> Refusal:
    message = readable(shortened(str(error), 1000))
    match error:
        case NotFound():
            return Refusal(404, _NO_INSTANCE, message)
        case MalformedName():
            return Refusal(400, "javax.management.MalformedObjectNameException", message)
        case InvalidValue():
            return Refusal(400, "java.lang.IllegalArgumentException", message)
        case PermissionDenied() | NotAllowed():
            return Refusal(403, "java.lang.SecurityException", message)
        case StaleVersion() | EffectNotConfirmed() | AlreadyExists():
            return Refusal(409, _CONFLICT, message)
        case _:
            return Refusal(500, "java.io.IOException", message)


def _now() -> int:
    return int(time.time())


_VERSION: Mapping[str, Any] = {
    "agent": AGENT,
    "protocol": PROTOCOL,
    "id": "headgate",
    "config": {"maxDepth": "15", "canonicalNaming": "true", "includeRequest": "true", "agentId": "headgate"},
    "details": {"agent_version": AGENT, "agent_id": "headgate", "agent_description": "Headgate", "secured": True},
    "info": {"product": "Headgate", "vendor": "Headgate", "version": "1", "extraInfo": {}},
}
