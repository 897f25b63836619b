"""Conversion of values: written ones from the texts that clients send, read ones to the part that an inner path
names. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from brokers.model import Attribute, Kind, Operation
from console.jolokia.protocol import Refusal, illegal

#: Java's type of each kind, as forms of clients expect it.
JAVA_TYPES: Mapping[Kind, str] = {
    Kind.STRING: "java.lang.String",
    Kind.NAME: "java.lang.String",
    Kind.LEVEL: "java.lang.String",
    Kind.INTEGER: "long",
    Kind.TIMESTAMP: "long",
    Kind.NUMBER: "double",
    Kind.BOOLEAN: "boolean",
    Kind.LIST: "java.util.List",
    Kind.MAP: "java.util.Map",
}
_NULL, _EMPTY = "[null]", '""'


def written(declared: Attribute, value: Any) -> Any:
    """Return a value to write: a text as the attribute's kind, `[null]` as null and `""` as the empty text. What is
    no value of the kind is returned as it is, and the broker refuses it. Raises Refusal."""
    if not isinstance(value, str):
        return value
    if value == _NULL:
        return None
    if declared.kind in (Kind.STRING, Kind.NAME, Kind.LEVEL):
        return "" if value == _EMPTY else value
    if value == "" and declared.nullable:
        return None
    if declared.kind in (Kind.LIST, Kind.MAP):
        return _from_json(declared, value)
    if declared.kind is Kind.NUMBER:
        try:
            return float(value)
        except ValueError:
            return value
    return value  # the model reads whole numbers, true and false from texts


def _from_json(declared: Attribute, text: str) -> Any:
    try:
        found = json.loads(text) if len(text) < 100_000 and text[:1] in ("[", "{") else text
    except (ValueError, RecursionError):
        raise illegal(f"{declared.name} is {text[:100]!r}: it must be a {declared.kind.value} in JSON") from None
    if isinstance(found, str) and declared.kind is Kind.LIST:
        return [part.strip() for part in found.split(",")] if found else []
    return found


def positional(operation: Operation) -> tuple[Attribute, ...]:
    """Return the arguments of an operation in the order of its signature: without the actor, who is the signed-in
    user."""
    return tuple(argument for argument in operation.arguments if argument.name != "actor")


def named_arguments(operation: Operation, given: tuple[Any, ...]) -> dict[str, Any]:
    """Return arguments by name, from their places; those at the end may be omitted, null or an empty text stand for an
    omitted one. One map instead gives them by name. Raises Refusal."""
    declared = positional(operation)
    by_name = len(given) == 1 and isinstance(given[0], dict) and not (declared and declared[0].kind is Kind.MAP)
    if by_name:
        known = {argument.name: argument for argument in operation.arguments}
        return {
            name: written(known[name], value) if name in known else value
            for name, value in given[0].items()
            if value is not None
        }
    if len(given) > len(declared):
        names = ", ".join(argument.name for argument in declared) or "none"
        raise illegal(f"{operation.name} has {len(declared)} arguments ({names}), not {len(given)}")
    values = ((argument, written(argument, value)) for argument, value in zip(declared, given, strict=False))
    return {argument.name: value for argument, value in values if value is not None and value != ""}


def inner(value: Any, path: tuple[str, ...]) -> Any:
    """Return the part of a value at a path; `*` stands for all keys or places. Raises Refusal."""
    for at, part in enumerate(path):
        rest = path[at + 1 :]
        if part == "*" and isinstance(value, Mapping):
            return {key: inner(each, rest) for key, each in value.items() if _has(each, rest)}
        if part == "*" and isinstance(value, list | tuple):
            return [inner(each, rest) for each in value if _has(each, rest)]
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list | tuple) and part.isascii() and part.isdecimal() and int(part[:9]) < len(value):
            value = value[int(part[:9])]
        else:
            raise Refusal(404, "javax.management.AttributeNotFoundException", f"there is no {part!r} at the path")
    return value


def _has(value: Any, path: tuple[str, ...]) -> bool:
    try:
        inner(value, path)
    except Refusal:
        return False
    return True
