"""The filters that a receiver asks for in its source: which of them the broker applies, and what it confirms.

A selector is applied or, if it cannot be read, the link is refused: a consumer that gets messages which it did not
select may take them for its own. Filters that are not known are left out of what is confirmed, as the standard has it
(3.5.8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from proton import Described

from brokers.amqp.nodes import Refused
from brokers.amqp.selectable import property_of
from brokers.amqp.selector import InvalidSelector, parse

#: The descriptor of a selector filter, as a symbol and as a number.
SELECTOR = ("apache.org:selector-filter:string", 0x0000_468C_0000_0004)


@dataclass(frozen=True, slots=True)
class Filters:
    """`selects`: which encoded messages the receiver wants; None: all. `applied`: the filters as they are confirmed."""

    selects: Callable[[bytes], bool] | None = None
    applied: dict[Any, Any] = field(default_factory=dict)


def read_filters(asked: Any) -> Filters:
    """`asked`: a source's filter set as Python objects. Raises Refused, naming the selector that cannot be read."""
    if not isinstance(asked, Mapping):
        return Filters()
    found = {name: value for name, value in asked.items() if isinstance(value, Described) and _is_selector(value)}
    if not found:
        return Filters()
    if len(found) > 1:
        raise Refused("amqp:invalid-field", f"filters {', '.join(map(str, found))}: a source may have one selector")
    ((name, described),) = found.items()
    if not isinstance(described.value, str):
        raise Refused("amqp:invalid-field", f"filter {name}: a selector is text, not {described.value!r}")
    try:
        selector = parse(described.value)
    except InvalidSelector as invalid:
        raise Refused("amqp:invalid-field", f"filter {name}: {invalid}") from None
    return Filters(lambda body: selector(property_of(body)) is True, found)


def _is_selector(value: Described) -> bool:
    descriptor = value.descriptor
    return str(descriptor) == SELECTOR[0] or descriptor == SELECTOR[1]
