"""Database rows of the processed landing files; see `models.ProcessedFiles`."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from console.history.models import ProcessedFiles
from console.history.pipeline.due_work import Processed, all_of
from console.history.storage.landing_listing import LandedFile


def processed_files() -> dict[str, Processed]:
    """Return them by broker."""
    return {
        row.broker: Processed(row.orders, frozenset(row.others), row.is_open) for row in ProcessedFiles.objects.all()
    }


def note_processed(
    before: Iterable[LandedFile],
    after: Iterable[LandedFile],
    brokers: Collection[str] = (),
    active: Collection[str] = (),
) -> None:
    """Record that a run has processed all files that were there `before`. `after`: the files that are there now;
    `brokers`: those that were run, also without files; `active`: those whose recorder's hour the run left open."""
    present = {file.identity for file in after}
    found = all_of(before)
    # Without files, none has landed since the last run: its recorder is not active, whatever its clock says.
    ProcessedFiles.objects.filter(broker__in=set(brokers) - set(found)).update(is_open=False)
    for broker, its in found.items():
        values = {"orders": dict(its.orders), "others": sorted(its.others & present), "is_open": broker in active}
        ProcessedFiles.objects.update_or_create(broker=broker, defaults=values)
