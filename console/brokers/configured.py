"""The brokers of this console: those of the settings, then those that administrators added.

The table is read by `refresh`, in every process when it starts, after a change that it makes, and every two seconds
(`follow`). What is configured in between is read without the database, also from coroutines.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection

log = logging.getLogger(__name__)

#: Seconds between two looks at the table.
LOOK_SECONDS = 2.0

_added: tuple[dict[str, Any], ...] = ()
_on_change: list[Callable[[], None]] = []
_reading = threading.Lock()


def configured() -> list[dict[str, Any]]:
    """Return every broker, the default one first: `slug`, `title`, `connect` and `options` (see the settings); those
    that were added also have `kind`, `tags` and `paused`, and their types are not known before the first connection."""
    own: list[dict[str, Any]] = settings.HEADGATE_BROKERS
    slugs = {entry["slug"] for entry in own}
    return [*own, *(entry for entry in _added if entry["slug"] not in slugs)]


def slugs() -> list[str]:
    return [entry["slug"] for entry in configured()]


def configured_now() -> list[str]:
    """Return the slugs as the table has them now, for commands. Before the console's first start there is no table, and
    so no broker but those of the settings."""
    _try(quiet=True)
    return slugs()


def refresh() -> None:
    """Read the table; call the listeners if it has changed. Raises DatabaseError."""
    global _added
    from console.brokers.models import ForeignBroker

    with _reading:
        rows = ForeignBroker.objects.defer("encrypted", "authority").select_related("served")
        found = tuple(_entry(row) for row in rows)
        changed, _added = found != _added, found
        _mark(bool(found))
    if changed:
        for call in list(_on_change):
            call()


def on_change(call: Callable[[], None]) -> None:
    """Call a function after each change; once, however often it is registered."""
    if call not in _on_change:
        _on_change.append(call)


def follow() -> threading.Event:
    """Refresh now and then every two seconds, in a thread, until the returned event is set."""
    ended = threading.Event()
    _try()
    threading.Thread(target=_look, args=[ended], name="configured-brokers", daemon=True).start()
    return ended


def _look(ended: threading.Event) -> None:
    failed = False
    while not ended.wait(LOOK_SECONDS):
        failed = not _try(quiet=failed)
    connection.close()


def _try(*, quiet: bool = False) -> bool:
    """Refresh, if the database answers: what was read before stays valid. Logs a failure unless `quiet`."""
    try:
        refresh()
    except DatabaseError as error:
        if not quiet:
            log.warning("the configured brokers cannot be read: %s", error)
        connection.close()
        return False
    return True


def _mark(needed: bool) -> None:
    """Create or remove the file by which `headgate up` knows that the adapters' process is needed: it uses no
    database. An unwritable folder is that process's to report."""
    marker = Path(settings.HEADGATE_ADAPTERS["data"]) / "needed"
    if marker.exists() != needed:
        with contextlib.suppress(OSError):
            if needed:
                marker.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                marker.touch()
            else:
                marker.unlink()


def _entry(row: Any) -> dict[str, Any]:
    return {
        "slug": row.slug,
        "title": row.title,
        "kind": row.kind,
        "tags": row.tags,
        "paused": row.paused,
        "types_known": False,
        "connect": settings.HEADGATE_ADAPTERS["connect"],
        "options": {"name": row.slug, "paused": row.paused, "served": _served(row)},
    }


def _served(row: Any) -> tuple[str, str, int, str, str] | None:
    """Return process, host, port, encrypted password and certificate of where the broker is served, see
    `ServedBroker`; None if no process hosts it."""
    found = getattr(row, "served", None)  # a related object that is missing is an AttributeError, too
    return found and (found.process, found.host, found.port, found.encrypted, found.certificate)
