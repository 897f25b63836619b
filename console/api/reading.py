"""What is common to reading the requests of this interface: brokers, object names, pages, filters."""

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
from console.access.people import rights_in
from console.api.strict import StrictAPIView
from console.intake.moments import moment_in
from console.links.link import BrokerLink
from console.links.visible import visible_link
from console.permissions.rights import Rights

MAX_PAGE_SIZE = 500

#: A number as JSON writes it.
_NUMBER = re.compile(r"-?[0-9]{1,19}(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,3})?")


class PersonalView(StrictAPIView):
    """A view that answers people with what they may see."""

    @property
    def rights(self) -> Rights:
        return rights_in(self.request._request)

    @property
    def actor(self) -> Actor:
        return Actor.of(self.request._request)


class BrokerView(PersonalView):
    """A view about one broker: the one in the path, or that of `?broker=`, or the first one."""

    @property
    def link(self) -> BrokerLink:
        """The broker as far as they may see it. Raises UnknownBroker."""
        return visible_link(self.rights, self.kwargs.get("slug") or self.request.query_params.get("broker", ""))


def snapshot_of(link: BrokerLink) -> dict[str, Any]:
    """What an answer from the console's snapshot of a broker says of it: `as_of`, and `stale` while the broker does not
    answer. Raises BrokerUnreachable if nothing is known."""
    link.require_known()
    return {"as_of": link.as_of, "stale": not link.connected}


def path_name(text: str) -> ObjectName:
    """The object name in a path; raises NotFound."""
    try:
        return ObjectName.parse(text)
    except ValueError as error:
        raise NotFound(str(error)) from None


def number_in(query: QueryDict, field: str, default: int, least: int, most: int) -> int:
    text = query.get(field, "")
    if not text:
        return default
    number = whole_number(text)
    if number is None or not least <= number <= most:
        raise InvalidValue({field: f"{field} is {text!r}: it must be a whole number from {least} to {most}"})
    return number


def one_of(field: str, text: str, choices: Collection[str]) -> str:
    """The text itself, if it is a choice. Raises InvalidValue."""
    if text not in choices:
        raise InvalidValue({field: f"{field} is {text!r}: it must be one of {', '.join(choices)}"})
    return text


def choice_in(query: Mapping[str, str], field: str, choices: Collection[str], default: str = "") -> str:
    """One of `choices`; left out or empty, the default. Raises InvalidValue."""
    text = query.get(field, "") or default
    return one_of(field, text, choices) if text else ""


def choices_in(query: QueryDict, field: str, choices: Collection[str]) -> tuple[str, ...]:
    """Any of `choices`, each given for itself. Raises InvalidValue."""
    return tuple(one_of(field, text, choices) for text in query.getlist(field))


def object_in(query: Mapping[str, str]) -> ObjectName:
    """The object name in `object`; raises InvalidValue."""
    text = query.get("object", "")
    if not text:
        raise InvalidValue({"object": "object is missing: it is an object name such as type=Broker"})
    try:
        return ObjectName.parse(text)
    except ValueError as error:
        raise InvalidValue({"object": str(error)}) from None


def time_in(query: Mapping[str, str], field: str) -> int | None:
    """A moment in ms: given as ms since the epoch, or in ISO 8601 with its zone. Raises InvalidValue."""
    text = query.get(field, "").strip()
    return moment_in(field, text) if text else None


def type_in(query: QueryDict) -> ManagedType:
    return TYPES[one_of("type", query.get("type", ""), TYPES)]


def where_in(query: QueryDict, managed_type: ManagedType, *, beside: frozenset[str]) -> dict[str, Any]:
    """Conditions on attributes, `state=OVERFULL&state=STOPPED`; parameters in `beside` mean something else."""
    where: dict[str, Any] = {}
    for parameter in query:
        if parameter in beside:
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
