"""Validate an update of a queue without making it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brokers.admin import InvalidValue
from brokers.model import ObjectName, check_attributes
from console.links.registry import BrokerLink
from console.operations.policies import PolicyChange, check_settable, has_operation


def check_update(link: BrokerLink, name: ObjectName, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits that would apply after an update: {"effective": {effective attribute: value}}. The broker
    computes them, since inherited values count too; the map is empty if this broker does not. Raises InvalidValue."""
    check_settable(link, [PolicyChange(name, attributes)])
    _, wrong = check_attributes(link.types[name.type], attributes, creating=False)
    if wrong:
        raise InvalidValue(dict(wrong))
    if not has_operation(link, name.type, "check"):
        return {"effective": {}}
    answer = link.call(lambda admin: admin.call(name, "check", {"attributes": dict(attributes)}))
    return {"effective": dict(answer["effective"])}
