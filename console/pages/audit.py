"""The audit trail: user, action, time, source address and reason, newest first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.html import format_html_join
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from brokers.admin import InvalidValue
from brokers.input_checks import shortened
from brokers.input_limits import TEXT
from brokers.model import POLICY, TYPES, ObjectName, scope_label
from console.access.user_rights import request_rights
from console.audit.models import AuditEntry, Outcome
from console.audit.search import EXACT, AuditSearch
from console.operations import is_revertible
from console.pages.frame import broker_of, brokers_of, frame

ROWS = 50
_EXACT = tuple(name for name in EXACT if name != "broker")
#: Parameters without a field in the filter, which come from links: shown with it while they apply.
_FIXED = {"virtualhost": "Virtual host", "object": "Object", "request": "Request"}


@require_safe
def audit(request: HttpRequest) -> HttpResponse:
    """`?user=`, `?operation=`, `?outcome=`, `?object=`, `?request=` and `?virtualhost=` (exact), `?search=` (in all
    texts), `?from=` and `?until=` (times), `?all=` (of all brokers, if not empty), `?page=`."""
    broker, brokers = broker_of(request), brokers_of(request)
    given = {name: request.GET.get(name, "").strip() for name in (*_EXACT, "search", "from", "until", "all")}
    visible = AuditEntry.objects.as_visible(request_rights(request))
    if not given["all"]:
        visible = visible.filter(broker__in=(broker["slug"], ""))
    wrong = ""
    try:
        rows = AuditSearch.parse(given).of(visible)
    except InvalidValue as error:
        rows, wrong = visible.none(), " ".join(error.errors.values())
    page = Paginator(rows, ROWS).get_page(request.GET.get("page"))
    titles = {each["slug"]: each["title"] for each in brokers}
    filters = {key: value for key, value in given.items() if value}
    of_files = filters if given["all"] else {"broker": broker["slug"], **filters}
    context = {
        **frame(request, "audit", "Audit", policy=[asdict(attribute) for attribute in POLICY]),
        "given": given,
        "wrong": wrong,
        "rows": [_row(entry, titles) for entry in page],
        "pages": page,
        "fixed": [
            (name, label, given[name], _short(given[name]) if name == "object" else given[name])
            for name, label in _FIXED.items()
            if given[name]
        ],
        "filtered": any(given.values()),
        "users": _distinct(visible, "user_name"),
        "operations": _distinct(visible, "operation"),
        "outcomes": Outcome.values,
        "file_query": urlencode({key: value for key, value in of_files.items() if key != "all"}),
        "query": urlencode({**_broker_of_page(request), **filters}),
    }
    return render(request, "console/audit.html", context)


def _distinct(rows: QuerySet[AuditEntry], field: str) -> list[str]:
    return list(rows.order_by(field).values_list(field, flat=True).distinct()[:200])


def _broker_of_page(request: HttpRequest) -> dict[str, str]:
    return {"broker": request.GET["broker"]} if request.GET.get("broker") else {}


def _row(entry: AuditEntry, titles: Mapping[str, str]) -> dict[str, Any]:
    """`titles`: of the brokers that the user sees, by slug."""
    return {
        "entry": entry,
        "broker": titles.get(entry.broker, entry.broker),
        "short": _short(entry.object),
        "revertible": is_revertible(entry),
        "changes": _shown(entry),
    }


def _shown(entry: AuditEntry) -> list[tuple[str, str | None, str | None]]:
    """Return the changes as text: (attribute, before, after). For a creation or deletion only values that are set, and
    None on the other side."""
    found = changes(entry)
    if entry.before and entry.after:
        return [(name, _isolated(_text(before)), _isolated(_text(after))) for name, before, after in found]
    values = [(name, _text_if_set(name, before), _text_if_set(name, after)) for name, before, after in found]
    return [each for each in values if each[1:] != (None, None)]


def _text_if_set(name: str, value: Any) -> str | None:
    if value == "" and name in _WRITABLE:
        return "none"  # overrides an inherited value
    return None if value in (None, "", [], {}) else _isolated(_text(value))


def changes(entry: AuditEntry) -> list[tuple[str, Any, Any]]:
    """Return what an attempt changed: (attribute, before, after). Statistics such as the depth of a queue are omitted
    unless there are no other changes."""
    before, after = entry.before or {}, entry.after or {}
    names = [name for name in (*before, *(n for n in after if n not in before)) if name not in _FOR_UNDO]
    differ = [(name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)]
    intended = [change for change in differ if change[0] in _WRITABLE]
    return intended or differ


#: Values that are recorded only for undo; the row also has them in words.
_FOR_UNDO = frozenset({"grants"})

#: Attributes that users change: writable ones, and those that a stop changes.
_WRITABLE = frozenset(a.name for t in TYPES.values() for a in t.attributes if a.writable) | {"stops", "stopped_queues"}


def _text(value: Any) -> str:
    if value is None:
        return "not set"
    if value == []:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list) and all(isinstance(stop, dict) and "scope" in stop for stop in value):
        return "; ".join(f"{scope_label(stop['scope'])} by {stop.get('actor') or 'the broker'}" for stop in value)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return shortened(", ".join(value), TEXT)
    return shortened(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), TEXT)


def _isolated(text: str) -> str:
    """Return the text; as HTML if it is an object's name, whose values are isolated: one in a right-to-left script does
    not move the keys around it."""
    try:
        name = ObjectName.parse(text)
    except ValueError:
        return text
    return format_html_join(",", "{}=<bdi>{}</bdi>", name.written())


def _short(text: str) -> str:
    """Return the object's name for people; the text itself if its type no longer exists."""
    try:
        name = ObjectName.parse(text)
    except ValueError:
        return text
    return f"{name.type} {name.keys[-1][1]}" if name.keys else name.type
