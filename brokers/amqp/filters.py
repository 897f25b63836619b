"""The filters that a receiver asks for in its source: which of them the broker applies, and what it confirms.

A selector is applied or, if it cannot be read, the link is refused: a consumer that gets messages which it did not
select may take them for its own. Filters that are not known are left out of what is confirmed, as the standard has it
(3.5.8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from proton import Described, symbol

from brokers.admin import InvalidValue
from brokers.amqp.selectable import property_of
from brokers.amqp.selector import InvalidSelector, parse

#: The descriptor of a selector filter, as a symbol and as a number.
SELECTOR = ("apache.org:selector-filter:string", 0x0000_468C_0000_0004)


@dataclass(frozen=True, slots=True)
class Filters:
    """`selects`: which encoded messages the receiver wants; None: all. `applied`: the filters as they are confirmed."""

    selects: Callable[[bytes], bool] | None = None
    applied: dict[Any, Described] = field(default_factory=dict)


def read_filters(asked: Mapping[str, Described]) -> Filters:
    """`asked`: a source's filters by their names. Raises InvalidValue, naming the selector that cannot be read."""
    name, text = selector_of(asked)
    return Filters(compile_selector(text, name), {symbol(name): asked[name]}) if name else Filters()


def selector_of(asked: Mapping[str, Described]) -> tuple[str, str]:
    """(the name of the filter, its text) of the selector; empty if there is none. Raises InvalidValue."""
    found = [(name, filter_.value) for name, filter_ in asked.items() if filter_.descriptor in SELECTOR]
    if not found:
        return "", ""
    if len(found) > 1:
        names = ", ".join(name for name, _ in found)
        raise InvalidValue({"selector": f"filters {names}: a source may have one selector"})
    ((name, text),) = found
    if not isinstance(text, str):
        raise InvalidValue({"selector": f"filter {name}: a selector is text, not {text!r}"})
    return name, text


def compile_selector(text: str, name: str = "selector") -> Callable[[bytes], bool]:
    """What a selector says of an encoded message. Raises InvalidValue, naming its text."""
    try:
        condition = parse(text)
    except InvalidSelector as invalid:
        raise InvalidValue({"selector": f"filter {name}: {invalid}"}) from None
    return lambda body: condition(property_of(body)) is True
