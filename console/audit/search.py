"""Searching the audit trail: what is asked for in a query string, as a question to the database."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Q

from brokers.admin import InvalidValue
from console.audit.models import Outcome
from console.intake.times import parse_time

if TYPE_CHECKING:
    from console.audit.models import AuditQuerySet

#: Parameter -> the field that must equal it.
EXACT: Mapping[str, str] = {
    "broker": "broker",
    "object": "object",
    "operation": "operation",
    "outcome": "outcome",
    "user": "user_name",
    "virtualhost": "virtualhost",
}
#: Fields in which `search` looks, whatever the case.
_TEXTS = ("object", "reason", "detail", "user_name", "operation", "source_address")


@dataclass(frozen=True, slots=True)
class AuditSearch:
    """`exact`: field -> value. `since` and `until`: only rows from then, and before then."""

    exact: Mapping[str, str]
    text: str = ""
    since: dt.datetime | None = None
    until: dt.datetime | None = None

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> AuditSearch:
        """Raises InvalidValue."""
        exact = {field: query[name].strip() for name, field in EXACT.items() if query.get(name, "").strip()}
        if (outcome := exact.get("outcome", "")) and outcome not in Outcome.values:
            raise InvalidValue({"outcome": f"outcome is {outcome!r}: it must be one of {', '.join(Outcome.values)}"})
        since, until = _moment(query, "from"), _moment(query, "until")
        if since and until and since >= until:
            raise InvalidValue({"until": "until is not after from: nothing lies between them"})
        return cls(exact, query.get("search", "").strip(), since, until)

    def of(self, rows: AuditQuerySet) -> AuditQuerySet:
        """Those of the rows that are looked for."""
        rows = rows.filter(**self.exact)
        if self.since:
            rows = rows.filter(at__gte=self.since)
        if self.until:
            rows = rows.filter(at__lt=self.until)
        if self.text:
            said = Q()
            for field in _TEXTS:
                said |= Q(**{f"{field}__icontains": self.text})
            rows = rows.filter(said)
        return rows


def _moment(query: Mapping[str, str], name: str) -> dt.datetime | None:
    """A time in ISO 8601, of UTC if it names no zone, or in ms since the epoch."""
    text = query.get(name, "").strip()
    if not text:
        return None
    return dt.datetime.fromtimestamp(parse_time(name, text, zone=dt.UTC) / 1000, dt.UTC)


#: What a file of the audit trail has of each row.
COLUMNS = (
    "id",
    "at",
    "user_name",
    "source_address",
    "broker",
    "virtualhost",
    "object",
    "operation",
    "outcome",
    "reason",
    "detail",
    "before",
    "after",
)
