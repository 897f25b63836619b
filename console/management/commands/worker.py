"""`headgate worker`: the Celery worker for background and scheduled tasks (`headgate beat`)."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from django.core.management.base import BaseCommand

from console.management.ready import require_database

#: Threads. Maintenance jobs of the history may occupy three of them for hours, deliveries of alerts to receivers that
#: hang four (`console/alerts/lanes.py`); bulk edits run in slices. So there is always one for schedules.
THREADS = 10


class Command(BaseCommand):
    help = "Deliver alerts, run bulk edits, message jobs, schedules and maintenance jobs of the history."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        from celery.concurrency import get_implementation
        from celery.platforms import SecurityWarning

        from console.brokers.configured import follow
        from console.celery import app
        from console.health.presence import show_worker
        from console.links.registry import close_links

        require_database()
        # A warning about pickled messages as root; only JSON is accepted.
        warnings.simplefilter("ignore", SecurityWarning)
        # Tasks mostly wait for brokers, receivers and other processes, so threads of one process suffice.
        # Celery's command line would do the same, and load 14 MB for its other commands.
        worker = app.Worker(
            pool_cls=get_implementation("threads"),
            concurrency=THREADS,
            loglevel="WARNING",
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
        )
        follow()
        try:
            with show_worker():
                worker.start()
        finally:
            close_links()
        sys.exit(worker.exitcode)
