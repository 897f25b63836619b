"""Compare a file of brokers with those that are added, and apply it, broker by broker, each with its audit row.

A broker that the file names gets exactly the fields of the file, except its password, which stays if the file names
none, and `paused`, which stays if the file does not say it. Brokers that the file does not name stay, or are removed
with `prune`. Passwords come beside the file; that one differs from the stored one is all that is said about it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import PermissionDenied

from brokers.admin import AdminError, InvalidValue, StaleVersion
from console.access.actor import Actor
from console.access.audited_changes import audited
from console.brokers import configured, keys
from console.brokers.models import ForeignBroker
from console.operations.broker_file import BrokerEntry, read, written
from console.operations.brokers import (
    add_broker,
    change_broker,
    check_administers,
    normalized,
    remove_broker,
)
from console.permissions.rights import Role

_HIDDEN = "(secret)"


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """`action`: update, create or delete. `attributes`: new values, without the password; `was`: those they replace.
    `password`: to set; None: it stays. `revision`: of the broker that the change is based on."""

    slug: str
    action: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    was: Mapping[str, Any] = field(default_factory=dict)
    password: str | None = field(default=None, repr=False)
    revision: int = 0

    def as_json(self) -> dict[str, Any]:
        shown = {"password": _HIDDEN} if self.password is not None else {}
        attributes = {**self.attributes, **shown}
        return {"slug": self.slug, "action": self.action, "attributes": attributes, "was": dict(self.was)}


@dataclass(frozen=True, slots=True)
class BrokerDifference:
    """`problems`: slug -> a sentence. `left_alone`: brokers that the file does not name. `secrets`: slug -> (key,
    where), of the passwords that the file names."""

    changes: Sequence[BrokerChange]
    problems: Mapping[str, str]
    left_alone: Sequence[str]
    secrets: Mapping[str, tuple[str, str]]

    @property
    def digest(self) -> str:
        """Hash of the changes, with the revisions that they are based on, and of the problems."""
        content = [[[change.as_json(), change.revision] for change in self.changes], dict(self.problems)]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class AppliedBroker:
    """`outcome`: done, refused or failed; `detail`: why, unless it is done."""

    change: BrokerChange
    outcome: str
    detail: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "slug": self.change.slug,
            "action": self.change.action,
            "outcome": self.outcome,
            "detail": self.detail,
        }


def export_brokers(by: Actor) -> str:
    """Return the added brokers as a file, without passwords. Raises PermissionDenied."""
    check_administers(by)
    return written({row.slug: row.for_audit() for row in ForeignBroker.objects.all()})


def broker_difference(
    by: Actor, text: str, *, passwords: Mapping[str, str] | None = None, prune: bool = False
) -> BrokerDifference:
    """Return the difference between a file and the added brokers. `passwords`: by slug; those of others are not
    compared. Raises InvalidValue with all faults of the file, PermissionDenied."""
    check_administers(by)
    given, wanted = dict(passwords or {}), read(text)
    secrets = {slug: entry.secret for slug, entry in wanted.items() if entry.secret}
    if unknown := sorted(given.keys() - secrets.keys()):
        raise InvalidValue({"passwords": f"the file names no password for {', '.join(unknown)}"})
    rows = {row.slug: row for row in ForeignBroker.objects.all()}
    own = set(configured.slugs()) - rows.keys()
    changes, problems = list[BrokerChange](), dict[str, str]()
    for slug, entry in sorted(wanted.items()):
        if slug in own:
            problems[slug] = f"the broker {slug} is part of the settings"
        elif slug not in rows:
            changes.append(BrokerChange(slug, "create", entry.values, password=given.get(slug)))
        elif entry.values["kind"] != rows[slug].kind:
            problems[slug] = f"{slug} is of kind {rows[slug].kind}: remove it before it is added with another kind"
        else:
            changes.extend(_update(rows[slug], entry, given.get(slug)))
    gone = sorted(rows.keys() - wanted.keys())
    if prune:
        changes += [BrokerChange(slug, "delete", was=rows[slug].for_audit(), revision=rows[slug].revision)
                    for slug in gone]  # fmt: skip
    return BrokerDifference(changes, problems, () if prune else gone, secrets)


def apply_broker_file(
    by: Actor,
    text: str,
    *,
    passwords: Mapping[str, str],
    prune: bool = False,
    reason: str = "",
    digest: str = "",
) -> tuple[BrokerDifference, list[AppliedBroker]]:
    """Apply a file, broker by broker. `passwords`: those that the file names. `digest`: that of the difference which
    the user has seen. Raises InvalidValue, PermissionDenied, StaleVersion if the difference has changed."""
    if not by.rights.allows_everywhere(Role.ADMIN):
        with audited(by, "brokers of a file", "apply-brokers", reason=reason):
            check_administers(by)
    found = broker_difference(by, text, passwords=passwords, prune=prune)
    if missing := sorted(found.secrets.keys() - passwords.keys()):
        raise InvalidValue({"passwords": f"the passwords of these brokers are missing: {', '.join(missing)}"})
    if digest and digest != found.digest:
        raise StaleVersion("brokers have changed since the dry run: compare again", 0)
    return found, [_apply(by, change, reason) for change in found.changes]


def _apply(by: Actor, change: BrokerChange, reason: str) -> AppliedBroker:
    secret = {} if change.password is None else {"password": change.password}
    try:
        match change.action:
            case "create":
                add_broker(by, {"slug": change.slug, **change.attributes, **secret}, reason)
            case "delete":
                remove_broker(by, change.slug, reason=reason)
            case _:
                change_broker(by, change.slug, {**change.attributes, **secret}, reason)
    except (AdminError, PermissionDenied) as error:  # the role can be revoked while the file is applied
        return AppliedBroker(change, "refused", str(error))
    return AppliedBroker(change, "done")


def _update(row: ForeignBroker, entry: BrokerEntry, password: str | None) -> list[BrokerChange]:
    now = row.for_audit()
    differ = {key: value for key, value in normalized(entry.values).items() if now[key] != value}
    new = password if password is not None and not _is_stored(row, password) else None
    if new is None and password is not None and "url" in differ:
        new = password  # a new address requires it again
    if not differ and new is None:
        return []
    was = {key: now[key] for key in differ}
    return [BrokerChange(row.slug, "update", differ, was, new, row.revision)]


def _is_stored(row: ForeignBroker, password: str) -> bool:
    try:
        return hmac.compare_digest(row.account().password.encode(), password.encode())
    except keys.KeyMissing:
        return False
