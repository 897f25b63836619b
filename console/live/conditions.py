"""What the page of conditions shows: a page of what looks wrong at a broker, filtered. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from console.conditions.active import Condition

#: Conditions on one page, unless it asks for fewer or more, and at most.
USUAL, MOST = 50, 500


def chosen(
    conditions: Sequence[Condition], *, about: str = "", kind: str = "", severity: str = "", search: str = ""
) -> list[Condition]:
    """Those of an object, a kind, a severity, and with the text in the object's name, as far as each is asked for."""
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
    conditions: Sequence[Condition], *, page: int = 1, size: int = USUAL, **asked: str
) -> dict[str, Any]:
    """{results, count, page, page_size, kinds}: trouble first. `kinds`: how many there are of each, whatever is asked
    for. A page behind the last one is the last one."""
    found = chosen(conditions, **asked)
    page = min(page, max(1, math.ceil(len(found) / size)))
    return {
        "count": len(found),
        "page": page,
        "page_size": size,
        "results": [condition.as_json() for condition in found[(page - 1) * size : page * size]],
        "kinds": dict(Counter(condition.finding.kind for condition in conditions)),
    }
