"""Add, change, pause and remove brokers of other kinds, and test their addresses; each attempt writes an audit row.

Only administrators of all brokers may. Passwords are in no audit row and no error.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import PermissionDenied

from brokers.adapters.adapter import Finding
from brokers.adapters.addresses import check_resolved, check_schemes, check_urls
from brokers.adapters.kinds import KINDS, Account
from brokers.admin import AlreadyExists, InvalidValue, NotFound
from brokers.input_checks import label_fault, text_fault
from console.access.actor import Actor
from console.access.audited_changes import attempted
from console.brokers import configured, keys, stops_left
from console.brokers.models import ForeignBroker
from console.operations import broker_probe
from console.permissions.rights import Role

#: Part of paths, addresses of nodes and names of folders. The reserved ones are paths of the API.
_SLUG = re.compile(r"[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?")
_RESERVED = frozenset({"file", "kinds", "test"})
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,29}")
MOST_TAGS = 10


def broker_of(slug: str) -> ForeignBroker:
    """Return an added broker. Raises NotFound."""
    found = ForeignBroker.objects.filter(slug=slug).first()
    if found is None:
        own = slug in configured.slugs()
        raise NotFound(f"the broker {slug} is part of the settings" if own else f"there is no added broker {slug}")
    return found


def check_administers(by: Actor) -> None:
    """Raise PermissionDenied unless the user is an administrator of all brokers."""
    if not by.rights.allows_everywhere(Role.ADMIN):
        raise PermissionDenied(f"{by.name} may not change brokers: that needs the role of administrator everywhere")


def add_broker(by: Actor, given: Mapping[str, Any], reason: str = "") -> ForeignBroker:
    """Add a broker; `given`: slug, kind and url, and optionally title, username, password, authority, tags, paused.
    Raises PermissionDenied, InvalidValue, AlreadyExists."""
    with attempted(by, f"broker {given['slug']}", "add-broker", reason=reason) as row, _usable_keys():
        check_administers(by)
        values = _checked({"title": given["slug"], **given}, given["kind"])
        slug = values["slug"]
        with keys.locked(), row.transaction():
            if slug in configured.slugs() or ForeignBroker.objects.filter(slug=slug).exists():
                raise AlreadyExists(f"the broker {slug} already exists")
            made = ForeignBroker.objects.create(**_encrypted(values))
            row.after = made.for_audit()
    configured.refresh()
    return made


_PAUSED = "while it is paused they stay stopped, and no stop ends automatically"
_MOVED = "at the new address the same stops are made, and at the old one they stay if that is another broker"
_REMOVED = "on the broker they stay stopped, and Headgate no longer has what a start restores"


def change_broker(
    by: Actor, slug: str, given: Mapping[str, Any], reason: str = "", *, leave_stops: bool = False
) -> ForeignBroker:
    """Change fields of an added broker, all but slug and kind. A new URL requires the password again: otherwise it
    would be sent to another address than the one that it was entered for. With stops in force, a pause and a new URL
    require `leave_stops`. Raises PermissionDenied, NotFound, InvalidValue, StopsInForce."""
    with attempted(by, f"broker {slug}", "change-broker", reason=reason) as row, _usable_keys():
        check_administers(by)
        found = broker_of(slug)
        row.before = found.for_audit()
        values = _checked(given, found.kind)  # it looks up names, which can take seconds
        with keys.locked(), row.transaction():
            found = broker_of(slug)
            row.before = found.for_audit()
            if values.get("url", found.url) != found.url and found.encrypted and "password" not in values:
                raise InvalidValue({"password": "enter the password again: it was entered for another URL"})
            moved = values.get("url", found.url) != found.url
            if not leave_stops and (moved or (values.get("paused") and not found.paused)):
                _check_stops(slug, _MOVED if moved else _PAUSED)
            for name, value in _encrypted(values).items():
                setattr(found, name, value)
            found.revision += 1
            found.save()
            row.after = {**found.for_audit(), **({"password": "changed"} if "password" in values else {})}
    configured.refresh()
    return found


def remove_broker(by: Actor, slug: str, *, reason: str = "", leave_stops: bool = False) -> None:
    """Remove an added broker from the console; on the broker nothing changes. With stops in force, that requires
    `leave_stops`: they stay in force there, and the audit row has them. Raises PermissionDenied, NotFound,
    StopsInForce."""
    with attempted(by, f"broker {slug}", "remove-broker", reason=reason) as row:
        check_administers(by)
        with row.transaction():
            found = broker_of(slug)
            row.before = found.for_audit()
            if not leave_stops:
                _check_stops(slug, _REMOVED)
            elif left := stops_left.stops_of(slug):
                row.before = {**row.before, "stops": left}
            stops_left.leave_stops(slug)
            found.delete()
        stops_left.leave_in_file(slug)
    configured.refresh()


def _check_stops(slug: str, consequence: str) -> None:
    """Raise StopsInForce if the broker has stops."""
    if stops := stops_left.stops_of(slug):
        raise stops_left.StopsInForce(slug, consequence, stops)


def probe_broker(by: Actor, given: Mapping[str, Any], slug: str = "") -> dict[str, Any]:
    """Connect with the values, over those of the added broker `slug`, and return {ok, findings: [{text, fault}]}.
    Nothing is saved. Raises PermissionDenied, NotFound, InvalidValue."""
    with attempted(by, f"broker {slug or given.get('url', '')}", "test-broker") as row:
        check_administers(by)
        stored = broker_of(slug) if slug else None
        kind = stored.kind if stored else given["kind"]
        values = _checked(given, kind)
        if stored and stored.encrypted and values.get("url", stored.url) != stored.url and "password" not in values:
            raise InvalidValue({"password": "enter the password again: it was entered for another URL"})
        try:
            saved = stored.account() if stored else Account("")
        except keys.KeyMissing as error:
            return _result([Finding("", str(error))])
        account = Account(
            values.get("url", saved.url),
            values.get("username", saved.username),
            values.get("password", saved.password),
            values.get("authority", saved.authority),
        )
        found = asyncio.run(broker_probe.findings(kind, account))
        row.after = {"url": account.url, "kind": kind, "faults": [each.fault for each in found if each.fault]}
        return _result(found)


def _result(findings: Sequence[Finding]) -> dict[str, Any]:
    said = [{"text": each.text, "fault": each.fault} for each in findings]
    return {"ok": not any(each.fault for each in findings), "findings": said}


def field_fault(name: str, value: Any) -> str:
    """Return what is wrong with the value of a field, as a sentence; "": nothing. Resolves no name."""
    if fault := _FAULTS[name](value):
        return str(fault)
    if name == "url":
        try:
            check_urls(value)
        except ValueError as error:
            return str(error)
    return ""


def normalized(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return valid values as they are stored."""
    found = dict(values)
    if "url" in found:
        found["url"] = check_urls(found["url"])
    if "tags" in found:
        found["tags"] = sorted(set(found["tags"]))
    return found


def _checked(given: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the values of a broker of this kind, normalized. Raises InvalidValue with every fault."""
    wrong = {name: fault for name, value in given.items() if name in _FAULTS and (fault := field_fault(name, value))}
    if "url" in given and "url" not in wrong:
        try:
            if kind in KINDS:  # else that is a fault of its own
                check_schemes(given["url"], KINDS[kind].schemes)
            check_resolved(check_urls(given["url"]))
        except ValueError as error:
            wrong["url"] = str(error)
    if wrong:
        raise InvalidValue(wrong)
    return normalized(given)


def _slug_fault(slug: str) -> str:
    if slug in _RESERVED:
        return f"the slug {slug} is reserved: choose another"
    return "" if _SLUG.fullmatch(slug) else "slug must have 1 to 30 of a-z, 0-9 and hyphens between them"


def _kind_fault(kind: str) -> str:
    return "" if kind in KINDS else f"kind is {kind!r}: it must be one of {', '.join(KINDS)}"


def _tags_fault(tags: list[str]) -> str:
    if len(tags) > MOST_TAGS:
        return f"there are {len(tags)} tags: {MOST_TAGS} at most"
    wrong = [tag for tag in tags if not _TAG.fullmatch(tag)]
    return f"tag {wrong[0]!r} must have 1 to 30 letters, digits and _ . -" if wrong else ""


def _authority_fault(text: str) -> str:
    from brokers.adapters.http import trusting

    if fault := text_fault("authority", text, 64 << 10):
        return fault
    try:
        trusting(text)
    except ValueError as error:
        return str(error)
    return ""


def _username_fault(text: str) -> str:
    return "username must not contain a colon" if ":" in text else text_fault("username", text, 255)


_FAULTS: dict[str, Any] = {
    "slug": _slug_fault,
    "title": lambda text: label_fault("title", text),
    "kind": _kind_fault,
    "url": lambda text: text_fault("url", text, 500),
    "username": _username_fault,
    "password": lambda text: text_fault("password", text, 1000),
    "tags": _tags_fault,
    "authority": _authority_fault,
}


def _encrypted(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of the values."""
    columns = {name: value for name, value in values.items() if name != "password"}
    if "password" in values:
        columns["encrypted"] = keys.encrypt(values["password"]) if values["password"] else ""
    return columns


class _usable_keys:
    """Raise InvalidValue for the password if the keys cannot be used."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, keys.KeyMissing):
            raise InvalidValue({"password": str(error)}) from None
