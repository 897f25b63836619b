"""Requests of Jolokia's protocol, from a URL or from JSON, and the envelopes of their answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from console.jolokia.paths import join_old_escapes, split_path

#: The version of the protocol, and of the oldest agent that has all that this one has.
PROTOCOL = "8.0"
AGENT = "2.1.0"

_KINDS = ("version", "read", "write", "exec", "search", "list")
_NOT_OFFERED = ("notification", "config", "error")
_ILLEGAL = "java.lang.IllegalArgumentException"


class Refusal(Exception):
    """An answer other than 200: the exception that Jolokia's own agent would name, and a sentence."""

    def __init__(self, status: int, error_type: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = error_type


def illegal(message: str) -> Refusal:
    return Refusal(400, _ILLEGAL, message)


@dataclass(frozen=True, slots=True)
class JolokiaRequest:
    """One request. `attributes`: those to read; None: all. `several`: the answer is a map of them. `path`: the inner
    path. `echo`: the request as the answer repeats it. `config`: the processing parameters, as texts or JSON."""

    kind: str
    mbean: str = ""
    attributes: tuple[str, ...] | None = None
    several: bool = False
    operation: str = ""
    arguments: tuple[Any, ...] = ()
    value: Any = None
    path: tuple[str, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    echo: Mapping[str, Any] = field(default_factory=dict)

    def flag(self, parameter: str, default: bool) -> bool:
        """Return a processing parameter that is true or false."""
        given = self.config.get(parameter)
        return default if given is None else str(given).lower() == "true"


def from_path(path: str, parameters: Mapping[str, str]) -> JolokiaRequest:
    """Parse a request in a URL, below the base. Raises Refusal."""
    parts = split_path(path)
    if not parts:
        return JolokiaRequest("version", config=parameters, echo={"type": "version"})
    kind, rest = parts[0], join_old_escapes(parts[1:])
    body: dict[str, Any] = {"type": kind}
    if kind in ("list", "search", "version"):
        if kind == "search" and rest:
            body["mbean"] = "/".join(rest)
        elif kind == "list" and rest:
            body["path"] = rest
        return from_json(body, parameters)
    for name, value in zip(_PLACES.get(kind, ()), rest, strict=False):
        body[name] = value
    further = rest[len(_PLACES.get(kind, ())) :]
    if kind == "read" and "," in body.get("attribute", ""):
        body["attribute"] = body["attribute"].split(",")
    if kind == "exec":
        body["arguments"] = further
    elif further:
        body["path"] = further
    return from_json(body, parameters)


#: What the parts of a URL are, after the kind of request.
_PLACES: Mapping[str, tuple[str, ...]] = {
    "read": ("mbean", "attribute"),
    "write": ("mbean", "attribute", "value"),
    "exec": ("mbean", "operation"),
}


def from_json(body: Any, parameters: Mapping[str, str]) -> JolokiaRequest:
    """Parse a request in JSON. `parameters`: those of the URL, which `config` of the request overrides. Raises
    Refusal."""
    if not isinstance(body, dict):
        raise illegal("a request is a JSON object, or a list of several")
    kind = body.get("type")
    if kind in _NOT_OFFERED:
        raise illegal(f"requests of type {kind} are not offered: there are {', '.join(_KINDS)}")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise illegal(f"type is {kind!r}: it must be one of {', '.join(_KINDS)}")
    if body.get("target") is not None:
        raise illegal("target: this agent is no proxy; it has the objects of its own brokers only")
    config = {} if body.get("config") is None else body["config"]
    if not isinstance(config, dict):
        raise illegal("config must be an object")
    attributes, several = _attributes(body.get("attribute"))
    if kind != "read" and several and body.get("attribute") is not None:
        raise illegal(f"attribute of a request of type {kind} is one name")
    arguments = body.get("arguments") or []
    request = JolokiaRequest(
        kind=kind,
        mbean=_text(body, "mbean", required=kind in ("read", "write", "exec", "search")),
        attributes=attributes,
        several=several,
        operation=_text(body, "operation", required=kind == "exec"),
        arguments=tuple(arguments if isinstance(arguments, list) else [arguments]),
        value=body.get("value"),
        path=_path(body.get("path")),
        config={**parameters, **config},
        echo=_echo(body),
    )
    if kind == "write" and (request.several or not request.attributes):
        raise illegal("attribute is missing: name the one to write")
    if kind == "write" and request.path:
        raise illegal("path: an attribute is written as a whole")
    return request


def _text(body: Mapping[str, Any], name: str, *, required: bool) -> str:
    value = body.get(name)
    if value is None and not required:
        return ""
    if not isinstance(value, str) or not value:
        raise illegal(f"{name} is missing" if value in (None, "") else f"{name} must be text")
    return value


def _attributes(given: Any) -> tuple[tuple[str, ...] | None, bool]:
    if given in (None, [], ""):
        return None, True
    if isinstance(given, str):
        return (given,), False
    if isinstance(given, list) and all(isinstance(one, str) for one in given):
        return tuple(dict.fromkeys(given)), True
    raise illegal("attribute must be a name or a list of names")


def _path(given: Any) -> tuple[str, ...]:
    if given is None:
        return ()
    if isinstance(given, str):
        return tuple(split_path(given))
    if isinstance(given, list) and all(isinstance(one, str) for one in given):
        return tuple(given)
    raise illegal("path must be text")


def _echo(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the answer repeats of the request: clients find their answers by it."""
    echo = {name: body[name] for name in ("type", "mbean", "attribute", "operation") if body.get(name) is not None}
    if body.get("arguments"):
        echo["arguments"] = body["arguments"]
    if "value" in body:
        echo["value"] = body["value"]
    path = body.get("path")
    if path is not None:
        echo["path"] = "/".join(_escaped(part) for part in path) if isinstance(path, list) else path
    return echo


def _escaped(part: Any) -> str:
    return str(part).replace("!", "!!").replace("/", "!/")


def success(request: JolokiaRequest, value: Any, timestamp: int) -> dict[str, Any]:
    """`timestamp`: s since the epoch."""
    answer = {"value": value, "status": 200, "timestamp": timestamp}
    return {"request": dict(request.echo), **answer} if request.flag("includeRequest", True) else answer


def failure(refusal: Refusal, timestamp: int, echo: Mapping[str, Any] | None = None) -> dict[str, Any]:
    answer = {
        "error_type": refusal.error_type,
        "error": f"{refusal.error_type} : {refusal}",
        "status": refusal.status,
        "timestamp": timestamp,
    }
    return answer if echo is None else {"request": dict(echo), **answer}
