"""Change one managed object: update, create, delete it, or call one of its operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brokers.admin import BrokerUnreachable, InvalidValue, ManagedObject, NotFound, StaleVersion
from brokers.model import TYPES, ObjectName, Operation
from brokers.model.new_names import new_name_fault
from console.access.actor import Actor
from console.links.registry import BrokerLink
from console.operations.attempt import as_detail, attempt, require_reason, without_secrets

#: Operations that stay in force until somebody lifts them: everybody shall be able to read why.
_NEED_A_REASON = frozenset({"stop-producers", "start-producers"})


def update_object(
    by: Actor, link: BrokerLink, name: ObjectName, attributes: Mapping[str, Any], *, version: int, reason: str = ""
) -> ManagedObject:
    """Change the attributes given, all or none, if `version` is still the object's."""
    with attempt(by, link, name, "update", reason=reason, asked=attributes) as this:
        now = link.call(lambda admin: admin.read(name))
        this.before = {attribute: now.attributes.get(attribute) for attribute in attributes}
        if now.version != version:
            raise StaleVersion(
                f"{name} is at version {now.version}, and the change was made from version {version}: read it again",
                now.version,
            )
        this.sent = True
        changed = link.call(lambda admin: admin.update(name, attributes, version, actor=by.name))
        # A secret is never shown, but that it was given is.
        given = {a: value if (kept := changed.attributes.get(a)) is None else kept for a, value in attributes.items()}
        this.after = without_secrets(name, given)
        this.detail = f"version {version} -> {changed.version}"
        return changed


def create_object(
    by: Actor, link: BrokerLink, name: ObjectName, attributes: Mapping[str, Any], *, reason: str = ""
) -> ManagedObject:
    """`attributes` without those that make the name."""
    with attempt(by, link, name, "create", reason=reason, asked=attributes) as this:
        _check_new_name(name)
        this.sent = True
        created = link.call(lambda admin: admin.create(name, attributes, actor=by.name))
        this.after = _told(created)
        return created


#: Types whose names become parts of addresses: of messages, and of pages.
_NAMED = {"Queue": "queue", "Exchange": "exchange", "VirtualHost": "virtual host"}


def _check_new_name(name: ObjectName) -> None:
    """Also where the broker would take it. Raises InvalidValue."""
    what = _NAMED.get(name.type)
    if what and (fault := new_name_fault(what, name["name"])):
        raise InvalidValue({"name": fault})


def delete_object(
    by: Actor, link: BrokerLink, name: ObjectName, *, version: int | None = None, reason: str = ""
) -> None:
    """Delete it, if a version is given only while that is still the object's."""
    asked = {} if version is None else {"version": version}
    with attempt(by, link, name, "delete", reason=reason, asked=asked) as this:
        this.before = _told(link.call(lambda admin: admin.read(name)))
        this.sent = True
        link.call(lambda admin: admin.delete(name, version, actor=by.name))


def call_operation(
    by: Actor,
    link: BrokerLink,
    name: ObjectName,
    operation: str,
    arguments: Mapping[str, Any],
) -> Mapping[str, Any]:
    """Call a declared operation. One that only reads needs no role but sight of the object, and leaves no audit row."""
    declared = TYPES[name.type].operation(operation)
    if declared is None:
        raise NotFound(f"{name.type} has no operation {operation}")
    if declared.effect == "read":
        return link.call(lambda admin: admin.call(name, operation, arguments))
    reason = str(arguments.get("reason") or "")
    asked = {key: value for key, value in arguments.items() if key != "reason"}
    with attempt(by, link, name, operation, reason=reason, asked=asked) as this:
        if operation in _NEED_A_REASON:
            reason = require_reason(reason)
        this.before = _told(link.call(lambda admin: admin.read(name)))
        sent = _with_actor(declared, arguments, by, reason)
        this.sent = True
        answer = link.call(lambda admin: admin.call(name, operation, sent))
        this.after = _after(link, name)
        this.detail = as_detail(without_secrets(name, {**asked, **answer}))
        return answer


def _with_actor(declared: Operation, arguments: Mapping[str, Any], by: Actor, reason: str) -> dict[str, Any]:
    """The arguments as sent: the actor is whoever is signed in, whatever the caller says."""
    known = {argument.name for argument in declared.arguments}
    sent = dict(arguments)
    if "reason" in known:
        sent["reason"] = reason
    if "actor" in known:
        sent["actor"] = by.name
    return sent


def _after(link: BrokerLink, name: ObjectName) -> dict[str, Any]:
    try:
        return _told(link.call(lambda admin: admin.read(name)))
    except (NotFound, BrokerUnreachable):
        return {}  # the operation ended it, such as a connection that was closed; or nobody knows


def _told(thing: ManagedObject) -> dict[str, Any]:
    return {**without_secrets(thing.name, thing.attributes), "version": thing.version}
