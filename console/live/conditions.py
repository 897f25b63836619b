"""Filter and paginate the active conditions of a broker, for the page of conditions and the API. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from console.conditions.active import Condition

#: Conditions on one page: default and limit.
USUAL, MOST = 50, 500


def filtered(
    conditions: Sequence[Condition], *, about: str = "", kind: str = "", severity: str = "", search: str = ""
) -> list[Condition]:
    """Return the conditions that match all given filters: object, kind, severity, and text in the object's name."""
    needle = search.strip().casefold()
    return [
        condition
        for condition in conditions
        if about in ("", condition.finding.object)
        and kind in ("", condition.finding.kind)
        and severity in ("", condition.finding.severity)
        and needle in condition.finding.object.casefold()
    ]


def conditions_page(
    conditions: Sequence[Condition], *, page: int = 1, size: int = USUAL, **filters: str
) -> dict[str, Any]:
    """Return {results, count, page, page_size, kinds}, the most severe first. `kinds`: kind -> number of conditions,
    regardless of filters. A page beyond the last is the last; `filters`: as for `filtered`."""
    shown = page_of(filtered(conditions, **filters), page, size)
    results = [condition.as_json() for condition in shown.pop("results")]
    return {**shown, "results": results, "kinds": dict(Counter(condition.finding.kind for condition in conditions))}


def page_of(found: Sequence[Any], page: int, size: int) -> dict[str, Any]:
    """Return {count, page, page_size, results}. A page beyond the last is the last."""
    page = min(page, max(1, math.ceil(len(found) / size)))
    return {
        "count": len(found),
        "page": page,
        "page_size": size,
        "results": found[(page - 1) * size : page * size],
    }
