"""Create, change and delete saved selections of queues, private or shared, and evaluate them.

Every user who sees the broker can save private selections: they affect only this user's pages. Sharing requires the
role of operator, since others stop producers by it. Each attempt writes an audit row, refused ones included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from brokers.admin import AlreadyExists, InvalidValue, NotFound
from brokers.input_checks import label_fault
from brokers.model import ObjectName
from console.access.actor import Actor
from console.access.audited_changes import audited
from console.links.link import BrokerLink
from console.links.queue_filter import matching
from console.permissions.rights import Grant, Role
from console.selections.models import SavedSelection

#: What filters the queues of a selection that does not name them.
_FILTER = ("search", "states", "only")


def selections_for(by: Actor, link: BrokerLink) -> QuerySet[SavedSelection]:
    """Return the user's own and the shared selections of a broker."""
    return SavedSelection.objects.filter(Q(owner_id=_user(by).pk) | Q(shared=True), broker=link.slug)


def selection_of(by: Actor, link: BrokerLink, number: int) -> SavedSelection:
    """Return a selection by its number. Raises NotFound, also for another user's private one."""
    found = selections_for(by, link).select_related("owner").filter(pk=number).first()
    if found is None:
        raise NotFound(f"there is no saved selection {number}")
    return found


def queues_of(link: BrokerLink, selection: SavedSelection) -> list[str]:
    """Return the object names of the queues that the selection matches now. Raises NotFound if there are none,
    InvalidValue for one without a filter, as an earlier release allowed: it would match all queues."""
    link.require_current()
    if _is_empty(selection.for_audit()):
        raise InvalidValue({"selection": f"{selection} has no filter: set search, states, only or queues of it"})
    if selection.queues is None:
        rows = matching(link.queues(), search=selection.search, states=selection.states, only=selection.only)
    else:
        rows = [row for name in selection.queues if (row := link.queue(name)) is not None]
    if not rows:
        raise NotFound(f"{selection} matches no queues")
    return sorted(row["object"] for row in rows)


def save_selection(by: Actor, link: BrokerLink, given: Mapping[str, Any]) -> SavedSelection:
    """Create a selection. Raises InvalidValue, AlreadyExists, PermissionDenied."""
    with audited(by, f"selection {given.get('name')}", "save-selection", scope=_scope(link)) as row:
        wanted = _checked(given)
        _may_share(by, link, shared=bool(wanted.get("shared")))
        if _is_empty(wanted):
            raise InvalidValue({"search": "the selection is empty: set search, states, only or queues"})
        _must_be_free(by, link, wanted["name"])
        made = SavedSelection(owner=_user(by), broker=link.slug, **wanted)
        _store(made)
        row.after = made.for_audit()
        return made


def change_selection(by: Actor, link: BrokerLink, number: int, given: Mapping[str, Any]) -> SavedSelection:
    """Change a selection. Raises NotFound, InvalidValue, AlreadyExists, PermissionDenied."""
    found = selection_of(by, link, number)
    with audited(by, str(found), "change-selection", scope=_scope(link)) as row:
        row.before = found.for_audit()
        _must_be_own(by, link, found)
        wanted = _checked(given)
        _may_share(by, link, shared=bool(wanted.get("shared", found.shared)))
        if wanted.get("name", found.name) != found.name:
            _must_be_free(by, link, wanted["name"])
        for name, value in wanted.items():
            setattr(found, name, value)
        if _is_empty(found.for_audit()) and wanted.keys() & {*_FILTER, "queues"}:
            raise InvalidValue({"search": "the selection would be empty, and match all queues: delete it instead"})
        _store(found)
        row.after = found.for_audit()
        return found


def delete_selection(by: Actor, link: BrokerLink, number: int) -> None:
    """Delete a selection. Raises NotFound, PermissionDenied."""
    found = selection_of(by, link, number)
    with audited(by, str(found), "delete-selection", scope=_scope(link)) as row:
        row.before = found.for_audit()
        _must_be_own(by, link, found)
        found.delete()


def _is_empty(values: Mapping[str, Any]) -> bool:
    """Return whether these values of a selection neither filter nor name queues. Blanks filter nothing: an earlier
    release stored them."""
    given = (values.get(name) for name in _FILTER)
    return values.get("queues") is None and not any(v.strip() if isinstance(v, str) else v for v in given)


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the normalized values. Types and lengths have been validated before. Raises InvalidValue."""
    wrong: dict[str, str] = {}
    good = dict(given)
    if "name" in given:
        good["name"] = given["name"].strip()
        if fault := label_fault("name", good["name"], 80):
            wrong["name"] = fault
    if given.get("search") is not None:
        good["search"] = given["search"].strip()  # as it is matched: blanks alone match all queues
    if given.get("queues") is not None and (fault := _fault_of(given["queues"])):
        wrong["queues"] = fault
    if wrong:
        raise InvalidValue(wrong)
    return good


def _fault_of(queues: Sequence[str]) -> str:
    for text in queues:
        try:
            is_queue = ObjectName.parse(text).type == "Queue"
        except ValueError as error:
            return str(error)
        if not is_queue:
            return f"queues has {text!r}: it must be the name of a queue"
    return ""


def _user(by: Actor) -> User:
    if not isinstance(by.user, User):
        raise PermissionDenied("saved selections require a signed-in user")
    return by.user


def _scope(link: BrokerLink) -> Grant:
    return Grant(Role.VIEWER, link.slug)


def _may_share(by: Actor, link: BrokerLink, *, shared: bool) -> None:
    if shared and by.rights.hosts(Role.OPERATOR, link.slug) == frozenset():
        raise PermissionDenied(f"{by.name} may not share a selection: that needs the role of operator")


def _must_be_own(by: Actor, link: BrokerLink, found: SavedSelection) -> None:
    if found.owner_id != _user(by).pk and not by.rights.allows(Role.ADMIN, link.slug):
        raise PermissionDenied(f"{by.name} may not change {found}: it is {found.owner.get_username()}'s")


def _must_be_free(by: Actor, link: BrokerLink, name: str) -> None:
    if SavedSelection.objects.filter(owner_id=_user(by).pk, broker=link.slug, name=name).exists():
        raise _taken(name)


def _store(selection: SavedSelection) -> None:
    """Raises AlreadyExists if another request has taken the name meanwhile, such as that of a double click."""
    try:
        with transaction.atomic():
            selection.save()
    except IntegrityError:
        raise _taken(selection.name) from None


def _taken(name: str) -> AlreadyExists:
    return AlreadyExists(f"you already have a selection {name!r}")
