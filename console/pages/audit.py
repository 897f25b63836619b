"""The audit list: who did what, when, from where and why, newest first."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from brokers.admin import InvalidValue
from brokers.input_checks import shortened
from brokers.input_limits import TEXT
from brokers.model import POLICY, TYPES, ObjectName
from console.access.user_rights import request_rights
from console.audit.models import AuditEntry, Outcome
from console.audit.search import EXACT, AuditSearch
from console.operations import is_revertible
from console.pages.frame import broker_of, frame

ROWS = 50
_ASKED = tuple(name for name in EXACT if name != "broker")


@require_safe
def audit(request: HttpRequest) -> HttpResponse:
    """`?user=`, `?operation=`, `?outcome=`, `?object=` and `?virtualhost=` (exact), `?search=` (in all texts), `?from=`
    and `?until=` (times), `?page=`."""
    broker = broker_of(request)
    asked = {name: request.GET.get(name, "").strip() for name in (*_ASKED, "search", "from", "until")}
    seen = AuditEntry.objects.as_visible(request_rights(request)).filter(broker__in=(broker["slug"], ""))
    wrong = ""
    try:
        rows = AuditSearch.parse(asked).of(seen)
    except InvalidValue as error:
        rows, wrong = seen.none(), " ".join(error.errors.values())
    page = Paginator(rows, ROWS).get_page(request.GET.get("page"))
    context = {
        **frame(request, "audit", "Audit", policy=[asdict(attribute) for attribute in POLICY]),
        "given": asked,
        "wrong": wrong,
        "rows": [_row(entry) for entry in page],
        "pages": page,
        "filtered": any(asked.values()),
        "users": _distinct(seen, "user_name"),
        "operations": _distinct(seen, "operation"),
        "outcomes": Outcome.values,
        "file_query": urlencode({"broker": broker["slug"], **{key: value for key, value in asked.items() if value}}),
        "query": urlencode({key: value for key, value in asked.items() if value}),
    }
    return render(request, "console/audit.html", context)


def _distinct(rows: QuerySet[AuditEntry], field: str) -> list[str]:
    return list(rows.order_by(field).values_list(field, flat=True).distinct()[:200])


def _row(entry: AuditEntry) -> dict[str, Any]:
    return {
        "entry": entry,
        "short": _short(entry.object),
        "revertible": is_revertible(entry),
        "changes": _shown(entry),
    }


def _shown(entry: AuditEntry) -> list[tuple[str, str | None, str | None]]:
    """In words. Of what was created or deleted: what it had, and None where there was nothing to have it."""
    found = changes(entry)
    if entry.before and entry.after:
        return [(name, _text(before), _text(after)) for name, before, after in found]
    had = [(name, _told(name, before), _told(name, after)) for name, before, after in found]
    return [each for each in had if each[1:] != (None, None)]


def _told(name: str, value: Any) -> str | None:
    if value == "" and name in _MEANT:
        return "none"  # of a policy: not what would be inherited
    return None if value in (None, "", [], {}) else _text(value)


def changes(entry: AuditEntry) -> list[tuple[str, Any, Any]]:
    """What an attempt changed: (attribute, before, after). Values that change by themselves, such as the depth of a
    queue, are left out unless nothing else tells what happened."""
    before, after = entry.before or {}, entry.after or {}
    names = [name for name in (*before, *(n for n in after if n not in before)) if name not in _FOR_UNDO]
    differ = [(name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)]
    meant = [change for change in differ if change[0] in _MEANT]
    return meant or differ


#: What is kept so that a change can be undone; the row says it in words beside it.
_FOR_UNDO = frozenset({"grants"})

#: What people change: writable attributes, and what an operator's stop leaves on an object.
_MEANT = frozenset(a.name for t in TYPES.values() for a in t.attributes if a.writable) | {"stops", "stopped_queues"}


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
        return "; ".join(f"{stop['scope']} by {stop.get('actor') or 'the broker'}" for stop in value)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return shortened(", ".join(value), TEXT)
    return shortened(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), TEXT)


def _short(text: str) -> str:
    """The object's name for people; rows outlive the types they were written about."""
    try:
        name = ObjectName.parse(text)
    except ValueError:
        return text
    return f"{name.type} {name.keys[-1][1]}" if name.keys else name.type
