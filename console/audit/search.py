"""Search of the audit trail: query parameters become a database query."""

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

#: Fields that must be equal to a parameter, by parameter.
EXACT: Mapping[str, str] = {
    "broker": "broker",
    "object": "object",
    "operation": "operation",
    "outcome": "outcome",
    "request": "request_id",
    "user": "user_name",
    "virtualhost": "virtualhost",
}
#: Fields that `search` covers; case is ignored.
_TEXTS = ("object", "reason", "detail", "user_name", "operation", "source_address", "request_id")


@dataclass(frozen=True, slots=True)
class AuditSearch:
    """`exact`: value by field. `since`: earliest time, `until`: end (exclusive)."""

    exact: Mapping[str, str]
    text: str = ""
    since: dt.datetime | None = None
    until: dt.datetime | None = None

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> AuditSearch:
        """Parse query parameters. Raises InvalidValue."""
        exact = {field: query[name].strip() for name, field in EXACT.items() if query.get(name, "").strip()}
        if (outcome := exact.get("outcome", "")) and outcome not in Outcome.values:
            raise InvalidValue({"outcome": f"outcome is {outcome!r}: it must be one of {', '.join(Outcome.values)}"})
        since, until = _moment(query, "from"), _moment(query, "until")
        if since and until and since >= until:
            raise InvalidValue({"until": "until must be after from"})
        return cls(exact, query.get("search", "").strip(), since, until)

    def of(self, rows: AuditQuerySet) -> AuditQuerySet:
        """Return the matching entries."""
        rows = rows.filter(**self.exact)
        if self.since:
            rows = rows.filter(at__gte=self.since)
        if self.until:
            rows = rows.filter(at__lt=self.until)
        if self.text:
            matches = Q()
            for field in _TEXTS:
                matches |= Q(**{f"{field}__icontains": self.text})
            rows = rows.filter(matches)
        return rows


def _moment(query: Mapping[str, str], name: str) -> dt.datetime | None:
    """Return a time, given as ISO 8601 (UTC without a zone) or ms since the epoch; None if it is omitted."""
    text = query.get(name, "").strip()
    if not text:
        return None
    return dt.datetime.fromtimestamp(parse_time(name, text, zone=dt.UTC) / 1000, dt.UTC)


#: Columns of an exported audit trail.
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
    "request_id",
)
