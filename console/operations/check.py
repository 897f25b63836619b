"""Validate an update of a queue without making it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brokers.admin import InvalidValue
from brokers.model import TYPES, ObjectName, check_attributes
from console.links.registry import BrokerLink


def check_update(link: BrokerLink, name: ObjectName, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits that would apply after an update: {"effective": {effective attribute: value}}. The broker
    computes them, since inherited values count too. Raises InvalidValue."""
    _, wrong = check_attributes(TYPES[name.type], attributes, creating=False)
    if wrong:
        raise InvalidValue(dict(wrong))
    answer = link.call(lambda admin: admin.call(name, "check", {"attributes": dict(attributes)}))
    return {"effective": dict(answer["effective"])}
