"""Firing alerts for pages that want browser notifications. A process reads them once for all of its pages, in a thread
of its own: a database that hangs delays no frame of a page.

`console/asgi.py` sets `source`: this package does not know where alerts are stored.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from django.db import close_old_connections

from console.permissions.rights import Rights

log = logging.getLogger(__name__)

#: Seconds between two reads, and between two looks of a page.
EVERY = 3.0
#: Seconds after which a page looks again while nothing has been read yet.
SOON = 0.25
#: Seconds after which alerts that were read count as unknown: no page followed them, or the database hangs.
STALE = 15.0

#: An alert: `broker` and `object` for its visibility, the other values for the page.
Firing = dict[str, Any]


@dataclass(slots=True)
class FiringAlerts:
    """`read`: returns all firing alerts, newest first; `is_visible`: returns whether a user may see one; `most`: those
    that a page gets."""

    read: Callable[[], list[Firing]]
    is_visible: Callable[[Rights, Firing], bool]
    most: int = 200
    executor: Executor = field(default_factory=lambda: ThreadPoolExecutor(1, "firing-alerts"))
    _found: list[Firing] | None = None
    _found_at: float = float("-inf")
    _read_at: float = float("-inf")
    _reading: Future[None] | None = None

    def visible(self, rights: Rights) -> list[Firing] | None:
        """Return the newest firing alerts that a user may see, as last read; None: they are not known yet. Begins to
        read them again if that was a while ago."""
        under_way = self._reading is not None and not self._reading.done()
        if not under_way and time.monotonic() - self._read_at >= EVERY:
            self._reading = self.executor.submit(self._read)
        found = self._found
        if found is None or time.monotonic() - self._found_at > STALE:
            return None
        return list(islice((each for each in found if self.is_visible(rights, each)), self.most))

    def _read(self) -> None:
        close_old_connections()
        try:
            self._found, self._found_at = self.read(), time.monotonic()
        except Exception as error:  # of the database or its driver: the next read may succeed
            log.warning("the firing alerts could not be read: %s", error)
        finally:
            self._read_at = time.monotonic()
            close_old_connections()


source: FiringAlerts | None = None
