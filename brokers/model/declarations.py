"""The parts of a declared type: attributes, operations and notifications, and the checks of their values.

The model follows JMX: objects have a name made of keys, attributes that can be read and sometimes written, operations
that can be called, and notifications that can be subscribed to. `types.py` lists the types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """The kind of a value. Its unit, if it has one, is in `Attribute.unit`."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    LEVEL = "level"  # an absolute integer (0 or more), or a percentage of the capacity such as "80%"
    TIMESTAMP = "timestamp"  # integer, milliseconds since the Unix epoch, UTC
    NAME = "name"  # the name of another managed object
    LIST = "list"
    MAP = "map"


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a type, one argument of an operation, or one field of an operation's answer.

    `writable`: can be set by UPDATE (and CREATE). `creatable`: can be set by CREATE only.
    `nullable`: None is a value and means "not set here" (for limits: inherited).
    `secret`: can be written and is never returned (it reads as None), except in the
    one answer that contains a value that the broker generated.
    """

    name: str
    kind: Kind
    description: str
    unit: str = ""
    writable: bool = False
    creatable: bool = False
    nullable: bool = False
    required: bool = False
    choices: tuple[str, ...] = ()
    secret: bool = False

    def check(self, value: Any) -> Any:
        """Return `value` in its canonical form; raise ValueError with a sentence that names the value if it is
        not one of this attribute's kind."""
        if value is None:
            if self.nullable:
                return None
            raise ValueError(f"{self.name} must not be empty")
        if self.secret and not isinstance(value, str):
            raise ValueError(f"{self.name} must be text")  # and is not repeated
        value = _CHECKS[self.kind](self.name, value)
        if self.choices and value not in self.choices:
            raise ValueError(f"{self.name} is {value!r}: it must be one of {', '.join(self.choices)}")
        return value


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation that can be called on an object. `effect`: whether a call changes anything, and can be undone.

    `producer_effect`: what a stop does to producers on this broker: hold (they wait, nothing is lost), trickle (they
    are slowed to the pace of the consumers), reject (their messages are refused) or cut (their connections are closed);
    "": not a stop. `remark`: a sentence about this broker that an operator must know before the call. `role`: the
    console's role that a call needs beyond what its effect says (`message_operations.py`); "": none.
    """

    name: str
    description: str
    arguments: tuple[Attribute, ...] = ()
    returns: tuple[Attribute, ...] = ()
    effect: str = "read"  # "read": changes nothing; "change": can be undone; "destroy": cannot be undone
    producer_effect: str = ""
    remark: str = ""
    role: str = ""


@dataclass(frozen=True, slots=True)
class Notification:
    """A kind of event that objects of a type send. `code` is the number of its line in the broker log."""

    name: str
    code: str
    description: str


@dataclass(frozen=True, slots=True)
class ManagedType:
    """A type of managed objects. `keys` are the attributes of its object name, in order. `searched`: attributes
    that a search covers, besides the name."""

    name: str
    description: str
    keys: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    operations: tuple[Operation, ...] = ()
    notifications: tuple[Notification, ...] = ()
    creatable: bool = False
    deletable: bool = False
    searched: tuple[str, ...] = ()
    _by_name: dict[str, Attribute] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._by_name.update((a.name, a) for a in self.attributes)

    def attribute(self, name: str) -> Attribute | None:
        return self._by_name.get(name)

    def operation(self, name: str) -> Operation | None:
        return next((o for o in self.operations if o.name == name), None)

    @property
    def writable(self) -> tuple[Attribute, ...]:
        return tuple(a for a in self.attributes if a.writable)


def parse_level(name: str, value: Any) -> int | str:
    """Return an absolute level as an integer of 0 or more, or a percentage as text such as "80%" or "62.5%".

    Raises ValueError."""
    if isinstance(value, str) and value.strip().endswith("%"):
        digits = value.strip()[:-1].strip()
        if not re.fullmatch(r"\d{1,3}(\.\d{1,3})?", digits) or float(digits) > 100:
            raise ValueError(f"{name} is {value!r}: a percentage goes from 0% to 100%")
        return f"{float(digits):g}%"
    try:
        return parse_count(name, value)
    except ValueError:
        raise ValueError(f"{name} is {value!r}: it must be a whole number of 0 or more, or a percentage") from None


def parse_count(name: str, value: Any) -> int:
    """Return a whole number of 0 or more that fits an AMQP long. Raises ValueError."""
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,19}\s*", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise ValueError(f"{name} is {value!r}: it must be a whole number of 0 or more")
    return int(value)


def _check_string(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} is {value!r}: it must be text")
    return str(value)


def _check_number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} is {value!r}: it must be a number")
    return float(value)


def _check_boolean(name: str, value: Any) -> bool:
    if value in ("true", "false"):
        return bool(value == "true")
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}: it must be true or false")
    return value


def _check_list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{name} is {value!r}: it must be a list")
    return list(value)


def _check_map(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} is {value!r}: it must be a map")
    return dict(value)


_CHECKS: dict[Kind, Any] = {
    Kind.STRING: _check_string,
    Kind.INTEGER: parse_count,
    Kind.NUMBER: _check_number,
    Kind.BOOLEAN: _check_boolean,
    Kind.LEVEL: parse_level,
    Kind.TIMESTAMP: parse_count,
    Kind.NAME: _check_string,
    Kind.LIST: _check_list,
    Kind.MAP: _check_map,
}


def check_attributes(
    managed_type: ManagedType, values: Mapping[str, Any], *, creating: bool
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Check the attribute values of a CREATE or UPDATE: (canonical values, [(attribute, error)])."""
    good: dict[str, Any] = {}
    wrong: list[tuple[str, str]] = []
    for name, value in values.items():
        declared = managed_type.attribute(name)
        if declared is None:
            wrong.append((name, f"{name} is not an attribute of {managed_type.name}"))
        elif not (declared.writable or (creating and declared.creatable)):
            wrong.append((name, f"{name} cannot be changed"))
        else:
            _check_into(good, wrong, declared, value)
    if creating:
        missing: Iterable[Attribute] = (a for a in managed_type.attributes if a.required and a.name not in values)
        wrong.extend((a.name, f"{a.name} is missing") for a in missing)
    return good, wrong


def check_arguments(operation: Operation, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Check the arguments of a call: (canonical values, [(argument, error)])."""
    good: dict[str, Any] = {}
    wrong: list[tuple[str, str]] = []
    declared = {a.name: a for a in operation.arguments}
    for name, value in values.items():
        if name not in declared:
            wrong.append((name, f"{operation.name} has no argument {name}"))
        else:
            _check_into(good, wrong, declared[name], value)
    wrong.extend((a.name, f"{a.name} is missing") for a in operation.arguments if a.required and a.name not in values)
    return good, wrong


def _check_into(good: dict[str, Any], wrong: list[tuple[str, str]], declared: Attribute, value: Any) -> None:
    try:
        good[declared.name] = declared.check(value)
    except ValueError as error:
        wrong.append((declared.name, str(error)))
