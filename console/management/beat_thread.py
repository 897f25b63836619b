"""The thread in which Celery's scheduler sends due tasks. It sleeps until the next one is due, or for
`CELERY_BEAT_MAX_LOOP_INTERVAL`, within which it notices a task that was saved; and ends at once when it is stopped.

Celery's own thread cannot be interrupted in its sleep, and looks at the schedule each second instead.
"""

from __future__ import annotations

import threading

from celery import Celery
from celery.beat import Service


class BeatThread(threading.Thread):
    """See the module."""

    def __init__(self, app: Celery) -> None:
        super().__init__(name="Beat", daemon=True)
        self._app = app
        self._stopped = threading.Event()

    def run(self) -> None:
        self._app.set_current()
        scheduler = Service(self._app, scheduler_cls=self._app.conf.beat_scheduler).scheduler
        try:
            while not self._stopped.is_set():
                seconds = scheduler.tick() or 0
                if seconds > 0:
                    self._stopped.wait(seconds)
                    if scheduler.should_sync():
                        scheduler._do_sync()
        finally:
            scheduler.close()

    def stop(self) -> None:
        """End after the present task; `join` waits for that."""
        self._stopped.set()
