"""Update, create or delete a managed object, or call one of its operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brokers.admin import InvalidValue, ManagedObject, StaleVersion
from brokers.model import ObjectName
from brokers.model.new_names import new_name_fault
from console.access.actor import Actor
from console.links.registry import BrokerLink
from console.operations.attempt import attempt, without_secrets
from console.operations.operation_calls import OperationCall, audited_attributes, declared_operation


def update_object(
    by: Actor,
    link: BrokerLink,
    name: ObjectName,
    attributes: Mapping[str, Any],
    *,
    version: int | None,
    reason: str = "",
) -> ManagedObject:
    """Set the given attributes, all or none, and return the updated object. Raises StaleVersion unless `version` is
    the object's current version; None, for callers that know no versions, stands for the current one."""
    with attempt(by, link, name, "update", reason=reason, requested=attributes) as this:
        now = link.call(lambda admin: admin.read(name))
        this.before = {attribute: now.attributes.get(attribute) for attribute in attributes}
        based_on = now.version if version is None else version
        if now.version != based_on:
            raise StaleVersion(
                f"{name} was changed: its version is {now.version}, and the update is based on version {based_on}",
                now.version,
            )
        this.sent = True
        changed = link.call(lambda admin: admin.update(name, attributes, based_on, actor=by.name))
        # The broker does not return secrets; the row records that one was given.
        given = {a: value if (new := changed.attributes.get(a)) is None else new for a, value in attributes.items()}
        this.after = without_secrets(name, given)
        this.detail = f"version {based_on} -> {changed.version}"
        return changed


def create_object(
    by: Actor, link: BrokerLink, name: ObjectName, attributes: Mapping[str, Any], *, reason: str = ""
) -> ManagedObject:
    """Create and return an object; `attributes` without those in its name. Raises AlreadyExists, InvalidValue."""
    with attempt(by, link, name, "create", reason=reason, requested=attributes) as this:
        _check_new_name(name)
        this.sent = True
        created = link.call(lambda admin: admin.create(name, attributes, actor=by.name))
        this.after = audited_attributes(created)
        return created


#: Types whose names become parts of addresses of messages and of URLs.
_NAMED = {"Queue": "queue", "Exchange": "exchange", "VirtualHost": "virtual host"}


def _check_new_name(name: ObjectName) -> None:
    """Raise InvalidValue for a name that addresses or URLs cannot contain, even if the broker accepts it."""
    what = _NAMED.get(name.type)
    if what and (fault := new_name_fault(what, name["name"])):
        raise InvalidValue({"name": fault})


def delete_object(
    by: Actor, link: BrokerLink, name: ObjectName, *, version: int | None = None, reason: str = ""
) -> None:
    """Delete an object. Raises StaleVersion if `version` is given and is not the object's current version."""
    requested = {} if version is None else {"version": version}
    with attempt(by, link, name, "delete", reason=reason, requested=requested) as this:
        this.before = audited_attributes(link.call(lambda admin: admin.read(name)))
        this.sent = True
        link.call(lambda admin: admin.delete(name, version, actor=by.name))


def call_operation(
    by: Actor,
    link: BrokerLink,
    name: ObjectName,
    operation: str,
    arguments: Mapping[str, Any],
    *,
    seconds: float | None = None,
) -> Mapping[str, Any]:
    """Call a declared operation and return its answer. An operation that only reads requires visibility of the object,
    and writes no audit row, unless it declares a role: then it requires that, and is audited. `seconds`: time limit, if
    it takes longer than others. Raises NotFound, InvalidValue."""
    declared = declared_operation(name, operation)
    if declared.effect == "read" and not declared.role:
        return link.call(lambda admin: admin.call(name, operation, arguments), seconds)
    if declared.effect == "read":
        with attempt(by, link, name, operation, reason="", requested=arguments, act=f"call {operation} of"):
            return link.call(lambda admin: admin.call(name, operation, arguments), seconds)
    call = OperationCall(by, link, name, declared, arguments)
    call.send_and_wait(seconds)
    return call.finish()
