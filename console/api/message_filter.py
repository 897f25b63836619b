"""The filter of messages in the parameters of a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import QueryDict
from drf_spectacular.utils import OpenApiParameter

from brokers.admin import InvalidValue
from brokers.input_checks import shortened
from console.api.base_views import choice_in, number_in
from console.api.schema import parameter
from console.intake.durations import parse_duration

STATES = ("available", "acquired", "delayed")
_MOST = 1 << 53

FILTER: list[OpenApiParameter] = [
    parameter("selector", "Only messages that this JMS selector matches."),
    parameter("property", "Only messages with this application or standard property, as NAME=VALUE.", many=True),
    parameter("older_than", "Only messages that arrived longer ago: 90s, 10m, 2h, 7d."),
    parameter("newer_than", "Only messages that arrived within this time: as `older_than`."),
    parameter("min_size", "Minimum size, bytes.", int),
    parameter("max_size", "Maximum size, bytes.", int),
    parameter("min_redeliveries", "Minimum number of failed deliveries.", int),
    parameter("max_redeliveries", "Maximum number of failed deliveries.", int),
    parameter("state", "Only messages in this state.", enum=STATES),
    parameter("reason", "Only dead letters with this reason."),
    parameter("source", "Only dead letters from this queue, by its name."),
]


def match_in(query: QueryDict) -> dict[str, Any]:
    """Return the conditions as the `match` of the operations; empty: all messages. Raises InvalidValue with the names
    of the parameters."""
    found: dict[str, Any] = {}
    if properties := _properties(query.getlist("property")):
        found["properties"] = properties
    for field, key, read in _FIELDS:
        if query.get(field, "").strip():
            found[key] = read(query, field)
    return found


def _text(query: QueryDict, field: str) -> str:
    return query.get(field, "").strip()


def _duration(query: QueryDict, field: str) -> int:
    return parse_duration(field, query.get(field, ""))


def _count(query: QueryDict, field: str) -> int:
    return number_in(query, field, 0, 0, _MOST)


def _state(query: QueryDict, field: str) -> str:
    return choice_in(query, field, STATES)


#: Parameter, key of the match, and how it is read.
_FIELDS: tuple[tuple[str, str, Callable[[QueryDict, str], Any]], ...] = (
    ("selector", "selector", _text),
    ("older_than", "older_than_ms", _duration),
    ("newer_than", "newer_than_ms", _duration),
    ("min_size", "min_bytes", _count),
    ("max_size", "max_bytes", _count),
    ("min_redeliveries", "min_redeliveries", _count),
    ("max_redeliveries", "max_redeliveries", _count),
    ("state", "state", _state),
    ("reason", "dead_letter_reason", _text),
    ("source", "dead_letter_queue", _text),
)
#: Key of the match -> parameter, for errors of the broker.
_PARAMETERS = {key: field for field, key, _ in _FIELDS} | {"properties": "property"}


def _properties(texts: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not text.strip():
            continue
        if not equals or not name.strip():
            raise InvalidValue({"property": f"property is {shortened(text)!r}: it must be NAME=VALUE"})
        if name in found:
            raise InvalidValue({"property": f"property {shortened(name)!r} is given twice: all conditions must hold"})
        found[name] = value
    return found


def by_parameter(error: InvalidValue) -> InvalidValue:
    """Return an error of the broker with the names of the parameters instead of those of the match."""
    return InvalidValue({_parameter(field): text for field, text in error.errors.items()})


def _parameter(field: str) -> str:
    key = field.removeprefix("match.")
    return _PARAMETERS.get(key.partition(".")[0], key)
