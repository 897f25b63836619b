"""Base views of the API, and parsing of its query parameters: broker, object name, page, filters."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import Any

from django.http import QueryDict

from brokers.admin import InvalidValue, NotFound
from brokers.input_checks import whole_number
from brokers.model import TYPES, Attribute, Kind, ManagedType, ObjectName
from console.access.actor import Actor
from console.access.user_rights import request_rights
from console.api.strict import StrictAPIView
from console.intake.times import parse_time
from console.links.link import BrokerLink
from console.links.visible import visible_link
from console.permissions.rights import Rights

MAX_PAGE_SIZE = 500

#: A number as JSON writes it.
_NUMBER = re.compile(r"-?[0-9]{1,19}(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,3})?")


class PersonalView(StrictAPIView):
    """A view whose response depends on the permissions of the user."""

    @property
    def rights(self) -> Rights:
        return request_rights(self.request._request)

    @property
    def actor(self) -> Actor:
        return Actor.of(self.request._request)


class BrokerView(PersonalView):
    """A view of one broker: by the slug in the path, by `?broker=`, or the first in the configuration."""

    @property
    def link(self) -> BrokerLink:
        """The broker, restricted to what the user may see. Raises UnknownBroker."""
        return visible_link(self.rights, self.kwargs.get("slug") or self.request.query_params.get("broker", ""))


def snapshot_of(link: BrokerLink) -> dict[str, Any]:
    """Return `as_of` (ms since the epoch) and `stale` of a broker's snapshot. Raises BrokerUnreachable if there is none
    yet."""
    link.require_snapshot()
    return {"as_of": link.as_of, "stale": not link.connected}


def path_name(text: str) -> ObjectName:
    """Return the object name in a path. Raises NotFound."""
    try:
        return ObjectName.parse(text)
    except ValueError as error:
        raise NotFound(str(error)) from None


def number_in(query: QueryDict, field: str, default: int, least: int, most: int) -> int:
    """Return the whole number of a parameter, or `default` if it is omitted. Raises InvalidValue."""
    text = query.get(field, "")
    if not text:
        return default
    number = whole_number(text)
    if number is None or not least <= number <= most:
        raise InvalidValue({field: f"{field} is {text!r}: it must be a whole number from {least} to {most}"})
    return number


def one_of(field: str, text: str, choices: Collection[str]) -> str:
    """Return the text if it is one of `choices`. Raises InvalidValue."""
    if text not in choices:
        raise InvalidValue({field: f"{field} is {text!r}: it must be one of {', '.join(choices)}"})
    return text


def choice_in(query: Mapping[str, str], field: str, choices: Collection[str], default: str = "") -> str:
    """Return one of `choices`, or `default` if it is omitted or empty. Raises InvalidValue."""
    text = query.get(field, "") or default
    return one_of(field, text, choices) if text else ""


def choices_in(query: QueryDict, field: str, choices: Collection[str]) -> tuple[str, ...]:
    """Return the values of a repeated parameter, each one of `choices`. Raises InvalidValue."""
    return tuple(one_of(field, text, choices) for text in query.getlist(field))


def object_in(query: Mapping[str, str]) -> ObjectName:
    """Return the object name in the parameter `object`. Raises InvalidValue."""
    text = query.get("object", "")
    if not text:
        raise InvalidValue({"object": "object is missing: it is an object name such as type=Broker"})
    try:
        return ObjectName.parse(text)
    except ValueError as error:
        raise InvalidValue({"object": str(error)}) from None


def time_in(query: Mapping[str, str], field: str) -> int | None:
    """Return a time in ms since the epoch, given as that or as ISO 8601 with a zone; None if it is omitted. Raises
    InvalidValue."""
    text = query.get(field, "").strip()
    return parse_time(field, text) if text else None


def type_in(query: QueryDict) -> ManagedType:
    return TYPES[one_of("type", query.get("type", ""), TYPES)]


def where_in(query: QueryDict, managed_type: ManagedType, *, reserved: frozenset[str]) -> dict[str, Any]:
    """Return filters by attribute, such as `state=OVERFULL&state=STOPPED`, from all parameters that are not `reserved`.
    Raises InvalidValue."""
    where: dict[str, Any] = {}
    for parameter in query:
        if parameter in reserved:
            continue
        attribute = managed_type.attribute(parameter)
        if attribute is None:
            raise InvalidValue({parameter: f"{parameter} is not an attribute of {managed_type.name}"})
        values = [_value(attribute, text) for text in query.getlist(parameter)]
        where[parameter] = values[0] if len(values) == 1 else values
    return where


def _value(attribute: Attribute, text: str) -> Any:
    if attribute.nullable and text == "":
        return None
    if attribute.kind is Kind.NUMBER:
        number = float(text) if _NUMBER.fullmatch(text) else math.inf
        if not math.isfinite(number):
            raise InvalidValue({attribute.name: f"{attribute.name} is {text!r}: it must be a number"})
        return number
    try:
        return attribute.check(text)
    except ValueError as error:
        raise InvalidValue({attribute.name: str(error)}) from None
