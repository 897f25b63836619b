"""Import what an installation with SQLite, or of an earlier version, has stored of a broker in files.

The process that owns the broker's lease does it before it opens the records in the database. An import that is
interrupted begins again; the files are renamed when it is complete. Where the database already has other records of the
broker, the files' stops are added to them: what they stopped has to be started some time.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from django.db import transaction

from brokers.adapters.file_records import FILES, FileRecords
from brokers.adapters.records import NotStored, Stop, StoppedTarget
from console.brokers.database_records import BATCH, add_events, event_row, opened, remember, replace_stops
from console.brokers.models import BrokerEvent, BrokerRecords
from console.leases import lease

log = logging.getLogger(__name__)


def import_files(folder: Path, slug: str, lease_name: str, keep_alive: Callable[[], object]) -> None:
    """Import the files of a folder, if there are any. `keep_alive`: called every few hundred events, extends the
    lease. Raises StoreError if they cannot be read, NotStored without the lease, DatabaseError."""
    if not (folder / FILES[0]).exists():
        return
    files = FileRecords(folder)
    try:
        with transaction.atomic():
            _require(lease_name, slug)
            row = BrokerRecords.objects.filter(slug=slug).first()
        if row is None or not row.identity:
            _import_all(files, slug, keep_alive)
        elif row.identity != files.identity and not files.is_abandoned:
            _add_stops(files, slug, lease_name)
    finally:
        files.close()
    for name in FILES:
        (folder / name).rename(folder / f"{name}.imported")
    log.info("imported %s", folder)


def _require(lease_name: str, slug: str) -> None:
    if not lease.owns(lease_name):
        raise NotStored(f"another process hosts {slug} now")


def _import_all(files: FileRecords, slug: str, keep_alive: Callable[[], object]) -> None:
    """Until the last transaction the records have no identity, and are not opened as they are."""
    writer, size = uuid.uuid4().hex, 0
    mine = BrokerRecords.objects.filter(slug=slug, writer=writer)
    with transaction.atomic():
        BrokerRecords.objects.update_or_create(slug=slug, defaults={"identity": "", "writer": writer})
        BrokerEvent.objects.filter(slug=slug).delete()
    after = files.first - 1
    while events := files.read(after, BATCH):
        rows = [event_row(e.number, (e.at, e.kind, e.object, e.text, e.attributes)) for e in events]
        with transaction.atomic():
            if not mine.update(writer=writer):
                raise NotStored(f"another process hosts {slug} now")
            add_events(slug, rows)
        after, size = events[-1].number, size + sum(length for _, _, length, _ in rows)
        keep_alive()
    with transaction.atomic():
        values = {"identity": files.identity, "first": files.first, "last": files.last, "size": size}
        if not mine.update(**values):
            raise NotStored(f"another process hosts {slug} now")
        remember(slug, files.known())
        if files.is_abandoned:
            return
        replace_stops(slug, "stop", [each.record() for each in files.stops()])
        replace_stops(slug, "target", [each.record() for each in files.targets()])
        replace_stops(slug, "change", [each.record() for each in files.unannounced()])


def _add_stops(files: FileRecords, slug: str, lease_name: str) -> None:
    log.warning("the database has other events of %s than its files: only the stops of the files are imported", slug)
    records = opened(slug, lease_name, lambda work: work())
    stops: dict[object, Stop] = {stop.scope: stop for stop in files.stops()}
    stops.update({stop.scope: stop for stop in records.stops()})
    targets: dict[str, StoppedTarget] = {each.target.id: each for each in records.targets()}
    for each in files.targets():
        known = targets.get(each.target.id)
        targets[each.target.id] = each if known is None else replace(known, scopes=known.scopes | each.scopes)
    records.save_stops(stops.values(), targets.values(), [*records.unannounced(), *files.unannounced()])
