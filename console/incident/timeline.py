"""The timeline: events of the broker and rows of the audit trail in one stream.

A search goes backwards from the newest entry, page by page. Events that are no longer in memory are read from the
broker's journal. All functions are synchronous, for views. A page ends when it is full or when its search budget is
used up; `more` then says that older entries may match.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.db.models import Q, QuerySet

from brokers.admin import Event
from brokers.input_checks import shortened
from brokers.input_limits import TEXT
from brokers.model import ObjectName
from console.audit.models import AuditEntry
from console.links.link import BrokerLink
from console.links.queue_table import queue_of

#: Events read from the journal in one call, events searched for one page at most, and the time limit of that, s.
_CHUNK, _BUDGET, _TIME_LIMIT = 2000, 40_000, 2.0
#: New entries returned at once.
MOST_NEW = 500

#: Columns of the CSV export; told_by is deprecated and has the value of source.
COLUMNS = ("at", "told_by", "kind", "object", "queue", "producer", "actor", "outcome", "reason", "text", "id", "source")


@dataclass(frozen=True, slots=True)
class Search:
    """A filter of entries; every condition that is set must match. `text`, `queue` and `producer` match as
    case-insensitive substrings; if `queue` is an object name, it matches only that queue. `since` (inclusive) and
    `until` (exclusive): ms since the epoch. `source`: `broker` or `people`."""

    text: str = ""
    kinds: tuple[str, ...] = ()
    actor: str = ""
    queue: str = ""
    producer: str = ""
    source: str = ""
    since: int = 0
    until: int = 0

    def matches(self, entry: Mapping[str, Any]) -> bool:
        """Return whether an entry matches all conditions."""
        if self.kinds and entry["kind"] not in self.kinds:
            return False
        if self.actor and entry["actor"].casefold() != self.actor.casefold():
            return False
        if self.queue and not self._is_about(entry):
            return False
        if self.producer and self.producer.casefold() not in (entry["producer"] or "").casefold():
            return False
        if (self.since and entry["at"] < self.since) or (self.until and entry["at"] >= self.until):
            return False
        if not self.text:
            return True
        texts = (entry["text"], entry["object"], entry["actor"], entry["producer"], entry["reason"], entry["kind"])
        return any(self.text.casefold() in (text or "").casefold() for text in texts)

    def _is_about(self, entry: Mapping[str, Any]) -> bool:
        if self.queue.startswith("type="):
            return bool(entry["queue"] == self.queue)
        name = entry["queue"] or ""
        try:
            shown = ObjectName.parse(name).label if name else ""
        except ValueError:
            shown = name
        return self.queue.casefold() in shown.casefold()


@dataclass(slots=True)
class Page:
    """A page of entries, the newest first. `before_event` and `before_audit`: the position of the next page. `more`:
    older entries may match. `searched_to`: time of the oldest event searched, ms since the epoch; None if none was."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    before_event: int = 0
    before_audit: int = 0
    more: bool = False
    searched_to: int | None = None


def page(link: BrokerLink, search: Search, *, before_event: int = 0, before_audit: int = 0, count: int = 100) -> Page:
    """Return the newest `count` entries before a position (0: before none, the newest). Raises AdminError."""
    found = _Found(before_event or link.newest_event + 1)
    if search.source != "people":
        asyncio.run(_search_events(link, search, found, count))
    people: list[dict[str, Any]] = []
    people_left = False
    if search.source != "broker":
        rows = _audit(link, search)
        if before_audit:
            rows = rows.filter(id__lt=before_audit)
        people = [_of_audit(row) for row in rows[: count + 1]]
        people_left = len(people) > count
    entries, events, rows_taken = _merged(found, people, count)
    return Page(
        entries,
        before_event=found.entries[events]["number"] + 1 if events < len(found.entries) else found.position,
        before_audit=people[rows_taken - 1]["number"] if rows_taken else before_audit,
        more=events < len(found.entries) or rows_taken < len(people) or people_left or found.more,
        searched_to=found.searched_to,
    )


def _merged(found: _Found, people: Sequence[Mapping[str, Any]], count: int) -> tuple[list[dict[str, Any]], int, int]:
    """Return the newest `count` entries of both sources, and how many of each they are. Within a source the number
    decides, since a clock can be set back: what follows a step back is the newest, whatever its time says. The page
    ends where the events have not been searched yet."""
    taken: list[dict[str, Any]] = []
    events, rows = found.entries, list(people)
    event = row = 0
    latest = [math.inf, math.inf]  # the time of the last entry of each source, or an earlier one after it
    while len(taken) < count and (event < len(events) or row < len(rows)):
        times = [min(latest[0], events[event]["at"]) if event < len(events) else -math.inf,
                 min(latest[1], rows[row]["at"]) if row < len(rows) else -math.inf]  # fmt: skip
        if event == len(events) and found.more and times[1] < min(latest[0], found.searched_to or math.inf):
            break
        if times[0] > times[1]:
            taken.append(events[event])
            event, latest[0] = event + 1, times[0]
        else:
            taken.append(dict(rows[row]))
            row, latest[1] = row + 1, times[1]
    return taken, event, row


@dataclass(slots=True)
class _Found:
    """Progress of a search through events. `position`: events from this number on have been searched."""

    position: int
    entries: list[dict[str, Any]] = field(default_factory=list)
    searched_to: int | None = None
    more: bool = False


async def _search_events(link: BrokerLink, search: Search, found: _Found, count: int) -> None:
    """Search events backwards from `found.position` until `count` match or the budget is used up."""
    began, searched = time.monotonic(), 0
    while found.position > 1:
        if len(found.entries) >= count or searched >= _BUDGET or time.monotonic() - began > _TIME_LIMIT:
            found.more = True
            return
        start = max(0, found.position - 1 - _CHUNK)
        tail = await link.events_after(start, found.position - 1 - start)
        events = [event for event in tail.events if event.number < found.position]
        if search.since and all(event.at < search.since for event in events):
            return  # one alone may be of a time after a step of the clock
        for event in reversed(events):
            if len(found.entries) >= count:
                break
            found.position, found.searched_to = event.number, event.at
            entry = of_event(event)
            if search.matches(entry):
                found.entries.append(entry)
        else:
            found.position = start + 1
            if tail.position is None or tail.expired_before is not None:
                return  # older events have expired
        searched += len(events) or _CHUNK


def news(link: BrokerLink, search: Search, *, after_event: int, after_audit: int) -> tuple[list[dict[str, Any]], bool]:
    """Return the entries after a position, the newest first, and whether that is not all of them: then they have to be
    searched again. Raises AdminError."""
    entries: list[dict[str, Any]] = []
    is_part = False
    if search.source != "people" and after_event < link.newest_event:
        start = max(after_event, link.newest_event - _CHUNK)
        tail = asyncio.run(link.events_after(start, _CHUNK))
        is_part = start > after_event or tail.expired_before is not None
        entries = [entry for entry in map(of_event, tail.events) if search.matches(entry)][::-1]
    rows: list[dict[str, Any]] = []
    if search.source != "broker":
        rows = [_of_audit(row) for row in _audit(link, search).filter(id__gt=after_audit)[:MOST_NEW]]
    found = _Found(after_event, entries)
    taken, events, people = _merged(found, rows, MOST_NEW)
    return taken, is_part or events < len(entries) or people < len(rows) or len(rows) == MOST_NEW


def newest_audit(link: BrokerLink) -> int:
    """Return the number of the newest visible audit row; 0 if there is none."""
    row = AuditEntry.objects.visible_through(link).order_by("-id").first()
    return row.pk if row is not None else 0


def of_event(event: Event) -> dict[str, Any]:
    """Return the entry of an event."""
    attributes = event.attributes
    queue = queue_of(event)
    client, at_link = attributes.get("client"), attributes.get("link")
    return {
        "id": f"e{event.number}",
        "number": event.number,
        "source": "broker",
        "told_by": "broker",
        "at": event.at,
        "kind": event.kind,
        "object": str(event.object),
        "queue": None if queue is None else str(queue),
        "producer": f"{client} {at_link or ''}".strip() if client else None,
        "actor": str(attributes.get("actor") or ""),
        "outcome": "",
        "reason": shortened(str(attributes.get("reason") or ", ".join(attributes.get("reasons") or ())), TEXT),
        "text": shortened(event.text, TEXT),
    }


def _of_audit(row: AuditEntry) -> dict[str, Any]:
    return {
        "id": f"a{row.pk}",
        "number": row.pk,
        "source": "people",
        "told_by": "people",
        "at": int(row.at.timestamp() * 1000),
        "kind": row.operation,
        "object": row.object,
        "queue": row.object if row.object.startswith("type=Queue,") else None,
        "producer": None,
        "actor": row.user_name,
        "outcome": row.outcome,
        "reason": shortened(row.reason, TEXT),
        "text": shortened(row.detail, TEXT),
    }


def _audit(link: BrokerLink, search: Search) -> QuerySet[AuditEntry]:
    """Return the matching rows of the audit trail, the newest first."""
    rows = AuditEntry.objects.visible_through(link).order_by("-id")
    if search.producer:
        return rows.none()  # the audit trail has operations on queues and wider scopes only
    if search.kinds:
        rows = rows.filter(operation__in=search.kinds)
    if search.actor:
        rows = rows.filter(user_name__iexact=search.actor)
    if search.queue.startswith("type="):
        rows = rows.filter(Q(object=search.queue) | Q(detail__contains=json.dumps(search.queue)))  # as in `as_detail`
    elif search.queue:
        rows = rows.filter(object__startswith="type=Queue,").filter(object__icontains=search.queue)
    if search.since:
        rows = rows.filter(at__gte=datetime.fromtimestamp(search.since / 1000, UTC))
    if search.until:
        rows = rows.filter(at__lt=datetime.fromtimestamp(search.until / 1000, UTC))
    if text := search.text:
        in_texts = Q(object__icontains=text) | Q(detail__icontains=text) | Q(reason__icontains=text)
        rows = rows.filter(in_texts | Q(user_name__icontains=text) | Q(operation__icontains=text))
    return rows


# -- export ---------------------------------------------------------------------------------------------------------


def entries_for_export(link: BrokerLink, search: Search, *, limit: int) -> tuple[list[dict[str, Any]], bool]:
    """Return at most `limit` entries, the newest first, and whether there may be more. Raises AdminError."""
    entries: list[dict[str, Any]] = []
    event = audit = 0
    while len(entries) < limit:
        got = page(link, search, before_event=event, before_audit=audit, count=min(2000, limit - len(entries)))
        entries += got.entries
        event, audit = got.before_event, got.before_audit
        if not got.more:
            return entries, False
    return entries, True


def as_csv(entries: Iterable[Mapping[str, Any]]) -> str:
    """Return entries as CSV with a header line; times in ms since the epoch and as ISO 8601 in UTC."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["time", *COLUMNS])
    for entry in entries:
        when = datetime.fromtimestamp(entry["at"] / 1000, UTC).isoformat(timespec="milliseconds")
        writer.writerow([when, *(harmless(entry[column]) for column in COLUMNS)])
    return out.getvalue()


#: Characters of a cell that every spreadsheet accepts, with room for the mark of a truncated text.
LONGEST_CELL = 32_000


def harmless(value: object) -> object:
    """Return a cell that spreadsheets neither run as a formula nor refuse for its length: clients choose some of these
    texts, and some were stored before there were limits."""
    if not isinstance(value, str):
        return value
    cut = shortened(value, LONGEST_CELL)
    return f"'{cut}" if cut[:1] in ("=", "+", "-", "@", "\t", "\r") else cut
