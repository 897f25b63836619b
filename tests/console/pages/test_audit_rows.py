"""Values before and after a change in a row of the audit page."""

from __future__ import annotations

from typing import Any

import pytest

from console.audit.models import AuditEntry
from console.pages.audit import _shown

SCHEDULE = {"name": "night", "pattern": "", "once": None, "days": [], "lasts": 60}


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ({}, SCHEDULE, [("name", None, "night"), ("lasts", None, "60")]),
        (None, SCHEDULE, [("name", None, "night"), ("lasts", None, "60")]),
        (SCHEDULE, {}, [("name", "night", None), ("lasts", "60", None)]),
        (SCHEDULE, {**SCHEDULE, "pattern": "a.>", "lasts": None}, [("pattern", "", "a.>"), ("lasts", "60", "not set")]),
        ({}, {"kinds": ["flapping", "full-soon"]}, [("kinds", None, "flapping, full-soon")]),
        ({}, {"dead_letter_queue": "", "spool": None}, [("dead_letter_queue", None, "none")]),
        ({"dead_letter_queue": None}, {"dead_letter_queue": ""}, [("dead_letter_queue", "not set", "")]),
    ],
)
def test_creations_and_deletions_show_only_values_that_are_set(
    before: Any, after: Any, shown: list[tuple[str, str | None, str | None]]
) -> None:
    assert _shown(AuditEntry(before=before, after=after)) == shown
