"""Database rows of the processed landing files; see `models.ProcessedFiles`."""

from __future__ import annotations

from collections.abc import Iterable

from console.history.models import ProcessedFiles
from console.history.pipeline.due_work import Processed, all_of
from console.history.storage.landing_listing import LandedFile


def processed_files() -> dict[str, Processed]:
    """Return them by broker."""
    return {row.broker: Processed(row.orders, frozenset(row.others)) for row in ProcessedFiles.objects.all()}


def note_processed(before: Iterable[LandedFile], after: Iterable[LandedFile]) -> None:
    """Record that a run has processed all files that were there `before`. `after`: the files that are there now."""
    present = {file.identity for file in after}
    for broker, its in all_of(before).items():
        values = {"orders": dict(its.orders), "others": sorted(its.others & present)}
        ProcessedFiles.objects.update_or_create(broker=broker, defaults=values)
