"""The filters of a receiver's source: which of them the broker applies and confirms.

A selector is applied or, if it is invalid, the link is refused: a consumer might process messages that it did not
select. Unknown filters are not confirmed, as the standard requires (3.5.8).
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
    """`selects`: whether an encoded message matches; None: all do. `applied`: the confirmed filters."""

    selects: Callable[[bytes], bool] | None = None
    applied: dict[Any, Described] = field(default_factory=dict)


def read_filters(requested: Mapping[str, Described]) -> Filters:
    """`requested`: a source's filters by their names. Raises InvalidValue, naming an invalid selector."""
    name, text = selector_of(requested)
    return Filters(compile_selector(text, name), {symbol(name): requested[name]}) if name else Filters()


def selector_of(requested: Mapping[str, Described]) -> tuple[str, str]:
    """Return (name of the filter, text) of the selector; empty if there is none. Raises InvalidValue."""
    found = [(name, filter_.value) for name, filter_ in requested.items() if filter_.descriptor in SELECTOR]
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
    """Return whether encoded messages match, as a function. Raises InvalidValue, naming the selector's text."""
    try:
        condition = parse(text)
    except InvalidSelector as invalid:
        raise InvalidValue({"selector": f"filter {name}: {invalid}"}) from None
    return lambda body: condition(property_of(body)) is True
